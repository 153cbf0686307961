"""What SyncVault does to strangers. Where the service keeps a vault, test_vault.py looks at the files themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.isolation.fixtures import Stranger
from tests.e2e.isolation.registry import INVALID, case


@case
def SyncVault(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It tells of the stranger's own files only; the service of these tests keeps none."""
    scope = types_pb.Scope(user_id=stranger.scope.user_id)
    yield [admin_pb.SyncVaultRequest(scope=scope, dry_run=True)], grpc.StatusCode.FAILED_PRECONDITION
    if stranger.scope.project_id:
        yield [admin_pb.SyncVaultRequest(scope=stranger.scope)], INVALID
