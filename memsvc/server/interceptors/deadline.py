"""When a call must end: its client's deadline, or the server's own for unary calls that have none."""

from __future__ import annotations

import asyncio
from typing import Any

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc.server import call_context
from memsvc.server.interceptors.chain import Call, Following

THE_SERVICE = "the service"


class DeadlineLimit:
    """Tells everything below when to end. A stream without a client's deadline may last as long as it has to."""

    def __init__(self, default_seconds: float) -> None:
        self._default_seconds = default_seconds

    async def around(self, call: Call, following: Following) -> Any:
        """Set the deadline. Over the client's own gRPC cancels the call; over the server's this does."""
        remaining = call.context.time_remaining()
        if remaining is not None:
            call_context.deadline.set(Deadline.after(remaining))
            return await following(call)
        if call.streams:
            return await following(call)
        call_context.deadline.set(Deadline.after(self._default_seconds))
        try:
            async with asyncio.timeout(self._default_seconds) as clock:
                return await following(call)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise DeadlineExceededError(THE_SERVICE) from error
