"""Finding files by words, and by who refers to them, in the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from memsvc.domain.files import FileCategory, is_expired
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach
from memsvc.domain.search import FoundFile
from memsvc.text.file_refs import file_terms
from memsvc_backends.in_memory.state import State


class InprocFileSearch:
    """`memsvc.ports.features.FileSearch`."""

    _state: Callable[[], State]

    def search(
        self,
        terms: Sequence[str],
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory],
        now: datetime,
        limit: int,
    ) -> list[FoundFile]:
        """Return the best files."""
        wanted = list(dict.fromkeys(terms))
        found: list[FoundFile] = []
        for file in self._state().files.values():
            is_reached = file.scope.owner == reach.owner and file.scope.project_id in reach.project_ids
            if not is_reached or file.category not in categories or is_expired(file, now):
                continue
            weights = file_terms(file)
            total = sum(round(weights.get(term, 0.0) * 1e9) for term in wanted)
            if total:
                found.append(FoundFile(file, total / (1e9 * len(wanted))))
        return sorted(found, key=lambda one: (-one.score, -one.file.row))[: max(0, limit)]

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those that a memory refers to."""
        return referred_to(self._state(), owner, refs)

    def existing(self, owner: str, refs: Iterable[FileRef], *, now: datetime) -> set[FileRef]:
        """Return those that are files."""
        files = [file for file in self._state().files.values() if file.scope.owner == owner]
        return {FileRef(file.category, file.id) for file in files if not is_expired(file, now)} & set(refs)


def referred_to(state: State, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
    """Return those of *refs* that a memory of *owner* refers to."""
    memories = [record.memory for record in state.records.values()]
    return {ref for memory in memories if memory.scope.owner == owner for ref in memory.file_refs} & set(refs)
