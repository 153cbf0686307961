"""grpc.health.v1: what probes and load balancers ask, kept up to date in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio

from memsvc.server.addresses import listen, socket_path
from memsvc.server.server_context import ServerContext

LIVENESS = "liveness"
READINESS = "readiness"
OVERALL = ""
MEMORY_SERVICE = "memsvc.v1.MemoryService"
SEARCH_SERVICE = "memsvc.v1.SearchService"
LIFECYCLE_SERVICE = "memsvc.v1.LifecycleService"
SESSION_SERVICE = "memsvc.v1.SessionService"
FILE_SERVICE = "memsvc.v1.FileService"
SERVICES = (MEMORY_SERVICE, SEARCH_SERVICE, SESSION_SERVICE, FILE_SERVICE, LIFECYCLE_SERVICE)
REPLAY_SECONDS = 0.1
"""How often to look whether the indexes have caught up after a start: looking costs nothing."""

STORE = frozenset({"metadata"})
NEEDS: Mapping[str, frozenset[str]] = {
    OVERALL: STORE,
    MEMORY_SERVICE: STORE,
    LIFECYCLE_SERVICE: STORE,
    SESSION_SERVICE: STORE,
    FILE_SERVICE: STORE | {"blobs"},
    SEARCH_SERVICE: STORE,
    READINESS: STORE,
}
"""The ports without which a name does not serve. Searches do without an index or the model: they are then degraded."""
AWAIT_REPLAY = frozenset({SEARCH_SERVICE, READINESS})
INDEXES = frozenset({"vectors", "lexical"})
"""Without both of them searches find nothing, as when the server that holds them is away; writes are taken still."""


class Health:
    """Follows the backends. "liveness" says only that the process answers, and so depends on no backend."""

    def __init__(self, edge: ServerContext) -> None:
        self.servicer = aio.HealthServicer()
        self._edge = edge
        self._broken: frozenset[str] = frozenset()
        self._is_leaving = False
        self._is_told_replaying = False
        self.is_ready = False
        """Whether calls of every service are answered."""
        self._log = structlog.get_logger("memsvc.health")

    async def begin(self) -> None:
        """Look at everything a first time, so that the first probe gets a true answer."""
        await self.servicer.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        await self._look()
        await self._tell()

    async def follow(self) -> None:
        """Keep looking until cancelled. It is one of the two places that may catch every exception."""
        while True:
            try:
                await self._wait_for_change()
                await self._look()
                await self._tell()
            except Exception:  # noqa: BLE001 - a fault in looking must not end the looking
                self._log.exception("health could not be looked at")

    async def leave(self) -> None:
        """Tell everybody, for good, that the server is about to stop."""
        self._is_leaving, self.is_ready = True, False
        await self.servicer.enter_graceful_shutdown()

    async def _wait_for_change(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._edge.options.health_seconds
        # As it was told: the indexes may have caught up since then.
        while self._is_told_replaying and loop.time() < until:
            await asyncio.sleep(min(REPLAY_SECONDS, self._edge.options.health_seconds))
            if not self._edge.application.indexer.is_replaying:
                await self._tell()
        await asyncio.sleep(max(0.0, until - loop.time()))

    async def _look(self) -> None:
        # Not refused when all threads are busy: that the service is overloaded does not mean that it is sick.
        broken = await self._edge.executors.meta.proceed(self._unhealthy_ports)
        if broken != self._broken:
            self._log.warning("backends changed", broken=sorted(broken))
        self._broken = broken

    def _unhealthy_ports(self) -> frozenset[str]:
        return frozenset(backend.port for backend in self._edge.application.diagnose.health() if not backend.healthy)

    async def _tell(self) -> None:
        replaying = self._is_told_replaying = self._edge.application.indexer.is_replaying
        for name, needs in NEEDS.items():
            is_blind = name == SEARCH_SERVICE and self._broken >= INDEXES
            serves = not (needs & self._broken or is_blind or (replaying and name in AWAIT_REPLAY))
            status = health_pb2.HealthCheckResponse.SERVING if serves else health_pb2.HealthCheckResponse.NOT_SERVING
            await self.servicer.set(name, status)
            if name == READINESS:
                self.is_ready = serves and not self._is_leaving


# A port for probes alone: grpc.health.v1 in plain text, and nothing else.
#
# Why: Kubernetes' gRPC probes speak no TLS and show no certificate, and come from outside of the pod. What is told here
# is whether the service serves, which a load balancer has to know anyway; so it may be reached by everybody.


MARK = "health://"
"""Stands before the address of this port among those that the service tells."""
MAX_CALLS = 64
"""Calls at a time, open watches included; further ones are answered RESOURCE_EXHAUSTED."""
MAX_MESSAGE_BYTES = 4096


class HealthPort:
    """A server of its own, which ends last: while calls end it tells that no more should come."""

    def __init__(self, servicer: aio.HealthServicer) -> None:
        """Answer what *servicer* says."""
        self._servicer = servicer
        self._server: grpc.aio.Server | None = None
        self._bound = ""

    async def start(self, address: str) -> str:
        """Listen at "HOST:PORT" or "unix:PATH", and return that with the port that was bound, marked.

        Raises:
            AddressError: It cannot be listened at.
        """
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_CALLS)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        self._bound = await listen(self._server, address)
        await self._server.start()
        return f"{MARK}{self._bound}"

    async def stop(self) -> None:
        """Listen no longer."""
        if self._server is None:
            return
        await self._server.stop(None)
        if path := socket_path(self._bound):
            path.unlink(missing_ok=True)
