"""Connections, locks and files: what only this backend can get wrong."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import pydantic
import pytest
import sqlalchemy as sa

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.domain.index_entries import Chunk
from memsvc.domain.memory import Keyword
from memsvc.ports.metadata import Record
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, insert, revise
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings, database
from memsvc_backends.sql.database import TurnLock
from memsvc_backends.sql.dialect import stream
from memsvc_backends.sql.settings import Durability
from memsvc_backends.sql.store import DEFAULT_NAME
from tests.support.until import PATIENCE_SECONDS, until


def _write_until_killed(directory: str, pipe: Connection) -> None:
    context = BackendContext(Path(directory), lambda: datetime.now(UTC))
    with SQL.open(SqlSettings(), context) as store:
        while True:
            [memory] = insert(store, factories.memory(fresh_content()))
            pipe.send(memory.row)


def fresh_content() -> str:
    """Return a content that was not there before."""
    return os.urandom(8).hex()


def test_commits_survive_kill_9(context: BackendContext) -> None:
    """Every memory whose commit returned is there after the process was killed, whole and in order."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_write_until_killed, args=(str(context.directory), there))
    process.start()
    there.close()
    rows = [here.recv() for _ in range(50)]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    with suppress(EOFError):
        while True:
            rows.append(here.recv())
    process.join()
    process.close()
    here.close()

    with SQL.open(SqlSettings(), context) as store:
        found = store.memories.by_rows(rows, reach=ADA)
        assert sorted(found) == rows
        assert store.feed.head_position() in {len(rows), len(rows) + 1}
        assert [change.position for change in store.feed.pending_changes(limit=10**6)] == list(
            range(1, store.feed.head_position() + 1)
        )


def test_clean_close_leaves_one_file(context: BackendContext) -> None:
    """After a clean close all is in the database file; its log is gone."""
    with SQL.open(SqlSettings(), context) as store:
        insert(store, factories.memory())
        store.memories.counts(reach=ADA)
        assert store.storage_bytes() > 0

    assert [path.name for path in context.directory.iterdir()] == ["memsvc.db"]


def test_purge_leaves_no_trace(context: BackendContext) -> None:
    """After a purge no table but the outbox knows the memory, and its words are gone from the file as well."""
    chunks = tuple(Chunk(n, f"Zanzibar {n}", ("Zanzibar",), n + 1, n + 1) for n in range(3))
    secret = factories.memory(
        "Zanzibar" * 2000,
        key="Zanzibar",
        title="Zanzibar",
        tags=("Zanzibar",),
        keywords=(Keyword("Zanzibar", 1.0),),
        metadata={"a": "Zanzibar"},
    )
    with SQL.open(SqlSettings(), context) as store:
        others = insert(store, *(factories.memory(f"{n}", tags=(f"{n}",)) for n in range(50)))
        [one] = insert(store, Record(secret, chunks=chunks, given_vector=b"Zanzibar", given_model="m"))
        two = revise(store, one, title="T", importance=5)
        with store.transaction() as transaction:
            transaction.purge(two)
        assert sorted(store.memories.by_rows([m.row for m in others], reach=ADA)) == [m.row for m in others]

    path = context.directory / "memsvc.db"
    assert b"Zanzibar" not in path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        for table in ("memories", "revisions", "memory_vectors", "memory_tags", "memory_metadata", "memory_keywords"):
            rows = connection.execute(f"SELECT * FROM {table} WHERE row = ?", (one.row,))  # noqa: S608 - our names
            assert rows.fetchall() == []
        assert connection.execute("SELECT count(*) FROM memory_chunks").fetchone() == (0,)


def test_path_can_be_chosen(context: BackendContext) -> None:
    """The setting names the database file; folders on the way are made."""
    path = context.directory / "else where" / "100%" / "my?.db"
    with SQL.open(SqlSettings(path=path), context) as store:
        insert(store, factories.memory())

    assert path.exists()


def test_close_waits_for_nobody_but_lets_nobody_in(store: SqlMetadataStore, context: BackendContext) -> None:
    """Threads that read and write while the store is closed end in BackendClosedError and in no other way."""
    started = threading.Barrier(5)
    # Its connection would be closed when it is done, maybe only after the file was looked for.
    store.preloader.join()

    def use(number: int) -> int:
        started.wait()
        done = 0
        with suppress(BackendClosedError):
            while True:
                store.memories.counts(reach=ADA)
                if number == 0:
                    insert(store, factories.memory(f"{done}"))
                done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        uses = [pool.submit(use, number) for number in range(4)]
        started.wait()
        store._database.close()
        for future in uses:
            future.result()
    assert [path.name for path in context.directory.iterdir()] == ["memsvc.db"]


def test_transaction_within_a_transaction_is_refused(store: SqlMetadataStore) -> None:
    """A thread that would wait for itself for ever is told so."""
    with store.transaction(), pytest.raises(RuntimeError, match="already"):
        store.embeddings.put("m", {b"a": b"1"})
    with store.transaction(), pytest.raises(RuntimeError, match="already"), store.transaction():
        pass

    insert(store, factories.memory())
    assert store.feed.head_position() == 1


def test_lock_of_another_process_is_waited_for_only_so_long(context: BackendContext) -> None:
    """When somebody else keeps the database locked, a write fails as unavailable; reads go on; later all is well."""
    with SQL.open(SqlSettings(wait_seconds=0.05), context) as store:
        with closing(sqlite3.connect(context.directory / "memsvc.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(BackendUnavailableError) as raised:
                insert(store, factories.memory())
            assert store.memories.counts(reach=ADA).total == 0
            other.execute("ROLLBACK")

        assert isinstance(raised.value.__cause__, Exception)
        assert len(insert(store, factories.memory())) == 1


def test_too_many_readers_wait_only_so_long(context: BackendContext) -> None:
    """A read that gets no connection in time fails as unavailable."""
    with SQL.open(SqlSettings(wait_seconds=0.05, readers=1), context) as store:
        assert isinstance(store, SqlMetadataStore)
        # It reads, too.
        store.preloader.join()
        with store._database.read_connection(), pytest.raises(BackendUnavailableError):
            store.ping()
        store.ping()


def test_writer_waits_in_line_only_so_long(context: BackendContext) -> None:
    """A transaction that cannot begin in time fails as unavailable, and has changed nothing."""
    with SQL.open(SqlSettings(wait_seconds=0.05), context) as store, ThreadPoolExecutor(1) as pool:
        with store.transaction():
            future = pool.submit(insert, store, factories.memory())
            with pytest.raises(BackendUnavailableError):
                future.result()

        assert store.feed.head_position() == 0


def test_writers_that_wait_long_take_turns_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that comes back at once waits behind those that came before; one that gave up is passed over."""
    monkeypatch.setattr(database, "LONGEST_TURN_SECONDS", 0.0)
    lock, order = TurnLock(), list[str]()

    def write(name: str) -> None:
        lock.acquire()
        order.append(name)
        lock.release()

    lock.acquire()
    with ThreadPoolExecutor(3) as pool:
        pool.submit(write, "first")
        until(lambda: lock.waiting_count == 1)
        pool.submit(write, "second")
        until(lambda: lock.waiting_count > 1)
        assert not lock.acquire(timeout=0.01)
        lock.release()
        write("again")

    assert order == ["first", "second", "again"]
    assert lock.acquire(timeout=0.0)


def test_a_lock_is_free_for_others_while_nobody_waits_long() -> None:
    """Many threads that take it in turn exclude each other, and all come to an end."""
    lock, inside, most = TurnLock(), list[int](), list[int]()

    def write(number: int) -> None:
        for _ in range(200):
            assert lock.acquire(timeout=PATIENCE_SECONDS)
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)
            lock.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    assert (set(most), len(most), lock.waiting_count) == ({1}, 800, 0)


@pytest.mark.parametrize("fill", [b"this is no database, only text that is long enough" * 100, None])
def test_unreadable_database_is_unavailable(context: BackendContext, fill: bytes | None) -> None:
    """A file that is no database, and a folder in its place, are reported in our words."""
    path = context.directory / "memsvc.db"
    if fill is None:
        path.mkdir()
    else:
        path.write_bytes(fill)

    with pytest.raises(BackendUnavailableError), SQL.open(SqlSettings(), context):
        pass


def test_unreachable_folder_is_unavailable(context: BackendContext) -> None:
    """A path that leads through a file cannot be opened."""
    (context.directory / "file").write_text("")

    with pytest.raises(BackendUnavailableError), SQL.open(SqlSettings(path=context.directory / "file/a/b"), context):
        pass


def test_database_that_breaks_is_unavailable(store: SqlMetadataStore) -> None:
    """When the tables are gone under the running store, a call fails in our words."""
    with store._database.write_transaction() as connection:
        connection.exec_driver_sql("DROP TABLE counters")

    with pytest.raises(BackendUnavailableError):
        store.feed.head_position()
    with pytest.raises(BackendUnavailableError):
        insert(store, factories.memory())
    assert store.memories.counts(reach=ADA).total == 0


@pytest.mark.parametrize(("durability", "expected"), [(Durability.FULL, 2), (Durability.NORMAL, 1)])
def test_durability_is_what_was_chosen(context: BackendContext, durability: Durability, expected: int) -> None:
    """The writing connection, as the reading ones, runs with the chosen setting, and the log is on."""
    with SQL.open(SqlSettings(durability=durability), context) as store:
        assert isinstance(store, SqlMetadataStore)
        for lend in (store._database.write_transaction, store._database.read_connection):
            with lend() as connection:
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == expected
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_unknown_option_is_refused_by_name() -> None:
    """A misspelt option does not pass silently."""
    with pytest.raises(pydantic.ValidationError, match="durabilty"):
        SqlSettings.model_validate({"durabilty": "full"})


def test_a_statement_whose_rows_are_fetched_one_by_one_fails_as_any_other(store: SqlMetadataStore) -> None:
    """When it is refused, and when it breaks while its rows are read; the connection serves the next one."""
    broken = "SELECT abs(value) FROM json_each('[1, 2, -9223372036854775808]')"
    with store._database.snapshot() as connection:
        with pytest.raises(sa.exc.DBAPIError, match="no such table"):
            list(stream(connection, sa.text("SELECT 1 FROM nowhere")))
        rows = stream(connection, sa.text(broken))
        assert (1,) == next(rows)
        with pytest.raises(sa.exc.DBAPIError, match="integer overflow"):
            next(rows)
        assert [(2,)] == list(stream(connection, sa.text("SELECT 2")))


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)


def _move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def _put_other(folder: Path) -> None:
    """Put another database in the place of the one that is open, as a restore in its folder does."""
    database = folder / DEFAULT_NAME
    shutil.copyfile(database, database.with_name("other.db"))
    database.with_name("other.db").replace(database)


@pytest.mark.parametrize("lose", [_remove, _move, _put_other])
def test_a_file_lost_while_it_is_open_is_not_written_to(context: BackendContext, lose: Callable[[Path], None]) -> None:
    """No write is acknowledged that would be gone with the process, the store is unhealthy, and no file is made."""
    with SQL.open(SqlSettings(), context) as store:
        [memory] = insert(store, factories.memory("Kept."))
        lose(context.directory)

        with pytest.raises(BackendUnavailableError, match="lost its file"):
            insert(store, factories.memory("Lost."))
        with pytest.raises(BackendUnavailableError, match="lost its file"):
            store.ping()

        assert lose is _put_other or not context.directory.exists()
        if lose is _move:
            context.directory.with_name("moved").rename(context.directory)
            store.ping()
            insert(store, factories.memory("Later."))
            assert store.memories.get([memory.id], reach=ADA) == {memory.id: memory}


def test_an_error_does_not_name_what_was_to_be_written(store: SqlMetadataStore) -> None:
    """It comes into the log."""
    with store._database.read_connection() as connection, pytest.raises(sa.exc.DBAPIError) as caught:
        connection.execute(sa.text("SELECT nothing FROM memories WHERE content = :secret"), {"secret": "quaggasecret"})
    assert "nothing" in str(caught.value)
    assert "quaggasecret" not in str(caught.value)
