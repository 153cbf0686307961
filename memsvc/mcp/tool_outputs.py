"""What the tools return for programs, beside the text for the model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memsvc.mcp.tool_inputs import Answer


class Shown(Answer):
    """A memory in a list."""

    id: str
    text: str
    date: str
    kind: str
    importance: int
    score: float | None = None
    key: str = ""
    tags: list[str] = Field(default_factory=list)
    origin: str = ""


class Shows(Answer):
    """Memories; *note* tells what is missing."""

    memories: list[Shown]
    note: str = ""


class Contradiction(Answer):
    """An older memory that the new one contradicts."""

    memory_id: str
    text: str


class Remembered(Answer):
    """What a write did."""

    id: str
    outcome: Literal["CREATED", "UPDATED", "DUPLICATE"]
    revision: int
    contradicts: list[Contradiction] = Field(default_factory=list)
    redacted: int = 0


class Whole(Answer):
    """A memory with its text, or with the part of it that was asked for."""

    id: str
    content: str
    revision: int
    kind: str
    layer: str
    status: str
    importance: int
    date: str
    origin: str
    key: str = ""
    title: str = ""
    tags: list[str] = Field(default_factory=list)
    project: str = ""
    next_offset: int | None = None


class Forgotten(Answer):
    """What became of a memory."""

    id: str
    state: Literal["DELETED", "REMOVED", "RESTORED"]


class Statement(Answer):
    """What became of a statement."""

    text: str
    remembered: bool
    reason: str
    id: str = ""


class Captured(Answer):
    """What became of what was said."""

    statements: list[Statement]
    redacted: int = 0
    note: str = ""


class Due(Answer):
    """A memory that is due."""

    id: str
    text: str
    date: str


class Dues(Answer):
    """What is due, and what was acknowledged."""

    due: list[Due]
    acknowledged: list[str] = Field(default_factory=list)
