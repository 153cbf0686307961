"""Deleting and restoring memories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.errors import (
    MemoryExistsError,
    MemoryNotFoundError,
    RevisionConflictError,
)
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import OnDuplicate, Outcome
from tests.unit.engine.memories.support import actions, delete, restore, update
from tests.unit.engine.memories.write_path import ADA, Desk

S1 = Scope("ada", project_id="apollo", session_id="s1")
S2 = Scope("ada", project_id="apollo", session_id="s2")


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
