"""PostgreSQL with several writers: one order for each owner, no waiting across owners, and no change that is skipped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Status
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.watch.watch import ChangeNotifier, CommitPoller
from memsvc.ports.metadata import MetadataStore, Record, RequestRecord, Transaction
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, OWNER, insert
from memsvc_backends.sql import SQL, SqlSettings
from tests.support.postgres_server import emptied
from tests.support.until import until

BEN = Scope("ben")
OF_BEN = Reach.from_scope(BEN)
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
WRITERS = "killed-writers"
"""The name of the connections of the writers that are killed."""
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.metadata import Record
from memsvc.ports.plugin import BackendContext
from memsvc.domain.scope import Scope
from memsvc.testing import factories
from memsvc_backends.sql import SQL, SqlSettings

name, user, url = sys.argv[1:]
scope = Scope(user)
with SQL.open(SqlSettings(url=SecretStr(url)), BackendContext(Path(), lambda: datetime.now(UTC))) as store:
    committer = GroupCommitter(store)
    number = 0
    while True:
        memory = factories.memory(f"{name} {number}", id=f"{name}-{number}", user_id=user)
        committer.submit(lambda transaction: transaction.insert([Record(memory)]), owner=scope.owner)
        print(memory.id, flush=True)
        number += 1
"""


@pytest.fixture
def url() -> Iterator[str]:
    """Give an empty schema."""
    with emptied("owner_order") as url:
        yield url


@pytest.fixture
def stores(url: str, context: BackendContext) -> Iterator[tuple[MetadataStore, MetadataStore]]:
    """Open the same database twice, as two processes would."""
    settings = SqlSettings(url=SecretStr(url))
    with SQL.open(settings, context) as one, SQL.open(settings, context) as other:
        yield one, other


def of_ben(content: str) -> Record:
    """Return a memory of the other owner."""
    return Record(factories.memory(content, user_id="ben"))


def waiting(url: str) -> int:
    """Return how many transactions wait for an advisory lock."""
    with psycopg.connect(url) as connection:
        [count] = connection.execute(WAITING).fetchone() or (0,)
        return int(count)


def connected(url: str, name: str) -> int:
    """Return how many connections have a name: that of a killed client lasts until its last statement has ended."""
    with psycopg.connect(url) as connection:
        [count] = connection.execute(CONNECTED, (name,)).fetchone() or (0,)
        return int(count)


def test_writers_of_different_owners_do_not_wait(stores: tuple[MetadataStore, MetadataStore], url: str) -> None:
    """A transaction of another owner commits while one is open; the same owner's waits until it ends."""
    one, other = stores
    with ThreadPoolExecutor(1) as pool:
        with one.transaction(owners={OWNER}) as transaction:
            transaction.insert([Record(factories.memory("first"))])
            with other.transaction(owners={BEN.owner}) as beside:
                beside.insert([of_ben("beside")])
            assert other.memories.counts(reach=OF_BEN).total == 1
            assert waiting(url) == 0
            second = pool.submit(_write, other, "second")
            until(lambda: waiting(url) == 1)
            assert other.memories.counts(reach=ADA).total == 0
        second.result()
    page = one.changes.after(0, reach=ADA, limit=9)
    assert [change.change.row for change in page.changes] == sorted(change.change.row for change in page.changes)


def _write(store: MetadataStore, content: str) -> None:
    with store.transaction(owners={OWNER}) as transaction:
        transaction.insert([Record(factories.memory(content))])


def test_a_transaction_of_any_owner_runs_alone(stores: tuple[MetadataStore, MetadataStore], url: str) -> None:
    """It waits for those of single owners, and they for it."""
    one, other = stores
    with ThreadPoolExecutor(1) as pool:
        with one.transaction(owners={BEN.owner}):
            alone = pool.submit(insert, other, factories.memory("alone"))
            until(lambda: waiting(url) == 1)
        alone.result()
        with one.transaction():
            beside = pool.submit(_write, other, "beside")
            until(lambda: waiting(url) == 1)
        beside.result()
    assert one.memories.counts(reach=ADA).total == 2


def test_a_change_that_is_committed_late_is_not_skipped(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """Readers of all changes stop before a position that is under way; its owner's and others' readers go on."""
    one, other = stores
    feed = other.feed
    rung: list[bool] = []
    bell = ChangeNotifier()
    poller = CommitPoller(feed, bell)
    with bell.listen(OWNER, lambda: rung.append(True)):
        with one.transaction(owners={OWNER}) as late:
            late.insert([Record(factories.memory("late"))])
            with other.transaction(owners={BEN.owner}) as early:
                early.insert([of_ben("early")])
            [change] = feed.changes_after(0, limit=9, settled=False)
            assert change.position > late.position
            assert feed.changes_after(0, limit=9) == []
            assert feed.settled_position() < late.position
            other_page = other.changes.after(0, reach=OF_BEN, limit=9)
            assert [seen.change.position for seen in other_page.changes] == [change.position]
            page = other.changes.after(0, reach=ADA, limit=9)
            assert (page.changes, page.is_all) == ((), True)
            assert page.position < late.position
            assert other.changes.end(reach=ADA) < late.position
            assert other.changes.end(reach=OF_BEN) == change.position
            feed.mark_applied([change])
            assert feed.applied_position() < late.position
            poller.poll()
        rung.clear()
        poller.poll()

    assert rung
    assert [seen.change.position for seen in other.changes.after(page.position, reach=ADA, limit=9).changes] == [
        late.position
    ]
    assert [seen.position for seen in feed.changes_after(0, limit=9)] == [late.position, change.position]
    assert feed.settled_position() >= change.position
    assert feed.applied_position() == late.position - 1


def test_numbers_that_were_taken_and_not_used_lose_nobody(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """A transaction that fails leaves a gap; readers before it are told of no loss, and trimming says what is gone."""
    one, other = stores
    with pytest.raises(ZeroDivisionError), one.transaction(owners={OWNER}, works=16) as transaction:
        transaction.insert([Record(factories.memory("lost"))])
        raise ZeroDivisionError
    assert other.changes.after(0, reach=ADA, limit=9).kept_after == 0
    _write(other, "kept")

    [change] = other.feed.changes_after(0, limit=9)
    assert change.position > 1
    assert (other.feed.kept_after(), other.feed.head_position()) == (0, change.position)
    other.feed.mark_applied([change])
    assert other.feed.trim(before=datetime(2100, 1, 1, tzinfo=UTC)) == 1
    assert one.feed.kept_after() == one.changes.after(0, reach=ADA, limit=9).kept_after == change.position


def test_a_transaction_writes_to_its_owners_alone(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """Another owner's data might be changed by another process."""
    one, _ = stores
    with pytest.raises(RuntimeError), one.transaction(owners={OWNER}) as transaction:
        transaction.insert([of_ben("foreign")])
    with pytest.raises(RuntimeError), one.transaction(owners={OWNER}) as transaction:
        transaction.remember_request(BEN.owner, "m", "r", RequestRecord("d", ""))
    assert one.memories.counts(reach=OF_BEN).total == 0


def test_a_request_takes_effect_once_for_all_servers(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """Sixty requests are made at both at the same time, in groups of two owners in both orders."""
    committers = [GroupCommitter(store) for store in stores]
    scopes = [Scope(user) for user in ("ada", "ben")]
    asked = [(number, scope) for number in range(60) for scope in (scopes if number % 2 else scopes[::-1])]
    with ThreadPoolExecutor(8) as pool:
        answers = [
            [pool.submit(committer.submit, _request(number, scope), owner=scope.owner) for committer in committers]
            for number, scope in asked
        ]
        for pair in answers:
            assert len({one.result().value for one in pair}) == 1
    for committer in committers:
        committer.close()
    assert [stores[0].memories.counts(reach=Reach.from_scope(scope)).total for scope in scopes] == [60, 60]


def _request(number: int, scope: Scope) -> Callable[[Transaction], str]:
    def once(transaction: Transaction) -> str:
        known = transaction.recall_request(scope.owner, "m", f"{number}")
        if known is not None:
            return known.answer
        [memory] = transaction.insert([Record(factories.memory(f"{number}", user_id=scope.user_id))])
        transaction.remember_request(scope.owner, "m", f"{number}", RequestRecord("d", memory.id))
        return memory.id

    return once


@pytest.mark.parametrize("users", [("ada", "ada"), ("ada", "ben")])
def test_killed_writers_lose_nothing_that_they_acknowledged(
    stores: tuple[MetadataStore, MetadataStore], url: str, users: tuple[str, str]
) -> None:
    """Three times in turn both are killed in their work; a follower sees each change of its owner once, in order."""
    store, _ = stores
    address = f"{url}&application_name={WRITERS}"
    acknowledged: list[str] = []
    for turn in range(3):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, f"{turn}-{at}", user, address], stdout=subprocess.PIPE)
            for at, user in enumerate(users)
        ]
        lines: list[list[str]] = [[] for _ in writers]
        readers = [threading.Thread(target=_collect, args=pair) for pair in zip(writers, lines, strict=True)]
        for reader in readers:
            reader.start()
        _await(lines, 30)
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
        for reader in readers:
            reader.join()
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.close()
        acknowledged += [memory_id for written in lines for memory_id in written]

    # The server may still have to carry out the last commit that a killed writer asked for.
    until(lambda: connected(url, WRITERS) == 0)
    assert store.feed.settled_position() >= store.feed.head_position()
    seen: list[str] = []
    for scope in {Scope(user) for user in users}:
        position, page = 0, store.changes.after(0, reach=Reach.from_scope(scope), limit=7)
        while page.changes:
            seen += [one.change.memory_id for one in page.changes]
            position, page = page.position, store.changes.after(page.position, reach=Reach.from_scope(scope), limit=7)
        assert position > 0
    assert len(seen) == len(set(seen))
    assert set(acknowledged) <= set(seen)
    everything: list[str] = []
    reached = 0
    while changes := store.feed.changes_after(reached, limit=1_000):
        everything += [one.memory_id for one in changes]
        reached = changes[-1].position
    assert sorted(everything) == sorted(seen)


def _await(lines: list[list[str]], count: int) -> None:
    """Wait for more than so many of each writer: one may not have begun when the other has written many."""
    until(lambda: all(len(written) > count for written in lines))


def _collect(writer: subprocess.Popen[bytes], acknowledged: list[str]) -> None:
    assert writer.stdout is not None
    acknowledged.extend(line.decode().strip() for line in writer.stdout if line.endswith(b"\n"))


def test_a_writer_that_hangs_holds_back_its_own_owner_alone(
    url: str, context: BackendContext, stores: tuple[MetadataStore, MetadataStore]
) -> None:
    """Others write meanwhile; the owner's other writers give up after their patience."""
    one, _ = stores
    with SQL.open(SqlSettings(url=SecretStr(url), wait_seconds=0.5), context) as other:
        with one.transaction(owners={OWNER}):
            with other.transaction(owners={BEN.owner}) as transaction:
                transaction.insert([of_ben("beside")])
            with pytest.raises(BackendUnavailableError):
                _write(other, "late")
    assert one.memories.counts(reach=OF_BEN).total == 1


def test_a_transaction_of_many_changes_takes_few_blocks_of_numbers(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """Its changes are among as many positions as it says, though others take numbers in between."""
    one, other = stores
    with one.transaction(owners={OWNER}) as transaction:
        transaction.insert([Record(factories.memory("first"))])
        _take(other)
        for number in range(200):
            transaction.set_status(transaction.insert([Record(factories.memory(f"{number}"))]), Status.EXPIRED)
    page = one.changes.after(0, reach=ADA, limit=999)
    positions = [seen.change.position for seen in page.changes]
    assert len(positions) == len(set(positions)) == 401
    assert positions[-1] == transaction.position
    assert transaction.position - transaction.changes < positions[0]
    assert positions[-1] < 2000


def _take(store: MetadataStore) -> None:
    with store.transaction(owners={BEN.owner}) as transaction:
        transaction.insert([of_ben("between")])
