"""Changes of single memories: update, delete, restore, roll back, archive; and of many that match a filter."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from memsvc.domain import limits
from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    MemorySupersededError,
    MemsvcError,
    RevisionConflictError,
    RevisionNotFoundError,
    SelectionChangedError,
    Violation,
)
from memsvc.domain.files import FileCategory
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import UNNAMED, Layer, Memory, Status, with_status
from memsvc.domain.reminders import short_term_end
from memsvc.domain.scope import Reach, Scope, SessionVisibility
from memsvc.domain.search import Selection
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import (
    PATCHABLE,
    Outcome,
    Patch,
    PatchValue,
    RejectedItem,
    UpsertResult,
    WriteOptions,
    WriteResult,
)
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, not_found_error, request_digest
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.conflicts.extraction_marks import WITHHELD
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.conflicts.supersession import find_neighbour, require_memory
from memsvc.engine.memories.lookup import reach_of_selection
from memsvc.engine.memories.summaries import SummaryUpdater, originals_deleted_with, originals_of
from memsvc.engine.records.memory_builder import (
    MemoryBuilder,
    RecordBuilder,
    chunks_of,
    claims_content,
    concerns_schedule,
    content_name,
    require_session,
    require_validity,
    statements_of,
)
from memsvc.engine.records.memory_patch import apply_values, change_action, revert_to, values_of_patch
from memsvc.engine.records.provenance import SourceLookup, restored_status, revalue
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.features import HistoryReads
from memsvc.ports.metadata import MetadataStore, Record, SelectedMemory, Transaction

_SETTABLE = frozenset({Status.ACTIVE, Status.ARCHIVED, Status.QUARANTINED, None})
_RESTORABLE = frozenset({Status.DELETED, Status.ARCHIVED, Status.EXPIRED, Status.SUPERSEDED})
"""Statuses from which a restore leads to ACTIVE; SUPERSEDED only without a successor. CONFLICTED needs a resolution."""
_READ = (
    "content", "title", "summary", "tags", "keywords", "layer", "kind", "category", "speaker", "importance", "tier",
    "reminder", "event_time", "confidence", "file_refs", "related_ids", "work_in_progress",
)  # fmt: skip
"""Fields that readers see, of which a change of a superseded memory would be lost. Others belong to its record."""
_CHAIN = 100
"""Limit of the supersession links followed."""
_ARCHIVABLE = frozenset({Status.ACTIVE, Status.CONFLICTED})


class MemoryUpdater:
    """Changes memories, each in one transaction as one revision."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        history: HistoryReads,
        *,
        summary_updater: SummaryUpdater,
        remove_bytes: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> None:
        """Write by these parts; *history* reads past states.

        *summary_updater* is called for what is deleted, quarantined or restored; *remove_bytes* receives the hashes of
        files that were deleted with a memory, after the commit.
        """
        self.remove_bytes = remove_bytes
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._requests = requests
        self._history = history
        self._now = memory_builder.now
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)
        self.summary_updater = summary_updater

    def update(
        self, scope: Scope, *, memory_id: str, key: str, patch: Patch, expected_revision: int, options: WriteOptions
    ) -> WriteResult:
        """Set fields of the memory with this id, or, without an id, of the scope's project with this key.

        A patch that changes nothing creates no revision; the outcome is DUPLICATE then, otherwise UPDATED.

        Raises:
            InvalidRequestError: A field cannot be changed so, or the vector does not fit.
            MemoryNotFoundError: The memory does not exist, is deleted, or is private to another session.
            RevisionConflictError: The memory has another revision than expected (0: any).
            MemoryExistsError: Another memory has the new key or the new content.
            MemorySupersededError: The memory was superseded or merged, and its status, its key or a field that only
                readers of its successor would look for is to be changed.
            RequestIdReusedError: The request_id was used for another request.
        """
        _check(patch)
        target = MemoryTarget(scope, memory_id, key, expected_revision)
        values, redactions = self._memory_builder.redactor.values(self._store_images(scope, patch))
        clean = replace(patch, values=values)

        def work(transaction: Transaction) -> UpsertResult:
            return self.apply_patch(transaction, target, clean, options.on_conflict)

        written = self._once("UpdateMemory", target, (target, patch, options.on_conflict), options, work)
        return replace(written, redactions=redactions) if redactions else written

    def delete(
        self, scope: Scope, memory_id: str, *, hard: bool, expected_revision: int, options: WriteOptions
    ) -> WriteResult:
        """Delete a memory: softly, which frees its key and content and can be undone, or permanently.

        Returns the deleted memory, without its content after a hard deletion. A hard deletion also applies to
        soft-deleted memories.

        Raises:
            MemoryNotFoundError: The memory does not exist, is deleted, or is private to another session.
            RevisionConflictError: The memory has another revision than expected (0: any).
            RequestIdReusedError: The request_id was used for another request.
        """
        target = MemoryTarget(scope, memory_id, "", expected_revision)
        if hard:
            return self._purge(target, options)
        return self._once("DeleteMemory", target, (target, hard), options, lambda tx: self._delete(tx, target))

    def restore(self, scope: Scope, memory_id: str, *, expected_revision: int, options: WriteOptions) -> WriteResult:
        """Make a deleted memory ACTIVE again; one that is not deleted stays unchanged (outcome DUPLICATE).

        A memory that was quarantined or rejected in a review is QUARANTINED again. A past expiry is cleared; SHORT_TERM
        expires 14 days from now.

        Raises:
            MemoryNotFoundError: The memory does not exist, or is private to another session.
            RevisionConflictError: The memory has another revision than expected (0: any).
            MemoryExistsError: Another memory has its key or content.
            RequestIdReusedError: The request_id was used for another request.
        """
        target = MemoryTarget(scope, memory_id, "", expected_revision)
        return self._once("RestoreMemory", target, (target,), options, lambda tx: self._restore(tx, target))

    def rollback(
        self,
        scope: Scope,
        memory_id: str,
        target: Memory | None,
        *,
        revision: int,
        expected_revision: int,
        options: WriteOptions,
    ) -> WriteResult:
        """Restore the state *target* of an earlier *revision* as a new revision.

        A memory in that state already stays unchanged (outcome DUPLICATE). Status and expiry are restored too: a
        deleted memory becomes ACTIVE again, and one that was deleted then is deleted.

        Raises:
            MemoryNotFoundError: The memory does not exist, or is private to another session.
            RevisionNotFoundError: The revision does not exist, or was private to another session.
            RevisionConflictError: The memory has another revision than expected (0: any).
            MemoryExistsError: Another memory has the earlier key or content; a key that went to the memory's successor
                is returned.
            InvalidRequestError: The memory would supersede itself through other memories.
            RequestIdReusedError: The request_id was used for another request.
        """
        aim = MemoryTarget(scope, memory_id, "", expected_revision)
        return self._once(
            "RollbackMemory", aim, (aim, revision), options, lambda tx: self._roll_back(tx, aim, target, revision)
        )

    def _store_images(self, scope: Scope, patch: Patch) -> dict[str, PatchValue]:
        values = dict(patch.values)
        if isinstance(content := values.get("content"), str):
            values["content"] = self._memory_builder.store_text_images(scope, content, field="memory.content")
        return values

    def _once(
        self,
        method: str,
        target: MemoryTarget,
        asked: Sequence[object],
        options: WriteOptions,
        work: Callable[[Transaction], UpsertResult],
    ) -> WriteResult:
        (written,), _ = self._requests.run_once(_request(method, target, asked, options), lambda tx: [work(tx)])
        if not isinstance(written, WriteResult):
            raise not_found_error(written)
        return written

    def redact_patch(self, patch: Patch) -> Patch:
        """Return a patch without new content, with its secrets replaced as the settings say.

        Raises:
            InvalidRequestError: A field cannot be changed so.
        """
        _check(patch)
        values, _ = self._memory_builder.redactor.values(dict(patch.values))
        return replace(patch, values=values)

    def apply_patch(
        self, transaction: Transaction, target: MemoryTarget, patch: Patch, on_conflict: ConflictPolicy
    ) -> UpsertResult:
        """Change the memory in a transaction; raises as `update` does."""
        before = target.find(transaction)
        if before.status is Status.DELETED:
            raise target.missing_error()
        if before.superseded_by_id and {"status", "key"} & patch.values.keys():
            raise MemorySupersededError(before.id, before.superseded_by_id)
        values = revalue(before, values_of_patch(before, patch), SourceLookup(transaction), self._memory_builder.policy)
        after = apply_values(before, values, self._now(), self._memory_builder.reminder_detector)
        if before.superseded_by_id and any(getattr(before, name) != getattr(after, name) for name in _READ):
            raise MemorySupersededError(before.id, before.superseded_by_id)
        require_session(after)
        require_validity(after)
        vector = (
            self._memory_builder.vector_bytes(patch.vector, chunks_of(after.content))
            if patch.vector is not None and len(patch.vector) > 0
            else b""
        )
        record = self._record_builder.next_record(before, after, vector)
        if record is None:
            return UpsertResult(before, Outcome.DUPLICATE)
        if after.key != before.key and after.status not in UNNAMED:
            require_free_key(transaction, after)
        record, holder = self._record_builder.claim(transaction, record)
        if holder is not None and content_name(before) != content_name(after) and visible(holder, target.scope):
            raise MemoryExistsError(holder.id)
        transaction.update(before, record, ChangeAction.UPDATED)
        self._record_builder.update_session_tokens(transaction, before, after)
        self._update_summaries(transaction, before, record.memory)
        return self._detect_conflicts(transaction, before, record, on_conflict)

    def _update_summaries(self, transaction: Transaction, before: Memory, after: Memory) -> None:
        """Let summaries leave out what is deleted or quarantined now, or say again what no longer is."""
        was_withheld, is_withheld = (one.status in WITHHELD for one in (before, after))
        if is_withheld and not was_withheld:
            self.summary_updater.remove(transaction, [after])
        elif was_withheld and not is_withheld:
            self.summary_updater.add(transaction, before, after)

    def _detect_conflicts(
        self, transaction: Transaction, before: Memory, record: Record, on_conflict: ConflictPolicy
    ) -> UpsertResult:
        """Update the conflicts of a changed memory, and detect new ones if its statements changed."""
        after = record.memory
        is_new = bool(record.statements) and record.statements != statements_of(before)
        is_new = is_new or (after.content != before.content and concerns_schedule(after))
        look = self._conflict_detector.detect
        findings = look(transaction, [after] if is_new else [], policy=on_conflict, changed=[after])
        return UpsertResult(findings.current(after), Outcome.UPDATED, findings.contradictions(after))

    def _delete(self, transaction: Transaction, target: MemoryTarget) -> UpsertResult:
        deleted = self.apply_deletion(transaction, target)
        self.summary_updater.remove(transaction, [deleted.memory])
        return deleted

    def apply_deletion(self, transaction: Transaction, target: MemoryTarget) -> UpsertResult:
        """Softly delete the memory in a transaction; raises as `delete` does. The caller updates the summaries."""
        before = target.find(transaction)
        if before.status is Status.DELETED:
            raise target.missing_error()
        for original in originals_of(transaction, before):
            self._write_deleted(transaction, original)
        return self._write_deleted(transaction, before)

    def _write_deleted(self, transaction: Transaction, before: Memory) -> UpsertResult:
        after = replace(before, status=Status.DELETED, update_time=self._now(), revision=before.revision + 1)
        record = self._record_builder.record(before, after)
        return self._write(transaction, before, record, ChangeAction.DELETED)

    def _restore(self, transaction: Transaction, target: MemoryTarget) -> UpsertResult:
        before = target.find(transaction)
        is_replaced = bool(before.superseded_by_id)
        if before.status not in _RESTORABLE or (before.status is Status.SUPERSEDED and is_replaced):
            return UpsertResult(before, Outcome.DUPLICATE)
        now = self._now()
        after = replace(
            before,
            **restored_status(before, is_replaced=is_replaced),
            expire_time=renew_expiry(before, now),
            update_time=now,
            revision=before.revision + 1,
        )
        if after.status not in UNNAMED:
            require_free_key(transaction, after)
        record, holder = self._record_builder.claim(transaction, self._record_builder.record(before, after))
        self._require_free_content(holder, target.scope, before.update_time - timedelta(microseconds=1))
        for original in originals_deleted_with(transaction, before) if before.status is Status.DELETED else ():
            self._archive_again(transaction, original)
        restored = self._write(transaction, before, record, ChangeAction.RESTORED)
        self._update_summaries(transaction, before, restored.memory)
        return restored

    def _archive_again(self, transaction: Transaction, original: Memory) -> None:
        after = with_status(original, Status.ARCHIVED, self._now())
        self._write(transaction, original, self._record_builder.record_with_same_content(after), ChangeAction.RESTORED)

    def _write(self, transaction: Transaction, before: Memory, record: Record, action: ChangeAction) -> UpsertResult:
        transaction.update(before, record, action)
        self._conflict_detector.conflict_states.update(transaction, [record.memory])
        return UpsertResult(record.memory, Outcome.UPDATED)

    def _roll_back(
        self, transaction: Transaction, aim: MemoryTarget, target: Memory | None, revision: int
    ) -> UpsertResult:
        before = aim.find(transaction)
        if target is None or not visible(target, aim.scope):
            raise RevisionNotFoundError(before.id, revision)
        after = revert_to(before, target, self._now())
        if after is None:
            return UpsertResult(before, Outcome.DUPLICATE)
        if after.status not in UNNAMED:
            self._conflict_detector.supersession.return_key(transaction, before, after)
            require_free_key(transaction, after)
        _refuse_cycle(transaction, after)
        record, holder = self._record_builder.claim(transaction, self._record_builder.record(before, after))
        self._require_free_content(holder, aim.scope, target.update_time)
        transaction.update(before, record, change_action(before, after))
        self._record_builder.update_session_tokens(transaction, before, after)
        self._update_summaries(transaction, before, record.memory)
        reconciled = self._conflict_detector.conflict_rollback.after_rollback(
            transaction, before, record.memory, since=target.update_time
        )
        return UpsertResult(reconciled, Outcome.UPDATED)

    def _require_free_content(self, holder: Memory | None, scope: Scope, moment: datetime) -> None:
        """Check that *holder* had its content already at *moment*: both memories existed with it then.

        Raises:
            MemoryExistsError: *holder* took the content later.
        """
        if holder is None or not visible(holder, scope):
            return
        then = self._history.known_at([holder.row], moment, reach=Reach.from_scope(holder.scope)).get(holder.row)
        if then is None or not claims_content(then) or content_name(then) != content_name(holder):
            raise MemoryExistsError(holder.id)

    def _purge(self, target: MemoryTarget, options: WriteOptions) -> WriteResult:
        now = self._now()
        attached: set[str] = set()

        def work(transaction: Transaction) -> list[UpsertResult | RejectedItem]:
            before = target.find(transaction)
            attached.update(self.apply_purge(transaction, before))
            return [UpsertResult(_tombstone(target, before.revision, now), Outcome.UPDATED)]

        request = _request("DeleteMemory", target, (target, True), options)
        (written,), position = self._requests.run_once(request, work)
        self.remove_bytes(attached)
        # The stored answer of the request has no memory: it was purged.
        return (
            written
            if isinstance(written, WriteResult)
            else WriteResult(_tombstone(target, 0, now), Outcome.UPDATED, position)
        )

    def apply_purge(self, transaction: Transaction, memory: Memory) -> set[str]:
        """Remove a memory with what says the same; return the hashes of the files to remove after the commit."""
        self.summary_updater.remove(transaction, [memory], is_purged=True)
        attached: set[str] = set()
        for gone in (*originals_of(transaction, memory), memory):
            self._conflict_detector.before_purge(transaction, gone)
            transaction.purge(gone)
            attached |= remove_attachments(transaction, gone)
        return attached


SELECTION_BATCH = 50
"""Memories of one transaction of a change of many."""
SAMPLE = 10
MAX_FAILURES = 100


@dataclass(frozen=True, slots=True)
class SelectionChange:
    """A change of many memories: a deletion without a patch, or the values of *patch*, and tags to add and remove.

    A deletion *is_purge* if it is permanent.
    """

    patch: Patch | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()
    is_purge: bool = False

    def patch_for(self, memory: Memory) -> Patch:
        """Return the patch of one memory.

        Raises:
            InvalidRequestError: It would have too many tags.
        """
        patch = self.patch or Patch({})
        if not (self.add_tags or self.remove_tags):
            return patch
        tags = tuple(tag for tag in dict.fromkeys((*memory.tags, *self.add_tags)) if tag not in self.remove_tags)
        if len(tags) > limits.TAGS:
            raise InvalidRequestError([Violation("add_tags", f"Would give the memory more than {limits.TAGS} tags.")])
        return replace(patch, values={**patch.values, "tags": tags})


@dataclass(frozen=True, slots=True)
class SelectionPreview:
    """Matches of a selection: counts by the names of status and layer, a sample, and a digest of all revisions."""

    count: int
    by_status: Mapping[str, int]
    by_layer: Mapping[str, int]
    sample: tuple[Memory, ...]
    digest: bytes


@dataclass(frozen=True, slots=True)
class SelectionProgress:
    """The progress of a change of many memories; everything counted is durable.

    Attributes:
        failures: The first memories that could not be changed, by id.
        position: The outbox position of the last change.
    """

    total: int
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    failures: tuple[tuple[str, MemsvcError], ...] = ()
    position: int = 0
    is_last: bool = False

    @property
    def done(self) -> int:
        """Return the number of memories that were processed."""
        return self.changed + self.unchanged + self.failed

    def with_failure(self, memory_id: str, error: MemsvcError) -> SelectionProgress:
        """Return the progress with one more memory that could not be changed."""
        failures = (*self.failures, (memory_id, error))[:MAX_FAILURES]
        return replace(self, failed=self.failed + 1, failures=failures)


@dataclass(frozen=True, slots=True)
class _BatchEffects:
    """Consequences of the changes of a batch.

    Attributes:
        deleted: The softly deleted memories, which summaries must not quote any more.
        attached: The hashes of the files that went with purged memories.
    """

    deleted: list[Memory] = field(default_factory=list)
    attached: set[str] = field(default_factory=set)


class SelectionChanger:
    """Deletes or updates the memories that a selection matches, in transactions of a few memories each."""

    def __init__(
        self, updater: MemoryUpdater, store: MetadataStore, committer: GroupCommitter, search_priority: SearchPriority
    ) -> None:
        """Change each memory as *updater* does; yield to searches between transactions."""
        self._updater = updater
        self._reads = store.memories
        self._changes = store.changes
        self._committer = committer
        self._search_priority = search_priority

    def preview(self, scope: Scope, selection: Selection) -> SelectionPreview:
        """Return what matches now.

        Raises:
            InvalidRequestError: Too many memories match.
        """
        found = self._select(scope, selection)
        reach, _ = reach_of_selection(scope, selection)
        rows = [one.row for one in found[-SAMPLE:]]
        known = self._reads.by_rows(rows, reach=reach)
        return SelectionPreview(
            len(found),
            Counter(one.status for one in found),
            Counter(one.layer for one in found),
            tuple(known[row] for row in reversed(rows) if row in known),
            _selection_digest(found),
        )

    def run(
        self,
        scope: Scope,
        selection: Selection,
        change: SelectionChange,
        *,
        expected: tuple[int, bytes],
        deadline: Deadline,
    ) -> Generator[SelectionProgress, None, None]:
        """Change what matches, if it is still what a preview found: *expected* are its count and digest.

        Yield the progress before the first and after every transaction, and once more at the end. An iteration that is
        left early ends between two transactions. Memories that other calls change in the meantime are left alone.

        Raises:
            InvalidRequestError: A field cannot be changed so, or too many memories match.
            SelectionChangedError: Other memories match, or other revisions of them.
            DeadlineExceededError: The deadline passed between two transactions; those before it are durable.
        """
        if change.patch is not None:
            change = replace(change, patch=self._updater.redact_patch(change.patch))
        found = self._select(scope, selection)
        if (len(found), _selection_digest(found)) != expected:
            raise SelectionChangedError(expected[0], len(found))
        progress = SelectionProgress(len(found))
        revisions = {one.id: one.revision for one in found}
        yield progress
        for start in range(0, len(found), SELECTION_BATCH):
            if deadline.has_passed():
                message = (
                    f"the change ({progress.done} of {len(found)} memories are done; make a new dry run to continue)"
                )
                raise DeadlineExceededError(message)
            self._search_priority.yield_to_searches()
            batch = [
                MemoryTarget(scope, one.id, "", revisions[one.id], selection.sessions)
                for one in found[start : start + SELECTION_BATCH]
            ]
            progress = self._run_batch(scope, batch, change, progress, revisions)
            yield progress
        yield replace(progress, is_last=True)

    def _select(self, scope: Scope, selection: Selection) -> list[SelectedMemory]:
        reach, where = reach_of_selection(scope, selection)
        found = self._reads.select_revisions(where, reach=reach, limit=limits.SELECTION + 1)
        if len(found) > limits.SELECTION:
            description = f"must match at most {limits.SELECTION} memories: narrow it"
            raise InvalidRequestError([Violation("filter", description)])
        return found

    def _run_batch(
        self,
        scope: Scope,
        batch: Sequence[MemoryTarget],
        change: SelectionChange,
        before: SelectionProgress,
        revisions: dict[str, int],
    ) -> SelectionProgress:
        """Change a batch, and note the *revisions* of memories that changed with it, such as sides of a conflict."""
        attached: set[str] = set()

        def work(transaction: Transaction) -> SelectionProgress:
            own, unchanged = before, []
            effects = _BatchEffects()
            # All are compared first: the change of one may be a revision of another.
            for target in batch:
                try:
                    target.find(transaction)
                    unchanged.append(replace(target, expected_revision=0))
                except MemoryNotFoundError as error:
                    # The original of a merged memory was purged with it.
                    is_gone = change.is_purge
                    own = (
                        replace(own, changed=own.changed + 1) if is_gone else own.with_failure(target.memory_id, error)
                    )
                except MemsvcError as error:
                    own = own.with_failure(target.memory_id, error)
            for target in unchanged:
                own = self._change_one(transaction, target, change, own, effects)
            self._updater.summary_updater.remove(transaction, effects.deleted)
            attached.update(effects.attached)
            return own

        committed = self._committer.submit(work, owner=scope.owner)
        self._updater.remove_bytes(attached)
        if committed.changes:
            start = committed.position - committed.changes
            made = self._changes.after(start, reach=Reach.from_scope(scope), limit=committed.changes)
            own = [one.change for one in made.changes if one.change.position <= committed.position]
            revisions.update((one.memory_id, one.revision) for one in own)
        return replace(committed.value, position=max(before.position, committed.position))

    def _change_one(
        self,
        transaction: Transaction,
        target: MemoryTarget,
        change: SelectionChange,
        before: SelectionProgress,
        effects: _BatchEffects,
    ) -> SelectionProgress:
        """Change one memory, and note what follows from it."""
        try:
            with transaction.savepoint():
                if change.is_purge:
                    return self._purge_one(transaction, target, before, effects)
                written = self._write(transaction, target, change)
        except MemsvcError as error:
            return before.with_failure(target.memory_id, error)
        if written.outcome is Outcome.DUPLICATE:
            return replace(before, unchanged=before.unchanged + 1)
        if written.memory.status is Status.DELETED:
            effects.deleted.append(written.memory)
        return replace(before, changed=before.changed + 1)

    def _purge_one(
        self, transaction: Transaction, target: MemoryTarget, before: SelectionProgress, effects: _BatchEffects
    ) -> SelectionProgress:
        with suppress(MemoryNotFoundError):
            effects.attached.update(self._updater.apply_purge(transaction, target.find(transaction)))
        return replace(before, changed=before.changed + 1)

    def _write(self, transaction: Transaction, target: MemoryTarget, change: SelectionChange) -> UpsertResult:
        memory = target.find(transaction)
        if change.patch is None:
            if memory.status is Status.DELETED:
                return UpsertResult(memory, Outcome.DUPLICATE)
            return self._updater.apply_deletion(transaction, target)
        return self._updater.apply_patch(transaction, target, change.patch_for(memory), ConflictPolicy.MARK)


def _selection_digest(found: Sequence[SelectedMemory]) -> bytes:
    revisions = array("q", [number for one in found for number in (one.row, one.revision)])
    return hashlib.blake2b(revisions.tobytes(), digest_size=16).digest()


class MemoryArchiver:
    """Archives memories, each in one transaction as one revision."""

    def __init__(
        self, memory_builder: MemoryBuilder, record_builder: RecordBuilder, requests: IdempotentExecutor
    ) -> None:
        """Write by these parts."""
        self._record_builder = record_builder
        self._requests = requests
        self._now = memory_builder.now
        self._conflict_states = ConflictStateUpdater(record_builder, memory_builder.now)

    def archive(self, scope: Scope, memory_id: str, *, expected_revision: int, options: WriteOptions) -> WriteResult:
        """Make a memory ARCHIVED; an archived one stays unchanged (outcome DUPLICATE).

        Raises:
            MemoryNotFoundError: The memory does not exist, is deleted, or is private to another session.
            RevisionConflictError: The memory has another revision than expected (0: any).
            InvalidRequestError: The memory is neither in use nor archived.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, memory_id, expected_revision) if options.request_id else ""
        request = IdempotentRequest("ArchiveMemory", options.request_id, digest, Reach.from_scope(scope))

        def work(transaction: Transaction) -> list[UpsertResult]:
            return [self._archive(transaction, scope, memory_id, expected_revision)]

        (written,), _ = self._requests.run_once(request, work)
        if not isinstance(written, WriteResult):
            raise not_found_error(written)
        return written

    def _archive(self, transaction: Transaction, scope: Scope, memory_id: str, expected_revision: int) -> UpsertResult:
        before = require_memory(transaction, scope, memory_id, expected_revision=expected_revision)
        if before.status is Status.ARCHIVED:
            return UpsertResult(before, Outcome.DUPLICATE)
        if before.status not in _ARCHIVABLE:
            description = f"Names a memory that is {before.status.value}; only one in use can be archived."
            raise InvalidRequestError([Violation("id", description)])
        after = with_status(before, Status.ARCHIVED, self._now())
        transaction.update(before, self._record_builder.record_with_same_content(after), ChangeAction.UPDATED)
        self._conflict_states.update(transaction, [after])
        return UpsertResult(after, Outcome.UPDATED)


@dataclass(frozen=True, slots=True)
class MemoryTarget:
    """The memory to change, by id or key, its expected revision (0: any), and the scope of the caller.

    *sessions* are those whose private memories the caller may change.
    """

    scope: Scope
    memory_id: str
    key: str
    expected_revision: int
    sessions: SessionVisibility = SessionVisibility.CURRENT

    def find(self, transaction: Transaction) -> Memory:
        """Return the memory, of any status, locked for this transaction.

        Raises:
            MemoryNotFoundError: The memory is not visible to the scope.
            RevisionConflictError: The memory has another revision.
        """
        memory_id = self.memory_id
        if not memory_id:
            name = (self.scope.project_id, self.key)
            bearer = transaction.find_keys(self.scope.owner, [name]).get(name)
            memory_id = bearer.id if bearer is not None else ""
        memory = transaction.get(memory_id, reach=Reach.from_scope(self.scope)) if memory_id else None
        if memory is None or not visible(memory, self.scope, self.sessions):
            raise self.missing_error()
        if self.expected_revision not in {0, memory.revision}:
            raise RevisionConflictError(memory.id, self.expected_revision, memory.revision)
        return memory

    def missing_error(self) -> MemoryNotFoundError:
        """Return the error for a memory that does not exist."""
        return MemoryNotFoundError(self.memory_id or self.key)


def _check(patch: Patch) -> None:
    violations = [
        Violation("update_mask", f"{name!r} cannot be changed.") for name in sorted(patch.values.keys() - PATCHABLE)
    ]
    if patch.values.get("status") not in _SETTABLE:
        violations.append(Violation("memory.status", "Only ACTIVE, ARCHIVED and QUARANTINED can be set."))
    if "content" in patch.values and not patch.values["content"]:
        violations.append(Violation("memory.content", "Cannot be cleared."))
    if violations:
        raise InvalidRequestError(violations)


def _request(method: str, target: MemoryTarget, asked: Sequence[object], options: WriteOptions) -> IdempotentRequest:
    digest = request_digest(*asked) if options.request_id else ""
    return IdempotentRequest(method, options.request_id, digest, Reach.from_scope(target.scope))


def require_free_key(transaction: Transaction, memory: Memory) -> None:
    """Raise MemoryExistsError if another memory has the key of *memory*."""
    if memory.key:
        name = (memory.scope.project_id, memory.key)
        bearer = transaction.find_keys(memory.scope.owner, [name]).get(name)
        if bearer is not None and bearer.id != memory.id:
            raise MemoryExistsError(bearer.id, key=memory.key)


def _refuse_cycle(transaction: Transaction, memory: Memory) -> None:
    successor = memory.superseded_by_id
    for _ in range(_CHAIN):
        if not successor:
            return
        if successor == memory.id:
            raise InvalidRequestError(
                [Violation("revision", "Must not make the memory supersede itself through other memories.")]
            )
        found = find_neighbour(transaction, memory, successor)
        successor = "" if found is None else found.superseded_by_id


def renew_expiry(memory: Memory, now: datetime) -> datetime | None:
    """Return the expiry of a memory that is made ACTIVE: its own if that is to come, else that of a new memory."""
    if memory.expire_time is None or memory.expire_time > now:
        return memory.expire_time
    return short_term_end(memory.reminder, memory.valid_from, now) if memory.layer is Layer.SHORT_TERM else None


def _tombstone(target: MemoryTarget, revision: int, now: datetime) -> Memory:
    return Memory(
        id=target.memory_id,
        scope=Scope(target.scope.user_id, tenant_id=target.scope.tenant_id),
        content="",
        create_time=now,
        update_time=now,
        content_hash="",
        status=Status.DELETED,
        revision=revision,
    )


def remove_attachments(transaction: Transaction, gone: Memory) -> set[str]:
    """Delete the attached files to which only the purged memory *gone* referred; return the hashes of their bytes.

    Attached are files of category MEMORY. After the commit the bytes can be removed if they have no other use
    (`memsvc.engine.files.blob_guard`); otherwise a sweep or the next erasure of any user removes them.
    """
    refs = [ref for ref in gone.file_refs if ref.category == FileCategory.MEMORY]
    if not refs:
        return set()
    owner = gone.scope.owner
    referred = {ref.id for ref in transaction.files.referred_to(owner, refs)}
    files = transaction.files.get_many(owner, [ref.id for ref in refs if ref.id not in referred])
    attached = [file for file in files.values() if file.category is FileCategory.MEMORY]
    transaction.files.delete(attached)
    return {file.sha256 for file in attached}
