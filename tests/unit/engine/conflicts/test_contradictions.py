"""Contradictions are found when a memory is written, and settled by whatever happens to it later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memsvc.domain.conflicts import ConflictPolicy, ConflictState, Resolution, Rule
from memsvc.domain.errors import ConflictNotFoundError, ConflictSettledError
from memsvc.domain.memory import Kind, Layer, Status
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, OnDuplicate, Outcome, Patch, WriteOptions, WriteResult
from tests.unit.engine.memories.write_path import ADA, Desk

OPEN = (ConflictState.OPEN,)
PAIRS = {
    "location": ("Anna lives in Lisbon.", "Anna moved to Porto.", Rule.LOCATION),
    "地点": ("小王住在北京。", "小王搬到了上海。", Rule.LOCATION),
    "occupation": ("I work as a nurse.", "I work as a baker.", Rule.OCCUPATION),
    "职业": ("王芳在腾讯工作。", "王芳跳槽到了百度。", Rule.OCCUPATION),
    "preference": ("I like coffee.", "I don't like coffee anymore.", Rule.PREFERENCE),
    "偏好": ("用户喜欢吃辣。", "用户讨厌吃辣。", Rule.PREFERENCE),
    "既喜欢又偏好": ("我喜欢喝咖啡。", "我不喜欢喝咖啡。", Rule.PREFERENCE),
    "无主语的偏好": ("偏好暗色主题", "偏好亮色主题", Rule.PREFERENCE),
    "学生到开发者": ("我是学生。", "我是开发者。", Rule.OCCUPATION),
    "住哪里": ("我住北京。", "我现在住杭州。", Rule.LOCATION),
    "general": ("The deadline of Apollo is March 3.", "The deadline of Apollo is March 9.", Rule.GENERAL),
    "一般": ("项目的截止日期是3月3日。", "项目的截止日期改到了3月9日。", Rule.GENERAL),
}


def status(desk: Desk, written: WriteResult) -> Status:
    stored = desk.stored(written.memory.id)
    assert stored is not None
    return stored.status


def open_conflicts(desk: Desk, scope: Scope = ADA, **asked: Any) -> list[Any]:
    given: dict[str, Any] = {"states": OPEN, "memory_id": "", "before": "", "limit": 50} | asked
    return desk.writing.resolve.page(scope, **given)[0]


def update(desk: Desk, written: WriteResult, **values: Any) -> WriteResult:
    return desk.writing.revise.update(
        ADA, memory_id=written.memory.id, key="", patch=Patch(values), expected_revision=0, options=WriteOptions()
    )


def delete(desk: Desk, written: WriteResult, *, hard: bool = False) -> None:
    desk.writing.revise.delete(ADA, written.memory.id, hard=hard, expected_revision=0, options=WriteOptions())


def restore(desk: Desk, written: WriteResult) -> WriteResult:
    return desk.writing.revise.restore(ADA, written.memory.id, expected_revision=0, options=WriteOptions())


def resolve(desk: Desk, conflict_id: str, resolution: Resolution, *, request_id: str = "") -> Any:
    return desk.writing.resolve.resolve(ADA, conflict_id, resolution, WriteOptions(request_id=request_id))[0]


def a_conflict(desk: Desk) -> tuple[WriteResult, WriteResult, str]:
    older = desk.create("Anna lives in Lisbon.")
    newer = desk.create("Anna moved to Porto.")
    return older, newer, newer.conflicts[0].conflict.id


@pytest.mark.parametrize("name", PAIRS)
def test_contradiction_is_marked(desk: Desk, name: str) -> None:
    """The older memory becomes CONFLICTED, the conflict is returned and listed."""
    said, unsaid, rule = PAIRS[name]
    older = desk.create(said)
    newer = desk.create(unsaid)

    [told] = newer.conflicts
    assert (told.conflict.older_id, told.conflict.newer_id) == (older.memory.id, newer.memory.id)
    assert (told.conflict.rule, told.conflict.state) == (rule, ConflictState.OPEN)
    assert told.older == desk.stored(older.memory.id)
    assert told.newer == newer.memory == desk.stored(newer.memory.id)
    assert [told] == open_conflicts(desk)
    assert (status(desk, older), status(desk, newer)) == (Status.CONFLICTED, Status.ACTIVE)
    assert older.conflicts == ()


def test_newest_wins_when_asked(desk: Desk) -> None:
    """SUPERSEDE links both, the old one is SUPERSEDED, nothing is open."""
    older = desk.create("Anna lives in Lisbon.", key="home")
    newer = desk.create("Anna moved to Porto.", on_conflict=ConflictPolicy.SUPERSEDE)

    stored = desk.stored(older.memory.id)
    assert stored is not None
    assert (stored.status, stored.superseded_by_id, stored.key) == (Status.SUPERSEDED, newer.memory.id, "")
    assert (newer.memory.supersedes_id, newer.memory.key, newer.outcome) == (older.memory.id, "home", Outcome.CREATED)
    assert newer.memory == desk.stored(newer.memory.id)
    assert [one.conflict.state for one in newer.conflicts] == [ConflictState.CONFIRMED]
    assert open_conflicts(desk) == []


def test_both_are_kept_when_asked(desk: Desk) -> None:
    """KEEP_BOTH leaves both ACTIVE and says what was found."""
    older = desk.create("Anna lives in Lisbon.")
    newer = desk.create("Anna moved to Porto.", on_conflict=ConflictPolicy.KEEP_BOTH)

    assert (status(desk, older), status(desk, newer)) == (Status.ACTIVE, Status.ACTIVE)
    assert [one.conflict.state for one in newer.conflicts] == [ConflictState.KEPT_BOTH]
    assert open_conflicts(desk) == []


@pytest.mark.parametrize(
    "fields",
    [{"kind": Kind.MESSAGE}, {"kind": Kind.NOTE}, {"layer": Layer.SESSION, "session_id": "s"}, {"project_id": "web"}],
    ids=str,
)
def test_some_memories_take_no_part(desk: Desk, fields: dict[str, Any]) -> None:
    """What records a moment, is private to a session, or belongs to another project contradicts nothing."""
    older = desk.create("Anna lives in Lisbon.")

    assert desk.create("Anna moved to Porto.", **fields).conflicts == ()
    assert status(desk, older) is Status.ACTIVE


def test_speaker_is_who_says_i(desk: Desk) -> None:
    """Two speakers do not contradict each other; one may contradict themselves."""
    desk.create("I live in Lisbon.", speaker="Anna", kind=Kind.FACT)

    assert desk.create("I live in Porto.", speaker="Ben", kind=Kind.FACT).conflicts == ()
    assert desk.create("I live in Faro.", speaker="Assistant", kind=Kind.FACT).conflicts == ()
    assert len(desk.create("I live in Braga.", speaker="anna", kind=Kind.FACT).conflicts) == 1


def test_expired_memory_contradicts_nothing(desk: Desk) -> None:
    """What has expired is no longer so."""
    desk.create("Anna lives in Lisbon.", layer=Layer.SHORT_TERM)
    desk.clock.advance(days=15)

    assert desk.create("Anna moved to Porto.").conflicts == ()


def test_other_owners_are_not_touched(desk: Desk) -> None:
    """Another user's memories are neither compared nor listed nor resolved."""
    _, _, conflict_id = a_conflict(desk)
    bob = Scope("ada-2", project_id="apollo")

    assert desk.create("Anna moved to Faro.", bob).conflicts == ()
    for stranger in (bob, Scope("ada"), Scope("ada", project_id="apoll"), Scope("ada", "apollo", tenant_id="t")):
        assert open_conflicts(desk, stranger) == []
        with pytest.raises(ConflictNotFoundError):
            desk.writing.resolve.resolve(stranger, conflict_id, Resolution.CONFIRM, WriteOptions())


def test_confirming_supersedes(desk: Desk) -> None:
    """CONFIRM makes the older memory SUPERSEDED and links both ends."""
    older, newer, conflict_id = a_conflict(desk)
    told = resolve(desk, conflict_id, Resolution.CONFIRM)

    assert (told.older, told.newer) == (desk.stored(older.memory.id), desk.stored(newer.memory.id))
    assert (told.older.status, told.older.superseded_by_id) == (Status.SUPERSEDED, newer.memory.id)
    assert (told.newer.status, told.newer.supersedes_id) == (Status.ACTIVE, older.memory.id)
    assert (told.conflict.state, told.conflict.resolve_time) == (ConflictState.CONFIRMED, desk.clock())
    assert open_conflicts(desk) == []


def test_rejecting_puts_the_newer_away(desk: Desk) -> None:
    """REJECT brings the older memory back; the newer one is ARCHIVED."""
    older, newer, conflict_id = a_conflict(desk)
    resolve(desk, conflict_id, Resolution.REJECT)

    assert (status(desk, older), status(desk, newer)) == (Status.ACTIVE, Status.ARCHIVED)


def test_keeping_both_brings_the_older_back(desk: Desk) -> None:
    """KEEP_BOTH leaves both ACTIVE; the same two are not in conflict again when one gets a new title."""
    older, newer, conflict_id = a_conflict(desk)
    resolve(desk, conflict_id, Resolution.KEEP_BOTH)

    assert update(desk, newer, importance=5).conflicts == ()
    assert (status(desk, older), status(desk, newer)) == (Status.ACTIVE, Status.ACTIVE)


def test_conflict_is_resolved_once(desk: Desk) -> None:
    """A settled conflict is refused, but the same request gets the same answer."""
    _, _, conflict_id = a_conflict(desk)
    first = resolve(desk, conflict_id, Resolution.REJECT, request_id="r")

    assert resolve(desk, conflict_id, Resolution.REJECT, request_id="r") == first
    with pytest.raises(ConflictSettledError, match="REJECTED"):
        resolve(desk, conflict_id, Resolution.CONFIRM)


def test_repeated_write_tells_the_same_conflicts(desk: Desk) -> None:
    """A repetition finds no second conflict, even after the first was resolved."""
    desk.create("Anna lives in Lisbon.")
    first = desk.create("Anna moved to Porto.", request_id="r")
    resolve(desk, first.conflicts[0].conflict.id, Resolution.KEEP_BOTH)
    again = desk.create("Anna moved to Porto.", request_id="r")

    assert [one.conflict for one in again.conflicts] == [one.conflict for one in first.conflicts]
    assert again.memory == first.memory
    assert open_conflicts(desk) == []


def test_duplicate_contradicts_nothing_new(desk: Desk) -> None:
    """What is there already is not compared again."""
    _, newer, _ = a_conflict(desk)
    again = desk.create("Anna moved to Porto.")

    assert (again.outcome, again.memory.id, again.conflicts) == (Outcome.DUPLICATE, newer.memory.id, ())
    assert len(open_conflicts(desk)) == 1


def test_update_is_compared(desk: Desk) -> None:
    """New content that contradicts another memory marks that; the same statement again marks nothing."""
    older = desk.create("Anna lives in Lisbon.")
    other = desk.create("Anna likes the sea.")
    changed = update(desk, other, content="Anna lives in Porto.")

    assert [one.conflict.older_id for one in changed.conflicts] == [older.memory.id]
    assert status(desk, older) is Status.CONFLICTED
    assert update(desk, other, tags=("x",)).conflicts == ()


def test_update_that_agrees_closes_the_conflict(desk: Desk) -> None:
    """When one side no longer contradicts the other, the conflict is CLOSED and the older memory is back."""
    older, newer, conflict_id = a_conflict(desk)
    update(desk, newer, content="Anna lives in Lisbon, near the river.")

    assert status(desk, older) is Status.ACTIVE
    [told] = open_conflicts(desk, states=(ConflictState.CLOSED,))
    assert told.conflict.id == conflict_id


@pytest.mark.parametrize("hard", [False, True])
def test_deleting_the_newer_brings_the_older_back(desk: Desk, *, hard: bool) -> None:
    """The conflict is closed, or gone with what was removed for good; a restore opens none."""
    older, newer, _ = a_conflict(desk)
    delete(desk, newer, hard=hard)

    assert status(desk, older) is Status.ACTIVE
    assert open_conflicts(desk) == []
    assert len(open_conflicts(desk, states=tuple(ConflictState))) == (0 if hard else 1)
    if not hard:
        assert restore(desk, newer).memory.status is Status.ACTIVE
        assert status(desk, older) is Status.ACTIVE


@pytest.mark.parametrize("hard", [False, True])
def test_deleting_the_older_closes_the_conflict(desk: Desk, *, hard: bool) -> None:
    """The newer memory is left as it is."""
    older, newer, _ = a_conflict(desk)
    delete(desk, older, hard=hard)

    assert status(desk, newer) is Status.ACTIVE
    assert open_conflicts(desk) == []


def test_third_memory_takes_over_the_conflict(desk: Desk) -> None:
    """When the newer memory is superseded by one that contradicts the older, too, that one is in conflict with it."""
    older, newer, conflict_id = a_conflict(desk)
    third = desk.create("Anna moved to Faro.", on_conflict=ConflictPolicy.SUPERSEDE)

    [told] = open_conflicts(desk)
    assert (told.conflict.id, told.conflict.older_id) == (conflict_id, older.memory.id)
    assert (told.conflict.newer_id, told.conflict.newer_value) == (third.memory.id, "faro")
    assert (status(desk, older), status(desk, newer)) == (Status.CONFLICTED, Status.SUPERSEDED)


def test_memory_that_is_made_active_again_is_settled(desk: Desk) -> None:
    """An update of its status says that both hold, and closes the conflict."""
    older = desk.create("Anna lives in Lisbon.")
    newer = desk.create("Anna moved to Porto.")
    update(desk, older, status=Status.ACTIVE)

    assert open_conflicts(desk) == []
    again = desk.create("Anna relocated to Faro.")
    assert {one.conflict.older_id for one in again.conflicts} == {older.memory.id, newer.memory.id}


def test_batch_is_compared_in_order(desk: Desk) -> None:
    """A later item contradicts an earlier one, not the other way round, and both are shown as they are in the end."""
    drafts = [Draft("Anna lives in Lisbon."), Draft("Anna likes tea."), Draft("Anna moved to Porto.")]
    batch = desk.writing.remember.create_batch(ADA, drafts, WriteOptions(request_id="b"))
    results = [one for one in batch.results if isinstance(one, WriteResult)]

    assert [len(one.conflicts) for one in results] == [0, 0, 1]
    assert [one.memory.status for one in results] == [Status.CONFLICTED, Status.ACTIVE, Status.ACTIVE]
    assert [one.memory for one in results] == [desk.stored(one.memory.id) for one in results]
    again = desk.writing.remember.create_batch(ADA, drafts, WriteOptions(request_id="b"))
    assert again.results == batch.results


def test_write_under_a_key_is_compared(desk: Desk) -> None:
    """New content under a key settles the old conflict of that memory and finds the new one."""
    older = desk.create("Anna lives in Lisbon.", key="home")
    other = desk.create("Anna moved to Porto.")
    assert status(desk, older) is Status.CONFLICTED
    back = desk.create("Anna lives in Faro.", key="home")

    assert (back.outcome, back.memory.status) == (Outcome.UPDATED, Status.ACTIVE)
    assert [one.conflict.older_id for one in back.conflicts] == [other.memory.id]
    assert status(desk, other) is Status.CONFLICTED
    assert len(open_conflicts(desk)) == 1


def test_import_compares_only_when_asked(desk: Desk) -> None:
    """By itself an import marks nothing, but what it brought is compared with later writes."""
    older = desk.create("Anna lives in Lisbon.")

    def imported(*contents: str, on_conflict: ConflictPolicy | None = None) -> int:
        run = desk.writing.importing.begin(
            ADA, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING, on_conflict=on_conflict
        )
        return run.add(0, [Draft(content) for content in contents]).conflicts

    assert imported("Anna moved to Porto.", "Anna is a nurse.") == 0
    assert (status(desk, older), open_conflicts(desk)) == (Status.ACTIVE, [])
    assert len(desk.create("Anna is a baker.").conflicts) == 1
    assert imported("Anna moved to Faro.", on_conflict=ConflictPolicy.MARK) == 2


def test_conflicts_are_paged(desk: Desk) -> None:
    """Pages go on where the one before ended, newest first, of one memory when asked."""
    last = [desk.create(f"The port of server{n} is 80.") for n in range(5)]
    for n in range(5):
        desk.clock.advance(seconds=1)
        desk.create(f"The port of server{n} is 90.")
    first, cursor = desk.writing.resolve.page(ADA, states=OPEN, memory_id="", before="", limit=3)
    rest, end = desk.writing.resolve.page(ADA, states=OPEN, memory_id="", before=cursor, limit=3)

    assert [one.conflict.older_id for one in (*first, *rest)] == [one.memory.id for one in reversed(last)]
    assert end == ""
    [only] = open_conflicts(desk, memory_id=last[2].memory.id)
    assert only.conflict.older_id == last[2].memory.id


@pytest.mark.parametrize(
    ("said", "unsaid"),
    [
        ("I live in Berlin and I prefer tea.", "I moved to Munich."),
        ("I like tea and coffee.", "I no longer drink coffee."),
        ("我住在北京。我对花生过敏。", "我搬到了上海。"),
        ("我喜欢吃辣和喝茶。", "我现在不吃辣了。"),
        ("我喜欢咖啡和茶。", "我不喜欢咖啡。"),
    ],
)
def test_a_memory_that_says_more_stays_in_use(desk: Desk, said: str, unsaid: str) -> None:
    """Its conflict is open, found once, and settled by a decision or by taking back what is contradicted."""
    older = desk.create(said)
    newer = desk.create(unsaid)
    again = desk.create(f"{unsaid[:-1]}!")

    [told] = newer.conflicts
    assert (told.conflict.older_id, told.conflict.state) == (older.memory.id, ConflictState.OPEN)
    assert again.conflicts == ()
    assert (status(desk, older), status(desk, newer)) == (Status.ACTIVE, Status.ACTIVE)
    update(desk, older, title="T")
    assert [told.conflict.id] == [one.conflict.id for one in open_conflicts(desk)]
    resolve(desk, told.conflict.id, Resolution.CONFIRM)
    assert (status(desk, older), open_conflicts(desk)) == (Status.SUPERSEDED, [])


def test_what_is_no_longer_said_is_no_conflict(desk: Desk) -> None:
    """An older memory in use that is written anew without it closes the conflict."""
    older = desk.create("I live in Berlin and I prefer tea.")
    desk.create("I moved to Munich.")
    assert len(open_conflicts(desk)) == 1

    update(desk, older, content="I prefer tea.")
    assert open_conflicts(desk) == []


@pytest.mark.parametrize("policy", [ConflictPolicy.MARK, ConflictPolicy.SUPERSEDE])
@pytest.mark.parametrize(
    ("said", "unsaid"),
    [
        ("I live in Lisbon.", "I moved to Porto."),
        ("My name is Ann Lee.", "My name is Beth Lee."),
        ("我叫李雷。", "我叫韩梅梅。"),
        ("我住在北京。", "我搬到了上海。"),
    ],
)
def test_what_a_project_says_of_the_user_is_compared_with_what_is_global(
    desk: Desk, said: str, unsaid: str, policy: ConflictPolicy
) -> None:
    """The conflict is the project's; the global memory stays in use until it is decided."""
    older = desk.create(said, replace(ADA, project_id=""))
    newer = desk.create(unsaid, on_conflict=policy)

    [told] = newer.conflicts
    assert (told.conflict.older_id, told.conflict.project_id) == (older.memory.id, ADA.project_id)
    assert (status(desk, older), [told]) == (Status.ACTIVE, open_conflicts(desk))
    resolve(desk, told.conflict.id, Resolution.CONFIRM)
    assert (status(desk, older), open_conflicts(desk)) == (Status.SUPERSEDED, [])


def test_only_what_is_personal_is_compared_with_what_is_global(desk: Desk) -> None:
    """Another project may have another database, and its Anna may live elsewhere."""
    for content in ("The database is MySQL.", "Anna lives in Lisbon."):
        desk.create(content, replace(ADA, project_id=""))

    assert desk.create("The database is SQLite.").conflicts == desk.create("Anna moved to Porto.").conflicts == ()
