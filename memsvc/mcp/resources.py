"""Memories as resources, which people attach to a conversation by hand."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import MCPError
from mcp import types as mcp
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from memsvc.client import MemsvcCallError
from memsvc.domain import limits
from memsvc.mcp.connection import Link
from memsvc.mcp.errors import call_failed
from memsvc.mcp.formatting import DATA, described, lines, marked, shown, whole
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

if TYPE_CHECKING:
    from mcp.server.session import ServerSession


CORE = "memsvc://core"
MEMORY = "memsvc://memory/"
MARKDOWN = "text/markdown"
_OF_THE_REQUEST = frozenset({"NOT_FOUND", "INVALID_ARGUMENT"})
"""Codes of the service that say that the client named something wrong."""


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
        is_request = error.code.name in _OF_THE_REQUEST
        raise MCPError(mcp.INVALID_PARAMS if is_request else mcp.INTERNAL_ERROR, message) from error
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
    marks = {one.memory_id: one for one in found.currencies}
    parts = []
    for heading, memories in (
        ("Core", found.core),
        ("Active", found.active),
        ("Preferences", found.preferences),
        ("Due", found.reminders),
    ):
        if memories:
            judged = (marked(shown(memory, link.place), marks.get(memory.id)) for memory in memories)
            parts.append(f"## {heading} ({DATA})\n\n{lines(judged)}")
    if found.incomplete:
        parts.append("There are more memories that always hold than are shown here.")
    return "\n\n".join(parts) or "Nothing is remembered."


# Notifications of changed resources, from the service's own watch.


log = logging.getLogger(__name__)

_LOADED_TIERS = frozenset({types_pb.MEMORY_TIER_CORE, types_pb.MEMORY_TIER_ACTIVE})
_GOES_ON = frozenset({"UNAVAILABLE", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"})
"""After these a watch can be started again; the others are permanent, such as a revoked key."""
_MOST_SESSIONS = 64
"""Sessions of a caller that one resource is watched for, the latest ones."""
SEND_SECONDS = 5.0
"""A session that has not taken a notification after so long is subscribed no more: the others wait for it."""


class Updates:
    """Subscriptions by resource, and the watch that serves them; it starts with the first subscription."""

    def __init__(self, link: Link) -> None:
        """Watch nothing yet."""
        self.bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self.bus)
        self._link = link
        self._subscribed: dict[str, dict[str, ServerSession]] = {}
        self._listened: Counter[str] = Counter()
        self._watching: asyncio.Task[None] | None = None
        self._started = asyncio.Event()

    async def begin(self) -> None:
        """Return when no change is missed any more, or after the place's patience: then the watch goes on trying."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(self._link.place.patience_seconds):
                await self._started.wait()
        except TimeoutError:
            log.warning("the service cannot be reached, resources are watched from when it can")

    async def subscribe(self, uri: str, session_id: str, session: ServerSession) -> None:
        """Tell a client of an older protocol of every change of a resource; a caller may have several sessions."""
        sessions = self._subscribed.setdefault(uri, {})
        sessions.pop(session_id, None)
        sessions[session_id] = session
        if len(sessions) > _MOST_SESSIONS:
            del sessions[next(iter(sessions))]
        await self.begin()

    def unsubscribe(self, uri: str, session_id: str) -> None:
        """Tell it no more."""
        sessions = self._subscribed.get(uri, {})
        sessions.pop(session_id, None)
        if not sessions:
            self._subscribed.pop(uri, None)

    async def listen(self, context: Any, params: mcp.SubscriptionsListenRequestParams) -> mcp.SubscriptionsListenResult:
        """Tell a client of a newer protocol of every change of the resources that it names, while it listens."""
        uris = Counter(map(str, params.notifications.resource_subscriptions or ()))
        await self.begin()
        self._listened += uris
        try:
            return await self._handler(context, params)
        finally:
            self._listened -= uris

    async def close(self) -> None:
        """End the watch."""
        self._handler.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Follow the changes across everything that passes."""
        cursor, is_gap = "", False
        while True:
            try:
                async for response in self._link.here.watch(cursor=cursor, heartbeats=True):
                    cursor = response.cursor
                    self._started.set()
                    if is_gap:
                        is_gap = False
                        for uri in {*self._subscribed, *self._listened}:
                            await self._tell(uri)
                    if response.HasField("change"):
                        for uri in concerned(response.change):
                            await self._tell(uri)
            except MemsvcCallError as error:
                if error.code.name not in _GOES_ON:
                    log.warning("resources are not watched any more: %s", error)
                    return
                if error.reason == "CURSOR_EXPIRED":
                    # The user was erased, or changes were missed: any resource may differ.
                    cursor, is_gap = "", True

    async def _tell(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri=uri))
        for session_id, session in list(self._subscribed.get(uri, {}).items()):
            try:
                with anyio.fail_after(SEND_SECONDS):
                    await session.send_resource_updated(uri)
            except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.unsubscribe(uri, session_id)


def concerned(change: memory_pb.MemoryChange) -> Iterator[str]:
    """Yield the resources that a change concerns. What has left may have been part of the core."""
    yield f"{MEMORY}{change.memory_id}"
    memory = change.memory
    if (
        change.effect == memory_pb.WATCH_EFFECT_LEFT
        or memory.layer == types_pb.MEMORY_LAYER_CORE
        or memory.tier in _LOADED_TIERS
        or memory.kind == types_pb.MEMORY_KIND_PREFERENCE
        or memory.HasField("reminder")
    ):
        yield CORE


@asynccontextmanager
async def updates(link: Link) -> AsyncIterator[Updates]:
    """Watch for as long as the context lasts."""
    found = Updates(link)
    try:
        yield found
    finally:
        await found.close()
