"""Where the bridge stands. It is told once, at the start; no tool takes any of it, so no model can leave it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from memsvc.text.context_phrases import local

if TYPE_CHECKING:
    from memsvc.client import Tls

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
        """Return a moment with its zone: one that was told without any is meant in the user's."""
        if told.tzinfo is not None:
            return told
        return told.replace(tzinfo=ZoneInfo(self.time_zone)) if self.time_zone else told.astimezone()

    def local(self, moment: datetime) -> datetime:
        """Return a moment on the user's clock, or in UTC when that cannot tell it."""
        return local(moment, ZoneInfo(self.time_zone) if self.time_zone else None)

    def day(self, seconds: float) -> str:
        """Return the user's day of a moment, given in seconds since 1970."""
        return f"{self.local(datetime.fromtimestamp(seconds, UTC)):%Y-%m-%d}"
