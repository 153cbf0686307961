"""Provenance: trust in a memory by its origin, its writer and the memories it derives from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Memory, Origin, Review, Status
from memsvc.domain.provenance import TrustPolicy, is_withheld
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Draft
from memsvc.ports.metadata import Transaction

_PROVENANCE = frozenset({"origin", "trust", "derived_from_ids"})
QUARANTINED: Mapping[str, Any] = {"status": Status.QUARANTINED, "review": Review.PENDING}


class SourceLookup:
    """Lookup of source memories within one transaction, with a cache."""

    def __init__(self, transaction: Transaction) -> None:
        """Read from *transaction*."""
        self._transaction = transaction
        self._known: dict[tuple[Reach, str], Memory | None] = {}

    def require(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the memories with these ids, of any status.

        Raises:
            InvalidRequestError: Some are not visible to *scope*.
        """
        found = [self._find(scope, memory_id) for memory_id in ids]
        violations = [
            Violation(f"memory.derived_from_ids[{place}]", "must be the id of a memory that this scope sees")
            for place, memory in enumerate(found)
            if memory is None
        ]
        if violations:
            raise InvalidRequestError(violations)
        return [memory for memory in found if memory is not None]

    def find_existing(self, scope: Scope, ids: Sequence[str]) -> tuple[list[Memory], bool]:
        """Return the memories that exist, and whether that is all of them."""
        found = [memory for memory in (self._find(scope, memory_id) for memory_id in ids) if memory is not None]
        return found, len(found) == len(ids)

    def _find(self, scope: Scope, memory_id: str) -> Memory | None:
        reach = Reach.from_scope(scope)
        if (reach, memory_id) not in self._known:
            self._known[reach, memory_id] = self._transaction.get(memory_id, reach=reach)
        memory = self._known[reach, memory_id]
        return memory if memory is not None and visible(memory, scope) else None


class Provenance(NamedTuple):
    """The provenance of a new memory by its origin, before its sources are known."""

    origin: Origin
    trust: float
    status: Status
    review: Review


class TrustEvaluator:
    """Evaluation of the trust in new memories. Results are cached: most memories of an import are alike."""

    def __init__(self, policy: TrustPolicy) -> None:
        """Evaluate by *policy*."""
        self.policy = policy
        self._cached = lru_cache(maxsize=256)(self._evaluate)

    def evaluate(self, draft: Draft, origin: Origin) -> Provenance:
        """Return the provenance of *draft*, which is of *origin* unless it names another."""
        return self._cached(draft.origin or origin, draft.trust, draft.status)

    def _evaluate(self, origin: Origin, given: float | None, status: Status | None) -> Provenance:
        trust = self.policy.trust(origin, given)
        if status is Status.QUARANTINED or self.policy.distrusts(trust):
            return Provenance(origin, trust, Status.QUARANTINED, Review.PENDING)
        return Provenance(origin, trust, Status.ACTIVE, Review.NONE)


def apply_source_trust(memory: Memory, sources: Sequence[Memory], policy: TrustPolicy) -> Memory:
    """Return a new memory with its trust limited by that of its sources."""
    trust = policy.trust(memory.origin, memory.trust, sources)
    trusted = memory if trust == memory.trust else replace(memory, trust=trust)
    return replace(trusted, **QUARANTINED) if policy.distrusts(trust, sources) else trusted


def draft_provenance(before: Memory, draft: Draft, own: Memory) -> dict[str, Any]:
    """Return the provenance of *before* after *draft*, prepared as *own*, was written under its key.

    It is that of the new content. Unchanged content keeps its provenance, unless the draft names another.
    """
    is_unspecified = draft.origin is None and draft.trust is None and not draft.derived_from_ids
    if is_unspecified and before.content_hash == own.content_hash:
        return {}
    return {"origin": own.origin, "trust": own.trust, "derived_from_ids": own.derived_from_ids}


def revalue(before: Memory, values: Mapping[str, Any], sources: SourceLookup, policy: TrustPolicy) -> dict[str, Any]:
    """Return the new *values* of an update with their effect on trust and quarantine.

    Only an explicit trust raises trust; a new origin or new sources can only lower it. A memory whose trust falls below
    the threshold is quarantined.

    Raises:
        InvalidRequestError: A source does not exist, or the update sets the status of a quarantined memory.
    """
    new = dict(values)
    if new.keys() & _PROVENANCE:
        new["trust"], found = _revalue_trust(before, new, sources, policy)
        if new["trust"] < before.trust and policy.distrusts(new["trust"], found):
            new |= QUARANTINED
    if before.status is Status.QUARANTINED:
        if values.get("status", Status.QUARANTINED) is not Status.QUARANTINED:
            description = "cannot be set while the memory is QUARANTINED: decide with ReviewMemory"
            raise InvalidRequestError([Violation("memory.status", description)])
    elif new.get("status") is Status.QUARANTINED:
        new |= QUARANTINED
    return new


def _revalue_trust(
    before: Memory, new: Mapping[str, Any], sources: SourceLookup, policy: TrustPolicy
) -> tuple[float, Sequence[Memory]]:
    """Return the trust of *before* with *new* values, and the sources that it follows from."""
    if "derived_from_ids" in new:
        found, are_all = sources.require(before.scope, new["derived_from_ids"]), True
    else:
        found, are_all = sources.find_existing(before.scope, before.derived_from_ids)
    # The trust of purged sources is unknown; the current trust of the memory is an upper bound.
    given = new["trust"] if "trust" in new and are_all else min(_given_trust(new), before.trust)
    return policy.trust(new.get("origin", before.origin), given, found), found


def _given_trust(new: Mapping[str, Any]) -> float:
    trust = new.get("trust")
    return 1.0 if trust is None else float(trust)


def restored_status(before: Memory, *, is_replaced: bool) -> Mapping[str, Any]:
    """Return the status of a restored memory: one that no review has approved is quarantined again."""
    if is_withheld(before):
        return QUARANTINED
    return {"status": Status.SUPERSEDED if is_replaced else Status.ACTIVE}
