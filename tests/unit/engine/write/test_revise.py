"""Changing, deleting and restoring memories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.drafts import OnDuplicate, Outcome, Patch, WriteOptions, Written
from memsvc.domain.errors import (
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    RequestIdReusedError,
    RevisionConflictError,
)
from memsvc.domain.indexing import ChangeAction
from memsvc.domain.memory import Keyword, Kind, Layer, Memory, Status, content_hash
from memsvc.domain.scope import Reach, Scope
from tests.unit.engine.write.desk import ADA, DIMENSION, Desk

S1 = Scope("ada", project_id="apollo", session_id="s1")
S2 = Scope("ada", project_id="apollo", session_id="s2")
LONG = "\n\n".join(f"Paragraph {number} tells about the harbour of Lisbon." for number in range(200))


def update(
    desk: Desk, memory_id: str, scope: Scope = ADA, *, expected: int = 0, request_id: str = "", **values: Any
) -> Written:
    vector = values.pop("vector", None)
    return desk.writing.revise.update(
        scope,
        memory_id=memory_id,
        key="",
        patch=Patch(values, vector),
        expected_revision=expected,
        options=WriteOptions(request_id=request_id),
    )


def delete(
    desk: Desk, memory_id: str, scope: Scope = ADA, *, hard: bool = False, expected: int = 0, request_id: str = ""
) -> Written:
    options = WriteOptions(request_id=request_id)
    return desk.writing.revise.delete(scope, memory_id, hard=hard, expected_revision=expected, options=options)


def restore(desk: Desk, memory_id: str, scope: Scope = ADA) -> Written:
    return desk.writing.revise.restore(scope, memory_id, expected_revision=0, options=WriteOptions())


def actions(desk: Desk) -> list[ChangeAction]:
    return [change.action for change in desk.store.feed.since(0, limit=100)]


def test_an_update_changes_what_it_names(desk: Desk) -> None:
    """New content brings its hash and extracted keywords with it; all else stays; the old revision is kept."""
    before = desk.create("Anna lives in Lisbon.", title="Home", tags=("a",)).memory
    later = desk.clock.advance(minutes=1)

    written = update(desk, before.id, content="小王搬到杭州了。")

    after = written.memory
    assert (Outcome.UPDATED, 2, later, 2) == (written.outcome, after.revision, after.update_time, written.position)
    assert (content_hash("小王搬到杭州了。"), "Home", ("a",)) == (after.content_hash, after.title, after.tags)
    assert {"home", "杭州"} <= {keyword.term for keyword in after.keywords}
    assert "lisbon" not in {keyword.term for keyword in after.keywords}
    assert desk.stored(before.id) == after
    assert desk.store.memories.revision(before.id, 1, reach=Reach.from_scope(ADA)) == before


def test_given_keywords_outlive_new_content(desk: Desk) -> None:
    """Keywords that a caller gave are not replaced by extracted ones, unless cleared."""
    given = (Keyword("home", 1.0),)
    memory = desk.create("Anna lives in Lisbon.", keywords=given).memory

    kept = update(desk, memory.id, content="Anna lives in Porto.").memory.keywords
    cleared = update(desk, memory.id, keywords=()).memory.keywords

    assert given == kept
    assert "porto" in {keyword.term for keyword in cleared}


def test_an_update_may_name_its_memory_by_key(desk: Desk) -> None:
    """Without an id the key is looked up in exactly the scope's project."""
    desk.create("one", Scope("ada"), key="plan")
    mine = desk.create("two", key="plan").memory
    patch, options = Patch({"title": "Plan"}), WriteOptions()

    written = desk.writing.revise.update(
        ADA, memory_id="", key="plan", patch=patch, expected_revision=0, options=options
    )
    with pytest.raises(MemoryNotFoundError):
        desk.writing.revise.update(
            Scope("ada", project_id="zeus"), memory_id="", key="plan", patch=patch, expected_revision=0, options=options
        )

    assert (mine.id, "Plan") == (written.memory.id, written.memory.title)


def test_a_change_that_changes_nothing_makes_no_revision(desk: Desk) -> None:
    """Equal values, in whatever order of names, are no change."""
    memory = desk.create("one", title="Plan", metadata={"a": 1, "b": {"c": 2}}).memory

    written = update(desk, memory.id, title="Plan", metadata={"b": {"c": 2}, "a": 1})

    assert (memory, Outcome.DUPLICATE) == (written.memory, written.outcome)
    assert desk.store.feed.head() == 1


def test_true_is_not_one(desk: Desk) -> None:
    """Metadata are compared as JSON."""
    memory = desk.create("one", metadata={"a": 1}).memory

    assert update(desk, memory.id, metadata={"a": True}).memory.metadata == {"a": True}


def test_cleared_fields_get_their_defaults(desk: Desk) -> None:
    """A field without a value is cleared or gets its default."""
    memory = desk.create("one", speaker="Anna", kind=Kind.NOTE, importance=5, tags=("a",), confidence=0.1).memory

    after = update(desk, memory.id, kind=None, importance=None, tags=None, confidence=None).memory

    assert (after.kind, after.importance, after.tags, after.confidence) == (Kind.MESSAGE, 3, (), 1.0)


def test_the_expected_revision_guards(desk: Desk) -> None:
    """A change based on an old revision is refused, 0 stands for any."""
    memory = desk.create("one").memory
    update(desk, memory.id, title="a", expected=1)

    with pytest.raises(RevisionConflictError) as conflict:
        update(desk, memory.id, title="b", expected=1)
    with pytest.raises(RevisionConflictError):
        delete(desk, memory.id, expected=1)

    assert {"memory_id": memory.id, "expected_revision": "1", "revision": "2"} == conflict.value.metadata
    assert update(desk, memory.id, title="c").memory.revision == 3


@pytest.mark.parametrize("scope", [Scope("ada", project_id="zeus"), Scope("ada"), Scope("ad", project_id="apollo")])
def test_out_of_reach_is_not_there(desk: Desk, scope: Scope) -> None:
    """Memories of other projects and users cannot be changed, deleted or restored."""
    memory = desk.create("one").memory

    with pytest.raises(MemoryNotFoundError):
        update(desk, memory.id, scope, title="x")
    with pytest.raises(MemoryNotFoundError):
        delete(desk, memory.id, scope)
    with pytest.raises(MemoryNotFoundError):
        delete(desk, memory.id, scope, hard=True)
    with pytest.raises(MemoryNotFoundError):
        restore(desk, memory.id, scope)

    assert memory == desk.stored(memory.id)


def test_global_memories_are_within_reach_of_a_project(desk: Desk) -> None:
    """A caller in a project may change global memories."""
    memory = desk.create("one", Scope("ada")).memory

    assert update(desk, memory.id, title="x").memory.title == "x"


def test_another_sessions_private_memory_is_not_there(desk: Desk) -> None:
    """Layer SESSION is private to its session, for every change."""
    memory = desk.create("secret", S1, layer=Layer.SESSION, key="k").memory

    for scope in (S2, ADA):
        with pytest.raises(MemoryNotFoundError):
            update(desk, memory.id, scope, title="x")
        with pytest.raises(MemoryNotFoundError):
            delete(desk, memory.id, scope, hard=True)
        with pytest.raises(MemoryExistsError):
            desk.create("mine", scope, key="k")

    assert update(desk, memory.id, S1, title="x").memory.title == "x"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"status": Status.DELETED}, "memory.status"),
        ({"content": ""}, "memory.content"),
        ({"revision": 7}, "update_mask"),
        ({"layer": Layer.SESSION}, "memory.layer"),
    ],
)
def test_what_cannot_be_set(desk: Desk, values: dict[str, Any], field: str) -> None:
    """Output-only fields, statuses of the service and empty content are refused."""
    memory = desk.create("one").memory

    with pytest.raises(InvalidRequestError) as refused:
        update(desk, memory.id, **values)

    assert [field] == [violation.field for violation in refused.value.violations]


def test_a_vector_must_fit_the_new_content(desk: Desk) -> None:
    """A given vector is refused for long content and replaced with short content."""
    memory = desk.create("one").memory

    with pytest.raises(InvalidRequestError):
        update(desk, memory.id, content=LONG, vector=[1.0] * DIMENSION)
    written = update(desk, memory.id, vector=[1.0] * DIMENSION)

    assert (written.outcome, written.memory.revision) == (Outcome.UPDATED, 2)
    assert len(desk.store.feed.documents([memory.row])[0].given_vector) == 4 * DIMENSION


def test_long_content_is_chunked_anew(desk: Desk) -> None:
    """An update brings the chunks of its content."""
    memory = desk.create("one").memory

    update(desk, memory.id, content=LONG)
    many = desk.store.feed.documents([memory.row])[0].chunks
    update(desk, memory.id, content="two")

    assert len(many) > 1
    assert [piece.text for piece in desk.store.feed.documents([memory.row])[0].chunks] == ["two"]


def test_content_of_another_memory_is_refused(desk: Desk) -> None:
    """An update must not make a duplicate; the error names the memory in the way."""
    other = desk.create("Anna lives in Lisbon.").memory
    memory = desk.create("one").memory

    with pytest.raises(MemoryExistsError) as refused:
        update(desk, memory.id, content="Anna lives in Lisbon.")

    assert other.id == refused.value.memory_id
    assert memory == desk.stored(memory.id)


def test_a_key_can_be_given_and_freed_but_not_taken(desk: Desk) -> None:
    """A key that another memory bears is refused; a freed one can be had."""
    bearer = desk.create("one", key="plan").memory
    memory = desk.create("two").memory

    with pytest.raises(MemoryExistsError) as refused:
        update(desk, memory.id, key="plan")
    update(desk, bearer.id, key=None)

    assert bearer.id == refused.value.memory_id
    assert update(desk, memory.id, key="plan").memory.key == "plan"


def test_a_memory_kept_beside_its_duplicate_can_be_changed(desk: Desk) -> None:
    """Changing something else of a kept duplicate is no new duplicate."""
    desk.create("same")
    twin = desk.create("same", on_duplicate=OnDuplicate.KEEP_BOTH).memory

    assert update(desk, twin.id, title="x").memory.title == "x"


def test_archived_content_is_free(desk: Desk) -> None:
    """An archived memory does not claim its content, and can be ACTIVE again beside a newer one."""
    memory = desk.create("same").memory
    update(desk, memory.id, status=Status.ARCHIVED)

    assert Outcome.CREATED is desk.create("same").outcome
    assert Status.ACTIVE is update(desk, memory.id, status=Status.ACTIVE).memory.status


def test_the_layer_decides_the_expiry(desk: Desk) -> None:
    """Becoming SHORT_TERM gives 14 days, ceasing to be takes them away."""
    memory = desk.create("one").memory

    short = update(desk, memory.id, layer=Layer.SHORT_TERM).memory
    given = update(desk, memory.id, expire_time=desk.clock() + timedelta(days=1)).memory
    cleared = update(desk, memory.id, expire_time=None).memory
    long = update(desk, memory.id, layer=Layer.LONG_TERM).memory

    expected = [timedelta(days=14), timedelta(days=1), timedelta(days=14)]
    assert expected == [m.expire_time - desk.clock() for m in (short, given, cleared) if m.expire_time]
    assert long.expire_time is None


def test_a_repeated_update_is_answered_as_before(desk: Desk) -> None:
    """The same request_id changes once, whatever happened since; another patch is refused."""
    memory = desk.create("one").memory
    first = update(desk, memory.id, title="a", expected=1, request_id="r1")
    update(desk, memory.id, title="b")

    assert first == update(desk, memory.id, title="a", expected=1, request_id="r1")
    with pytest.raises(RequestIdReusedError):
        update(desk, memory.id, title="c", expected=1, request_id="r1")


def test_a_deleted_memory_is_gone_and_frees_its_name(desk: Desk) -> None:
    """Soft deletion keeps the memory, frees key and content, and cannot be done twice."""
    memory = desk.create("one", key="plan").memory

    deleted = delete(desk, memory.id).memory

    assert (deleted.status, deleted.revision) == (Status.DELETED, 2)
    assert deleted == desk.stored(memory.id)
    with pytest.raises(MemoryNotFoundError):
        delete(desk, memory.id)
    with pytest.raises(MemoryNotFoundError):
        update(desk, memory.id, title="x")
    assert Outcome.CREATED is desk.create("one", key="plan").outcome
    assert actions(desk) == [ChangeAction.CREATED, ChangeAction.DELETED, ChangeAction.CREATED]


def test_a_restored_memory_is_back(desk: Desk) -> None:
    """Restoring undoes a soft deletion; what is not deleted stays as it is."""
    memory = desk.create("one", key="plan").memory
    untouched = restore(desk, memory.id)
    delete(desk, memory.id)

    restored = restore(desk, memory.id)

    assert (memory, Outcome.DUPLICATE) == (untouched.memory, untouched.outcome)
    assert (restored.memory.status, restored.memory.revision, restored.memory.key) == (Status.ACTIVE, 3, "plan")
    assert Outcome.DUPLICATE is desk.create("one").outcome
    assert ChangeAction.RESTORED is actions(desk)[-1]


@pytest.mark.parametrize("fields", [{"content": "one"}, {"content": "two", "key": "plan"}])
def test_a_memory_whose_name_was_taken_is_not_restored(desk: Desk, fields: dict[str, Any]) -> None:
    """When key or content went to another memory meanwhile, that one is named."""
    memory = desk.create("one", key="plan").memory
    delete(desk, memory.id)
    other = desk.create(**fields).memory

    with pytest.raises(MemoryExistsError) as refused:
        restore(desk, memory.id)

    assert other.id == refused.value.memory_id


def test_a_memory_whose_content_an_older_one_took_is_not_restored(desk: Desk) -> None:
    """It does not matter how old the other memory is, but since when it says the same."""
    other = desk.create("old").memory
    memory = desk.create("one").memory
    desk.clock.advance(minutes=1)
    delete(desk, memory.id)
    desk.clock.advance(minutes=1)
    update(desk, other.id, content="one")

    with pytest.raises(MemoryExistsError) as refused:
        restore(desk, memory.id)

    assert other.id == refused.value.memory_id


def test_an_expired_memory_whose_content_was_stored_anew_is_not_restored(desk: Desk) -> None:
    """The newer one put it away: the two never stood side by side."""
    memory = desk.create("one", ttl=timedelta(hours=1)).memory
    desk.clock.advance(hours=2)
    other = desk.create("one").memory

    with pytest.raises(MemoryExistsError) as refused:
        restore(desk, memory.id)

    assert other.id == refused.value.memory_id


def test_a_kept_duplicate_is_restored_beside_its_twin(desk: Desk) -> None:
    """What stood beside its duplicate before may stand there again."""
    desk.create("same")
    twin = desk.create("same", on_duplicate=OnDuplicate.KEEP_BOTH).memory
    desk.clock.advance(minutes=1)
    delete(desk, twin.id)

    assert Status.ACTIVE is restore(desk, twin.id).memory.status


def test_restoring_renews_a_passed_expiry(desk: Desk) -> None:
    """SHORT_TERM gets 14 days from now, other layers no expiry."""

    def restored(**fields: Any) -> Memory:
        memory = desk.create(**fields).memory
        delete(desk, memory.id)
        desk.clock.advance(days=2)
        return restore(desk, memory.id).memory

    short = restored(content="a", layer=Layer.SHORT_TERM, ttl=timedelta(days=1))
    assert desk.clock() + timedelta(days=14) == short.expire_time
    assert restored(content="b", ttl=timedelta(days=1)).expire_time is None


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_hard_deletion_leaves_nothing(desk: Desk, is_deleted: bool) -> None:  # noqa: FBT001 - a case
    """The memory and its revisions are gone for good, and the answer does not hold its content."""
    memory = desk.create("one").memory
    if is_deleted:
        delete(desk, memory.id)

    gone = delete(desk, memory.id, hard=True, request_id="r1")
    again = delete(desk, memory.id, hard=True, request_id="r1")

    assert (memory.id, Status.DELETED, "") == (gone.memory.id, gone.memory.status, gone.memory.content)
    assert (gone.memory.id, gone.position) == (again.memory.id, again.position)
    assert desk.stored(memory.id) is None
    assert desk.store.memories.revision(memory.id, 1, reach=Reach.from_scope(ADA)) is None
    with pytest.raises(MemoryNotFoundError):
        restore(desk, memory.id)
    with pytest.raises(MemoryNotFoundError):
        delete(desk, memory.id, hard=True)
    assert ChangeAction.PURGED is actions(desk)[-1]


def test_a_time_to_live_counts_from_the_change_and_its_repetition_is_the_same_request(desk: Desk) -> None:
    """ttl sets the expiry once; sent again a minute later with the same request_id it changes nothing."""
    before = desk.create("Anna lives in Lisbon.").memory

    first = update(desk, before.id, request_id="r", ttl=timedelta(hours=1))
    desk.clock.advance(minutes=1)
    again = update(desk, before.id, request_id="r", ttl=timedelta(hours=1))

    assert before.create_time + timedelta(hours=1) == first.memory.expire_time
    assert first.memory == again.memory
