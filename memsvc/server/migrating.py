"""MigrateBackend: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.server.convert import migration as convert
from memsvc.server.executors import iterate_in_thread
from memsvc.server.server_context import ServerContext
from memsvc.server.validate.migration import check_migrate_backend
from memsvc.v1 import migration_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

PROGRESS_SECONDS = 1.0


class MigrationMethods:
    """What LifecycleService does to move the store."""

    _edge: ServerContext

    async def MigrateBackend(
        self, request: pb.MigrateBackendRequest, context: Context
    ) -> AsyncGenerator[pb.MigrateBackendResponse, None]:
        """Move the store and tell how far that is."""
        check_migrate_backend(request)
        steps = self._edge.application.migration.run(
            convert.target_from(request), convert.action_from(request), convert.changes_from(request)
        )
        async with aclosing(iterate_in_thread(steps, name="migration", at_least_every=PROGRESS_SECONDS)) as pump:
            async for step in pump:
                yield convert.progress_to_proto(step)
