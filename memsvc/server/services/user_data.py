"""ExportUser, ImportUser, EraseUser and CreateBackup: check, convert, call, convert back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from memsvc.domain.user_data import Receipt
from memsvc.engine.admin.backup import BackupProgress
from memsvc.server import call_context
from memsvc.server.convert.enums import BACKUP_PHASE
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.times import fill_time
from memsvc.server.executors import iterate_in_thread
from memsvc.server.server_context import ServerContext
from memsvc.server.streams.user_import import UserImportStream
from memsvc.server.validate import transfers as validate
from memsvc.v1 import backup_pb2, erasure_pb2, transfer_pb2

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

PROGRESS_SECONDS = 1.0
NEVER_SECONDS = 86_400.0
"""A piece of a file must not be told twice: no step takes so long."""


class TransferMethods:
    """What LifecycleService does with all of a user, and with all of everybody."""

    _edge: ServerContext

    async def ExportUser(
        self, request: transfer_pb2.ExportUserRequest, context: Context
    ) -> AsyncGenerator[transfer_pb2.ExportUserResponse, None]:
        """Tell everything of a user."""
        validate.check_export_user(request)
        scope = scope_from(request.scope, call_context.principal.get())
        parts = self._edge.application.exporting.run(
            scope, with_vectors=request.include_vectors, service=f"memsvc {self._edge.options.version}".strip()
        )
        async with aclosing(iterate_in_thread(parts, name="export", at_least_every=NEVER_SECONDS)) as pump:
            async for part in pump:
                yield transfer_pb2.ExportUserResponse(data=part.data, record_count=part.records, total_count=part.total)

    async def ImportUser(
        self, request_iterator: AsyncIterator[transfer_pb2.ImportUserRequest], context: Context
    ) -> AsyncGenerator[transfer_pb2.ImportUserResponse, None]:
        """Take in a file that ExportUser made."""
        async with aclosing(UserImportStream(self._edge, request_iterator).responses()) as responses:
            async for response in responses:
                yield response

    async def EraseUser(self, request: erasure_pb2.EraseUserRequest, context: Context) -> erasure_pb2.EraseUserResponse:
        """Forget a user for good, or say how much there is to forget."""
        validate.check_erase_user(request)
        scope = scope_from(request.scope, call_context.principal.get())
        erase = self._edge.application.erase
        if not request.confirm:
            return _receipt_to_proto(await self._edge.executors.meta.run(erase.preview, scope))
        return _receipt_to_proto(await self._edge.executors.write.run(erase.run, scope, request_id=request.request_id))

    async def CreateBackup(
        self, request: backup_pb2.CreateBackupRequest, context: Context
    ) -> AsyncGenerator[backup_pb2.CreateBackupResponse, None]:
        """Copy the store while it is used."""
        validate.check_create_backup(request)
        steps = self._edge.application.backups.create(request.name)
        async with aclosing(iterate_in_thread(steps, name="backup", at_least_every=PROGRESS_SECONDS)) as pump:
            async for step in pump:
                yield _backup_to_proto(step)


def _receipt_to_proto(receipt: Receipt) -> erasure_pb2.EraseUserResponse:
    response = erasure_pb2.EraseUserResponse()
    told = response.receipt
    told.dry_run = not receipt.is_done
    told.clean = receipt.is_clean
    fill_time(told.begin_time, receipt.begin_time)
    fill_time(told.end_time, receipt.end_time)
    for store in receipt.stores:
        told.stores.add(store=store.name, removed_counts=store.removed, remaining_count=store.remaining)
    told.backups.extend(receipt.backups)
    told.files_searched = receipt.files_searched
    return response


def _backup_to_proto(step: BackupProgress) -> backup_pb2.CreateBackupResponse:
    return backup_pb2.CreateBackupResponse(
        phase=BACKUP_PHASE.to_proto[step.phase],
        name=step.name,
        done_count=step.done,
        total_count=step.total,
        size_bytes=step.bytes,
        row_counts=step.counts,
        manifest_sha256=step.digest,
    )
