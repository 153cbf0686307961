"""A session: one conversation of a user, and the messages it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memsvc.domain.memory import Json, Memory, Origin, Status
from memsvc.domain.scope import Scope


class Role(StrEnum):
    """Who speaks in a message of a conversation with an agent."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL = "TOOL"


class SessionState(StrEnum):
    """Where a session is in its life; messages can be appended to an ACTIVE one only."""

    ACTIVE = "ACTIVE"
    CLOSED = "CLOSED"
    ARCHIVED = "ARCHIVED"


class OnOpen(StrEnum):
    """What opening a session does to the other active ones of its user and project."""

    ARCHIVE_OTHERS = "ARCHIVE_OTHERS"
    KEEP_OTHERS = "KEEP_OTHERS"


class AutoTrim(StrEnum):
    """Whether a session is trimmed by itself when it reaches its token limit."""

    AT_LIMIT = "AT_LIMIT"
    NEVER = "NEVER"


class MessageState(StrEnum):
    """What became of a message: it follows the status of its memory."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class SessionName:
    """What a session is known by: exact strings, under one owner, in one project."""

    owner: str
    project_id: str
    session_id: str

    @classmethod
    def from_scope(cls, scope: Scope) -> SessionName:
        """Return the name of the session that *scope* stands in."""
        return cls(scope.owner, scope.project_id, scope.session_id)


@dataclass(frozen=True, slots=True)
class Session:
    """One session, apart from its messages.

    Attributes:
        scope: Where it lives; the session's id is in it, and the agent that opened it.
        row: The store's own number for it, growing in the order of opening. It never leaves the process.
        token_limit: At how many tokens of live messages the session is full.
        last_ordinal: The place of its newest message, 0 when it has none.
        flushed_ordinal: The place of the last message that memories were extracted from; 0 when of none.
    """

    scope: Scope
    create_time: datetime
    update_time: datetime
    token_limit: int
    row: int = 0
    title: str = ""
    state: SessionState = SessionState.ACTIVE
    auto_trim: AutoTrim = AutoTrim.AT_LIMIT
    metadata: Mapping[str, Json] = field(default_factory=dict)
    last_ordinal: int = 0
    trim_count: int = 0
    last_message_time: datetime | None = None
    end_time: datetime | None = None
    trim_time: datetime | None = None
    flushed_ordinal: int = 0

    @property
    def name(self) -> SessionName:
        """Return what the session is known by."""
        return SessionName.from_scope(self.scope)


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """How many messages a session has and how many tokens they take; live ones are in use, archived ones are kept."""

    live_messages: int = 0
    live_tokens: int = 0
    archived_messages: int = 0
    archived_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """A session as an append finds it.

    Attributes:
        newest_row: The row of its newest message that is not deleted; None when it has none.
        live_tokens: How many tokens its live messages take.
        unflushed_tokens: How many of those were appended after the last message that was flushed.
    """

    session: Session
    newest_row: int | None
    live_tokens: int
    unflushed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class CountedSession:
    """A session with its counts."""

    session: Session
    counts: SessionCounts


ORIGINS: Mapping[Role, Origin] = {
    Role.SYSTEM: Origin.AGENT,
    Role.USER: Origin.USER,
    Role.ASSISTANT: Origin.AGENT,
    Role.TOOL: Origin.TOOL,
}
"""What class of source each role's words come from."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the assistant wants called."""

    id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message as a caller gives it.

    Attributes:
        name: Who speaks, by name.
        token_count: How many tokens it takes; None: to be counted.
        is_pinned: Whether trimming must leave it alone, as it does system messages.
    """

    role: Role
    content: str = ""
    name: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    token_count: int | None = None
    event_time: datetime | None = None
    is_pinned: bool = False
    metadata: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """What is stored of a message beside its memory, which holds the content.

    Attributes:
        row: The row of the memory.
        ordinal: The message's place in its session: 1 for the first, without gaps when appended, never reused.
        has_content: False: the message had none, and the memory's content stands for its tool calls.
        summary_id: The memory that sums it up, once it was trimmed away.
    """

    row: int
    ordinal: int
    role: Role
    token_count: int
    state: MessageState = MessageState.ACTIVE
    is_pinned: bool = False
    has_content: bool = True
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    summary_id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is stored."""

    record: MessageRecord
    memory: Memory


def message_state(status: Status) -> MessageState:
    """Return the state of a message whose memory has this status."""
    if status is Status.ACTIVE:
        return MessageState.ACTIVE
    return MessageState.DELETED if status is Status.DELETED else MessageState.ARCHIVED
