"""Rules for the requests that write."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.domain.write_requests import PATCHABLE, Draft, Rejected
from memsvc.server.convert.drafts import draft_from_proto
from memsvc.server.convert.enums import CONFLICT_POLICY, ON_DUPLICATE, WAIT_FOR
from memsvc.server.convert.patches import masked_fields
from memsvc.server.convert.vectors import Numbers, numbers_from_proto
from memsvc.server.error_status import rejected_from_error
from memsvc.server.validate.memories import check_draft, check_fields
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_name,
    check_revision,
    check_uuid,
    check_vector,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import types_pb2 as types


def check_create(request: pb.CreateMemoryRequest, numbers: Numbers, *, dimension: int) -> None:
    """Check a request to store one memory with a vector of these numbers."""
    found = Violations()
    check_scope(found, request.scope)
    check_draft(found, request.memory, request.scope, numbers, dimension=dimension)
    _check_options(found, request)
    found.finish()


def check_batch_create(request: pb.BatchCreateMemoriesRequest) -> None:
    """Check a batch as a whole; its memories are checked one by one by `draft_or_rejected`."""
    found = Violations()
    check_scope(found, request.scope)
    check_count(found, "memories", request.memories, least=1, most=limits.BATCH)
    _check_options(found, request)
    found.finish()


def draft_or_rejected(entry: pb.BatchMemory, scope: types.Scope, *, dimension: int) -> Draft | Rejected:
    """Return the draft of one memory of a batch, or what is wrong with it, by paths within the item."""
    found = Violations()
    numbers = numbers_from_proto(entry)
    check_draft(found, entry.memory, scope, numbers, dimension=dimension)
    if error := found.error():
        return rejected_from_error(error)
    return draft_from_proto(entry.memory, numbers)


def check_import_header(header: pb.ImportHeader) -> None:
    """Check the first message of an import."""
    found = Violations()
    check_scope(found, header.scope, field="header.scope")
    _check_options(found, header, prefix="header.")
    found.finish()


def check_import_batch(batch: pb.ImportBatch, *, next_index: int) -> None:
    """Check a batch of an import as a whole; *next_index* is the one after the last memory that is known of."""
    found = Violations()
    check_count(found, "batch.memories", batch.memories, most=limits.BATCH)
    if not 0 <= batch.first_index <= next_index:
        found.add("batch.first_index", f"must be 0 to {next_index}, or memories would be left out")
    found.finish()


def check_update(request: pb.UpdateMemoryRequest, *, dimension: int) -> None:
    """Check a request to change a memory: the fields that it means to change, and no others."""
    found = Violations()
    check_scope(found, request.scope)
    if request.memory.id:
        check_uuid(found, "memory.id", request.memory.id)
    elif request.memory.key:
        check_name(found, "memory.key", request.memory.key, most=limits.KEY)
    else:
        found.add("memory.id", "must be set, or memory.key")
    for index, path in enumerate(request.update_mask.paths):
        if path not in PATCHABLE:
            found.add(f"update_mask.paths[{index}]", "must be the name of a field of Memory that can be changed")
    names = frozenset(masked_fields(request))
    check_fields(found, request.memory, names if request.memory.id else names - {"key"})
    check_vector(found, "vector", numbers_from_proto(request), dimension)
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    check_enum(found, "conflict_policy", request.conflict_policy, CONFLICT_POLICY.from_proto)
    found.finish()


def check_one(request: pb.DeleteMemoryRequest | pb.RestoreMemoryRequest) -> None:
    """Check a request to delete or restore a memory."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def _check_options(
    found: Violations,
    request: pb.CreateMemoryRequest | pb.BatchCreateMemoriesRequest | pb.ImportHeader,
    *,
    prefix: str = "",
) -> None:
    check_request_id(found, request.request_id, field=f"{prefix}request_id")
    check_enum(found, f"{prefix}on_duplicate", request.on_duplicate, ON_DUPLICATE.from_proto)
    check_enum(found, f"{prefix}wait_for", request.wait_for, WAIT_FOR.from_proto)
    check_enum(found, f"{prefix}conflict_policy", request.conflict_policy, CONFLICT_POLICY.from_proto)
