"""When a part fails: the rest answers and says what is missing, all failing is an error, and it can be mended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from memsvc.server.server_context import NOT_INDEXED
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.mcp.support import bridged, parameters, text_of
from tests.support.child_processes import edge_pids, kill_edge
from tests.support.command_line import invoke
from tests.support.rpc import (
    HYBRID,
    KEYWORD,
    MODES,
    SEMANTIC,
    TIMEOUT,
    create,
    create_all,
    found,
    refused,
    search,
    write,
)
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("degraded")
SCOPE = types_pb.Scope(user_id="u")
ANIMALS = ("walrus", "gannet", "badger", "ibex", "marmot")
VECTORS = admin_pb.INDEX_KIND_VECTORS
NO_UPKEEP = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "3600", "MEMSVC_RANKING__RETRIEVER_SECONDS": "30"}
"""What is broken stays so until somebody mends it, and a killed process has the time to start again."""


@contextmanager
def stocked(directory: Path) -> Iterator[ServerProcess]:
    """Run a server of its own, to be broken, with a few memories."""
    with ServerProcess(directory / "data", environment=NO_UPKEEP) as running:
        with running.stubs() as stubs:
            create_all(stubs, SCOPE, [f"The {animal} eats." for animal in ANIMALS])
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for one test."""
    with stocked(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that has lost its vectors."""
    with stocked(tmp_path_factory.mktemp("blind")) as running:
        with running.stubs() as stubs:
            assert stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).healthy
        lose_vectors(running)
        yield running


def test_searches_and_writes_go_on_while_the_vector_process_is_killed(server: ServerProcess) -> None:
    """Three times in the middle of a load: every call succeeds whole, nothing is lost, both indexes equal the store."""
    done = threading.Event()

    def searching(stubs: Stubs, mode: search_pb.SearchMode) -> int:
        count = 0
        while not done.is_set():
            reply = search(stubs, SCOPE, "Which walrus eats?", mode=mode)
            assert not reply.degraded
            assert "The walrus eats." in {hit.memory.content for hit in reply.hits}
            count += 1
        return count

    def writing(stubs: Stubs) -> list[str]:
        contents = []
        while not done.is_set():
            content = f"Note {len(contents)} about zebras."
            create(stubs, SCOPE, content)
            assert content in found(stubs, SCOPE, content, limit=20)
            contents.append(content)
        return contents

    with server.stubs() as stubs, ThreadPoolExecutor() as pool:
        searches = [pool.submit(searching, stubs, mode) for mode in (HYBRID, SEMANTIC) for _ in range(2)]
        writes = pool.submit(writing, stubs)
        try:
            for _ in range(3):
                before = edge_pids(server)
                kill_edge(server)
                until(lambda before=before: set(edge_pids(server)) - set(before))  # type: ignore[misc]
                assert not [one.exception() for one in (*searches, writes) if one.done()]
                search(stubs, SCOPE, "Which walrus eats?", mode=SEMANTIC)
        finally:
            done.set()
        assert all(one.result(TIMEOUT) for one in searches)
        stored = len(writes.result(TIMEOUT)) + len(ANIMALS)
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)

    assert diagnosis.healthy
    assert [(stored, stored, 0, 0, 0)] * 2 == [
        (one.expected_count, one.present_count, one.missing_count, one.stale_count, one.orphaned_count)
        for one in diagnosis.indexes
    ]


def lose_vectors(server: ServerProcess) -> None:
    """Make the vector index impossible to open: its directory is gone, and so is the process that had it open."""
    for generation in server.data_dir.joinpath("vectors").glob("gen-*"):
        generation.rename(server.data_dir.with_name(f"lost-{generation.name}"))
    kill_edge(server)


def test_without_vectors_words_still_find(blind: ServerProcess) -> None:
    """HYBRID gives the other retrievers' hits with a notice, KEYWORD is whole, SEMANTIC alone is UNAVAILABLE."""
    with blind.stubs() as stubs:
        hybrid = search(stubs, SCOPE, "walrus", explain=True)
        keyword = search(stubs, SCOPE, "walrus", mode=KEYWORD)
        semantic = refused(stubs.search.Search, search_pb.SearchRequest(scope=SCOPE, query="walrus", mode=SEMANTIC))
        batch = stubs.search.BatchSearch(
            search_pb.BatchSearchRequest(
                searches=[search_pb.SearchRequest(scope=SCOPE, query="walrus", mode=mode) for mode in MODES]
            ),
            timeout=TIMEOUT,
        ).results

    assert ["The walrus eats."] == [hit.memory.content for hit in hybrid.hits]
    (lost,) = hybrid.degraded
    assert (search_pb.RETRIEVER_DENSE, search_pb.DEGRADATION_REASON_UNAVAILABLE) == (lost.retriever, lost.reason)
    assert "qdrant-edge" in lost.message
    assert {search_pb.RETRIEVER_BM25} == {one.retriever for one in hybrid.hits[0].explanation.retrievers}
    assert [] == list(keyword.degraded)
    assert ["The walrus eats."] == [hit.memory.content for hit in keyword.hits]
    assert (grpc.StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE") == (semantic.code, semantic.reason)
    assert semantic.retry_seconds
    assert semantic.metadata == {"backend": "qdrant-edge"}
    assert [0, 14, 0] == [result.status.code for result in batch]
    assert len(batch[0].response.degraded) == 1


def test_diagnose_names_what_is_broken(blind: ServerProcess) -> None:
    """The backend is unhealthy with a message, the service is not healthy, the rest is well and still counted."""
    with blind.stubs() as stubs:
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
        memory = write(stubs, SCOPE, "Stored all the same.", wait_for=types_pb.WAIT_FOR_STORED).memory
        listed = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=SCOPE, id=memory.id), timeout=TIMEOUT)

    assert not diagnosis.healthy
    health = {backend.port: backend for backend in diagnosis.backends}
    assert ["vectors"] == [port for port, backend in health.items() if not backend.healthy]
    assert health["vectors"].message
    assert not health["vectors"].HasField("ping")
    assert {"metadata", "lexical", "embedder"} <= health.keys()
    assert types_pb.WARNING_CODE_BACKEND_DOWN in {warning.code for warning in diagnosis.warnings}
    assert [admin_pb.INDEX_KIND_LEXICAL] == [one.index for one in diagnosis.indexes]
    assert memory == listed.memory


def test_commands_say_that_a_write_is_found_later(blind: ServerProcess) -> None:
    """On stderr, once, for a write whose response has a field for it and for one that has only the metadata."""
    connection = ("--address", blind.bound, "--user", "commands")
    added = invoke("add", "The puffin dives.", *connection)
    memory_id = added.stdout.split()[0]
    deleted = invoke("delete", memory_id, *connection)

    assert (0, 0) == (added.exit_code, deleted.exit_code)
    assert [f"memsvc: {NOT_INDEXED}"] == added.stderr.splitlines()
    assert [f"memsvc: {NOT_INDEXED}"] == deleted.stderr.splitlines()


def test_tools_say_that_a_write_is_found_later(blind: ServerProcess) -> None:
    """In the text for the model, of each call by itself."""
    with bridged(parameters(blind.bound, "tools")) as bridge:
        remembered = bridge.call("remember", content="The puffin dives.")
        assert remembered.structured_content is not None
        forgotten = bridge.said("forget", id=remembered.structured_content["id"])
        recalled = bridge.said("recall", query="puffin")

    assert text_of(remembered).endswith(NOT_INDEXED)
    assert forgotten.endswith(NOT_INDEXED)
    assert NOT_INDEXED not in recalled


def reindex(stubs: Stubs) -> None:
    """Rebuild the vectors."""
    request = admin_pb.ReindexRequest(indexes=[VECTORS])
    *_, last = stubs.admin.Reindex(request, timeout=TIMEOUT)
    assert admin_pb.REINDEX_PHASE_DONE == last.phase


def test_a_lost_index_is_mended_by_reindex(server: ServerProcess) -> None:
    """While the server runs; what was written in between is stored, and found by meaning then."""
    request = memory_pb.CreateMemoryRequest(
        scope=SCOPE, memory=types_pb.Memory(content="The pelican eats."), request_id="r"
    )
    with server.stubs() as stubs:
        lose_vectors(server)
        assert search(stubs, SCOPE, "walrus").degraded
        late, call = stubs.memory.CreateMemory.with_call(request, timeout=5)
        assert "Stored" in late.notice
        assert late.notice == dict(call.trailing_metadata())["x-memsvc-notice"]
        reindex(stubs)
        assert types_pb.WRITE_OUTCOME_CREATED == stubs.memory.CreateMemory(request, timeout=TIMEOUT).outcome
        create(stubs, SCOPE, "The ostrich eats.")

        reply = search(stubs, SCOPE, "Who eats?", mode=SEMANTIC)
        assert {f"The {animal} eats." for animal in (*ANIMALS, "pelican", "ostrich")} == {
            hit.memory.content for hit in reply.hits
        }
        assert not search(stubs, SCOPE, "walrus").degraded
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
        assert diagnosis.healthy
        assert [(7, 0, 0, 0)] * 2 == [
            (one.present_count, one.missing_count, one.stale_count, one.orphaned_count) for one in diagnosis.indexes
        ]
