"""From the bytes of an exported user, as they come, to batches of records."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memsvc.domain.conflicts import Conflict
from memsvc.domain.entries import View
from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.memory import FileRef, Memory, content_hash, keywords_of
from memsvc.domain.scope import Scope
from memsvc.domain.session import MessageRecord, Session, ToolCall
from memsvc.domain.statements import Part, Statement
from memsvc.domain.transfer import FORMAT, VERSION, Earlier, Stored
from memsvc.engine.courtesy import COURTESY
from memsvc.engine.transfer import reading
from memsvc.engine.transfer.reading import bad_line, read_line

LINE_BYTES = 32 * 1024 * 1024
BATCH_RECORDS = 400
BATCH_BYTES = 4 * 1024 * 1024
PAST_BYTES = 8 * 1024 * 1024
"""Earlier revisions of one memory that are stored together with it; what is beyond follows on its own."""

Vectors = tuple[tuple[str, int, bytes], ...]
"""View, ordinal and float32 bytes."""


@dataclass(slots=True)
class Record:
    """One record of a file.

    Attributes:
        line: Its number, from 1.
        value: What it is of; None: its kind is unknown, and it may be left out.
        earlier: The earlier revisions that came after a memory.
        late: Whether it is further revisions of a memory that is stored already.
    """

    line: int
    name: str
    value: Stored | Session | Conflict | Checkpoint | Tombstone | None
    earlier: list[Earlier] = field(default_factory=list)
    vectors: Vectors = ()
    late: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are stored in one transaction; *lines* is the number of the last line that is in it."""

    records: tuple[Record, ...]
    lines: int


class Parser:
    """Cuts bytes into lines and reads them. The first error is the last thing it says."""

    def __init__(self, scope: Scope) -> None:
        """Read for the user of *scope*."""
        self._scope = scope
        self._rest = bytearray()
        self._digest = hashlib.sha256()
        self._lines = 0
        self._counts: dict[str, int] = {}
        self._footer: reading.FooterLine | None = None
        self._waiting: list[Record] = []
        self._size = self._past = 0
        self._last: object = None
        self.header: reading.HeaderLine | None = None

    def feed(self, data: bytes) -> Iterator[Batch]:
        """Take the next bytes and yield what is complete with them.

        Raises:
            InvalidRequestError: A line is wrong; the field says which one. Batches yielded before are good.
        """
        self._rest += data
        start = 0
        try:
            while (end := self._rest.find(b"\n", start)) >= 0:
                line = bytes(self._rest[start : end + 1])
                start = end + 1
                yield from self._line(line)
        except InvalidRequestError:
            # What is good before the bad line is stored.
            yield from self._flush()
            raise
        finally:
            del self._rest[:start]
        if len(self._rest) > LINE_BYTES:
            raise bad_line(self._lines + 1, "", f"is longer than {LINE_BYTES} bytes")

    def finish(self) -> Iterator[Batch]:
        """Yield what is left at the end of the file.

        Raises:
            InvalidRequestError: The file was cut: its last line is missing, or does not fit what came before.
        """
        yield from self._flush()
        number = self._lines + 1
        if self._rest:
            raise bad_line(number, "", "has no end: the file was cut; send it whole, what is stored is kept")
        if self.header is None:
            raise bad_line(1, "record", "must be 'header': the file is empty")
        if self._footer is None:
            raise bad_line(
                number, "record", "must be 'footer': the file was cut; send it whole, what is stored is kept"
            )

    def _line(self, raw: bytes) -> Iterator[Batch]:
        COURTESY.give_way()
        self._lines += 1
        if self._footer is not None:
            raise bad_line(self._lines, "", "comes after the footer")
        line = read_line(self._lines, raw[:-1])
        if isinstance(line, reading.FooterLine):
            self._check_footer(line)
            self._footer = line
            return
        self._digest.update(raw)
        if self.header is None:
            self.header = self._header(line)
            return
        name = line if isinstance(line, str) else line.record
        self._counts[name] = self._counts.get(name, 0) + 1
        yield from self._add(line, len(raw))

    def _header(self, line: object) -> reading.HeaderLine:
        if not isinstance(line, reading.HeaderLine):
            raise bad_line(1, "record", "must be 'header'")
        if line.format != FORMAT:
            raise bad_line(1, "format", f"must be {FORMAT!r}; `memsvc import` takes memories alone")
        if line.version != VERSION:
            raise bad_line(1, "version", f"is {line.version}; this service reads version {VERSION}")
        return line

    def _check_footer(self, line: reading.FooterLine) -> None:
        if self.header is None:
            raise bad_line(1, "record", "must be 'header'")
        if line.lines != self._lines - 1 or line.counts != self._counts:
            description = f"says {line.lines} lines and {line.counts}, but {self._lines - 1} came: {self._counts}"
            raise bad_line(self._lines, "lines", description)
        if line.sha256 != self._digest.hexdigest():
            raise bad_line(self._lines, "sha256", "is not the digest of what came before: the file was changed")

    def _add(self, line: Any, size: int) -> Iterator[Batch]:
        if isinstance(line, reading.HeaderLine):
            raise bad_line(self._lines, "record", "must not be 'header' again")
        if isinstance(line, reading.RevisionLine):
            yield from self._add_revision(line, size)
            return
        if len(self._waiting) >= BATCH_RECORDS or self._size >= BATCH_BYTES:
            yield from self._flush()
        self._size += size
        self._past = 0
        self._waiting.append(self._record(line))

    def _add_revision(self, line: reading.RevisionLine, size: int) -> Iterator[Batch]:
        last = self._last
        if not isinstance(last, Stored) or last.memory.id != line.id:
            raise bad_line(self._lines, "id", "must be that of the memory before, whose revision it is")
        if line.revision >= last.memory.revision:
            raise bad_line(self._lines, "revision", f"must be less than that of the memory, {last.memory.revision}")
        earlier = Earlier(_memory(line, self._scope), line.action)
        if self._past + size > PAST_BYTES and self._waiting[-1].earlier:
            # Rare: so long a past goes over several transactions.
            yield from self._flush()
            self._waiting.append(Record(self._lines, line.id, last, late=True))
        self._past += size
        self._size += size
        self._waiting[-1].earlier.append(earlier)

    def _record(self, line: Any) -> Record:
        number, name = self._lines, line if isinstance(line, str) else line.id
        value = None if isinstance(line, str) else _value(line, self._scope)
        self._last = value
        vectors: Vectors = ()
        if isinstance(line, reading.MemoryLine) and line.vectors:
            vectors = _vectors(number, line, self.header)
        return Record(number, name, value, vectors=vectors)

    def _flush(self) -> Iterator[Batch]:
        if self._waiting:
            yield Batch(tuple(self._waiting), self._lines)
            self._waiting, self._size, self._past = [], 0, 0


def _value(line: Any, scope: Scope) -> Stored | Session | Conflict | Checkpoint | Tombstone:
    if isinstance(line, reading.MemoryLine):
        return _stored(line, scope)
    if isinstance(line, reading.SessionLine):
        return _session(line, scope)
    if isinstance(line, reading.ConflictLine):
        values = line.model_dump(exclude={"record"})
        return Conflict(owner=scope.owner, **values)
    if isinstance(line, reading.CheckpointLine):
        return Checkpoint(scope.owner, line.project_id, line.id, line.known_time, line.create_time, line.note)
    return Tombstone(0, line.id, line.project_id, line.session_id, line.create_time, line.time)


def _stored(line: reading.MemoryLine, scope: Scope) -> Stored:
    given = line.given_vector
    return Stored(
        _memory(line, scope),
        line.claims_content,
        line.action,
        line.previous_id,
        None if line.message is None else _message(line.message),
        b"" if given is None else b64decode(given.data),
        "" if given is None else given.model,
        _statements(line),
    )


def _statements(line: reading.MemoryLine) -> tuple[Statement, ...]:
    found = {
        one.topic: Statement(one.rule, one.topic, tuple([Part(*part) for part in one.parts]), not one.is_negative)
        for one in line.statements
    }
    return tuple(found[topic] for topic in sorted(found))


def _memory(line: reading.MemoryFields, scope: Scope) -> Memory:
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
    )


def _message(part: reading.MessagePart) -> MessageRecord:
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


def _session(line: reading.SessionLine, scope: Scope) -> Session:
    values = line.model_dump(exclude={"record", "id", "project_id", "agent_id"})
    return Session(scope=Scope(scope.user_id, line.project_id, line.agent_id, line.id, scope.tenant_id), **values)


def _vectors(number: int, line: reading.MemoryLine, header: reading.HeaderLine | None) -> Vectors:
    space = None if header is None else header.embedding
    if space is None:
        raise bad_line(number, "vectors", "must not be there: the header names no embedding")
    found = []
    for place, part in enumerate(line.vectors):
        raw = b64decode(part.data)
        numbers = np.frombuffer(raw, dtype="<f4")
        if len(numbers) != space.dimension or not np.isfinite(numbers).all() or not numbers.any():
            raise bad_line(number, f"vectors[{place}].data", f"must be {space.dimension} finite numbers, not all 0")
        if part.view not in View.__members__:
            raise bad_line(number, f"vectors[{place}].view", "must be CHUNK or SENTENCES")
        found.append((part.view, part.ordinal, raw))
    return tuple(found)
