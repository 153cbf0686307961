"""From the lines of an exported user to records, each checked field by field."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
)  # fmt: skip

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictState
from memsvc.domain.entries import MAX_ORDINAL, View
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.indexing import ChangeAction
from memsvc.domain.memory import Kind, Layer, Origin, Review, Status, Tier
from memsvc.domain.session import AutoTrim, MessageState, Role, SessionState
from memsvc.domain.statements import Rule

LARGEST = (1 << 62) - 1
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

M = TypeVar("M", bound=BaseModel)


def _plain(text: str) -> str:
    if "\0" in text:
        message = "must not contain NUL"
        raise ValueError(message)
    return text


def _named(text: str) -> str:
    if _CONTROL.search(text):
        message = "must not contain control characters"
        raise ValueError(message)
    return text


def _small(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if not value:
        return value
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        message = "must hold finite numbers only"
        raise ValueError(message) from None
    if len(text.encode()) > limits.METADATA_BYTES:
        message = f"must take at most {limits.METADATA_BYTES} bytes as JSON"
        raise ValueError(message)
    if "\\u0000" in text:
        message = "must not contain NUL"
        raise ValueError(message)
    if _depth(value) > limits.METADATA_DEPTH:
        message = f"must be nested at most {limits.METADATA_DEPTH} deep"
        raise ValueError(message)
    return value


def _depth(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _vector(text: str) -> str:
    try:
        raw = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raw = b""
    if not raw or len(raw) % 4:
        message = "must be base64 of float32 numbers"
        raise ValueError(message)
    return text


Id = Annotated[str, StringConstraints(pattern=_UUID)]
IdOrNone = Annotated[str, StringConstraints(pattern=rf"^$|{_UUID}")]
Moment = Annotated[AwareDatetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small)]
Plain = AfterValidator(_plain)
Named = AfterValidator(_named)
ScopeId = Annotated[str, StringConstraints(max_length=limits.SCOPE_ID), Named]
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=limits.SCOPE_ID), Named]
CheckpointName = Annotated[str, StringConstraints(min_length=1, max_length=limits.CHECKPOINT), Named]
Note = Annotated[str, StringConstraints(max_length=limits.CHECKPOINT_NOTE), Plain]
FileCategory = Annotated[str, StringConstraints(max_length=limits.CATEGORY), Named]
FileId = Annotated[str, StringConstraints(max_length=limits.FILE_REF_ID), Plain]
Content = Annotated[str, StringConstraints(min_length=1, max_length=limits.CONTENT), Plain]
Key = Annotated[str, StringConstraints(max_length=limits.KEY), Plain]
Category = Annotated[str, StringConstraints(max_length=limits.CATEGORY), Plain]
Speaker = Annotated[str, StringConstraints(max_length=limits.SPEAKER), Plain]
Title = Annotated[str, StringConstraints(max_length=limits.TITLE), Plain]
Summary = Annotated[str, StringConstraints(max_length=limits.SUMMARY), Plain]
Source = Annotated[str, StringConstraints(max_length=limits.SOURCE), Plain]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=limits.TAG), Plain]
Term = Annotated[str, StringConstraints(min_length=1, max_length=limits.KEYWORD), Plain]
Data = Annotated[str, AfterValidator(_vector)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    record: str


class EmbeddingSpace(BaseModel):
    """The model that vectors are of, and the version of the texts that were embedded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    dimension: int = Field(ge=1, le=100_000)
    analysis: str
    tier: str = "S"


class HeaderLine(_Line):
    """The first line."""

    format: str
    version: int
    user_id: str = ""
    create_time: Moment
    service: str = ""
    counts: dict[str, Count] = Field(default_factory=dict)
    embedding: EmbeddingSpace | None = None


class FooterLine(_Line):
    """The last line."""

    lines: Count
    counts: dict[str, Count]
    sha256: str


class FileRefPart(BaseModel):
    """A reference to a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: FileCategory
    id: FileId


class MemoryFields(_Line):
    """What a memory says, in one revision."""

    id: Id
    content: Content
    project_id: ScopeId = ""
    agent_id: ScopeId = ""
    session_id: ScopeId = ""
    key: Key = ""
    layer: Layer
    kind: Kind
    tier: Tier
    status: Status
    origin: Origin
    review: Review = Review.NONE
    importance: int = Field(ge=limits.IMPORTANCE_MIN, le=limits.IMPORTANCE_MAX)
    confidence: Share
    trust: Share
    revision: int = Field(ge=1, le=LARGEST)
    create_time: Moment
    update_time: Moment
    access_time: Moment | None = None
    event_time: Moment | None = None
    expire_time: Moment | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None
    category: Category = ""
    speaker: Speaker = ""
    title: Title = ""
    summary: Summary = ""
    source: Source = ""
    tags: list[Tag] = Field(default=[], max_length=limits.TAGS)
    keywords: list[tuple[Term, Share]] = Field(default=[], max_length=limits.KEYWORDS)
    related_ids: list[Id] = Field(default=[], max_length=limits.RELATED_IDS)
    derived_from: list[Id] = Field(default=[], max_length=limits.DERIVED_FROM)
    file_refs: list[FileRefPart] = Field(default=[], max_length=limits.FILE_REFS)
    metadata: Metadata = Field(default={})
    supersedes_id: IdOrNone = ""
    superseded_by_id: IdOrNone = ""
    access_count: Count = 0
    work_in_progress: bool = False
    action: ChangeAction


class ToolCallPart(BaseModel):
    """A tool that was called."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default={})


class MessagePart(BaseModel):
    """The place of a memory among the messages of its session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ordinal: int = Field(ge=1, le=LARGEST)
    role: Role
    token_count: int = Field(ge=0, le=LARGEST)
    state: MessageState
    is_pinned: bool = False
    is_empty: bool = False
    tool_calls: list[ToolCallPart] = Field(default=[], max_length=limits.TOOL_CALLS)
    tool_call_id: str = ""
    summary_id: IdOrNone = ""


class GivenVectorPart(BaseModel):
    """An embedding that came with the memory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    data: Data


class VectorPart(BaseModel):
    """An embedding that the service made: which view of the memory, which piece of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    view: str = View.CHUNK.name
    ordinal: int = Field(default=0, ge=0, le=MAX_ORDINAL)
    data: Data


class StatementPart(BaseModel):
    """What a memory states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Rule
    topic: Summary
    parts: list[tuple[Tag, Summary]] = Field(max_length=limits.TAGS)
    is_negative: bool = False


class MemoryLine(MemoryFields):
    """A memory."""

    claims_content: bool = False
    previous_id: IdOrNone = ""
    message: MessagePart | None = None
    statements: list[StatementPart] = Field(default=[], max_length=limits.STATEMENTS)
    given_vector: GivenVectorPart | None = None
    vectors: list[VectorPart] = Field(default=[])


class RevisionLine(MemoryFields):
    """An earlier revision of the memory before it."""


class SessionLine(_Line):
    """A session."""

    id: SessionId
    project_id: ScopeId = ""
    agent_id: ScopeId = ""
    title: Title = ""
    state: SessionState
    auto_trim: AutoTrim
    token_limit: int = Field(ge=1, le=LARGEST)
    create_time: Moment
    update_time: Moment
    last_ordinal: Count = 0
    flushed_ordinal: Count = 0
    trim_count: Count = 0
    metadata: Metadata = Field(default={})
    last_message_time: Moment | None = None
    end_time: Moment | None = None
    trim_time: Moment | None = None


class ConflictLine(_Line):
    """A contradiction between two memories."""

    id: Id
    project_id: ScopeId = ""
    older_id: Id
    newer_id: Id
    rule: Rule
    topic: str
    older_value: str = ""
    newer_value: str = ""
    state: ConflictState
    create_time: Moment
    resolve_time: Moment | None = None


class CheckpointLine(_Line):
    """A checkpoint."""

    id: CheckpointName
    project_id: ScopeId = ""
    known_time: Moment
    create_time: Moment
    note: Note = ""


class TombstoneLine(_Line):
    """What is left of a purged memory."""

    id: Id
    project_id: ScopeId = ""
    session_id: ScopeId = ""
    create_time: Moment
    time: Moment


class _Sort(BaseModel):
    """What is looked at first: what kind of line it is, and whether it may be left out."""

    record: str
    optional: bool = False


HEADER, FOOTER = "header", "footer"
KINDS: Mapping[str, type[_Line]] = {
    HEADER: HeaderLine,
    "session": SessionLine,
    "memory": MemoryLine,
    "revision": RevisionLine,
    "conflict": ConflictLine,
    "checkpoint": CheckpointLine,
    "tombstone": TombstoneLine,
    FOOTER: FooterLine,
}
"""Another kind of record is another class here, and a way to store it in `memsvc.engine.transfer.storing`."""
_KIND = re.compile(rb'^\s*\{\s*"record"\s*:\s*"([a-z_]+)"')


def read_line(number: int, line: bytes) -> _Line | str:
    """Return what a line holds, or the name of an unknown kind that says that it may be left out.

    Raises:
        InvalidRequestError: It is no line of an exported user; the fields are named "data.lines[NUMBER].…".
    """
    found = _KIND.match(line)
    name = found.group(1).decode() if found else ""
    if (model := KINDS.get(name)) is not None:
        return _checked(number, lambda: model.model_validate_json(line))
    sort = _checked(number, lambda: _Sort.model_validate_json(line))
    if (late := KINDS.get(sort.record)) is not None:
        return _checked(number, lambda: late.model_validate_json(line))
    if sort.optional:
        return sort.record
    known = ", ".join(KINDS)
    raise bad_line(number, "record", f"is {sort.record!r}, which this version does not know (it knows {known})")


def bad_line(number: int, field: str, description: str) -> InvalidRequestError:
    """Return the error that a field of a line is wrong."""
    return InvalidRequestError([Violation(_path(number, (field,) if field else ()), description)])


def _checked(number: int, read: Callable[[], M]) -> M:
    try:
        return read()
    except ValidationError as error:
        broken = error.errors(include_url=False, include_context=False, include_input=False)
        violations = [Violation(_path(number, one["loc"]), one["msg"]) for one in broken[: limits.VIOLATIONS]]
        raise InvalidRequestError(violations) from None


def _path(number: int, location: tuple[str | int, ...]) -> str:
    path = f"data.lines[{number}]"
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path
