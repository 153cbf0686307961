"""Moving the store of the service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

import grpc

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.client.errors import MemsvcCallError
from memsvc.v1 import migration_pb2

MigrationAction = Literal["RUN", "CHECK", "ABORT", "UNDO"]


class Migrations(Connected):
    """The call that moves everything that the service stores."""

    async def migrate_backend(
        self, postgresql_url: str | None, *, action: MigrationAction = "RUN", discard_changes: bool = False
    ) -> AsyncGenerator[migration_pb2.MigrateBackendResponse, None]:
        """Move the store to a PostgreSQL database, or with None to the embedded one, and yield the progress.

        The last response to RUN is of the phase DONE: the service takes no writes from then on, until it is started
        with the new store. Leaving the loop early breaks the move off; another call goes on with it. The other actions
        are as in MigrationAction.
        """
        target = migration_pb2.MigrationTarget()
        if postgresql_url is None:
            target.embedded.SetInParent()
        else:
            target.postgresql_url = postgresql_url
        request = migration_pb2.MigrateBackendRequest(
            target=target,
            action=to_proto.enum_to_proto("action", migration_pb2.MigrationAction, "MIGRATION_ACTION_", action),
            discard_changes=discard_changes,
        )
        call = self._remote.lifecycle.MigrateBackend(request)
        try:
            async for progress in call:
                yield progress
        except grpc.aio.AioRpcError as error:
            raise MemsvcCallError.from_rpc(error) from error
        finally:
            call.cancel()
