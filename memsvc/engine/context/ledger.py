"""The books of one context: what it holds, what it cost, and what it left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from memsvc.domain.context import Held, Reason, Section


@dataclass(slots=True)
class Ledger:
    """What came of each section so far.

    Attributes:
        counts: How many items each section has, and how many tokens they cost.
        texts: The texts of all events, in order.
    """

    holds: dict[str, Held] = field(default_factory=dict)
    counts: dict[Section, list[int]] = field(default_factory=dict)
    left_out: dict[tuple[Section, Reason], list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def leave_out(self, section: Section, reason: Reason, ids: Iterable[str]) -> None:
        """Note memories that were left out."""
        if ids := list(ids):
            self.left_out.setdefault((section, reason), []).extend(ids)
