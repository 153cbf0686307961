"""Contents of nothing but blanks are refused wherever a memory is written; in bulk, each alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import batch, header
from tests.support.rpc import TIMEOUT, create, get, list_all, refused
from tests.support.server_process import Stubs

BLANK = ["   ", "\n", "\t\r\n", "\u3000\u3000", "\u00a0", "\u200b", "\ufeff \u3000"]
blanks = pytest.mark.parametrize("content", BLANK)


def violations(call: Callable[..., Any], request: Any) -> list[str]:
    """Return the fields for which a call is refused."""
    refusal = refused(call, request)
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    return list(refusal.fields)


@blanks
def test_a_blank_memory_is_refused(stubs: Stubs, scope: types_pb.Scope, content: str) -> None:
    """When it is created, created under a key, put in the place of another one, or made blank by an update."""
    old = create(stubs, scope, "I drink tea. 我喝茶。", key="drinks")
    blank, keyed = types_pb.Memory(content=content), types_pb.Memory(key="drinks", content=content)

    for memory in (blank, keyed):
        request = memory_pb.CreateMemoryRequest(scope=scope, memory=memory)
        assert violations(stubs.memory.CreateMemory, request) == ["memory.content"]
    replacing = memory_pb.SupersedeMemoryRequest(scope=scope, id=old.id, memory=blank)
    assert violations(stubs.memory.SupersedeMemory, replacing) == ["memory.content"]
    changed = types_pb.Memory(id=old.id, content=content)
    update = memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, update_mask=FieldMask(paths=["content"]))
    assert violations(stubs.memory.UpdateMemory, update) == ["memory.content"]
    append = memory_pb.AppendMemoryRequest(scope=scope, key="drinks", content=content)
    assert violations(stubs.memory.AppendMemory, append) == ["content"]

    assert get(stubs, scope, old.id).content == old.content
    assert len(list_all(stubs, scope)) == 1


@blanks
def test_a_blank_memory_of_many_is_refused_alone(stubs: Stubs, scope: types_pb.Scope, content: str) -> None:
    """The others of a batch and of an import are stored, so that an import of old data does not fail for one."""
    memories = [types_pb.Memory(content=text) for text in ("I drink tea.", content, "我喝茶。")]
    request = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[memory_pb.BatchMemory(memory=memory) for memory in memories]
    )
    results = stubs.memory.BatchCreateMemories(request, timeout=TIMEOUT).results
    assert [one.HasField("memory") for one in results] == [True, False, True]

    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="imported")
    *_, last = stubs.memory.ImportMemories(iter([header(elsewhere), batch(0, memories)]), timeout=TIMEOUT)
    assert (last.created_count, last.failed_count) == (2, 1)


@pytest.mark.parametrize("content", [" tea ", "\u3000茶", "🍵", "\u200b\u0e01"])
def test_blanks_around_a_text_are_kept(stubs: Stubs, scope: types_pb.Scope, content: str) -> None:
    assert create(stubs, scope, content).content == content
