"""Alembic's environment: runs the migrations in the transaction of the given connection."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True, transactional_ddl=False)
context.run_migrations()
