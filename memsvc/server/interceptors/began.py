"""When a call was begun, as the engine wants to know it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from memsvc.domain.clock import to_micros
from memsvc.engine.commit.group_committer import CALL_START
from memsvc.server.interceptors.chain import Call, Following


class CallStart:
    """Notes the moment in a context variable, which goes along into every thread that works on the call."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Look at the clock *now*."""
        self._now = now

    async def around(self, call: Call, following: Following) -> Any:
        """Note the moment."""
        CALL_START.set(to_micros(self._now()))
        return await following(call)
