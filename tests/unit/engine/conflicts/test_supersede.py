"""Supersession links both ends in one transaction, and never closes to a ring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import (
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    MemorySupersededError,
    RevisionConflictError,
    SupersedeCycleError,
)
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, Outcome, Patch, WriteOptions, WriteResult
from memsvc.engine.conflicts.supersession import supersession_chain
from tests.unit.engine.memories.write_path import ADA, Desk


def supersede(desk: Desk, old: Memory, content: str, scope: Scope = ADA, **given: Any) -> tuple[Memory, Memory]:
    options = WriteOptions(
        request_id=given.pop("request_id", ""), on_conflict=given.pop("on_conflict", ConflictPolicy.MARK)
    )
    revision = given.pop("expected_revision", 0)
    new, before = desk.writing.supersede.by_new(
        scope, old.id, Draft(content, **given), expected_revision=revision, options=options
    )
    return new.memory, before.memory


def link(desk: Desk, old: Memory, new: Memory) -> tuple[WriteResult, WriteResult]:
    return desk.writing.supersede.by_existing(ADA, old.id, new.id, expected_revision=0, options=WriteOptions())


def delete(desk: Desk, memory: Memory, *, hard: bool) -> None:
    desk.writing.revise.delete(ADA, memory.id, hard=hard, expected_revision=0, options=WriteOptions())


def stored(desk: Desk, memory: Memory) -> Memory:
    found = desk.stored(memory.id)
    assert found is not None
    return found


def test_both_ends_are_set_together(desk: Desk) -> None:
    """The old memory is SUPERSEDED and names the new one, which names it and takes over what it does not say."""
    first = desk.create("v1", key="k", layer=Layer.CORE, kind=Kind.PREFERENCE, tags=("a",), importance=5).memory
    new, old = supersede(desk, first, "v2", importance=4)

    assert (old.status, old.superseded_by_id, old.key, old.revision) == (Status.SUPERSEDED, new.id, "", 2)
    assert (new.status, new.supersedes_id, new.key, new.revision) == (Status.ACTIVE, old.id, "k", 1)
    assert (new.layer, new.kind, new.tags, new.importance) == (Layer.CORE, Kind.PREFERENCE, ("a",), 4)
    assert (stored(desk, old), stored(desk, new)) == (old, new)


def test_chain_can_be_walked(desk: Desk) -> None:
    """From any of its memories, the oldest first."""
    first = desk.create("v1").memory
    second, first = supersede(desk, first, "v2")
    third, second = supersede(desk, second, "v3")

    for memory in (first, second, third):
        assert supersession_chain(desk.store.memories, ADA, memory) == [first, second, third]
    assert supersession_chain(desk.store.memories, Scope("bob"), third) == [third]


def test_repetition_supersedes_once(desk: Desk) -> None:
    """The same request gets the same answer."""
    first = desk.create("v1").memory
    once = supersede(desk, first, "v2", request_id="r")

    assert supersede(desk, first, "v2", request_id="r") == once
    assert desk.total() == 2


def test_memory_is_superseded_once(desk: Desk) -> None:
    """A chain does not fork; its end can be superseded."""
    first = desk.create("v1").memory
    new, _ = supersede(desk, first, "v2")

    with pytest.raises(MemorySupersededError, match=new.id):
        supersede(desk, first, "v3")
    assert supersede(desk, new, "v3")[0].supersedes_id == new.id


def test_rings_are_refused(desk: Desk) -> None:
    """Neither by itself, nor by what it superseded, nor by way of others; nothing is changed."""
    first = desk.create("v1").memory
    second, first = supersede(desk, first, "v2")
    third, second = supersede(desk, second, "v3")

    for old, new in ((first, first), (third, third), (third, first), (third, second), (second, first)):
        with pytest.raises(SupersedeCycleError, match=old.id):
            link(desk, old, new)
    assert [stored(desk, one) for one in (first, second, third)] == [first, second, third]


def test_rings_over_projects_are_refused(desk: Desk) -> None:
    """A global memory that one of a project superseded cannot supersede that one."""
    everywhere = desk.create("v1", replace(ADA, project_id="")).memory
    here = desk.create("v2").memory
    link(desk, everywhere, here)

    with pytest.raises(SupersedeCycleError, match=here.id):
        link(desk, here, everywhere)


def test_memory_that_is_there_can_take_the_place(desk: Desk) -> None:
    """Only an ACTIVE one; both ends are set."""
    first, second = desk.create("v1", key="k").memory, desk.create("v2", key="l").memory
    new, old = link(desk, first, second)

    assert (old.memory.superseded_by_id, new.memory.supersedes_id, new.memory.key) == (second.id, first.id, "l")
    assert new.outcome is Outcome.UPDATED
    third, fourth = desk.create("v3").memory, desk.create("v4").memory
    desk.writing.revise.update(
        ADA, memory_id=fourth.id, key="", patch=Patch({"status": Status.ARCHIVED}), expected_revision=0,
        options=WriteOptions(),
    )  # fmt: skip
    with pytest.raises(InvalidRequestError):
        link(desk, third, fourth)


def test_what_is_in_the_way_is_told(desk: Desk) -> None:
    """A missing or changed memory, a taken key, equal content: nothing is changed."""
    first = desk.create("v1").memory
    other = desk.create("other", key="k").memory

    for change, error in (
        ({"content": "v2", "key": "k"}, MemoryExistsError),
        ({"content": "other"}, MemoryExistsError),
        ({"content": "v2", "expected_revision": 7}, RevisionConflictError),
        ({"content": "v2", "scope": Scope("ada")}, MemoryNotFoundError),
        ({"content": "v2", "scope": Scope("adam", project_id="apollo")}, MemoryNotFoundError),
    ):
        with pytest.raises(error):
            supersede(desk, first, **change)
    assert (stored(desk, first), stored(desk, other)) == (first, other)
    assert supersede(desk, first, "v1")[0].content == "v1"


def test_global_memory_is_replaced_where_it_lives(desk: Desk) -> None:
    """The new memory is in the old one's project, not in the caller's."""
    first = desk.create("v1", Scope("ada")).memory

    assert supersede(desk, first, "v2")[0].scope == Scope("ada")


def test_superseded_memory_does_not_come_back(desk: Desk) -> None:
    """Neither by its status, nor its key, nor a restore; deleted and restored it is SUPERSEDED still."""
    first = desk.create("v1", key="k").memory
    new, old = supersede(desk, first, "v2")

    for values in ({"status": Status.ACTIVE}, {"key": "other"}):
        with pytest.raises(MemorySupersededError):
            desk.writing.revise.update(
                ADA, memory_id=old.id, key="", patch=Patch(values), expected_revision=0, options=WriteOptions()
            )

    def restored() -> Memory:
        return desk.writing.revise.restore(ADA, old.id, expected_revision=0, options=WriteOptions()).memory

    assert restored() == old
    delete(desk, old, hard=False)
    assert restored().status is Status.SUPERSEDED
    assert desk.create("v3", key="k").memory.id == new.id


def test_gap_in_a_chain_is_closed(desk: Desk) -> None:
    """When one is removed for good its neighbours are linked; without a successor the end can be restored."""
    first = desk.create("v1").memory
    second, first = supersede(desk, first, "v2")
    third, second = supersede(desk, second, "v3")
    delete(desk, second, hard=True)

    assert stored(desk, first).superseded_by_id == third.id
    assert stored(desk, third).supersedes_id == first.id
    delete(desk, third, hard=True)
    end = stored(desk, first)
    assert (end.status, end.superseded_by_id) == (Status.SUPERSEDED, "")
    back = desk.writing.revise.restore(ADA, first.id, expected_revision=0, options=WriteOptions()).memory
    assert back.status is Status.ACTIVE


@pytest.mark.parametrize("contents", [("v1", "other v1", "v2", "v3"), ("一", "别的一", "二", "三")])
def test_several_that_one_superseded_are_all_freed(desk: Desk, contents: tuple[str, ...]) -> None:
    """When it is removed for good they are of its successor, and can be restored without one."""
    first, other, new = (desk.create(content).memory for content in contents[:3])
    link(desk, first, new)
    link(desk, other, new)
    last, _ = supersede(desk, stored(desk, new), contents[3])
    delete(desk, new, hard=True)

    assert [stored(desk, one).superseded_by_id for one in (first, other)] == [last.id, last.id]
    assert stored(desk, last).supersedes_id == first.id
    delete(desk, first, hard=True)
    delete(desk, last, hard=True)
    assert (stored(desk, other).status, stored(desk, other).superseded_by_id) == (Status.SUPERSEDED, "")
    back = desk.writing.revise.restore(ADA, other.id, expected_revision=0, options=WriteOptions()).memory
    assert back.status is Status.ACTIVE


def test_new_memory_is_compared(desk: Desk) -> None:
    """It may contradict others than the one it supersedes; that one is no conflict."""
    first = desk.create("Anna lives in Lisbon.").memory
    other = desk.create("Anna is a nurse.").memory
    new, _ = desk.writing.supersede.by_new(
        ADA, first.id, Draft("Anna lives in Porto and works as a baker."), expected_revision=0, options=WriteOptions()
    )

    assert [one.conflict.older_id for one in new.conflicts] == [other.id]
    assert stored(desk, other).status is Status.CONFLICTED


def test_nothing_withheld_takes_part(desk: Desk) -> None:
    """Neither does a memory that waits for a review give its place up, nor does one take a place; sources count."""
    first = desk.create("v1").memory
    withheld = desk.create("v2", status=Status.QUARANTINED).memory

    for old, fields in (
        (first, {"status": Status.QUARANTINED}), (first, {"derived_from_ids": (withheld.id,)}), (withheld, {}),
        (first, {"derived_from_ids": ("0190163d-8694-739b-aea5-966c26f8ad91",)}),
    ):  # fmt: skip
        with pytest.raises(InvalidRequestError):
            supersede(desk, old, "v3", **fields)
    with pytest.raises(InvalidRequestError):
        link(desk, withheld, first)
    with pytest.raises(InvalidRequestError):
        link(desk, first, withheld)
    assert (stored(desk, first), stored(desk, withheld)) == (first, withheld)
