"""Bringing a database to the version of the tables that this code knows.

A new database gets the tables as they are now; migrations, which end with the very same statements, are for databases
that hold something. So only those wait for Alembic, which takes most of a second to import.
"""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from memsvc_backends.sql.database import Database, SchemaVersionError
from memsvc_backends.sql.tables import counters, metadata

HEAD = "0016"
"""The newest migration; a test compares it with the folder."""
MIGRATIONS = Path(__file__).parent / "migrations"
BYTES = "C"
"""The collation that compares texts by their bytes, which are in the order of their characters."""
_TEXTS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND data_type = 'text' AND coalesce(collation_name, '') != 'C'"
)

_versions = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


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
            # Looked at again in the line of writers: another process may have done it meanwhile.
            if _version(connection) == HEAD:
                return
            if sa.inspect(connection).get_table_names():
                upgrade(connection)
            else:
                _create(connection)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return version


def _create(connection: sa.Connection) -> None:
    create_tables(connection)
    create_indexes(connection)
    connection.execute(sa.insert(counters).values(one=1, last_row=0, last_position=0, store_id=uuid.uuid4().hex))


def create_tables(connection: sa.Connection) -> None:
    """Create the tables as they are now, without a row, and with no indexes but those of their keys."""
    for statement in _table_statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
    connection.execute(sa.insert(_versions).values(version_num=HEAD))


def create_indexes(connection: sa.Connection) -> None:
    """Create all other indexes."""
    for statement in _index_statements(connection.dialect.name):
        connection.exec_driver_sql(statement)


@cache
def _table_statements(dialect: str) -> tuple[str, ...]:
    """Return what makes every table; compiling it takes longer than running it."""
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
    """Return *table* with texts that compare as SQLite compares them, whatever language the database was made for."""
    copy = table.to_metadata(sa.MetaData())
    for column in copy.columns:
        if isinstance(column.type, sa.Text):
            column.type = sa.Text(collation=BYTES)
    return copy


def _sort_by_bytes(connection: sa.Connection) -> None:
    """Make the texts that migrations made in PostgreSQL what `_sorted_by_bytes` makes of them."""
    found: dict[str, list[str]] = {}
    for table, column in connection.exec_driver_sql(_TEXTS):
        if table in metadata.tables:
            found.setdefault(table, []).append(f'ALTER COLUMN "{column}" TYPE text COLLATE "{BYTES}"')
    for table, changes in found.items():
        connection.exec_driver_sql(f'ALTER TABLE "{table}" {", ".join(changes)}')


def upgrade(connection: sa.Connection, target: str = "head") -> None:
    """Run the migrations up to *target*, from none at all if there are no tables yet.

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
        message = f"The database has the version {found!r}; this memsvc knows versions up to {HEAD!r}: update memsvc."
        raise SchemaVersionError(message)
    command.upgrade(config, target)
    if connection.dialect.name == "postgresql":
        _sort_by_bytes(connection)
