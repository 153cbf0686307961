"""An open channel with the stubs of the services on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol, TypeVar

import grpc

from memsvc.client.channel import Tls, open_channel
from memsvc.client.errors import MemsvcCallError
from memsvc.v1 import types_pb2 as types
from memsvc.v1.file_service_pb2_grpc import FileServiceStub
from memsvc.v1.lifecycle_service_pb2_grpc import LifecycleServiceStub
from memsvc.v1.memory_service_pb2_grpc import MemoryServiceStub
from memsvc.v1.search_service_pb2_grpc import SearchServiceStub
from memsvc.v1.session_service_pb2_grpc import SessionServiceStub

if TYPE_CHECKING:
    from memsvc.v1.file_service_pb2_grpc import FileServiceAsyncStub
    from memsvc.v1.lifecycle_service_pb2_grpc import LifecycleServiceAsyncStub
    from memsvc.v1.memory_service_pb2_grpc import MemoryServiceAsyncStub
    from memsvc.v1.search_service_pb2_grpc import SearchServiceAsyncStub
    from memsvc.v1.session_service_pb2_grpc import SessionServiceAsyncStub

READY_PAUSE_SECONDS = 0.05
READY_SERVICE = "memsvc.v1.SearchService"

Q = TypeVar("Q")
R = TypeVar("R")


class _AsksForPage(Protocol):
    page_token: str


class _Page(Protocol):
    next_page_token: str


Asks = TypeVar("Asks", bound=_AsksForPage)
Page = TypeVar("Page", bound=_Page)


class Connection:
    """A channel to one service, to be made inside a running event loop."""

    def __init__(
        self, address: str, *, timeout_seconds: float, api_key: str | None = None, tls: Tls | None = None
    ) -> None:
        """Open the channel; it connects with the first call. *timeout_seconds* holds for calls that name none."""
        self._address = address
        self.timeout_seconds = timeout_seconds
        self._channel = open_channel(address, api_key=api_key, tls=tls)
        self.memories: MemoryServiceAsyncStub = MemoryServiceStub(self._channel)
        self.searches: SearchServiceAsyncStub = SearchServiceStub(self._channel)
        self.sessions: SessionServiceAsyncStub = SessionServiceStub(self._channel)
        self.files: FileServiceAsyncStub = FileServiceStub(self._channel)
        self.lifecycle: LifecycleServiceAsyncStub = LifecycleServiceStub(self._channel)

    async def close(self) -> None:
        """Close the channel and end what is under way."""
        await self._channel.close()

    async def unary(self, method: grpc.aio.UnaryUnaryMultiCallable[Q, R], request: Q, timeout: float | None) -> R:  # noqa: ASYNC109 - goes to the service, too
        """Make one call.

        Raises:
            MemsvcCallError: It failed.
        """
        try:
            return await method(request, timeout=self.timeout_seconds if timeout is None else timeout)
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error

    async def pages(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Asks, Page],
        request: Asks,
        timeout: float | None,  # noqa: ASYNC109 - goes to the service, too
    ) -> AsyncGenerator[Page, None]:
        """Yield a list page by page, beginning where *request* says; the timeout holds for each page.

        Raises:
            MemsvcCallError: A call failed.
        """
        while True:
            page = await self.unary(method, request, timeout)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def wait_ready(self, seconds: float) -> None:
        """Return as soon as the service answers searches.

        Raises:
            MemsvcCallError: DEADLINE_EXCEEDED, it did not within so many seconds.
        """
        try:
            async with asyncio.timeout(seconds):
                while not await self._serves():  # noqa: ASYNC110 - the event is in another process
                    await asyncio.sleep(READY_PAUSE_SECONDS)
        except TimeoutError as error:
            message = f"The service at {self._address} is not ready after {seconds:g} seconds."
            raise MemsvcCallError(grpc.StatusCode.DEADLINE_EXCEEDED, message) from error

    async def _serves(self) -> bool:
        from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415 - not everybody needs the package

        check = health_pb2_grpc.HealthStub(self._channel).Check
        try:
            reply = await check(health_pb2.HealthCheckRequest(service=READY_SERVICE), wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND}:
                return False
            raise MemsvcCallError.from_rpc(error) from error
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


class Connected:
    """What the groups of calls have in common: a scope, and a connection while the client is open."""

    def __init__(self, scope: types.Scope) -> None:
        """Stand in *scope*, not yet connected."""
        self.scope = scope
        self._opened: Connection | None = None

    @property
    def _remote(self) -> Connection:
        if self._opened is None:
            message = "The client is not open; use it as a context manager."
            raise RuntimeError(message)
        return self._opened
