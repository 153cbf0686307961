"""Finding files by words, and by who refers to them: parts of `memsvc.ports.files`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol

from memsvc.domain.files import FileCategory
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach
from memsvc.domain.search import FoundFile


class FileSearch(Protocol):
    """Looking files up by what is known of them."""

    def search(
        self,
        terms: Sequence[str],
        *,
        reach: Reach,
        categories: AbstractSet[FileCategory],
        now: datetime,
        limit: int,
    ) -> list[FoundFile]:
        """Return at most *limit* files of these categories that have one of *terms*, best first, then the newest.

        The score is the mean weight that the file has for *terms*, as `memsvc.text.file_refs.file_terms` gives it.
        Expired files are not found. Nothing outside of *reach* is found or has an effect.
        """
        ...

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those of *refs* that a memory of *owner* refers to, of any project and status, deleted ones too."""
        ...

    def existing(self, owner: str, refs: Iterable[FileRef], *, now: datetime) -> set[FileRef]:
        """Return those of *refs* that are files of *owner* of just that category, of any project, and not expired."""
        ...


class FileReferences(Protocol):
    """The same within a transaction."""

    def referred_to(self, owner: str, refs: Iterable[FileRef]) -> set[FileRef]:
        """Return those of *refs* that a memory of *owner* refers to, of any project and status, deleted ones too."""
        ...
