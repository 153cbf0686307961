"""A session: one conversation of a user, and the messages it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memsvc.domain import limits
from memsvc.domain.field_rules import name_fault
from memsvc.domain.files import FILE_CATEGORIES
from memsvc.domain.memory import FileRef, Json, Memory, Origin, Status
from memsvc.domain.scope import Scope

SOURCE = "session"
"""What `Memory.source` says of messages, and of the summaries of those that were trimmed."""


class Role(StrEnum):
    """Role of the speaker of a message."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"
    TOOL = "TOOL"


class SessionState(StrEnum):
    """State of a session; messages can be appended to an ACTIVE one only."""

    ACTIVE = "ACTIVE"
    CLOSED = "CLOSED"
    ARCHIVED = "ARCHIVED"


class OnOpen(StrEnum):
    """Effect of opening a session on the other active ones of its user and project."""

    ARCHIVE_OTHERS = "ARCHIVE_OTHERS"
    KEEP_OTHERS = "KEEP_OTHERS"


class AutoTrim(StrEnum):
    """Trimming policy of a session that reaches its token limit."""

    AT_LIMIT = "AT_LIMIT"
    NEVER = "NEVER"


class MessageState(StrEnum):
    """State of a message; it follows the status of its memory."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class SessionName:
    """Identity of a session: exact strings, under one owner, in one project."""

    owner: str
    project_id: str
    session_id: str

    @classmethod
    def from_scope(cls, scope: Scope) -> SessionName:
        """Return the name of the session of *scope*."""
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
    """Counts of messages and tokens of a session; live ones are in use, archived ones are kept."""

    live_messages: int = 0
    live_tokens: int = 0
    archived_messages: int = 0
    archived_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SessionStatus:
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
    file_refs: tuple[FileRef, ...] = ()

    @property
    def files(self) -> tuple[FileRef, ...]:
        """Return the files that the call returned, each once: its references, and the file that its arguments mark."""
        marked = _marked_file(self.arguments)
        return self.file_refs if marked is None or marked in self.file_refs else (*self.file_refs, marked)


def _marked_file(arguments: Mapping[str, Json]) -> FileRef | None:
    """Return the file of arguments with the `response_format` "file_ref": their `category` and `file_id`."""
    category, file_id = arguments.get("category"), arguments.get("file_id")
    if arguments.get("response_format") != "file_ref" or not (isinstance(category, str) and isinstance(file_id, str)):
        return None
    is_ref = category in FILE_CATEGORIES and not name_fault(file_id, most=limits.FILE_REF_ID, least=1)
    return FileRef(category, file_id) if is_ref else None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message as a caller gives it.

    Attributes:
        speaker: Name of the speaker.
        token_count: How many tokens it takes; None: to be counted.
        is_pinned: Whether trimming must leave it alone, as it does system messages.
    """

    role: Role
    content: str = ""
    speaker: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    token_count: int | None = None
    event_time: datetime | None = None
    is_pinned: bool = False
    metadata: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class ExtractedMemory:
    """A memory that was extracted from a message, or that stated the same already.

    Attributes:
        content_hash: The hash of its content at that time; empty if the message says something else, because another
            message corrected it.
    """

    memory_id: str
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """Session data of a message; its memory holds the content.

    Attributes:
        row: The row of the memory.
        ordinal: The message's place in its session: 1 for the first, without gaps when appended, never reused.
        has_content: False: the message had none, and the memory's content describes its tool calls.
        summary_id: The memory that sums it up, once it was trimmed away.
        extracted: The memories that were extracted from it, in order.
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
    extracted: tuple[ExtractedMemory, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is stored."""

    record: MessageRecord
    memory: Memory

    @property
    def speaker(self) -> str:
        """Return the speaker: the name, or else the role."""
        return self.memory.speaker or self.record.role.value.lower()


def message_state(status: Status) -> MessageState:
    """Return the state of a message whose memory has this status."""
    if status is Status.ACTIVE:
        return MessageState.ACTIVE
    return MessageState.DELETED if status is Status.DELETED else MessageState.ARCHIVED


# Selection of the messages that a trim removes.


def dropped_ordinals(
    messages: Sequence[MessageRecord], *, target_tokens: int, keep_rounds: int, keep_last: bool = False
) -> list[int]:
    """Return which of a session's live *messages*, given by ordinal, to drop so that at most *target_tokens* remain.

    The oldest go first. System messages, pinned ones and the last *keep_rounds* rounds stay, even when that is more
    than the target; a round begins with a user's message. What a tool answered goes with the message that called it.
    *keep_last* keeps the last message as well, with what its tools answered, when no round does.
    """
    first_kept = _first_kept(messages, keep_rounds)
    if keep_last and messages:
        first_kept = min(first_kept, len(messages) - len(_units(messages)[-1]))
    return _units_to_drop(_units(messages[:first_kept]), _tokens(messages) - target_tokens)


def _units_to_drop(units: Sequence[Sequence[MessageRecord]], excess: int) -> list[int]:
    """Return the first of *units* that are not protected, until they take *excess* tokens."""
    dropped: list[int] = []
    for unit in units:
        if excess <= 0:
            break
        if any(_is_protected(message) for message in unit):
            continue
        dropped += [message.ordinal for message in unit]
        excess -= _tokens(unit)
    return dropped


def _tokens(messages: Sequence[MessageRecord]) -> int:
    return sum(message.token_count for message in messages)


def _is_protected(message: MessageRecord) -> bool:
    return message.is_pinned or message.role is Role.SYSTEM


def _first_kept(messages: Sequence[MessageRecord], keep_rounds: int) -> int:
    """Return the index of the first message of the last *keep_rounds* rounds."""
    begins = [index for index, message in enumerate(messages) if message.role is Role.USER]
    return begins[-min(keep_rounds, len(begins))] if begins and keep_rounds else len(messages)


def _takes_answers(message: MessageRecord) -> bool:
    """Return whether a tool's answer goes, or stays, with the message before it: a pinned call keeps its answers."""
    return message.role is Role.ASSISTANT or not (message.role is Role.TOOL or _is_protected(message))


def _units(messages: Sequence[MessageRecord]) -> list[list[MessageRecord]]:
    """Return the messages with what the tools they called answered."""
    units: list[list[MessageRecord]] = []
    for message in messages:
        if message.role is Role.TOOL and units and _takes_answers(units[-1][0]):
            units[-1].append(message)
        else:
            units.append([message])
    return units
