"""What each line of an exported user holds: the fields, and what is right for them.

What checks them is built when the first import comes: at the start of a service it would take a quarter of a second.
"""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictState
from memsvc.domain.entries import MAX_ORDINAL, View
from memsvc.domain.files import FileCategory as KnownCategory
from memsvc.domain.indexing import ChangeAction
from memsvc.domain.memory import Kind, Layer, Origin, Review, Status, Tier
from memsvc.domain.reminder import Recurrence, Slot
from memsvc.domain.reminders import YEARS, is_day
from memsvc.domain.session import AutoTrim, MessageState, Role, SessionState
from memsvc.domain.statements import Rule
from memsvc.engine.transfer.values import (
    LARGEST,
    Category,
    CheckpointName,
    Content,
    Count,
    Data,
    FileCategory,
    FileId,
    FileName,
    Id,
    IdOrNone,
    Key,
    MediaType,
    Metadata,
    Moment,
    Note,
    ScopeId,
    SessionId,
    Sha256,
    Share,
    Source,
    Speaker,
    Summary,
    Tag,
    Term,
    Title,
)


class Line(BaseModel):
    """What every line has."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    record: str


class EmbeddingSpace(BaseModel):
    """The model that vectors are of, and the version of the texts that were embedded."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    model: str
    dimension: int = Field(ge=1, le=100_000)
    analysis: str
    tier: str = "S"


class HeaderLine(Line):
    """The first line."""

    format: str
    version: int
    user_id: str = ""
    create_time: Moment
    service: str = ""
    counts: dict[str, Count] = Field(default_factory=dict)
    embedding: EmbeddingSpace | None = None


class FooterLine(Line):
    """The last line."""

    lines: Count
    counts: dict[str, Count]
    sha256: str


class FileRefPart(BaseModel):
    """A reference to a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    category: FileCategory
    id: FileId


class ReminderPart(BaseModel):
    """When a memory comes due."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    year: int = Field(default=0, ge=0, le=YEARS[1])
    month: int = Field(ge=1, le=12)
    day: int = Field(ge=1, le=31)
    recurrence: Recurrence = Recurrence.YEARLY
    minute: int | None = Field(default=None, ge=0, lt=24 * 60)
    time_zone: Note = ""
    slot: Slot | None = None
    phrase: Content | Literal[""] = ""

    @model_validator(mode="after")
    def _is_day(self) -> Self:
        yearly = self.recurrence is Recurrence.YEARLY
        if not is_day(0 if yearly else self.year, self.month, self.day) or not (yearly or self.year):
            message = "year, month and day must be a day of the calendar; one that does not recur needs its year"
            raise ValueError(message)
        return self


class AcknowledgedPart(BaseModel):
    """For which day and part of it a reminder was given, and when that was noted."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    day: date
    slot: Slot
    time: Moment


class MemoryFields(Line):
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
    tags: list[Tag] = Field(default_factory=list, max_length=limits.TAGS)
    keywords: list[tuple[Term, Share]] = Field(default_factory=list, max_length=limits.KEYWORDS)
    related_ids: list[Id] = Field(default_factory=list, max_length=limits.RELATED_IDS)
    derived_from: list[Id] = Field(default_factory=list, max_length=limits.DERIVED_FROM)
    file_refs: list[FileRefPart] = Field(default_factory=list, max_length=limits.FILE_REFS)
    metadata: Metadata = Field(default_factory=dict)
    supersedes_id: IdOrNone = ""
    superseded_by_id: IdOrNone = ""
    access_count: Count = 0
    work_in_progress: bool = False
    reminder: ReminderPart | None = None
    action: ChangeAction


class ToolCallPart(BaseModel):
    """A tool that was called."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class MessagePart(BaseModel):
    """The place of a memory among the messages of its session."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    ordinal: int = Field(ge=1, le=LARGEST)
    role: Role
    token_count: int = Field(ge=0, le=LARGEST)
    state: MessageState
    is_pinned: bool = False
    is_empty: bool = False
    tool_calls: list[ToolCallPart] = Field(default_factory=list, max_length=limits.TOOL_CALLS)
    tool_call_id: str = ""
    summary_id: IdOrNone = ""


class GivenVectorPart(BaseModel):
    """An embedding that came with the memory."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    model: str
    data: Data


class VectorPart(BaseModel):
    """An embedding that the service made: which view of the memory, which piece of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    view: str = View.CHUNK.name
    ordinal: int = Field(default=0, ge=0, le=MAX_ORDINAL)
    data: Data


class StatementPart(BaseModel):
    """What a memory states."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    rule: Rule
    topic: Summary
    parts: list[tuple[Tag, Summary]] = Field(max_length=limits.TAGS)
    is_negative: bool = False


class MemoryLine(MemoryFields):
    """A memory."""

    claims_content: bool = False
    previous_id: IdOrNone = ""
    message: MessagePart | None = None
    statements: list[StatementPart] = Field(default_factory=list, max_length=limits.STATEMENTS)
    given_vector: GivenVectorPart | None = None
    vectors: list[VectorPart] = Field(default_factory=list)
    acknowledged: list[AcknowledgedPart] = Field(default_factory=list, max_length=10_000)


class RevisionLine(MemoryFields):
    """An earlier revision of the memory before it."""


class SessionLine(Line):
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
    metadata: Metadata = Field(default_factory=dict)
    last_message_time: Moment | None = None
    end_time: Moment | None = None
    trim_time: Moment | None = None


class ConflictLine(Line):
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


class CheckpointLine(Line):
    """A checkpoint."""

    id: CheckpointName
    project_id: ScopeId = ""
    known_time: Moment
    create_time: Moment
    note: Note = ""


class FileLine(Line):
    """What is known of a file; its bytes are not in an export."""

    optional: bool = True
    id: Id
    project_id: ScopeId = ""
    agent_id: ScopeId = ""
    session_id: ScopeId = ""
    category: KnownCategory
    name: FileName
    media_type: MediaType
    size_bytes: Count
    sha256: Sha256
    create_time: Moment
    expire_time: Moment | None = None
    metadata: Metadata = Field(default={})


class TombstoneLine(Line):
    """What is left of a purged memory."""

    id: Id
    project_id: ScopeId = ""
    session_id: ScopeId = ""
    create_time: Moment
    time: Moment
