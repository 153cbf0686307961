"""Error statuses of calls, and their deadlines."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import structlog

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc.server import call_context
from memsvc.server.error_status import Severity, failure_from_error
from memsvc.server.interceptors.access_log import HEADER
from memsvc.server.interceptors.chain import Call, CallNext

DETAILS_HEADER = "grpc-status-details-bin"


class ErrorStatus:
    """Status of failed calls, with details; an unexpected exception becomes "internal error" and a log entry."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("memsvc.errors")

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """End the call with a status when it fails. Cancellation and gRPC's own aborts pass through."""
        try:
            return await call_next(call)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - no exception may pass this interceptor
            await self._end(call, error)

    async def _end(self, call: Call, error: Exception) -> None:
        failure = failure_from_error(error, request_id=call.request_id)
        call.code = failure.code
        if failure.severity is Severity.ERROR:
            self._log.error("call failed unexpectedly", exc_info=error)
        elif failure.severity is Severity.WARNING:
            self._log.warning("backend failed", reason=str(error), cause=repr(error.__cause__))
        _release_frames(error)
        trailers = ((DETAILS_HEADER, failure.details), (HEADER, call.request_id))
        await call.context.abort(failure.code, failure.message, trailers)


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


THE_SERVICE = "the service"
STREAMED_SEARCHES = frozenset({"StreamSearch", "BuildContext"})


class DeadlineLimit:
    """Deadline of calls: the client's, or the server's default for unary calls and for searches that stream.

    Other streams have no default deadline. In a search that streams, the default limits the work, not the reading.
    """

    def __init__(self, default_seconds: float) -> None:
        self._default_seconds = default_seconds

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Set the deadline. gRPC cancels the call at the client's deadline; this interceptor does at the server's."""
        remaining = call.context.time_remaining()
        if remaining is not None:
            call_context.deadline.set(Deadline.after(remaining))
            return await call_next(call)
        if call.streams and call.method not in STREAMED_SEARCHES:
            return await call_next(call)
        call_context.deadline.set(Deadline.after(self._default_seconds))
        if call.streams:
            return await call_next(call)
        try:
            async with asyncio.timeout(self._default_seconds) as clock:
                return await call_next(call)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise DeadlineExceededError(THE_SERVICE) from error
