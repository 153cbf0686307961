"""What a tool's work gets and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from memsvc.mcp.connection import Link
from memsvc.mcp.tool_inputs import Answer

Progress = Callable[[float, str], Awaitable[None]]
"""Tells the client that a call goes on: a growing number, and a word."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        link: The service to ask.
        request_id: What makes a repetition of a change safe: the client's, or one made for this call.
        progress: Tells how far it is.
    """

    link: Link
    request_id: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool says: the text for the model, and the same for programs."""

    text: str
    answer: Answer | None = None
