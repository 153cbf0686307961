"""What is known of files in the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import NoReturn

from memsvc.domain.files import File, FileCategory, FileFilter, file_matches, is_expired
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach
from memsvc.domain.search import FoundFile
from memsvc.text.file_refs import file_terms
from memsvc_backends.in_memory.state import State

# Finding files by words, and by who refers to them, in the dict-based metadata store.


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


class InprocFileReads(InprocFileSearch):
    """`memsvc.ports.features.FileReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def get(self, ids: Sequence[str], *, reach: Reach, now: datetime) -> dict[str, File]:
        """Return those that are there."""
        return {file.id: file for file in self._within(reach, now) if file.id in set(ids)}

    def page(self, *, reach: Reach, where: FileFilter, now: datetime, before: int | None, limit: int) -> list[File]:
        """Return one page of a list."""
        found = [file for file in self._within(reach, now) if file_matches(where, file)]
        later = [file for file in reversed(found) if before is None or file.row < before]
        return later[: max(0, limit)]

    def of_owner(self, owner: str, *, after: int, limit: int) -> list[File]:
        """Return those of one owner."""
        mine = [file for file in self._files() if file.scope.owner == owner and file.row > after]
        return mine[: max(0, limit)]

    def every(self, *, after: int, limit: int) -> list[File]:
        """Return those of all owners."""
        return [file for file in self._files() if file.row > after][: max(0, limit)]

    def expired(self, *, now: datetime, limit: int) -> list[File]:
        """Return the expired ones."""
        over = [file for file in self._files() if is_expired(file, now)]
        return sorted(over, key=lambda file: (file.expire_time or now, file.row))[: max(0, limit)]

    def referred(self, digests: Iterable[str], *, apart_from: str = "") -> set[str]:
        """Return the digests that are in use."""
        used = {file.sha256 for file in self._files() if file.has_content and file.scope.owner != apart_from}
        return used & set(digests)

    def _files(self) -> list[File]:
        return [file for _, file in sorted(self._state().files.items())]

    def _within(self, reach: Reach, now: datetime) -> list[File]:
        return [file for file in self._files() if _is_within(reach, file) and not is_expired(file, now)]


class InprocFileWrites:
    """`memsvc.ports.features.FileWrites`, on the state of a transaction."""

    def __init__(
        self, state: State, race: Callable[[], NoReturn], refuse_erased: Callable[[Iterable[str]], None]
    ) -> None:
        """Work on *state*; *race* makes the transaction void, *refuse_erased* refuses owners that are being erased."""
        self._state = state
        self._race = race
        self._refuse_erased = refuse_erased

    def get(self, file_id: str, *, reach: Reach) -> File | None:
        """Return a file that is there."""
        found = self._by_id(file_id)
        return found if found is not None and _is_within(reach, found) else None

    def insert(self, file: File) -> File:
        """Insert a new file."""
        self._refuse_erased([file.scope.owner])
        if self._by_id(file.id) is not None:
            self._race()
        self._state.last_row += 1
        inserted = replace(file, row=self._state.last_row)
        self._state.files[inserted.row] = inserted
        return inserted

    def held(self, owner: str, digests: Iterable[str]) -> set[str]:
        """Return the digests of contents that the owner has."""
        mine = [file for file in self._state.files.values() if file.scope.owner == owner and file.has_content]
        return {file.sha256 for file in mine} & set(digests)

    def fill(self, owner: str, sha256: str) -> int:
        """Note that a content is here."""
        of_owner = [file for file in self._state.files.values() if file.scope.owner == owner]
        lacking = [file for file in of_owner if file.sha256 == sha256 and not file.has_content]
        self._state.files.update({file.row: replace(file, has_content=True) for file in lacking})
        return len(lacking)

    def delete(self, files: Sequence[File]) -> int:
        """Remove files."""
        return sum(self._state.files.pop(file.row, None) is not None for file in files)

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those that a memory refers to."""
        return referred_to(self._state, owner, refs)

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return the ids of others."""
        return {file.id for file in self._state.files.values() if file.scope.owner != owner} & set(ids)

    def stored(self, owner: str, ids: Iterable[str]) -> dict[str, File]:
        """Return files by id."""
        found = [file for one in ids if (file := self._by_id(one)) is not None]
        return {file.id: file for file in found if file.scope.owner == owner}

    def _by_id(self, file_id: str) -> File | None:
        return next((file for file in self._state.files.values() if file.id == file_id), None)


def _is_within(reach: Reach, file: File) -> bool:
    return file.scope.owner == reach.owner and file.scope.project_id in reach.project_ids
