"""What was: moments to look at, revisions, checkpoints and differences."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import TypeAlias

from memsvc.domain.clock import EPOCH, from_micros, to_micros
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.history import (
    AsOf,
    Checkpoint,
    Difference,
    DifferenceKind,
    Revision,
    RollbackReport,
    changed_fields,
)
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.write_requests import Written
from memsvc.server.convert.enums import EnumTable
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.times import fill_time, time_from_proto
from memsvc.server.convert.tokens import consistency_token
from memsvc.v1 import history_pb2 as pb
from memsvc.v1 import types_pb2 as types

DIFFERENCE_KIND = EnumTable(DifferenceKind, pb.DifferenceKind, "DIFFERENCE_KIND")
ACTIONS = {
    ChangeAction.CREATED: pb.REVISION_ACTION_CREATED,
    ChangeAction.UPDATED: pb.REVISION_ACTION_UPDATED,
    ChangeAction.DELETED: pb.REVISION_ACTION_DELETED,
    ChangeAction.RESTORED: pb.REVISION_ACTION_RESTORED,
}
_PLACE = struct.Struct(">8sq")
_MAX_TOKEN = 1_024

CheckpointPlace: TypeAlias = tuple[datetime, str]
"""The create_time and the name of a checkpoint."""


def as_of_from_proto(as_of: types.AsOf, now: datetime, *, field: str = "as_of") -> AsOf | None:
    """Return the moment to look at, None when neither time is given. *field* is its path in the request.

    Raises:
        InvalidRequestError: What will be known is asked for.
    """
    valid = time_from_proto(as_of.valid_time) if as_of.HasField("valid_time") else None
    known = time_from_proto(as_of.known_time) if as_of.HasField("known_time") else None
    if known is not None and known > now:
        raise InvalidRequestError([Violation(f"{field}.known_time", "must not lie in the future")])
    return None if valid is None and known is None else AsOf(valid, known)


def fill_revisions(response: pb.ListRevisionsResponse, revisions: list[Revision], older: Revision | None) -> None:
    """Fill in a page of revisions; *older* is the one before the last of them, where it may be seen."""
    for revision, before in zip(revisions, [*revisions[1:], older], strict=True):
        message = response.revisions.add(revision=revision.memory.revision, action=ACTIONS[revision.action])
        fill_time(message.known_from, revision.memory.update_time)
        if revision.until is not None:
            fill_time(message.known_until, revision.until)
        fill_memory(message.memory, revision.memory)
        if before is not None:
            message.changed_fields.extend(changed_fields(before.memory, revision.memory))


def rolled_back_to_proto(written: Written) -> pb.RollbackMemoryResponse:
    """Return the answer to a rollback of one memory."""
    response = pb.RollbackMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response


def fill_checkpoint(message: pb.Checkpoint, checkpoint: Checkpoint) -> None:
    """Make an empty message the checkpoint."""
    message.name = checkpoint.name
    message.note = checkpoint.note
    fill_time(message.known_time, checkpoint.known_time)
    fill_time(message.create_time, checkpoint.create_time)


def fill_difference(message: pb.Difference, difference: Difference) -> None:
    """Make an empty message the difference."""
    message.id = difference.memory_id
    message.kind = DIFFERENCE_KIND.to_proto[difference.kind]
    if difference.before is not None:
        fill_memory(message.before, difference.before)
    if difference.after is not None:
        fill_memory(message.after, difference.after)
    if difference.before is not None and difference.after is not None:
        message.changed_fields.extend(changed_fields(difference.before, difference.after))


def report_to_proto(report: RollbackReport, *, dry_run: bool) -> pb.RollbackToCheckpointResponse:
    """Return the answer to a rollback of a project."""
    counts = report.counts
    came_back = counts.get(DifferenceKind.RESTORED, 0) + counts.get(DifferenceKind.CREATED, 0)
    response = pb.RollbackToCheckpointResponse(
        changed_count=counts.get(DifferenceKind.CHANGED, 0),
        deleted_count=counts.get(DifferenceKind.DELETED, 0),
        restored_count=came_back,
        unreturned_count=report.unreturned_count,
        unreturned=[
            pb.UnreturnedMemory(id=one.memory_id, reason=one.reason.value, in_the_way=one.in_the_way)
            for one in report.unreturned
        ],
        undo_checkpoint=report.undo,
        consistency_token="" if dry_run else consistency_token(report.position),
    )
    fill_checkpoint(response.checkpoint, report.checkpoint)
    return response


def checkpoint_token(checkpoint: Checkpoint, request: bytes) -> str:
    """Return the token of the page after *checkpoint* of the list that has the digest *request*."""
    raw = _PLACE.pack(request, to_micros(checkpoint.create_time)) + checkpoint.name.encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def checkpoint_place(token: str, request: bytes) -> CheckpointPlace | None:
    """Return where a list of checkpoints goes on; None for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return None
    try:
        raw = urlsafe_b64decode(token[:_MAX_TOKEN].encode("ascii") + b"=" * (-len(token) % 4))
        digest, micros = _PLACE.unpack_from(raw)
        place = from_micros(micros), raw[_PLACE.size :].decode()
    except (ValueError, struct.error, OverflowError):
        digest, place = b"", (EPOCH, "")
    if digest != request:
        raise InvalidRequestError([Violation("page_token", "is not a token that this service gave for this request")])
    return place
