"""Looking back and going back in tests."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT
from tests.support.server_process import Stubs

CREATED, CHANGED, DELETED, RESTORED, PURGED = range(1, 6)


def update(stubs: Stubs, scope: types_pb.Scope, memory_id: str, **fields: object) -> types_pb.Memory:
    """Change fields of a memory."""
    memory = types_pb.Memory(id=memory_id, **fields)  # type: ignore[arg-type] # any field
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=memory, update_mask=FieldMask(paths=list(fields)))
    return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory


def delete(stubs: Stubs, scope: types_pb.Scope, memory_id: str, *, hard: bool = False) -> types_pb.Memory:
    """Delete a memory."""
    request = memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id, purge=hard)
    return stubs.memory.DeleteMemory(request, timeout=TIMEOUT).memory


def rollback(stubs: Stubs, scope: types_pb.Scope, memory_id: str, revision: int, **request: object) -> types_pb.Memory:
    """Roll a memory back."""
    asked = memory_pb.RollbackMemoryRequest(scope=scope, id=memory_id, revision=revision, **request)  # type: ignore[arg-type]
    return stubs.memory.RollbackMemory(asked, timeout=TIMEOUT).memory


def revisions(stubs: Stubs, scope: types_pb.Scope, memory_id: str, page_size: int = 2) -> list[memory_pb.Revision]:
    """Return all revisions, page by page."""
    listed: list[memory_pb.Revision] = []
    token = ""
    while True:
        page = stubs.memory.ListRevisions(
            memory_pb.ListRevisionsRequest(scope=scope, id=memory_id, page_size=page_size, page_token=token),
            timeout=TIMEOUT,
        )
        listed.extend(page.revisions)
        token = page.next_page_token
        if not token:
            return listed


def checkpoint(stubs: Stubs, scope: types_pb.Scope, name: str, **request: object) -> lifecycle_pb.Checkpoint:
    """Name the present moment."""
    asked = lifecycle_pb.CreateCheckpointRequest(scope=scope, name=name, **request)  # type: ignore[arg-type] # any field
    return stubs.lifecycle.CreateCheckpoint(asked, timeout=TIMEOUT).checkpoint


def differences(stubs: Stubs, scope: types_pb.Scope, name: str, page_size: int = 2) -> list[lifecycle_pb.Difference]:
    """Return all differences, page by page."""
    listed: list[lifecycle_pb.Difference] = []
    token = ""
    while True:
        page = stubs.lifecycle.DiffCheckpoint(
            lifecycle_pb.DiffCheckpointRequest(scope=scope, checkpoint=name, page_size=page_size, page_token=token),
            timeout=TIMEOUT,
        )
        listed.extend(page.differences)
        token = page.next_page_token
        if not token:
            return listed


def roll_back_to(
    stubs: Stubs, scope: types_pb.Scope, name: str, **request: object
) -> lifecycle_pb.RollbackToCheckpointResponse:
    """Roll a project back."""
    asked = lifecycle_pb.RollbackToCheckpointRequest(scope=scope, checkpoint=name, **request)  # type: ignore[arg-type]
    return stubs.lifecycle.RollbackToCheckpoint(asked, timeout=TIMEOUT)


def known(moment: Timestamp) -> types_pb.AsOf:
    """Return what asks for what was known at a moment."""
    return types_pb.AsOf(known_time=moment)


def later(moment: Timestamp, **parts: float) -> Timestamp:
    """Return a moment after another."""
    shifted = Timestamp()
    shifted.FromDatetime(moment.ToDatetime() + timedelta(**parts))
    return shifted


def plain(memory: types_pb.Memory) -> types_pb.Memory:
    """Return a memory without the traces of reading."""
    copy = types_pb.Memory()
    copy.CopyFrom(memory)
    copy.ClearField("access_count")
    copy.ClearField("access_time")
    return copy
