"""From lines to records: what the store keeps."""

from __future__ import annotations

from typing import Any

from memsvc.domain.conflicts import Conflict, Statement, ValuePart
from memsvc.domain.files import File
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import View
from memsvc.domain.memory import FileRef, Memory, Reminder, content_hash, keywords_of
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import MessageRecord, Session, ToolCall
from memsvc.domain.user_data import Stored
from memsvc.engine.user_data import schema
from memsvc.engine.user_data.parts import MessagePart
from memsvc.engine.user_data.reading import bad_line

Value = Stored | Session | Conflict | Checkpoint | Tombstone | File
Vectors = tuple[tuple[str, int, bytes], ...]
"""View, ordinal and float32 bytes."""
FLOAT_BYTES = 4


def value_of(line: Any, scope: Scope) -> Value:
    """Return the record that a line holds, of the user of *scope*."""
    if isinstance(line, schema.MemoryLine):
        return _stored(line, scope)
    if isinstance(line, schema.SessionLine):
        return _session(line, scope)
    if isinstance(line, schema.ConflictLine):
        values = line.model_dump(exclude={"record"})
        return Conflict(owner=scope.owner, **values)
    if isinstance(line, schema.CheckpointLine):
        return Checkpoint(scope.owner, line.project_id, line.id, line.known_time, line.create_time, line.note)
    if isinstance(line, schema.FileLine):
        return _file(line, scope)
    return Tombstone(0, line.id, line.project_id, line.session_id, line.create_time, line.time)


def _file(line: schema.FileLine, scope: Scope) -> File:
    values = line.model_dump(exclude={"record", "optional", "project_id", "agent_id", "session_id"})
    place = Scope(scope.user_id, line.project_id, line.agent_id, line.session_id, scope.tenant_id)
    return File(scope=place, has_content=False, **values)


def _stored(line: schema.MemoryLine, scope: Scope) -> Stored:
    given = line.given_vector
    return Stored(
        memory_of(line, scope),
        line.claims_content,
        line.action,
        line.previous_id,
        None if line.message is None else _message(line.message),
        b"" if given is None else given.data,
        "" if given is None else given.model,
        _statements(line),
        tuple(sorted((one.day, one.slot, one.time) for one in line.acknowledged)),
    )


def _statements(line: schema.MemoryLine) -> tuple[Statement, ...]:
    found = {
        one.topic: Statement(one.rule, one.topic, tuple([ValuePart(*part) for part in one.parts]), not one.is_negative)
        for one in line.statements
    }
    return tuple(found[topic] for topic in sorted(found))


def memory_of(line: schema.MemoryFields, scope: Scope) -> Memory:
    """Return the memory that a line holds, in the revision of the line."""
    return Memory(
        id=line.id,
        scope=Scope(scope.user_id, line.project_id, line.agent_id, line.session_id, scope.tenant_id),
        content=line.content,
        create_time=line.create_time,
        update_time=line.update_time,
        content_hash=content_hash(line.content),
        key=line.key,
        layer=line.layer,
        kind=line.kind,
        category=line.category,
        speaker=line.speaker,
        title=line.title,
        summary=line.summary,
        tags=tuple(line.tags),
        keywords=keywords_of(line.keywords),
        related_ids=tuple(line.related_ids),
        file_refs=tuple([FileRef(ref.category, ref.id) for ref in line.file_refs]),
        importance=line.importance,
        tier=line.tier,
        confidence=line.confidence,
        status=line.status,
        access_count=line.access_count,
        access_time=line.access_time,
        event_time=line.event_time,
        expire_time=line.expire_time,
        valid_from=line.valid_from,
        valid_to=line.valid_to,
        work_in_progress=line.work_in_progress,
        source=line.source,
        metadata=line.metadata,
        supersedes_id=line.supersedes_id,
        superseded_by_id=line.superseded_by_id,
        revision=line.revision,
        origin=line.origin,
        trust=line.trust,
        derived_from=tuple(line.derived_from),
        review=line.review,
        reminder=None if line.reminder is None else Reminder(**line.reminder.model_dump()),
    )


def _message(part: MessagePart) -> MessageRecord:
    return MessageRecord(
        row=0,
        ordinal=part.ordinal,
        role=part.role,
        token_count=part.token_count,
        state=part.state,
        is_pinned=part.is_pinned,
        has_content=not part.is_empty,
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in part.tool_calls),
        tool_call_id=part.tool_call_id,
        summary_id=part.summary_id,
    )


def _session(line: schema.SessionLine, scope: Scope) -> Session:
    values = line.model_dump(exclude={"record", "id", "project_id", "agent_id"})
    return Session(scope=Scope(scope.user_id, line.project_id, line.agent_id, line.id, scope.tenant_id), **values)


def vectors_of(number: int, line: schema.MemoryLine, header: schema.HeaderLine | None) -> Vectors:
    """Return the vectors of a memory.

    Raises:
        InvalidRequestError: They are not of the kind that the header names.
    """
    space = None if header is None else header.embedding
    if space is None:
        raise bad_line(number, "vectors", "must not be there: the header names no embedding")
    found = []
    for place, part in enumerate(line.vectors):
        if len(part.data) != FLOAT_BYTES * space.dimension:
            raise bad_line(number, f"vectors[{place}].data", f"must be {space.dimension} numbers")
        if part.view not in View.__members__:
            raise bad_line(number, f"vectors[{place}].view", "must be CHUNK or SENTENCES")
        found.append((part.view, part.ordinal, part.data))
    return tuple(found)
