"""Changes of many memories, step by step: what happens between two batches."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memsvc.domain import limits
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError, InvalidRequestError, SelectionChangedError
from memsvc.domain.filters import AnyOf, Field
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Selection
from memsvc.domain.write_requests import Draft, Patch, WriteOptions
from memsvc.engine.memories.update import SELECTION_BATCH, SelectionChange
from memsvc.engine.services import Services

ADA = Scope("ada")
FOOD = Selection(AnyOf(Field.CATEGORY, ("food",)))
DELETION = SelectionChange()
NEVER = Deadline()
COUNT = 2 * SELECTION_BATCH + 10


def store(application: Services, count: int = COUNT) -> list[Memory]:
    """Store memories of the category food."""
    drafts = [Draft(content=f"Pear number {number}, 第{number}个梨。", category="food") for number in range(count)]
    written = application.memory_creator.create_batch(ADA, drafts, WriteOptions())
    return [result.memory for result in written.results]  # type: ignore[union-attr]  # none was rejected


def present(application: Services, memories: list[Memory]) -> list[Memory]:
    """Return the memories as they are now."""
    found = application.memory_reader._reads.get([one.id for one in memories], reach=Reach.from_scope(ADA))
    return [found[one.id] for one in memories]


def seen(application: Services) -> tuple[int, bytes]:
    """Return what a dry run finds."""
    preview = application.selection_changer.preview(ADA, FOOD)
    return preview.count, preview.digest


def test_what_another_call_changes_in_between_is_left_alone(application: Services) -> None:
    """It is named, and keeps what that call wrote; all others are changed."""
    memories = store(application)
    steps = application.selection_changer.run(ADA, FOOD, DELETION, expected=seen(application), deadline=NEVER)
    next(steps)
    assert next(steps).changed == SELECTION_BATCH
    application.memory_updater.update(
        ADA,
        memory_id=memories[-1].id,
        key="",
        patch=Patch({"importance": 5}),
        expected_revision=0,
        options=WriteOptions(),
    )
    application.memory_updater.delete(ADA, memories[-2].id, hard=True, expected_revision=0, options=WriteOptions())

    *_, last = steps

    assert (last.total, last.changed, last.unchanged, last.failed) == (COUNT, COUNT - 2, 0, 2)
    assert {memory_id: error.reason for memory_id, error in last.failures} == {
        memories[-1].id: "REVISION_CONFLICT",
        memories[-2].id: "MEMORY_NOT_FOUND",
    }
    [kept] = present(application, memories[-1:])
    assert (kept.status, kept.importance, kept.revision) == (Status.ACTIVE, 5, 2)


@pytest.mark.parametrize("filler", [0, SELECTION_BATCH])
def test_sides_of_a_conflict_are_changed_together(application: Services, filler: int) -> None:
    """The deletion of one side is a revision of the other: in the same batch and in a later one that is no conflict."""
    words = [f"The lamp {number} is on." for number in range(filler)]
    for content in ("I live in Lisbon.", *words, "I live in Porto.", "我住在里斯本。", "我住在波尔图。"):
        application.memory_creator.create(ADA, Draft(content=content, category="food"), WriteOptions())
    preview = application.selection_changer.preview(ADA, FOOD)
    assert preview.by_status["CONFLICTED"] >= 2
    expected = preview.count, preview.digest

    *_, last = application.selection_changer.run(ADA, FOOD, DELETION, expected=expected, deadline=NEVER)

    assert (last.changed, last.failed) == (filler + 4, 0)
    assert dict(application.selection_changer.preview(ADA, FOOD).by_status) == {"DELETED": filler + 4}


def test_one_that_is_left_early_ends_between_batches(application: Services) -> None:
    """What was reported is changed, in whole batches; nothing else is."""
    memories = store(application)
    steps = application.selection_changer.run(ADA, FOOD, DELETION, expected=seen(application), deadline=NEVER)
    next(steps)
    assert next(steps).done == SELECTION_BATCH

    steps.close()

    statuses = [one.status for one in present(application, memories)]
    assert statuses == [Status.DELETED] * SELECTION_BATCH + [Status.ACTIVE] * (COUNT - SELECTION_BATCH)
    preview = application.selection_changer.preview(ADA, FOOD)
    assert dict(preview.by_status) == {"ACTIVE": COUNT - SELECTION_BATCH, "DELETED": SELECTION_BATCH}


def test_a_deadline_ends_it_between_batches(application: Services) -> None:
    """The error says how far it came."""
    store(application)
    passed = Deadline.after(0.0)

    with pytest.raises(DeadlineExceededError, match=f"0 of {COUNT}"):
        list(application.selection_changer.run(ADA, FOOD, DELETION, expected=seen(application), deadline=passed))

    assert dict(application.selection_changer.preview(ADA, FOOD).by_status) == {"ACTIVE": COUNT}


def test_too_many_are_refused(application: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the dry run and by the change; as many as there may be are not."""
    store(application, 6)
    expected = seen(application)
    monkeypatch.setattr(limits, "SELECTION", 5)

    with pytest.raises(InvalidRequestError) as preview:
        application.selection_changer.preview(ADA, FOOD)
    with pytest.raises(InvalidRequestError) as change:
        next(application.selection_changer.run(ADA, FOOD, DELETION, expected=expected, deadline=NEVER))
    monkeypatch.setattr(limits, "SELECTION", 6)

    assert {error.value.violations[0].field for error in (preview, change)} == {"filter"}
    assert seen(application) == expected


def test_the_digest_is_of_ids_and_revisions(application: Services) -> None:
    """A change that is undone is another revision; an access is none."""
    [memory] = store(application, 1)
    before = seen(application)
    application.memory_reader.get(ADA, memory.id)
    assert seen(application) == before
    for importance in (5, memory.importance):
        patch = Patch({"importance": importance})
        application.memory_updater.update(
            ADA, memory_id=memory.id, key="", patch=patch, expected_revision=0, options=WriteOptions()
        )

    assert seen(application)[0] == before[0]
    with pytest.raises(SelectionChangedError):
        next(application.selection_changer.run(ADA, FOOD, DELETION, expected=before, deadline=NEVER))


def test_an_update_of_expiry_counts_from_now(application: Services) -> None:
    """Values that depend on the moment are those of each memory's own change."""
    [memory] = store(application, 1)
    change = SelectionChange(Patch({"expire_time": datetime(2200, 1, 1, tzinfo=UTC)}))

    list(application.selection_changer.run(ADA, FOOD, change, expected=seen(application), deadline=NEVER))

    assert present(application, [memory])[0].expire_time == datetime(2200, 1, 1, tzinfo=UTC)
