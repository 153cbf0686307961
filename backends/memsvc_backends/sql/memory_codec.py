"""Conversion of memories to rows, and to the JSON of earlier revisions, in both directions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from memsvc.domain.clock import EPOCH, to_micros
from memsvc.domain.filters import NumberSpan, metadata_numbers, metadata_terms, number_bits
from memsvc.domain.index_entries import Chunk, View, entry_id, ordinal_of
from memsvc.domain.memory import (
    UNNAMED,
    FileRef,
    Json,
    Kind,
    Layer,
    Memory,
    Origin,
    Recurrence,
    Reminder,
    Review,
    Slot,
    Status,
    Tier,
    fingerprint,
    keywords_of,
)
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.ports.metadata import Record
from memsvc.text.file_refs import refs_in
from memsvc_backends.sql.dialect import json_text, json_value, rows_as_json, rows_of_text
from memsvc_backends.sql.tables import memories

Row = Sequence[Any]
Values = dict[str, Any]

_NAMES = (
    "id", "row", "previous_row", "revision", "owner", "project_id", "agent_id", "session_id", "key", "layer", "kind",
    "tier", "status", "category", "speaker", "source", "title", "summary", "content", "content_hash", "tags",
    "keywords", "related_ids", "file_refs", "metadata", "importance", "confidence", "work_in_progress",
    "access_count", "access_time", "create_time", "update_time", "event_time", "expire_time", "supersedes_id",
    "superseded_by_id", "origin", "trust", "derived_from_ids", "review", "valid_from", "valid_to", "reminder",
)  # fmt: skip
MEMORY_COLUMNS = tuple(memories.c[name] for name in _NAMES)
"""What `memory_from_row` reads, in this order."""

_VALUE_NAMES = [column.name for column in memories.c if column.name in _NAMES]
_FIELD_NAMES = [field.name for field in fields(Memory)]
_FIELDS = attrgetter(*_FIELD_NAMES)
_ROW, _PREVIOUS_ROW = _FIELD_NAMES.index("row"), _FIELD_NAMES.index("previous_row")
_LAYERS = {layer.value: layer for layer in Layer}
_KINDS = {kind.value: kind for kind in Kind}
_TIERS = {tier.value: tier for tier in Tier}
_STATUSES = {status.value: status for status in Status}
_ORIGINS = {origin.value: origin for origin in Origin}
_REVIEWS = {review.value: review for review in Review}
_REMINDER_NAMES = [field.name for field in fields(Reminder)]
_EMPTY_LIST = "[]"
_EMPTY_OBJECT = "{}"
_MAX_TERM = 200
# Fractions lose digits in a gathered row, whole numbers do not. From 2**-10 on every confidence is a whole number of
# 2**-62; those few that are not are asked for one by one.
_UNITS = 1 << 62
_IN_UNITS: sa.ColumnElement[float] = memories.c.confidence * sa.literal_column(f"{_UNITS}.0", sa.Double)
_WHOLE = sa.cast(_IN_UNITS, sa.BigInteger)
_IS_CERTAIN = sa.cast(_WHOLE, sa.Double) == _IN_UNITS
IS_DOUBTFUL = sa.not_(_IS_CERTAIN)
"""What the rows of `DOUBTFUL_COLUMNS` that `found_in` asks for meet."""
DOUBTFUL_COLUMNS = (memories.c.row, memories.c.confidence)
_COLUMNS = (*MEMORY_COLUMNS, memories.c.chunk_count)
_ROW_COLUMN, _CONFIDENCE = ([column.name for column in MEMORY_COLUMNS].index(name) for name in ("row", "confidence"))


def memory_from_row(row: Row) -> Memory:
    """Return the memory in a row of `MEMORY_COLUMNS`.

    It is made by arguments in the order of the fields: those by name take twice the time.
    """
    (
        memory_id, number, previous_row, revision, owner, project_id, agent_id, session_id, key, layer, kind,
        tier, status, category, speaker, source, title, summary, content, content_hash, tags,
        keywords, related_ids, file_refs, metadata, importance, confidence, work_in_progress,
        access_count, access_time, create_time, update_time, event_time, expire_time, supersedes_id,
        superseded_by_id, origin, trust, derived_from_ids, review, valid_from, valid_to, reminder,
    ) = row  # fmt: skip
    tenant_id, _, user_id = owner.partition(OWNER_SEPARATOR)
    return Memory(
        memory_id,
        Scope(user_id, project_id, agent_id, session_id, tenant_id),
        content,
        _moment(create_time),
        _moment(update_time),
        content_hash,
        number,
        previous_row,
        key,
        _LAYERS[layer],
        _KINDS[kind],
        category,
        speaker,
        title,
        summary,
        () if tags == _EMPTY_LIST else tuple(json_value(tags)),
        () if keywords == _EMPTY_LIST else keywords_of(json_value(keywords)),
        () if related_ids == _EMPTY_LIST else tuple(json_value(related_ids)),
        () if file_refs == _EMPTY_LIST else tuple([FileRef(*pair) for pair in json_value(file_refs)]),
        importance,
        _TIERS[tier],
        confidence,
        _STATUSES[status],
        access_count,
        moment_or_none(access_time),
        moment_or_none(event_time),
        moment_or_none(expire_time),
        moment_or_none(valid_from),
        moment_or_none(valid_to),
        bool(work_in_progress),
        source,
        {} if metadata == _EMPTY_OBJECT else json_value(metadata),
        supersedes_id,
        superseded_by_id,
        revision,
        _ORIGINS[origin],
        trust,
        () if derived_from_ids == _EMPTY_LIST else tuple(json_value(derived_from_ids)),
        _REVIEWS[review],
        reminder_from_text(reminder),
    )


def record_row(record: Record, cues: int) -> tuple[Any, ...]:
    """Return the row of `memories` that holds a record whose content has these cues, in the order of its columns."""
    memory, scope, content = record.memory, record.memory.scope, record.memory.content
    create_time = to_micros(memory.create_time)
    is_unchanged = memory.update_time is memory.create_time
    return (
        memory.row,
        memory.revision,
        max(1, len(record.chunks)),
        len(content) if content.isascii() else len(content.encode()),
        fingerprint(memory),
        memory.previous_row,
        memory.importance,
        memory.access_count,
        create_time,
        create_time if is_unchanged else to_micros(memory.update_time),
        micros_or_none(memory.access_time),
        micros_or_none(memory.event_time),
        micros_or_none(memory.expire_time),
        micros_or_none(memory.valid_from),
        micros_or_none(memory.valid_to),
        memory.confidence,
        memory.trust,
        int(memory.work_in_progress),
        int(record.is_unique and memory.status not in UNNAMED),
        # str() of these enums is their value, and takes a quarter of the time of asking for it.
        str(memory.status),
        str(memory.layer),
        str(memory.kind),
        str(memory.tier),
        str(memory.origin),
        str(memory.review),
        scope.owner,
        scope.project_id,
        memory.id,
        scope.session_id,
        scope.agent_id,
        memory.speaker,
        memory.category,
        memory.key,
        memory.content_hash,
        memory.supersedes_id,
        memory.superseded_by_id,
        memory.source,
        memory.title,
        _list_text(memory.tags),
        _list_text(list(map(tuple, memory.keywords))),
        _list_text(memory.related_ids),
        _list_text(memory.derived_from_ids),
        _list_text([(ref.category, ref.id) for ref in memory.file_refs]),
        _reminder_text(memory.reminder),
        json_text(dict(memory.metadata)) if memory.metadata else _EMPTY_OBJECT,
        memory.summary,
        content,
        cues,
    )


def _reminder_text(reminder: Reminder | None) -> str:
    return "" if reminder is None else json_text([getattr(reminder, name) for name in _REMINDER_NAMES])


def reminder_from_text(text: str) -> Reminder | None:
    """Return the reminder of a column; None: it holds none."""
    if not text:
        return None
    # A text of an earlier version lacks the fields that follow: they have their defaults.
    values = dict(zip(_REMINDER_NAMES, json_value(text), strict=False))
    slot = values.pop("slot")
    return Reminder(
        **values | {"recurrence": Recurrence(values["recurrence"]), "slot": None if slot is None else Slot(slot)}
    )


def record_values(record: Record, cues: int) -> Values:
    """Return the value of every column of `memories`, by name, for a content of these cues."""
    return dict(zip(memories.c.keys(), record_row(record, cues), strict=True))


def memory_values(memory: Memory) -> Values:
    """Return the value of every column that holds a field of *memory*, by name."""
    values = record_values(Record(memory), cues=0)
    return {name: values[name] for name in _VALUE_NAMES}


def with_rows(memory: Memory, row: int, previous_row: int | None) -> Memory:
    """Return *memory* with these rows, as `dataclasses.replace` would in four times the time."""
    values = list(_FIELDS(memory))
    values[_ROW], values[_PREVIOUS_ROW] = row, previous_row
    return Memory(*values)


def snapshot_text(memory: Memory) -> str:
    """Return *memory* as JSON, by the names of the columns."""
    return json_text(memory_values(memory))


def memory_from_snapshot(text: str) -> Memory:
    """Return the memory that `snapshot_text` wrote."""
    values: Values = json_value(text)
    return memory_from_row([values[name] for name in _NAMES])


def ref_terms(refs: Iterable[FileRef]) -> list[str]:
    """Return references to files as terms, each once."""
    return [f"{ref.category}:{ref.id}" for ref in dict.fromkeys(refs)]


def memory_ref_terms(memory: Memory) -> list[str]:
    """Return the files that *memory* refers to as the table keeps them: those of its summary count, too."""
    return ref_terms((*memory.file_refs, *refs_in(memory.summary)))


def decode_terms(memory: Memory) -> list[str]:
    """Return the metadata terms of *memory* as the table keeps them."""
    if not memory.metadata:
        return []
    return [*(encode_term(term) for term in metadata_terms(memory.metadata)), *encode_numbers(memory.metadata)]


def encode_term(term: str) -> str:
    """Return a metadata term, or, when it is too long for an index, its digest; terms hold an "=", digests do not."""
    return term if len(term) <= _MAX_TERM else f"sha256:{hashlib.sha256(term.encode()).hexdigest()}"


# Numbers in metadata, as terms that are in the order of the numbers of a path and sign.


NO_NUMBER = "%=%"
"""What terms of equality are like, and terms of numbers are not."""


def encode_numbers(metadata: Mapping[str, Json]) -> list[str]:
    """Return a term for each number in *metadata* that ranges test."""
    found = [(path, *number_bits(number)) for path, number in metadata_numbers(metadata)]
    return [f"{_place_of_numbers(path)}{sign}{bits:016x}" for path, sign, bits in found]


def span_terms(path: str, span: NumberSpan) -> tuple[str, str]:
    """Return the first and the last term of a span of numbers at a path."""
    place = f"{_place_of_numbers(path)}{span.sign}"
    return f"{place}{span.low:016x}", f"{place}{span.high:016x}"


def _place_of_numbers(path: str) -> str:
    return f"#{hashlib.blake2b(path.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


def _list_text(values: Sequence[object]) -> str:
    return json_text(values) if values else _EMPTY_LIST


def micros_or_none(moment: datetime | None) -> int | None:
    """Return the microseconds of a moment that may be absent."""
    return None if moment is None else to_micros(moment)


def moment_or_none(micros: int | None) -> datetime | None:
    """Return the moment of microseconds that may be absent."""
    return None if micros is None else _moment(micros)


def _moment(micros: int) -> datetime:
    # By place: by name it takes twice the time.
    return EPOCH + timedelta(0, 0, micros)


# Chunks to rows and back.


def chunk_values(row: int, chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    """Return a row of `memory_chunks` for each chunk, none when there is only one: that is the content itself."""
    if len(chunks) <= 1:
        return []
    return [
        {
            "entry": entry_id(row, View.CHUNK, chunk.ordinal),
            "start_line": chunk.start_line,
            "end_line": chunk.end_line,
            "heading_path": json_text(chunk.heading_path),
            "text": chunk.text,
        }
        for chunk in chunks
    ]


def chunk_from_row(row: Sequence[Any]) -> Chunk:
    """Return the chunk in a row of `memory_chunks`."""
    entry, start_line, end_line, heading_path, text = row
    return Chunk(ordinal_of(entry), text, tuple(json_value(heading_path)), start_line, end_line)


def sole_chunk(memory: Memory) -> Chunk:
    """Return the one chunk of a memory that has no more than one."""
    lines = memory.content.count("\n") + 1
    return Chunk(ordinal=0, text=memory.content, heading_path=(), start_line=1, end_line=lines)


# Many memories as one text, since rows fetched one by one wait for the interpreter lock: see `rows_as_json`.


Found = dict[int, tuple[Memory, int]]
"""Memories and the number of their chunks, by row."""


def memories_as_json() -> sa.ColumnElement[str]:
    """Return one text that holds memories, for `found_in`."""
    columns = [sa.case((_IS_CERTAIN, _WHOLE)) if column.name == "confidence" else column for column in _COLUMNS]
    return rows_as_json(*columns)


def found_in(text: str, doubtful: Callable[[], Iterable[Sequence[Any]]]) -> Found:
    """Return the memories of a text of `memories_as_json`; *doubtful* reads the confidences that it does not hold.

    To be called in the snapshot that the text was read in.
    """
    rows = rows_of_text(text)
    missing = {row[_ROW_COLUMN]: row for row in rows if row[_CONFIDENCE] is None}
    for number, confidence in doubtful() if missing else ():
        missing[number][_CONFIDENCE] = confidence * _UNITS
    return _memories_in(rows)


def whole_in(text: str) -> Found | None:
    """Return the memories of a text of `memories_as_json`, or None when it does not hold every confidence."""
    rows = rows_of_text(text)
    return None if any(row[_CONFIDENCE] is None for row in rows) else _memories_in(rows)


def _memories_in(rows: Iterable[list[Any]]) -> Found:
    found: Found = {}
    for row in rows:
        row[_CONFIDENCE] /= _UNITS
        chunk_count = row.pop()
        found[row[_ROW_COLUMN]] = (memory_from_row(row), chunk_count)
    return found
