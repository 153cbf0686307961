"""What a supersession gives back when a side goes back, and whose memories it never reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memsvc.domain.conflicts import ConflictPolicy, ConflictState
from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.ports.metadata import Record
from tests.unit.engine.history.history_fixture import Archive
from tests.unit.engine.memories.write_path import ADA

PLAIN = WriteOptions()
GLOBAL = Scope("ada")


def link(archive: Archive, old: Memory, new: Memory) -> tuple[Memory, Memory]:
    """Have *new* supersede *old*; return both, the old one first."""
    archive.tick()
    after, before = archive.desk.writing.supersede.by_existing(ADA, old.id, new.id, expected_revision=0, options=PLAIN)
    return before.memory, after.memory


def stored(archive: Archive, memory: Memory) -> Memory:
    found = archive.desk.stored(memory.id, memory.scope)
    assert found is not None
    return found


def test_own_end_and_own_key_stay(archive: Archive) -> None:
    """Only what the link changed is taken back: not a valid_to that was said, nor is a key taken from its holder."""
    ended = archive.now
    archive.tick()
    old, new = archive.create("v1", key="k", valid_to=ended), archive.create("v2")
    _, linked = link(archive, old, new)
    assert (linked.valid_from, linked.key) == (ended, "k")
    archive.update(new, key="")
    holder = archive.create("v3", key="k")
    archive.rollback(new, 1)

    freed = stored(archive, old)
    assert (freed.status, freed.valid_to, freed.key) == (Status.ACTIVE, ended, "")
    assert stored(archive, holder).key == "k"


def test_stated_beginning_is_taken_back(archive: Archive) -> None:
    """The old memory was true until the new one said to be: it is true further on."""
    begun = archive.tick()
    old, new = archive.create("v1"), archive.create("v2", valid_from=begun)
    superseded, _ = link(archive, old, new)
    assert superseded.valid_to == begun
    back = archive.rollback(new, 1).memory

    assert (back.valid_from, back.revision) == (begun, 3)
    assert (stored(archive, old).valid_to, stored(archive, old).status) == (None, Status.ACTIVE)


@pytest.mark.parametrize("contents", [("v1", "v2", "v3"), ("一", "二", "三")])
def test_all_that_were_superseded_are_let_go(archive: Archive, contents: tuple[str, ...]) -> None:
    """Not only the one that the new memory names; one that goes back by itself leaves the name to another."""
    first, second, new = (archive.create(content) for content in contents)
    link(archive, first, new)
    link(archive, second, new)
    archive.rollback(first, 1)
    assert stored(archive, new).supersedes_id == second.id

    link(archive, stored(archive, first), new)
    archive.rollback(new, 1)
    for memory in (first, second):
        freed = stored(archive, memory)
        assert (freed.status, freed.superseded_by_id, freed.valid_to) == (Status.ACTIVE, "", None)
    assert stored(archive, new).supersedes_id == ""


def test_deleted_memory_stays_deleted(archive: Archive) -> None:
    """It is let go, and a restore makes it ACTIVE."""
    old, new = archive.create("v1"), archive.create("v2")
    link(archive, old, new)
    archive.delete(old)
    archive.rollback(new, 1)

    assert (stored(archive, old).status, stored(archive, old).superseded_by_id) == (Status.DELETED, "")
    assert archive.restore(old).status is Status.ACTIVE


def test_middle_of_a_chain_goes_back(archive: Archive) -> None:
    """Both neighbours are let go: the older one is ACTIVE, the newer one stays so and keeps the key."""
    first, second, third = archive.create("v1", key="k"), archive.create("v2"), archive.create("v3")
    link(archive, first, second)
    link(archive, second, third)
    archive.rollback(second, 1)

    states = [stored(archive, one) for one in (first, second, third)]
    assert [one.status for one in states] == [Status.ACTIVE] * 3
    assert {(one.supersedes_id, one.superseded_by_id) for one in states} == {("", "")}
    assert [one.key for one in states] == ["", "", "k"]


def test_closed_gap_stays_closed(archive: Archive) -> None:
    """Back to a revision that names what was removed since, a memory names what that had superseded."""
    first, second, third = archive.create("v1"), archive.create("v2"), archive.create("v3")
    link(archive, first, second)
    link(archive, second, third)
    archive.delete(second, hard=True)
    archive.rollback(third, 2)

    assert (stored(archive, first).superseded_by_id, stored(archive, first).status) == (third.id, Status.SUPERSEDED)
    assert stored(archive, third).supersedes_id == first.id


def test_superseding_by_policy_is_taken_back_to_the_contradiction(archive: Archive) -> None:
    """Both say what they said: the older one waits for a decision."""
    old = archive.create("Anna lives in Lisbon.", key="home")
    new = archive.create("Anna moved to Porto.", on_conflict=ConflictPolicy.SUPERSEDE)
    assert new.supersedes_id == old.id
    archive.rollback(new, 1)

    assert (stored(archive, old).status, stored(archive, old).key) == (Status.CONFLICTED, "home")
    found, _ = archive.desk.writing.resolve.page(ADA, states=(ConflictState.OPEN,), memory_id="", before="", limit=9)
    assert [(old.id, new.id)] == [(one.conflict.older_id, one.conflict.newer_id) for one in found]


def test_project_goes_back_over_the_border(archive: Archive) -> None:
    """The global memory is as it was; that of the project names it no more."""
    old = archive.create("v1", GLOBAL, key="k")
    archive.name_now("c", GLOBAL)
    new, _ = archive.desk.writing.supersede.by_new(
        ADA, old.id, Draft("v2", project_id="apollo"), expected_revision=0, options=PLAIN
    )
    assert new.memory.scope.project_id == "apollo"
    assert archive.roll_back_to("c", GLOBAL).unreturned == ()

    back = stored(archive, old)
    assert (back.status, back.superseded_by_id, back.key) == (Status.ACTIVE, "", "k")
    assert stored(archive, new.memory).supersedes_id == ""


def test_key_is_given_back_over_the_border(archive: Archive) -> None:
    """The chain from the memory leaves its project behind the one that has the key."""
    first, second, third = archive.create("v1", key="k"), archive.create("v2"), archive.create("v3", GLOBAL)
    link(archive, first, second)
    link(archive, second, third)
    assert (stored(archive, second).key, stored(archive, third).key) == ("k", "")

    assert archive.rollback(first, 1).memory.key == "k"
    assert (stored(archive, second).key, stored(archive, second).supersedes_id) == ("", "")
    assert stored(archive, third).key == ""


def test_private_memory_is_let_go(archive: Archive) -> None:
    """By another session, which learns nothing of it."""
    session = replace(ADA, session_id="s")
    old, new = archive.create("v1", session, layer=Layer.SESSION), archive.create("v2")
    archive.tick()
    archive.desk.writing.supersede.by_existing(session, old.id, new.id, expected_revision=0, options=PLAIN)
    back = archive.rollback(new, 1).memory

    assert back.supersedes_id == ""
    assert (stored(archive, old).status, stored(archive, old).superseded_by_id) == (Status.ACTIVE, "")


@pytest.mark.parametrize("other", [Scope("bob", project_id="apollo"), Scope("ada", tenant_id="t")])
def test_nothing_of_another_user_is_reached(archive: Archive, other: Scope) -> None:
    """Even if a link named it, neither a rollback nor a removal changes it."""
    foreign = archive.create("theirs", other)
    memory = archive.create("mine")

    def name(before: Memory, **links: str) -> Memory:
        values: dict[str, Any] = {**links, "revision": before.revision + 1, "update_time": archive.tick()}
        after = replace(before, **values)
        with archive.desk.store.transaction() as transaction:
            transaction.update(before, Record(after), ChangeAction.UPDATED)
        return after

    foreign = name(foreign, supersedes_id=memory.id, superseded_by_id=memory.id)
    name(memory, supersedes_id=foreign.id, superseded_by_id=foreign.id)
    back = archive.rollback(memory, 1).memory
    assert (back.supersedes_id, back.superseded_by_id) == ("", "")
    again = archive.rollback(memory, 2).memory
    assert (again.supersedes_id, again.superseded_by_id) == ("", "")
    archive.delete(memory, hard=True)
    assert stored(archive, foreign) == foreign


def test_no_ring_is_closed_over_the_border(archive: Archive) -> None:
    """A rollback to a link is refused when the other memory is superseded by this one now, whichever the projects."""
    old, new = archive.create("v1", GLOBAL), archive.create("v2")
    link(archive, old, new)
    archive.rollback(old, 1)
    link(archive, new, old)

    with pytest.raises(InvalidRequestError):
        archive.rollback(old, 2, GLOBAL)
