"""FileService: each method checks and converts, calls the engine, and converts back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope, Visibility
from memsvc.domain.search import PageCursor
from memsvc.engine.files.service import FileReader, FileRefResolver
from memsvc.server import call_context
from memsvc.server.convert import files as convert
from memsvc.server.convert import tokens
from memsvc.server.convert.drafts import file_refs_from_proto
from memsvc.server.convert.enums import VISIBILITY
from memsvc.server.convert.file_refs import fill_resolved
from memsvc.server.convert.scope import scope_from
from memsvc.server.server_context import ServerContext
from memsvc.server.streams.files import Streams, enter_in_thread, header_of, receive, send
from memsvc.server.validate import files as validate
from memsvc.server.validate.file_refs import check_resolve
from memsvc.v1 import file_service_pb2 as pb
from memsvc.v1 import file_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

UNBOUND = ("page_size", "page_token")
"""The fields that may differ between the pages of one list."""


class FileServicer(pb_grpc.FileServiceServicer):
    """Keeps files."""

    def __init__(self, edge: ServerContext) -> None:
        self._edge = edge
        self._files = edge.application.files
        self._threads = edge.executors.files
        self._streams = Streams(edge.options.file_streams)

    async def UploadFile(
        self, request_iterator: AsyncIterator[pb.UploadFileRequest], context: Context
    ) -> pb.UploadFileResponse:
        """Take a file in."""
        uploads = self._files.uploads
        with self._streams.one():
            header = await header_of(request_iterator)
            validate.check_header(header, uploads.rules, self._edge.now())
            scope = scope_from(header.scope, call_context.principal.get())
            new = convert.new_file_from_proto(header)
            file = await self._threads.proceed(uploads.known, scope, new, header.request_id)
            if file is None:
                beginning = uploads.begin(scope, new, header.request_id)
                async with enter_in_thread(self._threads, beginning) as upload:
                    file = await receive(self._threads, upload, request_iterator)
        return pb.UploadFileResponse(file=convert.file_to_proto(file))

    async def DownloadFile(
        self, request: pb.DownloadFileRequest, context: Context
    ) -> AsyncGenerator[pb.DownloadFileResponse, None]:
        """Give a file out."""
        validate.check_download(request)
        scope = scope_from(request.scope, call_context.principal.get())
        opening = self._files.reading.opened(scope, request.id.lower(), offset=request.offset, length=request.length)
        with self._streams.one():
            async with enter_in_thread(self._threads, opening) as opened:
                yield pb.DownloadFileResponse(file=convert.file_to_proto(opened.file))
                async with aclosing(send(self._threads, opened)) as pieces:
                    async for piece in pieces:
                        yield pb.DownloadFileResponse(data=piece)

    async def GetFile(self, request: pb.GetFileRequest, context: Context) -> pb.GetFileResponse:
        """Return what is known of one file."""
        validate.check_get(request)
        scope = scope_from(request.scope, call_context.principal.get())
        file = await self._edge.executors.meta.run(self._files.reading.get, scope, request.id.lower())
        return pb.GetFileResponse(file=convert.file_to_proto(file))

    async def ListFiles(self, request: pb.ListFilesRequest, context: Context) -> pb.ListFilesResponse:
        """Return a page of files."""
        validate.check_list(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._edge.executors.meta.run(_list_files, self._files.reading, scope, request)

    async def DeleteFile(self, request: pb.DeleteFileRequest, context: Context) -> pb.DeleteFileResponse:
        """Delete a file."""
        validate.check_delete(request)
        scope = scope_from(request.scope, call_context.principal.get())
        deleting = self._files.deleting
        file = await self._edge.executors.write.run(deleting.delete, scope, request.id.lower(), request.request_id)
        return pb.DeleteFileResponse(file=convert.file_to_proto(file))

    async def ResolveFileRefs(self, request: pb.ResolveFileRefsRequest, context: Context) -> pb.ResolveFileRefsResponse:
        """Return what references lead to."""
        check_resolve(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._edge.executors.meta.run(_resolve, self._files.resolving, scope, request)


def _resolve(
    resolving: FileRefResolver, scope: Scope, request: pb.ResolveFileRefsRequest
) -> pb.ResolveFileRefsResponse:
    refs = file_refs_from_proto(request.refs)
    resolved = resolving.resolve(scope, refs)
    response = pb.ResolveFileRefsResponse()
    for ref in request.refs:
        fill_resolved(response.resolved.add(), resolved[FileRef(ref.category, ref.id)])
    return response


def _list_files(reading: FileReader, scope: Scope, request: pb.ListFilesRequest) -> pb.ListFilesResponse:
    digest = tokens.digest(request, without=UNBOUND)
    after = tokens.list_cursor(request.page_token, digest)
    found, following = reading.page(
        scope,
        convert.filter_from_proto(request),
        visibility=VISIBILITY.given(request.visibility, Visibility.PROJECT_AND_GLOBAL),
        before=None if after is None else after.row,
        limit=request.page_size or limits.PAGE_SIZE_DEFAULT,
    )
    token = "" if following is None else tokens.list_token(PageCursor(None, following), digest)
    return pb.ListFilesResponse(files=[convert.file_to_proto(file) for file in found], next_page_token=token)
