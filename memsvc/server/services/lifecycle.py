"""LifecycleService: each method checks and converts, calls the engine, and converts back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.server import call_context
from memsvc.server.consolidation import ConsolidationMethods
from memsvc.server.convert import reports
from memsvc.server.convert.scope import scope_from
from memsvc.server.executors import iterate_in_thread
from memsvc.server.keys import KeyMethods
from memsvc.server.maintenance import MaintenanceMethods
from memsvc.server.migrating import MigrationMethods
from memsvc.server.promotion import PromotionMethods
from memsvc.server.reminders import ReminderMethods
from memsvc.server.server_context import ServerContext
from memsvc.server.services.admin import IntegrityMethods
from memsvc.server.services.history import CheckpointMethods
from memsvc.server.services.user_data import TransferMethods
from memsvc.server.validate import reads
from memsvc.server.vault import VaultMethods
from memsvc.v1 import lifecycle_service_pb2 as pb
from memsvc.v1 import lifecycle_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

PROGRESS_SECONDS = 1.0


class LifecycleServicer(
    CheckpointMethods,
    PromotionMethods,
    ConsolidationMethods,
    ReminderMethods,
    IntegrityMethods,
    MaintenanceMethods,
    TransferMethods,
    KeyMethods,
    MigrationMethods,
    VaultMethods,
    pb_grpc.LifecycleServiceServicer,
):
    """Looks after the memories as a whole."""

    def __init__(self, edge: ServerContext) -> None:
        self._edge = edge
        self._app = edge.application
        self._meta = edge.executors.meta

    async def GetStats(self, request: pb.GetStatsRequest, context: Context) -> pb.GetStatsResponse:
        """Count the memories of a scope."""
        reads.check_stats(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return reports.stats_to_proto(await self._meta.run(self._app.statistics.of, scope))

    async def Diagnose(self, request: pb.DiagnoseRequest, context: Context) -> pb.DiagnoseResponse:
        """Look at every backend and index and say what is wrong."""
        diagnosis = await self._meta.run(self._app.diagnose.run, verify=request.verify)
        return reports.diagnosis_to_proto(diagnosis, version=self._edge.options.version)

    async def Reindex(self, request: pb.ReindexRequest, context: Context) -> AsyncGenerator[pb.ReindexResponse, None]:
        """Make the indexes equal to the store again, and tell the progress."""
        reads.check_reindex(request)
        steps = self._app.reindex.run(
            reports.indexes_from_proto(request.indexes), reports.mode_from_proto(request.mode)
        )
        async with aclosing(iterate_in_thread(steps, name="reindex", at_least_every=PROGRESS_SECONDS)) as pump:
            async for progress in pump:
                yield reports.progress_to_proto(progress)

    async def GetPerformance(self, request: pb.GetPerformanceRequest, context: Context) -> pb.GetPerformanceResponse:
        """Tell how long operations took since the process started."""
        reads.check_performance(request)
        operations = await self._meta.run(self._app.performance.report, request.operation)
        return reports.performance_to_proto(operations, since=self._app.performance.since)
