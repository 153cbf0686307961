"""Files on their way: bytes between streams and threads, never more than a few pieces of them in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import TypeVar

from memsvc.domain.errors import InvalidRequestError, LimitExceededError, Violation
from memsvc.domain.files import File
from memsvc.engine.files.service import OpenFile
from memsvc.engine.files.upload import Upload
from memsvc.server.executors import NamedExecutor
from memsvc.v1 import file_service_pb2 as pb

T = TypeVar("T")

WRITE_BYTES = 1024 * 1024
"""So many bytes are handed to a thread at a time: so that what that costs does not show."""
READ_BYTES = 256 * 1024
"""As large are the messages of a download. Measured: see tests/bench/README.md."""


class Streams:
    """How many uploads and downloads are under way."""

    def __init__(self, most: int) -> None:
        """Let at most so many be."""
        self._most = most
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Be one of them.

        Raises:
            LimitExceededError: There are too many.
        """
        if self._count >= self._most:
            raise LimitExceededError(f"{self._most} uploads and downloads at a time (setting files.max_streams)")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


@asynccontextmanager
async def enter_in_thread(executor: NamedExecutor, manager: AbstractContextManager[T]) -> AsyncGenerator[T, None]:
    """Enter and leave a blocking context in threads; left it is whatever happens, once it was entered."""
    entering = asyncio.ensure_future(executor.proceed(manager.__enter__))
    try:
        yield await asyncio.shield(entering)
    finally:
        await asyncio.wait({entering})
        if entering.exception() is None:
            # Not by the executor, which begins nothing when the time of the call is over.
            await asyncio.to_thread(manager.__exit__, None, None, None)


async def header_of(requests: AsyncIterator[pb.UploadFileRequest]) -> pb.UploadFileHeader:
    """Return the first message's header.

    Raises:
        InvalidRequestError: There is none.
    """
    async for request in requests:
        if request.WhichOneof("part") == "header":
            return request.header
        break
    raise InvalidRequestError([Violation("header", "must be the first message")])


async def receive(executor: NamedExecutor, upload: Upload, requests: AsyncIterator[pb.UploadFileRequest]) -> File:
    """Write the bytes that come, the next ones being received meanwhile, and return the file that they became.

    Raises:
        InvalidRequestError: A message holds no bytes, or they are not what was announced.
    """
    parts: list[bytes] = []
    size = 0
    writing: asyncio.Future[None] | None = None
    try:
        async for request in requests:
            if request.WhichOneof("part") != "data":
                raise InvalidRequestError([Violation("data", "must be set in every message after the header")])
            parts.append(request.data)
            size += len(parts[-1])
            if size >= WRITE_BYTES:
                if writing is not None:
                    await asyncio.shield(writing)
                writing = asyncio.ensure_future(executor.proceed(upload.write, parts))
                parts, size = [], 0
        if writing is not None:
            await asyncio.shield(writing)
        writing = asyncio.ensure_future(executor.proceed(upload.write, parts))
        await asyncio.shield(writing)
        finishing = asyncio.ensure_future(executor.proceed(upload.finish))
        writing = None
        try:
            return await asyncio.shield(finishing)
        finally:
            await _ended(finishing)
    finally:
        await _ended(writing)


async def send(executor: NamedExecutor, opened: OpenFile) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file piece by piece, the next one being read meanwhile."""
    reading = asyncio.ensure_future(executor.proceed(opened.read, READ_BYTES))
    try:
        while data := await asyncio.shield(reading):
            reading = asyncio.ensure_future(executor.proceed(opened.read, READ_BYTES))
            yield data
    finally:
        await _ended(reading)


async def _ended(work: asyncio.Future[T] | None) -> None:
    """Wait until a thread is done with what is to be closed, whatever came of it."""
    if work is not None:
        await asyncio.wait({work})
        if not work.cancelled():
            # Asked for, so that asyncio does not complain that nobody did.
            work.exception()
