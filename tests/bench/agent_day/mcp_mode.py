"""The mode mcp: facts are stored by the tool remember and asked by the tool context, as an MCP client does."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.bench.agent_day.scenarios import ScriptedUser
from tests.bench.server import Server

SECONDS = 60.0
KINDS = {"FACT": "FACT", "PREFERENCE": "PREFERENCE", "INSTRUCTION": "PREFERENCE", "TASK": "TASK"}


class McpToolError(Exception):
    """A tool failed; the message is what it says to the model."""


@asynccontextmanager
async def mcp_session(server: Server, user: ScriptedUser, project: str) -> AsyncIterator[ClientSession]:
    """Yield a session with `memsvc mcp` for a user and project."""
    options = ["mcp", "--address", server.address, "--user", user.name, "--project", project]
    options += ["--locale", "zh" if user.language == "zh" else "en"]
    command = StdioServerParameters(command=str(Path(sys.executable).parent / "memsvc"), args=options)
    async with stdio_client(command) as streams, ClientSession(*streams, read_timeout_seconds=SECONDS) as session:
        await session.initialize()
        yield session


async def tell_by_mcp(server: Server, user: ScriptedUser, project: str, notes: Sequence[str]) -> None:
    """Call remember for each fact as an agent writes it, among *notes* about other things."""
    moments = {one.fact: one.moment for messages in user.sessions for one in messages if one.fact}
    left = iter(notes)
    each = -(-len(notes) // len(user.facts))
    async with mcp_session(server, user, project) as session:
        for fact in user.facts.values():
            happened = moments[fact.id].isoformat()
            for _ in range(each):
                if note := next(left, ""):
                    await call(session, "remember", content=note, kind="NOTE", happened=happened)
            await call(session, "remember", content=fact.write, kind=KINDS[fact.kind], happened=happened)


async def contexts_by_mcp(
    server: Server, user: ScriptedUser, project: str, questions: Sequence[str], tokens: int
) -> list[str]:
    """Return what context says about each question."""
    async with mcp_session(server, user, project) as session:
        return [await call(session, "context", query=question, max_tokens=tokens) for question in questions]


async def call(session: ClientSession, tool: str, **arguments: Any) -> str:
    """Return what a tool says to the model.

    Raises:
        McpToolError: It failed.
    """
    result = await session.call_tool(tool, arguments)
    said = "".join(block.text for block in result.content if block.type == "text")
    if result.is_error:
        raise McpToolError(said)
    return said
