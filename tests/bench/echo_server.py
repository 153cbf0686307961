"""A gRPC server that takes bytes in and gives bytes out, and does nothing else: what the service is measured beside.

`python -m tests.bench.echo_server FILE` writes its address into FILE and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import uvloop
from grpc import aio
from grpc_health.v1 import health, health_pb2_grpc

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import file_service_pb2_grpc as pb_grpc
from tests.bench.server import ROOT

Context: TypeAlias = "aio.ServicerContext[Any, Any]"
_UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Bare(pb_grpc.FileServiceServicer):
    """The two streams of FileService, without files."""

    async def UploadFile(
        self, request_iterator: AsyncIterator[file_pb.UploadFileRequest], context: Context
    ) -> file_pb.UploadFileResponse:
        """Count the bytes."""
        size = 0
        async for request in request_iterator:
            size += len(request.data)
        return file_pb.UploadFileResponse(file=file_pb.File(size_bytes=size))

    async def DownloadFile(
        self, request: file_pb.DownloadFileRequest, context: Context
    ) -> AsyncGenerator[file_pb.DownloadFileResponse, None]:
        """Give so many bytes out as *length* says, in messages as large as *offset* says."""
        piece = os.urandom(request.offset)
        for _ in range(request.length // request.offset):
            yield file_pb.DownloadFileResponse(data=piece)


ECHO = "/bare.Echo/Echo"
"""The method that returns its bytes."""


class _Echo(grpc.GenericRpcHandler):
    """Handler of `ECHO`: an empty call."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Return the handler for its method."""
        return grpc.unary_unary_rpc_method_handler(_echo) if details.method == ECHO else None


async def _echo(request: bytes, _: Context) -> bytes:
    return request


@asynccontextmanager
async def echo_server(folder: Path) -> AsyncIterator[tuple[str, int]]:
    """Run the server in a process of its own, and give its address and process id."""
    async with _started(folder) as (address, process):
        yield address, process.pid


@asynccontextmanager
async def bare_server(folder: Path) -> AsyncIterator[aio.Channel]:
    """Run the server in a process of its own, as ours is, and give a channel to it; *folder* is for its address."""
    options = (("grpc.max_receive_message_length", -1),)
    async with _started(folder) as (address, _), aio.insecure_channel(address, options=options) as channel:
        yield channel


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[tuple[str, subprocess.Popen[bytes]]]:
    ready = folder / "bare.ready"
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.echo_server", str(ready)], cwd=ROOT)  # noqa: ASYNC220 - quick
    try:
        while not ready.exists():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.02)
        yield ready.read_text(encoding="utf-8"), process
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


async def serve(ready: Path) -> None:
    """Serve at a free port of loopback."""
    server = aio.server(options=_UNLIMITED)
    server.add_generic_rpc_handlers((_Echo(),))
    pb_grpc.add_FileServiceServicer_to_server(Bare(), server)  # type: ignore[abstract]  # the two streams alone
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    part = ready.with_suffix(".part")
    part.write_text(f"127.0.0.1:{port}")
    part.replace(ready)
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
