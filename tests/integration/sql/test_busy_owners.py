"""PostgreSQL with a process that keeps the lock of an owner: only the work for this owner waits, and in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from typing import LiteralString

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.commit.busy_owners import WAITERS
from memsvc.engine.commit.group_committer import CommitResult, GroupCommitter
from memsvc.ports.metadata import MetadataStore, OwnerLock, OwnersBusyError, Record, Transaction
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc_backends.sql import SQL, SqlSettings
from memsvc_backends.sql.postgres import ALONE, BESIDE
from tests.support.postgres_server import emptied
from tests.support.thread_limit import no_new_threads
from tests.support.until import until

LONG_SECONDS = 60.0
SHORT_SECONDS = 1.0
DEADLOCK_MS = 10_000
"""A wait of a test that is longer is a failure."""
OVERLAP_MS = 100
ADA, BEN = "ada", "ben"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
LOOKING = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(query, 'SELECT virtualtransaction FROM pg_locks')"
"""Sessions that look for the transactions under way."""
ONLY_LOOKING = f"{LOOKING} AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
"""They, while no session waits for a lock."""


class Replica:
    """A store of a process, and what writes to it."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.committer = GroupCommitter(store)

    def write(self, user: str, content: str) -> Future[CommitResult[str]]:
        """Queue a memory."""
        record = Record(factories.memory(content, user_id=user))

        def work(transaction: Transaction) -> str:
            transaction.insert([record])
            return content

        return self.committer.queue(work, owner=Scope(user).owner)

    def contents(self, user: str) -> list[str]:
        """Return the contents of a user's memories in the order in which they were written."""
        reach = Reach.from_scope(Scope(user))
        found = self.store.changes.after(0, reach=reach, limit=999).changes
        wanted = [(one.change.row, one.change.revision) for one in found]
        states = self.store.changes.states(wanted)
        return [states[one].content for one in wanted]


@pytest.fixture
def url() -> Iterator[str]:
    """Give an empty schema."""
    with emptied("busy_owners") as url:
        yield url


@contextmanager
def replica(url: str, context: BackendContext, *, wait_seconds: float = LONG_SECONDS) -> Iterator[Replica]:
    """Open the store as a process would."""
    with SQL.open(SqlSettings(url=SecretStr(url), wait_seconds=wait_seconds), context) as store:
        opened = Replica(store)
        try:
            yield opened
        finally:
            opened.committer.close()


@pytest.fixture
def other(url: str, context: BackendContext) -> Iterator[MetadataStore]:
    """Open the store of another process."""
    with SQL.open(SqlSettings(url=SecretStr(url), wait_seconds=LONG_SECONDS), context) as store:
        yield store


def waiting(url: str, state: LiteralString = WAITING) -> int:
    """Return how many transactions wait for a lock of an owner or of the store, or count by another query."""
    with psycopg.connect(url) as connection:
        [count] = connection.execute(state).fetchone() or (0,)
        return int(count)


def test_a_busy_owner_holds_up_no_other(url: str, context: BackendContext, other: MetadataStore) -> None:
    """Its work waits in order, work of the same group and later work for others is done, and then it is."""
    with replica(url, context) as one, other.transaction(owners={Scope(ADA).owner}):
        held = threading.Event()
        one.committer.queue(lambda _: held.wait(LONG_SECONDS), owner=Scope("cleo").owner)
        group = [one.write(user, f"{user} {number}") for number in range(3) for user in (ADA, BEN)]
        held.set()
        assert [future.result().value for future in group[1::2]] == ["ben 0", "ben 1", "ben 2"]
        later = one.write(ADA, "ada 3")
        assert one.write(BEN, "ben 3").result().value == "ben 3"
        assert not any(future.done() for future in (*group[::2], later))
        assert one.committer.queue_length == 4
    wait([*group, later])
    with replica(url, context) as one:
        assert one.contents(ADA) == ["ada 0", "ada 1", "ada 2", "ada 3"]
        assert one.contents(BEN) == ["ben 0", "ben 1", "ben 2", "ben 3"]


def test_only_the_work_for_a_busy_owner_fails(url: str, context: BackendContext, other: MetadataStore) -> None:
    """It fails when its time to wait is over, and succeeds with the first attempt after the owner is free."""
    with replica(url, context, wait_seconds=SHORT_SECONDS) as one:
        with other.transaction(owners={Scope(ADA).owner}):
            failing, done = one.write(ADA, "refused"), one.write(BEN, "beside")
            assert done.result().value == "beside"
            with pytest.raises(BackendUnavailableError, match="another server holds for long"):
                failing.result()
        assert one.write(ADA, "kept").result().value == "kept"
        assert one.contents(ADA) == ["kept"]


def test_more_busy_owners_than_threads(url: str, context: BackendContext, other: MetadataStore) -> None:
    """Each of them is served once it is free."""
    users = [f"user {number}" for number in range(3 * WAITERS)]
    with replica(url, context) as one, ExitStack() as busy:
        busy.enter_context(other.transaction(owners={Scope(user).owner for user in users}))
        held = [one.write(user, user) for user in users]
        assert one.write(BEN, "beside").result().value == "beside"
        until(lambda: waiting(url) == WAITERS)
        busy.close()
        assert [future.result().value for future in held] == users


def test_many_busy_owners_fail_in_time(url: str, context: BackendContext, other: MetadataStore) -> None:
    """Those who found no thread have waited as long as the others."""
    users = [f"user {number}" for number in range(3 * WAITERS)]
    with replica(url, context, wait_seconds=SHORT_SECONDS) as one:
        with other.transaction(owners={Scope(user).owner for user in users}):
            held = [one.write(user, user) for user in users]
            assert all(isinstance(future.exception(), BackendUnavailableError) for future in held)
        assert [one.write(user, user).result().value for user in users] == users


def test_work_for_all_owners_waits_beside_the_others(url: str, context: BackendContext, other: MetadataStore) -> None:
    """Though it needs a moment without transactions of any process."""
    with replica(url, context) as one:
        with other.transaction(owners={Scope(ADA).owner}):
            alone = one.committer.queue(lambda transaction: transaction.changes)
            written = [one.write(BEN, f"ben {number}").result().value for number in range(20)]
            assert not alone.done()
        assert alone.result().value == 0
        assert one.contents(BEN) == written


def test_work_for_all_owners_requests_no_lock_while_a_transaction_lasts(
    url: str, context: BackendContext, other: MetadataStore
) -> None:
    """Its request would hold up all: a process that is stopped in a transaction keeps it from the lock for long."""
    with replica(url, context) as one:
        with other.transaction(owners={Scope(ADA).owner}):
            alone = one.committer.queue(lambda transaction: transaction.changes)
            assert one.write(BEN, "ben 0").result().value == "ben 0"
            until(lambda: waiting(url, ONLY_LOOKING) == 1)
            assert one.write(BEN, "ben 1").result().value == "ben 1"
            assert not alone.done()
        assert alone.result().value == 0


def test_transactions_that_overlap_without_end_do_not_keep_work_for_all_owners_waiting(
    url: str, context: BackendContext
) -> None:
    """The next one begins before the last one ends, unless it has to wait."""
    with replica(url, context) as one, psycopg.connect(url) as first, psycopg.connect(url) as second:
        first.execute(BESIDE)
        alone = one.committer.queue(lambda transaction: transaction.changes)
        turns = cycle([first, second])
        last = next(turns)
        while not alone.done():
            following = next(turns)
            following.execute(f"SET LOCAL lock_timeout = {OVERLAP_MS}")
            with suppress(psycopg.errors.LockNotAvailable):
                following.execute(BESIDE)
            last.rollback()
            last = following
        assert alone.result().value == 0


def test_another_part_of_the_process_writes_alone_while_an_owner_waits(
    url: str, context: BackendContext, other: MetadataStore
) -> None:
    """The work that waits and the part that writes alone need each other's turn to end."""
    with replica(url, context) as one:
        with other.transaction(owners={Scope(ADA).owner}), ExitStack() as beside:
            held = one.write(ADA, "held")
            until(lambda: waiting(url) == 1)
            alone: Future[None] = Future()
            thread = threading.Thread(target=_write_alone, args=(one.store, alone))
            thread.start()
            beside.callback(thread.join)
            until(lambda: waiting(url, LOOKING) == 1)
            assert one.write(BEN, "beside").result().value == "beside"
            beside.pop_all()
        assert held.result().value == "held"
        assert alone.result() is None
        thread.join()


def test_one_that_has_waited_holds_up_none_that_writes_alone(
    url: str, context: BackendContext, other: MetadataStore
) -> None:
    """It needs the committer, that waits behind the one that writes alone, which must not wait for it."""
    with psycopg.connect(url) as third, ThreadPoolExecutor(1) as pool, replica(url, context) as one:
        third.execute(f"SET LOCAL lock_timeout = {DEADLOCK_MS}")
        with other.transaction(owners={Scope(ADA).owner}):
            ada = one.write(ADA, "ada")
            assert one.write(BEN, "first").result().value == "first"
            until(lambda: waiting(url) == 1)
            alone = pool.submit(third.execute, ALONE)
            until(lambda: waiting(url) == 2)
            ben = one.write(BEN, "ben")
            until(lambda: waiting(url) == 3)
        alone.result()
        assert not ada.done()
        assert not ben.done()
        third.rollback()
        assert [ada.result().value, ben.result().value] == ["ada", "ben"]
        assert [one.contents(ADA), one.contents(BEN)] == [["ada"], ["first", "ben"]]


def test_an_owner_who_is_locked_holds_up_none_that_writes_alone(
    url: str, context: BackendContext, other: MetadataStore
) -> None:
    """The transaction of the owner begins after it, and finds what it wrote; others of the owner wait for its end."""
    record = Record(factories.memory("alone", key="k", user_id=ADA))
    owner = Scope(ADA).owner
    with replica(url, context) as one, ExitStack() as busy, ThreadPoolExecutor(1) as pool:
        begun = one.store.lock(owner)
        busy.callback(begun.release)
        with other.transaction(is_patient=False) as alone:
            held = pool.submit(_find_key, one.store, owner, "k", begun, busy)
            until(lambda: waiting(url) == 1)
            alone.insert([record])
            assert not held.done()
        assert held.result() == "alone"
        with pytest.raises(OwnersBusyError), other.transaction(owners={owner}, is_patient=False):
            pass
        with pytest.raises(OwnersBusyError), other.transaction(is_patient=False):
            pass
        pool.submit(busy.close).result()
        with other.transaction(is_patient=False) as alone:
            assert alone.find_keys(owner, [("", "k")])


def _find_key(store: MetadataStore, owner: str, key: str, lock: OwnerLock, until_end: ExitStack) -> str:
    """Return the content of a key, in a transaction that lasts as long as *until_end*."""
    transaction = until_end.enter_context(store.transaction(owners={owner}, is_patient=False, lock=lock))
    [memory] = transaction.find_keys(owner, [("", key)]).values()
    return memory.content


def _write_alone(store: MetadataStore, done: Future[None]) -> None:
    try:
        with store.transaction():
            pass
    except Exception as error:  # noqa: BLE001 - delivered to the test
        done.set_exception(error)
    else:
        done.set_result(None)


def test_work_that_waits_is_done_before_the_committer_is_closed(
    url: str, context: BackendContext, other: MetadataStore
) -> None:
    """All submitted work is finished."""
    with ExitStack() as busy, replica(url, context) as one:
        busy.enter_context(other.transaction(owners={Scope(ADA).owner}))
        held = one.write(ADA, "held")
        until(lambda: waiting(url) == 1)
        closing = threading.Thread(target=one.committer.close)
        closing.start()
        busy.close()
        closing.join()
        assert held.result().value == "held"


def test_work_that_fails_among_work_that_waited(url: str, context: BackendContext, other: MetadataStore) -> None:
    """It fails alone, and the order of the rest is kept."""

    def fail(_: Transaction) -> str:
        raise LookupError

    with replica(url, context) as one:
        with other.transaction(owners={Scope(ADA).owner}):
            first = one.write(ADA, "first")
            failing = one.committer.queue(fail, owner=Scope(ADA).owner)
            last = one.write(ADA, "last")
            until(lambda: waiting(url) == 1)
        with pytest.raises(LookupError):
            failing.result()
        assert [first.result().value, last.result().value] == ["first", "last"]
        assert one.contents(ADA) == ["first", "last"]


def test_a_process_without_threads_refuses_the_work_of_busy_owners(
    url: str, context: BackendContext, other: MetadataStore
) -> None:
    """Others' work is done; the work for the owner is refused, and done once threads can be started."""
    with replica(url, context) as one, ExitStack() as busy:
        busy.enter_context(other.transaction(owners={Scope(ADA).owner}))
        with no_new_threads("memsvc-owner-lock"):
            with pytest.raises(BackendUnavailableError):
                one.write(ADA, "refused").result()
            assert one.write(BEN, "beside").result().value == "beside"
        held = one.write(ADA, "held")
        busy.close()
        assert held.result().value == "held"
