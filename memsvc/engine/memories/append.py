"""Appending text to the memory under a key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, MemoryExistsError, MemorySupersededError, Violation
from memsvc.domain.field_rules import json_size_fault
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Json, Kind, Memory
from memsvc.domain.memory_keys import convention_of
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Draft, Outcome, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, not_found_error, request_digest
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory, RecordBuilder
from memsvc.engine.records.memory_patch import apply_values, values_of_draft
from memsvc.ports.metadata import MemoryReads, Record, Transaction
from memsvc.text.file_refs import refs_given_apart

LINE_BREAK = "\n"


class MemoryAppender:
    """Appends text to memories by key. Concurrent appends are all kept, in some order."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        reads: MemoryReads,
        now: Callable[[], datetime],
    ) -> None:
        """Write by these parts; *now* is the clock."""
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._requests = requests
        self._reads = reads
        self._now = now
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)

    def append(
        self,
        scope: Scope,
        key: str,
        content: str,
        *,
        separator: str | None,
        options: WriteOptions,
        fields: AppendedFields | None = None,
    ) -> WriteResult:
        """Append *content* to the memory under *key*, or create it; the outcome is UPDATED or CREATED.

        The memory gets *fields* in addition to those that it has.

        Raises:
            InvalidRequestError: The memory would become too long, or have too many file references or metadata.
            MemoryExistsError: The key belongs to a memory private to another session.
            MemoryNotFoundError: The request is a repetition, and the memory was purged since.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = (
            request_digest(scope, key, content, separator or "", separator is None, fields)
            if options.request_id
            else ""
        )
        request = IdempotentRequest("AppendMemory", options.request_id, digest, Reach.from_scope(scope))
        text = self._memory_builder.store_text_images(scope, content, field="content")
        given = fields or AppendedFields()
        draft = Draft(
            text, key=key, kind=_default_kind(key), file_refs=given.file_refs or None, metadata=given.metadata or None
        )
        prepared = self._memory_builder.prepare(scope, draft)
        addition = _Addition(scope, prepared, separator)
        plan = self._plan(addition)
        (written,), _ = self._requests.run_once(
            request,
            lambda tx: [self._detect_conflicts(tx, self._append(tx, addition, plan), options)],
            size=prepared.size if plan is None else max(1, len(plan.record.chunks)),
        )
        if not isinstance(written, WriteResult):
            raise not_found_error(written)
        return replace(written, redactions=prepared.redactions)

    def _plan(self, addition: _Addition) -> _Plan | None:
        """Compute the next revision before the transaction: chunking a long text must not delay other writes."""
        before = self._reads.get_by_key(addition.key, reach=Reach.from_scope(addition.scope, Visibility.PROJECT))
        return None if before is None or not visible(before, addition.scope) else self._next(addition, before)

    def _next(self, addition: _Addition, before: Memory) -> _Plan:
        now = self._now()
        values = values_of_draft(addition.appended_to(before), now)
        after = apply_values(before, values, now, self._memory_builder.reminder_detector)
        return _Plan(before, self._record_builder.record(before, after))

    def _append(self, transaction: Transaction, addition: _Addition, plan: _Plan | None) -> UpsertResult:
        name = (addition.scope.project_id, addition.key)
        before = transaction.find_keys(addition.scope.owner, [name]).get(name)
        if before is None:
            return self._create(transaction, addition)
        if not visible(before, addition.scope):
            raise MemoryExistsError(before.id, key=before.key)
        if before.superseded_by_id:
            raise MemorySupersededError(before.id, before.superseded_by_id)
        if plan is None or (plan.before.id, plan.before.revision) != (before.id, before.revision):
            plan = self._next(addition, before)
        # A memory with a key may share its content with another memory: ignore the holder of the claim.
        record, _ = self._record_builder.claim(transaction, plan.record)
        transaction.update(before, record, ChangeAction.UPDATED)
        self._record_builder.update_session_tokens(transaction, before, record.memory)
        return UpsertResult(record.memory, Outcome.UPDATED)

    def _detect_conflicts(self, transaction: Transaction, placed: UpsertResult, options: WriteOptions) -> UpsertResult:
        """Update the conflicts of the written memory and detect new ones."""
        written = [placed.memory]
        findings = self._conflict_detector.detect(transaction, written, policy=options.on_conflict, changed=written)
        return UpsertResult(findings.current(placed.memory), placed.outcome, findings.contradictions(placed.memory))

    def _create(self, transaction: Transaction, addition: _Addition) -> UpsertResult:
        record, _ = self._record_builder.claim(transaction, addition.prepared.record)
        (memory,) = transaction.insert(self._record_builder.link_to_sessions(transaction, [record]))
        return UpsertResult(memory, Outcome.CREATED)


@dataclass(frozen=True, slots=True)
class AppendedFields:
    """Fields that a memory gets with an appended text: further files, and values of metadata by name."""

    file_refs: tuple[FileRef, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Addition:
    """Text to append, prepared as the memory to create if there is none. Separator None: a line break if needed."""

    scope: Scope
    prepared: PreparedMemory
    separator: str | None

    @property
    def key(self) -> str:
        """Return the key of the memory."""
        return self.prepared.draft.key

    def appended_to(self, before: Memory) -> Draft:
        """Return the values of *before* with the addition.

        Raises:
            InvalidRequestError: One of them would be too long.
        """
        draft = self.prepared.draft
        refs = metadata = None
        if draft.file_refs:
            refs = tuple(dict.fromkeys((*refs_given_apart(before.content, before.file_refs), *draft.file_refs)))
            if len(refs) > limits.FILE_REFS:
                description = f"would give the memory {len(refs)} files; at most {limits.FILE_REFS} are allowed"
                raise InvalidRequestError([Violation("file_refs", description)])
        if draft.metadata:
            metadata = {**before.metadata, **draft.metadata}
            text = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))
            if fault := json_size_fault(text):
                raise InvalidRequestError([Violation("metadata", f"{fault}, together with those of the memory")])
        return Draft(self._content_after(before), file_refs=refs, metadata=metadata)

    def _content_after(self, before: Memory) -> str:
        """Return the content of *before* with the addition.

        Raises:
            InvalidRequestError: The content would be too long.
        """
        separator = self.separator
        if separator is None:
            separator = "" if before.content.endswith(LINE_BREAK) else LINE_BREAK
        content = f"{before.content}{separator}{self.prepared.draft.content}"
        if len(content) > limits.CONTENT:
            description = (
                f"would make the memory {len(content)} characters long; at most {limits.CONTENT} are allowed. "
                "Continue under another key."
            )
            raise InvalidRequestError([Violation("content", description)])
        return content


@dataclass(frozen=True, slots=True)
class _Plan:
    """The next revision of a memory, computed before the transaction; valid while the memory is unchanged."""

    before: Memory
    record: Record


def _default_kind(key: str) -> Kind | None:
    """Return NOTE for a key without a convention: text that is appended piece by piece is a note."""
    return None if convention_of(key) else Kind.NOTE
