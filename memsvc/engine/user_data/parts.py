"""What the parts of a line of an exported user hold: those of a memory, and of a message."""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from memsvc.domain import limits
from memsvc.domain.conflicts import Rule
from memsvc.domain.index_entries import MAX_ORDINAL, View
from memsvc.domain.memory import Recurrence, Slot
from memsvc.domain.reminders import is_day
from memsvc.domain.sessions import MessageState, Role
from memsvc.engine.user_data.values import (
    Arguments,
    Content,
    Count,
    Data,
    FileCategory,
    FileId,
    IdOrNone,
    Moment,
    Number,
    Summary,
    Tag,
    Zone,
)  # fmt: skip

LAST_YEAR = 9999
"""A reminder that was written in a vault may be of any year, not only of those that the API takes."""


class Part(BaseModel):
    """What every part has in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class FileRefPart(Part):
    """A reference to a file."""

    category: FileCategory
    id: FileId


class ReminderPart(Part):
    """When a memory comes due."""

    year: int = Field(default=0, strict=True, ge=0, le=LAST_YEAR)
    month: int = Field(strict=True, ge=1, le=12)
    day: int = Field(strict=True, ge=1, le=31)
    recurrence: Recurrence = Recurrence.YEARLY
    minute: int | None = Field(default=None, strict=True, ge=0, lt=24 * 60)
    time_zone: Zone = ""
    slot: Slot | None = None
    phrase: Content | Literal[""] = ""

    @model_validator(mode="after")
    def _is_day(self) -> Self:
        yearly = self.recurrence is Recurrence.YEARLY
        if not is_day(0 if yearly else self.year, self.month, self.day) or not (yearly or self.year):
            message = "year, month and day must be a day of the calendar; one that does not recur needs its year"
            raise ValueError(message)
        return self


class AcknowledgedPart(Part):
    """For which day and part of it a reminder was given, and when that was noted."""

    day: date
    slot: Slot
    time: Moment


class ToolCallPart(Part):
    """A tool that was called."""

    id: str
    name: str
    arguments: Arguments = Field(default_factory=dict)


class MessagePart(Part):
    """The place of a memory among the messages of its session."""

    ordinal: Number
    role: Role
    token_count: Count
    state: MessageState
    is_pinned: bool = False
    is_empty: bool = False
    tool_calls: list[ToolCallPart] = Field(default_factory=list, max_length=limits.TOOL_CALLS)
    tool_call_id: str = ""
    summary_id: IdOrNone = ""


class GivenVectorPart(Part):
    """An embedding that came with the memory."""

    model: str
    data: Data


class VectorPart(Part):
    """An embedding that the service made: which view of the memory, which piece of it."""

    view: str = View.CHUNK.name
    ordinal: int = Field(default=0, strict=True, ge=0, le=MAX_ORDINAL)
    data: Data


class StatementPart(Part):
    """What a memory states."""

    rule: Rule
    topic: Summary
    parts: list[tuple[Tag, Summary]] = Field(max_length=limits.TAGS)
    is_negative: bool = False
