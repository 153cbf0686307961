"""What writes came to, as replies: batches and imports included."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc.domain.drafts import BatchWritten, ImportProgress, Rejected, Written
from memsvc.server.convert.enums import OUTCOME
from memsvc.server.convert.memory import memory_to_proto
from memsvc.server.convert.tokens import consistency_token
from memsvc.server.status import item_status_from_rejected
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import types_pb2 as types


def created_to_proto(written: Written) -> pb.CreateMemoryResponse:
    """Return the answer to a creating write."""
    return pb.CreateMemoryResponse(
        memory=memory_to_proto(written.memory),
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
    )


def updated_to_proto(written: Written) -> pb.UpdateMemoryResponse:
    """Return the answer to an update."""
    return pb.UpdateMemoryResponse(
        memory=memory_to_proto(written.memory), consistency_token=consistency_token(written.position)
    )


def deleted_to_proto(written: Written, *, hard: bool) -> pb.DeleteMemoryResponse:
    """Return the answer to a deletion; a memory that is gone for good is not shown."""
    return pb.DeleteMemoryResponse(
        memory=None if hard else memory_to_proto(written.memory),
        consistency_token=consistency_token(written.position),
    )


def restored_to_proto(written: Written) -> pb.RestoreMemoryResponse:
    """Return the answer to a restoration."""
    return pb.RestoreMemoryResponse(
        memory=memory_to_proto(written.memory), consistency_token=consistency_token(written.position)
    )


def batch_to_proto(batch: BatchWritten) -> pb.BatchCreateMemoriesResponse:
    """Return the answer to a batch, item by item in the order given."""
    return pb.BatchCreateMemoriesResponse(
        results=[result_to_proto(result) for result in batch.results],
        consistency_token=consistency_token(batch.position),
    )


def result_to_proto(result: Written | Rejected) -> pb.BatchCreateResult:
    """Return what became of one memory of a batch."""
    if isinstance(result, Rejected):
        return pb.BatchCreateResult(status=item_status_from_rejected(result))
    return pb.BatchCreateResult(
        memory=memory_to_proto(result.memory),
        outcome=OUTCOME.to_proto[result.outcome],
        status=types.ItemStatus(),
    )


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
        next_index=progress.next_index,
        failures=[
            pb.ImportFailure(index=index, status=item_status_from_rejected(rejected)) for index, rejected in failures
        ],
        done=done,
        consistency_token=consistency_token(progress.position) if progress.position else "",
        memories_per_second=(stored + progress.failed) / seconds if seconds > 0 else 0.0,
    )
