"""What was said or written, made memories."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack
from uuid import uuid4

import grpc

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.client.request_types import DocumentFields, Message, OnDuplicate, Role, WaitFor
from memsvc.v1 import capture_pb2 as messages

PIECE_BYTES = 256 * 1024


class Captures(Connected):
    """The calls that turn what was said or written into memories."""

    async def capture(
        self,
        text: str,
        *,
        role: Role | None = None,
        dry_run: bool = False,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> messages.CaptureMemoryResponse:
        """Remember what is worth it in something that was said; say of each statement what became of it.

        With *dry_run* nothing is stored.
        """
        request = messages.CaptureMemoryRequest(
            scope=self.scope,
            text=text,
            role=to_proto.named("role", role),
            dry_run=dry_run,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.CaptureMemory, request, timeout)

    async def flush(
        self,
        conversation: Iterable[Message | messages.ChatMessage],
        *,
        artifact_ids: Sequence[str] = (),
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> messages.FlushMessagesResponse:
        """Extract memories and file references from a conversation, oldest message first, in one transaction."""
        request = messages.FlushMessagesRequest(
            scope=self.scope,
            messages=[to_proto.message_to_proto(message) for message in conversation],
            artifact_ids=artifact_ids,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.FlushMessages, request, timeout)

    async def append(
        self,
        key: str,
        content: str,
        *,
        separator: str | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> messages.AppendMemoryResponse:
        """Add text to the end of the memory under *key*, or create it: "daily/2026-02-06", "context/USER", any other.

        Without a *separator* the text begins on a line of its own.
        """
        request = messages.AppendMemoryRequest(
            scope=self.scope,
            key=key,
            content=content,
            separator=separator,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.memories.AppendMemory, request, timeout)

    async def ingest(
        self,
        document: str | bytes,
        *,
        on_duplicate: OnDuplicate | None = None,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
        **fields: Unpack[DocumentFields],
    ) -> messages.IngestDocumentResponse:
        """Store a document or a skill, Markdown or plain text, as one memory that is searched in chunks.

        It is sent in pieces and its hash is checked. Under an existing *key* it takes the place of what is there.
        """
        data = document.encode() if isinstance(document, str) else document
        header = to_proto.header_to_proto(
            fields,
            scope=self.scope,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            request_id=request_id or str(uuid4()),
            on_duplicate=to_proto.named("on_duplicate", on_duplicate),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        call = self._remote.memories.IngestDocument(
            _pieces(header, data), timeout=self._remote.timeout_seconds if timeout is None else timeout
        )
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error


def _pieces(header: messages.DocumentHeader, data: bytes) -> Iterator[messages.IngestDocumentRequest]:
    yield messages.IngestDocumentRequest(header=header)
    for start in range(0, len(data), PIECE_BYTES):
        yield messages.IngestDocumentRequest(data=data[start : start + PIECE_BYTES])
