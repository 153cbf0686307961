"""Bringing a database to the version of the tables that this code knows."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from backends.sql.database import Database
from backends.sql.errors import SchemaVersionError

HEAD = "0007"
"""The newest migration; a test compares it with the folder."""
MIGRATIONS = Path(__file__).parent / "migrations"


def bring_up_to_date(database: Database) -> None:
    """Create or migrate the tables when they are not at `HEAD`, all of it or nothing.

    Raises:
        SchemaVersionError: The database is newer than this code.
        BackendUnavailableError: The database cannot be opened.
    """
    with database.reading() as connection:
        found = _version(connection)
    if found != HEAD:
        with database.writing() as connection:
            _upgrade(connection)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return version


def _upgrade(connection: sa.Connection) -> None:
    # Alembic takes most of a second to import, and is needed once in the life of a database.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = _version(connection)
    if found is not None and found not in known:
        message = f"The database has the version {found!r}; this memsvc knows versions up to {HEAD!r}: update memsvc."
        raise SchemaVersionError(message)
    command.upgrade(config, "head")
