"""Two that share one PostgreSQL: what one commits the other knows, in one order, and nothing happens twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.metadata import MetadataStore, Record, RequestRecord, Transaction, UniquenessRaceError
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, insert, purge, revise
from memsvc_backends.sql import SQL, SqlSettings, postgres
from tests.support.postgres_server import emptied, schema
from tests.support.until import until

WRITES = 60
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from memsvc_backends.sql import SQL, SqlSettings
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert, revise

name, count, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with SQL.open(SqlSettings(url=SecretStr(url)), BackendContext(Path(), lambda: datetime.now(UTC))) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        [memory] = insert(store, factories.memory(f"{name} {number}", id=f"{name}-{number}"))
        revise(store, memory, title="T")
"""
CLAIMANT = """
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from memsvc_backends.sql import SQL, SqlSettings
from memsvc.ports.plugin import BackendContext

with SQL.open(SqlSettings(url=SecretStr(sys.argv[1])), BackendContext(Path(), lambda: datetime.now(UTC))) as store:
    with store.feed.claim((), limit=9) as found:
        print(len(found), flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def url() -> Iterator[str]:
    """Give an empty schema."""
    with emptied("shared") as url:
        yield url


@pytest.fixture
def stores(url: str, context: BackendContext) -> Iterator[tuple[MetadataStore, MetadataStore]]:
    """Open the same database twice, as two processes would."""
    with SQL.open(_settings(url), context) as one, SQL.open(_settings(url), context) as other:
        yield one, other


def _settings(url: str, wait_seconds: float = 10.0) -> SqlSettings:
    return SqlSettings(url=SecretStr(url), wait_seconds=wait_seconds)


def test_changes_of_two_processes_come_once_in_the_order_of_their_positions(url: str, context: BackendContext) -> None:
    """Whoever follows is told every change, and finds later only what has a later position."""
    with SQL.open(_settings(url), context) as store, ExitStack() as stack:
        writers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WRITER, name, str(WRITES), url],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for name in ("one", "other")
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(b"\n")
            writer.stdin.flush()
        told: list[int] = []
        rows: list[int] = []
        while len(told) < 4 * WRITES:
            assert all(writer.poll() in {None, 0} for writer in writers)
            page = store.changes.after(told[-1] if told else 0, reach=ADA, limit=50)
            told += [one.change.position for one in page.changes]
            rows += [one.change.row for one in page.changes if one.change.action is ChangeAction.CREATED]
        assert [writer.wait() for writer in writers] == [0, 0]

    assert told == sorted(set(told))
    assert rows == sorted(set(rows))
    assert (len(told), len(rows)) == (4 * WRITES, 2 * WRITES)


def test_what_one_writes_the_other_reads(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """At once, also what it has read before: nothing is kept that another may change."""
    one, other = stores
    [memory] = insert(one, factories.memory("seen"))
    assert other.memories.by_rows([memory.row], reach=ADA) == {memory.row: memory}
    assert [found.memory_id for found in other.memories.candidates([memory.row], reach=ADA)] == [memory.id]

    changed = revise(one, memory, importance=5, title="T")

    assert other.memories.by_rows([memory.row], reach=ADA) == {memory.row: changed}
    assert [found.importance for found in other.memories.candidates([memory.row], reach=ADA)] == [5]
    assert [document.memory for document in other.feed.documents([memory.row])] == [changed]
    assert [document.memory for document in one.feed.documents([memory.row])] == [changed]
    purge(one, changed)
    assert other.memories.by_rows([memory.row], reach=ADA) == {}
    assert one.is_shared
    assert one.changes.identity == other.changes.identity


def test_a_request_is_answered_once_by_two(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """However many send it to whomever at the same time: one work is done, the others find its answer."""
    start = threading.Barrier(8)
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        committers = [GroupCommitter(store) for store in stores]
        for committer in committers:
            stack.callback(committer.close)

        def once(transaction: Transaction) -> str:
            if known := transaction.recall_request(OWNER, "Create", "r"):
                return known.answer
            [memory] = transaction.insert([Record(factories.memory("once"), is_unique=False)])
            transaction.remember_request(OWNER, "Create", "r", RequestRecord("digest", memory.id))
            return memory.id

        def send(number: int) -> str:
            start.wait()
            return committers[number % 2].submit(once).value

        answers = set(pool.map(send, range(8)))

    assert len(answers) == 1
    assert stores[0].memories.counts(reach=ADA).total == 1


def test_of_two_who_take_a_key_one_is_told(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """The other one's transaction is void, and may be repeated: then it finds the bearer."""
    start = threading.Barrier(2)

    def take(store: MetadataStore) -> bool:
        start.wait()
        try:
            insert(store, factories.memory(str(id(store)), key="k"))
        except UniquenessRaceError:
            with store.transaction() as transaction:
                assert transaction.find_keys(OWNER, [("", "k")])
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(take, stores)) == [False, True]


def test_a_writer_waits_for_the_other_only_so_long(
    url: str, context: BackendContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is unavailable, nothing was changed, and the next attempt finds a store that works."""
    # Who waits for so short a time would else be taken for a process that hangs as soon as the machine stands still.
    monkeypatch.setattr(postgres, "_PATIENCE_WITH_ONE", 10_000)
    with SQL.open(_settings(url), context) as one, SQL.open(_settings(url, wait_seconds=0.05), context) as other:
        with one.transaction():
            with pytest.raises(BackendUnavailableError):
                insert(other, factories.memory("late"))
            # What is in no order does not stand in the line.
            other.embeddings.put("m", {b"d": b"v"})
            assert other.leases.take("n", holder="a", now=NOW, term=timedelta(seconds=1))
            assert other.memories.counts(reach=ADA).total == 0

        insert(other, factories.memory("in time"))
        assert one.memories.counts(reach=ADA).total == 1


def test_a_writer_that_hangs_loses_its_turn(url: str, context: BackendContext) -> None:
    """The others write again, and what it had done is not committed, however it goes on."""
    with (
        SQL.open(_settings(url, wait_seconds=1.0), context) as hanging,
        SQL.open(_settings(url, 60.0), context) as other,
    ):
        with pytest.raises(BackendUnavailableError), hanging.transaction() as transaction:
            transaction.insert([Record(factories.memory("lost"))])
            insert(other, factories.memory("kept"))
        insert(hanging, factories.memory("again"))

        assert other.memories.counts(reach=ADA).total == 2


def test_several_that_open_an_empty_database_make_it_once(context: BackendContext) -> None:
    """One makes the tables; the others wait, and find them."""
    start = threading.Barrier(4)

    def identity(settings: SqlSettings) -> str:
        start.wait()
        with SQL.open(settings, context) as store:
            return store.changes.identity

    with schema() as url, ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(identity, [_settings(url)] * 4))) == 1


def _rows(changes: list[Change]) -> list[int]:
    return [change.row for change in changes]


def test_changes_of_a_memory_are_lent_to_one_at_a_time(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """Also a later change of what the other has; when it is given back the next one gets what is left."""
    one, other = stores
    memories = insert(one, *(factories.memory(f"{number}") for number in range(4)))
    with one.feed.claim((), limit=2) as mine:
        assert _rows(mine) == [1, 2]
        revise(one, memories[0], title="T")
        with other.feed.claim((), limit=9) as theirs:
            assert _rows(theirs) == [3, 4]
            with one.feed.claim((5,), limit=9) as nobodys:
                assert nobodys == []
            other.feed.mark_applied(theirs)
            assert one.feed.applied_among([1, 2, 3, 4, 5]) == {3, 4}
        with other.feed.claim((5,), limit=9) as nobodys:
            assert nobodys == []
        one.feed.mark_applied(mine)
    with other.feed.claim((1, 5), limit=9) as left:
        assert [(change.row, change.revision) for change in left] == [(1, 2)]


def test_what_a_dead_process_was_lent_is_lent_again(url: str, context: BackendContext) -> None:
    """At once, since the server gives up its claim with its connection."""
    with SQL.open(_settings(url), context) as store:
        insert(store, factories.memory())
        arguments = [sys.executable, "-c", CLAIMANT, url]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "1\n"
            with store.feed.claim((), limit=9) as found:
                assert found == []
            other.kill()
            other.wait()
        until(lambda: _claimed(store))


def _claimed(store: MetadataStore) -> list[Change]:
    with store.feed.claim((), limit=9) as found:
        return list(found)
