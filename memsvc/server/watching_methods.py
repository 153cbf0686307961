"""The method of MemoryService that watches."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.clock import EPOCH
from memsvc.domain.watch import Start, Watch
from memsvc.server import call_context
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import WATCH_START
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.selections import selection_from_proto
from memsvc.server.server_context import ServerContext
from memsvc.server.services.watch import WatchCall
from memsvc.server.validate.watches import check_watch
from memsvc.v1 import types_pb2 as types
from memsvc.v1 import watch_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

UNBOUND = ("cursor", "start", "heartbeat_interval")
"""The fields that may differ when a watch is resumed."""


class WatchingMethods:
    """Tells what changes."""

    _edge: ServerContext

    async def WatchMemories(
        self, request: pb.WatchMemoriesRequest, context: Context
    ) -> AsyncGenerator[pb.WatchMemoriesResponse, None]:
        """Tell every committed change once, in order."""
        check_watch(request)
        identity = await self._edge.executors.watch.proceed(lambda: self._edge.watches.watching.identity)
        call = _call(request, identity)
        async with aclosing(self._edge.watches.responses(call)) as responses:
            async for response in responses:
                yield response


def _call(request: pb.WatchMemoriesRequest, identity: str) -> WatchCall:
    scope = scope_from(request.scope, call_context.principal.get())
    digest = tokens.watch_digest(tokens.digest(request, without=UNBOUND), scope.owner, identity)
    interval = request.heartbeat_interval
    # Whether a memory has expired must not depend on when its change is read: so only its status counts.
    chosen = types.Filter()
    chosen.CopyFrom(request.filter)
    chosen.include_expired = True
    return WatchCall(
        watch=Watch(scope, selection_from_proto(chosen, now=EPOCH)),
        start=WATCH_START.given(request.start, Start.NOW),
        position=tokens.watch_position(request.cursor, digest),
        digest=digest,
        heartbeat_seconds=interval.ToTimedelta().total_seconds() or limits.HEARTBEAT_DEFAULT_SECONDS,
    )
