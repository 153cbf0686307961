"""The tools: few, and each described in as few words as tell a model when to use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mcp import types as mcp
from pydantic import ValidationError

from memsvc.client import MemsvcCallError
from memsvc.mcp import formatting, read_tools, tool_inputs, write_tools
from memsvc.mcp.connection import Link
from memsvc.mcp.errors import call_failed, refused
from memsvc.mcp.tool_inputs import Answer, Arguments, Progress, Reply, ToolCall, schema_of

Work = Callable[[ToolCall, Any], Awaitable[Reply]]

READS = mcp.ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = mcp.ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Equal content is stored once and what is known is not captured again, so a repetition changes nothing more."""
DESTROYS = mcp.ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool.

    Attributes:
        name: As which it is called.
        description: When a model should use it, and what comes back.
        arguments: What it takes.
        answer: What it returns for programs; None: the text is all.
        hints: Whether it changes something.
        work: What it does.
    """

    name: str
    description: str
    arguments: type[Arguments]
    answer: type[Answer] | None
    hints: mcp.ToolAnnotations
    work: Work

    @property
    def is_read_only(self) -> bool:
        """Return whether it changes nothing."""
        return bool(self.hints.read_only_hint)

    def described(self) -> mcp.Tool:
        """Return it as a client lists it."""
        return mcp.Tool(
            name=self.name,
            description=self.description,
            input_schema=schema_of(self.arguments),
            output_schema=None if self.answer is None else schema_of(self.answer),
            annotations=self.hints,
        )


TOOLS = (
    OfferedTool(
        "context",
        "What is known for the task at hand, as Markdown: rules that always hold, and what fits the query. Call it "
        "once when a conversation or task begins.",
        tool_inputs.Context,
        None,
        READS,
        read_tools.context,
    ),
    OfferedTool(
        "recall",
        "Search memories by meaning and words, in any language. Use before you answer what may depend on the past.",
        tool_inputs.Recall,
        formatting.Shows,
        READS,
        read_tools.recall,
    ),
    OfferedTool(
        "remember",
        "Store what will matter later: a preference, decision with its reason, lasting fact, plan. No secrets. Equal "
        "content is stored once. Returns the memories that it contradicts.",
        tool_inputs.Remember,
        formatting.Remembered,
        ADDS,
        write_tools.remember,
    ),
    OfferedTool(
        "capture",
        "Pass what was said; the service stores what is worth remembering.",
        tool_inputs.Capture,
        formatting.Captured,
        ADDS,
        write_tools.capture,
    ),
    OfferedTool(
        "get_memory",
        "A memory in full, by its citation [m3] or [mem:ID].",
        tool_inputs.GetMemory,
        formatting.Whole,
        READS,
        read_tools.get_memory,
    ),
    OfferedTool("recent", "The newest memories.", tool_inputs.Recent, formatting.Shows, READS, read_tools.recent),
    OfferedTool(
        "update_memory",
        "Correct a memory; what is left out stays. For what has become untrue use remember with replaces.",
        tool_inputs.UpdateMemory,
        formatting.Remembered,
        DESTROYS,
        write_tools.update_memory,
    ),
    OfferedTool(
        "forget",
        "Delete a memory when the user asks for it or it is wrong, or undo that.",
        tool_inputs.Forget,
        formatting.Forgotten,
        DESTROYS,
        write_tools.forget,
    ),
    OfferedTool(
        "conflicts",
        "Memories that contradict each other, and what to ask the user.",
        tool_inputs.Conflicts,
        formatting.OpenConflicts,
        READS,
        read_tools.conflicts,
    ),
    OfferedTool(
        "resolve_conflict",
        "Settle a conflict as the user says.",
        tool_inputs.ResolveConflict,
        formatting.Resolved,
        DESTROYS,
        write_tools.resolve_conflict,
    ),
    OfferedTool(
        "reminders",
        "Today, and what is due, overdue or due in days_ahead.",
        tool_inputs.Reminders,
        formatting.Dues,
        ADDS,
        write_tools.reminders,
    ),
)


def offered(*, read_only: bool) -> Mapping[str, OfferedTool]:
    """Return the tools by name, or those that change nothing."""
    return {tool.name: tool for tool in TOOLS if tool.is_read_only or not read_only}


async def called(tool: OfferedTool, link: Link, given: Mapping[str, Any], progress: Progress) -> mcp.CallToolResult:
    """Do what a tool does. Errors are returned to the model, so that it can correct itself."""
    request_id = ""
    try:
        wanted = tool.arguments.model_validate(dict(given), context=link.handles.memory_ids)
        if not tool.is_read_only:
            request_id = getattr(wanted, "request_id", "") or str(uuid4())
        reply = await tool.work(ToolCall(link, request_id, progress), wanted)
    except ValidationError as error:
        return _failed(refused(error))
    except MemsvcCallError as error:
        return _failed(call_failed(error, link.place.address, request_id))
    except ValueError as error:
        return _failed(f"Nothing was done. {error}")
    text = "\n".join((reply.text, *(notice for notice in link.notices.take() if notice not in reply.text)))
    return mcp.CallToolResult(
        content=[mcp.TextContent(type="text", text=text)],
        structured_content=None if reply.answer is None else reply.answer.told(),
    )


def _failed(message: str) -> mcp.CallToolResult:
    return mcp.CallToolResult(content=[mcp.TextContent(type="text", text=message)], is_error=True)
