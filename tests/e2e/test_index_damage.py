"""Files of an index that are deleted or changed by hand: named by Diagnose, mended, and searches go on meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.child_processes import kill_edge
from tests.support.rpc import HYBRID, KEYWORD, SEMANTIC, TIMEOUT, WAYS, Refusal, create_all, found, search, write
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("index-damage")
SCOPE = types_pb.Scope(user_id="u")
NO_UPKEEP = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "3600"}
QUICK_UPKEEP = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "0.2"}
WALRUSES = [f"Walrus number{number} swims." for number in range(40)]
VECTORS, LEXICAL = admin_pb.INDEX_KIND_VECTORS, admin_pb.INDEX_KIND_LEXICAL
OWN_WAY = {VECTORS: WAYS["dense"], LEXICAL: WAYS["bm25"]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with a few memories, on which nothing is mended by itself but at a start."""
    with ServerProcess(tmp_path / "data", environment=NO_UPKEEP) as running:
        with running.stubs() as stubs:
            create_all(stubs, SCOPE, WALRUSES)
        yield running


def diagnosed(stubs: Stubs) -> admin_pb.DiagnoseResponse:
    """Return a verifying diagnosis."""
    return stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)


def codes(diagnosis: admin_pb.DiagnoseResponse) -> set[str]:
    """Return what it warns of, in earnest."""
    return {types_pb.WarningCode.Name(one.code) for one in diagnosis.warnings if one.severity != types_pb.SEVERITY_INFO}


def spoil(files: Iterator[Path]) -> None:
    """Overwrite files, of large ones the first part, in place."""
    changed = 0
    for path in files:
        with path.open("r+b") as file:
            content = file.read(100_000)
            file.seek(0)
            file.write(b"\xa5" * len(content))
        changed += 1
    assert changed


def test_a_spoilt_segment_of_words_is_named_and_mended(server: ServerProcess) -> None:
    """While the server runs: searches do without it and say so, until a reindex has built it anew."""
    with server.stubs() as stubs:
        spoil(server.data_dir.glob("lexical/gen-*/*.term"))
        reply = search(stubs, SCOPE, WALRUSES[7], mode=HYBRID)
        assert {search_pb.RETRIEVER_BM25} == {one.retriever for one in reply.degraded}
        assert reply.hits
        sick = diagnosed(stubs)
        assert not sick.healthy
        assert codes(sick) & {"WARNING_CODE_INDEX_FAILING", "WARNING_CODE_INDEX_DAMAGED"}

        *_, last = stubs.admin.Reindex(admin_pb.ReindexRequest(indexes=[LEXICAL]), timeout=TIMEOUT)

        assert admin_pb.REINDEX_PHASE_DONE == last.phase
        well = diagnosed(stubs)
        assert (True, set()) == (well.healthy, codes(well))
        assert [WALRUSES[7]] == found(stubs, SCOPE, "number7", mode=KEYWORD, limit=1)


def test_spoilt_vectors_are_named_and_mended(server: ServerProcess) -> None:
    """Their bytes are no longer what they were, which no count shows; a reindex makes them anew from the store."""
    with server.stubs() as stubs:
        assert diagnosed(stubs).healthy
    server.stop()
    spoil(server.data_dir.glob("vectors/gen-*/segments/*/vector_storage/vectors/chunk_*.mmap"))
    server.start()
    with server.stubs() as stubs:
        sick = diagnosed(stubs)
        assert not sick.healthy
        assert {"WARNING_CODE_INDEX_DAMAGED"} <= codes(sick)
        assert WALRUSES[7] in found(stubs, SCOPE, "number7 swims", mode=HYBRID, limit=40)

        list(stubs.admin.Reindex(admin_pb.ReindexRequest(indexes=[VECTORS]), timeout=TIMEOUT))

        assert diagnosed(stubs).healthy
        assert [WALRUSES[7]] == found(stubs, SCOPE, WALRUSES[7], mode=SEMANTIC, limit=1)


def _without_segments(directory: Path) -> None:
    for folder in directory.glob("gen-*/segments"):
        shutil.rmtree(folder)


def _without_meta(directory: Path) -> None:
    for file in directory.glob("gen-*/meta.json"):
        file.write_text("{}")


def _without_manifest(directory: Path) -> None:
    directory.joinpath("manifest.json").write_text('{"format": 1, "generation"')


DAMAGES: list[tuple[admin_pb.IndexKind, Callable[[Path], None]]] = [
    (VECTORS, _without_segments),
    (LEXICAL, _without_meta),
    (VECTORS, _without_manifest),
    (LEXICAL, _without_manifest),
]


def test_what_is_lost_while_the_server_is_down_is_made_anew_at_its_start(server: ServerProcess) -> None:
    """Whatever files are gone or broken; whole answers, or ones that say what is missing, come from the start on."""
    for kind, damage in DAMAGES:
        server.stop()
        damage(server.data_dir / ("vectors" if kind == VECTORS else "lexical"))
        server.start()
        with server.stubs() as stubs:

            def is_healthy(stubs: Stubs = stubs) -> bool:
                reply = search(stubs, SCOPE, "number7 swims", mode=HYBRID, limit=40)
                assert reply.degraded or WALRUSES[7] in {hit.memory.content for hit in reply.hits}
                return diagnosed(stubs).healthy

            until(is_healthy)
            assert {40} == {report.present_count for report in diagnosed(stubs).indexes}
            for way in OWN_WAY.values():
                assert set(WALRUSES) == set(found(stubs, SCOPE, "walrus swims", limit=100, **way))


def is_left(folder: Path) -> bool:
    """Remove a folder, and return whether something is left of it, as its server goes on writing."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


@pytest.mark.parametrize("lost", ["gen-*", ""])
def test_an_index_whose_files_vanish_is_built_anew_by_itself(tmp_path: Path, lost: str) -> None:
    """While the server runs: what is written meanwhile is stored, found by the other index, and by both in the end."""
    with ServerProcess(tmp_path / "data", environment=QUICK_UPKEEP) as server, server.stubs() as stubs:
        create_all(stubs, SCOPE, WALRUSES)
        written = []
        for kind, name in ((LEXICAL, "lexical"), (VECTORS, "vectors")):
            before = next(one.generation for one in diagnosed(stubs).indexes if one.index == kind)
            place = server.data_dir.joinpath(name)
            folders = list(place.glob(lost)) if lost else [place]
            until(lambda folders=folders: not any(map(is_left, folders)))
            if kind == VECTORS:
                kill_edge(server)
            written.append(f"The gannet of {name} dives.")
            write(stubs, SCOPE, written[-1], wait_for=types_pb.WAIT_FOR_STORED)

            def is_built_anew(kind: int = kind, before: int = before) -> bool:
                assert found(stubs, SCOPE, "number7 swims", mode=HYBRID)
                diagnosis = diagnosed(stubs)
                generations = {one.index: one.generation for one in diagnosis.indexes}
                return diagnosis.healthy and generations.get(kind, 0) > before and not diagnosis.outbox.pending_count

            until(is_built_anew)
        for way in OWN_WAY.values():
            everything = found(stubs, SCOPE, "walrus gannet dives swims", limit=100, **way)
            assert {*WALRUSES, *written} == set(everything)


def test_indexes_that_both_vanish_are_degraded_and_never_empty(tmp_path: Path) -> None:
    """From then on until they are built anew, a search finds something, says what is missing, or fails."""
    with ServerProcess(tmp_path / "data", environment=QUICK_UPKEEP) as server, server.stubs() as stubs:
        create_all(stubs, SCOPE, WALRUSES)
        before = {one.index: one.generation for one in diagnosed(stubs).indexes}
        folders = [folder for name in ("lexical", "vectors") for folder in server.data_dir.joinpath(name).glob("gen-*")]
        until(lambda: not any(map(is_left, folders)))
        kill_edge(server)
        write(stubs, SCOPE, "The gannet dives.", wait_for=types_pb.WAIT_FOR_STORED)

        def are_built_anew() -> bool:
            for mode in (HYBRID, SEMANTIC, KEYWORD):
                request = search_pb.SearchRequest(scope=SCOPE, query="number7 swims", mode=mode)
                try:
                    reply = stubs.search.Search(request, timeout=TIMEOUT)
                except grpc.RpcError as error:
                    assert Refusal.from_error(error).reason == "BACKEND_UNAVAILABLE"
                else:
                    assert reply.hits or reply.degraded, mode
            generations = {one.index: one.generation for one in diagnosed(stubs).indexes}
            return all(generations.get(kind, 0) > before[kind] for kind in before)

        until(are_built_anew)
        assert {*WALRUSES, "The gannet dives."} == set(found(stubs, SCOPE, "walrus gannet dives swims", limit=100))
