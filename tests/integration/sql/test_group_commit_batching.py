"""Writers that are committed together share their statements, and each fails alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError, MemsvcError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.search import Order
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.commit.group_committer import CALL_DEADLINE, CommitResult, GroupCommitter
from memsvc.ports.metadata import ContentName, Record, RequestRecord, Transaction
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import ADA, OWNER
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings
from memsvc_backends.sql.write_session import MOST
from tests.support.postgres_server import emptied
from tests.unit.engine.memories.write_path import open_desk

Work = Callable[[Transaction], Memory]
WRITERS = 8


@pytest.fixture
def shared(context: BackendContext) -> Iterator[SqlMetadataStore]:
    """Open a store on PostgreSQL."""
    with emptied("together") as url, SQL.open(SqlSettings(url=SecretStr(url)), context) as store:
        assert isinstance(store, SqlMetadataStore)
        yield store


def remembering(name: str, **fields: Any) -> Work:
    """Return what a call does that stores a message of a session and a fact, and that is known by its request id."""

    def work(transaction: Transaction) -> Memory:
        assert transaction.recall_request(OWNER, "Create", name) is None
        fact = factories.memory(f"fact {name}", key=name, tags=("t",), session_id="s", **fields)
        transaction.find_keys(OWNER, [("", fact.key)])
        transaction.find_contents(OWNER, [ContentName("", fact.kind.value, fact.content_hash)])
        line = replace(fact, previous_row=transaction.last_row(OWNER, "", "s"))
        [written] = transaction.insert([Record(line, given_vector=b"1234")])
        transaction.remember_request(OWNER, "Create", name, RequestRecord("digest", written.id))
        return written

    return work


def test_a_write_whose_deadline_is_near_fails_and_is_not_done_unless_it_has_begun(store: SqlMetadataStore) -> None:
    """The commit before it does not end; what waits behind it leaves no trace, what was begun is durable later."""
    begun, free = threading.Event(), threading.Event()

    def late(transaction: Transaction) -> Memory:
        begun.set()
        free.wait()
        return remembering("late")(transaction)

    with closing(GroupCommitter(store)) as committer:
        with ThreadPoolExecutor() as pool, ExitStack() as stack:
            stack.callback(free.set)
            first = pool.submit(_submit_before, committer, late, seconds=0.2)
            begun.wait()
            second = pool.submit(_submit_before, committer, remembering("waiting"), seconds=0.2)
            for one in (first, second):
                with pytest.raises(DeadlineExceededError, match="the commit of the write"):
                    one.result()
        last = committer.submit(remembering("last"), owner=OWNER).value

    stored = store.memories.page(reach=ADA, where=None, order=Order(), after=None, limit=9)
    assert {memory.key for memory in stored} == {"late", last.key}


def _submit_before(committer: GroupCommitter, work: Work, *, seconds: float) -> CommitResult[Memory]:
    context = copy_context()
    context.run(CALL_DEADLINE.set, Deadline.after(seconds))
    return context.run(lambda: committer.submit(work, owner=OWNER))


def together(store: SqlMetadataStore, works: list[Work]) -> list[Future[CommitResult[Memory]]]:
    """Have all works done by one transaction: they are queued while the committer is busy."""
    busy, free = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        busy.set()
        assert free.wait(10)

    with closing(GroupCommitter(store)) as committer:
        held = committer.queue(hold)
        assert busy.wait(10)
        done = [committer.queue(work) for work in works]
        free.set()
        held.result()
    return done


def test_writers_share_their_statements(observed_store: SqlMetadataStore, statements: list[str]) -> None:
    """Seven more writers look for their names, and say nothing else of their own."""
    counts: list[int] = []
    for several in (["alone"], [f"of {WRITERS}: {number}" for number in range(WRITERS)]):
        del statements[:]
        written = [one.result().value for one in together(observed_store, [remembering(name) for name in several])]
        counts.append(len(statements))
        assert [memory.key for memory in written] == several

    # Of each more: is the request known, the key taken, the content. The first look for a session finds for all.
    assert counts[1] - counts[0] <= 3 * (WRITERS - 1) + 3, "\n".join(statements)
    listed = observed_store.memories.page(reach=ADA, where=None, order=Order(descending=False), after=None, limit=99)
    assert [memory.previous_row for memory in listed] == [None, *range(1, WRITERS + 1)]
    assert [change.position for change in observed_store.feed.changes_after(0, limit=99)] == list(range(1, WRITERS + 2))


def test_one_that_cannot_be_stored_fails_alone(store: SqlMetadataStore) -> None:
    """That turns out only when it is written beside the others: those are stored all the same, in their order."""
    works = [remembering("first"), remembering("bad", title="\ud800"), remembering("last")]

    first, bad, last = together(store, works)

    assert isinstance(bad.exception(), UnicodeEncodeError)
    assert [one.result().value.row for one in (first, last)] == [1, 2]
    assert set(store.memories.get([first.result().value.id, last.result().value.id], reach=ADA)) == {
        first.result().value.id,
        last.result().value.id,
    }
    assert store.feed.head_position() == 2


def test_what_a_look_finds_out_is_not_its_own_failure(shared: SqlMetadataStore) -> None:
    """It has written what waits, which PostgreSQL refuses, and with it all that follows: each is tried alone."""

    def look(transaction: Transaction) -> Memory:
        assert transaction.get("nobody", reach=ADA) is None
        return factories.memory()

    works = [remembering("bad", access_count=1 << 64), look, remembering("next"), remembering("last")]
    bad, *others = (one.exception() for one in together(shared, works))

    assert type(bad) is MemsvcError
    assert others == [None] * 3
    assert len(shared.feed.changes_after(0, limit=9)) == 2


def test_many_that_wait_are_written(store: SqlMetadataStore) -> None:
    """More than wait at once find their places too."""
    names = [f"{number}" for number in range(MOST + 2)]

    with store.transaction() as transaction:
        written = [remembering(name)(transaction) for name in names]
        assert transaction.find_keys(OWNER, [("", name) for name in names]) == {("", one.key): one for one in written}

    assert store.memories.counts(reach=ADA).total == len(names)
    assert [change.row for change in store.feed.changes_after(0, limit=999)] == [memory.row for memory in written]


@pytest.mark.parametrize(
    "said", ["Anna lives in Lisbon. {}", "小王住在北京。{}", "The dentist appointment was moved to March 9. {}"]
)
def test_a_batch_reads_once_what_it_is_compared_with(statements: list[str], tmp_path: Path, said: str) -> None:
    """All writers wait for its reads, however many of its memories state something of one topic."""
    with open_desk(tmp_path) as desk:
        desk.create("Dentist appointment on March 3.")
        del statements[:]
        desk.writing.remember.create_batch(Scope("ada"), [Draft(said.format(n)) for n in range(200)], WriteOptions())
        tables = [table for text in statements for table in ("statements", "reminders") if f"FROM {table}" in text]

    assert set(Counter(tables).values()) == {1}
