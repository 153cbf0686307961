"""Memories as resources, which people attach to a conversation by hand."""

from __future__ import annotations

from mcp import MCPError
from mcp import types as mcp

from memsvc.client import MemsvcCallError
from memsvc.domain import limits
from memsvc.mcp.connection import Link
from memsvc.mcp.errors import call_failed
from memsvc.mcp.formatting import DATA, described, lines, shown, whole

CORE = "memsvc://core"
MEMORY = "memsvc://memory/"
MARKDOWN = "text/markdown"


def listed() -> list[mcp.Resource]:
    """Return the resources that are always there."""
    return [
        mcp.Resource(
            name="core",
            uri=CORE,
            description="What always holds: core and active memories, preferences, and what is due.",
            mime_type=MARKDOWN,
        )
    ]


def templates() -> list[mcp.ResourceTemplate]:
    """Return how other resources are named."""
    return [
        mcp.ResourceTemplate(
            name="memory", uri_template=f"{MEMORY}{{id}}", description="One memory, by its id.", mime_type=MARKDOWN
        )
    ]


async def read(link: Link, uri: str) -> mcp.ReadResourceResult:
    """Return a resource.

    Raises:
        MCPError: There is none of this name, the scope does not see it, or the service cannot be asked.
    """
    try:
        text = await _text(link, uri)
    except MemsvcCallError as error:
        message = call_failed(error, link.place.address, "")
        raise MCPError(mcp.INVALID_PARAMS if error.code.name == "NOT_FOUND" else mcp.INTERNAL_ERROR, message) from error
    return mcp.ReadResourceResult(contents=[mcp.TextResourceContents(uri=uri, text=text, mime_type=MARKDOWN)])


async def _text(link: Link, uri: str) -> str:
    if uri == CORE:
        return await _core(link)
    if uri.startswith(MEMORY):
        memory = await link.call(lambda: link.here.get(uri.removeprefix(MEMORY)))
        return described(whole(memory, link.place, offset=0, most=limits.CONTENT))
    message = f"There is no resource {uri!r}; there are {CORE} and {MEMORY}ID."
    raise MCPError(mcp.INVALID_PARAMS, message)


async def _core(link: Link) -> str:
    found = await link.call(lambda: link.here.load_core(time_zone=link.place.time_zone))
    parts = []
    for heading, memories in (
        ("Core", found.core),
        ("Active", found.active),
        ("Preferences", found.preferences),
        ("Due", found.reminders),
    ):
        if memories:
            parts.append(f"## {heading} ({DATA})\n\n{lines(shown(memory, link.place) for memory in memories)}")
    return "\n\n".join(parts) or "Nothing is remembered."
