"""Having memories looked after as time goes by."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from uuid import uuid4

import grpc

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.client.request_types import MaintenanceStep, WaitFor
from memsvc.v1 import maintenance_pb2
from memsvc.v1 import types_pb2 as types


class Maintenance(Connected):
    """The calls that expire, promote and archive."""

    async def maintain(
        self, steps: Sequence[MaintenanceStep] = (), *, dry_run: bool = False, everybody: bool = False
    ) -> AsyncGenerator[maintenance_pb2.RunMaintenanceResponse, None]:
        """Do what is due by *steps* (none: all), or with *dry_run* only list it, and yield the progress.

        It is about the client's project, or without one about all memories of its user; with *everybody* about those
        of all users of the service. The last response has no step. Leaving the loop early ends the run.
        """
        scope = None if everybody else types.Scope(user_id=self.scope.user_id, project_id=self.scope.project_id)
        numbers = [
            to_proto.enum_to_proto("steps", maintenance_pb2.MaintenanceStep, "MAINTENANCE_STEP_", name)
            for name in steps
        ]
        call = self._remote.lifecycle.RunMaintenance(
            maintenance_pb2.RunMaintenanceRequest(scope=scope, steps=numbers, dry_run=dry_run)
        )
        try:
            async for progress in call:
                yield progress
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()

    async def archive(
        self,
        memory_id: str,
        *,
        expected_revision: int = 0,
        wait_for: WaitFor | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> maintenance_pb2.ArchiveMemoryResponse:
        """Put a memory out of use; `restore` puts it into use again."""
        request = maintenance_pb2.ArchiveMemoryRequest(
            scope=self.scope,
            id=memory_id,
            expected_revision=expected_revision,
            request_id=request_id or str(uuid4()),
            wait_for=to_proto.named("wait_for", wait_for),
        )
        return await self._remote.unary(self._remote.lifecycle.ArchiveMemory, request, timeout)
