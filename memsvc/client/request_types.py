"""Arguments of the client: plain Python values, named as in the API. Enums are names without their prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Literal, Required, TypedDict

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import search_service_pb2 as search_pb

Layer = Literal["CORE", "SESSION", "SHORT_TERM", "LONG_TERM"]
Kind = Literal[
    "FACT",
    "PREFERENCE",
    "EXPERIENCE",
    "OPINION",
    "KNOWLEDGE",
    "DECISION",
    "TASK",
    "NOTE",
    "SUMMARY",
    "DOCUMENT",
    "SKILL",
    "MESSAGE",
]
Tier = Literal["CORE", "ACTIVE", "CONTEXTUAL", "ARCHIVED"]
Status = Literal["ACTIVE", "ARCHIVED", "EXPIRED", "SUPERSEDED", "CONFLICTED", "DELETED", "QUARANTINED"]
Origin = Literal["USER", "AGENT", "TOOL", "DOCUMENT", "IMPORT"]
Verdict = Literal["APPROVE", "REJECT"]
WatchStart = Literal["NOW", "OLDEST"]
WaitFor = Literal["STORED", "INDEXED"]
OnDuplicate = Literal["RETURN_EXISTING", "REJECT", "KEEP_BOTH"]
ConflictPolicy = Literal["MARK", "SUPERSEDE", "KEEP_BOTH"]
ConflictState = Literal["OPEN", "CONFIRMED", "REJECTED", "KEPT_BOTH", "CLOSED"]
Resolution = Literal["CONFIRM", "REJECT", "KEEP_BOTH"]
Role = Literal["SYSTEM", "USER", "ASSISTANT", "TOOL"]
LowerCaseRole = Literal["system", "user", "assistant", "tool"]
"""Roles as in messages for language models."""
Visibility = Literal["PROJECT_AND_GLOBAL", "PROJECT", "GLOBAL"]
SessionVisibility = Literal["CURRENT", "ALL"]
TimeField = Literal["CREATE_TIME", "UPDATE_TIME", "ACCESS_TIME", "EVENT_TIME"]
SearchMode = Literal["HYBRID", "SEMANTIC", "KEYWORD"]
WordMatch = Literal["WHOLE", "PREFIX", "SUBSTRING"]
Section = Literal["GLOBAL_CORE", "PROJECT_CORE", "SESSION", "LONG_TERM", "SHORT_TERM", "GLOBAL", "EVIDENCE", "FILES"]
CitationStyle = Literal["HANDLE", "MEMORY_ID"]
Index = Literal["VECTORS", "LEXICAL"]
Slot = Literal["MORNING", "AFTERNOON"]
Recurrence = Literal["NONE", "YEARLY", "MONTHLY", "WEEKLY"]
ReindexMode = Literal["REBUILD", "REPAIR"]
MaintenanceStep = Literal[
    "EXPIRE",
    "PROMOTE",
    "ARCHIVE",
    "COMPACT",
    "CONSOLIDATE",
    "DETECT_CONFLICTS",
    "SUMMARIZE",
    "CHECK_REFERENCES",
    "COMPARE_INDEXES",
    "REPLAY_USE",
    "PURGE",
]
UseOutcome = Literal["USED", "IGNORED", "WRONG"]

TimeRange = tuple[datetime | None, datetime | None]
"""From the first moment within to the first after; None leaves a side open."""


class AsOf(TypedDict, total=False):
    """A moment to look at: what was true then, what was known then. Times need a time zone."""

    valid_time: datetime
    known_time: datetime


class ReminderFields(TypedDict, total=False):
    """The reminder of a memory, as Reminder in reminder.proto.

    The date is a day, or a month and a day of every year; a day that is to come every year, month or week needs the
    recurrence YEARLY, MONTHLY or WEEKLY; *lunar* makes a yearly one recur by the Chinese lunisolar calendar.
    """

    date: Required[date | tuple[int, int]]
    time: time
    recurrence: Recurrence
    time_zone: str
    slot: Slot
    lunar: bool


class MemoryFields(TypedDict, total=False):
    """The fields of a memory beside its content. types.proto says what each means.

    Times need a time zone. Keywords without weights weigh 1. A file reference is a category and an id. The project,
    the agent and the session take the place of the client's own for this memory.
    """

    key: str
    layer: Layer
    kind: Kind
    category: str
    speaker: str
    title: str
    summary: str
    tags: Sequence[str]
    keywords: Mapping[str, float] | Sequence[str]
    related_ids: Sequence[str]
    file_refs: Sequence[tuple[str, str]]
    importance: int
    tier: Tier
    confidence: float
    event_time: datetime
    expire_time: datetime
    valid_from: datetime
    valid_to: datetime
    ttl: timedelta
    work_in_progress: bool
    source: str
    metadata: Mapping[str, Any]
    origin: Origin
    trust: float
    derived_from_ids: Sequence[str]
    reminder: ReminderFields | None
    project_id: str
    agent_id: str
    session_id: str


class NewMemory(MemoryFields, total=False):
    """A memory to be stored. The only status it can ask for withholds it for a review."""

    status: Literal["QUARANTINED"]


class Draft(NewMemory, total=False):
    """A memory to be stored together with others."""

    content: Required[str]
    vector: Sequence[float]


class Changes(MemoryFields, total=False):
    """New values of a memory. A field that is given is changed, also to nothing; one that is left out stays."""

    content: str
    status: Status
    vector: Sequence[float]


class CommonChanges(TypedDict, total=False):
    """New values that many memories get. A field that is given is changed, also to nothing; one left out stays."""

    layer: Layer
    kind: Kind
    category: str
    speaker: str
    title: str
    summary: str
    tags: Sequence[str]
    keywords: Mapping[str, float] | Sequence[str]
    importance: int
    tier: Tier
    confidence: float
    status: Status
    event_time: datetime
    expire_time: datetime
    valid_from: datetime
    valid_to: datetime
    ttl: timedelta
    source: str
    metadata: Mapping[str, Any]
    origin: Origin
    trust: float


class ToolCall(TypedDict, total=False):
    """A call of a tool, as ToolCall in types.proto. *file_refs* are pairs such as ("chart", "c1")."""

    id: str
    name: Required[str]
    arguments: Mapping[str, Any]
    file_refs: Sequence[tuple[str, str]]


class Message(TypedDict, total=False):
    """A message of a conversation, as ChatMessage in types.proto. Without a role it is the user's."""

    role: Role | LowerCaseRole
    content: str
    speaker: str
    event_time: datetime
    tool_calls: Sequence[ToolCall]
    tool_call_id: str
    token_count: int
    pinned: bool
    metadata: Mapping[str, Any]


class DocumentFields(MemoryFields, total=False):
    """Fields of a document beside its text: those of its memory, and *name*, its file name or path."""

    name: str
    key: str


class NumberRange(TypedDict, total=False):
    """Bounds of a number in metadata, as MetadataRange in filters.proto; at least one is given."""

    greater_than: float
    at_least: float
    less_than: float
    at_most: float


class Filters(TypedDict, total=False):
    """Filters of a read, as Filter in types.proto. All that are given must match."""

    layers: Sequence[Layer]
    kinds: Sequence[Kind]
    categories: Sequence[str]
    tiers: Sequence[Tier]
    statuses: Sequence[Status]
    tags_any: Sequence[str]
    tags_all: Sequence[str]
    create_time: TimeRange
    update_time: TimeRange
    access_time: TimeRange
    event_time: TimeRange
    valid_from: TimeRange
    valid_to: TimeRange
    include_not_valid: bool
    last_days: int
    last_days_field: TimeField
    min_importance: int
    max_importance: int
    min_confidence: float
    max_confidence: float
    project_visibility: Visibility
    agent_ids: Sequence[str]
    session_ids: Sequence[str]
    session_visibility: SessionVisibility
    speakers: Sequence[str]
    metadata: Mapping[str, str | float | bool | None]
    metadata_ranges: Mapping[str, NumberRange]
    key_prefix: str
    ids: Sequence[str]
    origins: Sequence[Origin]
    min_trust: float
    include_expired: bool
    where: filters_pb.FilterExpression


class SearchOptions(TypedDict, total=False):
    """Options of a search, as SearchRequest in search_service.proto; *fields* are the paths of its read_mask."""

    mode: SearchMode
    word_match: WordMatch
    limit: int
    filters: Filters
    time_range: TimeRange
    keywords: Sequence[str]
    vector: Sequence[float]
    fusion: search_pb.Fusion
    weighting: search_pb.Weighting
    min_score: float
    min_relevance: float
    judge_currency: bool
    use_feedback: bool
    snippet_chars: int
    diversity: search_pb.Diversity
    collapsing: search_pb.Collapsing
    reranking: search_pb.Reranking
    include_files: bool
    explain: bool
    fields: Sequence[str]
    as_of: AsOf
    page_token: str
    consistency_token: str


class ContextOptions(TypedDict, total=False):
    """Options of a context, as BuildContextRequest and ContextOptions in context.proto.

    The shares are those of core, session, short_term and long_term; the sections are names without their prefix.
    """

    total_tokens: int
    shares: Mapping[str, float]
    sections: Sequence[Section]
    filters: Filters
    relevant_limit: int
    min_score: float
    locale: str
    time_zone: str
    as_of: AsOf
    citation_style: CitationStyle
    first_handle: int
    use_feedback: bool
    vector: Sequence[float]
    consistency_token: str
    earlier_cursor: str


class Search(SearchOptions, total=False):
    """One of several searches."""

    query: str
