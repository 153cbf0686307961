"""Bulk import."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.domain.errors import InvalidRequestError, RequestIdReusedError
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, ImportProgress, OnDuplicate, RejectedItem
from memsvc.engine.memories.bulk_import import ImportRun
from tests.unit.engine.memories.write_path import ADA, Desk, open_desk


def begin(desk: Desk, request_id: str = "i1", scope: Scope = ADA) -> ImportRun:
    return desk.writing.importing.begin(scope, request_id=request_id, on_duplicate=OnDuplicate.RETURN_EXISTING)


def drafts(*contents: str) -> list[Draft]:
    return [Draft(content) for content in contents]


def test_an_import_counts_what_becomes_of_each(desk: Desk) -> None:
    """Progress counts over the whole import, failures are those of the call, by index."""
    run = begin(desk)

    run.add(0, [Draft("a"), Draft("b", key="k"), Draft("a")])
    edge = RejectedItem("INVALID_REQUEST", "memory.content: is required.")
    progress = run.add(3, [Draft("c"), edge, Draft("d", vector=[1.0]), Draft("b2", key="k")])

    counts = (progress.received, progress.created, progress.updated, progress.duplicates, progress.failed)
    assert counts == (7, 3, 1, 1, 2)
    assert (progress.next_index, progress.position) == (7, 4)
    assert [(n, bad.reason) for n, bad in progress.failures] == [(4, "INVALID_REQUEST"), (5, "INVALID_REQUEST")]
    assert run.progress == progress


@pytest.mark.parametrize("is_crashed", [False, True])
def test_an_import_goes_on_after_a_crash(tmp_path: Path, is_crashed: bool) -> None:  # noqa: FBT001 - a case
    """A new process finds the progress of the last durable batch, and passes over what is below it."""
    with open_desk(tmp_path) as desk:
        before = begin(desk).add(0, drafts("a", "b"))
        if is_crashed:
            # The batch after it was under way: nothing of it, nor of its progress, may be seen.
            with pytest.raises(ZeroDivisionError):
                desk.writing.committer.submit(lambda tx: (tx.insert([]), 1 // 0))

    with open_desk(tmp_path) as desk:
        run = begin(desk)
        assert before == run.progress
        progress = run.add(0, drafts("a", "b", "c"))

        assert (progress.received, progress.created, progress.duplicates, progress.next_index) == (3, 3, 0, 3)
        assert desk.total() == 3


def test_batches_that_are_known_are_passed_over(desk: Desk) -> None:
    """Sending from 0 again is safe, also from a second stream of the same import."""
    ahead, behind = begin(desk), begin(desk)
    ahead.add(0, drafts("a", "b", "c"))

    progress = behind.add(0, [Draft("a", speaker="x"), Draft("b", speaker="x")])
    after = behind.add(2, [Draft("c", speaker="x"), Draft("d", speaker="x")])

    assert (progress.received, progress.next_index) == (3, 3)
    assert (after.received, after.created, after.next_index) == (4, 4, 4)
    assert desk.total() == 4


def test_nothing_to_add_is_allowed(desk: Desk) -> None:
    """An empty batch does nothing."""
    assert ImportProgress() == begin(desk).add(0, [])


@pytest.mark.parametrize("first_index", [-1, 3])
@pytest.mark.parametrize("request_id", ["", "i1"])
def test_a_gap_is_refused(desk: Desk, request_id: str, first_index: int) -> None:
    """A batch must not leave out indexes."""
    run = begin(desk, request_id)
    run.add(0, drafts("a", "b"))

    with pytest.raises(InvalidRequestError) as refused:
        run.add(first_index, drafts("d"))

    assert [violation.field for violation in refused.value.violations] == ["batch.first_index"]
    assert desk.total() == 2


def test_an_import_without_an_id_starts_anew(desk: Desk) -> None:
    """Without a request_id nothing is resumed; content that is there is met as a duplicate."""
    begin(desk, "").add(0, drafts("a"))

    run = begin(desk, "")

    assert ImportProgress() == run.progress
    assert run.add(0, drafts("a")).duplicates == 1


def test_an_import_id_belongs_to_one_scope(desk: Desk) -> None:
    """The same id for another project is refused."""
    begin(desk)

    with pytest.raises(RequestIdReusedError):
        begin(desk, scope=Scope("ada", project_id="zeus"))
