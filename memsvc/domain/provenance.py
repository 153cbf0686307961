"""Provenance of memories, and the trust that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memsvc.domain.memory import Memory, Origin, Review, Status

DIGITS = 6
"""Trust is kept to so many decimal places: so every store gives back the very number it was given."""

TRUST_OF_ORIGIN: Mapping[Origin, float] = {
    Origin.USER: 1.0,
    Origin.AGENT: 0.8,
    Origin.IMPORT: 0.7,
    Origin.DOCUMENT: 0.6,
    Origin.TOOL: 0.5,
}
"""How far each class of sources is trusted unless the settings say otherwise."""
_OWN = frozenset({Origin.USER, Origin.AGENT})


class ReviewVerdict(StrEnum):
    """Decision of a review."""

    APPROVE = "APPROVE"
    REJECT = "REJECT"


def speaks_for_the_user(memory: Memory, least_trust: float) -> bool:
    """Return whether a memory may be treated as a rule of the user.

    What the user or an agent wrote may; what comes from elsewhere, or was made of other memories, only with at least
    the trust of an agent's own.
    """
    return (memory.origin in _OWN and not memory.derived_from_ids) or memory.trust >= least_trust


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """Trust of each class of sources, and the trust below which a memory waits for a review.

    Attributes:
        of_origin: From 0 to 1, for every origin.
        quarantine_below: 0 quarantines nothing but what asks for it.
    """

    of_origin: Mapping[Origin, float] = field(default_factory=lambda: TRUST_OF_ORIGIN)
    quarantine_below: float = 0.0

    def trust(self, origin: Origin, given: float | None, sources: Iterable[Memory] = ()) -> float:
        """Return the least of what the class, the writer and every source allow."""
        allowed = [self.of_origin[origin], *(source.trust for source in sources)]
        return round(min(allowed if given is None else [*allowed, given]), DIGITS)

    def distrusts(self, trust: float, sources: Iterable[Memory] = ()) -> bool:
        """Return whether a memory of this trust must wait for a review, as does what comes from one that waits."""
        return trust < self.quarantine_below or any(is_withheld(source) for source in sources)

    def outranks(self, older: Memory, newer: Memory) -> bool:
        """Return whether *newer*, which contradicts *older*, must not displace it.

        It has less trust, and does not speak for the user: it comes from a tool, a document or an import, or was made
        of other memories.
        """
        return self.is_less(newer, older.trust)

    def is_less(self, memory: Memory, trust: float) -> bool:
        """Return whether *memory* has less than *trust*, in 0..1, and does not speak for the user."""
        return memory.trust < trust and not speaks_for_the_user(memory, self.of_origin[Origin.AGENT])


def is_withheld(memory: Memory) -> bool:
    """Return whether a memory waits for a review, or was rejected by one."""
    return memory.status is Status.QUARANTINED or memory.review in {Review.PENDING, Review.REJECTED}
