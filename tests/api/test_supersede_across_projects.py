"""Superseding between a project and the global memories, and taking it back: both ends agree, and no key is lost."""

from __future__ import annotations

import grpc
import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.history import delete, rollback, update
from tests.support.rpc import TIMEOUT, create, get, refused, write
from tests.support.server_process import Stubs

ACTIVE, SUPERSEDED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_SUPERSEDED
CONFLICTED = types_pb.MEMORY_STATUS_CONFLICTED


@pytest.fixture
def project(user: str) -> types_pb.Scope:
    """A project of the test's user."""
    return types_pb.Scope(user_id=user, project_id="p")


def supersede(
    stubs: Stubs, scope: types_pb.Scope, old: types_pb.Memory, memory: types_pb.Memory
) -> memory_pb.SupersedeMemoryResponse:
    asked = memory_pb.SupersedeMemoryRequest(scope=scope, id=old.id, memory=memory)
    return stubs.memory.SupersedeMemory(asked, timeout=TIMEOUT)


def restore(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> types_pb.Memory:
    return stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory_id), timeout=TIMEOUT).memory


def by_key(stubs: Stubs, scope: types_pb.Scope, key: str) -> types_pb.Memory:
    return stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key=key), timeout=TIMEOUT).memory


def replaced_globally(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope
) -> tuple[types_pb.Memory, types_pb.Memory]:
    """Return a memory of the project, with a key, and the global one that superseded it."""
    old, new = create(stubs, project, "project note", key="pk"), create(stubs, scope, "global note")
    reply = supersede(stubs, project, old, types_pb.Memory(id=new.id))
    return reply.superseded, reply.memory


def replaced_in_project(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope
) -> tuple[types_pb.Memory, types_pb.Memory]:
    """Return a global memory and the one of the project that superseded it."""
    old = create(stubs, scope, "global note")
    content = types_pb.Memory(content="project note", scope=types_pb.Scope(project_id="p"))
    reply = supersede(stubs, project, old, content)
    assert ("", "p") == (old.scope.project_id, reply.memory.scope.project_id)
    return reply.superseded, reply.memory


@pytest.mark.parametrize("is_from_project", [False, True])
def test_successor_elsewhere_that_is_removed_frees_the_old_memory(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope, *, is_from_project: bool
) -> None:
    """It can be restored, with its key, and superseded again."""
    old, new = replaced_globally(stubs, scope, project)
    delete(stubs, project if is_from_project else scope, new.id, hard=True)

    freed = get(stubs, project, old.id)
    assert (SUPERSEDED, "") == (freed.status, freed.superseded_by_id)
    back = restore(stubs, project, old.id)
    assert (ACTIVE, "", "pk") == (back.status, back.superseded_by_id, back.key)
    assert not back.HasField("valid_to")
    again = supersede(stubs, project, old, types_pb.Memory(content="another"))
    assert (old.id, "pk") == (again.memory.supersedes_id, again.memory.key)


def test_old_memory_elsewhere_that_goes_back_is_let_go(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope
) -> None:
    """The new one names it no more, and can supersede it anew."""
    old, new = replaced_in_project(stubs, scope, project)
    back = rollback(stubs, project, old.id, 1)

    assert (ACTIVE, "", 3) == (back.status, back.superseded_by_id, back.revision)
    assert "" == get(stubs, project, new.id).supersedes_id
    again = supersede(stubs, project, old, types_pb.Memory(id=new.id))
    assert (new.id, old.id) == (again.superseded.superseded_by_id, again.memory.supersedes_id)


def test_link_to_elsewhere_stands_when_the_memory_goes_back_to_it(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope
) -> None:
    """Both ends name each other as before, and the call makes one revision."""
    old, new = replaced_in_project(stubs, scope, project)
    update(stubs, scope, old.id, source="letter")
    back = rollback(stubs, scope, old.id, 2)

    assert (SUPERSEDED, new.id, "", 4) == (back.status, back.superseded_by_id, back.source, back.revision)
    after = get(stubs, project, new.id)
    assert (old.id, new.revision) == (after.supersedes_id, after.revision)


def test_old_memory_elsewhere_that_is_removed_is_named_no_more(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope
) -> None:
    """From its own scope, which does not see the other end, too."""
    old, new = replaced_in_project(stubs, scope, project)
    delete(stubs, scope, old.id, hard=True)

    assert "" == get(stubs, project, new.id).supersedes_id


def test_gap_between_projects_is_closed(stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope) -> None:
    """A global memory between two of projects is removed: they name each other."""
    first, second = replaced_globally(stubs, scope, project)
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="q")
    third = create(stubs, elsewhere, "another project's note")
    supersede(stubs, elsewhere, second, types_pb.Memory(id=third.id))
    delete(stubs, scope, second.id, hard=True)

    assert third.id == get(stubs, project, first.id).superseded_by_id
    assert first.id == get(stubs, elsewhere, third.id).supersedes_id


def test_key_stays_in_its_project(stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope) -> None:
    """Who asks for it finds the old memory and by it the new one; nothing is written under it until it is back."""
    old, new = replaced_globally(stubs, scope, project)

    assert ("pk", "") == (old.key, new.key)
    named = by_key(stubs, project, "pk")
    assert (old.id, SUPERSEDED, new.id) == (named.id, named.status, named.superseded_by_id)
    told = refused(
        stubs.memory.CreateMemory,
        memory_pb.CreateMemoryRequest(scope=project, memory=types_pb.Memory(key="pk", content="news")),
    )
    assert (grpc.StatusCode.FAILED_PRECONDITION, "MEMORY_SUPERSEDED") == (told.code, told.reason)
    assert new.id == told.metadata["superseded_by_id"]
    appending = memory_pb.AppendMemoryRequest(scope=project, key="pk", content="more")
    assert "MEMORY_SUPERSEDED" == refused(stubs.memory.AppendMemory, appending).reason
    assert (ACTIVE, "pk") == ((back := rollback(stubs, project, old.id, 1)).status, back.key)
    after = get(stubs, scope, new.id)
    assert ("", "") == (after.key, after.supersedes_id)


@pytest.mark.parametrize("is_new", [False, True])
def test_key_is_no_hindrance_elsewhere(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope, *, is_new: bool
) -> None:
    """Another memory of the successor's project has the same one: each keeps its own."""
    old = create(stubs, scope, "global note", key="k")
    holder = create(stubs, project, "holder", key="k")
    new = (
        types_pb.Memory(content="project note", scope=types_pb.Scope(project_id="p"))
        if is_new
        else types_pb.Memory(id=create(stubs, project, "project note").id)
    )
    reply = supersede(stubs, project, old, new)

    assert ("", old.id) == (reply.memory.key, reply.memory.supersedes_id)
    assert ("k", SUPERSEDED) == (reply.superseded.key, reply.superseded.status)
    assert [holder.id, old.id] == [by_key(stubs, one, "k").id for one in (project, scope)]


def test_successor_that_goes_back_lets_the_old_memory_go(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The old one is ACTIVE, with its key, and as true as before; neither names the other; each by one revision."""
    old, new = create(stubs, scope, "A old", key="home"), create(stubs, scope, "B new")
    linked = supersede(stubs, scope, old, types_pb.Memory(id=new.id)).memory
    back = rollback(stubs, scope, new.id, 1)

    assert (ACTIVE, "", "", linked.revision + 1) == (back.status, back.supersedes_id, back.key, back.revision)
    assert not back.HasField("valid_from")
    freed = by_key(stubs, scope, "home")
    assert (old.id, ACTIVE, "", 3) == (freed.id, freed.status, freed.superseded_by_id, freed.revision)
    assert not freed.HasField("valid_to")


def test_successor_elsewhere_that_goes_back_lets_the_old_memory_go(
    stubs: Stubs, scope: types_pb.Scope, project: types_pb.Scope
) -> None:
    """From the new one's own scope, which sees nothing of the old one's project, too."""
    old, new = replaced_globally(stubs, scope, project)
    back = rollback(stubs, scope, new.id, 1)

    assert ("", new.revision + 1) == (back.supersedes_id, back.revision)
    freed = by_key(stubs, project, "pk")
    assert (old.id, ACTIVE, "") == (freed.id, freed.status, freed.superseded_by_id)


def test_successor_that_goes_back_over_an_edit_keeps_the_link(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The revision of then names the old memory already."""
    old, new = create(stubs, scope, "A old", key="home"), create(stubs, scope, "B new")
    linked = supersede(stubs, scope, old, types_pb.Memory(id=new.id)).memory
    update(stubs, scope, new.id, title="Titled")
    back = rollback(stubs, scope, new.id, linked.revision)

    assert (old.id, "home", linked.revision + 2) == (back.supersedes_id, back.key, back.revision)
    after = get(stubs, scope, old.id)
    assert (SUPERSEDED, new.id, 2) == (after.status, after.superseded_by_id, after.revision)


def test_decision_for_a_memory_that_goes_back_is_open_again(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What was CONFLICTED before CONFIRM is so again: both still say what contradicts."""
    old = create(stubs, scope, "Anna lives in Lisbon.", key="home")
    reply = write(stubs, scope, "Anna has moved to Porto.")
    asked = memory_pb.ResolveConflictRequest(
        scope=scope, id=reply.conflicts[0].id, resolution=memory_pb.CONFLICT_RESOLUTION_CONFIRM
    )
    stubs.memory.ResolveConflict(asked, timeout=TIMEOUT)
    rollback(stubs, scope, reply.memory.id, 1)

    freed = by_key(stubs, scope, "home")
    assert (old.id, CONFLICTED, "") == (freed.id, freed.status, freed.superseded_by_id)
    listed = stubs.memory.ListConflicts(memory_pb.ListConflictsRequest(scope=scope), timeout=TIMEOUT)
    assert [reply.conflicts[0].id] == [one.id for one in listed.conflicts]
