"""When a call must end: its client's deadline, or the server's own for unary calls that have none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc.server import calls
from memsvc.server.interceptors.around import Call

THE_SERVICE = "the service"


class DeadlineLimit:
    """Tells everything below when to end. A stream without a client's deadline may last as long as it has to."""

    def __init__(self, default_seconds: float) -> None:
        self._default_seconds = default_seconds

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[None]:
        """Set the deadline, and end a unary call that is over the server's own."""
        remaining = call.context.time_remaining()
        limit = None if call.streams else self._default_seconds
        if remaining is None and limit is not None:
            remaining = limit
        calls.deadline.set(Deadline.after(remaining))
        if limit is None:
            yield
            return
        try:
            async with asyncio.timeout(remaining) as clock:
                yield
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise DeadlineExceededError(THE_SERVICE) from error
