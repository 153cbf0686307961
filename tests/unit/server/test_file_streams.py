"""Uploads and downloads that are broken off while a thread uses their file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from memsvc.domain.files import FileCategory
from memsvc.domain.scope import Scope
from memsvc.engine.files.upload import NewFile
from memsvc.server.executors import NamedExecutor
from memsvc.server.services.file import WRITE_BYTES, _entered_in_thread, _receive
from memsvc.v1 import file_service_pb2 as file_pb
from tests.support.server_thread import ServerThread

T = TypeVar("T")
STEPS = 50
"""Steps of the event loop after which nothing goes on without a thread."""


class CallingThread(ThreadPoolExecutor):
    """An executor that runs its calls at once in the calling thread, so that they take no step of the event loop."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a call that does not raise."""
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


async def settle() -> None:
    """Let every task do what it can."""
    for _ in range(STEPS):
        await asyncio.sleep(0)


def test_an_upload_that_is_broken_off_writes_to_no_other_file(serving: ServerThread, tmp_path: Path) -> None:
    """A message was wrong while bytes waited for a thread, and the client left: a file may have the same descriptor."""
    uploader = serving.application.files.uploader
    new = NewFile("a.bin", FileCategory.UPLOAD, "application/octet-stream")

    async def run() -> int:
        asyncio.get_running_loop().set_default_executor(CallingThread())
        executor, free = NamedExecutor("files", threads=1, queue_factor=4), threading.Event()
        occupying: list[asyncio.Future[bool]] = []

        async def messages() -> AsyncGenerator[file_pb.UploadFileRequest, None]:
            occupying.append(asyncio.ensure_future(executor.proceed(free.wait)))
            await settle()
            yield file_pb.UploadFileRequest(data=b"x" * WRITE_BYTES)
            yield file_pb.UploadFileRequest()

        async def upload() -> None:
            async with _entered_in_thread(executor, uploader.begin(Scope("ada"), new, "")) as begun:
                await _receive(executor, begun, messages())

        call = asyncio.create_task(upload())
        while executor.admitted < 2 or not occupying:  # noqa: ASYNC110 - in a thread
            await asyncio.sleep(0)
        await settle()
        call.cancel()
        await settle()
        with (tmp_path / "another").open("w+b") as another:
            free.set()
            await asyncio.gather(call, *occupying, return_exceptions=True)
            await executor.run(int)
            size = another.seek(0, 2)
        executor.close()
        return size

    assert asyncio.run(run()) == 0
