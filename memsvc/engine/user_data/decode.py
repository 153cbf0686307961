"""Decoding of export lines into records of the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from memsvc.domain import limits
from memsvc.domain.conflicts import Conflict, Fact, ValuePart
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.file_text import initial_text
from memsvc.domain.files import FILE_CATEGORIES, REF, File, ref_from
from memsvc.domain.history import Checkpoint, Tombstone
from memsvc.domain.index_entries import View
from memsvc.domain.memory import FileRef, Layer, Memory, Reminder, content_hash, keywords_of
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import ExtractedMemory, MessageRecord, Session, ToolCall
from memsvc.domain.user_data import StoredMemory
from memsvc.engine.user_data import schema
from memsvc.engine.user_data.schema import (
    CheckpointLine,
    ConflictLine,
    ExportLine,
    FileLine,
    FooterLine,
    HeaderLine,
    MemoryFieldsLine,
    MemoryLine,
    MessagePart,
    RevisionLine,
    SessionLine,
    TombstoneLine,
    ToolCallPart,
)  # fmt: skip
from memsvc.text.file_refs import refs_in, with_references

Value = StoredMemory | Session | Conflict | Checkpoint | Tombstone | File
Vectors = tuple[tuple[str, int, bytes], ...]
"""View, ordinal and float32 bytes."""
FLOAT_BYTES = 4
M = TypeVar("M", bound=BaseModel)
HEADER, FOOTER = "header", "footer"
KINDS: Mapping[str, type[ExportLine]] = {
    HEADER: HeaderLine,
    "session": SessionLine,
    "memory": MemoryLine,
    "revision": RevisionLine,
    "conflict": ConflictLine,
    "checkpoint": CheckpointLine,
    "tombstone": TombstoneLine,
    "file": FileLine,
    FOOTER: FooterLine,
}
"""A new kind of record needs a class here, and a way to store it in `memsvc.engine.user_data.import_user`."""
_KIND = re.compile(rb'^\s*\{\s*"record"\s*:\s*"([a-z_]+)"')
MAX_PASSES = 8
"""Maximum number of passes over a content; each finds as many references as a memory may have."""
_REF = re.compile(REF)
_MARKS = tuple(f"{category}:" for category in FILE_CATEGORIES)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_STAND_INS = UUID("ffffffff-ffff-ffff-ffff-000000000000").int


def decode_record(line: Any, scope: Scope) -> Value:
    """Return the record of a line, for the user of *scope*."""
    if isinstance(line, schema.MemoryLine):
        return _stored_memory(line, scope)
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
    return File(scope=place, has_content=False, text=initial_text(line.media_type, line.name), **values)


def _stored_memory(line: schema.MemoryLine, scope: Scope) -> StoredMemory:
    given = line.given_vector
    return StoredMemory(
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


def _statements(line: schema.MemoryLine) -> tuple[Fact, ...]:
    found = {
        one.topic: Fact(one.rule, one.topic, tuple([ValuePart(*part) for part in one.parts]), not one.is_negative)
        for one in line.statements
    }
    return tuple(found[topic] for topic in sorted(found))


def memory_of(line: schema.MemoryFieldsLine, scope: Scope) -> Memory:
    """Return the memory of a line, in the revision of the line."""
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
        derived_from_ids=tuple(line.derived_from_ids),
        review=line.review,
        reminder=None if line.reminder is None else Reminder(**line.reminder.model_dump()),
    )


def _tool_call(part: ToolCallPart) -> ToolCall:
    refs = tuple(FileRef(ref.category, ref.id) for ref in part.file_refs)
    return ToolCall(part.id, part.name, part.arguments, refs)


def _message(part: MessagePart) -> MessageRecord:
    return MessageRecord(
        row=0,
        ordinal=part.ordinal,
        role=part.role,
        token_count=part.token_count,
        state=part.state,
        is_pinned=part.is_pinned,
        has_content=not part.is_empty,
        tool_calls=tuple(_tool_call(call) for call in part.tool_calls),
        tool_call_id=part.tool_call_id,
        summary_id=part.summary_id,
        extracted=tuple(ExtractedMemory(one.id, one.content_hash) for one in part.extracted),
    )


def _session(line: schema.SessionLine, scope: Scope) -> Session:
    values = line.model_dump(exclude={"record", "id", "project_id", "agent_id"})
    return Session(scope=Scope(scope.user_id, line.project_id, line.agent_id, line.id, scope.tenant_id), **values)


def vectors_of(number: int, line: schema.MemoryLine, header: schema.HeaderLine | None) -> Vectors:
    """Return the vectors of a memory.

    Raises:
        InvalidRequestError: They do not match the embedding that the header names.
    """
    space = None if header is None else header.embedding
    if space is None:
        raise bad_line(number, "vectors", "must be absent: the header names no embedding")
    found = []
    for place, part in enumerate(line.vectors):
        if len(part.data) != FLOAT_BYTES * space.dimension:
            raise bad_line(number, f"vectors[{place}].data", f"must be {space.dimension} numbers")
        if part.view not in View.__members__:
            raise bad_line(number, f"vectors[{place}].view", "must be CHUNK or SENTENCES")
        found.append((part.view, part.ordinal, part.data))
    return tuple(found)


# Parsing and validation of lines.


class _Maker(BaseModel):
    """The service that made a file, by its header, whatever else that says."""

    service: str = ""


_SERVICE = re.compile(r"memsvc (\d{1,9}(?:\.\d{1,9}){0,3}[A-Za-z0-9.+-]{0,40})", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """The version of the service that made a file, and that of this one; empty if not known."""

    made: str = ""
    own: str = ""

    @classmethod
    def of(cls, header: bytes, service: str) -> FileOrigin:
        """Read the origin from the first line of a file; *service* is this one's name and version."""
        own = _SERVICE.fullmatch(service)
        try:
            made = _SERVICE.fullmatch(_Maker.model_validate_json(header).service)
        except ValidationError:
            made = None
        return cls(made[1] if made else "", own[1] if own else "")

    @property
    def is_newer(self) -> bool:
        """Return whether a newer version made the file."""
        return bool(self.made and self.own) and _numbers(self.made) > _numbers(self.own)

    @property
    def note(self) -> str:
        """Return a text to append to what is unknown to this version."""
        made = f"; the file was made by memsvc {self.made}" if self.made else ""
        own = f"; this is memsvc {self.own}" if self.own else ""
        return f"{made}{own}{': upgrade this service to import it' if self.is_newer else ''}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


UNKNOWN_ORIGIN = FileOrigin()


class _Sort(BaseModel):
    """The kind of a line, and whether readers may skip it."""

    record: str
    optional: bool = False


_SYNTAX = "must be one JSON object in UTF-8: the file is damaged, or is no export of a user"


def read_line(number: int, line: bytes, origin: FileOrigin = UNKNOWN_ORIGIN) -> ExportLine | str:
    """Return the parsed line, or the name of an unknown kind that is marked as optional.

    The error for a field or value that is not known here says which version made the file, by *origin*.

    Raises:
        InvalidRequestError: The line is invalid; the fields are named "data.lines[NUMBER].…".
    """
    found = _KIND.match(line)
    name = found.group(1).decode() if found else ""
    if (model := KINDS.get(name)) is not None:
        return _require_agreement(number, _check_line(number, lambda: model.model_validate_json(line), origin))
    sort = _check_line(number, lambda: _Sort.model_validate_json(line))
    if (late := KINDS.get(sort.record)) is not None:
        return _require_agreement(number, _check_line(number, lambda: late.model_validate_json(line), origin))
    if sort.optional:
        return sort.record
    known = ", ".join(KINDS)
    raise bad_line(
        number, "record", f"is {sort.record!r}, which this version does not know (it knows {known}){origin.note}"
    )


def bad_line(number: int, field: str, description: str) -> InvalidRequestError:
    """Return the error for an invalid field of a line."""
    return InvalidRequestError([Violation(_path(number, (field,) if field else ()), description)])


_UNKNOWN_VALUES = frozenset({"enum", "literal_error"})


def _description(kind: str, message: str, origin: FileOrigin) -> str:
    """Return what is wrong with a field, from the kind and the message of an error of the validator."""
    if kind == "json_invalid":
        return _SYNTAX
    if kind == "extra_forbidden":
        return f"is a field that this version does not know{origin.note}"
    return f"{message}{origin.note}" if kind in _UNKNOWN_VALUES and origin.is_newer else message


def _check_line(number: int, read: Callable[[], M], origin: FileOrigin = UNKNOWN_ORIGIN) -> M:
    try:
        return read()
    except ValidationError as error:
        broken = error.errors(include_url=False, include_context=False, include_input=False)
        violations = [
            Violation(_path(number, one["loc"]), _description(one["type"], one["msg"], origin))
            for one in broken[: limits.VIOLATIONS]
        ]
        raise InvalidRequestError(violations) from None


def _require_agreement(number: int, line: ExportLine) -> ExportLine:
    """Return a line whose fields are consistent with each other, by the rules for writing memories.

    This runs for every memory, so the conditions that few memories meet are checked first.
    """
    if isinstance(line, MemoryFieldsLine) and (violations := list(_disagreements(number, line))):
        raise InvalidRequestError(violations)
    return line


def _disagreements(number: int, line: MemoryFieldsLine) -> Iterator[Violation]:
    if line.valid_to is not None and line.valid_from is not None and line.valid_to <= line.valid_from:
        yield Violation(_path(number, ("valid_to",)), "must be after valid_from")
    if line.layer is Layer.SESSION and not line.session_id:
        yield Violation(_path(number, ("layer",)), "can be SESSION only with a session_id")
    for field in ("supersedes_id", "superseded_by_id"):
        if getattr(line, field) == line.id:
            yield Violation(_path(number, (field,)), "must be the id of another memory")


def _path(number: int, location: tuple[str | int, ...]) -> str:
    path = f"data.lines[{number}]"
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path


# References to files in contents, and their renaming.


@dataclass(frozen=True, slots=True)
class FileRefPosition:
    """A reference in a content to a possible file of the service, with its position."""

    start: int
    end: int
    ref: FileRef


def is_uuid(name: str) -> bool:
    """Return whether the id has the form of ids of the service; other names are external."""
    return _UUID.fullmatch(name) is not None


def file_ref_positions(content: str) -> tuple[FileRefPosition, ...]:
    """Return the references to files in *content* by position: exactly those that `refs_in` finds.

    `refs_in` returns no positions. So each candidate is given a unique id, by which it is recognised in the result. Of
    a reference that is repeated hundreds of times the last ones may be left out.
    """
    if not any(mark in content for mark in _MARKS):
        return ()
    matches = [(match, ref_from(match[0])) for match in _REF.finditer(content)]
    open_places = [FileRefPosition(*match.span(), ref) for match, ref in matches if ref is not None and is_uuid(ref.id)]
    real: list[FileRefPosition] = []
    for _ in range(MAX_PASSES):
        new = _find_positions(content, open_places)
        if not new:
            break
        real += new
        open_places = [place for place in open_places if place not in new]
    return tuple(sorted(real, key=lambda place: place.start))


def _find_positions(content: str, places: Sequence[FileRefPosition]) -> set[FileRefPosition]:
    """Return those of *places* that are found when each has a unique id."""
    if not places:
        return set()
    stand_ins = {FileRef(place.ref.category, str(UUID(int=_STAND_INS + place.start))): place for place in places}
    of_place = {place: ref for ref, place in stand_ins.items()}
    found = refs_in(with_references(content, places, of_place.__getitem__))
    return {stand_ins[ref] for ref in found if ref in stand_ins}


def rename_file_refs(content: str, places: Sequence[FileRefPosition], names: Mapping[str, str]) -> str:
    """Return *content* with the ids at *places* replaced as *names* gives."""
    moved = [place for place in places if place.ref.id in names]
    if not moved:
        return content
    return with_references(content, moved, lambda place: FileRef(place.ref.category, names[place.ref.id]))
