"""The profile `cluster`: two servers over one PostgreSQL and one Qdrant, which hold nothing themselves.

Qdrant is the stand-in that speaks its gRPC, and a real one where MEMSVC_TEST_QDRANT_URL names it, behind a proxy.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from qdrant_client import grpc as wire

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.postgres_server import schema
from tests.support.qdrant_fake import Fault, Keeper
from tests.support.qdrant_targets import SERVER, local_port
from tests.support.rpc import (
    HYBRID,
    KEYWORD,
    MODES,
    SEMANTIC,
    TIMEOUT,
    at_rest,
    create,
    create_all,
    found,
    rebuilt,
    refused,
    search,
    write,
)
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.tcp_proxy import Proxy, proxy
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("cluster")
HARBOUR, TEA = "The harbour opens at dawn.", "她每天早上喝绿茶。"
STORED = types_pb.WAIT_FOR_STORED
SEARCHES = "memsvc.v1.SearchService"
WRITES = "memsvc.v1.MemoryService"
COUNT = 60
BM25 = search_pb.RETRIEVER_BM25


@dataclass
class Cluster:
    """Servers, and the way to what they share."""

    proxy: Proxy
    keeper: Keeper | None
    servers: tuple[ServerProcess, ServerProcess]


def environment(postgres: str, qdrant: int, given: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings of the profile: two addresses, and what else the Qdrant calls for."""
    options = {f"MEMSVC_VECTORS__OPTIONS__{name.upper()}": value for name, value in given.items() if value}
    return {
        **options,
        **FAST,
        "MEMSVC_PROFILE": "cluster",
        "MEMSVC_METADATA__OPTIONS__URL": postgres,
        "MEMSVC_VECTORS__OPTIONS__URL": f"http://127.0.0.1:{qdrant}",
        # The stand-in answers one call at a time, beside all that the tests do.
        "MEMSVC_VECTORS__OPTIONS__TIMEOUT_SECONDS": "60",
        "MEMSVC_LEXICAL__OPTIONS__TIMEOUT_SECONDS": "60",
        "MEMSVC_RANKING__RETRIEVER_SECONDS": "60",
        # Whether Qdrant is there is looked for as often as the tests ask.
        "MEMSVC_INDEXING__UPKEEP_SECONDS": "0.5",
    }


@pytest.fixture(scope="module", params=["grpc", SERVER])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two servers, begun at the same time on nothing."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    with (
        schema() as postgres,
        local_port(request.param) as (keeper, port, given),
        proxy(port) as between,
        ExitStack() as stack,
    ):
        settings = environment(postgres, between.port, given)
        one, other = (ServerProcess(folder / name, settings) for name in ("one", "other"))
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(stack.enter_context, (one, other)))
        yield Cluster(between, keeper, (one, other))


@pytest.fixture
def both(cluster: Cluster) -> Iterator[tuple[Stubs, Stubs]]:
    """The stubs of both."""
    with cluster.servers[0].stubs() as one, cluster.servers[1].stubs() as other:
        yield one, other


def differences(stubs: Stubs) -> list[tuple[int, int, int]]:
    """Return what a verifying diagnosis finds missing, stale and orphaned in each index."""
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
    return [(index.missing_count, index.stale_count, index.orphaned_count) for index in diagnosis.indexes]


def generations(stubs: Stubs) -> list[int]:
    """Return the numbers of the live generations."""
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
    return [index.generation for index in diagnosis.indexes]


def test_diagnose_reports_the_state_of_qdrant(cluster: Cluster, both: tuple[Stubs, Stubs]) -> None:
    """Status and replicas of each collection; a replica that is dead is a warning."""
    codes = types_pb.WARNING_CODE_INDEX_STATE, types_pb.WARNING_CODE_INDEX_IMPAIRED
    request = admin_pb.DiagnoseRequest()
    warnings = both[0].admin.Diagnose(request, timeout=TIMEOUT).warnings
    assert [one.code for one in warnings if one.code in codes] == [codes[0]] * 2
    if cluster.keeper is None:
        return
    cluster.keeper.shards.append(wire.RemoteShardInfo(shard_id=0, peer_id=2, state=wire.ReplicaState.Dead))
    try:
        diagnosis = both[0].admin.Diagnose(request, timeout=TIMEOUT)
    finally:
        cluster.keeper.shards.clear()
    assert not diagnosis.healthy
    assert ["peer 2 is dead" in one.message for one in diagnosis.warnings if one.code == codes[1]] == [True, True]


def test_what_one_indexed_the_other_finds(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """In both languages, by every retriever, as soon as the write returned; also a word that is misspelt."""
    one, other = both
    harbour, tea = create(one, scope, HARBOUR), create(other, scope, TEA)

    for stubs in both:
        for mode in MODES:
            assert search(stubs, scope, "harbour dawn", mode=mode).hits[0].memory.id == harbour.id
            assert search(stubs, scope, "绿茶", mode=mode).hits[0].memory.id == tea.id
        assert search(stubs, scope, "harbuor", mode=KEYWORD).hits[0].memory.id == harbour.id
    # What the other one made is noticed a moment later.
    until(lambda: generations(one) == generations(other))


def test_searches_and_writes_go_on_while_one_of_them_rebuilds(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """Both servers' writes during the rebuild are found by both after it, and the indexes equal the store."""
    one, other = both
    create_all(one, scope, [f"walrus number{number} swims" for number in range(COUNT)])
    done = threading.Event()
    before = generations(one)

    def writing(stubs: Stubs) -> list[str]:
        ids = []
        while not done.is_set():
            ids.append(create(stubs, scope, f"gannet flight{len(ids)} of {id(stubs)}").id)
            assert len(search(stubs, scope, "walrus", mode=HYBRID, limit=10).hits) == 10
        return ids

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(writing, stubs) for stubs in both]
        try:
            steps = list(rebuilt(one))
        finally:
            done.set()
        written = [memory_id for run in runs for memory_id in run.result()]

    assert steps[-1].phase == admin_pb.REINDEX_PHASE_DONE
    # After enough writes they rebuild of their own accord, too.
    until(lambda: generations(other) == generations(one))
    assert all(now > then for now, then in zip(generations(one), before, strict=True))
    until(lambda: differences(other) == [(0, 0, 0)] * 2)
    for stubs in both:
        flights = {hit.memory.id for hit in search(stubs, scope, "gannet", mode=KEYWORD, limit=100).hits}
        assert set(written[:50]) <= flights or len(flights) == 100


def test_of_two_rebuilds_at_once_one_is_refused(both: tuple[Stubs, Stubs], scope: types_pb.Scope) -> None:
    """Whoever came second is told that one is running, on whichever server."""
    one, other = both
    create(one, scope, HARBOUR)
    running = rebuilt(one)

    refusal = refused(other.admin.Reindex, admin_pb.ReindexRequest())

    assert refusal.reason == "REINDEX_RUNNING"
    assert list(running)[-1].phase == admin_pb.REINDEX_PHASE_DONE


def test_qdrant_away_is_unavailable_and_nothing_is_lost(
    cluster: Cluster, both: tuple[Stubs, Stubs], scope: types_pb.Scope
) -> None:
    """Writes are stored, words are answered from the table, meaning is not; after it is back all is found."""
    one, _ = both
    kept = create(one, scope, HARBOUR)
    cluster.proxy.refuse()
    try:
        with pytest.raises(grpc.RpcError) as caught:
            search(one, scope, "harbour", mode=SEMANTIC)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        for mode, missing in ((HYBRID, {search_pb.RETRIEVER_DENSE, BM25}), (KEYWORD, {BM25})):
            words = search(one, scope, "harbour", mode=mode)
            assert [hit.memory.id for hit in words.hits] == [kept.id]
            assert {lost.retriever for lost in words.degraded} == missing
            assert {lost.reason for lost in words.degraded} == {search_pb.DEGRADATION_REASON_UNAVAILABLE}
        later = write(one, scope, TEA, wait_for=STORED).memory
        assert not one.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).healthy
        until(lambda: not cluster.servers[0].is_serving(SEARCHES))
        assert cluster.servers[0].is_serving(WRITES)
    finally:
        cluster.proxy.listen()

    until(lambda: cluster.servers[0].is_serving(SEARCHES) and cluster.servers[1].is_serving(SEARCHES))
    for stubs in both:
        until(lambda stubs=stubs: later.id in {hit.memory.id for hit in search(stubs, scope, "绿茶").hits})
        assert found(stubs, scope, "harbour dawn")[0] == HARBOUR
    until(lambda: generations(one) == generations(both[1]))


def test_a_killed_server_loses_nothing_and_may_start_before_qdrant(
    cluster: Cluster, both: tuple[Stubs, Stubs], scope: types_pb.Scope
) -> None:
    """What it had acknowledged the other finds; started without Qdrant it takes writes, and searches once it is there."""
    killed, other = cluster.servers[0], both[1]
    acknowledged = [write(both[0], scope, f"ibex climb{number}", wait_for=STORED).memory.id for number in range(9)]
    killed.kill()
    until(lambda: {hit.memory.id for hit in search(other, scope, "ibex").hits} >= set(acknowledged))

    cluster.proxy.refuse()
    try:
        killed.start(until=WRITES)
        with killed.stubs() as stubs:
            early = write(stubs, scope, "marmot whistle", wait_for=STORED).memory
            until(lambda: not killed.is_serving(SEARCHES))
    finally:
        cluster.proxy.listen()
    until(lambda: killed.is_serving(SEARCHES))
    with killed.stubs() as stubs:
        for asked in (stubs, other):
            until(lambda asked=asked: early.id in {hit.memory.id for hit in search(asked, scope, "marmot").hits})
        until(lambda: differences(stubs) == [(0, 0, 0)] * 2)


def test_what_a_stopped_server_was_indexing_the_other_indexes(
    cluster: Cluster, both: tuple[Stubs, Stubs], scope: types_pb.Scope
) -> None:
    """Its claims end after half a minute. What it had sent reaches Qdrant later, and does not stay there."""
    if cluster.keeper is None:
        pytest.skip("A real Qdrant delays no request.")
    (one, other), stubs = (server.process for server in cluster.servers), both[1]
    assert one is not None
    assert other is not None
    at_rest(stubs)
    release = threading.Event()
    # So that the first one indexes what is written there.
    other.send_signal(signal.SIGSTOP)
    try:
        cluster.keeper.calls.clear()
        cluster.keeper.faults["UpdateBatch"] = Fault(release=release)
        memory = write(both[0], scope, "heron nests", wait_for=STORED).memory
        # The vectors, and the words.
        until(lambda: cluster.keeper is not None and cluster.keeper.calls["UpdateBatch"] >= 2)
        del cluster.keeper.faults["UpdateBatch"]
        one.send_signal(signal.SIGSTOP)
        other.send_signal(signal.SIGCONT)

        change = memory_pb.UpdateMemoryRequest(
            scope=scope,
            memory=types_pb.Memory(id=memory.id, content="egret nests"),
            update_mask=FieldMask(paths=["content"]),
            wait_for=types_pb.WAIT_FOR_INDEXED,
        )
        stubs.memory.UpdateMemory(change, timeout=TIMEOUT)
        assert differences(stubs) == [(0, 0, 0)] * 2
        release.set()
        until(lambda: differences(stubs) == [(0, 1, 0)] * 2)
    finally:
        release.set()
        for process in (one, other):
            process.send_signal(signal.SIGCONT)

    until(lambda: differences(stubs) == [(0, 0, 0)] * 2)
