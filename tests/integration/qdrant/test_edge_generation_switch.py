"""Each generation has a child of its own, which searches that were begun keep until they are answered."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.index_entries import Hit, VectorManifest, View, row_of
from memsvc.ports.indexes import PendingSearch
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.vectors import unit, vector_entry
from memsvc_backends.qdrant_edge.generation import EdgeGeneration
from memsvc_backends.qdrant_edge.index import QdrantEdgeIndex


def begun(index: QdrantEdgeIndex, *, deadline: Deadline = NO_HURRY) -> PendingSearch:
    """Begin a search of everything."""
    return index.begin_search(unit(1, 0, 0), view=View.CHUNK, reach=REACH, limit=100, deadline=deadline)


def rows(hits: Sequence[Hit]) -> list[int]:
    """Return the rows of the hits, ascending."""
    return sorted(row_of(hit.entry_id) for hit in hits)


def put(index: QdrantEdgeIndex | EdgeGeneration, *numbers: int) -> None:
    """Write memories of these rows."""
    index.replace({row: [vector_entry(factories.attributes(row), unit(1, 0, 0))] for row in numbers})


def begin(index: QdrantEdgeIndex, *numbers: int) -> EdgeGeneration:
    """Begin and fill a second generation."""
    made = index.begin(VectorManifest(generation=2, model="m", dimension=3, position=1))
    assert isinstance(made, EdgeGeneration)
    put(made, *numbers)
    return made


def child_of(index: QdrantEdgeIndex) -> int:
    """Return the process id of the live generation's child."""
    assert index.child_pid is not None
    return index.child_pid


def test_new_generation_asks_nothing_of_the_live_child(index: QdrantEdgeIndex) -> None:
    """Sealing and the changes after it are done without the child that is searched, which may be at a standstill.

    On a slow machine it may take so long that the child is found to hang, and is replaced.
    """
    live = child_of(index)
    os.kill(live, signal.SIGSTOP)
    try:
        made = begin(index, 2)
        made.seal()
        put(made, 3)
    finally:
        with suppress(ProcessLookupError):
            os.kill(live, signal.SIGCONT)
    index.switch(made)

    assert rows(begun(index).result()) == [2, 3]
    assert child_of(index) != live


def test_switch_ends_the_child_before(index: QdrantEdgeIndex, directory: Path) -> None:
    """Its process and its folder are gone when the switch returns."""
    before = child_of(index)
    made = begin(index, 2)
    made.seal()
    index.switch(made)

    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert sorted(path.name for path in directory.iterdir()) == ["gen-000002", "manifest.json"]


def test_searches_begun_before_a_switch_are_answered_by_the_generation_before(index: QdrantEdgeIndex) -> None:
    """The child before ends when it has answered all that it was asked, and its answers are kept."""
    put(index, 1)
    made = begin(index, 2)
    made.seal()
    pending = [begun(index) for _ in range(8)]
    index.switch(made)

    assert [rows(one.result()) for one in pending] == [[1]] * 8
    assert rows(begun(index).result()) == [2]


def test_discarded_generation_ends_its_child(index: QdrantEdgeIndex, directory: Path) -> None:
    """A sealed generation that is not wanted leaves neither process nor folder."""
    made = begin(index, 2)
    made.seal()
    assert made.shard.pid is not None
    child = made.shard.pid
    made.discard()

    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert sorted(path.name for path in directory.iterdir()) == ["gen-000001", "manifest.json"]


def test_closing_ends_the_child_of_a_sealed_generation(index: QdrantEdgeIndex) -> None:
    """No process is left when the index is closed before the switch."""
    made = begin(index, 2)
    made.seal()
    assert made.shard.pid is not None
    children = [child_of(index), made.shard.pid]
    index.close()

    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_child_killed_before_the_result_is_replaced_and_asked_again(index: QdrantEdgeIndex) -> None:
    """Whoever holds begun searches does not notice that their child died."""
    put(index, 1, 2)
    for _ in range(3):
        os.kill(child_of(index), signal.SIGSTOP)
        pending = [begun(index) for _ in range(10)]
        os.kill(child_of(index), signal.SIGKILL)

        assert [rows(one.result()) for one in pending] == [[1, 2]] * 10


def test_begun_search_of_a_child_that_cannot_come_back_fails(index: QdrantEdgeIndex, directory: Path) -> None:
    """It fails as a search does."""
    put(index, 1)
    os.kill(child_of(index), signal.SIGSTOP)
    pending = begun(index)
    shutil.rmtree(directory / "gen-000001")
    os.kill(child_of(index), signal.SIGKILL)

    with pytest.raises(BackendUnavailableError):
        pending.result()


def test_result_of_a_hanging_child_is_not_waited_for_beyond_the_deadline(index: QdrantEdgeIndex) -> None:
    """Nor does its reply, when it comes at last, reach anybody else."""
    put(index, *range(1, 13))
    child = child_of(index)
    os.kill(child, signal.SIGSTOP)
    try:
        pending = [begun(index, deadline=Deadline.after(0.05)) for _ in range(40)]
        for one in pending:
            with pytest.raises(DeadlineExceededError):
                one.result()
    finally:
        os.kill(child, signal.SIGCONT)

    for row in range(1, 13):
        put(index, row)
    assert rows(begun(index).result()) == list(range(1, 13))
    assert index.count() == 12
    assert child_of(index) == child
