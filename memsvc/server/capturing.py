"""The methods of MemoryService that turn what was said or written into memories."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import Role
from memsvc.domain.write_requests import WaitFor, WriteOptions
from memsvc.engine.memories.documents import IngestResult
from memsvc.engine.services import Services
from memsvc.server import call_context
from memsvc.server.convert import captures as convert
from memsvc.server.convert.drafts import write_options
from memsvc.server.convert.enums import ROLE
from memsvc.server.convert.scope import scope_from
from memsvc.server.executors import NamedExecutor
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import captures as validate
from memsvc.v1 import capture_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class CapturingMethods:
    """Captures, flushes, appends and ingests."""

    _edge: ServerContext
    _app: Services
    _write: NamedExecutor

    async def CaptureMemory(self, request: pb.CaptureMemoryRequest, context: Context) -> pb.CaptureMemoryResponse:
        """Decide what in a text is worth remembering, and store it."""
        validate.check_capture(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        captured = await self._listener(asks_a_model=self._app.capture.asks_a_model).run(
            self._app.capture.capture,
            scope_from(request.scope, call_context.principal.get()),
            request.text,
            ROLE.given(request.role, Role.USER),
            is_dry_run=request.dry_run,
            options=options,
            deadline=call_context.deadline.get(),
        )
        await self._indexed(captured.position, options.wait_for)
        return convert.captured_to_proto(captured)

    async def FlushMessages(self, request: pb.FlushMessagesRequest, context: Context) -> pb.FlushMessagesResponse:
        """Extract memories and file references from a conversation, and store them."""
        validate.check_flush(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        position, response = await self._listener(asks_a_model=self._app.flush.asks_a_model).run(
            _flushed, self._app, scope_from(request.scope, call_context.principal.get()), request, options
        )
        await self._indexed(position, options.wait_for)
        return response

    async def AppendMemory(self, request: pb.AppendMemoryRequest, context: Context) -> pb.AppendMemoryResponse:
        """Add text to the end of the memory under a key, or create it."""
        validate.check_append(request)
        options = write_options(request.request_id, wait_for=request.wait_for)
        written = await self._write.run(
            self._app.append.append,
            scope_from(request.scope, call_context.principal.get()),
            request.key,
            request.content,
            separator=request.separator if request.HasField("separator") else None,
            options=options,
        )
        await self._edge.waits.written(written, options.wait_for)
        return convert.appended_to_proto(written)

    async def IngestDocument(
        self, request_iterator: AsyncIterator[pb.IngestDocumentRequest], context: Context
    ) -> pb.IngestDocumentResponse:
        """Store a document that comes piece by piece."""
        header, data = await _document(request_iterator)
        options = write_options(header.request_id, on_duplicate=header.on_duplicate, wait_for=header.wait_for)
        ingested: IngestResult = await self._write.run(
            self._app.ingest.ingest,
            scope_from(header.scope, call_context.principal.get()),
            convert.header_from_proto(header),
            data,
            options,
        )
        await self._edge.waits.written(ingested.written, options.wait_for)
        return convert.ingested_to_proto(ingested)

    def _listener(self, *, asks_a_model: bool) -> NamedExecutor:
        """Return where to decide what to remember: calls that wait for a language model must not hold up writes."""
        return self._edge.executors.language if asks_a_model else self._write

    async def _indexed(self, position: int, wait_for: WaitFor) -> None:
        if position and wait_for is WaitFor.INDEXED:
            await self._edge.waits.stored(position)


def _flushed(
    application: Services, scope: Scope, request: pb.FlushMessagesRequest, options: WriteOptions
) -> tuple[int, pb.FlushMessagesResponse]:
    """Flush, and convert in the same thread: there may be a thousand messages and as many memories."""
    flushed = application.flush.flush(
        scope,
        convert.messages_from_proto(request.messages),
        convert.artifacts_from_proto(request.artifact_ids),
        options=options,
        deadline=call_context.deadline.get(),
    )
    return flushed.position, convert.flushed_to_proto(flushed)


async def _document(requests: AsyncIterator[pb.IngestDocumentRequest]) -> tuple[pb.DocumentHeader, bytes]:
    """Return the header and all bytes of a document; no more of them are kept than may come.

    Raises:
        InvalidRequestError: The header is wrong or not the first message, or there are too many bytes.
    """
    header: pb.DocumentHeader | None = None
    data = bytearray()
    async for request in requests:
        part = request.WhichOneof("part")
        if header is None:
            if part != "header":
                raise InvalidRequestError([Violation("header", "must be the first message")])
            validate.check_header(request.header)
            header = request.header
        elif part != "data":
            raise InvalidRequestError([Violation("data", "must be set in every message after the header")])
        else:
            data += request.data
            if len(data) > limits.DOCUMENT_BYTES:
                description = f"must have at most {limits.DOCUMENT_BYTES} bytes in all; split the document"
                raise InvalidRequestError([Violation("data", description)])
    if header is None:
        raise InvalidRequestError([Violation("header", "must be the first message")])
    return header, bytes(data)
