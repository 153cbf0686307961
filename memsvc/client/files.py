"""Files, up and down."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from io import BufferedWriter
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal
from uuid import uuid4

import grpc

from memsvc.client import to_proto
from memsvc.client.channel import ScopedMethods
from memsvc.client.errors import INTERRUPTED, MemsvcCallError
from memsvc.client.request_types import Visibility
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import types_pb2 as types_pb

PIECE_BYTES = 128 * 1024
ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.1
PART = ".part"

FileCategory = Literal["ARTIFACT", "UPLOAD", "REPORT", "CHART", "CACHE", "TEMP", "MEMORY"]
Content = bytes | Path | Iterable[bytes] | AsyncIterable[bytes]


class FileMethods(ScopedMethods):
    """The calls about files."""

    async def upload_file(  # noqa: PLR0913 - a field each
        self,
        content: Content,
        *,
        name: str = "",
        category: FileCategory | None = None,
        media_type: str = "",
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | None = None,
        expire_time: datetime | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> file_pb.File:
        """Upload a file and return what is known of it.

        *content* is its bytes, the path of a file, whose name it then has unless another is given, or pieces of any
        size as they come. Bytes and files are checked by their hash, and sent again when the connection breaks.
        """
        header = file_pb.UploadFileHeader(
            scope=self.scope,
            name=name or (content.name if isinstance(content, Path) else ""),
            category=category_to_proto(category),
            media_type=media_type,
            metadata=None if metadata is None else to_proto.struct_to_proto(metadata),
            ttl=None if ttl is None else to_proto.duration_to_proto(ttl),
            expire_time=None if expire_time is None else to_proto.timestamp_to_proto("expire_time", expire_time),
            request_id=request_id or str(uuid4()),
        )
        await self._remote.reach()
        if not isinstance(content, bytes | Path):
            return await self._upload_once(header, content, timeout)
        header.size_bytes, header.sha256 = await asyncio.to_thread(_measured, content)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._upload_once(header, content, timeout)
            except MemsvcCallError as error:
                if error.code not in INTERRUPTED or attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(error.retry_seconds or FIRST_PAUSE_SECONDS * 2**attempt)
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    async def download_file(
        self, file_id: str, *, offset: int = 0, length: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a file in order, or *length* of them from *offset* on.

        When the connection breaks, the rest is asked for. A whole file's hash is checked at its end: DATA_LOSS when it
        is another.
        """
        async with aclosing(self._download(file_id, offset, length, timeout)) as parts:
            async for part in parts:
                if isinstance(part, bytes):
                    yield part

    async def read_file(self, file_id: str, *, offset: int = 0, length: int = 0, timeout: float | None = None) -> bytes:
        """Return the bytes of a file, as `download_file` yields them."""
        pieces = self.download_file(file_id, offset=offset, length=length, timeout=timeout)
        return b"".join([piece async for piece in pieces])

    async def save_file(self, file_id: str, path: Path, *, timeout: float | None = None) -> file_pb.File:
        """Write a file to *path*, where it is only when it is whole, and return what is known of it.

        Until then it is next to it under a short name of its own: that of the file may be as long as a name can be.
        """
        part = path.with_name(f".memsvc-{uuid4().hex[:12]}{PART}")
        opening = asyncio.ensure_future(asyncio.to_thread(part.open, "wb"))
        try:
            with await asyncio.shield(opening) as out:
                known = file_pb.File()
                async with aclosing(self._download(file_id, 0, 0, timeout)) as parts:
                    async for piece in parts:
                        if isinstance(piece, bytes):
                            await asyncio.to_thread(out.write, piece)
                        else:
                            known = piece
            await asyncio.to_thread(part.replace, path)
        finally:
            await _discard(part, opening)
        return known

    async def get_file(self, file_id: str, *, timeout: float | None = None) -> file_pb.File:
        """Return what is known of a file."""
        request = file_pb.GetFileRequest(scope=self.scope, id=file_id)
        return (await self._remote.unary(self._remote.files.GetFile, request, timeout)).file

    async def list_files(  # noqa: PLR0913 - a field each
        self,
        query: str = "",
        *,
        categories: Sequence[FileCategory] = (),
        media_type: str = "",
        sha256: str = "",
        project_visibility: Visibility | None = None,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncGenerator[file_pb.File, None]:
        """Yield what is known of the files that match, the newest first, fetching page by page.

        All words of *query* must occur in the name or in the texts of the metadata.
        """
        request = file_pb.ListFilesRequest(
            scope=self.scope,
            query=query,
            categories=[category_to_proto(category) for category in categories],
            media_type=media_type,
            sha256=sha256,
            project_visibility=to_proto.named("project_visibility", project_visibility),
            page_size=page_size,
        )
        async for page in self._remote.pages(self._remote.files.ListFiles, request, timeout):
            for file in page.files:
                yield file

    async def delete_file(self, file_id: str, *, request_id: str = "", timeout: float | None = None) -> file_pb.File:
        """Delete a file for good, and return what was known of it."""
        request = file_pb.DeleteFileRequest(scope=self.scope, id=file_id, request_id=request_id or str(uuid4()))
        return (await self._remote.unary(self._remote.files.DeleteFile, request, timeout)).file

    async def _upload_once(
        self, header: file_pb.UploadFileHeader, content: Content, timeout: float | None
    ) -> file_pb.File:
        sending = _Sending(header, content)
        with self._remote.errors_decoded():
            try:
                return (await self._remote.files.UploadFile(sending.requests(), timeout=timeout)).file
            except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
                # gRPC cancels a call whose messages cannot be made.
                if sending.failure is not None:
                    raise sending.failure from error
                raise

    async def _download(
        self, file_id: str, offset: int, length: int, timeout: float | None
    ) -> AsyncGenerator[file_pb.File | bytes, None]:
        """Yield what is known of the file, then its bytes."""
        request = file_pb.DownloadFileRequest(scope=self.scope, id=file_id, offset=offset, length=length)
        hashed = hashlib.sha256()
        known: file_pb.File | None = None
        failures = 0
        while True:
            await self._remote.reach()
            try:
                with self._remote.errors_decoded():
                    call = self._remote.files.DownloadFile(request, timeout=timeout)
                    try:
                        async for response in call:
                            if response.WhichOneof("part") == "data":
                                data = response.data
                                request.offset, failures = request.offset + len(data), 0
                                request.length -= len(data) if length else 0
                                hashed.update(data)
                                yield data
                            elif known is None:
                                known = response.file
                                yield known
                    finally:
                        call.cancel()
                break
            except MemsvcCallError as error:
                failures += 1
                if error.code not in INTERRUPTED or failures == ATTEMPTS or _is_over(request, length):
                    raise
                await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**failures)
        if not (offset or length) and known is not None and hashed.hexdigest() != known.sha256:
            message = f"The bytes of the file {file_id!r} that came do not have its hash."
            raise MemsvcCallError(grpc.StatusCode.DATA_LOSS, message)


def category_to_proto(category: str | None) -> Any:
    """Return the enum value of a category; None is UNSPECIFIED.

    Raises:
        ValueError: There is no such category.
    """
    if category is None:
        return 0
    return to_proto.enum_to_proto("category", types_pb.FileCategory, "FILE_CATEGORY_", category)


class _Sending:
    """The requests of an upload, and why they ended early: gRPC would not say."""

    def __init__(self, header: file_pb.UploadFileHeader, content: Content) -> None:
        self._header = header
        self._content = content
        self.failure: Exception | None = None

    async def requests(self) -> AsyncGenerator[file_pb.UploadFileRequest, None]:
        yield file_pb.UploadFileRequest(header=self._header)
        try:
            async for piece in _pieces(self._content):
                yield file_pb.UploadFileRequest(data=piece)
        except Exception as error:
            self.failure = error
            raise


async def _discard(part: Path, opening: asyncio.Future[BufferedWriter]) -> None:
    """Close and remove a file, once the thread that makes it has ended: a cancellation does not end that."""
    await asyncio.wait({opening})
    if opening.exception() is None:
        opening.result().close()
    await asyncio.to_thread(part.unlink, missing_ok=True)


async def _pieces(content: Content) -> AsyncIterator[bytes]:
    if isinstance(content, Path):
        with await asyncio.to_thread(content.open, "rb") as source:
            while piece := await asyncio.to_thread(source.read, PIECE_BYTES):
                yield piece
        return
    async for part in _parts(content):
        for start in range(0, len(part), PIECE_BYTES):
            yield part[start : start + PIECE_BYTES]


async def _parts(content: bytes | Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(content, bytes):
        yield content
    elif isinstance(content, AsyncIterable):
        async for part in content:
            yield part
    else:
        source = iter(content)
        while some := await asyncio.to_thread(_next, source):
            yield some[0]


def _next(source: Iterator[bytes]) -> list[bytes]:
    """Return the next part in a list, or an empty list at the end: StopIteration cannot cross a future."""
    return list(islice(source, 1))


def _measured(content: bytes | Path) -> tuple[int, str]:
    if isinstance(content, bytes):
        return len(content), hashlib.sha256(content).hexdigest()
    with content.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
        return _size(source), digest


def _size(source: IO[bytes]) -> int:
    return source.seek(0, 2)


def _is_over(request: file_pb.DownloadFileRequest, length: int) -> bool:
    """Return whether all that was wanted has come: a length of 0 would ask for more."""
    return bool(length) and request.length <= 0
