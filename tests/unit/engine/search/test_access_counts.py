"""Counting accesses."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.memories.lookup import AccessCounts
from tests.unit.engine.memories.write_path import Desk, open_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as opened:
        yield opened


def accesses(desk: Desk, memory_id: str) -> tuple[int, object]:
    stored = desk.stored(memory_id)
    assert stored is not None
    return stored.access_count, stored.access_time


def test_an_access_counts_once_an_hour(desk: Desk) -> None:
    """Within an hour of a counted access no other counts; a count is no revision and no change for the indexes."""
    memory, counts = desk.create("one").memory, desk.writing.accesses

    counts.note([memory.id, memory.id])
    first = desk.clock()
    desk.clock.advance(minutes=59)
    counts.note([memory.id])
    counts.flush()
    early = accesses(desk, memory.id)
    later = desk.clock.advance(minutes=1)
    counts.note([memory.id])
    counts.flush()

    assert (1, first) == early
    assert (2, later) == accesses(desk, memory.id)
    assert desk.store.feed.head_position() == 1


def test_counts_wait_for_the_flush_and_are_added_up(desk: Desk) -> None:
    """Nothing is written before the flush; then all is, once."""
    memory, counts = desk.create("one").memory, desk.writing.accesses
    counts.note([memory.id])
    later = desk.clock.advance(hours=1)
    counts.note([memory.id])
    before = accesses(desk, memory.id)

    counts.flush()
    counts.flush()

    assert before == (0, None)
    assert (2, later) == accesses(desk, memory.id)


def test_accesses_of_what_is_gone_are_passed_over(desk: Desk) -> None:
    """An unknown id spoils nothing."""
    memory, counts = desk.create("one").memory, desk.writing.accesses
    counts.note(["gone", memory.id])

    counts.flush()

    assert (1, desk.clock()) == accesses(desk, memory.id)


def test_counts_survive_a_failed_flush(desk: Desk) -> None:
    """What could not be written is kept for the next time."""
    memory = desk.create("one").memory
    closed = GroupCommitter(desk.store)
    closed.close()
    counts = AccessCounts(closed, desk.clock)
    counts.note([memory.id])

    for _ in range(2):
        with pytest.raises(BackendClosedError):
            counts.flush()


def test_concurrent_accesses_count_once(desk: Desk) -> None:
    """The rule of the hour holds across threads."""
    memory, counts = desk.create("one").memory, desk.writing.accesses

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: counts.note([memory.id]), range(100)))
    counts.flush()

    assert (1, desk.clock()) == accesses(desk, memory.id)


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    """A clean stop loses no count."""
    with open_desk(tmp_path) as desk:
        memory = desk.create("one").memory
        desk.recollect.get(desk_scope := memory.scope, memory.id)

    with open_desk(tmp_path) as desk:
        assert desk.recollect.get(desk_scope, memory.id).access_count == 1
