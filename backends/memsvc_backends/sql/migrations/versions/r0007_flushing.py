"""Up to where a session was flushed. Frozen: what comes later is a step of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the column, and the numbers of tokens to the index of live messages, which are summed up by it."""
    op.add_column("sessions", sa.Column("flushed_ordinal", _Number, nullable=False, server_default="0"))
    op.drop_index("messages_live", table_name="messages")
    is_live = sa.text("state = 'ACTIVE'")
    columns = ["session_row", "ordinal", "token_count"]
    op.create_index("messages_live", "messages", columns, sqlite_where=is_live, postgresql_where=is_live)
