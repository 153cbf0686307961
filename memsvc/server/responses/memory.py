"""Responses of MemoryService."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memsvc.domain.capture import CaptureResult, Decision, FlushResult
from memsvc.domain.conflicts import Contradiction
from memsvc.domain.diagnostics import PlaceUsage
from memsvc.domain.history import Revision, changed_fields
from memsvc.domain.memory import FileRef, Memory
from memsvc.domain.watch import WatchEvent
from memsvc.domain.write_requests import BatchWriteResult, ImportProgress, RejectedItem, WriteResult
from memsvc.engine.admin.integrity import user_of
from memsvc.engine.files.service import ResolvedRef
from memsvc.engine.memories.documents import IngestResult
from memsvc.engine.memories.update import SelectionPreview, SelectionProgress
from memsvc.server.enums import CAPTURE_REASON, CHANGE_ACTION, DECIDER, OUTCOME, REVISION_ACTIONS, WATCH_EFFECT
from memsvc.server.error_status import item_status_from_error, item_status_from_rejected
from memsvc.server.responses.file import fill_resolved, linked_content
from memsvc.server.responses.memories import (
    file_ref_to_proto,
    fill_conflict,
    fill_conflicts,
    fill_memory,
    fill_time,
    memory_to_proto,
    redactions_to_proto,
)
from memsvc.server.tokens import consistency_token, selection_token, watch_cursor
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

_MICROS = 1_000_000
_NANOS_OF_MICRO = 1_000


def create_memory_response(written: WriteResult) -> memory_pb.CreateMemoryResponse:
    """Return the memory that was created, updated or found."""
    response = memory_pb.CreateMemoryResponse(
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def update_memory_response(written: WriteResult) -> memory_pb.UpdateMemoryResponse:
    """Return the memory after an update."""
    response = memory_pb.UpdateMemoryResponse(
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def delete_memory_response(written: WriteResult, *, hard: bool) -> memory_pb.DeleteMemoryResponse:
    """Return the deleted memory; a memory that was deleted for good is left out."""
    response = memory_pb.DeleteMemoryResponse(consistency_token=consistency_token(written.position))
    if not hard:
        fill_memory(response.memory, written.memory)
    return response


def restore_memory_response(written: WriteResult) -> memory_pb.RestoreMemoryResponse:
    """Return the restored memory."""
    response = memory_pb.RestoreMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response


def list_scopes_response(found: Sequence[PlaceUsage], token: str) -> memory_pb.ListScopesResponse:
    """Return a page of scopes."""
    response = memory_pb.ListScopesResponse(next_page_token=token)
    for one in found:
        owner, project_id, agent_id, session_id = one.place
        scope = types_pb.Scope(user_id=user_of(owner), project_id=project_id, agent_id=agent_id, session_id=session_id)
        usage = response.scopes.add(scope=scope, memory_count=one.count, count_by_status=one.by_status)
        fill_time(usage.last_write_time, one.last_write)
    return response


def selection_preview(preview: SelectionPreview, request: bytes) -> memory_pb.SelectionPreview:
    """Return what a selection matches, with the token that the change needs."""
    return memory_pb.SelectionPreview(
        matched_count=preview.count,
        count_by_status=preview.by_status,
        count_by_layer=preview.by_layer,
        sample=map(memory_to_proto, preview.sample),
        selection_token=selection_token(preview.count, preview.digest, request),
    )


def selection_event(progress: SelectionProgress) -> dict[str, Any]:
    """Return the event of a response that says how far a change of many memories is."""
    if not progress.is_last:
        return {
            "progress": memory_pb.SelectionProgress(
                done_count=progress.done, total_count=progress.total, changed_count=progress.changed
            )
        }
    failures = [
        memory_pb.SelectionFailure(memory_id=memory_id, status=item_status_from_error(error))
        for memory_id, error in progress.failures
    ]
    summary = memory_pb.SelectionSummary(
        matched_count=progress.total,
        changed_count=progress.changed,
        unchanged_count=progress.unchanged,
        failed_count=progress.failed,
        failures=failures,
        consistency_token=consistency_token(progress.position),
    )
    return {"summary": summary}


def batch_create_memories_response(
    batch: BatchWriteResult, notices: Sequence[str]
) -> memory_pb.BatchCreateMemoriesResponse:
    """Return the results of a batch and their notices, in the order of its items."""
    response = memory_pb.BatchCreateMemoriesResponse(consistency_token=consistency_token(batch.position))
    for result, notice in zip(batch.results, notices, strict=True):
        message = response.results.add(notice=notice)
        _fill_result(message, result)
    return response


def _fill_result(message: memory_pb.BatchCreateResult, result: WriteResult | RejectedItem) -> None:
    """Fill in the result of one item of a batch."""
    if isinstance(result, RejectedItem):
        message.status.CopyFrom(item_status_from_rejected(result))
        return
    fill_memory(message.memory, result.memory)
    message.outcome = OUTCOME.to_proto[result.outcome]
    if result.redactions:
        message.redactions.extend(redactions_to_proto(result.redactions))
    message.status.SetInParent()
    fill_conflicts(message.conflicts, result.conflicts)


def import_memories_response(
    progress: ImportProgress, issues: Sequence[tuple[int, RejectedItem | str]], *, seconds: float, done: bool = False
) -> memory_pb.ImportMemoriesResponse:
    """Return the progress of an import *seconds* after its header.

    *issues* were not reported before: rejected items, and the memory that has the content of one whose key is not
    stored.
    """
    stored = progress.created + progress.updated + progress.duplicates
    return memory_pb.ImportMemoriesResponse(
        received_count=progress.received,
        created_count=progress.created,
        updated_count=progress.updated,
        duplicate_count=progress.duplicates,
        failed_count=progress.failed,
        conflict_count=progress.conflicts,
        redacted_count=progress.redacted,
        next_index=progress.next_index,
        failures=[
            memory_pb.ImportFailure(index=index, status=item_status_from_rejected(rejected))
            for index, rejected in issues
            if isinstance(rejected, RejectedItem)
        ],
        unstored_keys=[
            memory_pb.ImportUnstoredKey(index=index, memory_id=holder_id)
            for index, holder_id in issues
            if isinstance(holder_id, str)
        ],
        done=done,
        consistency_token=consistency_token(progress.position) if progress.position else "",
        memories_per_second=(stored + progress.failed) / seconds if seconds > 0 else 0.0,
    )


def batch_get_memories_response(
    named: Sequence[tuple[Sequence[str], Mapping[str, Memory]]],
) -> memory_pb.BatchGetMemoriesResponse:
    """Return the memories that were found, each once, and the missing ids and keys, all in the order of the request.

    *named* are the ids with the memories that they name, and the keys with theirs.
    """
    memories = {found[name].id: found[name] for names, found in named for name in names if name in found}
    missing_ids, missing_keys = ([name for name in names if name not in found] for names, found in named)
    return memory_pb.BatchGetMemoriesResponse(
        memories=map(memory_to_proto, memories.values()), missing_ids=missing_ids, missing_keys=missing_keys
    )


def list_memories_response(memories: Sequence[Memory], next_page_token: str) -> memory_pb.ListMemoriesResponse:
    """Return one page of memories."""
    return memory_pb.ListMemoriesResponse(
        memories=[memory_to_proto(memory) for memory in memories], next_page_token=next_page_token
    )


def list_quarantined_response(memories: Sequence[Memory], next_page_token: str) -> memory_pb.ListQuarantinedResponse:
    """Return one page of quarantined memories."""
    return memory_pb.ListQuarantinedResponse(
        memories=[memory_to_proto(memory) for memory in memories], next_page_token=next_page_token
    )


def review_memory_response(written: WriteResult) -> memory_pb.ReviewMemoryResponse:
    """Return a memory after its review."""
    response = memory_pb.ReviewMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def supersede_memory_response(new: WriteResult, old: WriteResult) -> memory_pb.SupersedeMemoryResponse:
    """Return a superseded memory and its successor."""
    response = memory_pb.SupersedeMemoryResponse(consistency_token=consistency_token(new.position))
    fill_memory(response.memory, new.memory)
    fill_memory(response.superseded, old.memory)
    fill_conflicts(response.conflicts, new.conflicts)
    response.redactions.extend(redactions_to_proto(new.redactions))
    return response


def list_conflicts_response(
    conflicts: Sequence[Contradiction], next_page_token: str
) -> memory_pb.ListConflictsResponse:
    """Return one page of conflicts."""
    response = memory_pb.ListConflictsResponse(next_page_token=next_page_token)
    fill_conflicts(response.conflicts, conflicts)
    return response


def resolve_conflict_response(contradiction: Contradiction, position: int) -> memory_pb.ResolveConflictResponse:
    """Return a conflict after its resolution."""
    response = memory_pb.ResolveConflictResponse(consistency_token=consistency_token(position))
    fill_conflict(response.conflict, contradiction)
    return response


def capture_memory_response(captured: CaptureResult) -> memory_pb.CaptureMemoryResponse:
    """Return the decisions of a capture."""
    response = memory_pb.CaptureMemoryResponse(
        redactions=redactions_to_proto(captured.redactions),
        decider=DECIDER.to_proto[captured.decider],
        notice=captured.notice,
        consistency_token=consistency_token(captured.position) if captured.position else "",
    )
    for decision in captured.decisions:
        _fill_decision(response.decisions.add(), decision)
    return response


def _fill_decision(message: memory_pb.CaptureDecision, decision: Decision) -> None:
    message.remember = decision.remember
    message.reason = CAPTURE_REASON.to_proto[decision.reason]
    message.detail = decision.detail
    message.statement = decision.text
    if decision.memory is not None:
        fill_memory(message.memory, decision.memory)
    if decision.outcome is not None:
        message.outcome = OUTCOME.to_proto[decision.outcome]
    fill_conflicts(message.conflicts, decision.conflicts)


def flush_messages_response(flushed: FlushResult) -> memory_pb.FlushMessagesResponse:
    """Return the memories and references that were extracted from a conversation."""
    response = memory_pb.FlushMessagesResponse(
        redactions=redactions_to_proto(flushed.redactions),
        ignored_count=flushed.ignored,
        recalled_count=flushed.recalled,
        decider=DECIDER.to_proto[flushed.decider],
        notice=flushed.notice,
        consistency_token=consistency_token(flushed.position),
    )
    response.results.extend(map(flush_result_to_proto, flushed.written))
    response.file_refs.extend(map(file_ref_to_proto, flushed.file_refs))
    return response


def flush_result_to_proto(written: WriteResult) -> memory_pb.FlushResult:
    """Return one memory of a flush."""
    result = memory_pb.FlushResult(outcome=OUTCOME.to_proto[written.outcome])
    fill_memory(result.memory, written.memory)
    fill_conflicts(result.conflicts, written.conflicts)
    return result


def fill_linked_files(
    response: memory_pb.GetMemoryResponse, memory: Memory, resolved: Mapping[FileRef, ResolvedRef]
) -> None:
    """Add the files of a memory, and its content with links to them."""
    own = [resolved[ref] for ref in memory.file_refs]
    for one in own:
        fill_resolved(response.files.add(), one)
    response.linked_content = linked_content(memory.content, own)


def append_memory_response(written: WriteResult) -> memory_pb.AppendMemoryResponse:
    """Return a memory after text was appended to it."""
    response = memory_pb.AppendMemoryResponse(
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    fill_conflicts(response.conflicts, written.conflicts)
    return response


def ingest_document_response(ingested: IngestResult) -> memory_pb.IngestDocumentResponse:
    """Return a document that was stored as a memory."""
    written = ingested.written
    response = memory_pb.IngestDocumentResponse(
        chunk_count=ingested.chunk_count,
        outcome=OUTCOME.to_proto[written.outcome],
        consistency_token=consistency_token(written.position),
        redactions=redactions_to_proto(written.redactions),
    )
    fill_memory(response.memory, written.memory)
    return response


def list_revisions_response(
    revisions: list[Revision], older: Revision | None, next_page_token: str
) -> memory_pb.ListRevisionsResponse:
    """Return a page of revisions; *older* is the one before the last of them, where it may be seen."""
    response = memory_pb.ListRevisionsResponse(next_page_token=next_page_token)
    for revision, before in zip(revisions, [*revisions[1:], older], strict=True):
        action = REVISION_ACTIONS[revision.action]
        message = response.revisions.add(revision=revision.memory.revision, action=action)
        fill_time(message.known_from, revision.memory.update_time)
        if revision.until is not None:
            fill_time(message.known_to, revision.until)
        fill_memory(message.memory, revision.memory)
        if before is not None:
            message.changed_fields.extend(changed_fields(before.memory, revision.memory))
    return response


def rollback_memory_response(written: WriteResult) -> memory_pb.RollbackMemoryResponse:
    """Return a memory after an earlier revision was restored."""
    response = memory_pb.RollbackMemoryResponse(consistency_token=consistency_token(written.position))
    fill_memory(response.memory, written.memory)
    return response


def watch_heartbeat(position: int, digest: bytes) -> memory_pb.WatchMemoriesResponse:
    """Return a heartbeat of the watch that has the digest *digest*."""
    return memory_pb.WatchMemoriesResponse(heartbeat=memory_pb.WatchHeartbeat(), cursor=watch_cursor(position, digest))


def watch_change(event: WatchEvent, digest: bytes) -> memory_pb.WatchMemoriesResponse:
    """Return a change of the watch that has the digest *digest*."""
    change = event.change
    response = memory_pb.WatchMemoriesResponse(cursor=watch_cursor(change.position, digest))
    message = response.change
    message.action = CHANGE_ACTION.to_proto[change.action]
    message.effect = WATCH_EFFECT.to_proto[event.effect]
    message.memory_id = change.memory_id
    message.revision = change.revision
    message.time.seconds, micros = divmod(change.time, _MICROS)
    message.time.nanos = micros * _NANOS_OF_MICRO
    if event.memory is not None:
        fill_memory(message.memory, event.memory)
    return response
