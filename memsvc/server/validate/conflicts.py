"""Rules for the requests about conflicts and supersession."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.server.convert.enums import CONFLICT_POLICY, CONFLICT_STATE, RESOLUTION, WAIT_FOR
from memsvc.server.convert.vectors import numbers_from_proto
from memsvc.server.validate.memories import check_draft
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_enums,
    check_integer,
    check_revision,
    check_uuid,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import conflicts_pb2 as pb

STATES = 16


def check_supersede(request: pb.SupersedeMemoryRequest, *, dimension: int) -> None:
    """Check a request to put a memory in the place of another: a new one, or nothing but an id."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    if request.memory.id:
        check_uuid(found, "memory.id", request.memory.id)
        if len(request.memory.ListFields()) > 1:
            found.add("memory", "must be new, with content and without an id, or hold nothing but an id")
        if request.vector:
            found.add("vector", "must be empty when memory.id is set")
    else:
        check_draft(found, request.memory, request.scope, numbers_from_proto(request), dimension=dimension)
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    check_enum(found, "conflict_policy", request.conflict_policy, CONFLICT_POLICY.from_proto)
    found.finish()


def check_list_conflicts(request: pb.ListConflictsRequest) -> None:
    """Check a request for a page of conflicts, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    check_enums(found, "states", request.states, CONFLICT_STATE.from_proto, count=STATES)
    if request.memory_id:
        check_uuid(found, "memory_id", request.memory_id)
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_resolve(request: pb.ResolveConflictRequest) -> None:
    """Check a decision about a conflict."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "conflict_id", request.conflict_id)
    check_count(found, "resolution", [request.resolution] if request.resolution else [], least=1, most=1)
    check_enum(found, "resolution", request.resolution, RESOLUTION.from_proto)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()
