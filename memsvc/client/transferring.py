"""Carrying a user away and in, forgetting one, and backups."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from uuid import uuid4

import grpc

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.client.request_types import WaitFor
from memsvc.v1 import backup_pb2, erasure_pb2, transfer_pb2
from memsvc.v1 import types_pb2 as types

PIECE_BYTES = 256 * 1024
ERASE_SECONDS = 3600.0

Pieces = Iterable[bytes] | AsyncIterable[bytes]


class Transfers(Connected):
    """The calls about everything of a user, whatever the project, and about everything of everybody."""

    async def export_user(
        self, *, include_vectors: bool = False
    ) -> AsyncGenerator[transfer_pb2.ExportUserResponse, None]:
        """Yield the pieces of a file of everything of the user: JSON Lines. Leaving the loop early ends the export."""
        request = transfer_pb2.ExportUserRequest(scope=self._user, include_vectors=include_vectors)
        call = self._remote.lifecycle.ExportUser(request)
        try:
            async for piece in call:
                yield piece
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()

    async def import_user(
        self, pieces: Pieces, *, wait_for: WaitFor | None = None
    ) -> AsyncGenerator[transfer_pb2.ImportUserResponse, None]:
        """Take in a file that an export made, whosever it is, and yield the progress; the last response is `done`.

        *pieces* are its bytes, such as an open file read in parts, of any size; an empty one ends it. The same file may
        be sent again.
        """
        header = transfer_pb2.ImportUserHeader(scope=self._user, wait_for=to_proto.named("wait_for", wait_for))
        sending = _Sending(header, pieces)
        call = self._remote.lifecycle.ImportUser(sending.requests())
        try:
            async for progress in call:
                yield progress
        except grpc.aio.AioRpcError as error:
            if sending.failure is not None:
                raise sending.failure from error
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()
        if sending.failure is not None:
            raise sending.failure

    async def erase_user(
        self, *, confirm: bool = False, request_id: str = "", timeout: float | None = None
    ) -> erasure_pb2.ErasureReceipt:
        """Forget the user for good, and return the receipt; without *confirm* only say what would be removed.

        Refused (INVALID_ARGUMENT) from a client of a project: a user is forgotten whole, with all projects.
        """
        scope = types.Scope(user_id=self.scope.user_id, project_id=self.scope.project_id)
        request = erasure_pb2.EraseUserRequest(
            scope=scope, confirm=confirm, request_id=request_id or (str(uuid4()) if confirm else "")
        )
        patience = timeout or (ERASE_SECONDS if confirm else None)
        return (await self._remote.unary(self._remote.lifecycle.EraseUser, request, patience)).receipt

    async def create_backup(self, name: str = "") -> AsyncGenerator[backup_pb2.CreateBackupResponse, None]:
        """Copy all that the service stores into a folder of its own, and yield the progress; the last is of phase DONE.

        Leaving the loop early ends the backup, and nothing is left of it.
        """
        call = self._remote.lifecycle.CreateBackup(backup_pb2.CreateBackupRequest(name=name))
        try:
            async for progress in call:
                yield progress
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()

    @property
    def _user(self) -> types.Scope:
        return types.Scope(user_id=self.scope.user_id)


class _Sending:
    """The requests of an import, and why they ended early: gRPC would not say."""

    def __init__(self, header: transfer_pb2.ImportUserHeader, pieces: Pieces) -> None:
        self._header = header
        self._pieces = pieces
        self.failure: Exception | None = None

    async def requests(self) -> AsyncGenerator[transfer_pb2.ImportUserRequest, None]:
        yield transfer_pb2.ImportUserRequest(header=self._header)
        try:
            async for piece in _each(self._pieces):
                for start in range(0, len(piece), PIECE_BYTES):
                    yield transfer_pb2.ImportUserRequest(data=piece[start : start + PIECE_BYTES])
        except Exception as error:
            self.failure = error
            raise


async def _each(pieces: Pieces) -> AsyncIterator[bytes]:
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
        return
    source = iter(pieces)
    while piece := await asyncio.to_thread(lambda: next(source, b"")):
        yield piece
