"""Creation and migration of the tables.

A new database is created directly from `tables.py`; the migrations, which create the very same tables, are for
databases of an earlier version. So only those need Alembic, which takes most of a second to import.
"""

from __future__ import annotations

import logging
import uuid
from functools import cache
from pathlib import Path
from time import perf_counter

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from memsvc.domain.errors import StoreMissingError
from memsvc.ports.plugin import KnownStore
from memsvc_backends.sql.database import Database, SchemaVersionError
from memsvc_backends.sql.dialect import columns_of, execute, has_table
from memsvc_backends.sql.tables import api_keys, counters, files, metadata, sessions

HEAD = "0017"
"""The newest migration; a test compares it with the folder."""
MIGRATIONS = Path(__file__).parent / "migrations"
BYTES = "C"
"""The collation that compares texts by their bytes, which are in the order of their characters."""

_NAMED = 5
"""Missing columns that an error names."""

_log = logging.getLogger(__name__)

_CONTENT = (api_keys, sessions, files)
"""Tables with content that has no position in the log of changes."""

_versions = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


def bring_up_to_date(database: Database, known: KnownStore | None = None) -> None:
    """Create or migrate the tables in one transaction when they are not at `HEAD`.

    With *known* nothing is created, and a store with another identity must have been written to.

    Raises:
        SchemaVersionError: The database is newer than this code, or a build from between two releases made it.
        BackendUnavailableError: The database cannot be opened.
        StoreMissingError: The store is new or empty, and not the known one.
    """
    with database.read_connection() as connection:
        found = _version(connection)
    if found != HEAD:
        # The migration of a large store takes minutes, and other servers wait for it.
        with (
            database.write_transaction(is_limited=False) as connection,
            database.driver.keep_alive(connection),
        ):
            # Read again under the writers' lock: another process may have created or migrated them since.
            found = _version(connection)
            if found is None:
                if known is not None:
                    message = "The database of the store has no tables"
                    raise StoreMissingError(message, str(known.record))
                _create(connection)
            elif found != HEAD:
                upgrade(connection)
    with database.read_connection() as connection:
        _require_columns(connection)
        if known is not None:
            _require_content(connection, known)


def _require_columns(connection: sa.Connection) -> None:
    """Return if the tables have every column that this code uses.

    Raises:
        SchemaVersionError: They have not, although the version says so: a build from between two releases made them.
    """
    there = columns_of(connection)
    missing = [
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if column.name not in there.get(table.name, ())
    ]
    if missing:
        message = (
            f"The database has the version {HEAD!r} and lacks {', '.join(missing[:_NAMED])}: a build from before the "
            "release made it. Restore a backup of a released version; or run the build that made it, `memsvc user "
            "export` each user, and import these into a new database. Nothing was changed."
        )
        raise SchemaVersionError(message)


def _require_content(connection: sa.Connection, known: KnownStore) -> None:
    identity, position = execute(connection, sa.select(counters.c.store_id, counters.c.last_position)).one()
    if identity == known.identity or position:
        return
    if not any(execute(connection, sa.select(sa.exists().select_from(table))).scalar_one() for table in _CONTENT):
        message = "The database of the store is new and empty"
        raise StoreMissingError(message, str(known.record))


def _version(connection: sa.Connection) -> str | None:
    if not has_table(connection, "alembic_version"):
        return None
    if not has_table(connection, counters.name):
        message = (
            "The table alembic_version of the database belongs to another application; nothing was changed. Give "
            "memsvc a schema or a database of its own."
        )
        raise SchemaVersionError(message)
    version: str | None = execute(connection, "SELECT version_num FROM alembic_version").scalar()
    return version


def _create(connection: sa.Connection) -> None:
    create_tables(connection)
    create_indexes(connection)
    execute(connection, sa.insert(counters).values(one=1, last_row=0, last_position=0, store_id=uuid.uuid4().hex))


def create_tables(connection: sa.Connection) -> None:
    """Create the tables without rows, and with no indexes but those of their keys."""
    for statement in _table_statements(connection.dialect.name):
        execute(connection, statement)
    execute(connection, sa.insert(_versions).values(version_num=HEAD))


def create_indexes(connection: sa.Connection) -> None:
    """Create all other indexes."""
    for statement in _index_statements(connection.dialect.name):
        execute(connection, statement)


@cache
def _table_statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that create every table; compiling them takes longer than running them."""
    tables = (*metadata.sorted_tables, _versions)
    made = (CreateTable(_sorted_by_bytes(table) if dialect == "postgresql" else table) for table in tables)
    return tuple(str(one.compile(dialect=_compiler(dialect))) for one in made)


@cache
def _index_statements(dialect: str) -> tuple[str, ...]:
    indexes = [index for table in metadata.sorted_tables for index in table.indexes]
    made = (CreateIndex(index) for index in sorted(indexes, key=lambda one: str(one.name)))
    return tuple(str(one.compile(dialect=_compiler(dialect))) for one in made)


def _compiler(dialect: str) -> sa.Dialect:
    made: sa.Dialect = sa.make_url(f"{dialect}://").get_dialect()()
    return made


def _sorted_by_bytes(table: sa.Table) -> sa.Table:
    """Return *table* with texts that PostgreSQL compares by their bytes, as SQLite does, whatever its locale."""
    copy = table.to_metadata(sa.MetaData())
    for column in copy.columns:
        if isinstance(column.type, sa.Text):
            column.type = sa.Text(collation=BYTES)
    return copy


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that a database lacks; all of them when it has no tables.

    Raises:
        SchemaVersionError: The database is newer than this code.
    """
    # Alembic takes most of a second to import, and is needed once for each version in the life of a database.
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
        message = (
            f"The database has the version {found!r}; this memsvc knows versions up to {HEAD!r}: update memsvc, or "
            "restore a backup that this version made. Nothing was changed."
        )
        raise SchemaVersionError(message)
    began = perf_counter()
    _log.info("migrating the tables from version %s to %s; calls are served after that", found, HEAD)
    command.upgrade(config, "head")
    _log.info("migrated the tables to version %s in %.1f s", HEAD, perf_counter() - began)
