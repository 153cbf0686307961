"""Marks of memories by their stored conflicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from memsvc.domain.conflicts import Conflict, ConflictState, Currency, CurrencyMark
from memsvc.domain.memory import Memory
from memsvc.ports.features import StatementReads

_KEPT = frozenset({ConflictState.KEPT_BOTH, ConflictState.REJECTED})


@dataclass(frozen=True, slots=True)
class ConflictMarks:
    """The stored conflicts of memories that are read together.

    Attributes:
        open_sides: The marks of both sides of open conflicts, by id; that of the older side names the newer one.
        kept: The older and the newer memory of the pairs that were decided to stay side by side.
    """

    open_sides: dict[str, CurrencyMark]
    kept: frozenset[tuple[str, str]]


class ConflictMarkReader:
    """Looks up the conflicts of memories that are read together. Thread-safe."""

    def __init__(self, statements: StatementReads) -> None:
        """Read from *statements*."""
        self._statements = statements

    def read(self, memories: Iterable[Memory]) -> ConflictMarks:
        """Return the marks.

        A global memory that a memory of a project contradicts is marked only next to it: in other projects it holds.

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
                if _concerns(conflict, own.get(conflict.older_id), own):
                    found[conflict.older_id] = CurrencyMark(Currency.CONFLICTED, conflict.newer_id)
        return ConflictMarks(found, frozenset(kept))


def _concerns(conflict: Conflict, side: Memory | None, read: dict[str, Memory]) -> bool:
    if side is None:
        return False
    return side.scope.project_id == conflict.project_id or conflict.newer_id in read
