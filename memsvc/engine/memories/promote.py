"""Promotion of a SHORT_TERM memory to LONG_TERM."""

from __future__ import annotations

from dataclasses import replace

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import InvalidRequestError, MemoryExistsError, MemoryNotFoundError, Violation
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.limits import RELATED_IDS
from memsvc.domain.memory import Layer, Memory, Reminder, Status, keep_begun
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Draft, Outcome, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, not_found_error, request_digest
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.conflicts.supersession import require_memory
from memsvc.engine.memories.upsert import apply_sources
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory, RecordBuilder
from memsvc.engine.records.provenance import SourceLookup
from memsvc.ports.metadata import MemoryReads, Transaction
from memsvc.text.reminder_extraction import still_mentions

_INHERITED = (
    "kind", "category", "speaker", "tags", "related_ids", "file_refs", "importance", "tier", "confidence", "event_time",
    "valid_from", "valid_to", "work_in_progress", "source", "origin",
)  # fmt: skip
"""Fields that the new memory always takes from its source."""


class MemoryPromoter:
    """Promotes memories, each in one transaction."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        reads: MemoryReads,
    ) -> None:
        """Write by these parts; *reads* loads the source before the transaction."""
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._requests = requests
        self._reads = reads
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)

    def promote(
        self,
        scope: Scope,
        memory_id: str,
        *,
        content: str,
        title: str,
        expected_revision: int,
        options: WriteOptions,
    ) -> tuple[WriteResult, WriteResult]:
        """Store a LONG_TERM memory derived from a SHORT_TERM one; return it and its source, which is ARCHIVED.

        Empty *content* and *title* are those of the source. Other content is compared with that of other memories.

        Raises:
            MemoryNotFoundError: The source is not visible to the scope.
            RevisionConflictError: The source has another revision than expected (0: any).
            InvalidRequestError: The source is not of layer SHORT_TERM, or not ACTIVE, or an image cannot be stored.
            MemoryExistsError: Another memory has the content.
            RequestIdReusedError: The request_id was used for another request.
        """
        asked = (scope, memory_id, content, title, expected_revision)
        source = self._reads.get([memory_id], reach=Reach.from_scope(scope)).get(memory_id)
        if source is None or not visible(source, scope):
            raise MemoryNotFoundError(memory_id)
        text = self._memory_builder.store_text_images(source.scope, content, field="content")
        prepared = self._memory_builder.prepare(source.scope, _draft(source, text, title))

        def work(transaction: Transaction) -> list[UpsertResult]:
            before = require_memory(transaction, scope, memory_id, expected_revision=expected_revision)
            _require_promotable(before)
            fresh = prepared
            if before.revision != source.revision:
                fresh = self._memory_builder.prepare(before.scope, _draft(before, text, title))
            return self._replace(transaction, before, fresh)

        digest = request_digest(asked) if options.request_id else ""
        request = IdempotentRequest("PromoteMemory", options.request_id, digest, Reach.from_scope(scope))
        (new, old), _ = self._requests.run_once(request, work)
        if not isinstance(new, WriteResult):
            raise not_found_error(new)
        if not isinstance(old, WriteResult):
            raise not_found_error(old)
        return replace(new, redactions=prepared.redactions), old

    def promote_in_transaction(self, transaction: Transaction, source: Memory) -> Memory:
        """Promote a memory within *transaction*; return the new one.

        Raises:
            InvalidRequestError: The source is not of layer SHORT_TERM, not ACTIVE, or trusted too little.
            MemoryExistsError: Another memory has the content.
        """
        _require_promotable(source)
        prepared = self._memory_builder.prepare(source.scope, _draft(source, "", ""))
        new, _ = self._replace(transaction, source, prepared)
        return new.memory

    def _replace(self, transaction: Transaction, source: Memory, prepared: PreparedMemory) -> list[UpsertResult]:
        record = apply_sources(prepared, SourceLookup(transaction), self._memory_builder.policy).record
        if record.memory.status is not Status.ACTIVE:
            description = (
                "Names a memory with too little trust: the promoted one would be QUARANTINED. Raise its trust first."
            )
            raise InvalidRequestError([Violation("id", description)])
        now = self._memory_builder.now()
        # Of one moment with the archived source: a restore of that one must find that the new memory took its content.
        memory = replace(record.memory, key=source.key, create_time=now, update_time=now)
        memory = keep_begun(memory, source, now)
        related = tuple(dict.fromkeys((memory.id, *source.related_ids)))[:RELATED_IDS]
        archived = replace(
            source,
            status=Status.ARCHIVED,
            key="",
            related_ids=related,
            update_time=now,
            revision=source.revision + 1,
        )
        if memory.content_hash == source.content_hash:
            # Not detected again: "tomorrow" was said on another day, and it may have been removed.
            memory = replace(memory, reminder=source.reminder)
        transaction.update(source, self._record_builder.record_with_same_content(archived), ChangeAction.UPDATED)
        if not record.given_vector and memory.content_hash == source.content_hash:
            given, model = self._record_builder.given_vector(source)
            record = replace(record, given_vector=given, given_model=model)
        record, holder = self._record_builder.claim(transaction, replace(record, memory=memory))
        if holder is not None:
            raise MemoryExistsError(holder.id)
        [new] = transaction.insert(self._record_builder.link_to_sessions(transaction, [record]))
        transaction.copy_acknowledgements(source, new)
        self._conflict_detector.conflict_states.transfer(transaction, archived, new)
        # The same statements were compared when the source was written.
        stating = [new] if new.content_hash != source.content_hash else []
        findings = self._conflict_detector.detect(transaction, stating, policy=ConflictPolicy.MARK)
        promoted = UpsertResult(findings.current(new), Outcome.CREATED, findings.contradictions(new))
        return [promoted, UpsertResult(archived, Outcome.UPDATED)]


def _draft(source: Memory, content: str, title: str) -> Draft:
    inherited = {name: getattr(source, name) for name in _INHERITED}
    return Draft(
        content=content or source.content,
        layer=Layer.LONG_TERM,
        title=title or source.title,
        summary=None if content else source.summary,
        keywords=None if content else source.keywords,
        metadata=dict(source.metadata),
        session_id="",
        derived_from_ids=(source.id,),
        reminder=_inherit_reminder(source, content),
        **inherited,
    )


def _inherit_reminder(source: Memory, content: str) -> Reminder | None:
    """Return the reminder to keep: a detected one goes when its phrase is no longer in the content."""
    reminder = source.reminder
    if reminder is None or not content or not reminder.phrase or still_mentions(reminder, content):
        return reminder
    return None


def _require_promotable(source: Memory) -> None:
    if source.layer is not Layer.SHORT_TERM:
        description = f"Names a memory of layer {source.layer.value}; only those of SHORT_TERM can be promoted."
        raise InvalidRequestError([Violation("id", description)])
    if source.status is not Status.ACTIVE:
        description = f"Names a memory that is {source.status.value}; only an ACTIVE one can be promoted."
        raise InvalidRequestError([Violation("id", description)])
