"""The calls that most tests make, in short, and what a failed one says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2 as details
from grpc_status import rpc_status

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_process import Stubs
from tests.support.until import until

TIMEOUT = 120.0
"""Seconds that no call of a test needs; it only keeps a hang from lasting."""
HYBRID, SEMANTIC, KEYWORD = search_pb.SEARCH_MODE_HYBRID, search_pb.SEARCH_MODE_SEMANTIC, search_pb.SEARCH_MODE_KEYWORD
MODES = (HYBRID, SEMANTIC, KEYWORD)
WAYS: dict[str, dict[str, Any]] = {
    "hybrid": {"mode": HYBRID},
    "dense": {"mode": SEMANTIC},
    "bm25 and table": {"mode": KEYWORD},
    "bm25": {"fusion": search_pb.Fusion(weights=search_pb.FusionWeights(bm25=1))},
    "keyword table": {"fusion": search_pb.Fusion(weights=search_pb.FusionWeights(keyword_table=1))},
}
"""Every retriever by itself, and together."""
Content = str | types_pb.Memory


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call failed.

    Attributes:
        reason: The reason of the ErrorInfo, without its prefix; empty when there is no ErrorInfo of ours.
        fields: The paths of the violations, in order.
    """

    code: grpc.StatusCode
    reason: str = ""
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    retry_seconds: float | None = None

    @classmethod
    def from_error(cls, error: grpc.RpcError) -> Refusal:
        """Return what *error* says."""
        reason, metadata, paths, retry = "", {}, (), None
        status = rpc_status.from_call(error)
        info, bad, delay = details.ErrorInfo(), details.BadRequest(), details.RetryInfo()
        for part in () if status is None else status.details:
            if part.Unpack(info) and info.domain == "memsvc":
                reason, metadata = info.reason.removeprefix("ERROR_REASON_"), dict(info.metadata)
            if part.Unpack(bad):
                paths = tuple(violation.field for violation in bad.field_violations)
            if part.Unpack(delay):
                retry = delay.retry_delay.seconds + delay.retry_delay.nanos / 1e9
        return cls(error.code(), reason, error.details() or "", metadata, paths, retry)


def refused(call: Callable[..., Any], request: Any, *, timeout: float = TIMEOUT) -> Refusal:
    """Make a call, unary or streaming, that must fail, and return why it did."""
    with pytest.raises(grpc.RpcError) as caught:
        answered = call(request, timeout=timeout)
        if hasattr(answered, "cancel"):
            list(answered)
    return Refusal.from_error(caught.value)


def write(stubs: Stubs, scope: types_pb.Scope, content: Content, **request: Any) -> memory_pb.CreateMemoryResponse:
    """Store one memory, with these fields of the request, and return the answer."""
    memory = content if isinstance(content, types_pb.Memory) else types_pb.Memory(content=content)
    return stubs.memory.CreateMemory(
        memory_pb.CreateMemoryRequest(scope=scope, memory=memory, **request), timeout=TIMEOUT
    )


def create(stubs: Stubs, scope: types_pb.Scope, content: str, /, **fields: Any) -> types_pb.Memory:
    """Store one memory with these fields, wait until searches find it, and return it."""
    return write(stubs, scope, types_pb.Memory(content=content, **fields)).memory


def create_all(
    stubs: Stubs, scope: types_pb.Scope, contents: Sequence[Content], **request: Any
) -> list[types_pb.Memory]:
    """Store memories in one batch, wait until searches find them, and return them."""
    memories = [one if isinstance(one, types_pb.Memory) else types_pb.Memory(content=one) for one in contents]
    batch = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[memory_pb.BatchMemory(memory=memory) for memory in memories], **request
    )
    results = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results
    assert [0] * len(memories) == [result.status.code for result in results], results
    return [result.memory for result in results]


def get(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> types_pb.Memory:
    """Return one memory by its id."""
    return stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, id=memory_id), timeout=TIMEOUT).memory


def list_all(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> list[types_pb.Memory]:
    """Return all memories of a list, page by page."""
    found: list[types_pb.Memory] = []
    token = ""
    while True:
        page = stubs.memory.ListMemories(
            memory_pb.ListMemoriesRequest(scope=scope, page_token=token, **request), timeout=TIMEOUT
        )
        found.extend(page.memories)
        token = page.next_page_token
        if not token:
            return found


def search(stubs: Stubs, scope: types_pb.Scope, query: str = "", **request: Any) -> search_pb.SearchResponse:
    """Search, and return the answer."""
    return stubs.search.Search(search_pb.SearchRequest(scope=scope, query=query, **request), timeout=TIMEOUT)


def found(stubs: Stubs, scope: types_pb.Scope, query: str = "", **request: Any) -> list[str]:
    """Search, and return the contents of the hits, best first."""
    return [hit.memory.content for hit in search(stubs, scope, query, **request).hits]


def at_rest(stubs: Stubs) -> None:
    """Wait until the indexes have taken in all that is stored.

    A write that waits for INDEXED goes ahead of what other tests have only stored, and that changes counts and scores.
    """
    until(lambda: not stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).outbox.pending_count)


def rebuilt(stubs: Stubs) -> Iterator[admin_pb.ReindexResponse]:
    """Begin to rebuild, and return the steps to come after the first.

    After enough writes the servers rebuild of their own accord: that is waited for.
    """

    def begun() -> Iterator[admin_pb.ReindexResponse] | None:
        steps = iter(stubs.admin.Reindex(admin_pb.ReindexRequest(), timeout=TIMEOUT))
        try:
            next(steps)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
            return None
        return steps

    return until(begun)
