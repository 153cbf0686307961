"""Read masks: responses contain the fields of memories that a caller names, and no others."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import create, refused
from tests.support.server_process import Stubs

MASK = FieldMask(paths=["content", "tags"])
CONTENTS = ["Anna works as a nurse in Lisbon.", "小明最喜欢的电影是《流浪地球》。"]


@pytest.fixture
def ids(stubs: Stubs, scope: types_pb.Scope) -> list[str]:
    """Two memories, in English and in Chinese."""
    return [create(stubs, scope, content, tags=["work"], title="A title").id for content in CONTENTS]


def names(memory: types_pb.Memory) -> set[str]:
    return {field.name for field, _ in memory.ListFields()}


def read(stubs: Stubs, scope: types_pb.Scope, ids: list[str], method: str, mask: FieldMask) -> list[types_pb.Memory]:
    """Return the memories that a call gives."""
    memory, search = stubs.memory, stubs.search
    if method == "GetMemory":
        request = memory_pb.GetMemoryRequest(scope=scope, id=ids[0], include_chain=True, read_mask=mask)
        response = memory.GetMemory(request)
        return [response.memory, *response.chain]
    if method == "BatchGetMemories":
        batch = memory_pb.BatchGetMemoriesRequest(scope=scope, ids=ids, read_mask=mask)
        return list(memory.BatchGetMemories(batch).memories)
    if method == "ListMemories":
        return list(memory.ListMemories(memory_pb.ListMemoriesRequest(scope=scope, read_mask=mask)).memories)
    if method == "SearchAll":
        everything = search_pb.SearchAllRequest(scope=scope, query="nurse 电影", read_mask=mask)
        return [hit.memory for hit in search.SearchAll(everything).memories]
    one = search_pb.SearchRequest(scope=scope, query="nurse 电影", read_mask=mask)
    if method == "BatchSearch":
        found = search.BatchSearch(search_pb.BatchSearchRequest(searches=[one])).results[0].response
    elif method == "StreamSearch":
        found = list(search.StreamSearch(search_pb.StreamSearchRequest(search=one)))[-1].fused
    else:
        found = search.Search(one)
    assert all(hit.score and hit.snippet for hit in found.hits)
    return [hit.memory for hit in found.hits]


METHODS = ["GetMemory", "BatchGetMemories", "ListMemories", "Search", "BatchSearch", "StreamSearch", "SearchAll"]


@pytest.mark.parametrize("method", METHODS)
def test_only_the_named_fields_are_set(stubs: Stubs, scope: types_pb.Scope, ids: list[str], method: str) -> None:
    """Without a mask all fields are."""
    masked, whole = (read(stubs, scope, ids, method, mask) for mask in (MASK, FieldMask()))

    assert len(masked) == len(whole) > 0
    assert {memory.content for memory in masked} <= set(CONTENTS)
    assert all(names(memory) == {"content", "tags"} for memory in masked)
    assert all({"id", "content", "tags", "title", "create_time"} <= names(memory) for memory in whole)


@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_field_is_named(stubs: Stubs, scope: types_pb.Scope, ids: list[str], method: str) -> None:
    """With its place in the mask."""
    mask = FieldMask(paths=["content", "contents"])

    if method == "BatchSearch":
        search = search_pb.SearchRequest(scope=scope, query="nurse", read_mask=mask)
        status: Any = stubs.search.BatchSearch(search_pb.BatchSearchRequest(searches=[search])).results[0].status
        assert "read_mask.paths[1]" in status.message
        return
    with pytest.raises(grpc.RpcError) as caught:
        read(stubs, scope, ids, method, mask)

    assert "read_mask.paths[1]" in caught.value.details()


def test_a_mask_may_change_between_pages(stubs: Stubs, scope: types_pb.Scope, ids: list[str]) -> None:
    """It selects what is returned, not what is listed."""
    first = stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=scope, page_size=1))
    token = first.next_page_token
    request = memory_pb.ListMemoriesRequest(
        scope=scope, page_size=1, page_token=token, read_mask=FieldMask(paths=["id"])
    )

    (second,) = stubs.memory.ListMemories(request).memories

    assert {first.memories[0].id, second.id} == set(ids)
    assert names(second) == {"id"}


def test_a_mask_names_at_most_as_many_fields_as_there_are(stubs: Stubs, scope: types_pb.Scope) -> None:
    """One violation tells of a mask that is too long, not one for each of its names."""
    refusal = refused(
        stubs.memory.ListMemories, memory_pb.ListMemoriesRequest(scope=scope, read_mask=FieldMask(paths=["id"] * 5_000))
    )

    assert refusal.fields == ("read_mask.paths",)
