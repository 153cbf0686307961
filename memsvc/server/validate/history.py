"""Rules for the requests that look back and go back."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import (
    check_enum,
    check_integer,
    check_name,
    check_revision,
    check_text,
    check_time,
    check_uuid,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import history_pb2 as pb
from memsvc.v1 import types_pb2 as types


def check_as_of(found: Violations, as_of: types.AsOf, *, field: str = "as_of") -> None:
    """Check a moment to look at, but for whether it lies in the future."""
    if as_of.HasField("valid_time"):
        check_time(found, f"{field}.valid_time", as_of.valid_time)
    if as_of.HasField("known_time"):
        check_time(found, f"{field}.known_time", as_of.known_time)


def check_list_revisions(request: pb.ListRevisionsRequest) -> None:
    """Check a request for revisions, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    check_integer(found, "page_size", request.page_size, least=1, most=limits.HISTORY_PAGE)
    found.finish()


def check_rollback(request: pb.RollbackMemoryRequest) -> None:
    """Check a request to roll one memory back."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    if request.revision < 1:
        found.add("revision", "must be a revision: 1 or more")
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def check_create_checkpoint(request: pb.CreateCheckpointRequest) -> None:
    """Check a request to name a moment, but for whether it lies in the future."""
    found = Violations()
    check_scope(found, request.scope)
    check_name(found, "name", request.name, most=limits.CHECKPOINT, least=1)
    check_text(found, "note", request.note, most=limits.CHECKPOINT_NOTE)
    if request.HasField("known_time"):
        check_time(found, "known_time", request.known_time)
    check_request_id(found, request.request_id)
    found.finish()


def check_list_checkpoints(request: pb.ListCheckpointsRequest) -> None:
    """Check a request for checkpoints, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_diff(request: pb.DiffCheckpointRequest) -> None:
    """Check a request for differences, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    check_name(found, "checkpoint", request.checkpoint, most=limits.CHECKPOINT, least=1)
    check_integer(found, "page_size", request.page_size, least=1, most=limits.HISTORY_PAGE)
    found.finish()


def check_rollback_to(request: pb.RollbackToCheckpointRequest) -> None:
    """Check a request to roll a project back."""
    found = Violations()
    check_scope(found, request.scope)
    check_name(found, "checkpoint", request.checkpoint, most=limits.CHECKPOINT, least=1)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()
