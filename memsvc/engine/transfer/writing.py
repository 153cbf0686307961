"""From records to the lines of an exported user: one JSON object each, without what is empty.

The names of fields are those of the API where it has them. A reader takes what is missing for empty; README.md and
transfer.proto tell the format.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from memsvc.domain.conflicts import Conflict
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.memory import Memory
from memsvc.domain.session import MessageRecord, Session
from memsvc.domain.statements import Statement
from memsvc.domain.transfer import Earlier, RecordKind, Stored

Line = dict[str, Any]

encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), allow_nan=False).encode
"""Return a line as JSON; it holds no line break."""

_FIELDS = (
    "key", "category", "speaker", "title", "summary", "source", "supersedes_id", "superseded_by_id", "review", "tags",
    "keywords", "related_ids", "derived_from", "access_count", "work_in_progress",
)  # fmt: skip
_SCOPES = ("project_id", "agent_id", "session_id")
_TIMES = ("access_time", "event_time", "expire_time", "valid_from", "valid_to")


def memory_line(stored: Stored) -> Line:
    """Return a memory and what is stored beside it."""
    line = {"record": RecordKind.MEMORY, "id": stored.memory.id, **_memory(stored.memory), "action": stored.action}
    if stored.is_unique:
        line["claims_content"] = True
    if stored.previous_id:
        line["previous_id"] = stored.previous_id
    if stored.message is not None:
        line["message"] = _message(stored.message)
    if stored.statements:
        line["statements"] = [_statement(statement) for statement in stored.statements]
    if stored.acknowledged:
        line["acknowledged"] = [
            {"day": day.isoformat(), "slot": slot, "time": _time(noted)} for day, slot, noted in stored.acknowledged
        ]
    if stored.given_vector:
        line["given_vector"] = {"model": stored.given_model, "data": vector_text(stored.given_vector)}
    return line


def revision_line(earlier: Earlier) -> Line:
    """Return an earlier revision of the memory whose line was the last one of a memory."""
    return {"record": RecordKind.REVISION, "id": earlier.memory.id, **_memory(earlier.memory), "action": earlier.action}


def session_line(session: Session) -> Line:
    """Return a session."""
    scope = session.scope
    line = {
        "record": RecordKind.SESSION,
        "id": scope.session_id,
        "project_id": scope.project_id,
        "agent_id": scope.agent_id,
        "title": session.title,
        "state": session.state,
        "auto_trim": session.auto_trim,
        "token_limit": session.token_limit,
        "create_time": _time(session.create_time),
        "update_time": _time(session.update_time),
        "last_ordinal": session.last_ordinal,
        "flushed_ordinal": session.flushed_ordinal,
        "trim_count": session.trim_count,
        "metadata": dict(session.metadata),
        "last_message_time": _moment(session.last_message_time),
        "end_time": _moment(session.end_time),
        "trim_time": _moment(session.trim_time),
    }
    return _given(line)


def conflict_line(conflict: Conflict) -> Line:
    """Return a conflict."""
    names = ("id", "project_id", "older_id", "newer_id", "rule", "topic", "older_value", "newer_value", "state")
    line = {"record": RecordKind.CONFLICT, **{name: getattr(conflict, name) for name in names}}
    line["create_time"] = _time(conflict.create_time)
    line["resolve_time"] = _moment(conflict.resolve_time)
    return _given(line)


def checkpoint_line(checkpoint: Checkpoint) -> Line:
    """Return a checkpoint."""
    line = {
        "record": RecordKind.CHECKPOINT,
        "id": checkpoint.name,
        "project_id": checkpoint.project_id,
        "known_time": _time(checkpoint.known_time),
        "create_time": _time(checkpoint.create_time),
        "note": checkpoint.note,
    }
    return _given(line)


def tombstone_line(left: Tombstone) -> Line:
    """Return what is left of a purged memory."""
    line = {
        "record": RecordKind.TOMBSTONE,
        "id": left.memory_id,
        "project_id": left.project_id,
        "session_id": left.session_id,
        "create_time": _time(left.create_time),
        "time": _time(left.time),
    }
    return _given(line)


def file_line(file: File) -> Line:
    """Return what is known of a file; who does not know files may leave it out."""
    line = {
        "record": RecordKind.FILE,
        "optional": True,
        "id": file.id,
        **{name: getattr(file.scope, name) for name in _SCOPES},
        "category": file.category,
        "name": file.name,
        "media_type": file.media_type,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "create_time": _time(file.create_time),
        "expire_time": _moment(file.expire_time),
        "metadata": dict(file.metadata),
    }
    return _given(line)


def vector_text(vector: bytes) -> str:
    """Return little-endian float32 bytes in base64."""
    return b64encode(vector).decode()


def _memory(memory: Memory) -> Line:
    line: Line = {
        "content": memory.content,
        "layer": memory.layer,
        "kind": memory.kind,
        "tier": memory.tier,
        "status": memory.status,
        "origin": memory.origin,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "trust": memory.trust,
        "revision": memory.revision,
        "create_time": _time(memory.create_time),
        "update_time": _time(memory.update_time),
    }
    line |= {name: value for name in _SCOPES if (value := getattr(memory.scope, name))}
    line |= {name: value for name in _FIELDS if (value := getattr(memory, name))}
    line |= {name: _time(value) for name in _TIMES if (value := getattr(memory, name)) is not None}
    if memory.file_refs:
        line["file_refs"] = [{"category": ref.category, "id": ref.id} for ref in memory.file_refs]
    if memory.metadata:
        line["metadata"] = dict(memory.metadata)
    if memory.reminder is not None:
        line["reminder"] = _given(asdict(memory.reminder))
    return line


def _message(record: MessageRecord) -> Line:
    calls = [{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in record.tool_calls]
    line = {
        "ordinal": record.ordinal,
        "role": record.role,
        "token_count": record.token_count,
        "state": record.state,
        "is_pinned": record.is_pinned,
        "is_empty": not record.has_content,
        "tool_calls": calls,
        "tool_call_id": record.tool_call_id,
        "summary_id": record.summary_id,
    }
    return _given(line)


def _statement(statement: Statement) -> Line:
    parts = [(part.sort, part.text) for part in statement.parts]
    line: Line = {"rule": statement.rule, "topic": statement.topic, "parts": parts}
    return line if statement.positive else line | {"is_negative": True}


def _given(line: Mapping[str, Any]) -> Line:
    return {name: value for name, value in line.items() if value or (value == 0 and value is not False)}


def _time(moment: datetime) -> str:
    return moment.isoformat()


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
