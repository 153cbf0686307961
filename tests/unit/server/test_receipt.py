"""Receipt of requests: after the key is known, and few of a tenant at a time."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc.aio import EOF

from memsvc.bootstrap.app import running
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError, InvalidRequestError, LimitExceededError, LimitKind
from memsvc.server import call_context
from memsvc.server.call_context import Principal
from memsvc.server.interceptors import chain
from memsvc.server.interceptors.chain import MOST_RECEIVED, RequestReceiver
from memsvc.server.interceptors.encoded_requests import LARGE_BYTES
from memsvc.server.options import ServerOptions
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import memory_service_pb2_grpc
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE
from tests.support.tcp_proxy import Proxy
from tests.support.until import PATIENCE_SECONDS

WRITE, READ = "CreateMemory", "ListMemories"


class Uploads:
    """Requests that clients are about to send."""

    def __init__(self) -> None:
        self.begun = 0
        self.sent = asyncio.Event()
        self.receiver = RequestReceiver(PATIENCE_SECONDS)

    def start(self, tenant_id: str, method: str, body: object = b"x") -> asyncio.Task[bytes]:
        """Begin a call whose request arrives when everything is sent."""

        async def read() -> object:
            self.begun += 1
            await self.sent.wait()
            return body

        async def call() -> bytes:
            call_context.principal.set(Principal(tenant_id, "key", ApiKeyRole.READ_WRITE))
            return await self.receiver.receive(method, read)

        return asyncio.create_task(call())

    async def settled(self) -> int:
        """Return how many are received after all tasks have run as far as they can."""
        for _ in range(10):
            await asyncio.sleep(0)
        return self.begun


def test_few_requests_of_a_tenant_are_received_at_a_time() -> None:
    """Those of other tenants, and reads, which need no content, do not wait for them; all of them arrive."""

    async def run() -> tuple[list[int], list[bytes]]:
        uploads = Uploads()
        tasks = [uploads.start("acme", WRITE) for _ in range(MOST_RECEIVED + 3)]
        counts = [await uploads.settled()]
        tasks += [uploads.start("acme", READ), uploads.start("other", WRITE)]
        counts.append(await uploads.settled())
        uploads.sent.set()
        return counts, await asyncio.gather(*tasks)

    counts, bodies = asyncio.run(run())
    assert counts == [MOST_RECEIVED, MOST_RECEIVED + 2]
    assert bodies == [b"x"] * (MOST_RECEIVED + 5)


def test_a_large_request_keeps_its_place_for_the_rate_of_the_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many of them further writes wait; a request of usual size frees its place at once."""
    monkeypatch.setattr(chain, "BYTES_PER_SECOND", LARGE_BYTES / PATIENCE_SECONDS)

    async def run(body: bytes) -> int:
        uploads = Uploads()
        uploads.sent.set()
        await asyncio.gather(*(uploads.start("acme", WRITE, body) for _ in range(MOST_RECEIVED)))
        late = uploads.start("acme", WRITE)
        begun = await uploads.settled()
        late.cancel()
        return begun

    assert asyncio.run(run(bytes(LARGE_BYTES + 1))) == MOST_RECEIVED
    assert asyncio.run(run(bytes(LARGE_BYTES))) == MOST_RECEIVED + 1


def test_the_place_of_a_large_request_becomes_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its bytes would have arrived at the rate."""
    monkeypatch.setattr(chain, "BYTES_PER_SECOND", 1000 * LARGE_BYTES)

    async def run() -> int:
        uploads = Uploads()
        uploads.sent.set()
        bodies = [uploads.start("acme", WRITE, bytes(LARGE_BYTES + 1)) for _ in range(2 * MOST_RECEIVED)]
        return len(await asyncio.gather(*bodies))

    assert asyncio.run(run()) == 2 * MOST_RECEIVED


def test_a_request_that_waits_for_others_for_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose client has gone leaves its place in the line."""
    monkeypatch.setattr(chain, "WAIT_SECONDS", 0.02)

    async def run() -> None:
        uploads = Uploads()
        tasks = [uploads.start("acme", WRITE) for _ in range(MOST_RECEIVED + 1)]
        await uploads.settled()
        gone = uploads.start("acme", WRITE)
        await uploads.settled()
        gone.cancel()
        with pytest.raises(LimitExceededError, match="requests of a tenant that are received") as caught:
            await tasks[-1]
        assert caught.value.kind is LimitKind.CONCURRENCY
        uploads.sent.set()
        assert await asyncio.gather(*tasks[:-1]) == [b"x"] * MOST_RECEIVED
        assert await uploads.start("acme", WRITE) == b"x"

    asyncio.run(run())


def test_a_call_without_a_request_is_refused() -> None:
    """The stream of its client ended before a message came."""

    async def run() -> None:
        uploads = Uploads()
        uploads.sent.set()
        with pytest.raises(InvalidRequestError, match="request: must be the bytes of a message"):
            await uploads.start("acme", WRITE, EOF)

    asyncio.run(run())


@pytest.mark.parametrize("seconds", [None, 3600.0])
def test_a_client_that_does_not_send_its_request_loses_its_place(seconds: float | None) -> None:
    """Whatever its deadline is."""

    async def never() -> object:
        return await asyncio.Event().wait()

    async def run() -> None:
        call_context.deadline.set(Deadline() if seconds is None else Deadline.after(seconds))
        with pytest.raises(DeadlineExceededError, match="the request of the client"):
            await RequestReceiver(0.02).receive(WRITE, never)

    asyncio.run(run())


# On the wire.


class CountingProxy(Proxy):
    """A proxy that counts the bytes that go to the server."""

    def __init__(self, target: int) -> None:
        self.received = 0
        super().__init__(target)

    def _pump(self, source: socket.socket, sink: socket.socket, passing: threading.Event) -> None:
        with suppress(OSError):
            if sink.getpeername()[1] == self.target:
                while data := source.recv(65_536):
                    self.received += len(data)
                    sink.sendall(data)
        super()._pump(source, sink, passing)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[CountingProxy]:
    """Serve, with keys, behind a proxy."""
    chosen = BackendChoice(backend="in-memory")
    settings = Settings(
        data_dir=tmp_path,
        metadata=BackendChoice.model_validate(SQLITE),
        vectors=chosen,
        lexical=chosen,
        embedder=chosen,
        access={"keys": "required"},
    )
    with (
        running(settings) as application,
        ServerThread(application, ServerOptions(addresses=("127.0.0.1:0",))).serving() as address,
    ):
        proxy = CountingProxy(int(address.rpartition(":")[2]))
        try:
            yield proxy
        finally:
            proxy.close()


def _create(stub: Any, body: memory_pb.CreateMemoryRequest, metadata: Any) -> object:
    return stub.CreateMemory(body, metadata=metadata)


def _watch(stub: Any, body: memory_pb.CreateMemoryRequest, metadata: Any) -> object:
    request = memory_pb.WatchMemoriesRequest(scope=types_pb.Scope(user_id=body.memory.content))
    return list(stub.WatchMemories(request, metadata=metadata))


@pytest.mark.parametrize("call", [_create, _watch])
@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer memsvc_0123456789abcdef_forged"),)])
def test_the_request_of_a_caller_without_a_valid_key_is_not_received(
    counted: CountingProxy, call: Callable[..., Awaitable[object]], metadata: Any
) -> None:
    """Beyond what gRPC takes of any message before it is asked for."""
    body = memory_pb.CreateMemoryRequest(
        scope=types_pb.Scope(user_id="eve"), memory=types_pb.Memory(content="x" * 12_000_000)
    )
    options = (("grpc.max_send_message_length", -1),)
    with grpc.insecure_channel(f"127.0.0.1:{counted.port}", options=options) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            call(memory_service_pb2_grpc.MemoryServiceStub(channel), body, metadata)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert counted.received < 1_000_000
