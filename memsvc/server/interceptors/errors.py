"""Every exception becomes a status with details; what is not foreseen becomes "internal error" and a log entry."""

from __future__ import annotations

from typing import Any

import grpc
import structlog

from memsvc.server.error_status import Severity, failure_from_error
from memsvc.server.interceptors.chain import Call, Following
from memsvc.server.interceptors.request_id import HEADER

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
