"""SQLite and PostgreSQL: a database that is created and one that is migrated are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from memsvc.domain.api_keys import QuotaSubject
from memsvc.domain.filters import Field, Range
from memsvc.domain.memory import FileRef, Status
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, insert
from memsvc.text.ranking_cues import pack_cues
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.migrate import upgrade
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


def test_a_new_database_is_as_the_migrations_create_it(
    places: tuple[SqlSettings, SqlSettings], context: BackendContext
) -> None:
    """Tables, columns with their collations, indexes with their conditions, and the counters are the same."""
    migrated, new = places
    with _connected(migrated) as connection:
        upgrade(connection)
    for place in places:
        with SQL.open(place, context) as store:
            [memory] = insert(store, factories.memory("kept", key="k"))
            assert store.memories.get_by_key("k", reach=ADA) == memory
            assert store.feed.head_position() == 1

    assert _look(migrated) == _look(new)


TEXT_COLUMNS = (
    "text_state",
    "text_reason",
    "text_chars",
    "text_bytes",
    "text_passages",
    "text_truncated",
    "text_attempts",
    "text_time",
)


CHART = FileRef("chart", "a")
EXPIRING = "status = 'ACTIVE' AND tier != 'CORE' AND layer != 'CORE' AND expire_time IS NOT NULL"


def test_memories_of_the_first_version_get_their_cues_and_numbers(
    places: tuple[SqlSettings, SqlSettings], context: BackendContext
) -> None:
    """Over several pages, of whatever status, long ones too; whatever else is stored stays as it is."""
    place, new = places
    texts = [f"Line {number}, said yesterday?" if number % 2 else f"第{number}行。" for number in range(600)]
    with SQL.open(place, context) as store:
        kept = insert(store, *map(factories.memory, texts), factories.memory("茶 " * 50_000, status=Status.DELETED))
        insert(store, factories.memory("summed up", summary="See `chart:a`, [b](chart:b).", file_refs=(CHART,)))
        numbered = insert(store, *(factories.memory(f"m{n}", metadata={"n": [n, "x"]}) for n in range(3)))
    columns = ("owner", "project_id", "content_hash", "kind")
    with _connected(place) as connection:
        for undo in (
            *(
                f"DROP TABLE {name}"
                for name in ("vault_copies", "call_rates", "use_calls", "use_reports", "use_counts", "use_feedback")
            ),
            "DROP INDEX memories_summaries",
            "DROP INDEX memories_deleted",
            "DROP INDEX messages_summarised",
            "ALTER TABLE messages DROP COLUMN extracted",
            "DROP INDEX memories_forgotten",
            "DROP INDEX memories_expiring",
            f"CREATE INDEX memories_expiring ON memories (expire_time, row, owner, project_id) WHERE {EXPIRING}",
            "DROP TABLE file_words",
            "DROP TABLE file_passages",
            "DROP INDEX files_text_waiting",
            *(f"ALTER TABLE files DROP COLUMN {name}" for name in TEXT_COLUMNS),
            "DROP TABLE passage_tokens",
            "DROP TABLE webhook_cursors",
            "DROP TABLE webhook_deliveries",
            "DROP INDEX memories_scope",
            "DELETE FROM memory_refs WHERE term = 'chart:b'",
            "DELETE FROM memory_metadata WHERE term NOT LIKE '%%=%%'",
            "DROP TABLE quotas",
            "DROP TABLE stored_amounts",
            "ALTER TABLE counters DROP COLUMN trimmed_position",
            "ALTER TABLE memories DROP COLUMN cues",
            "DROP INDEX unique_memory_content",
            f"CREATE UNIQUE INDEX unique_memory_content ON memories ({', '.join(columns)}) WHERE is_unique = 1",
            "UPDATE alembic_version SET version_num = '0001'",
        ):
            connection.exec_driver_sql(undo)

    with SQL.open(place, context) as store:
        insert(store, factories.memory(texts[0], speaker="Anna", metadata={"茶": [1, "二"]}))
        assert store.quotas.drift() == {}
        assert store.quotas.get(QuotaSubject.TENANT, "").used.memories == len(texts) + 6
        assert store.files.referred_to(ADA.owner, [CHART, FileRef("chart", "b")]) == {CHART, FileRef("chart", "b")}
        rows = [memory.row for memory in kept]
        above = Range(Field.METADATA, path="n", above=0)
        assert store.memories.rows_where(above, reach=ADA) == [memory.row for memory in numbered[1:]]
        assert store.memories.by_rows(rows, reach=ADA) == {memory.row: memory for memory in kept}
        found = {one.row: one.cues for one in store.memories.candidates(rows, reach=ADA)}
        assert found == {memory.row: pack_cues(memory.content) for memory in kept}
        store.tokens.replace("m", rows[:1], [PassageTokens(rows[0] << 16, b"d", b"t")])
        assert store.tokens.rows_without("m", given_model="e", after_row=0, limit=2) == rows[1:3]
    with SQL.open(new, context):
        pass
    migrated, created = _look(place), _look(new)
    assert {name: migrated[name] for name in migrated.keys() - {"counters", "columns", "tables"}} == {
        name: created[name] for name in created.keys() - {"counters", "columns", "tables"}
    }


def test_an_interrupted_creation_is_completed(
    places: tuple[SqlSettings, SqlSettings], context: BackendContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends between the tables and their indexes leaves nothing behind that hinders the next."""
    interrupted, new = places
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("memsvc_backends.sql.migrate.create_indexes", _interrupt)
        with SQL.open(interrupted, context):
            pass
    for place in places:
        with SQL.open(place, context) as store:
            store.ping()

    assert _look(interrupted) == _look(new)


def test_tables_of_others_do_not_hinder_the_creation(
    places: tuple[SqlSettings, SqlSettings], context: BackendContext
) -> None:
    """The indexes on PostgreSQL may have theirs in the same schema."""
    place, _ = places
    with _connected(place) as connection:
        connection.exec_driver_sql("CREATE TABLE others (name text)")
    with SQL.open(place, context) as store:
        insert(store, factories.memory())


def _interrupt(_connection: sa.Connection) -> None:
    raise KeyboardInterrupt
