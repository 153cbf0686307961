"""Supersession on request: a new or existing memory replaces an old one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import InvalidRequestError, MemoryExistsError, MemoryNotFoundError, Violation
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Draft, Outcome, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, not_found_error, request_digest
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.conflicts.supersession import inherited_key, require_memory
from memsvc.engine.memories.upsert import apply_sources
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory, RecordBuilder
from memsvc.engine.records.provenance import SourceLookup
from memsvc.ports.metadata import MemoryReads, Transaction
from memsvc.text.capture_rules import title_after

_INHERITED = ("layer", "kind", "category", "title", "tags", "importance", "tier")
"""Fields that a new memory takes from the old one unless it sets them."""


class MemorySuperseder:
    """Replaces memories, each in one transaction."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        reads: MemoryReads,
    ) -> None:
        """Write by these parts; *reads* loads the old memory before the transaction."""
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._requests = requests
        self._reads = reads
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)

    def by_new(
        self, scope: Scope, memory_id: str, draft: Draft, *, expected_revision: int, options: WriteOptions
    ) -> tuple[WriteResult, WriteResult]:
        """Store *draft* as the replacement of a memory; return the new and the old one.

        The new memory belongs to the old one's project unless it names another; within the same project it inherits the
        key; kind, layer, category, title, tags, importance and tier default to those of the old one. A title that was
        made of the content of the old one is made of the new content.

        Raises:
            MemoryNotFoundError: The old memory is not visible to the scope.
            RevisionConflictError: The old memory has another revision than expected (0: any).
            MemorySupersededError: The old memory is superseded already.
            MemoryExistsError: Another memory has the key or the content.
            InvalidRequestError: The vector does not fit, a SESSION memory has no session, a source does not exist, the
                new memory would be QUARANTINED, or the old one is.
            RequestIdReusedError: The request_id was used for another request.
        """
        old = self._reads.get([memory_id], reach=Reach.from_scope(scope)).get(memory_id)
        if old is None or not visible(old, scope):
            raise MemoryNotFoundError(memory_id)
        prepared = self._memory_builder.prepare(
            scope, self._memory_builder.store_images(scope, _with_inherited(draft, old))
        )
        asked = (scope, memory_id, draft, expected_revision, options.on_conflict)

        def work(transaction: Transaction) -> list[UpsertResult]:
            before = require_memory(transaction, scope, memory_id, expected_revision=expected_revision)
            return self._replace(transaction, before, prepared, options.on_conflict)

        new, before = self._once(scope, asked, options, work)
        return replace(new, redactions=prepared.redactions), before

    def by_existing(
        self, scope: Scope, memory_id: str, successor_id: str, *, expected_revision: int, options: WriteOptions
    ) -> tuple[WriteResult, WriteResult]:
        """Replace a memory by an existing one; return the replacement and the old one.

        Raises:
            MemoryNotFoundError: One of the memories is not visible to the scope.
            RevisionConflictError: The old memory has another revision than expected (0: any).
            MemorySupersededError: One of the memories is superseded already.
            SupersedeCycleError: Both are the same, or the old memory supersedes the other one.
            InvalidRequestError: The replacement is not ACTIVE, or the old memory is quarantined.
            RequestIdReusedError: The request_id was used for another request.
        """
        asked = (scope, memory_id, successor_id, expected_revision)

        def work(transaction: Transaction) -> list[UpsertResult]:
            old = require_memory(transaction, scope, memory_id, expected_revision=expected_revision)
            _require_reviewed(old)
            new = require_memory(transaction, scope, successor_id)
            self._conflict_detector.supersession.require_unsuperseded(transaction, old, new)
            if new.status is not Status.ACTIVE:
                raise InvalidRequestError([Violation("memory.id", "Must name an ACTIVE memory.")])
            superseded, successor = self._conflict_detector.supersession.link(transaction, old, new)
            self._conflict_detector.conflict_states.update(transaction, [superseded])
            return [UpsertResult(successor, Outcome.UPDATED), UpsertResult(superseded, Outcome.UPDATED)]

        return self._once(scope, asked, options, work)

    def _once(self, scope: Scope, asked: Any, options: WriteOptions, work: Any) -> tuple[WriteResult, WriteResult]:
        digest = request_digest(asked) if options.request_id else ""
        request = IdempotentRequest("SupersedeMemory", options.request_id, digest, Reach.from_scope(scope))
        (new, old), _ = self._requests.run_once(request, work)
        for written in (new, old):
            if not isinstance(written, WriteResult):
                raise not_found_error(written)
        return new, old  # type: ignore[return-value]  # both were checked

    def _replace(
        self, transaction: Transaction, old: Memory, prepared: PreparedMemory, on_conflict: ConflictPolicy
    ) -> list[UpsertResult]:
        _require_reviewed(old)
        record = apply_sources(prepared, SourceLookup(transaction), self._memory_builder.policy).record
        if record.memory.status is not Status.ACTIVE:
            description = "Would be QUARANTINED; only an approved memory can supersede another."
            raise InvalidRequestError([Violation("memory", description)])
        memory = replace(record.memory, supersedes_id=old.id, key=inherited_key(old, record.memory))
        self._conflict_detector.supersession.require_unsuperseded(transaction, old, memory)
        supersession = self._conflict_detector.supersession
        # At its creation, so that the start that follows has passed whatever the clock says later.
        superseded = supersession.mark_superseded(transaction, old, memory, moment=memory.create_time)
        memory = replace(memory, **supersession.validity_start(superseded, memory))
        if memory.key:
            name = (memory.scope.project_id, memory.key)
            bearer = transaction.find_keys(memory.scope.owner, [name]).get(name)
            if bearer is not None:
                raise MemoryExistsError(bearer.id, key=memory.key)
        record, holder = self._record_builder.claim(transaction, replace(record, memory=memory))
        if holder is not None:
            raise MemoryExistsError(holder.id)
        [new] = transaction.insert(self._record_builder.link_to_sessions(transaction, [record]))
        findings = self._conflict_detector.detect(transaction, [new], policy=on_conflict, changed=[superseded])
        return [
            UpsertResult(findings.current(new), Outcome.CREATED, findings.contradictions(new)),
            UpsertResult(superseded, Outcome.UPDATED),
        ]


def _require_reviewed(old: Memory) -> None:
    if old.status is Status.QUARANTINED:
        raise InvalidRequestError([Violation("id", "Names a QUARANTINED memory: decide with ReviewMemory.")])


def _with_inherited(draft: Draft, old: Memory) -> Draft:
    inherited = {name: getattr(old, name) for name in _INHERITED if getattr(draft, name) is None}
    if "title" in inherited and (title := title_after(old.title, old.content, draft.content or "")) is not None:
        inherited["title"] = title
    project = old.scope.project_id if draft.project_id is None else draft.project_id
    return replace(draft, **inherited, project_id=project)
