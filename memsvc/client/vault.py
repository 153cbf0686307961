"""Memories as files."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import grpc

from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.v1 import types_pb2 as types
from memsvc.v1 import vault_pb2 as vault


class Vaults(Connected):
    """The calls about the vault."""

    async def sync_vault(
        self, *, everybody: bool = False, force: bool = False, dry_run: bool = False
    ) -> AsyncGenerator[vault.SyncVaultResponse, None]:
        """Compare the files and the memories of the user, or of *everybody*, and bring them together.

        Yields changes, progress, and the summary at the end. With *dry_run* nothing is changed; with *force* files are
        written anew, missing ones too. Leaving the loop early stops it; what was done stays done.
        """
        scope = None if everybody else types.Scope(user_id=self.scope.user_id)
        call = self._remote.lifecycle.SyncVault(vault.SyncVaultRequest(scope=scope, force=force, dry_run=dry_run))
        try:
            async for event in call:
                yield event
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()
