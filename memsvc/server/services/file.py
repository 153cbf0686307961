"""Servicer of FileService: bytes pass between streams and threads, never more than a few pieces of them in memory."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import grpc

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.files import File
from memsvc.domain.search import PageCursor
from memsvc.engine.files.service import OpenFile
from memsvc.engine.files.upload import FileUpload
from memsvc.server import tokens
from memsvc.server.executors import NamedExecutor, finished, runs_in
from memsvc.server.requests import file as requests
from memsvc.server.requests.memory_fields import file_ref_from_proto
from memsvc.server.responses.file import file_to_proto, fill_resolved
from memsvc.server.server_context import ServerContext
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import file_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
T = TypeVar("T")

WRITE_BYTES = 1024 * 1024
"""The bytes that are handed to a thread at a time: enough to make the cost of that negligible."""
READ_BYTES = 256 * 1024
"""The size of a message of a download. Measured: see tests/bench/README.md."""


class FileServicer(pb_grpc.FileServiceServicer):
    """Stores files."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._files = server.application.files
        self._threads = server.executors.files
        self._meta = server.executors.meta
        self._streams = server.slots.files

    async def UploadFile(
        self, request_iterator: AsyncIterator[file_pb.UploadFileRequest], context: Context
    ) -> file_pb.UploadFileResponse:
        """Store a file that arrives in pieces."""
        uploads = self._files.uploader
        # Before the slot, which a client that sends nothing must not hold.
        header = await _receive_header(request_iterator)
        new = requests.upload_file_header(header, uploads.rules, now=self._server.now())
        with self._streams.acquired(new.scope.owner):
            file = await self._threads.proceed(uploads.find_answer, new.scope, new.file, new.request_id)
            if file is None:
                beginning = uploads.begin(new.scope, new.file, new.request_id)
                async with _entered_in_thread(self._threads, beginning) as upload:
                    file = await _receive(self._threads, upload, request_iterator)
        return file_pb.UploadFileResponse(file=file_to_proto(file))

    async def DownloadFile(
        self, request: file_pb.DownloadFileRequest, context: Context
    ) -> AsyncGenerator[file_pb.DownloadFileResponse, None]:
        """Stream a file, or a part of it."""
        read = requests.download_file_request(request)
        opening = self._files.reader.open(read.scope, read.file_id, offset=read.offset, length=read.length)
        with self._streams.acquired(read.scope.owner):
            async with _entered_in_thread(self._threads, opening) as opened:
                yield file_pb.DownloadFileResponse(file=file_to_proto(opened.file))
                async with aclosing(_pieces(self._threads, opened)) as pieces:
                    async for piece in pieces:
                        yield file_pb.DownloadFileResponse(data=piece)

    @runs_in("meta")
    def GetFile(self, request: file_pb.GetFileRequest, context: Context) -> file_pb.GetFileResponse:
        """Return the description of one file."""
        read = requests.get_file_request(request)
        file = self._files.reader.get(read.scope, read.file_id)
        return file_pb.GetFileResponse(file=file_to_proto(file))

    @runs_in("meta")
    def ListFiles(self, request: file_pb.ListFilesRequest, context: Context) -> file_pb.ListFilesResponse:
        """Return a page of files."""
        page = requests.list_files_request(request)

        found, following = self._files.reader.page(
            page.scope, page.filter, visibility=page.visibility, before=page.before, limit=page.limit
        )
        token = ""
        if following is not None:
            token = tokens.list_token(PageCursor(None, following), tokens.digest(request))
        return file_pb.ListFilesResponse(files=[file_to_proto(file) for file in found], next_page_token=token)

    @runs_in("write")
    def DeleteFile(self, request: file_pb.DeleteFileRequest, context: Context) -> file_pb.DeleteFileResponse:
        """Delete a file."""
        scope, file_id, request_id = requests.delete_file_request(request)
        file = self._files.deleter.delete(scope, file_id, request_id)
        return file_pb.DeleteFileResponse(file=file_to_proto(file))

    @runs_in("meta")
    def ResolveFileRefs(
        self, request: file_pb.ResolveFileRefsRequest, context: Context
    ) -> file_pb.ResolveFileRefsResponse:
        """Return the files that references lead to."""
        scope, refs = requests.resolve_file_refs_request(request)

        resolved = self._files.ref_resolver.resolve(scope, refs)
        response = file_pb.ResolveFileRefsResponse()
        for ref in request.refs:
            fill_resolved(response.resolved.add(), resolved[file_ref_from_proto(ref)])
        return response


@asynccontextmanager
async def _entered_in_thread(executor: NamedExecutor, manager: AbstractContextManager[T]) -> AsyncGenerator[T, None]:
    """Enter and exit a blocking context manager in threads; once entered, it is always exited."""
    entering = asyncio.ensure_future(executor.proceed(manager.__enter__))
    try:
        yield await asyncio.shield(entering)
    finally:
        exiting = asyncio.ensure_future(_exit_in_thread(entering, manager))
        await finished(exiting)
        exiting.result()


async def _exit_in_thread(entering: asyncio.Future[T], manager: AbstractContextManager[T]) -> None:
    await asyncio.wait({entering})
    if not entering.cancelled() and entering.exception() is None:
        # Not by the executor, which runs nothing after the deadline of the call.
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def _receive_header(messages: AsyncIterator[file_pb.UploadFileRequest]) -> file_pb.UploadFileHeader:
    """Return the header of the first message.

    Raises:
        InvalidRequestError: There is none.
    """
    async for message in messages:
        if message.WhichOneof("part") == "header":
            return message.header
        break
    raise InvalidRequestError([Violation("header", "must be the first message")])


async def _receive(
    executor: NamedExecutor, upload: FileUpload, messages: AsyncIterator[file_pb.UploadFileRequest]
) -> File:
    """Write bytes in a thread while the next ones are received, and return the stored file.

    Raises:
        InvalidRequestError: A message holds no bytes, or they are not what was announced.
    """
    parts: list[bytes] = []
    size = 0
    writing: asyncio.Future[None] | None = None
    try:
        async for message in messages:
            if message.WhichOneof("part") != "data":
                raise InvalidRequestError([Violation("data", "must be set in every message after the header")])
            parts.append(message.data)
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


async def _pieces(executor: NamedExecutor, opened: OpenFile) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file, reading each piece while the one before is sent."""
    reading = asyncio.ensure_future(executor.proceed(opened.read, READ_BYTES))
    try:
        while data := await asyncio.shield(reading):
            reading = asyncio.ensure_future(executor.proceed(opened.read, READ_BYTES))
            yield data
    finally:
        await _ended(reading)


async def _ended(work: asyncio.Future[T] | None) -> None:
    """Wait until a thread no longer uses the file that is about to be closed."""
    if work is not None:
        await finished(work)
