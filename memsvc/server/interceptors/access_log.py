"""One log line and one measurement for each call; never its content."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Protocol

import grpc
import structlog

from memsvc.server.interceptors.chain import Call, Following

LAYER = "edge"


class Recorder(Protocol):
    """Where measurements go."""

    def record(
        self, operation: str, layer: str, seconds: float, *, failed: bool = False, is_endless: bool = False
    ) -> None:
        """Take note of one run of an operation."""
        ...


class AccessLog:
    """Sees the code that the client sees, since it lies outside of the layer that sets it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Bound once: an unbound logger is put together anew for every line, at three times the cost.
        self._log = structlog.get_logger("memsvc.access").bind()

    async def around(self, call: Call, following: Following) -> Any:
        """Measure the call, then tell how it ended."""
        started = time.perf_counter()
        try:
            return await following(call)
        except asyncio.CancelledError:
            expired = call.context.time_remaining() == 0
            call.code = grpc.StatusCode.DEADLINE_EXCEEDED if expired else grpc.StatusCode.CANCELLED
            raise
        finally:
            seconds = time.perf_counter() - started
            failed = call.code is not grpc.StatusCode.OK
            self._recorder.record(call.method, LAYER, seconds, failed=failed, is_endless=call.streams)
            told = partial(self._tell, call.code.name, round(seconds, 6), call.context.peer())
            # Later, but with the context variables of now: the client need not wait until its line is written.
            asyncio.get_running_loop().call_soon(told)

    def _tell(self, code: str, seconds: float, peer: str) -> None:
        self._log.info("call ended", code=code, seconds=seconds, peer=peer)
