"""A port for probes alone: grpc.health.v1 in plain text, and nothing else.

Why: Kubernetes' gRPC probes speak no TLS and show no certificate, and come from outside of the pod. What is told here
is whether the service serves, which a load balancer has to know anyway; so it may be reached by everybody.
"""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import aio

from memsvc.server.addresses import socket_path
from memsvc.server.listening import listen

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
