"""Revisions, checkpoints and rollbacks after the clock of the service was set back."""

from __future__ import annotations

import pytest

from memsvc.domain.history import DifferenceKind
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from tests.unit.engine.history.history_fixture import Archive
from tests.unit.engine.memories.write_path import ADA

REACH = Reach.from_scope(ADA)
HOUR = 3_600


def current(archive: Archive, memory: Memory) -> Memory:
    """Return the stored revision."""
    return archive.desk.store.memories.get([memory.id], reach=REACH)[memory.id]


@pytest.mark.parametrize("seconds", [-1, -HOUR, -366 * 24 * HOUR])
def test_times_of_revisions_ascend(archive: Archive, seconds: int) -> None:
    """Each is known from no earlier than the one before, in the store and in the response, and until the next one."""
    memory = archive.create("The harbour opens at dawn.")
    first = archive.update(memory, content="港口六点开门。")
    archive.desk.clock.advance(seconds=seconds)
    second = archive.update(memory, content="The harbour opens at noon.")
    third = archive.delete(memory)

    lines = archive.desk.store.memories.revisions(memory.id, reach=REACH, before=None, limit=9)
    times = [line.memory.update_time for line in reversed(lines)]
    assert times == sorted(times)
    assert [line.until for line in reversed(lines)] == [*times[1:], None]
    assert times[1:] == [first.update_time, second.update_time, third.update_time]
    assert current(archive, memory) == third
    assert third.create_time == memory.create_time


def test_checkpoints_see_what_is_written_after_the_clock_was_set_back(archive: Archive) -> None:
    """Edits, deletions, purges and new memories are differences, a rollback takes them back, and its undo works."""
    edited, deleted, purged = (archive.create(text) for text in ("harbour", "茶", "coffee"))
    kept = archive.create("kept")
    archive.tick()
    moment = archive.name_now("c")
    archive.desk.clock.advance(seconds=-HOUR)
    poison = archive.update(edited, content="poison")
    archive.delete(deleted)
    archive.delete(purged, hard=True)
    added = archive.create("新的")

    assert {one.memory_id: one.kind for one in archive.differences("c")} == {
        edited.id: DifferenceKind.CHANGED,
        deleted.id: DifferenceKind.DELETED,
        purged.id: DifferenceKind.PURGED,
        added.id: DifferenceKind.CREATED,
    }
    assert added.create_time < moment
    assert {one.id for one in archive.listed(moment)} == {edited.id, deleted.id, kept.id}
    assert archive.at(edited.id, moment).content == "harbour"

    archive.name_now("later")
    assert archive.differences("later") == []
    report = archive.roll_back_to("c")
    assert current(archive, edited).content == "harbour"
    assert current(archive, deleted).status is Status.ACTIVE
    assert current(archive, added).status is Status.DELETED
    assert [one.memory_id for one in report.unreturned] == [purged.id]

    archive.roll_back_to(report.undo)
    assert current(archive, edited).content == poison.content
    assert current(archive, deleted).status is Status.DELETED
    assert current(archive, added).status is Status.ACTIVE
    assert archive.differences("later") == []


def test_a_checkpoint_made_after_the_clock_was_set_back_holds_the_present_state(archive: Archive) -> None:
    """It is no earlier than the last change of its project, which else would be a difference, and be rolled back."""
    memory = archive.create("harbour")
    archive.desk.clock.advance(seconds=-HOUR)
    archive.name_now("c")
    assert archive.differences("c") == []

    archive.update(memory, content="poison")
    assert [one.kind for one in archive.differences("c")] == [DifferenceKind.CHANGED]
    archive.roll_back_to("c")
    assert current(archive, memory).content == "harbour"


def test_other_projects_and_a_clock_that_goes_on_keep_the_time_of_the_clock(archive: Archive) -> None:
    """Only what a later checkpoint of the same project could miss gets another time."""
    memory = archive.create("harbour")
    archive.name_now("c")
    before = archive.now
    assert archive.update(memory, content="port").update_time == archive.now > before
    archive.desk.clock.advance(seconds=-HOUR)
    elsewhere = archive.create("elsewhere", ADA.__class__("ada", project_id="gemini"))
    assert elsewhere.update_time == archive.now
