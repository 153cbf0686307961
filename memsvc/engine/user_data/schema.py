"""Schema of the lines of an exported user, with validation rules.

The validators are built at the first import: at the start of a service that would take a quarter of a second.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)  # fmt: skip

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictState, Rule
from memsvc.domain.field_rules import control_fault, json_depth_fault, length_fault, nul_fault
from memsvc.domain.files import FILE_CATEGORIES
from memsvc.domain.files import FileCategory as KnownCategory
from memsvc.domain.index_entries import MAX_ORDINAL, ChangeAction, View
from memsvc.domain.limits import fits_json_number
from memsvc.domain.memory import Kind, Layer, Origin, Recurrence, Review, Slot, Status, Tier
from memsvc.domain.memory_keys import fault_of
from memsvc.domain.reminders import LUNAR_YEARS, is_day
from memsvc.domain.sessions import AutoTrim, MessageState, Role, SessionState

LAST_YEAR = 9999
"""A reminder from a vault may have any year, not only those that the API accepts."""
MAX_COUNT = (1 << 62) - 1
MAX_SMALL_COUNT = (1 << 31) - 1
"""The largest number in a field of 32 bits of the API."""
MAX_REVISION = 1 << 32
"""Bounds the total number of earlier revisions in an export, which must not exceed *LARGEST*."""
REDACTION_GROWTH = 4
"""Maximum growth factor of a text whose secrets were redacted before it was stored."""
_REDACTED = "[REDACTED:"
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_TYPE = "[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*"
_SUSPECT = re.compile(r"\\u0000|[0-9]{309}")
"""Matches JSON that may contain NUL or a number beyond doubles, and needs a full inspection."""


class ExportLine(BaseModel):
    """The base of all lines."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    record: str


class EmbeddingSpacePart(BaseModel):
    """The model of the vectors, and the version of the embedded texts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    model: str
    dimension: int = Field(ge=1, le=100_000)
    analysis: str
    tier: str = "S"


class HeaderLine(ExportLine):
    """The first line."""

    format: str
    version: int
    user_id: str = ""
    create_time: Moment
    service: str = ""
    counts: dict[str, Count] = Field(default_factory=dict)
    embedding: EmbeddingSpacePart | None = None


class FooterLine(ExportLine):
    """The last line."""

    lines: Count
    counts: dict[str, Count]
    sha256: str


class MemoryFieldsLine(ExportLine):
    """The fields of a memory in one revision."""

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
    importance: Importance
    confidence: Share
    trust: Share
    revision: Revision
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
    tags: list[Tag] = Field(default_factory=list, max_length=limits.TAGS)
    keywords: list[tuple[Term, Share]] = Field(default_factory=list, max_length=limits.KEYWORDS)
    related_ids: list[Id] = Field(default_factory=list, max_length=limits.RELATED_IDS)
    derived_from_ids: list[Id] = Field(default_factory=list, max_length=limits.DERIVED_FROM)
    file_refs: list[FileRefPart] = Field(default_factory=list, max_length=limits.FILE_REFS)
    metadata: Metadata = Field(default_factory=dict)
    supersedes_id: IdOrNone = ""
    superseded_by_id: IdOrNone = ""
    access_count: SmallCount = 0
    work_in_progress: bool = False
    reminder: ReminderPart | None = None
    action: ChangeAction


class MemoryLine(MemoryFieldsLine):
    """A memory."""

    claims_content: bool = False
    previous_id: IdOrNone = ""
    message: MessagePart | None = None
    statements: list[StatementPart] = Field(default_factory=list, max_length=limits.STATEMENTS)
    given_vector: GivenVectorPart | None = None
    vectors: list[VectorPart] = Field(default_factory=list)
    acknowledged: Acknowledgements = Field(default_factory=list, max_length=10_000)


class RevisionLine(MemoryFieldsLine):
    """An earlier revision of the preceding memory."""


class SessionLine(ExportLine):
    """A session."""

    id: SessionId
    project_id: ScopeId = ""
    agent_id: ScopeId = ""
    title: Title = ""
    state: SessionState
    auto_trim: AutoTrim
    token_limit: TokenLimit
    create_time: Moment
    update_time: Moment
    last_ordinal: Count = 0
    flushed_ordinal: Count = 0
    trim_count: SmallCount = 0
    metadata: Metadata = Field(default_factory=dict)
    last_message_time: Moment | None = None
    end_time: Moment | None = None
    trim_time: Moment | None = None


class ConflictLine(ExportLine):
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


class CheckpointLine(ExportLine):
    """A checkpoint."""

    id: CheckpointName
    project_id: ScopeId = ""
    known_time: Moment
    create_time: Moment
    note: Note = ""


class FileLine(ExportLine):
    """The metadata of a file; its bytes are not in an export."""

    optional: bool = True
    id: Id
    project_id: ScopeId = ""
    agent_id: ScopeId = ""
    session_id: ScopeId = ""
    category: KnownCategory
    name: FileName
    media_type: MediaType
    size_bytes: Size
    sha256: Sha256
    create_time: Moment
    expire_time: Moment | None = None
    metadata: Metadata = Field(default={})


class TombstoneLine(ExportLine):
    """The tombstone of a purged memory."""

    id: Id
    project_id: ScopeId = ""
    session_id: ScopeId = ""
    create_time: Moment
    time: Moment


# Parts of lines: those of a memory, and of a message.


class LinePart(BaseModel):
    """The base of all parts."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class FileRefPart(LinePart):
    """A reference to a file."""

    category: FileCategory
    id: FileId


class ReminderPart(LinePart):
    """The due date of a memory."""

    year: int = Field(default=0, strict=True, ge=0, le=LAST_YEAR)
    month: int = Field(strict=True, ge=1, le=12)
    day: int = Field(strict=True, ge=1, le=31)
    recurrence: Recurrence = Recurrence.YEARLY
    minute: int | None = Field(default=None, strict=True, ge=0, lt=24 * 60)
    time_zone: Zone = ""
    slot: Slot | None = None
    phrase: Content | Literal[""] = ""
    is_lunar: bool = False

    @model_validator(mode="after")
    def _is_day(self) -> Self:
        yearly = self.recurrence is Recurrence.YEARLY
        if not is_day(0 if yearly else self.year, self.month, self.day) or not (yearly or self.year):
            message = "year, month and day must be a day of the calendar, with its year unless it recurs every year"
            raise ValueError(message)
        if self.is_lunar and not (yearly and LUNAR_YEARS[0] < self.year < LUNAR_YEARS[1]):
            message = "a reminder of the lunisolar calendar must be yearly, with a year from 1901 to 2099"
            raise ValueError(message)
        return self


class AcknowledgedPart(LinePart):
    """The acknowledgement of a reminder: its day and slot, and the time of the acknowledgement."""

    day: date
    slot: Slot
    time: Moment


class ToolCallPart(LinePart):
    """A tool call."""

    id: str
    name: str
    arguments: Arguments = Field(default_factory=dict)
    file_refs: list[FileRefPart] = Field(default_factory=list, max_length=limits.FILE_REFS)


class ExtractedPart(LinePart):
    """A memory that was extracted from a message, and the hash of the content that the message says."""

    id: Id
    content_hash: HashOrNone = ""


class MessagePart(LinePart):
    """The place of a memory among the messages of its session."""

    ordinal: Number
    role: Role
    token_count: SmallCount
    state: MessageState
    is_pinned: bool = False
    is_empty: bool = False
    tool_calls: list[ToolCallPart] = Field(default_factory=list, max_length=limits.TOOL_CALLS)
    tool_call_id: str = ""
    summary_id: IdOrNone = ""
    extracted: list[ExtractedPart] = Field(default_factory=list, max_length=limits.FLUSHED_STATEMENTS)


class GivenVectorPart(LinePart):
    """An embedding that came with the memory."""

    model: str
    data: Data


class VectorPart(LinePart):
    """An embedding made by the service: the view of the memory, and the ordinal of the piece."""

    view: str = View.CHUNK.name
    ordinal: int = Field(default=0, strict=True, ge=0, le=MAX_ORDINAL)
    data: Data


class StatementPart(LinePart):
    """A statement of a memory."""

    rule: Rule
    topic: Summary
    parts: list[tuple[Tag, Summary]] = Field(max_length=limits.TAGS)
    is_negative: bool = False


# Types of the values in lines.


def _at_most(most: int) -> AfterValidator:
    """Return a validator for texts of at most *most* characters; texts with redacted secrets may be longer."""

    def check(text: str) -> str:
        if (fault := length_fault(text, most=most)) and _REDACTED not in text:
            raise ValueError(fault)
        return _plain(text)

    return AfterValidator(check)


def _once(acknowledged: list[AcknowledgedPart]) -> list[AcknowledgedPart]:
    if len({(one.day, one.slot) for one in acknowledged}) < len(acknowledged):
        message = "must have each day and slot once"
        raise ValueError(message)
    return acknowledged


def _plain(text: str) -> str:
    if fault := nul_fault(text):
        raise ValueError(fault)
    return text


def _require_name(text: str) -> str:
    if fault := control_fault(text):
        raise ValueError(fault)
    return text


def _key(text: str) -> str:
    if fault := fault_of(text):
        raise ValueError(fault)
    return text


@lru_cache(maxsize=1_000)
def zone_name(name: str) -> str:
    """Return the name of a time zone. An unknown one is accepted: the exporting machine may know it."""
    try:
        ZoneInfo(name or "UTC")
    except ZoneInfoNotFoundError:
        return name
    except (ValueError, OSError) as error:
        message = "must be the IANA name of a time zone such as 'Asia/Shanghai', or empty"
        raise ValueError(message) from error
    return name


def _moment(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        message = "must be between the years 1 and 9999 in UTC"
        raise ValueError(message) from None


def _json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object that can be serialised again: its numbers are doubles, and its texts contain no NUL."""
    if value:
        _to_json(value)
    return value


def _small(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if not value:
        return value
    text = _to_json(value)
    most = limits.METADATA_BYTES * (REDACTION_GROWTH if _REDACTED in text else 1)
    if len(text.encode()) > most:
        message = f"must take at most {limits.METADATA_BYTES} bytes as JSON"
        raise ValueError(message)
    if fault := json_depth_fault(_depth(value)):
        raise ValueError(fault)
    return value


def _to_json(value: dict[str, JsonValue]) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        message = "must hold finite numbers only"
        raise ValueError(message) from None
    if _SUSPECT.search(text):
        _inspect(value)
    return text


def _inspect(value: JsonValue) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _plain(name)
            _inspect(inner)
    elif isinstance(value, list):
        for inner in value:
            _inspect(inner)
    elif isinstance(value, str):
        _plain(value)
    elif isinstance(value, int) and not fits_json_number(value):
        message = "must hold numbers within the range of doubles only"
        raise ValueError(message)


def _depth(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _vector(text: object) -> bytes:
    try:
        raw = a2b_base64(text, strict_mode=True) if isinstance(text, str) else b""
    except ValueError:
        raw = b""
    numbers = np.frombuffer(raw if len(raw) % 4 == 0 else b"", dtype="<f4")
    # An empty array passes isfinite; any() also rejects it, and all zeros.
    if not (numbers.any() and np.isfinite(numbers).all()):
        message = "must be base64 of finite float32 numbers, not all of them 0"
        raise ValueError(message)
    return raw


Id = Annotated[str, StringConstraints(pattern=_UUID)]
HashOrNone = Annotated[str, StringConstraints(pattern=r"^$|^[0-9a-f]{64}$")]
IdOrNone = Annotated[str, StringConstraints(pattern=rf"^$|{_UUID}")]
Moment = Annotated[AwareDatetime, AfterValidator(_moment)]
# The sum is 0 for a negative zero, which not every database has.
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False), AfterValidator(lambda value: value + 0.0)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]
Number = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
SmallCount = Annotated[int, Field(strict=True, ge=0, le=MAX_SMALL_COUNT)]
TokenLimit = Annotated[int, Field(strict=True, ge=1, le=MAX_SMALL_COUNT)]
Size = Annotated[int, Field(strict=True, ge=0, le=limits.QUOTA)]
Revision = Annotated[int, Field(strict=True, ge=1, le=MAX_REVISION)]
Importance = Annotated[int, Field(strict=True, ge=limits.IMPORTANCE_MIN, le=limits.IMPORTANCE_MAX)]
Zone = Annotated[str, StringConstraints(max_length=limits.CHECKPOINT_NOTE), AfterValidator(zone_name)]
Acknowledgements = Annotated[list[AcknowledgedPart], AfterValidator(_once)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small)]
Arguments = Annotated[dict[str, JsonValue], AfterValidator(_json)]
Plain = AfterValidator(_plain)
Named = AfterValidator(_require_name)
ScopeId = Annotated[str, StringConstraints(max_length=limits.SCOPE_ID), Named]
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=limits.SCOPE_ID), Named]
CheckpointName = Annotated[str, StringConstraints(min_length=1, max_length=limits.CHECKPOINT), Named]
Note = Annotated[
    str, StringConstraints(max_length=REDACTION_GROWTH * limits.CHECKPOINT_NOTE), _at_most(limits.CHECKPOINT_NOTE)
]
FileCategory = Annotated[str, StringConstraints(pattern=rf"^(?:{'|'.join(FILE_CATEGORIES)})$")]
FileId = Annotated[str, StringConstraints(min_length=1, max_length=limits.FILE_REF_ID), Named]
FileName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=REDACTION_GROWTH * limits.FILE_NAME),
    Named,
    _at_most(limits.FILE_NAME),
]
MediaType = Annotated[str, StringConstraints(pattern=f"^{_TYPE}/{_TYPE}$", max_length=limits.MEDIA_TYPE)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Content = Annotated[
    str, StringConstraints(min_length=1, max_length=REDACTION_GROWTH * limits.CONTENT), _at_most(limits.CONTENT)
]
Key = Annotated[str, StringConstraints(max_length=limits.KEY), Named, AfterValidator(_key)]
Category = Annotated[str, StringConstraints(max_length=REDACTION_GROWTH * limits.CATEGORY), _at_most(limits.CATEGORY)]
Speaker = Annotated[str, StringConstraints(max_length=REDACTION_GROWTH * limits.SPEAKER), _at_most(limits.SPEAKER)]
Title = Annotated[str, StringConstraints(max_length=REDACTION_GROWTH * limits.TITLE), _at_most(limits.TITLE)]
Summary = Annotated[str, StringConstraints(max_length=REDACTION_GROWTH * limits.SUMMARY), _at_most(limits.SUMMARY)]
Source = Annotated[str, StringConstraints(max_length=REDACTION_GROWTH * limits.SOURCE), _at_most(limits.SOURCE)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=REDACTION_GROWTH * limits.TAG), _at_most(limits.TAG)]
Term = Annotated[str, StringConstraints(min_length=1, max_length=limits.KEYWORD), Plain]
Data = Annotated[bytes, BeforeValidator(_vector)]
"""The float32 bytes of a vector, base64-encoded in the line."""
