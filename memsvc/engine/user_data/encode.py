"""Encoding of records as lines of an exported user: one JSON object each, without empty fields.

The names of fields are those of the API where it has them. Readers treat missing fields as empty; transfer.proto
documents the format.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple

from memsvc.domain.conflicts import Conflict, Fact
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import ChangeAction, View
from memsvc.domain.memory import Memory
from memsvc.domain.sessions import MessageRecord, Session, ToolCall
from memsvc.domain.user_data import RecordKind, StoredMemory, StoredRevision

Fields = dict[str, Any]

_encoded = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), allow_nan=False).encode
_FIELDS = (
    "key", "category", "speaker", "title", "summary", "source", "supersedes_id", "superseded_by_id", "review", "tags",
    "keywords", "related_ids", "derived_from_ids", "access_count", "work_in_progress",
)  # fmt: skip
_SCOPES = ("project_id", "agent_id", "session_id")
_TIMES = ("access_time", "event_time", "expire_time", "valid_from", "valid_to")
_FIELDS_OF, _SCOPES_OF, _TIMES_OF = attrgetter(*_FIELDS), attrgetter(*_SCOPES), attrgetter(*_TIMES)


class EncodedLine(NamedTuple):
    """A line: the kind of its record, and its JSON with the line break."""

    record: str
    raw: bytes


def encode_line(fields: Fields) -> EncodedLine:
    """Return the line with these fields; the field "record" is its kind."""
    return EncodedLine(fields["record"], _encoded(fields).encode() + b"\n")


def memory_line(stored: StoredMemory, vectors: Sequence[bytes] = ()) -> EncodedLine:
    """Return the line of a memory with its dependent rows, and the vectors from `vector_part`."""
    fields = _with_dependents(_memory(RecordKind.MEMORY, stored.memory, stored.action), stored)
    if not (stored.given_vector or vectors):
        return encode_line(fields)
    # Base64 bypasses the JSON encoder, which would inspect every character.
    parts = [_encoded(fields)[:-1].encode()]
    if stored.given_vector:
        parts += (
            b',"given_vector":{"model":',
            _encoded(stored.given_model).encode(),
            b",",
            *_data(stored.given_vector),
            b"}",
        )
    if vectors:
        parts += (b',"vectors":[', b",".join(vectors), b"]")
    parts.append(b"}\n")
    return EncodedLine(RecordKind.MEMORY, b"".join(parts))


def _with_dependents(line: Fields, stored: StoredMemory) -> Fields:
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
    return line


def vector_part(vector: bytes, view: View, ordinal: int) -> bytes:
    """Return an embedding made by the service for `memory_line`: little-endian float32 bytes in base64."""
    parts = [b"{", *_data(vector)]
    if view is not View.CHUNK:
        parts.append(f',"view":"{view.name}"'.encode())
    if ordinal:
        parts.append(b',"ordinal":%d' % ordinal)
    return b"".join([*parts, b"}"])


def _data(vector: bytes) -> tuple[bytes, bytes, bytes]:
    return b'"data":"', b2a_base64(vector, newline=False), b'"'


def revision_line(earlier: StoredRevision) -> EncodedLine:
    """Return the line of an earlier revision of the preceding memory."""
    return encode_line(_memory(RecordKind.REVISION, earlier.memory, earlier.action))


def session_line(session: Session) -> EncodedLine:
    """Return the line of a session."""
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
    return encode_line(_given_vector(line))


def conflict_line(conflict: Conflict) -> EncodedLine:
    """Return the line of a conflict."""
    names = ("id", "project_id", "older_id", "newer_id", "rule", "topic", "older_value", "newer_value", "state")
    line = {"record": RecordKind.CONFLICT, **{name: getattr(conflict, name) for name in names}}
    line["create_time"] = _time(conflict.create_time)
    line["resolve_time"] = _moment(conflict.resolve_time)
    return encode_line(_given_vector(line))


def checkpoint_line(checkpoint: Checkpoint) -> EncodedLine:
    """Return the line of a checkpoint."""
    line = {
        "record": RecordKind.CHECKPOINT,
        "id": checkpoint.name,
        "project_id": checkpoint.project_id,
        "known_time": _time(checkpoint.known_time),
        "create_time": _time(checkpoint.create_time),
        "note": checkpoint.note,
    }
    return encode_line(_given_vector(line))


def tombstone_line(left: Tombstone) -> EncodedLine:
    """Return the line of a tombstone of a purged memory."""
    line = {
        "record": RecordKind.TOMBSTONE,
        "id": left.memory_id,
        "project_id": left.project_id,
        "session_id": left.session_id,
        "create_time": _time(left.create_time),
        "time": _time(left.time),
    }
    return encode_line(_given_vector(line))


def file_line(file: File) -> EncodedLine:
    """Return the line of a file's metadata; readers without files may skip it."""
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
    return encode_line(_given_vector(line))


def _memory(record: RecordKind, memory: Memory, action: ChangeAction) -> Fields:
    create_time = _time(memory.create_time)
    line: Fields = {
        "record": record,
        "id": memory.id,
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
        "create_time": create_time,
        "update_time": create_time if memory.update_time == memory.create_time else _time(memory.update_time),
    }
    for names, values in ((_SCOPES, _SCOPES_OF(memory.scope)), (_FIELDS, _FIELDS_OF(memory))):
        line.update(compress(zip(names, values, strict=True), values))
    line |= {name: _time(value) for name, value in zip(_TIMES, _TIMES_OF(memory), strict=True) if value is not None}
    if memory.file_refs:
        line["file_refs"] = [{"category": ref.category, "id": ref.id} for ref in memory.file_refs]
    if memory.metadata:
        line["metadata"] = dict(memory.metadata)
    if memory.reminder is not None:
        line["reminder"] = _given_vector(asdict(memory.reminder))
    line["action"] = action
    return line


def _tool_call(call: ToolCall) -> Fields:
    line: Fields = {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    if call.file_refs:
        line["file_refs"] = [{"category": ref.category, "id": ref.id} for ref in call.file_refs]
    return line


def _message(record: MessageRecord) -> Fields:
    calls = [_tool_call(call) for call in record.tool_calls]
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
    if record.extracted:
        line["extracted"] = [{"id": one.memory_id, "content_hash": one.content_hash} for one in record.extracted]
    return _given_vector(line)


def _statement(statement: Fact) -> Fields:
    parts = [(part.sort, part.text) for part in statement.parts]
    line: Fields = {"rule": statement.rule, "topic": statement.topic, "parts": parts}
    return line if statement.positive else line | {"is_negative": True}


def _given_vector(line: Mapping[str, Any]) -> Fields:
    return {name: value for name, value in line.items() if value or (value == 0 and value is not False)}


def _time(moment: datetime) -> str:
    return moment.isoformat()


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
