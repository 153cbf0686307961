"""Both databases come from every earlier version to the present one, and are then as if they were made new."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from pydantic import SecretStr

from memsvc.domain.memory import Layer, Origin
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, insert, revise
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings
from memsvc_backends.sql.migrate import HEAD, MIGRATIONS, upgrade
from tests.support.postgres_server import schema

Look = dict[str, list[tuple[Any, ...]]]

SQLITE_LOOK = {
    "tables": "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version' ORDER BY 1",
    "counters": "SELECT one, last_row, last_position, length(store_id) FROM counters",
    "version": "SELECT version_num FROM alembic_version",
}
POSTGRES_LOOK = {
    "columns": "SELECT table_name, ordinal_position, column_name, data_type, collation_name, is_nullable,"
    " column_default FROM information_schema.columns WHERE table_schema = current_schema()"
    " AND table_name != 'alembic_version' ORDER BY 1, 2",
    "indexes": "SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes"
    " WHERE schemaname = current_schema() AND tablename != 'alembic_version' ORDER BY 1",
    "counters": SQLITE_LOOK["counters"],
    "version": SQLITE_LOOK["version"],
}
FIRST = ("memories", "revisions", "outbox")
"""The tables of the first version in which something is kept."""


def earlier_versions() -> list[str]:
    """Return the versions before the present one."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return sorted(one.revision for one in ScriptDirectory.from_config(config).walk_revisions() if one.revision != HEAD)


@contextmanager
def _connected(settings: SqlSettings) -> Iterator[sa.Connection]:
    url = settings.url.get_secret_value() if settings.url else f"sqlite:///{settings.path}"
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection, connection.begin():
        yield connection
    engine.dispose()


def _look(settings: SqlSettings) -> Look:
    looks = POSTGRES_LOOK if settings.url else SQLITE_LOOK
    with _connected(settings) as connection:
        rows = {name: connection.exec_driver_sql(look).all() for name, look in looks.items()}
    return {name: [tuple(" ".join(str(part).split()) for part in row) for row in found] for name, found in rows.items()}


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SqlSettings, SqlSettings]]:
    """Give two empty places for databases of one sort."""
    if request.param == "sqlite":
        yield SqlSettings(path=tmp_path / "one.db"), SqlSettings(path=tmp_path / "other.db")
        return
    with schema() as one, schema() as other:
        yield SqlSettings(url=SecretStr(one)), SqlSettings(url=SecretStr(other))


@pytest.mark.parametrize("version", earlier_versions())
def test_every_earlier_version_becomes_the_present_one(
    places: tuple[SqlSettings, SqlSettings], version: str, context: BackendContext
) -> None:
    """Tables, columns with their defaults and collations, and indexes with their conditions are those of a new one."""
    old, new = places
    with _connected(old) as connection:
        upgrade(connection, version)
    for place in places:
        with SQL.open(place, context) as store:
            [memory] = insert(store, factories.memory("kept", key="k"))
            assert store.memories.get_by_key("k", reach=ADA) == memory
            assert store.feed.head() == 1

    assert _look(old) == _look(new)


def test_what_a_first_version_stored_is_kept(places: tuple[SqlSettings, SqlSettings], context: BackendContext) -> None:
    """Memories, their revisions and the changes are there after the migration, with their owners."""
    old, new = places
    with _connected(old) as connection:
        upgrade(connection, "0001")
    with SQL.open(new, context) as store:
        private = factories.memory("private", layer=Layer.SESSION, session_id="s", project_id="web", key="k")
        [memory] = insert(store, private)
        changed = revise(store, memory, title="T")
    if new.path and old.path:
        _copy_first_version_of_sqlite(new.path, old.path)
    else:
        _copy_first_version_of_postgres(new, old)

    with SQL.open(old, context) as store:
        assert isinstance(store, SqlMetadataStore)
        page = store.changes.after(0, reach=ADA, limit=9)
        states = store.changes.states([(memory.row, 1), (memory.row, 2)])

    known: dict[str, Any] = {"origin": Origin.AGENT, "trust": 0.8}
    assert [(one.change.revision, one.private_session) for one in page.changes] == [(1, "s"), (2, "s")]
    assert states == {
        (memory.row, 1): replace(memory, **known),
        (memory.row, 2): replace(changed, **known),
    }


def _copy_first_version_of_postgres(source: SqlSettings, target: SqlSettings) -> None:
    """Copy what the first version had columns for; snapshots lack what came later."""
    with _connected(source) as connection:
        there = connection.exec_driver_sql("SELECT current_schema()").scalar_one()
    with _connected(target) as connection:
        for table in FIRST:
            names = ", ".join(f'"{column["name"]}"' for column in sa.inspect(connection).get_columns(table))
            connection.exec_driver_sql(f'INSERT INTO {table} ({names}) SELECT {names} FROM "{there}".{table}')  # noqa: S608 - our own names
        connection.exec_driver_sql("UPDATE counters SET last_row = 1, last_position = 2")
        later = " - ".join(f"'{name}'" for name in ("origin", "trust", "derived_from", "review", "reminder"))
        connection.exec_driver_sql(f"UPDATE revisions SET snapshot = (snapshot::jsonb - {later})::text")  # noqa: S608 - as above


def _copy_first_version_of_sqlite(source: Path, target: Path) -> None:
    """Copy what the first version had columns for; snapshots lack what came later."""
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("ATTACH ? AS new", (str(source),))
        for table in FIRST:
            names = ", ".join(f'"{row[1]}"' for row in connection.execute(f"PRAGMA main.table_info({table})"))
            connection.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM new.{table}")  # noqa: S608 - our own names
        connection.execute("UPDATE main.counters SET last_row = 1, last_position = 2")
        later = "'$.origin', '$.trust', '$.derived_from', '$.review', '$.reminder'"
        connection.execute(f"UPDATE main.revisions SET snapshot = json_remove(snapshot, {later})")  # noqa: S608 - as above
