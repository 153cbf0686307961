"""PostgreSQL's own: which indexes it takes before it has statistics, lost connections, and what cannot be done."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from pydantic import SecretStr, ValidationError

from memsvc.domain.errors import BackendUnavailableError, CapabilityMissingError, MemsvcError
from memsvc.domain.filters import AnyOf, Field, Match, Range
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.faults import BreakerState
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, insert, purge, reach_of
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings, postgres
from memsvc_backends.sql.database import translate
from memsvc_backends.sql.dialect import list_parameter
from memsvc_backends.sql.filters import condition, within
from memsvc_backends.sql.reads import _select_candidates, _select_gathered, _select_next, _select_usage
from memsvc_backends.sql.settings import Durability
from memsvc_backends.sql.tables import memories
from tests.support.postgres_server import database, down, emptied, server, stopped
from tests.support.until import until

SECRET = "tell nobody"  # noqa: S105 - of a server that is not there


@pytest.fixture
def url() -> Iterator[str]:
    """Give an empty schema."""
    with emptied("postgres") as url:
        yield url


@pytest.fixture
def shared(url: str, context: BackendContext) -> Iterator[SqlMetadataStore]:
    """Open a store on it."""
    with SQL.open(SqlSettings(url=SecretStr(url)), context) as store:
        assert isinstance(store, SqlMetadataStore)
        yield store


def _plan(store: SqlMetadataStore, statement: sa.Select[Any], parameters: Mapping[str, Any]) -> str:
    with store._database.read_connection() as connection:
        compiled: Any = statement.compile(dialect=connection.dialect)
        cursor = connection.connection.cursor()
        cursor.execute(f"EXPLAIN {compiled}", tuple(parameters[name] for name in compiled.positiontup))
        return "\n".join(row[0] for row in cursor.fetchall())


def _plan_of_values(store: SqlMetadataStore, statement: sa.Select[Any]) -> str:
    with store._database.read_connection() as connection:
        compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        cursor = connection.connection.cursor()
        cursor.execute(f"EXPLAIN {compiled}".replace("%%", "%"))
        return "\n".join(row[0] for row in cursor.fetchall())


def _heap_files_with(url: str, words: Sequence[str]) -> set[str]:
    """Return which of *words* the files of the tables of the schema hold, once all pages are written to them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        found = connection.execute(
            "SELECT pg_relation_filepath(oid) FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
            "AND pg_relation_filepath(oid) IS NOT NULL "
            "UNION ALL SELECT pg_relation_filepath(reltoastrelid) FROM pg_class "
            "WHERE relnamespace = current_schema()::regnamespace AND reltoastrelid <> 0"
        ).fetchall()
    content = b"".join((Path(server().pgdata) / path).read_bytes() for (path,) in found)
    return {word for word in words if word.encode() in content}


def _erase_ada(store: SqlMetadataStore, words: Sequence[str]) -> None:
    rows = [memory.row for memory in insert(store, *(factories.memory(word, title=word) for word in words))]
    with store.transaction() as transaction:
        transaction.erase_memories(ADA.owner, rows)
    store.erasures.settle()


def test_a_rewrite_leaves_no_page_with_what_was_erased(shared: SqlMetadataStore, url: str) -> None:
    """A plain VACUUM leaves it in the free space of pages."""
    words = ["quaggasecret", "斑驴的秘密"]
    insert(shared, factories.memory("okapi", user_id="ben"))
    _erase_ada(shared, words)
    assert _heap_files_with(url, [*words, "okapi"]) == {*words, "okapi"}

    assert shared.erasures.is_quick_to_rewrite()
    shared.erasures.rewrite()

    assert _heap_files_with(url, [*words, "okapi"]) == {"okapi"}


def test_a_table_in_use_is_not_waited_for(
    shared: SqlMetadataStore, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request of its exclusive lock would hold up all others; the log names the table, and the rest is rewritten."""
    monkeypatch.setattr(postgres, "REWRITE_LOCK_MS", 50)
    monkeypatch.setattr(postgres, "REWRITE_ATTEMPTS", 2)
    _erase_ada(shared, ["quaggasecret"])
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM revisions").fetchone()
        with caplog.at_level(logging.WARNING):
            shared.erasures.rewrite()
    assert "revisions" in caplog.text
    assert "memories" not in caplog.text
    assert insert(shared, factories.memory("okapi", user_id="ben"))


@pytest.mark.parametrize(("rewrite_bytes", "is_quick"), [(0, False), (1, False), (10**9, True)])
def test_large_tables_are_not_rewritten(
    url: str,
    context: BackendContext,
    rewrite_bytes: int,
    is_quick: bool,  # noqa: FBT001 - by name
) -> None:
    """By the setting; 0 turns it off."""
    with SQL.open(SqlSettings(url=SecretStr(url), rewrite_bytes=rewrite_bytes), context) as store:
        assert store.erasures.is_quick_to_rewrite() is is_quick


def test_memories_are_found_by_row_and_id_before_there_are_statistics(shared: SqlMetadataStore) -> None:
    """Not by their owner, who may have most of them; statistics come a minute after many were written."""
    insert(shared, *(factories.memory(f"{number} {'x' * 100}") for number in range(3000)))
    place = {"owner": ADA.owner} | {f"project_{number}": name for number, name in enumerate(ADA.project_ids)}
    projects = len(ADA.project_ids)
    plans = {
        _plan(shared, _select_candidates(projects), {"row": list_parameter([1, 2]), **place}): "memories_pkey",
        _plan(shared, _select_gathered("row", projects), {"row": list_parameter([1]), **place}): "memories_pkey",
        _plan(shared, _select_gathered("id", projects), {"id": list_parameter(["a"]), **place}): "unique_memory_id",
    }
    for plan, index in plans.items():
        assert f" {index} " in plan, plan
        assert "Seq Scan" not in plan, plan


def test_places_keys_and_numbers_are_found_by_indexes(shared: SqlMetadataStore, url: str) -> None:
    """Without a pass over the table: users, projects, agents and sessions, keys that begin alike, ranges of numbers."""
    insert(
        shared,
        *(
            factories.memory(f"{n} {'x' * 100}", user_id=f"u{n % 40}", key=f"k/{n}", metadata={"n": n})
            for n in range(3000)
        ),
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    owner = reach_of("u1").owner
    parts = {f"part_{number}": value for number, value in enumerate((owner, "", "", ""))}
    plans = [
        *(_plan(shared, _select_next(level, 1), {**parts, "least": owner}) for level in range(4)),
        *(_plan(shared, _select_usage(level), parts) for level in range(1, 5)),
    ]
    for plan in plans:
        assert "Seq Scan" not in plan, plan
        assert any(f" {index} " in plan for index in ("memories_scope", "memories_session")) or "Only" in plan, plan
    for where, index in (
        (AnyOf(Field.KEY, ("k/1",), Match.PREFIX), "unique_memory_key"),
        (Range(Field.METADATA, path="n", at_least=2990.0), "memory_metadata_pkey"),
    ):
        statement = sa.select(memories.c.row).where(within(reach_of("u1")), condition(where, owner))
        plan = _plan_of_values(shared, statement)
        assert index in plan, plan
        assert "Seq Scan" not in plan, plan


def test_tokens_of_a_memory_that_is_being_purged_are_not_stored(shared: SqlMetadataStore, url: str) -> None:
    """Storing them waits for the end of the purge; those of others are stored meanwhile."""
    gone, kept = insert(shared, factories.memory("a"), factories.memory("b"))
    passages = [PassageTokens(memory.row << 16, b"d" * 16, b"t") for memory in (gone, kept)]
    shared.tokens.replace("m", [gone.row], passages)
    with ThreadPoolExecutor(1) as pool:
        with shared.transaction() as transaction:
            transaction.purge(gone)
            waiting = pool.submit(shared.tokens.replace, "m", [gone.row, kept.row], passages)
            until(lambda: shared.tokens.tokens("m", [kept.row << 16]))
            until(lambda: _waits(url))
        waiting.result()

    assert shared.tokens.tokens("m", [one.entry for one in passages]) == {kept.row << 16: b"t"}
    assert shared.tokens.count("m") == 1


def test_a_purge_waits_for_tokens_that_are_being_stored(shared: SqlMetadataStore, url: str) -> None:
    """And removes them then: a reader of tokens finds none of a memory that is gone."""
    [gone] = insert(shared, factories.memory("a"))
    with psycopg.connect(url) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SELECT row FROM memories WHERE row = %s FOR KEY SHARE", (gone.row,))
        other.execute("INSERT INTO passage_tokens VALUES (%s, 'm', '', '')", (gone.row << 16,))
        waiting = pool.submit(purge, shared, gone)
        until(lambda: _waits(url))
        other.commit()
        waiting.result()

    assert shared.tokens.count("m") == 0


def _waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'"
        [count] = connection.execute(waiting).fetchone() or (0,)
        return bool(count)


def _outcome(store: MetadataStore) -> str:
    try:
        store.ping()
        insert(store, Record(factories.memory(), is_unique=False))
    except BackendUnavailableError:
        return "unavailable"
    return "written"


def test_connections_are_made_anew_when_the_server_was_away(shared: SqlMetadataStore) -> None:
    """While it is away every call says so, reads and writes; after it is back the first call works."""
    with shared._database.read_connection():
        shared.ping()  # So that two connections lie idle.
    assert _outcome(shared) == "written"
    with down():
        assert [_outcome(shared) for _ in range(3)] == ["unavailable"] * 3
    assert [_outcome(shared) for _ in range(3)] == ["written"] * 3


def test_a_connection_lost_in_a_transaction_loses_the_transaction(shared: SqlMetadataStore) -> None:
    """It says so, at the latest when it would be committed, and the next one works."""
    with pytest.raises(BackendUnavailableError), shared.transaction() as transaction:
        transaction.insert([Record(factories.memory("lost"))])
        with shared._database.read_connection() as other:
            other.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            )
    assert _outcome(shared) == "written"
    assert shared.memories.counts(reach=ADA).total == 1


def test_another_encoding_of_the_client_is_the_default_of_the_database(context: BackendContext) -> None:
    """Every text is stored and found all the same."""
    with database(client_encoding="LATIN1") as url, SQL.open(SqlSettings(url=SecretStr(url)), context) as store:
        memory = factories.memory("小王住在北京 — ß 👩‍👩‍👧")
        insert(store, memory)
        found = store.memories.get([memory.id], reach=ADA)[memory.id]
        assert memory.content == found.content


def test_a_failed_statement_that_was_passed_over_is_no_commit(shared: SqlMetadataStore) -> None:
    """PostgreSQL would take the transaction back without a word."""
    database = shared._database
    with pytest.raises(MemsvcError), database.write_transaction() as connection:
        connection.exec_driver_sql("UPDATE counters SET last_row = 7")
        with pytest.raises(MemsvcError), translate():
            connection.exec_driver_sql("SELECT 1 / 0")
    assert insert(shared, factories.memory())[0].row == 1


def test_it_is_not_copied_as_a_file(shared: SqlMetadataStore, tmp_path: Path) -> None:
    """The server has tools for that, which the error names."""
    with pytest.raises(CapabilityMissingError, match="pg_dump"):
        list(shared.copies.copy(tmp_path))
    assert shared.copies.counts()["memories"] == 0


def test_what_was_removed_leaves_the_tables(shared: SqlMetadataStore) -> None:
    """Both ways work beside a reader, and the size is told."""
    insert(shared, factories.memory())
    assert shared.erasures.settle()
    shared.erasures.rewrite()
    assert shared.storage_bytes() > 100_000


@pytest.mark.parametrize(("durability", "waits"), [(Durability.FULL, "on"), (Durability.NORMAL, "off")])
def test_a_commit_waits_for_the_disk_as_was_chosen(
    url: str, context: BackendContext, durability: Durability, waits: str
) -> None:
    """Also where the user's own setting is not to wait."""
    address = f"{url}%20-csynchronous_commit%3Doff"
    with SQL.open(SqlSettings(url=SecretStr(address), durability=durability), context) as store:
        assert isinstance(store, SqlMetadataStore)
        with store._database.read_connection() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == waits


def test_a_server_that_is_not_there_is_unavailable(context: BackendContext, tmp_path: Path) -> None:
    """The store does not open, and the password is not told."""
    settings = SqlSettings(url=SecretStr(f"postgresql://ada:{SECRET}@/db?host={tmp_path}"), wait_seconds=1)
    with pytest.raises(BackendUnavailableError) as caught, SQL.open(settings, context):
        pass
    assert isinstance(caught.value.__cause__, sa.exc.OperationalError)
    assert SECRET not in f"{caught.value} {caught.value.__cause__} {settings!r}"
    assert isinstance(caught.value.__cause__.orig, psycopg.Error)


@pytest.mark.parametrize(
    "options", [{"url": f"mysql://ada:{SECRET}@host/db"}, {"url": f"postgresql://ada:{SECRET}@host/db", "path": "a.db"}]
)
def test_an_address_that_cannot_be_used_is_refused(options: dict[str, str]) -> None:
    """With what to write instead, and without what was written."""
    with pytest.raises(ValidationError) as caught:
        SqlSettings.model_validate(options)
    assert "postgresql://" in str(caught.value) or "not both" in str(caught.value)
    assert SECRET not in str(caught.value)


def _read(store: SqlMetadataStore) -> bool:
    with suppress(BackendUnavailableError):
        store.ping()
        return True
    return False


def test_a_server_that_hangs_fails_calls_until_it_continues(shared: SqlMetadataStore, context: BackendContext) -> None:
    """Those under way and those that come: the circuit breaker is open. What was stored before is there after it."""
    memory = insert(shared, factories.memory("stored before"))[0]
    with stopped():
        with pytest.raises(BackendUnavailableError):
            shared.ping()
        assert context.faults.read().breakers["sql"] is BreakerState.OPEN
        with pytest.raises(BackendUnavailableError, match="has not answered"):
            insert(shared, factories.memory("too early"))

    until(lambda: _read(shared))
    assert context.faults.read().breakers["sql"] is BreakerState.CLOSED
    assert {memory.row} == set(shared.memories.by_rows([memory.row], reach=ADA))


def test_a_connection_that_is_stuck_is_given_up_alone(shared: SqlMetadataStore, url: str) -> None:
    """Its process at the server takes up no statement: the call fails, the next one has another connection."""
    shared.ping()
    with psycopg.connect(url, autocommit=True) as other:
        query = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT 1' AND application_name = 'memsvc'"
        pids = [pid for (pid,) in other.execute(query).fetchall()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(BackendUnavailableError):
            shared.ping()
        shared.ping()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_connection_lost_before_the_commit_is_unavailable(shared: SqlMetadataStore, url: str) -> None:
    """Also where the error of a statement before it was handled, as that of one of several writes is."""
    with pytest.raises(BackendUnavailableError), shared.transaction() as transaction:
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' "
                "AND application_name = 'memsvc'"
            )
        with suppress(sa.exc.SQLAlchemyError):
            transaction.get("0190163d-8694-739b-aea5-966c26f8ad91", reach=ADA)
    insert(shared, factories.memory("The next one has another connection."))
