"""Files over gRPC: how quickly bytes go up and down, beside a stream of the same messages that nothing is done with."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc.v1.file_service_pb2_grpc import FileServiceStub
from tests.bench.echo_server import bare_server
from tests.bench.results import Row, Target
from tests.bench.server import running_server
from tests.bench.settings import Plan

if TYPE_CHECKING:
    from memsvc.v1.file_service_pb2_grpc import FileServiceAsyncStub

PART = "Files"
_SCOPE = types_pb.Scope(user_id="filing")
_UP_BYTES = 128 * 1024
"""As the client sends them."""
_DOWN_BYTES = 256 * 1024
"""As the service sends them."""
_RATE, _SHARE = 200.0, 0.6
_MEGA = 1_000_000
ROUNDS = 5


async def measure_files(plan: Plan, told: Callable[[], None]) -> list[Row]:
    """Send and fetch a large file, a bare stream in between each time, and compare the medians."""
    size = (64 if plan.is_quick else 256) * 1024 * 1024
    rates: dict[str, list[float]] = {"up": [], "down": [], "bare up": [], "bare down": []}
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with running_server(Path(folder) / "data", plan.server) as server, bare_server(Path(folder)) as channel:
            ours: FileServiceAsyncStub = FileServiceStub(server.channel)
            bare: FileServiceAsyncStub = FileServiceStub(channel)
            for _ in range(ROUNDS):
                rates["bare up"].append((await _up(bare, size))[0])
                rate, file_id = await _up(ours, size)
                rates["up"].append(rate)
                request = file_pb.DownloadFileRequest(offset=_DOWN_BYTES, length=size)
                rates["bare down"].append(await _down(bare, request, size))
                request = file_pb.DownloadFileRequest(scope=_SCOPE, id=file_id)
                rates["down"].append(await _down(ours, request, size))
                await ours.DeleteFile(file_pb.DeleteFileRequest(scope=_SCOPE, id=file_id))
                told()
    at = f"{size >> 20} MiB"
    return [
        _row(f"UploadFile, {at}, hashed and on the disk", rates["up"], rates["bare up"]),
        _row(f"DownloadFile, {at}", rates["down"], rates["bare down"]),
    ]


def _row(name: str, ours: list[float], bare: list[float]) -> Row:
    rate, floor = statistics.median(ours), statistics.median(bare)
    text = f"{_RATE:g} MB/s, or {_SHARE:.0%} of a bare stream"
    target = Target(f"at least {text}", rate >= _RATE or rate >= _SHARE * floor)
    return Row(PART, name, rate, "MB/s", floor=floor, targets=(target,))


async def _up(stub: FileServiceAsyncStub, size: int) -> tuple[float, str]:
    data = os.urandom(_UP_BYTES)

    async def requests() -> AsyncGenerator[file_pb.UploadFileRequest, None]:
        yield file_pb.UploadFileRequest(
            header=file_pb.UploadFileHeader(scope=_SCOPE, name="large.bin", size_bytes=size)
        )
        for _ in range(size // _UP_BYTES):
            yield file_pb.UploadFileRequest(data=data)

    started = time.perf_counter()
    answer = await stub.UploadFile(requests())
    return size / (time.perf_counter() - started) / _MEGA, answer.file.id


async def _down(stub: FileServiceAsyncStub, request: file_pb.DownloadFileRequest, size: int) -> float:
    started, came = time.perf_counter(), 0
    async for response in stub.DownloadFile(request):
        came += len(response.data)
    if came != size:
        message = f"{came} bytes came of {size}."
        raise ValueError(message)
    return size / (time.perf_counter() - started) / _MEGA
