"""Going back: single memories and whole projects, broken off, beside others, and by those who may not see all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    CheckpointNotFoundError,
    DeadlineExceededError,
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    RequestIdReusedError,
    RevisionNotFoundError,
)
from memsvc.domain.history import AsOf, DifferenceKind, RollbackObstacle
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.domain.search import Selection
from memsvc.domain.write_requests import OnDuplicate, Outcome
from memsvc.engine.history import checkpoint_rollback
from memsvc.ports.metadata import Record
from tests.unit.engine.history.history_fixture import Archive
from tests.unit.engine.memories.write_path import ADA

S1 = Scope("ada", project_id="apollo", session_id="s1")
S2 = Scope("ada", project_id="apollo", session_id="s2")


class Interrupted(Deadline):
    """A deadline that does something when it is looked at, and passes when that says so."""

    def __init__(self, look: Callable[[], bool]) -> None:
        super().__init__()
        object.__setattr__(self, "look", look)

    def has_passed(self) -> bool:
        look: Callable[[], bool] = vars(self)["look"]
        return look()


def poisoned(archive: Archive, count: int) -> list[Memory]:
    """Store memories, name the moment, and change them all."""
    memories = [archive.create(f"记忆 number {number}") for number in range(count)]
    archive.name_now("c")
    for memory in memories:
        archive.update(memory, content=f"poison {memory.id}")
    archive.tick()
    return memories


def test_what_broke_off_goes_on(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was rolled back stays so; the same request finishes and counts everything; once done it answers again."""
    monkeypatch.setattr(checkpoint_rollback, "PART", 2)
    memories = poisoned(archive, 5)
    looks = iter((False, False, True))

    with pytest.raises(DeadlineExceededError, match="1 of 5"):
        archive.rollbacks.run(ADA, "c", request_id="r", deadline=Interrupted(lambda: next(looks)))
    stored = [archive.desk.stored(memory.id) for memory in memories]
    assert 4 == sum(one is not None and "poison" not in one.content for one in stored)
    report = archive.roll_back_to("c", request_id="r")
    assert {DifferenceKind.CHANGED: 5} == report.counts
    assert report == archive.roll_back_to("c", request_id="r")
    with pytest.raises(RequestIdReusedError):
        archive.rollbacks.run(S1, "c", request_id="r", deadline=Deadline())
    undo = archive.roll_back_to(report.undo)
    assert {DifferenceKind.CHANGED: 5} == undo.counts


def test_what_others_write_meanwhile_stays(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that is changed or made after the start is left alone, and the report names the changed one."""
    monkeypatch.setattr(checkpoint_rollback, "PART", 2)
    memories = poisoned(archive, 3)
    late: list[Memory] = []

    def meddle() -> bool:
        if not late:
            late.extend((archive.update(memories[2], content="mine"), archive.create("new")))
        return False

    report = archive.rollbacks.run(ADA, "c", request_id="", deadline=Interrupted(meddle))

    assert {DifferenceKind.CHANGED: 2} == report.counts
    assert [(memories[2].id, RollbackObstacle.CHANGED_MEANWHILE)] == [
        (one.memory_id, one.reason) for one in report.unreturned
    ]
    assert [late[0].content, late[1].content] == [
        found.content for one in late if (found := archive.desk.stored(one.id)) is not None
    ]


def test_contents_are_claimed_again(archive: Archive) -> None:
    """After a rollback equal content is a duplicate of what came back, and what was taken over is given back."""
    one = archive.create("one")
    archive.name_now("c")
    archive.update(one, content="two")
    rival = archive.create("one")

    archive.roll_back_to("c")

    assert (one.id, Outcome.DUPLICATE) == ((again := archive.desk.create("one")).memory.id, again.outcome)
    gone = archive.desk.stored(rival.id)
    assert gone is not None
    assert gone.status is Status.DELETED


def test_twins_that_stood_side_by_side_may_again(archive: Archive) -> None:
    """A memory kept beside its duplicate goes back to the content that both had."""
    archive.create("one")
    twin = archive.create("one", on_duplicate=OnDuplicate.KEEP_BOTH)
    archive.update(twin, content="two")

    assert "one" == archive.rollback(twin, 1).memory.content


def test_content_that_another_memory_took_since_does_not_come_back(archive: Archive) -> None:
    """An older memory that says the same by now is in the way, too."""
    older = archive.create("old")
    memory = archive.create("one")
    archive.update(memory, content="two")
    archive.update(older, content="one")

    with pytest.raises(MemoryExistsError) as refused:
        archive.rollback(memory, 1)

    assert older.id == refused.value.memory_id


def test_private_memories_are_nobody_elses_past(archive: Archive) -> None:
    """Nobody sees of the past what they may not see now, nor what was private then; a rollback leaves both alone."""
    hides = archive.create("shared once", scope=S1)
    shows = archive.create("private once", scope=S1, layer=Layer.SESSION)
    moment = archive.name_now("c")
    archive.update(hides, scope=S1, layer=Layer.SESSION, content="hidden")
    archive.update(shows, scope=S1, layer=Layer.LONG_TERM, content="shown")
    archive.tick()

    for memory in (hides, shows):
        assert memory.id == archive.at(memory.id, moment, scope=S1).id
        with pytest.raises(MemoryNotFoundError):
            archive.at(memory.id, moment, scope=S2)
    assert [] == archive.listed(moment, S2)
    assert {hides.id, shows.id} == {memory.id for memory in archive.listed(moment, S1)}
    with pytest.raises(RevisionNotFoundError):
        archive.retrospect.revision(S2, shows.id, 1)
    assert [2] == [one.memory.revision for one in archive.retrospect.revisions(S2, shows.id, before=None, limit=9)[0]]
    assert [(shows.id, None)] == [(one.memory_id, one.before) for one in archive.differences("c", S2)]
    assert {} == archive.roll_back_to("c", S2).counts
    assert {DifferenceKind.CHANGED: 2} == archive.roll_back_to("c", S1).counts


def test_a_purged_private_memory_is_told_to_its_session_only(archive: Archive) -> None:
    """Its id is in no difference of others."""
    private = archive.create("private", scope=S1, layer=Layer.SESSION)
    archive.name_now("c")
    archive.delete(private, scope=S1, hard=True)
    archive.tick()

    assert [] == archive.differences("c", S2)
    assert [private.id] == [one.memory_id for one in archive.differences("c", S1)]
    assert 0 == archive.rollbacks.preview(S2, "c").unreturned_count
    assert 1 == archive.rollbacks.preview(S1, "c").unreturned_count


def test_no_memory_is_superseded_by_itself(archive: Archive) -> None:
    """A rollback that would close a chain to a circle is refused, and changes nothing."""
    one, two = archive.create("one"), archive.create("two")

    def link(memory: Memory, successor: str) -> Memory:
        after = replace(memory, superseded_by_id=successor, revision=memory.revision + 1, update_time=archive.tick())
        with archive.desk.store.transaction() as transaction:
            transaction.update(memory, Record(after), ChangeAction.UPDATED)
        return after

    free = link(link(one, two.id), "")
    link(two, one.id)

    with pytest.raises(InvalidRequestError, match="revision"):
        archive.rollback(free, 2)
    assert free == archive.desk.stored(one.id)


def test_unknown_checkpoints_change_nothing(archive: Archive) -> None:
    """Neither by a rollback nor by its preview."""
    memory = archive.create("one")

    with pytest.raises(CheckpointNotFoundError):
        archive.roll_back_to("x")
    with pytest.raises(CheckpointNotFoundError):
        archive.rollbacks.preview(ADA, "x")
    assert [memory] == archive.listed(archive.now, selection=Selection())
    assert ([], False) == archive.checkpoints.page(ADA, after=None, limit=9)


def test_what_was_true_then(archive: Archive) -> None:
    """A read by id with a valid time finds what was true at it only."""
    moment = archive.now
    memory = archive.create("one", valid_from=moment)

    assert memory == archive.retrospect.get(ADA, memory.id, AsOf(valid_time=moment))
    with pytest.raises(MemoryNotFoundError):
        archive.retrospect.get(ADA, memory.id, AsOf(valid_time=moment.replace(year=2020)))
