"""One log line and one measurement for each call; never its content."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextvars import Context as Variables
from functools import partial
from typing import Any, Protocol

import grpc
import structlog

from memsvc.server import call_context
from memsvc.server.interceptors.chain import Call, CallNext, Context

LAYER = "edge"
"""The layer of these latencies in GetPerformance."""


class LatencyRecorder(Protocol):
    """Recorder of latencies."""

    def record(
        self, operation: str, layer: str, seconds: float, *, failed: bool = False, is_endless: bool = False
    ) -> None:
        """Record one run of an operation."""
        ...


REFUSED_LINES = 10
REFUSED_SECONDS = 10.0
"""In each interval of so many seconds so many refused calls have lines of their own; the others share one line."""
PEERS, MAX_PEERS = 5, 1_000
"""Addresses in a line, and those that are counted."""
SUMMED_UP = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED})


class RefusalSummary:
    """Sum of refused calls in a log: 14 000 of them made 9 MB of lines. To be used in the event loop's thread."""

    def __init__(self, write: Callable[..., object]) -> None:
        """Write each sum by *write*."""
        self._write = write
        self._lines = 0
        self._codes: Counter[str] = Counter()
        self._peers: Counter[str] = Counter()
        self._is_scheduled = False

    def has_own_line(self, code: grpc.StatusCode, peer: str) -> bool:
        """Return whether a call gets a line of its own; otherwise it is counted in the line of the interval."""
        if code not in SUMMED_UP:
            return True
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(REFUSED_SECONDS, self.flush, context=Variables())
        self._lines += 1
        if self._lines <= REFUSED_LINES:
            return True
        self._codes[code.name] += 1
        if len(self._peers) < MAX_PEERS:
            self._peers[peer.rpartition(":")[0] or peer] += 1
        return False

    def flush(self) -> None:
        """Write the sum of the interval, if any call is in it, and begin the next one."""
        self._is_scheduled, self._lines = False, 0
        if self._codes:
            peers = dict(self._peers.most_common(PEERS))
            self._write(count=self._codes.total(), codes=dict(self._codes), peers=peers, seconds=REFUSED_SECONDS)
        self._codes.clear()
        self._peers.clear()


class AccessLog:
    """Access log and latencies of calls. It must be outside of `ErrorStatus`, which sets the code of a call."""

    def __init__(self, recorder: LatencyRecorder) -> None:
        self._recorder = recorder
        # Bound once: an unbound logger is assembled again for every line, at three times the cost.
        self._log = structlog.get_logger("memsvc.access").bind()
        self._refused = RefusalSummary(partial(self._log.info, "calls refused"))

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Measure the call, then log its end."""
        started = time.perf_counter()
        try:
            return await call_next(call)
        except asyncio.CancelledError:
            expired = call.context.time_remaining() == 0
            call.code = grpc.StatusCode.DEADLINE_EXCEEDED if expired else grpc.StatusCode.CANCELLED
            raise
        finally:
            seconds = time.perf_counter() - started
            failed = call.code is not grpc.StatusCode.OK
            self._recorder.record(call.method, LAYER, seconds, failed=failed, is_endless=call.streams)
            peer = call.context.peer()
            if self._refused.has_own_line(call.code, peer):
                write = partial(self._write, call.code.name, round(seconds, 6), peer)
                # Later, but with the context variables of now: the client need not wait until its line is written.
                asyncio.get_running_loop().call_soon(write)

    def _write(self, code: str, seconds: float, peer: str) -> None:
        self._log.info("call ended", code=code, seconds=seconds, peer=peer)


HEADER = "x-request-id"
NOTICE = "x-memsvc-notice"
"""Trailing metadata of a write that is durable and that searches do not find yet."""
_ACCEPTED = re.compile(r"[\x21-\x7e]{1,128}")


class RequestId:
    """Request id of calls, for logs and errors: the client's, or a new one. It must be the outermost interceptor."""

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Bind the id, and send it back. Each call has context variables of its own, so nothing is reset."""
        call.request_id = _given(call.context) or uuid.uuid4().hex
        call_context.request_id.set(call.request_id)
        structlog.contextvars.bind_contextvars(request_id=call.request_id, method=call.method)
        call.context.set_trailing_metadata(((HEADER, call.request_id),))
        notices: list[str] = []
        call_context.notices.set(notices)
        response = await call_next(call)
        if notices:
            call.context.set_trailing_metadata(((HEADER, call.request_id), (NOTICE, notices[0])))
        return response


def _given(context: Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == HEADER:
            return value if isinstance(value, str) and _ACCEPTED.fullmatch(value) else None
    return None
