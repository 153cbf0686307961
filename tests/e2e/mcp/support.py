"""A real `memsvc mcp` process, asked by the SDK's own client over stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.server_process import ROOT

SECONDS = 120.0
"""What no answer needs; it only keeps a hang from lasting."""


@dataclass
class Program:
    """What clients start: the fixture of the tests puts in its place a program that starts no interpreter."""

    command: str = sys.executable
    arguments: tuple[str, ...] = ("-m", "memsvc")


PROGRAM = Program()


@dataclass
class Bridge:
    """An open session with a bridge."""

    portal: BlockingPortal
    session: ClientSession
    heard: list[Any] = field(default_factory=list)
    """The notifications that came."""

    def ask(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Ask the session and return the answer."""
        return self.portal.call(partial(method, *arguments, **named))

    def call(self, tool: str, **arguments: Any) -> types.CallToolResult:
        """Call a tool, which may fail."""
        return self.ask(self.session.call_tool, tool, arguments)

    def done(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that does not fail, and return what it says to programs."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return result.structured_content

    def said(self, tool: str, **arguments: Any) -> str:
        """Call a tool that does not fail, and return what it says to the model."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that fails, and return why."""
        result = self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        return text_of(result)


def text_of(result: types.CallToolResult) -> str:
    """Return what a tool says to the model."""
    assert [block.type for block in result.content] == ["text"]
    return result.content[0].text


def parameters(address: str, user: str, *options: str, env: Mapping[str, str] | None = None) -> StdioServerParameters:
    """Return how to start a bridge. It gets the variables that clients hand on, and *env*."""
    return StdioServerParameters(
        command=PROGRAM.command,
        args=[*PROGRAM.arguments, "mcp", "--address", address, "--user", user, *options],
        env={**_python(), **(env or {})},
        cwd=ROOT,
    )


def _python() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


@contextlib.contextmanager
def bridged(how: StdioServerParameters, errors: TextIO = sys.stderr) -> Iterator[Bridge]:
    """Start a bridge and open a session; leaving ends both. *errors* gets the bridge's stderr: a file that is real."""
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[ClientSession]:
        async with (
            stdio_client(how, errors) as streams,
            ClientSession(*streams, read_timeout_seconds=SECONDS, message_handler=hear) as session,
        ):
            await session.initialize()
            yield session

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened()) as session:
        yield Bridge(portal, session, heard)


@contextlib.contextmanager
def session(
    url: str, *, headers: Mapping[str, str] | Mapping[str, bytes] | None = None, auth: Any = None
) -> Iterator[Bridge]:
    """Open a session of the SDK's client."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[ClientSession]:
        async with (
            httpx2.AsyncClient(headers=headers, auth=auth, timeout=SECONDS) as client,
            streamable_http_client(url, http_client=client) as streams,
            ClientSession(*streams[:2]) as one,
        ):
            await one.initialize()
            yield one

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened()) as one:
        yield Bridge(portal, one)
