"""Listing and resolution of conflicts, and the marks of their memories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from memsvc.domain.conflicts import Conflict, ConflictState, Contradiction, Currency, CurrencyMark, Resolution
from memsvc.domain.errors import ConflictNotFoundError, ConflictSettledError
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Outcome, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import (
    IdempotentExecutor,
    IdempotentRequest,
    hydrate_conflicts,
    not_found_error,
    request_digest,
)
from memsvc.engine.conflicts.detection import ConflictDetector
from memsvc.engine.conflicts.state_updates import IN_USE
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.ports.features import StatementReads
from memsvc.ports.metadata import MemoryReads, MetadataStore, Transaction

_STATES = {
    Resolution.CONFIRM: ConflictState.CONFIRMED,
    Resolution.REJECT: ConflictState.REJECTED,
    Resolution.KEEP_BOTH: ConflictState.KEPT_BOTH,
}


class _VoidConflictError(Exception):
    """A memory of an open conflict is not in use any more, which a rollback that was interrupted may leave."""


class ConflictResolver:
    """Lists conflicts and resolves them, each in one transaction."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        record_builder: RecordBuilder,
        requests: IdempotentExecutor,
        store: MetadataStore,
    ) -> None:
        """Write by these parts, read from *store*."""
        self._requests = requests
        self._store = store
        self._conflict_detector = ConflictDetector(memory_builder, record_builder)

    def page(
        self, scope: Scope, *, states: Sequence[ConflictState], memory_id: str, before: str, limit: int
    ) -> tuple[list[Contradiction], str]:
        """Return the next *limit* conflicts of the scope, newest first, and the id to continue from; empty at the end.

        Memories that are deleted, or private to another session, are None.
        """
        reach = Reach.from_scope(scope)
        found = self._store.conflicts.page(
            reach=reach, states=states, memory_id=memory_id, before=before, limit=limit + 1
        )
        visible_conflicts = [
            _visible_contradiction(one, scope) for one in hydrate_conflicts(self._store.memories, found[:limit], reach)
        ]
        return visible_conflicts, found[limit - 1].id if len(found) > limit else ""

    def resolve(
        self, scope: Scope, conflict_id: str, resolution: Resolution, options: WriteOptions
    ) -> tuple[Contradiction, WriteResult]:
        """Resolve an open conflict; return it with its memories, and the older memory as written.

        CONFIRM: the newer memory supersedes the older one. REJECT: the older one is ACTIVE again, the newer one is
        ARCHIVED. KEEP_BOTH: both are ACTIVE. An older memory with another open conflict stays CONFLICTED.

        Raises:
            ConflictNotFoundError: The conflict is not visible to the scope.
            ConflictSettledError: The conflict is not open.
            RequestIdReusedError: The request_id was used for another request.
            MemoryNotFoundError: The request is a repetition, and a memory was purged since.
        """

        def work(transaction: Transaction) -> list[UpsertResult]:
            return self._resolve(transaction, scope, conflict_id, resolution)

        digest = request_digest(scope, conflict_id, resolution) if options.request_id else ""
        request = IdempotentRequest("ResolveConflict", options.request_id, digest, Reach.from_scope(scope))
        try:
            (older, newer), _ = self._requests.run_once(request, work)
        except _VoidConflictError as error:
            unrepeated = replace(request, id="", digest="")
            self._requests.run_once(unrepeated, lambda transaction: self._close(transaction, scope, conflict_id))
            raise ConflictSettledError(conflict_id, ConflictState.CLOSED.value) from error
        if not isinstance(older, WriteResult):
            raise not_found_error(older)
        if not isinstance(newer, WriteResult):
            raise not_found_error(newer)
        conflict = older.conflicts[0].conflict
        return _visible_contradiction(Contradiction(conflict, older.memory, newer.memory), scope), older

    def _resolve(
        self, transaction: Transaction, scope: Scope, conflict_id: str, resolution: Resolution
    ) -> list[UpsertResult]:
        conflict = transaction.get_conflict(conflict_id, reach=Reach.from_scope(scope))
        older, newer = (
            (None, None)
            if conflict is None
            else self._conflict_detector.conflict_states.load_sides(transaction, conflict)
        )
        if conflict is None or older is None or newer is None:
            raise ConflictNotFoundError(conflict_id)
        if conflict.state is not ConflictState.OPEN:
            raise ConflictSettledError(conflict_id, conflict.state.value)
        if not {older.status, newer.status} <= IN_USE:
            raise _VoidConflictError
        settled = self._conflict_detector.conflict_states.settle(conflict, _STATES[resolution])
        transaction.settle_conflicts([settled])
        older, newer = self._apply(transaction, older, newer, resolution)
        visible_conflicts = Contradiction(settled, older, newer)
        return [UpsertResult(older, Outcome.UPDATED, (visible_conflicts,)), UpsertResult(newer, Outcome.UPDATED)]

    def _close(self, transaction: Transaction, scope: Scope, conflict_id: str) -> list[UpsertResult]:
        """Close a conflict of which a memory is not in use."""
        conflict = transaction.get_conflict(conflict_id, reach=Reach.from_scope(scope))
        states = self._conflict_detector.conflict_states
        if conflict is not None:
            states.update(transaction, [one for one in states.load_sides(transaction, conflict) if one is not None])
        return []

    def _apply(
        self, transaction: Transaction, older: Memory, newer: Memory, resolution: Resolution
    ) -> tuple[Memory, Memory]:
        conflict_states = self._conflict_detector.conflict_states
        if resolution is Resolution.CONFIRM:
            older, newer = self._conflict_detector.supersession.link(transaction, older, newer)
            conflict_states.update(transaction, [older])
        elif resolution is Resolution.REJECT:
            newer = conflict_states.set_status(transaction, newer, Status.ARCHIVED)
            conflict_states.update(transaction, [newer])
            older = conflict_states.release(transaction, older)
        else:
            older = conflict_states.release(transaction, older)
        return older, newer


def _visible_contradiction(contradiction: Contradiction, scope: Scope) -> Contradiction:
    conflict: Conflict = contradiction.conflict
    return Contradiction(
        conflict, _visible_memory(contradiction.older, scope), _visible_memory(contradiction.newer, scope)
    )


def _visible_memory(memory: Memory | None, scope: Scope) -> Memory | None:
    if memory is None or memory.status is Status.DELETED or not visible(memory, scope):
        return None
    return memory


# Marks of memories by their stored conflicts.


Outranks: TypeAlias = Callable[[Memory, Memory], bool]
"""Returns whether an older memory outranks a newer one: see `TrustPolicy.outranks`."""
_KEPT = frozenset({ConflictState.KEPT_BOTH, ConflictState.REJECTED})


@dataclass(frozen=True, slots=True)
class ConflictMarks:
    """The stored conflicts of memories that are read together.

    Attributes:
        open_sides: The marks of both sides of open conflicts, by id; that of the older side names the newer one. A
            memory that outranks the newer side has none.
        kept: The older and the newer memory of the pairs that were decided to stay side by side.
    """

    open_sides: dict[str, CurrencyMark]
    kept: frozenset[tuple[str, str]]


class ConflictMarkReader:
    """Looks up the conflicts of memories that are read together. Thread-safe."""

    def __init__(self, statements: StatementReads, memories: MemoryReads, outranks: Outranks) -> None:
        """Read from *statements*, and from *memories* the newer sides that are not at hand."""
        self._statements = statements
        self._memories = memories
        self.outranks = outranks

    def read(self, memories: Iterable[Memory]) -> ConflictMarks:
        """Return the marks.

        A global memory that a memory of a project contradicts is marked only next to it: in other projects it holds.
        A memory that outranks the newer one is not marked at all.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        by_owner: dict[str, dict[str, Memory]] = defaultdict(dict)
        for memory in memories:
            by_owner[memory.scope.owner][memory.id] = memory
        found: dict[str, CurrencyMark] = {}
        kept: set[tuple[str, str]] = set()
        for owner, own in by_owner.items():
            for conflict in self._statements.conflicts_of(owner, list(own)):
                if conflict.state in _KEPT:
                    kept.add((conflict.older_id, conflict.newer_id))
                if conflict.state is not ConflictState.OPEN:
                    continue
                if _concerns(conflict, own.get(conflict.newer_id), own):
                    found.setdefault(conflict.newer_id, CurrencyMark(Currency.CONFLICTED))
                if _concerns(conflict, own.get(conflict.older_id), own) and self._may_displace(conflict, own):
                    found[conflict.older_id] = CurrencyMark(Currency.CONFLICTED, conflict.newer_id)
        return ConflictMarks(found, frozenset(kept))

    def _may_displace(self, conflict: Conflict, read: dict[str, Memory]) -> bool:
        """Return whether the older side, which was read, does not outrank the newer one."""
        older, newer = read[conflict.older_id], read.get(conflict.newer_id)
        if newer is None and older.status is Status.ACTIVE:
            reach = Reach(conflict.owner, (conflict.project_id,))
            newer = self._memories.get([conflict.newer_id], reach=reach).get(conflict.newer_id)
        return newer is None or not self.outranks(older, newer)


def _concerns(conflict: Conflict, side: Memory | None, read: dict[str, Memory]) -> bool:
    if side is None:
        return False
    return side.scope.project_id == conflict.project_id or conflict.newer_id in read
