"""What every servicer works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from memsvc.engine.services import Services
from memsvc.server.executors import Executors
from memsvc.server.options import ServerOptions
from memsvc.server.services.watch import Watches
from memsvc.server.waiting import IndexWait


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The engine, and how to reach it from the event loop.

    Attributes:
        waits: Waits for the indexes without holding a thread.
        now: The clock, in UTC.
        watches: The watches that are open.
    """

    application: Services
    executors: Executors
    waits: IndexWait
    options: ServerOptions
    now: Callable[[], datetime]
    watches: Watches
