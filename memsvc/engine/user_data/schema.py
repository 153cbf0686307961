"""What each line of an exported user holds: the fields, and what is right for them.

What checks them is built when the first import comes: at the start of a service it would take a quarter of a second.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictState, Rule
from memsvc.domain.files import FileCategory as KnownCategory
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Layer, Origin, Review, Status, Tier
from memsvc.domain.sessions import AutoTrim, SessionState
from memsvc.engine.user_data.parts import (
    AcknowledgedPart,
    FileRefPart,
    GivenVectorPart,
    MessagePart,
    ReminderPart,
    StatementPart,
    VectorPart,
)  # fmt: skip
from memsvc.engine.user_data.values import (
    Category,
    CheckpointName,
    Content,
    Count,
    FileName,
    Id,
    IdOrNone,
    Importance,
    Key,
    MediaType,
    Metadata,
    Moment,
    Note,
    Number,
    Revision,
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
    derived_from: list[Id] = Field(default_factory=list, max_length=limits.DERIVED_FROM)
    file_refs: list[FileRefPart] = Field(default_factory=list, max_length=limits.FILE_REFS)
    metadata: Metadata = Field(default_factory=dict)
    supersedes_id: IdOrNone = ""
    superseded_by_id: IdOrNone = ""
    access_count: Count = 0
    work_in_progress: bool = False
    reminder: ReminderPart | None = None
    action: ChangeAction


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
    token_limit: Number
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
