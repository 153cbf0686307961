"""Every exception becomes a status with details; what is not foreseen becomes "internal error" and a log entry."""

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
from memsvc.server.interceptors.chain import Call, Following

DETAILS_HEADER = "grpc-status-details-bin"


class Errors:
    """Turns exceptions into statuses. It is one of the two places that may catch every exception."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("memsvc.errors")

    async def around(self, call: Call, following: Following) -> Any:
        """End the call with a status when it fails. Cancellation and gRPC's own aborts pass."""
        try:
            return await following(call)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - this is the place where nothing may get through
            await self._end(call, error)

    async def _end(self, call: Call, error: Exception) -> None:
        failure = failure_from_error(error, request_id=call.request_id)
        call.code = failure.code
        if failure.severity is Severity.ERROR:
            self._log.error("call failed unexpectedly", exc_info=error)
        elif failure.severity is Severity.WARNING:
            self._log.warning("backend failed", reason=str(error), cause=repr(error.__cause__))
        _let_go(error)
        trailers = ((DETAILS_HEADER, failure.details), (HEADER, call.request_id))
        await call.context.abort(failure.code, failure.message, trailers)


def _let_go(error: BaseException) -> None:
    """Have an error and what led to it forget the frames that they went through.

    An error that such a frame names refers to itself, and to the request that lies there: hundreds of requests, each
    of megabytes, would stay until garbage is looked for, and that goes by the number of objects. The frames themselves
    are not emptied: several calls may have failed by one error, and some of them are still being answered.
    """
    met: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in met:
        met.add(id(following))
        following.__traceback__ = None
        following = following.__cause__ or following.__context__


# When a call must end: its client's deadline, or the server's own for unary calls that have none.


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
