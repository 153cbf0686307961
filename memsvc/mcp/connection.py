"""The connection to the service, which may be away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio.lowlevel

from memsvc.client import AsyncMemsvc, MemsvcCallError
from memsvc.mcp.scope import TIMEOUT_SECONDS, BridgeScope

R = TypeVar("R")


def is_unreachable(error: MemsvcCallError) -> bool:
    """Return whether a call failed because nobody answers."""
    return error.code.name == "UNAVAILABLE" and not error.reason


@dataclass(frozen=True, slots=True)
class Link:
    """An open connection, which connects with the first call and again after every restart of the service.

    Attributes:
        place: Where it leads, and for whom.
        here: The client of the project.
        everywhere: The client of the global memories.
    """

    place: BridgeScope
    here: AsyncMemsvc
    everywhere: AsyncMemsvc

    async def call(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Return what *ask* returns, asking a second time when the service comes back within the place's patience.

        Raises:
            MemsvcCallError: It failed; when nobody answers, after the patience is at its end.
        """
        try:
            return await _cancellable(ask)
        except MemsvcCallError as error:
            if not is_unreachable(error) or not await _cancellable(self._came_back):
                raise
        return await _cancellable(ask)

    async def _came_back(self) -> bool:
        try:
            await self.here.wait_ready(self.place.patience_seconds)
        except MemsvcCallError:
            return False
        return True


async def _cancellable(ask: Callable[[], Awaitable[R]]) -> R:
    """Return what *ask* returns; a cancellation ends the call of the service, too.

    gRPC raises a bare error of its own for it, which AnyIO would not know as its cancellation, and so end everything.
    """
    try:
        return await ask()
    except asyncio.CancelledError:
        await anyio.lowlevel.checkpoint_if_cancelled()
        raise


@asynccontextmanager
async def linked(place: BridgeScope) -> AsyncIterator[Link]:
    """Open the connection; leaving ends what is under way.

    Raises:
        OSError: A file for TLS cannot be read.
    """
    async with _client(place, place.project) as here, _client(place, "") as everywhere:
        yield Link(place, here, everywhere)


def _client(place: BridgeScope, project: str) -> AsyncMemsvc:
    return AsyncMemsvc(
        place.address,
        user_id=place.user,
        project_id=project,
        agent_id=place.agent,
        session_id=place.session if project == place.project else "",
        timeout=TIMEOUT_SECONDS,
        api_key=place.api_key,
        tls=place.tls,
    )
