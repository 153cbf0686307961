"""What was said and what became of it: the messages of capture, flush, append and ingest."""

from __future__ import annotations

from collections.abc import Iterable

from memsvc.domain.capture import Captured, ChatMessage, Decider, Decision, Flushed, Reason
from memsvc.domain.memory import FileRef
from memsvc.domain.sessions import Role
from memsvc.domain.write_requests import Written
from memsvc.engine.memories.documents import DocumentHeader, IngestResult
from memsvc.server.convert.conflicts import fill_conflicts
from memsvc.server.convert.enums import KIND, LAYER, OUTCOME, ROLE, EnumTable
from memsvc.server.convert.json import struct_from_proto
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.redactions import redactions_to_proto
from memsvc.server.convert.times import time_from_proto
from memsvc.server.convert.tokens import consistency_token
from memsvc.v1 import capture_pb2 as pb
from memsvc.v1 import types_pb2 as types

REASON = EnumTable(Reason, pb.CaptureReason, "CAPTURE_REASON")
DECIDER = EnumTable(Decider, pb.Decider, "DECIDER")
FILE_REF = "file_ref"
"""The response format of a tool call whose answer is a file."""
ARTIFACT = "artifact"


def messages_from_proto(messages: Iterable[pb.ChatMessage]) -> list[ChatMessage]:
    """Return the messages of a conversation."""
    return [
        ChatMessage(
            role=ROLE.given(message.role, Role.USER),
            content=message.content,
            speaker=message.speaker,
            event_time=time_from_proto(message.event_time) if message.HasField("event_time") else None,
            files=tuple(
                FileRef(call.category, call.file_id) for call in message.tool_calls if call.response_format == FILE_REF
            ),
        )
        for message in messages
    ]


def artifacts_from_proto(ids: Iterable[str]) -> list[FileRef]:
    """Return references to artifacts, each once, in order."""
    return [FileRef(ARTIFACT, artifact_id) for artifact_id in dict.fromkeys(ids)]


def header_from_proto(header: pb.DocumentHeader) -> DocumentHeader:
    """Return what is said of a document."""
    return DocumentHeader(
        name=header.name,
        key=header.key,
        kind=KIND.optional(header.kind),
        title=header.title,
        layer=LAYER.optional(header.layer),
        category=header.category,
        tags=tuple(dict.fromkeys(header.tags)),
        metadata=struct_from_proto(header.metadata) or None,
        size_bytes=header.size_bytes,
        sha256=header.sha256,
    )


def captured_to_proto(captured: Captured) -> pb.CaptureMemoryResponse:
    """Return the answer to a capture."""
    response = pb.CaptureMemoryResponse(
        redactions=redactions_to_proto(captured.redactions),
        decider=DECIDER.to_proto[captured.decider],
        notice=captured.notice,
        consistency_token=consistency_token(captured.position) if captured.position else "",
    )
    for decision in captured.decisions:
        _fill_decision(response.decisions.add(), decision)
    return response


def _fill_decision(message: pb.CaptureDecision, decision: Decision) -> None:
    message.remember = decision.remember
    message.reason = REASON.to_proto[decision.reason]
    message.detail = decision.detail
    message.text = decision.text
    if decision.memory is not None:
        fill_memory(message.memory, decision.memory)
    if decision.outcome is not None:
        message.outcome = OUTCOME.to_proto[decision.outcome]
    fill_conflicts(message.conflicts, decision.conflicts)


def flushed_to_proto(flushed: Flushed) -> pb.FlushMessagesResponse:
    """Return the answer to a flush."""
    response = pb.FlushMessagesResponse(
        file_refs=[types.FileRef(category=ref.category, id=ref.id) for ref in flushed.file_refs],
        outcomes=[OUTCOME.to_proto[outcome] for outcome in flushed.outcomes],
        redactions=redactions_to_proto(flushed.redactions),
        ignored_count=flushed.ignored,
        recalled_count=flushed.recalled,
        decider=DECIDER.to_proto[flushed.decider],
        notice=flushed.notice,
        consistency_token=consistency_token(flushed.position),
    )
    for memory in flushed.memories:
        fill_memory(response.memories.add(), memory)
    fill_conflicts(response.conflicts, flushed.conflicts)
    return response


def appended_to_proto(written: Written) -> pb.AppendMemoryResponse:
    """Return the answer to an append."""
    response = pb.AppendMemoryResponse(
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def ingested_to_proto(ingested: IngestResult) -> pb.IngestDocumentResponse:
    """Return the answer to a document."""
    written = ingested.written
    response = pb.IngestDocumentResponse(
        chunk_count=ingested.chunk_count,
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    return response
