"""Upsert of drafts: each becomes a new memory, updates the memory with its key, or meets a duplicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.errors import InvalidRequestError, MemoryExistsError, MemorySupersededError, MemsvcError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import UNNAMED, Layer, Memory, Origin, Status, Tier
from memsvc.domain.memory_keys import with_convention
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Draft, OnDuplicate, Outcome, RejectedItem, UpsertResult
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.records.memory_builder import (
    MemoryBuilder,
    PreparedMemory,
    RecordBuilder,
    concerns_schedule,
    content_name,
    extract_statements,
    require_session,
    require_validity,
)
from memsvc.engine.records.memory_patch import apply_values, values_of_draft
from memsvc.engine.records.provenance import SourceLookup, apply_source_trust, draft_provenance
from memsvc.ports.metadata import ContentName, Record, Transaction

UpsertItem: TypeAlias = PreparedMemory | RejectedItem
ItemResult: TypeAlias = UpsertResult | RejectedItem | MemsvcError


_LAYERS = (Layer.SESSION, Layer.SHORT_TERM, Layer.LONG_TERM, Layer.CORE)
"""The layers, by how long their memories last."""
_TIERS = (Tier.ARCHIVED, Tier.CONTEXTUAL, Tier.ACTIVE, Tier.CORE)
"""The tiers, the last loaded first."""
_KEPT = ("title", "category", "event_time")
"""Fields whose defaults of a key do not replace what a memory has that gets the key."""


class Upserter:
    """Upserts batches of drafts within a transaction, in order, with a constant number of lookups for each batch."""

    def __init__(self, memory_builder: MemoryBuilder, record_builder: RecordBuilder) -> None:
        """Write prepared memories of *memory_builder* as records of *record_builder*."""
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)

    def upsert(
        self,
        transaction: Transaction,
        items: Sequence[UpsertItem],
        on_duplicate: OnDuplicate,
        on_conflict: ConflictPolicy | None,
    ) -> list[ItemResult]:
        """Return the result of each item; later items see earlier ones. Rejections pass through.

        Without a conflict policy nothing is compared.

        Raises:
            UniquenessRaceError: A concurrent write took a key or content: repeat the transaction.
        """
        resolved = self._with_sources(transaction, items)
        prepared = [item for item in resolved if isinstance(item, PreparedMemory)]
        if not prepared:
            return [item for item in resolved if not isinstance(item, PreparedMemory)]
        batch = _UpsertBatch(transaction, self._record_builder, on_duplicate, self._memory_builder)
        batch.look_up(prepared)
        results = [batch.upsert(item) if isinstance(item, PreparedMemory) else item for item in resolved]
        return self._detect_conflicts(transaction, batch, batch.finish(results), on_conflict)

    def _detect_conflicts(
        self,
        transaction: Transaction,
        batch: _UpsertBatch,
        results: list[ItemResult],
        on_conflict: ConflictPolicy | None,
    ) -> list[ItemResult]:
        """Return the results with their conflicts, and their memories in the state after conflict detection."""
        if not (batch.changed or batch.expired) and (on_conflict is None or not batch.stating):
            return results
        # Only the last result of a memory lists its conflicts.
        last = {result.memory.id: result for result in results if isinstance(result, UpsertResult)}
        stating, changed = ([last[memory_id].memory for memory_id in ids] for ids in (batch.stating, batch.changed))
        changed += [memory for memory_id, memory in batch.expired.items() if memory_id not in batch.changed]
        detected = self._conflict_detector.detect(transaction, stating, policy=on_conflict, changed=changed)
        return [
            UpsertResult(
                detected.current(result.memory),
                result.outcome,
                detected.contradictions(result.memory) if last[result.memory.id] is result else (),
            )
            if isinstance(result, UpsertResult)
            else result
            for result in results
        ]

    def _with_sources(
        self, transaction: Transaction, items: Sequence[UpsertItem]
    ) -> list[UpsertItem | InvalidRequestError]:
        """Return the items with the trust of their sources applied; an item with a missing source becomes an error."""
        sources = SourceLookup(transaction)
        resolved: list[UpsertItem | InvalidRequestError] = []
        for item in items:
            try:
                policy = self._memory_builder.policy
                resolved.append(apply_sources(item, sources, policy) if isinstance(item, PreparedMemory) else item)
            except InvalidRequestError as error:
                resolved.append(error)
        return resolved


def apply_sources(item: PreparedMemory, sources: SourceLookup, policy: TrustPolicy) -> PreparedMemory:
    """Return *item* with the trust of its memory limited by its sources.

    Raises:
        InvalidRequestError: Some sources are not visible to its scope.
    """
    memory = item.record.memory
    if not memory.derived_from_ids:
        return item
    resolved = apply_source_trust(memory, sources.require(memory.scope, memory.derived_from_ids), policy)
    is_named = resolved.status not in UNNAMED
    is_unique = item.record.is_unique and is_named
    record = replace(item.record, memory=resolved, is_unique=is_unique, statements=extract_statements(resolved))
    return replace(item, record=record, name=item.name if is_named else None)


def as_rejection(result: ItemResult) -> UpsertResult | RejectedItem:
    """Return *result*, an error as the rejection of its item."""
    if isinstance(result, MemsvcError):
        violations = result.violations if isinstance(result, InvalidRequestError) else ()
        return RejectedItem(result.reason, result.message, violations)
    return result


class _UpsertBatch:
    """The state of one upsert: known keys and contents, and records that wait for insertion (their row is 0).

    Attributes:
        stating: The ids of memories with new statements, in order.
        changed: The ids of existing memories that were changed.
        expired: The memories whose content was written again after their time, by id.
    """

    def __init__(
        self,
        transaction: Transaction,
        record_builder: RecordBuilder,
        on_duplicate: OnDuplicate,
        memory_builder: MemoryBuilder,
    ) -> None:
        self._transaction = transaction
        self._record_builder = record_builder
        self._on_duplicate = on_duplicate
        self._memory_builder = memory_builder
        self._keyed: dict[tuple[str, str], Memory] = {}
        self._holders: dict[ContentName, Memory] = {}
        self._waiting: list[Record] = []
        self._stored: dict[str, Memory] = {}
        self.stating: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.expired: dict[str, Memory] = {}

    def look_up(self, items: Sequence[PreparedMemory]) -> None:
        """Look up all keys and contents of the batch in the store."""
        memories = [item.record.memory for item in items]
        owner = memories[0].scope.owner
        keys = {(memory.scope.project_id, memory.key) for memory in memories if memory.key}
        names = {item.name for item in items if item.name is not None}
        if keys:
            self._keyed = dict(self._transaction.find_keys(owner, keys))
        if names:
            self._holders = dict(self._transaction.find_contents(owner, names))

    def upsert(self, item: PreparedMemory) -> ItemResult:
        """Upsert one item; a new memory is inserted by `finish`."""
        memory = item.record.memory
        if memory.key and memory.status not in UNNAMED:
            existing = self._keyed.get((memory.scope.project_id, memory.key))
            if existing is not None:
                return self._change(self._as_stored(existing), item)
        holder = None if item.name is None else self._holders.get(item.name)
        if holder is None:
            return self._add(item, item.name)
        return self._handle_duplicate(holder, item)

    def finish(self, results: Sequence[ItemResult]) -> list[ItemResult]:
        """Insert waiting records; return the *results* with the rows of their memories."""
        self._flush()
        return [
            UpsertResult(self._stored[result.memory.id], result.outcome)
            if isinstance(result, UpsertResult) and not result.memory.row
            else result
            for result in results
        ]

    def _add(self, item: PreparedMemory, name: ContentName | None) -> UpsertResult:
        record, memory = item.record, item.record.memory
        if record.statements or item.concerns_schedule:
            self.stating[memory.id] = None
        self._waiting.append(_with_claim(record, is_unique=name is not None))
        if memory.key and memory.status not in UNNAMED:
            self._keyed[memory.scope.project_id, memory.key] = memory
        if name is not None:
            self._holders[name] = memory
        return UpsertResult(memory, Outcome.CREATED)

    def _handle_duplicate(self, holder: Memory, item: PreparedMemory) -> ItemResult:
        """Decide about *item*, whose content *holder* has."""
        newcomer = item.record.memory
        now = self._memory_builder.now()
        # A statement valid only in the future does not duplicate one that is valid now.
        is_future = not holder.has_begun(now) and holder.valid_from != newcomer.valid_from
        if self._on_duplicate is OnDuplicate.KEEP_BOTH or is_future or not visible(holder, newcomer.scope):
            return self._add(item, None)
        if holder.is_expired(now):
            self._expire(holder, newcomer.create_time)
            return self._add(item, item.name)
        if self._on_duplicate is OnDuplicate.REJECT:
            return MemoryExistsError(holder.id)
        if _can_take_key(holder, newcomer):
            named = replace(item, draft=_with_convention(item.draft, holder))
            return self._change(self._as_stored(holder), named, key=newcomer.key)
        values = _stronger_values(holder, item.draft, newcomer, self._memory_builder.policy)
        return (
            self._write(self._as_stored(holder), values, newcomer.create_time)
            if values
            else UpsertResult(holder, Outcome.DUPLICATE)
        )

    def _expire(self, holder: Memory, moment: datetime) -> None:
        """Expire *holder*, whose expiry has passed, as maintenance would, which frees its content.

        The content changes hands at one *moment*: the two memories never hold it at the same time.
        """
        before = self._as_stored(holder)
        update_time = max(before.update_time, moment)
        after = replace(before, status=Status.EXPIRED, update_time=update_time, revision=before.revision + 1)
        self._update(before, self._record_builder.record(before, after))
        self.expired[before.id] = after

    def _change(self, before: Memory, item: PreparedMemory, *, key: str = "") -> ItemResult:
        """Write *item* to *before*, which has its key already or gets *key*."""
        draft, own = item.draft, item.record.memory
        is_outranked = before.origin is Origin.USER and self._memory_builder.policy.outranks(before, own)
        refusal = _refusal(before, own, is_outranked=is_outranked)
        if refusal is not None:
            return refusal
        if is_outranked and not key:
            return UpsertResult(before, Outcome.DUPLICATE)
        provenance = {} if is_outranked else draft_provenance(before, draft, own)
        values = values_of_draft(draft, own.create_time) | provenance
        if key:
            values["key"] = key
        return self._write(before, values, own.create_time, item.record.given_vector)

    def _write(self, before: Memory, values: Mapping[str, Any], now: datetime, vector: bytes = b"") -> ItemResult:
        """Write new *values* of fields, and a given *vector*, to *before*."""
        after = apply_values(before, values, now, self._memory_builder.reminder_detector)
        try:
            require_session(after)
            require_validity(after)
        except InvalidRequestError as error:
            return error
        record = self._record_builder.next_record(before, after, vector)
        if record is None:
            return UpsertResult(before, Outcome.DUPLICATE)
        self._flush()
        record, holder = self._record_builder.claim(self._transaction, record)
        if holder is None or content_name(before) == content_name(record.memory):
            return self._replace(before, record)
        return self._replace(before, _with_claim(record, is_unique=False))

    def _replace(self, before: Memory, record: Record) -> UpsertResult:
        self._update(before, record)
        self._record_builder.update_session_tokens(self._transaction, before, record.memory)
        self.changed[before.id] = None
        # What the user repeats of a tool may contradict what outranked the tool.
        is_raised = record.memory.trust > before.trust
        is_new = bool(record.statements) and (is_raised or record.statements != extract_statements(before))
        if is_new or (record.memory.content != before.content and concerns_schedule(record.memory)):
            self.stating[before.id] = None
        return UpsertResult(record.memory, Outcome.UPDATED)

    def _update(self, before: Memory, record: Record) -> None:
        after = record.memory
        self._transaction.update(before, record, ChangeAction.UPDATED)
        if after.key:
            self._keyed[after.scope.project_id, after.key] = after
        old = self._holders.get(content_name(before))
        if old is not None and old.id == before.id:
            del self._holders[content_name(before)]
        if record.is_unique:
            self._holders[content_name(after)] = after

    def _as_stored(self, memory: Memory) -> Memory:
        if memory.row:
            return memory
        self._flush()
        return self._stored[memory.id]

    def _flush(self) -> None:
        if self._waiting:
            linked = self._record_builder.link_to_sessions(self._transaction, self._waiting)
            self._stored.update((memory.id, memory) for memory in self._transaction.insert(linked))
            self._waiting.clear()


def _refusal(bearer: Memory, newcomer: Memory, *, is_outranked: bool) -> MemsvcError | None:
    """Return the reason why the key of *bearer* cannot be written, or None.

    *is_outranked*: *bearer* is the user's and trusted more, so that other content does not replace its own.
    """
    if not visible(bearer, newcomer.scope):
        return MemoryExistsError(bearer.id, key=bearer.key)
    if bearer.superseded_by_id:
        return MemorySupersededError(bearer.id, bearer.superseded_by_id)
    if is_outranked and bearer.content_hash != newcomer.content_hash:
        return MemoryExistsError(bearer.id, key=bearer.key, is_trusted_more=True)
    return None


def _stronger_values(holder: Memory, draft: Draft, newcomer: Memory, policy: TrustPolicy) -> dict[str, Any]:
    """Return what a *draft*, prepared as *newcomer*, gives to *holder*, which has its content.

    Its provenance, if it names one with more trust; a longer lasting layer, a tier that is loaded earlier, and a higher
    importance, if it names them and *holder* does not outrank it.
    """
    values: dict[str, Any] = {}
    if newcomer.trust > holder.trust:
        values |= draft_provenance(holder, draft, newcomer)
        if values and draft.source is not None:
            values["source"] = draft.source
    if policy.outranks(holder, newcomer):
        return values
    if draft.layer is not None and _LAYERS.index(draft.layer) > _LAYERS.index(holder.layer):
        values["layer"] = draft.layer
    if draft.tier is not None and _TIERS.index(draft.tier) > _TIERS.index(holder.tier):
        values["tier"] = draft.tier
    if draft.importance is not None and draft.importance > holder.importance:
        values["importance"] = draft.importance
    return values


def _can_take_key(holder: Memory, newcomer: Memory) -> bool:
    """Return whether *holder*, which has the content of *newcomer*, becomes the memory with its key.

    A key of its own stays. A memory outside of sessions cannot become private to one.
    """
    is_private = newcomer.layer is Layer.SESSION and not holder.scope.session_id
    return bool(newcomer.key) and not holder.key and newcomer.status not in UNNAMED and not is_private


def _with_convention(draft: Draft, holder: Memory) -> Draft:
    """Return *draft* with the defaults that its key sets, except for texts and times that *holder* has already."""
    kept: dict[str, Any] = {name: getattr(holder, name) or None for name in _KEPT if getattr(draft, name) is None}
    return with_convention(replace(draft, **kept))


def _with_claim(record: Record, *, is_unique: bool) -> Record:
    return record if record.is_unique == is_unique else replace(record, is_unique=is_unique)
