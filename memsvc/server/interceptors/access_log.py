"""One log line and one measurement for each call; never its content."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from functools import partial
from typing import Any, Protocol

import grpc
import structlog

from memsvc.server import call_context
from memsvc.server.interceptors.chain import Call, Context, Following

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


# The outermost layer: every call has an id, which the client may choose and always gets back.


HEADER = "x-request-id"
_ACCEPTED = re.compile(r"[\x21-\x7e]{1,128}")


class RequestId:
    """Takes the id from the client's metadata, or makes one, and binds it for logs and errors."""

    async def around(self, call: Call, following: Following) -> Any:
        """Bind the id while the call runs. Each call has context variables of its own, so nothing is reset."""
        call.request_id = _given(call.context) or uuid.uuid4().hex
        call_context.request_id.set(call.request_id)
        structlog.contextvars.bind_contextvars(request_id=call.request_id, method=call.method)
        call.context.set_trailing_metadata(((HEADER, call.request_id),))
        return await following(call)


def _given(context: Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == HEADER:
            return value if isinstance(value, str) and _ACCEPTED.fullmatch(value) else None
    return None
