"""Calls that name a memory by its key instead of its id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, get, refused
from tests.support.server_process import Stubs

ACTIVE, DELETED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_DELETED
SHORT = types_pb.MEMORY_LAYER_SHORT_TERM


def test_one_memory_goes_through_all_that_its_key_can_name(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Delete, restore, roll back, list revisions, archive: in the scope's project alone."""
    kept = create(stubs, scope, "one", key="k")
    other = types_pb.Scope(user_id=scope.user_id, project_id="other")
    theirs = create(stubs, other, "two", key="k")

    deleted = stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, key="k"), timeout=TIMEOUT)
    assert (deleted.memory.id, deleted.memory.status) == (kept.id, DELETED)
    restored = stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, key="k"), timeout=TIMEOUT)
    assert (restored.memory.id, restored.memory.status) == (kept.id, ACTIVE)
    back = stubs.memory.RollbackMemory(
        memory_pb.RollbackMemoryRequest(scope=scope, key="k", revision=1), timeout=TIMEOUT
    )
    assert back.memory.id == kept.id
    revisions = stubs.memory.ListRevisions(memory_pb.ListRevisionsRequest(scope=scope, key="k"), timeout=TIMEOUT)
    assert {one.memory.id for one in revisions.revisions} == {kept.id}
    archived = stubs.lifecycle.ArchiveMemory(lifecycle_pb.ArchiveMemoryRequest(scope=scope, key="k"), timeout=TIMEOUT)
    assert archived.memory.id == kept.id
    assert get(stubs, other, theirs.id).status == ACTIVE


def test_a_repeated_request_means_the_memory_that_it_meant_first(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Although the key is by then another memory's, or was passed on: the answer is the first one."""
    old = create(stubs, scope, "I live in Lisbon.", key="home")
    request = memory_pb.SupersedeMemoryRequest(
        scope=scope, key="home", memory=types_pb.Memory(content="I live in Porto."), request_id="s"
    )
    first = stubs.memory.SupersedeMemory(request, timeout=TIMEOUT)
    assert (first.superseded.id, first.memory.key) == (old.id, "home")
    assert stubs.memory.SupersedeMemory(request, timeout=TIMEOUT) == first

    deletion = memory_pb.DeleteMemoryRequest(scope=scope, key="home", request_id="d")
    deleted = stubs.memory.DeleteMemory(deletion, timeout=TIMEOUT)
    create(stubs, scope, "I live in Faro.", key="home")
    assert stubs.memory.DeleteMemory(deletion, timeout=TIMEOUT) == deleted
    assert "Faro" in get_by_key(stubs, scope, "home").content


def test_a_withheld_memory_is_reviewed_by_the_key_that_it_cannot_hold(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Although another memory holds the key."""
    create(stubs, scope, "trusted", key="k")
    held = create(stubs, scope, "doubtful", key="k", status=types_pb.MEMORY_STATUS_QUARANTINED)
    review = memory_pb.ReviewMemoryRequest(scope=scope, key="k", verdict=memory_pb.REVIEW_VERDICT_REJECT)
    reviewed = stubs.memory.ReviewMemory(review, timeout=TIMEOUT)

    assert (reviewed.memory.id, reviewed.memory.review) == (held.id, types_pb.MEMORY_REVIEW_REJECTED)


def test_a_memory_is_promoted_by_its_key(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The long-term memory takes the key over."""
    create(stubs, scope, "for now", key="k", layer=SHORT)
    asked = lifecycle_pb.PromoteMemoryRequest(scope=scope, key="k", request_id="p")
    promoted = stubs.lifecycle.PromoteMemory(asked, timeout=TIMEOUT)

    assert promoted.memory.layer == types_pb.MEMORY_LAYER_LONG_TERM
    assert stubs.lifecycle.PromoteMemory(asked, timeout=TIMEOUT) == promoted


def test_several_memories_are_read_by_their_keys(stubs: Stubs, scope: types_pb.Scope) -> None:
    """In the order of the request, each once; keys of other projects, of deleted memories and of nothing are missing."""
    one, two = create(stubs, scope, "one", key="k/1"), create(stubs, scope, "二", key="k/二")
    create(stubs, types_pb.Scope(user_id=scope.user_id, project_id="p"), "elsewhere", key="k/3")
    create(stubs, types_pb.Scope(user_id=f"{scope.user_id}2"), "a stranger's", key="k/4")
    talk = types_pb.Scope(user_id=scope.user_id, session_id="talk")
    create(stubs, talk, "private", key="k/5", layer=types_pb.MEMORY_LAYER_SESSION)
    create(stubs, scope, "gone", key="k/6")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, key="k/6"), timeout=TIMEOUT)
    keys = ["k/6", "k/二", "k/3", "k/1", "k/4", "k/二", "k/5", "k/"]
    request = memory_pb.BatchGetMemoriesRequest(scope=scope, ids=[one.id], keys=keys)

    reply = stubs.memory.BatchGetMemories(request, timeout=TIMEOUT)

    assert [memory.id for memory in reply.memories] == [one.id, two.id]
    assert reply.missing_keys == ["k/6", "k/3", "k/4", "k/5", "k/"]
    assert reply.missing_ids == []
    from_talk = memory_pb.BatchGetMemoriesRequest(scope=talk, keys=["k/5"])
    assert [one.content for one in stubs.memory.BatchGetMemories(from_talk, timeout=TIMEOUT).memories] == ["private"]
    for wrong, fields in (
        ({"keys": ["", "x" * 257]}, ("keys[0]", "keys[1]")),
        ({"ids": [one.id] * 600, "keys": ["k"] * 401}, ("keys",)),
        ({}, ("ids",)),
    ):
        refusal = refused(stubs.memory.BatchGetMemories, memory_pb.BatchGetMemoriesRequest(scope=scope, **wrong))  # type: ignore[arg-type]
        assert refusal.fields == fields


def test_an_earlier_revision_is_read_by_the_key(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Of the memory that has the key, or had it until it was deleted."""
    create(stubs, scope, "first", key="k")
    create(stubs, scope, "second", key="k")
    request = memory_pb.GetMemoryRequest(scope=scope, key="k", revision=1)

    assert stubs.memory.GetMemory(request, timeout=TIMEOUT).memory.content == "first"
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, key="k"), timeout=TIMEOUT)
    assert stubs.memory.GetMemory(request, timeout=TIMEOUT).memory.content == "first"
    missing = memory_pb.GetMemoryRequest(scope=scope, key="k", revision=9)
    assert refused(stubs.memory.GetMemory, missing).reason == "REVISION_NOT_FOUND"
    nothing = memory_pb.GetMemoryRequest(scope=scope, key="none", revision=1)
    assert refused(stubs.memory.GetMemory, nothing).reason == "MEMORY_NOT_FOUND"


def test_conflicts_of_a_memory_are_listed_by_its_key(stubs: Stubs, scope: types_pb.Scope) -> None:
    """An unknown key matches nothing; an id beside it is wrong input."""
    old = create(stubs, scope, "I live in Lisbon.", key="home")
    create(stubs, scope, "I live in Porto.")
    create(stubs, scope, "My cat is called Tom.", key="cat")

    def listed(**fields: str) -> list[str]:
        request = memory_pb.ListConflictsRequest(scope=scope, **fields)  # type: ignore[arg-type] # names of the memory
        return [one.id for one in stubs.memory.ListConflicts(request, timeout=TIMEOUT).conflicts]

    assert len(listed(memory_key="home")) == 1
    assert listed(memory_key="home") == listed(memory_id=old.id)
    assert listed(memory_key="cat") == listed(memory_key="nothing") == []
    both = memory_pb.ListConflictsRequest(scope=scope, memory_id=old.id, memory_key="home")
    assert refused(stubs.memory.ListConflicts, both).fields == ("memory_key",)


REQUESTS: dict[str, Callable[..., Any]] = {
    "DeleteMemory": memory_pb.DeleteMemoryRequest,
    "RestoreMemory": memory_pb.RestoreMemoryRequest,
    "ListRevisions": memory_pb.ListRevisionsRequest,
}


@pytest.mark.parametrize("method", REQUESTS)
def test_keys_of_others_and_of_nothing_are_not_found(stubs: Stubs, scope: types_pb.Scope, method: str) -> None:
    """A global memory is not found from a project by its key, nor one of another user or private to another session."""
    create(stubs, scope, "mine", key="k")
    there, elsewhere = (types_pb.Scope(user_id=scope.user_id, session_id=name) for name in ("there", "elsewhere"))
    create(stubs, there, "private", key="s", layer=types_pb.MEMORY_LAYER_SESSION)
    assert (
        refused(getattr(stubs.memory, method), REQUESTS[method](scope=elsewhere, key="s")).reason == "MEMORY_NOT_FOUND"
    )
    call, request = getattr(stubs.memory, method), REQUESTS[method]
    for stranger in (
        types_pb.Scope(user_id=scope.user_id, project_id="p"),
        types_pb.Scope(user_id=f"{scope.user_id}2"),
    ):
        refusal = refused(call, request(scope=stranger, key="k"))
        assert (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND") == (refusal.code, refusal.reason)
    for wrong in ("", "x" * 257, "a\n"):
        assert refused(call, request(scope=scope, key=wrong)).fields == ("key",)
    assert refused(call, request(scope=scope)).fields == ("id",)


def get_by_key(stubs: Stubs, scope: types_pb.Scope, key: str) -> types_pb.Memory:
    """Return the memory that holds a key."""
    return stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key=key), timeout=TIMEOUT).memory
