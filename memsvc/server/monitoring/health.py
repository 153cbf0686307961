"""Health status of grpc.health.v1 for probes and load balancers, updated in the background."""

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
BACKEND = "backend."
"""The prefix of the names of single backends, such as "backend.vectors"; they say what is degraded."""
WRITES = "writes"
"""Not serving while the store does not respond, or was moved elsewhere (STORE_MOVED) and serves reads alone."""
MEMORY_SERVICE = "memsvc.v1.MemoryService"
SEARCH_SERVICE = "memsvc.v1.SearchService"
LIFECYCLE_SERVICE = "memsvc.v1.LifecycleService"
ADMIN_SERVICE = "memsvc.v1.AdminService"
SESSION_SERVICE = "memsvc.v1.SessionService"
FILE_SERVICE = "memsvc.v1.FileService"
SERVICES = (MEMORY_SERVICE, SEARCH_SERVICE, SESSION_SERVICE, FILE_SERVICE, LIFECYCLE_SERVICE, ADMIN_SERVICE)
REPLAY_SECONDS = 0.1
"""The interval of checks for the end of the replay after a start; a check costs nothing."""

BROKEN_SECONDS = 1.0
"""The longest interval of pings while a backend is broken, so that its return is noticed soon."""

STORE = frozenset({"metadata"})
NEEDS: Mapping[str, frozenset[str]] = {
    OVERALL: STORE,
    MEMORY_SERVICE: STORE,
    LIFECYCLE_SERVICE: STORE,
    ADMIN_SERVICE: STORE,
    SESSION_SERVICE: STORE,
    FILE_SERVICE: STORE | {"blobs"},
    SEARCH_SERVICE: STORE,
    READINESS: STORE,
    WRITES: STORE,
}
"""The ports that a name needs to serve. Searches work without an index or the model: they are then degraded."""
AWAIT_REPLAY = frozenset({SEARCH_SERVICE, READINESS})
"""Names that wait for the replay of changes into the indexes that exist. Not for a missing index: building it takes
minutes for many memories, in which writes and degraded searches work."""
READING = frozenset({SEARCH_SERVICE})
"""Names that serve when the data of the store were moved elsewhere and the service still runs on the old one: reads are
answered as of the move, and every write is refused."""
INDEXES = frozenset({"vectors", "lexical"})
"""Without both of them, as when their server is unavailable, searches find by the keyword table alone."""


class Health:
    """Health status of the services. "liveness" means that the process answers, and depends on no backend."""

    def __init__(self, server: ServerContext) -> None:
        self.servicer = aio.HealthServicer()
        self._server = server
        self._broken: frozenset[str] = frozenset()
        self._moved = ""
        self._ports: tuple[str, ...] = ()
        self._is_leaving = False
        self._is_published_replaying = False
        self.is_ready = False
        """True when calls of every service are answered."""
        self._log = structlog.get_logger("memsvc.health")

    async def begin(self) -> None:
        """Check everything once, so that the first probe gets a correct answer."""
        await self.servicer.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        await self._check_backends()
        await self._publish()

    async def follow(self) -> None:
        """Check until cancelled."""
        while True:
            try:
                await self._wait_for_change()
                await self._check_backends()
                await self._publish()
            except Exception:  # noqa: BLE001 - a failed check must not end the checks
                self._log.exception("health check failed")

    async def leave(self) -> None:
        """Report for good that the server is about to stop."""
        self._is_leaving, self.is_ready = True, False
        await self.servicer.enter_graceful_shutdown()

    async def _wait_for_change(self) -> None:
        loop = asyncio.get_running_loop()
        seconds = self._server.options.health_seconds
        until = loop.time() + (min(seconds, BROKEN_SECONDS) if self._broken or self._moved else seconds)
        # The status that was published: the indexes may have caught up since then.
        while self._is_published_replaying and loop.time() < until:
            await asyncio.sleep(min(REPLAY_SECONDS, self._server.options.health_seconds))
            if not self._server.application.indexer.is_replaying:
                await self._publish()
        await asyncio.sleep(max(0.0, until - loop.time()))

    async def _check_backends(self) -> None:
        # Not refused when all threads are busy: an overloaded service is not unhealthy.
        broken = await self._server.executors.meta.proceed(self._unhealthy_ports)
        if broken != self._broken:
            self._log.warning("backends changed", broken=sorted(broken))
        self._broken = broken
        moved = self._server.application.diagnosis.move_notice
        if moved != self._moved:
            self._log.warning("store moved" if moved else "store is here again", reason="STORE_MOVED", detail=moved)
        self._moved = moved

    def _unhealthy_ports(self) -> frozenset[str]:
        found = self._server.application.diagnosis.health()
        self._ports = tuple(backend.port for backend in found)
        return frozenset(backend.port for backend in found if not backend.healthy)

    async def _publish(self) -> None:
        replaying = self._is_published_replaying = self._server.application.indexer.is_replaying
        for name, needs in NEEDS.items():
            is_blind = name == SEARCH_SERVICE and self._broken >= INDEXES
            is_refusing = bool(self._moved) and name not in READING
            serves = not (needs & self._broken or is_blind or is_refusing or (replaying and name in AWAIT_REPLAY))
            status = health_pb2.HealthCheckResponse.SERVING if serves else health_pb2.HealthCheckResponse.NOT_SERVING
            await self.servicer.set(name, status)
            if name == READINESS:
                self.is_ready = serves and not self._is_leaving
        for port in self._ports:
            is_up = port not in self._broken
            status = health_pb2.HealthCheckResponse.SERVING if is_up else health_pb2.HealthCheckResponse.NOT_SERVING
            await self.servicer.set(f"{BACKEND}{port}", status)


MARK = "health://"
"""The prefix of this port among the addresses that the service reports."""
MAX_CALLS = 64
"""Concurrent calls, open watches included; further ones are answered RESOURCE_EXHAUSTED."""
MAX_MESSAGE_BYTES = 4096


class HealthPort:
    """Plain-text port that serves grpc.health.v1 and nothing else.

    Kubernetes' gRPC probes use no TLS and no client certificate, and come from outside of the pod. The port shows no
    more than a load balancer has to know, so it may be reachable by any client. It stops last: while calls end, it
    reports that the service takes no more.
    """

    def __init__(self, servicer: aio.HealthServicer) -> None:
        """Answer with the status of *servicer*."""
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
        """Stop listening."""
        if self._server is None:
            return
        await self._server.stop(None)
        if path := socket_path(self._bound):
            path.unlink(missing_ok=True)
