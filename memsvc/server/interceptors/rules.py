"""Rules of every call: request id, deadline, key, error status, and one measurement and one log line at the end."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextvars import Context as Variables
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol

import grpc
import structlog

from memsvc.domain import limits
from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    LimitExceededError,
    LimitKind,
    Violation,
)
from memsvc.engine.commit.group_committer import CALL_DEADLINE, CALL_START, PAYER
from memsvc.server import call_context
from memsvc.server.call_context import Call, CallNext, Context
from memsvc.server.error_status import Severity, failure_from_error
from memsvc.server.interceptors.authentication import READS, Authentication, RefusalBrake, body_limit
from memsvc.server.interceptors.encoded_requests import count_fields
from memsvc.server.slots import AdmissionCounts, CallClass, class_of

LAYER = "edge"
"""The layer of these latencies in GetPerformance."""
HEADER = "x-request-id"
NOTICE = "x-memsvc-notice"
"""Trailing metadata of a write that is durable and that searches do not find yet."""
DETAILS_HEADER = "grpc-status-details-bin"
THE_SERVICE = "the service"
STREAMED_SEARCHES = frozenset({"StreamSearch", "BuildContext"})
_ACCEPTED = re.compile(r"[\x21-\x7e]{1,128}")


class EndedCall(NamedTuple):
    """A call for the access log; never its content.

    Attributes:
        ended: The time of its end in seconds since 1970.
        code: The name of the status code.
        seconds: Its duration.
        peer: The address of the caller.
    """

    ended: float
    method: str
    request_id: str
    code: str
    seconds: float
    peer: str


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


def log_now(ended: EndedCall) -> None:
    """Log a call at once, in the calling thread."""
    structlog.get_logger("memsvc.access").info(
        "call ended", code=ended.code, seconds=round(ended.seconds, 6), peer=ended.peer
    )


class ServerRules:
    """The rules of a server, which `CallChain` applies to a call in the order of the methods.

    The deadline of a call is the client's, or the server's default for unary calls and for searches that stream. Other
    streams have no default deadline. In a search that streams, the default limits the work, not the reading.

    An error becomes a status with details; an unexpected exception becomes "internal error" and a log entry.
    """

    def __init__(
        self,
        recorder: LatencyRecorder,
        *,
        now: Callable[[], datetime],
        default_seconds: float,
        authentication: Authentication | None = None,
        log_call: Callable[[EndedCall], None] = log_now,
        counts: AdmissionCounts | None = None,
    ) -> None:
        """Measure calls by *recorder*, and log them by *log_call*, which must return at once and must not raise.

        Without *authentication* every call is admitted. Refusals are added to *counts*.
        """
        self._recorder = recorder
        self._now = now
        self._default_seconds = default_seconds
        self._authentication = authentication
        self._log_call = log_call
        self._log = structlog.get_logger("memsvc.errors")
        self._counts = counts or AdmissionCounts()
        self._brake = RefusalBrake(time.monotonic)
        self._refused = RefusalSummary(partial(structlog.get_logger("memsvc.access").info, "calls refused"))

    def begin(self, call: Call) -> None:
        """Set the id of the call, the client's or a new one. Each call has context variables of its own."""
        call.request_id = _given_id(call.context) or uuid.uuid4().hex
        call_context.current.set(call)
        call_context.request_id.set(call.request_id)
        call_context.notices.set([])
        structlog.contextvars.bind_contextvars(request_id=call.request_id, method=call.method)

    def limit(self, call: Call) -> float | None:
        """Set the start and the deadline of the call; return the seconds after which the chain ends it.

        None if gRPC does, at the client's deadline, or if nothing does.
        """
        CALL_START.set(to_micros(self._now()))
        remaining = call.context.time_remaining()
        if remaining is not None:
            self._set_deadline(remaining)
            return None
        if call.streams and call.method not in STREAMED_SEARCHES:
            return None
        self._set_deadline(self._default_seconds)
        return None if call.streams else self._default_seconds

    @staticmethod
    def _set_deadline(seconds: float) -> None:
        deadline = Deadline.after(seconds)
        call_context.deadline.set(deadline)
        CALL_DEADLINE.set(deadline)

    def expired(self) -> Exception:
        """Return the error of a call that reached the server's deadline."""
        return DeadlineExceededError(THE_SERVICE)

    async def admit(self, call: Call) -> Callable[[], None] | None:
        """Check the size of the request, if it is received, and authenticate the call.

        Return what has to be called at its end, or raise a MemsvcError.
        """
        self.check_size(call)
        release = None if self._authentication is None else await self._authentication.admit(call)
        if call.method not in UNBOUND:
            PAYER.set(call_context.principal.get().key_id)
        return release

    @staticmethod
    def check_size(call: Call) -> None:
        """Raise an InvalidRequestError if a request that needs no content is large."""
        limit = body_limit(call.method)
        if limit is not None:
            _require_size(call, limit)

    def watched(self, call: Call, body: CallNext) -> CallNext:
        """Return the body of a stream that ends when its key is no longer valid."""
        return body if self._authentication is None else self._authentication.watched(call, body)

    async def fail(self, call: Call, error: Exception) -> None:
        """End the call with the status of the error."""
        failure = failure_from_error(error, request_id=call.request_id)
        call.code = failure.code
        if isinstance(error, LimitExceededError):
            self._counts.refusals[refused_class(call.method), error.kind] += 1
            if error.kind in BRAKED:
                await self._brake.slow_down(call_context.principal.get().tenant_id, size=call.size)
        if failure.severity is Severity.ERROR:
            self._log.error("call failed unexpectedly", exc_info=error)
        elif failure.severity is Severity.WARNING:
            self._log.warning("backend failed", reason=str(error), cause=repr(error.__cause__))
        _release_frames(error)
        trailers = ((DETAILS_HEADER, failure.details), (HEADER, call.request_id))
        await call.context.abort(failure.code, failure.message, trailers)

    def end(self, call: Call, started: float) -> None:
        """Measure and log a call that began at *started* by `time.perf_counter`; send its id and notices back."""
        seconds = time.perf_counter() - started
        is_done = call.code is grpc.StatusCode.OK
        self._recorder.record(call.method, LAYER, seconds, failed=not is_done, is_endless=call.streams)
        if is_done:
            notice = " ".join(call_context.notices.get() or ())
            told: tuple[tuple[str, Any], ...] = ((NOTICE, notice),) if notice else ()
            call.context.set_trailing_metadata(((HEADER, call.request_id), *told))
        peer = call.context.peer()
        if self._refused.has_own_line(call.code, peer):
            self._log_call(EndedCall(time.time(), call.method, call.request_id, call.code.name, seconds, peer))

    def flush(self) -> None:
        """Log the sum of the calls that were refused since the last one."""
        self._refused.flush()


UNBOUND = frozenset(
    {"RunMaintenance", "ConsolidateMemories", "UndoConsolidation", "CheckIntegrity", "SyncVault", "EraseUser"}
)
"""Methods that tidy up, whose writes are not held to quotas."""
BRAKED = frozenset({LimitKind.SLOTS, LimitKind.RATE, LimitKind.CONCURRENCY})
"""Limits of one caller: those who call again at once and again are delayed."""


def refused_class(method: str) -> CallClass:
    """Return the class of a refused call."""
    return class_of(method, CallClass.READ if method in READS else CallClass.WRITE)


def _require_size(call: Call, limit: int) -> None:
    body = call.request
    if not isinstance(body, bytes):
        return
    if len(body) > limit:
        description = f"has {len(body)} bytes; a request of {call.method} has at most {limit}"
        raise InvalidRequestError([Violation("request", description)])
    if call.method == "BatchSearch" and count_fields(body, MOST_FIELDS) == MOST_FIELDS:
        description = f"must have at most {limits.SEARCHES} items"
        raise InvalidRequestError([Violation("searches", description)])


MOST_FIELDS = 2 * limits.SEARCHES
"""The fields of a BatchSearch that are counted: the rest need not be parsed to know that it is too long. A million
empty searches take 0.1 s to parse, in which nothing else runs."""


def _given_id(context: Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == HEADER:
            return value if isinstance(value, str) and _ACCEPTED.fullmatch(value) else None
    return None


def _release_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error and of its causes.

    An error that a local variable refers to is part of a cycle with its frames, and with the request in them: hundreds
    of requests, each of megabytes, would stay until the garbage collector runs, which depends on the number of objects.
    The frames are not cleared: several calls may share one error, and some of them are still being answered.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
