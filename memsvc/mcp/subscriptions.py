"""Telling clients that a resource they watch has changed, out of the service's own watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from memsvc.client import MemsvcCallError
from memsvc.mcp.connection import Link
from memsvc.mcp.resources import CORE, MEMORY
from memsvc.v1 import types_pb2 as types
from memsvc.v1 import watch_pb2 as watching

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

log = logging.getLogger(__name__)

_LOADED_TIERS = frozenset({types.MEMORY_TIER_CORE, types.MEMORY_TIER_ACTIVE})
_GOES_ON = frozenset({"UNAVAILABLE", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"})
"""After these a watch can be begun anew; the others are for good, such as a key that was revoked."""


class Updates:
    """Who wants to know of which resource, and the watch that tells; it begins with the first who does."""

    def __init__(self, link: Link) -> None:
        """Watch nothing yet."""
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self._link = link
        self._subscribed: dict[str, ServerSession] = {}
        self._watching: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def begin(self) -> None:
        """Return when no change is missed any more, or after the place's patience: then the watch goes on trying."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            async with asyncio.timeout(self._link.place.patience_seconds):
                await self._begun.wait()
        except TimeoutError:
            log.warning("the service cannot be reached, resources are watched from when it can")

    async def subscribe(self, uri: str, session: ServerSession) -> None:
        """Tell a client of an older protocol of every change of a resource."""
        self._subscribed[uri] = session
        await self.begin()

    def unsubscribe(self, uri: str) -> None:
        """Tell it no more."""
        self._subscribed.pop(uri, None)

    async def close(self) -> None:
        """End the watch."""
        self.listen.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Follow the changes across everything that passes."""
        cursor = ""
        while True:
            try:
                async for response in self._link.here.watch(cursor=cursor, heartbeats=True):
                    cursor = response.cursor
                    self._begun.set()
                    if response.HasField("change"):
                        for uri in concerned(response.change):
                            await self._tell(uri)
            except MemsvcCallError as error:
                if error.code.name not in _GOES_ON:
                    log.warning("resources are not watched any more: %s", error)
                    return
                cursor = "" if error.reason == "CURSOR_EXPIRED" else cursor

    async def _tell(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri=uri))
        session = self._subscribed.get(uri)
        if session is not None:
            await session.send_resource_updated(uri)


def concerned(change: watching.MemoryChange) -> Iterator[str]:
    """Yield the resources that a change concerns. What has left may have been part of the core."""
    yield f"{MEMORY}{change.memory_id}"
    memory = change.memory
    if (
        change.effect == watching.WATCH_EFFECT_LEFT
        or memory.layer == types.MEMORY_LAYER_CORE
        or memory.tier in _LOADED_TIERS
        or memory.kind == types.MEMORY_KIND_PREFERENCE
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
