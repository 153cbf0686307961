"""Capture of statements: requests and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memsvc.domain.conflicts import Contradiction
from memsvc.domain.memory import FileRef, Kind, Layer, Memory
from memsvc.domain.sessions import Role, ToolCall
from memsvc.domain.write_requests import Outcome, Redaction, WriteResult

CONVERSATION = "conversation"
"""The source of memories that are extracted from a conversation."""
KNOWLEDGE_CATEGORIES: Mapping[Kind, str] = {
    Kind.FACT: "world",
    Kind.KNOWLEDGE: "world",
    Kind.DECISION: "world",
    Kind.TASK: "world",
    Kind.NOTE: "world",
    Kind.EXPERIENCE: "experience",
    Kind.OPINION: "opinions",
    Kind.PREFERENCE: "opinions",
}
"""Whether a memory is a fact of the world (W), an experience (B) or an opinion (O)."""


class CaptureReason(StrEnum):
    """Why a statement is remembered, or why not."""

    PREFERENCE = "PREFERENCE"
    RULE = "RULE"
    PERSONAL_FACT = "PERSONAL_FACT"
    PROJECT_FACT = "PROJECT_FACT"
    DECISION = "DECISION"
    KNOWLEDGE = "KNOWLEDGE"
    EXPERIENCE = "EXPERIENCE"
    OPINION = "OPINION"
    TASK = "TASK"
    ASKED = "ASKED"
    FACT = "FACT"
    QUESTION = "QUESTION"
    COMMAND = "COMMAND"
    SMALL_TALK = "SMALL_TALK"
    PASSING = "PASSING"
    NOTHING = "NOTHING"
    RECALLED = "RECALLED"
    KNOWN = "KNOWN"
    ROLE = "ROLE"
    CODE = "CODE"
    FORGET = "FORGET"
    QUOTED = "QUOTED"


REMEMBERING = frozenset(
    {
        CaptureReason.PREFERENCE,
        CaptureReason.RULE,
        CaptureReason.PERSONAL_FACT,
        CaptureReason.PROJECT_FACT,
        CaptureReason.DECISION,
        CaptureReason.KNOWLEDGE,
        CaptureReason.EXPERIENCE,
        CaptureReason.OPINION,
        CaptureReason.TASK,
        CaptureReason.ASKED,
        CaptureReason.FACT,
    }
)
"""The reasons to remember; the others are reasons not to."""


class Decider(StrEnum):
    """Author of a capture decision."""

    RULES = "RULES"
    LANGUAGE_MODEL = "LANGUAGE_MODEL"


@dataclass(frozen=True, slots=True)
class CaptureVerdict:
    """Decision about one statement.

    Attributes:
        detail: The same as the reason for people: the words that led to it.
        is_global: Whether it holds outside every project. The other fields count only for what is remembered.
    """

    remember: bool
    reason: CaptureReason
    detail: str = ""
    is_global: bool = False
    layer: Layer = Layer.LONG_TERM
    kind: Kind = Kind.FACT
    category: str = ""
    importance: int = 3
    title: str = ""
    tags: tuple[str, ...] = ()

    @classmethod
    def ignore(cls, reason: CaptureReason, detail: str) -> CaptureVerdict:
        """Return the verdict that a statement is not to be remembered."""
        return cls(remember=False, reason=reason, detail=detail)


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """One thing that was said, by whom, and when.

    Attributes:
        place: Which of the things that were handed in together it belongs to: the index of its message.
        is_code: Whether it is fenced program code.
        is_quoted: Whether it was quoted or pasted: its speaker need not assert it.
    """

    text: str
    role: Role = Role.USER
    place: int = 0
    speaker: str = ""
    event_time: datetime | None = None
    is_code: bool = False
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: Role
    content: str
    speaker: str = ""
    event_time: datetime | None = None
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def files(self) -> tuple[FileRef, ...]:
        """Return the files that its tool calls returned, each once."""
        return tuple(dict.fromkeys(ref for call in self.tool_calls for ref in call.files))


@dataclass(frozen=True, slots=True)
class Decision:
    """A statement with what became of it.

    Attributes:
        memory: The memory that holds it; without an id when it was not stored.
        outcome: None when nothing was written.
        conflicts: What it contradicts.
    """

    text: str
    remember: bool
    reason: CaptureReason
    detail: str
    memory: Memory | None = None
    outcome: Outcome | None = None
    conflicts: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """Result of a capture.

    Attributes:
        notice: Why the language model did not decide although there is one; empty when all is well.
        position: The outbox position at which indexes know what was stored; 0 when nothing was to be stored.
    """

    decisions: tuple[Decision, ...]
    redactions: tuple[Redaction, ...]
    decider: Decider
    notice: str
    position: int


@dataclass(frozen=True, slots=True)
class FlushResult:
    """Result of a flush. The other fields are as in `CaptureResult`."""

    written: tuple[WriteResult, ...]
    file_refs: tuple[FileRef, ...]
    ignored: int
    recalled: int
    redactions: tuple[Redaction, ...]
    decider: Decider
    notice: str
    position: int

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Return the memories alone."""
        return tuple(one.memory for one in self.written)
