"""Looking after the service."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import TypedDict, Unpack

import grpc

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.client.request_types import Index, ReindexMode
from memsvc.v1 import integrity_pb2 as integrity
from memsvc.v1 import lifecycle_service_pb2 as lifecycle


class IntegrityFields(TypedDict, total=False):
    """What a check does about files: fields of CheckIntegrityRequest."""

    remove_broken_refs: bool
    remove_orphan_files: bool
    orphan_grace: timedelta
    ignore_files: bool


class Upkeep(Connected):
    """The calls about the service as a whole."""

    async def wait_ready(self, timeout: float = 30.0) -> None:
        """Return as soon as the service answers searches.

        Raises:
            MemsvcCallError: DEADLINE_EXCEEDED, it did not within *timeout* seconds.
        """
        await self._remote.wait_ready(timeout)

    async def stats(self, *, timeout: float | None = None) -> lifecycle.GetStatsResponse:
        """Return counts of the memories that the scope sees."""
        return await self._remote.unary(
            self._remote.lifecycle.GetStats, lifecycle.GetStatsRequest(scope=self.scope), timeout
        )

    async def diagnose(
        self,
        *,
        verify: bool = False,
        timeout: float | None = None,
    ) -> lifecycle.DiagnoseResponse:
        """Return how backends and indexes are; with *verify* every index entry is compared with the store."""
        return await self._remote.unary(
            self._remote.lifecycle.Diagnose, lifecycle.DiagnoseRequest(verify=verify), timeout
        )

    async def performance(
        self,
        operation: str = "",
        *,
        timeout: float | None = None,
    ) -> lifecycle.GetPerformanceResponse:
        """Return how long operations took since the service started; all of them, or the one that is named."""
        request = lifecycle.GetPerformanceRequest(operation=operation)
        return await self._remote.unary(self._remote.lifecycle.GetPerformance, request, timeout)

    async def reindex(
        self, indexes: Sequence[Index] = (), *, mode: ReindexMode = "REBUILD"
    ) -> AsyncGenerator[lifecycle.ReindexResponse, None]:
        """Make indexes equal to the store again and yield the progress; the last response is of the phase DONE.

        Leaving the loop early stops it.
        """
        request = lifecycle.ReindexRequest(
            indexes=[to_proto.enum_to_proto("indexes", lifecycle.IndexKind, "INDEX_KIND_", name) for name in indexes],
            mode=to_proto.enum_to_proto("mode", lifecycle.ReindexMode, "REINDEX_MODE_", mode),
        )
        call = self._remote.lifecycle.Reindex(request)
        try:
            async for progress in call:
                yield progress
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()

    async def check_integrity(
        self, *, everybody: bool = False, repair: bool = False, **fields: Unpack[IntegrityFields]
    ) -> AsyncGenerator[integrity.CheckIntegrityResponse, None]:
        """Look for broken links and the like in what the scope sees, or of *everybody*; *repair* puts it right.

        Of files only what the *fields* say is removed, which are those of CheckIntegrityRequest.

        Yields findings, progress, and the summary at the end. Leaving the loop early stops it.
        """
        request = integrity.CheckIntegrityRequest(
            scope=None if everybody else self.scope,
            all=everybody,
            repair=repair,
            remove_broken_refs=fields.get("remove_broken_refs", False),
            remove_orphan_files=fields.get("remove_orphan_files", False),
            ignore_files=fields.get("ignore_files", False),
        )
        if "orphan_grace" in fields:
            request.orphan_grace.FromTimedelta(fields["orphan_grace"])
        call = self._remote.lifecycle.CheckIntegrity(request)
        try:
            async for event in call:
                yield event
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()
