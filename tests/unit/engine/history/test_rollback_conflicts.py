"""Conflicts and supersession after going back: both sides agree, and nothing stays marked without a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memsvc.domain.conflicts import Conflict, ConflictPolicy, ConflictState, Resolution
from memsvc.domain.errors import ConflictSettledError, DeadlineExceededError, MemoryExistsError
from memsvc.domain.memory import Memory, Status
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.history import checkpoint_rollback
from tests.unit.engine.history.history_fixture import Archive
from tests.unit.engine.history.test_rollback import Interrupted
from tests.unit.engine.memories.write_path import ADA

LISBON, PORTO = "Anna lives in Lisbon.", "Anna moved to Porto."
PLAIN = WriteOptions()


def stored(archive: Archive, *memories: Memory) -> list[Memory]:
    found = [archive.desk.stored(memory.id) for memory in memories]
    return [memory for memory in found if memory is not None]


def statuses(archive: Archive, *memories: Memory) -> list[Status]:
    return [memory.status for memory in stored(archive, *memories)]


def conflicts(archive: Archive) -> list[Conflict]:
    """Return all conflicts, oldest first."""
    found, _ = archive.desk.writing.resolve.page(ADA, states=tuple(ConflictState), memory_id="", before="", limit=50)
    return [one.conflict for one in reversed(found)]


def states(archive: Archive) -> list[ConflictState]:
    return [conflict.state for conflict in conflicts(archive)]


def settle(archive: Archive, resolution: Resolution) -> None:
    archive.tick()
    archive.desk.writing.resolve.resolve(ADA, conflicts(archive)[0].id, resolution, PLAIN)


def test_mark_is_taken_back(archive: Archive) -> None:
    """The older memory of before is in no conflict; back to the mark, the conflict is open again."""
    older, newer = archive.create(LISBON), archive.create(PORTO)
    assert archive.rollback(older, 1).memory.status is Status.ACTIVE
    assert states(archive) == [ConflictState.CLOSED]

    again = archive.rollback(older, 2).memory
    assert [again.status, *statuses(archive, newer)] == [Status.CONFLICTED, Status.ACTIVE]
    assert states(archive) == [ConflictState.OPEN]


@pytest.mark.parametrize("resolution", Resolution)
def test_decision_is_taken_back(archive: Archive, resolution: Resolution) -> None:
    """The older memory is CONFLICTED again if the newer one still stands against it, else ACTIVE."""
    older, newer = archive.create(LISBON), archive.create(PORTO)
    settle(archive, resolution)
    again = archive.rollback(older, 2).memory

    is_open = resolution is not Resolution.REJECT
    assert (again.status is Status.CONFLICTED) is is_open
    assert (states(archive) == [ConflictState.OPEN]) is is_open
    assert [again] == stored(archive, older)
    assert [memory.supersedes_id for memory in stored(archive, newer)] == [""]


def test_supersession_is_taken_back(archive: Archive) -> None:
    """The old memory is as it was; the new one does not name it any more, and neither contradicts by itself."""
    old = archive.create("v1", key="k")
    new, _ = archive.desk.writing.supersede.by_new(
        ADA, old.id, Draft("v2", key="l"), expected_revision=0, options=PLAIN
    )
    back = archive.rollback(old, 1).memory
    assert (back.status, back.superseded_by_id, back.key, back.valid_to) == (Status.ACTIVE, "", "k", None)
    assert [memory.supersedes_id for memory in stored(archive, new.memory)] == [""]

    archive.rollback(old, 2)
    [old, again] = stored(archive, old, new.memory)
    assert (old.superseded_by_id, again.supersedes_id) == (again.id, old.id)


@pytest.mark.parametrize("length", [1, 2])
def test_a_key_that_was_taken_by_superseding_is_given_back(archive: Archive, length: int) -> None:
    """By whoever bears it at the end of the chain; what others took by themselves stays theirs, and the error says so."""
    old = archive.create("用户的咖啡", key="k")
    chain = [old]
    for number in range(length):
        new, _ = archive.desk.writing.supersede.by_new(
            ADA, chain[-1].id, Draft(f"v{number}"), expected_revision=0, options=PLAIN
        )
        chain.append(new.memory)
    assert "k" == chain[-1].key
    back = archive.rollback(old, 1).memory

    assert (back.status, back.key, back.superseded_by_id) == (Status.ACTIVE, "k", "")
    assert [("", "")] == [(one.key, one.supersedes_id) for one in stored(archive, chain[1])]
    assert {""} == {one.key for one in stored(archive, *chain[1:])}
    archive.update(back, key="")
    other = archive.create("other", key="k")
    with pytest.raises(MemoryExistsError, match=f"{other.id}' holds the key 'k'"):
        archive.rollback(old, 1)


def test_link_to_what_is_gone_is_let_go(archive: Archive) -> None:
    """Back to a revision that was superseded by a memory that was removed for good, it can be restored."""
    old = archive.create("v1")
    new, _ = archive.desk.writing.supersede.by_new(ADA, old.id, Draft("v2"), expected_revision=0, options=PLAIN)
    archive.delete(new.memory, hard=True)
    again = archive.rollback(old, 2).memory

    assert (again.status, again.superseded_by_id) == (Status.SUPERSEDED, "")
    assert archive.restore(old).status is Status.ACTIVE


@pytest.mark.parametrize("part", [1, 200])
@pytest.mark.parametrize("texts", [(LISBON, PORTO), ("小王住在北京。", "小王搬到了上海。")])
def test_project_goes_back_with_its_conflicts(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, texts: tuple[str, str], part: int
) -> None:
    """Before the contradiction there is none; after the undo it is open again."""
    monkeypatch.setattr(checkpoint_rollback, "PART", part)
    older = archive.create(texts[0])
    archive.name_now("c")
    newer = archive.create(texts[1])
    report = archive.roll_back_to("c", request_id="r")

    assert report.unreturned == ()
    assert statuses(archive, older, newer) == [Status.ACTIVE, Status.DELETED]
    assert states(archive) == [ConflictState.CLOSED]
    assert archive.roll_back_to("c", request_id="r").counts == report.counts
    archive.roll_back_to(report.undo)
    assert statuses(archive, older, newer) == [Status.CONFLICTED, Status.ACTIVE]
    assert states(archive) == [ConflictState.OPEN]


@pytest.mark.parametrize("resolution", Resolution)
def test_project_goes_back_before_a_decision(archive: Archive, resolution: Resolution) -> None:
    """The conflict waits for a decision as it did then."""
    older, newer = archive.create(LISBON), archive.create(PORTO)
    archive.name_now("c")
    settle(archive, resolution)
    report = archive.roll_back_to("c")

    assert report.unreturned == ()
    assert statuses(archive, older, newer) == [Status.CONFLICTED, Status.ACTIVE]
    assert states(archive) == [ConflictState.OPEN]
    assert [memory.supersedes_id for memory in stored(archive, newer)] == [""]
    settle(archive, resolution)


def test_project_goes_back_over_a_chain(archive: Archive) -> None:
    """Both ends of every link are as they were, and again after the undo."""
    first = archive.create(LISBON, key="home")
    archive.name_now("c")
    archive.tick()
    second = archive.desk.create(PORTO, on_conflict=ConflictPolicy.SUPERSEDE).memory
    archive.tick()
    report = archive.roll_back_to("c")

    [old, new] = stored(archive, first, second)
    assert (old.status, old.superseded_by_id, old.key, old.valid_to) == (Status.ACTIVE, "", "home", None)
    assert new.status is Status.DELETED
    archive.roll_back_to(report.undo)
    [old, new] = stored(archive, first, second)
    assert (old.status, old.superseded_by_id, new.supersedes_id, new.key) == (
        Status.SUPERSEDED, second.id, first.id, "home",
    )  # fmt: skip


@pytest.mark.parametrize("resolution", Resolution)
@pytest.mark.parametrize("is_older_kept", [True, False])
def test_a_rollback_that_is_interrupted_leaves_no_conflict_to_resolve(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, resolution: Resolution, *, is_older_kept: bool
) -> None:
    """A conflict of a memory that it deleted is closed with the deletion: nobody brings the memory back by it."""
    monkeypatch.setattr(checkpoint_rollback, "PART", 1)
    if is_older_kept:
        older = archive.create(LISBON)
        archive.name_now("c")
        newer = archive.create(PORTO)
    else:
        archive.name_now("c")
        older, newer = archive.create(LISBON), archive.create(PORTO)
    archive.tick()
    looks = iter((False, True))
    with pytest.raises(DeadlineExceededError):
        archive.rollbacks.run(ADA, "c", request_id="", deadline=Interrupted(lambda: next(looks)))
    before = stored(archive, older, newer)
    assert Status.DELETED in {memory.status for memory in before}

    with pytest.raises(ConflictSettledError, match="CLOSED"):
        settle(archive, resolution)

    assert stored(archive, older, newer) == before
    archive.roll_back_to("c")
    assert statuses(archive, older, newer) == [Status.ACTIVE if is_older_kept else Status.DELETED, Status.DELETED]
    assert states(archive) == [ConflictState.CLOSED]


@pytest.mark.parametrize("resolution", Resolution)
def test_an_open_conflict_of_a_deleted_memory_is_closed_by_its_resolution(
    archive: Archive, resolution: Resolution
) -> None:
    """As earlier versions left them; the deleted memory stays deleted, and the other one is in use again."""
    older, newer = archive.create(LISBON), archive.create(PORTO)
    archive.delete(newer)
    [conflict] = conflicts(archive)
    with archive.desk.store.transaction() as transaction:
        transaction.settle_conflicts([replace(conflict, state=ConflictState.OPEN, resolve_time=None)])
        assert transaction.open_conflicts(older.scope.owner, [older.id])

    with pytest.raises(ConflictSettledError, match="CLOSED"):
        settle(archive, resolution)

    assert statuses(archive, older, newer) == [Status.ACTIVE, Status.DELETED]
    assert states(archive) == [ConflictState.CLOSED]
