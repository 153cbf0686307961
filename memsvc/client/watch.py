"""Watches that survive broken connections and restarts of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import grpc
from google.protobuf.duration_pb2 import Duration

from memsvc.client import to_proto
from memsvc.client.channel import ScopedMethods
from memsvc.client.errors import INTERRUPTED, MemsvcCallError
from memsvc.client.request_types import Filters, WatchStart
from memsvc.v1 import memory_service_pb2 as memory_pb

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
HEARTBEAT_SECONDS = 15.0
SILENT_HEARTBEATS = 3
"""After so many heartbeats that did not come, the connection counts as broken."""


class WatchMethods(ScopedMethods):
    """The call that tells what changes."""

    async def watch(
        self,
        filters: Filters | None = None,
        *,
        cursor: str = "",
        start: WatchStart = "NOW",
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        heartbeats: bool = False,
        patience_seconds: float = 60.0,
    ) -> AsyncGenerator[memory_pb.WatchMemoriesResponse, None]:
        """Yield every committed change of the memories that match, once and in order, without end.

        Each response has the cursor from which another watch can go on after it. When the connection breaks, or the
        service ends the call or is started again, the watch goes on by itself where it was. With *heartbeats* those are
        yielded too, the first of them as soon as the watch has begun. Leaving the loop early ends the watch.

        Raises:
            MemsvcCallError: OUT_OF_RANGE, the cursor's changes are no longer kept; or UNAVAILABLE or
                RESOURCE_EXHAUSTED, the service could not be reached, or was at its limit, for *patience_seconds*.
        """
        request = memory_pb.WatchMemoriesRequest(
            scope=self.scope,
            filter=to_proto.filter_to_proto(filters or {}),
            cursor=cursor,
            start=to_proto.enum_to_proto("start", memory_pb.WatchStart, "WATCH_START_", start),
            heartbeat_interval=_duration(heartbeat_seconds),
        )
        clock = asyncio.get_running_loop().time
        heard, pause = clock(), FIRST_PAUSE_SECONDS
        while True:
            try:
                async for response in self._stream(request, heartbeat_seconds * SILENT_HEARTBEATS):
                    request.cursor = response.cursor
                    pause = FIRST_PAUSE_SECONDS
                    if heartbeats or response.HasField("change"):
                        yield response
                    heard = clock()
            except MemsvcCallError as error:
                if not _may_pass(error) or clock() - heard > patience_seconds:
                    raise
                pause = max(pause, error.retry_seconds or 0.0)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _stream(
        self, request: memory_pb.WatchMemoriesRequest, silence_seconds: float
    ) -> AsyncGenerator[memory_pb.WatchMemoriesResponse, None]:
        """Yield what one call tells.

        Raises:
            MemsvcCallError: The call broke, or nothing came for so long that it must have.
        """
        with self._remote.errors_decoded():
            call = self._remote.memories.WatchMemories(request)
            try:
                while True:
                    async with asyncio.timeout(silence_seconds):
                        response = await call.read()
                    if not isinstance(response, memory_pb.WatchMemoriesResponse):
                        raise await _ended(call)
                    yield response
            except TimeoutError as error:
                message = f"Nothing was heard of the service for {silence_seconds:g} seconds."
                raise MemsvcCallError(grpc.StatusCode.UNAVAILABLE, message) from error
            finally:
                call.cancel()


def _may_pass(error: MemsvcCallError) -> bool:
    """Return whether the service cannot be reached, or asks for a delay."""
    is_refused = error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and error.retry_seconds is not None
    return is_refused or error.code in INTERRUPTED


async def _ended(
    call: grpc.aio.UnaryStreamCall[memory_pb.WatchMemoriesRequest, memory_pb.WatchMemoriesResponse],
) -> MemsvcCallError:
    """Return the error of a call that has ended; one that ended without an error is UNAVAILABLE."""
    code = await call.code()
    if code is grpc.StatusCode.OK:
        return MemsvcCallError(grpc.StatusCode.UNAVAILABLE, "The service ended the watch.")
    trailers = await call.trailing_metadata()
    packed = next((value for key, value in trailers if key == "grpc-status-details-bin"), b"")
    return MemsvcCallError.from_status(code, await call.details() or code.name, packed)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1_000_000))
    return duration
