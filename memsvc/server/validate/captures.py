"""Rules for the requests that turn what was said or written into memories."""

from __future__ import annotations

import re

from memsvc.domain import limits
from memsvc.domain.files import FILE_CATEGORIES
from memsvc.server.convert.captures import FILE_REF
from memsvc.server.convert.enums import ON_DUPLICATE, ROLE, WAIT_FOR
from memsvc.server.validate.memories import check_fields, check_key
from memsvc.server.validate.metadata import check_metadata
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import check_count, check_enum, check_name, check_text, check_time
from memsvc.server.validate.violations import Violations
from memsvc.v1 import capture_pb2 as pb
from memsvc.v1 import types_pb2 as types

SHA256 = re.compile(r"[0-9a-fA-F]{64}")
DOCUMENT_KINDS = frozenset({types.MEMORY_KIND_UNSPECIFIED, types.MEMORY_KIND_DOCUMENT, types.MEMORY_KIND_SKILL})
DOCUMENT_FIELDS = frozenset({"key", "layer", "category", "title", "tags", "metadata"})


def check_capture(request: pb.CaptureMemoryRequest) -> None:
    """Check a request to capture a text."""
    found = Violations()
    check_scope(found, request.scope)
    check_text(found, "text", request.text, most=limits.SPOKEN, least=1)
    check_enum(found, "role", request.role, ROLE.from_proto)
    _check_options(found, request)
    found.finish()


def check_flush(request: pb.FlushMessagesRequest) -> None:
    """Check a request to flush a conversation."""
    found = Violations()
    check_scope(found, request.scope)
    check_count(found, "messages", request.messages, least=1, most=limits.BATCH)
    for index, message in enumerate(request.messages[: limits.BATCH]):
        _check_message(found, f"messages[{index}]", message)
    if sum(len(message.content) for message in request.messages) > limits.CONTENT:
        found.add("messages", f"must have at most {limits.CONTENT} characters together; flush fewer at a time")
    check_count(found, "artifact_ids", request.artifact_ids, most=limits.FILE_REFS)
    for index, artifact_id in enumerate(request.artifact_ids[: limits.FILE_REFS]):
        check_name(found, f"artifact_ids[{index}]", artifact_id, most=limits.FILE_REF_ID, least=1)
    _check_options(found, request)
    found.finish()


def check_append(request: pb.AppendMemoryRequest) -> None:
    """Check a request to append to a memory."""
    found = Violations()
    check_scope(found, request.scope)
    check_key(found, "key", request.key, least=1)
    check_text(found, "content", request.content, most=limits.CONTENT, least=1)
    check_text(found, "separator", request.separator, most=limits.SEPARATOR)
    _check_options(found, request)
    found.finish()


def check_header(header: pb.DocumentHeader) -> None:
    """Check the first message of a document."""
    found = Violations()
    check_scope(found, header.scope, field="header.scope")
    check_name(found, "header.name", header.name, most=limits.SOURCE)
    if header.kind not in DOCUMENT_KINDS:
        found.add("header.kind", "must be DOCUMENT or SKILL, or left out")
    check_fields(found, _memory_of(header), DOCUMENT_FIELDS, path="header")
    if header.layer == types.MEMORY_LAYER_SESSION and not header.scope.session_id:
        found.add("header.layer", "can be SESSION only with a session_id in the scope")
    if not 0 <= header.size_bytes <= limits.DOCUMENT_BYTES:
        found.add("header.size_bytes", f"must be 0 to {limits.DOCUMENT_BYTES}")
    if header.sha256 and not SHA256.fullmatch(header.sha256):
        found.add("header.sha256", "must be 64 hexadecimal digits")
    check_request_id(found, header.request_id, field="header.request_id")
    check_enum(found, "header.on_duplicate", header.on_duplicate, ON_DUPLICATE.from_proto)
    check_enum(found, "header.wait_for", header.wait_for, WAIT_FOR.from_proto)
    found.finish()


def _memory_of(header: pb.DocumentHeader) -> types.Memory:
    """Return the fields of a header that are those of a memory, so that the same rules hold."""
    return types.Memory(
        key=header.key,
        layer=header.layer,
        category=header.category,
        title=header.title,
        tags=header.tags,
        metadata=header.metadata if header.HasField("metadata") else None,
    )


def _check_message(found: Violations, field: str, message: pb.ChatMessage) -> None:
    check_enum(found, f"{field}.role", message.role, ROLE.from_proto)
    check_text(found, f"{field}.content", message.content, most=limits.SPOKEN)
    check_text(found, f"{field}.speaker", message.speaker, most=limits.SPEAKER)
    if message.HasField("event_time"):
        check_time(found, f"{field}.event_time", message.event_time)
    check_count(found, f"{field}.tool_calls", message.tool_calls, most=limits.TOOL_CALLS)
    for index, call in enumerate(message.tool_calls[: limits.TOOL_CALLS]):
        _check_call(found, f"{field}.tool_calls[{index}]", call)


def _check_call(found: Violations, field: str, call: pb.ChatToolCall) -> None:
    check_text(found, f"{field}.id", call.id, most=limits.FILE_REF_ID)
    check_text(found, f"{field}.name", call.name, most=limits.FILE_REF_ID)
    check_text(found, f"{field}.response_format", call.response_format, most=limits.CATEGORY)
    if call.HasField("arguments"):
        check_metadata(found, f"{field}.arguments", call.arguments)
    if call.response_format == FILE_REF:
        check_name(found, f"{field}.file_id", call.file_id, most=limits.FILE_REF_ID, least=1)
        if call.category not in FILE_CATEGORIES:
            found.add(f"{field}.category", f"must be one of {', '.join(sorted(FILE_CATEGORIES))}")


def _check_options(
    found: Violations, request: pb.CaptureMemoryRequest | pb.FlushMessagesRequest | pb.AppendMemoryRequest
) -> None:
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
