"""What writes came to, as replies: batches and imports included."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc.domain.write_requests import BatchWritten, ImportProgress, Rejected, Written
from memsvc.server.convert.conflicts import fill_conflicts
from memsvc.server.convert.enums import OUTCOME
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.redactions import redactions_to_proto
from memsvc.server.convert.tokens import consistency_token
from memsvc.server.error_status import item_status_from_rejected
from memsvc.v1 import memory_service_pb2 as pb


def created_to_proto(written: Written) -> pb.CreateMemoryResponse:
    """Return the answer to a creating write."""
    response = pb.CreateMemoryResponse(
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def updated_to_proto(written: Written) -> pb.UpdateMemoryResponse:
    """Return the answer to an update."""
    response = pb.UpdateMemoryResponse(
        consistency_token=consistency_token(written.position), redactions=redactions_to_proto(written.redactions)
    )
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def deleted_to_proto(written: Written, *, hard: bool) -> pb.DeleteMemoryResponse:
    """Return the answer to a deletion; a memory that is gone for good is not shown."""
    response = pb.DeleteMemoryResponse(consistency_token=consistency_token(written.position))
    if not hard:
        fill_memory(response.memory, written.memory)
    return response


def restored_to_proto(written: Written) -> pb.RestoreMemoryResponse:
    """Return the answer to a restoration."""
    response = pb.RestoreMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response


def batch_to_proto(batch: BatchWritten) -> pb.BatchCreateMemoriesResponse:
    """Return the answer to a batch, item by item in the order given."""
    response = pb.BatchCreateMemoriesResponse(consistency_token=consistency_token(batch.position))
    for result in batch.results:
        _fill_result(response.results.add(), result)
    return response


def _fill_result(message: pb.BatchCreateResult, result: Written | Rejected) -> None:
    """Tell what became of one memory of a batch."""
    if isinstance(result, Rejected):
        message.status.CopyFrom(item_status_from_rejected(result))
        return
    fill_memory(message.memory, result.memory)
    message.outcome = OUTCOME.to_proto[result.outcome]
    if result.redactions:
        message.redactions.extend(redactions_to_proto(result.redactions))
    message.status.SetInParent()
    fill_conflicts(message.conflicts, result.conflicts)


def import_to_proto(
    progress: ImportProgress, failures: Sequence[tuple[int, Rejected]], *, seconds: float, done: bool = False
) -> pb.ImportMemoriesResponse:
    """Return how far an import is, *seconds* after its header; *failures* are those not yet told."""
    stored = progress.created + progress.updated + progress.duplicates
    return pb.ImportMemoriesResponse(
        received=progress.received,
        created=progress.created,
        updated=progress.updated,
        duplicates=progress.duplicates,
        failed=progress.failed,
        conflicts=progress.conflicts,
        redacted=progress.redacted,
        next_index=progress.next_index,
        failures=[
            pb.ImportFailure(index=index, status=item_status_from_rejected(rejected)) for index, rejected in failures
        ],
        done=done,
        consistency_token=consistency_token(progress.position) if progress.position else "",
        memories_per_second=(stored + progress.failed) / seconds if seconds > 0 else 0.0,
    )
