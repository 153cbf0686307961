"""The connection to the service, which may be away for a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import anyio.lowlevel

from memsvc.client import AsyncMemsvc, MemsvcCallError
from memsvc.text.context_phrases import local
from memsvc.text.recalled_text import handle_number

if TYPE_CHECKING:
    from memsvc.client import Tls


R = TypeVar("R")


def is_unreachable(error: MemsvcCallError) -> bool:
    """Return whether a call failed because the service does not answer."""
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
    handles: ContextHandles = field(default_factory=lambda: ContextHandles())  # noqa: PLW0108 - is defined below
    notices: CallNotices = field(default_factory=lambda: CallNotices())  # noqa: PLW0108 - is defined below

    async def call(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Return what *ask* returns, asking a second time when the service comes back within the place's patience.

        Raises:
            MemsvcCallError: It failed; when the service does not answer, after the patience is at its end.
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


LAST_FIRST_HANDLE = 9_000
"""The greatest number at which a context begins; the numbers after it have room for one context."""


class ContextHandles:
    """The memory ids by the handles of the contexts that were returned, such as "m3".

    No handle names another memory in a later context, until `LAST_FIRST_HANDLE` is passed. The first number is drawn at
    random: a conversation that is resumed by another process has handles of the earlier one, which name no memory now,
    or rarely the wrong one.
    """

    def __init__(self) -> None:
        """Know none."""
        self.memory_ids: dict[str, str] = {}
        self.first = random.randint(1, LAST_FIRST_HANDLE)  # noqa: S311 - keeps no secret
        self.lock = asyncio.Lock()
        """Held while a context is gathered: only its end shows how many numbers it takes."""

    def add(self, memory_ids: Mapping[str, str]) -> None:
        """Add those of a context that began at the number `first`."""
        self.memory_ids.update(memory_ids)
        self.first = max([self.first, *(handle_number(name) + 1 for name in memory_ids)])
        if self.first > LAST_FIRST_HANDLE:
            self.first = 1


class CallNotices:
    """Notices of the service, for the task whose call they belong to."""

    def __init__(self) -> None:
        """Know none."""
        self._notices: WeakKeyDictionary[object, dict[str, None]] = WeakKeyDictionary()

    def add(self, notice: str) -> None:
        """Keep a notice for the task that runs."""
        self._notices.setdefault(asyncio.current_task(), {})[notice] = None

    def take(self) -> list[str]:
        """Return the notices of the task that runs, each once, and forget them."""
        return list(self._notices.pop(asyncio.current_task(), ()))


@asynccontextmanager
async def linked(place: BridgeScope) -> AsyncIterator[Link]:
    """Open the connection; leaving ends what is under way.

    Raises:
        OSError: A file for TLS cannot be read.
    """
    notices = CallNotices()
    async with client_of(place, place.project, notices) as here, client_of(place, "", notices) as everywhere:
        yield Link(place, here, everywhere, notices=notices)


def client_of(place: BridgeScope, project: str, notices: CallNotices) -> AsyncMemsvc:
    """Return a client for a place that sees *project*, not opened yet."""
    return AsyncMemsvc(
        place.address,
        user_id=place.user,
        project_id=project,
        agent_id=place.agent,
        session_id=place.session if project == place.project else "",
        timeout=TIMEOUT_SECONDS,
        api_key=place.api_key,
        tls=place.tls,
        on_notice=notices.add,
    )


# Scope of the bridge. It is fixed at the start; no tool takes any part of it, so no model can leave it.


PATIENCE_SECONDS = 5.0
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class BridgeScope:
    """A service, and for whom it is asked.

    Attributes:
        address: The service: HOST:PORT or unix:PATH.
        user: Whose memories.
        project: The project whose memories are seen beside the global ones; empty: none.
        agent: As which agent memories are written; empty: none.
        session: The conversation; empty: outside every one.
        api_key: The key to the service; empty: none.
        tls: How to speak TLS; None: not at all.
        time_zone: The IANA name of the user's zone; empty: that of this machine.
        locale: The language of headings in contexts, "en" or "zh"; empty: as the service is set.
        read_only: Whether only what changes nothing is offered.
        patience_seconds: How long a call waits for a service that cannot be reached.
    """

    address: str
    user: str
    project: str = ""
    agent: str = ""
    session: str = ""
    api_key: str = ""
    tls: Tls | None = None
    time_zone: str = ""
    locale: str = ""
    read_only: bool = False
    patience_seconds: float = PATIENCE_SECONDS

    def moment(self, told: datetime) -> datetime:
        """Return a moment with its zone: one without a zone is in the user's."""
        if told.tzinfo is not None:
            return told
        return told.replace(tzinfo=ZoneInfo(self.time_zone)) if self.time_zone else told.astimezone()

    def local(self, moment: datetime) -> datetime:
        """Return a moment on the user's clock, or in UTC when that cannot tell it."""
        return local(moment, ZoneInfo(self.time_zone) if self.time_zone else None)

    def day(self, seconds: float) -> str:
        """Return the user's day of a moment, given in seconds since 1970."""
        return f"{self.local(datetime.fromtimestamp(seconds, UTC)):%Y-%m-%d}"
