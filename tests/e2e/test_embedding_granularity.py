"""The richer ranking tier, by setting: more vectors for each memory, the same promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import document
from tests.support.rpc import MODES, SEMANTIC, TIMEOUT, create, create_all, found, search
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

RICH = {**FAST, "MEMSVC_RANKING__TIER": "E", "MEMSVC_RANKING__TIME_WEIGHTING": "true"}
TALK = types_pb.Scope(user_id="u", session_id="s")


def verified(stubs: Stubs) -> admin_pb.DiagnoseResponse:
    """Return what a verifying diagnosis says."""
    return stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)


def is_rebuilt(now: admin_pb.DiagnoseResponse, before: admin_pb.DiagnoseResponse) -> bool:
    """Return whether the vectors are of another generation, and all is well with it."""
    return now.healthy and now.indexes[0].generation != before.indexes[0].generation


def test_the_rich_tier_keeps_every_promise(tmp_path: Path) -> None:
    """One hit per memory with explained scores, filters, deletions, repairs; going back to the plain tier works."""
    with ServerProcess(tmp_path / "data", environment=RICH) as server:
        with server.stubs() as stubs:
            zoo = create(stubs, TALK, document())
            lines = create_all(
                stubs, TALK,
                [types_pb.Memory(content=f"Walruses sing. They sing in room {number}. 海象唱歌。", speaker="Ann")
                 for number in range(30)],
            )  # fmt: skip
            axis = [1.0, *[0.0] * 255]
            stubs.memory.CreateMemory(
                memory_pb.CreateMemoryRequest(scope=TALK, memory=types_pb.Memory(content="A given one."), vector=axis),
                timeout=TIMEOUT,
            )
            for mode in MODES:
                hits = search(stubs, TALK, "walruses sing", mode=mode, limit=100, explain=True).hits
                assert len({hit.memory.id for hit in hits}) == len(hits)
                assert {memory.id for memory in lines} <= {hit.memory.id for hit in hits}
                for hit in hits:
                    said = hit.explanation
                    assert said.fused_score == pytest.approx(sum(one.share for one in said.retrievers))
                    assert "time_weighting" in {boost.name for boost in said.boosts}
            assert zoo.id == search(stubs, TALK, "How many figs does the ibex eat?", limit=1).hits[0].memory.id
            assert "A given one." == found(stubs, TALK, vector=axis, mode=SEMANTIC)[0]
            only = filters_pb.Filter(ids=[lines[7].id])
            assert [lines[7].content] == found(stubs, TALK, "walruses", filter=only)
            stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=TALK, id=lines[7].id), timeout=TIMEOUT)
            assert [] == found(stubs, TALK, "walruses", filter=only)
            rich = verified(stubs)
            assert rich.healthy, rich
            assert all((one.missing_count, one.stale_count, one.orphaned_count) == (0, 0, 0) for one in rich.indexes)
            # Several vectors for each chunk, one lexical entry.
            vectors, lexical = rich.indexes
            assert lexical.present_count == lexical.expected_count == vectors.expected_count < vectors.present_count
        server.stop()
        server.environment = FAST
        server.start()
        with server.stubs() as stubs:
            until(lambda: is_rebuilt(verified(stubs), rich))
            plain = verified(stubs)
            assert plain.indexes[0].present_count < rich.indexes[0].present_count
            hits = search(stubs, TALK, "walruses sing", limit=100, explain=True).hits
            assert {memory.id for memory in lines} - {lines[7].id} <= {hit.memory.id for hit in hits}
            assert search_pb.RETRIEVER_DENSE in {one.retriever for one in hits[0].explanation.retrievers}
