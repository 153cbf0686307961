"""The migrations create the tables that the code uses, and databases of unknown versions are refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from memsvc.domain.memory import Recurrence, Reminder
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, insert, revise
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.database import SchemaVersionError
from memsvc_backends.sql.migrate import HEAD, MIGRATIONS, upgrade
from memsvc_backends.sql.tables import metadata

OPEN = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from memsvc_backends.sql import SQL, SqlSettings
from memsvc.ports.plugin import BackendContext

with SQL.open(SqlSettings(), BackendContext(Path(sys.argv[1]), lambda: datetime.now(UTC))) as store:
    store.ping()
print([name for name in ("alembic", "sqlalchemy.orm") if name in sys.modules])
"""


def _version(context: BackendContext, version: str | None = None) -> list[str]:
    with closing(sqlite3.connect(context.directory / "memsvc.db")) as connection, connection:
        if version is not None:
            connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        return [row[0] for row in connection.execute("SELECT version_num FROM alembic_version")]


def test_head_is_the_newest_migration() -> None:
    """The version in the code is that of the newest file in the folder, and there is one line of versions."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")

    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_migrations_make_the_tables(context: BackendContext) -> None:
    """A migrated database and the tables in the code do not differ: columns, types and indexes."""
    with _migrated(context) as connection:
        migration = MigrationContext.configure(connection, opts={"compare_type": True})

        assert compare_metadata(migration, metadata) == []


@contextmanager
def _migrated(context: BackendContext) -> Iterator[sa.Connection]:
    """Lend a connection to a database that all migrations made."""
    context.directory.mkdir(exist_ok=True)
    engine = sa.create_engine(f"sqlite:///{context.directory / 'migrated.db'}")
    with engine.connect() as connection, connection.begin():
        upgrade(connection)
        yield connection
    engine.dispose()


def test_up_to_date_database_is_left_alone(context: BackendContext) -> None:
    """Opening again keeps everything, and does not spend time on importing the migration tool."""
    with SQL.open(SqlSettings(), context) as store:
        [memory] = insert(store, factories.memory())
    with SQL.open(SqlSettings(), context) as store:
        assert store.memories.get([memory.id], reach=ADA) == {memory.id: memory}

    arguments = [sys.executable, "-W", "error", "-c", OPEN, str(context.directory)]
    imported = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert imported == "[]\n"


def test_newer_database_is_refused(context: BackendContext) -> None:
    """A database of a version that the code does not know is left as it is, and the error says what to do."""
    with SQL.open(SqlSettings(), context):
        pass
    _version(context, "9999")

    with pytest.raises(SchemaVersionError, match=r"'9999'.*update memsvc"), SQL.open(SqlSettings(), context):
        pass
    assert _version(context) == ["9999"]


def test_a_database_of_a_build_between_two_releases_is_refused(context: BackendContext) -> None:
    """Its version is the newest one, and it lacks a column; the error names it, and nothing is changed."""
    with SQL.open(SqlSettings(), context):
        pass
    with closing(sqlite3.connect(context.directory / "memsvc.db")) as connection, connection:
        connection.execute("ALTER TABLE messages DROP COLUMN extracted")

    refused = rf"{HEAD!r} and lacks messages\.extracted: .*memsvc user export"
    with pytest.raises(SchemaVersionError, match=refused), SQL.open(SqlSettings(), context):
        pass
    assert _version(context) == [HEAD]


def test_tables_and_columns_of_others_are_no_fault(context: BackendContext) -> None:
    """An operator may have added some."""
    with SQL.open(SqlSettings(), context):
        pass
    with closing(sqlite3.connect(context.directory / "memsvc.db")) as connection, connection:
        connection.execute("ALTER TABLE messages ADD COLUMN note TEXT")
        connection.execute("CREATE TABLE notes (note TEXT)")

    with SQL.open(SqlSettings(), context) as store:
        store.ping()


def test_reminder_of_an_earlier_version_is_read(context: BackendContext) -> None:
    """Memories and revisions whose reminder lacks its last fields are read, and these have their defaults."""
    reminder = Reminder(6, 12, 2027, Recurrence.YEARLY, phrase="on June 12")
    with SQL.open(SqlSettings(), context) as store:
        [first] = insert(store, factories.memory(reminder=reminder))
        second = revise(store, first, title="Wedding")
    # Until November 2026 a reminder ended with its phrase.
    with closing(sqlite3.connect(context.directory / "memsvc.db")) as connection, connection:
        connection.execute("UPDATE memories SET reminder = replace(reminder, ',false]', ']')")
        connection.execute("UPDATE revisions SET snapshot = replace(snapshot, ',false]', ']')")
        [(text,)] = connection.execute("SELECT reminder FROM memories")
    assert text.endswith('"on June 12"]')

    with SQL.open(SqlSettings(), context) as store:
        assert store.memories.get([first.id], reach=ADA) == {first.id: second}
        found = store.memories.revisions(first.id, reach=ADA, before=None, limit=9)
    assert [one.memory for one in found] == [second, first]
