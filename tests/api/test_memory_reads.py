"""Memories over the wire: batches, reads by id and key, lists page by page."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import errors_pb2 as errors_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, TIMEOUT, create, create_all, found, get, list_all, refused, search
from tests.support.server_process import Stubs

ORDERS = ("create_time", "update_time", "access_time", "event_time", "importance", "access_count")


def entry(content: str, **fields: object) -> memory_pb.BatchMemory:
    """Return a memory of a batch."""
    return memory_pb.BatchMemory(memory=types_pb.Memory(content=content, **fields))  # type: ignore[arg-type] # any field


def test_a_batch_stores_the_good_and_names_the_bad(stubs: Stubs, user: str) -> None:
    """In order: new, duplicate within the batch, update by key within the batch, bad ones alone; own scopes."""
    scope = types_pb.Scope(user_id=user, project_id="base", agent_id="a0", session_id="s0")
    batch = memory_pb.BatchCreateMemoriesRequest(
        scope=scope,
        memories=[
            entry("one", key="k"),
            entry("two"),
            entry("two"),
            entry("uno", key="k", title="t"),
            entry("", tags=["", "x" * 65]),
            entry("three", importance=9),
            entry("own", scope=types_pb.Scope(project_id="other", agent_id="a1", session_id="s1")),
            entry("user", scope=types_pb.Scope(user_id=user)),
            entry("thief", scope=types_pb.Scope(user_id="somebody else")),
            memory_pb.BatchMemory(memory=types_pb.Memory(content="vector"), vector=[1.0] * 3),
        ],
    )
    reply = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT)
    results = list(reply.results)
    created, updated, duplicate = (
        types_pb.WRITE_OUTCOME_CREATED, types_pb.WRITE_OUTCOME_UPDATED, types_pb.WRITE_OUTCOME_DUPLICATE,
    )  # fmt: skip

    assert [created, created, duplicate, updated, 0, 0, created, created, 0, 0] == [one.outcome for one in results]
    assert [0, 0, 0, 0, 3, 3, 0, 0, 3, 3] == [one.status.code for one in results]
    assert results[0].memory.id == results[3].memory.id
    assert results[1].memory.id == results[2].memory.id
    assert all(one.HasField("memory") == (one.status.code == 0) for one in results)
    assert {errors_pb.ERROR_REASON_INVALID_REQUEST} == {one.status.reason for one in results if one.status.code}
    paths = [[violation.field for violation in one.status.field_violations] for one in results if one.status.code]
    assert {"memory.content", "memory.tags[0]", "memory.tags[1]"} == set(paths[0])
    assert [["memory.importance"], ["memory.scope.user_id"], ["vector"]] == paths[1:]
    own = types_pb.Scope(user_id=user, project_id="other", agent_id="a1", session_id="s1")
    assert [own, scope] == [results[6].memory.scope, results[7].memory.scope]
    assert {"two", "uno", "user"} == {memory.content for memory in list_all(stubs, scope)}
    assert ["own"] == found(stubs, own, "own", mode=KEYWORD)


def test_a_batch_with_reject_fails_only_its_duplicates(stubs: Stubs, scope: types_pb.Scope) -> None:
    """ALREADY_EXISTS with its reason stands in the item's status."""
    create(stubs, scope, "here")
    batch = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[entry("new"), entry("here")], on_duplicate=types_pb.ON_DUPLICATE_REJECT
    )
    statuses = [result.status for result in stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results]

    assert [0, grpc.StatusCode.ALREADY_EXISTS.value[0]] == [status.code for status in statuses]
    assert errors_pb.ERROR_REASON_MEMORY_EXISTS == statuses[1].reason


def test_a_batch_is_found_once_its_token_is_reached(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With STORED the consistency_token makes the next search see all of it."""
    batch = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[entry(f"pelican {number}") for number in range(50)], wait_for=types_pb.WAIT_FOR_STORED
    )
    token = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).consistency_token
    reply = search(stubs, scope, "pelican", mode=KEYWORD, limit=100, consistency_token=token)

    assert len(reply.hits) == 50


def test_get_by_id_or_key_and_in_a_batch(stubs: Stubs, user: str) -> None:
    """A project's caller sees global memories by id, keys only of exactly its project, and no deleted memory."""
    world, project = types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p")
    shared = create(stubs, world, "shared", key="k")
    own = create(stubs, project, "own", key="k")
    deleted = create(stubs, project, "deleted")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=project, id=deleted.id), timeout=TIMEOUT)
    nobody = str(uuid.uuid4())

    def by_key(scope: types_pb.Scope) -> str:
        return stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="k"), timeout=TIMEOUT).memory.content

    assert ["shared", "own"] == [by_key(world), by_key(project)]
    assert "shared" == get(stubs, project, shared.id.upper()).content
    for memory_id in (own.id, deleted.id, nobody):
        refusal = refused(stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=world, id=memory_id))
        assert (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND") == (refusal.code, refusal.reason)
        assert {"memory": memory_id} == refusal.metadata
    ids = [own.id, nobody, shared.id.upper(), deleted.id, own.id]
    reply = stubs.memory.BatchGetMemories(memory_pb.BatchGetMemoriesRequest(scope=project, ids=ids), timeout=TIMEOUT)
    assert ["own", "shared"] == [memory.content for memory in reply.memories]
    assert [nobody, deleted.id] == list(reply.missing_ids)


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("name", ORDERS)
def test_a_list_has_the_order_asked_for_on_all_pages(
    stubs: Stubs, scope: types_pb.Scope, name: str, direction: str
) -> None:
    """Memories without the time come last; ties do not lose or repeat any."""
    create_all(
        stubs,
        scope,
        [
            types_pb.Memory(
                content=f"{number}",
                importance=1 + number % 3,
                event_time=Timestamp(seconds=-number % 5 - 2) if number % 4 else None,
            )
            for number in range(20)
        ],
    )
    for memory in list_all(stubs, scope)[::3]:
        update = types_pb.Memory(id=memory.id, title="touched")
        stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=update), timeout=TIMEOUT)

    def value(memory: types_pb.Memory) -> tuple[bool, float]:
        if name in {"importance", "access_count"}:
            return True, getattr(memory, name)
        present = memory.HasField(name)  # type: ignore[arg-type] # the name of a field
        return present, getattr(memory, name).ToNanoseconds() if present else 0

    for page_size in (0, 7):
        listed = list_all(stubs, scope, order_by=f"{name} {direction}", page_size=page_size)
        assert len({memory.id for memory in listed}) == len(listed) == 20
        known = [number for present, number in map(value, listed) if present]
        assert sorted(known, reverse=direction == "desc") == known
        assert [True] * len(known) + [False] * (20 - len(known)) == [value(memory)[0] for memory in listed]
    if direction == "asc":
        assert listed == list_all(stubs, scope, order_by=name)


def test_the_default_order_is_newest_first(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Without order_by the latest write comes first."""
    for number in range(3):
        create(stubs, scope, f"{number}")

    assert ["2", "1", "0"] == [memory.content for memory in list_all(stubs, scope, page_size=1)]


@pytest.mark.parametrize("order", ["create_time asc", "create_time desc", "update_time desc", "importance desc"])
def test_a_walk_over_all_pages_meets_every_memory_once_while_writes_go_on(
    stubs: Stubs, scope: types_pb.Scope, order: str
) -> None:
    """What is there, unchanged, during the whole walk is returned exactly once; writers run all the time."""
    kept = {memory.id for memory in create_all(stubs, scope, [f"kept {number}" for number in range(120)])}
    passing = create_all(stubs, scope, [f"passing {number}" for number in range(60)])
    done = threading.Event()

    def churn() -> None:
        for number, memory in enumerate(passing):
            if done.is_set():
                return
            create(stubs, scope, f"new {number}", importance=1 + number % 5)
            change = types_pb.Memory(id=memory.id, title=f"{number}", importance=1 + number % 5)
            stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=change), timeout=TIMEOUT)
            stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        try:
            for page_size in (7, 11):
                seen = [memory.id for memory in list_all(stubs, scope, order_by=order, page_size=page_size)]
                assert sorted(kept) == sorted(memory_id for memory_id in seen if memory_id in kept)
        finally:
            done.set()
            churning.result()


def test_a_page_token_is_bound_to_its_request(stubs: Stubs, scope: types_pb.Scope) -> None:
    """page_size may change from page to page; with another scope, filter or order the token is refused."""
    create_all(stubs, scope, ["1", "2", "3", "4"])
    first = memory_pb.ListMemoriesRequest(scope=scope, page_size=1)
    token = stubs.memory.ListMemories(first, timeout=TIMEOUT).next_page_token
    rest = memory_pb.ListMemoriesRequest(scope=scope, page_size=3, page_token=token)

    assert len(stubs.memory.ListMemories(rest, timeout=TIMEOUT).memories) == 3
    for other in (
        memory_pb.ListMemoriesRequest(scope=types_pb.Scope(user_id=scope.user_id, project_id="p"), page_token=token),
        memory_pb.ListMemoriesRequest(scope=scope, filter=filters_pb.Filter(min_importance=1), page_token=token),
        memory_pb.ListMemoriesRequest(scope=scope, order_by="importance", page_token=token),
        memory_pb.ListMemoriesRequest(scope=scope, page_token=token[:-1]),
        memory_pb.ListMemoriesRequest(scope=scope, page_token=token + "A"),
    ):
        refusal = refused(stubs.memory.ListMemories, other)
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("page_token",)) == (refusal.code, refusal.fields)


def test_a_list_sees_every_acknowledged_change_at_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Also what is only STORED; and listing counts no access."""
    batch = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=[entry("x")], wait_for=types_pb.WAIT_FOR_STORED)
    stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT)
    listed = list_all(stubs, scope)

    assert ["x"] == [memory.content for memory in listed]
    assert not listed[0].HasField("access_time")


def test_a_page_token_of_another_method_is_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Requests of the same fields are not the same request."""
    create_all(stubs, scope, ["one", "two"])
    for name in ("s1", "s2"):
        talk = types_pb.Scope(user_id=scope.user_id, project_id=scope.project_id, session_id=name)
        stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk), timeout=TIMEOUT)
    listing = session_pb.ListSessionsRequest(scope=scope, page_size=1)
    token = stubs.session.ListSessions(listing, timeout=TIMEOUT).next_page_token
    assert token

    asked = memory_pb.ListMemoriesRequest(scope=scope, page_size=1, page_token=token)

    assert ("page_token",) == refused(stubs.memory.ListMemories, asked).fields
