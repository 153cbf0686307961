"""What is kept of files in the metadata store: parts of `memsvc.ports.metadata`. Their bytes: `memsvc.ports.blobs`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from memsvc.domain.files import File, FileFilter
from memsvc.domain.scope import Reach
from memsvc.ports.file_finding import FileReferences, FileSearch


class FileReads(FileSearch, Protocol):
    """Reading what is known of files. What lies outside *reach*, or is expired at *now*, is as if it were not there."""

    def get(self, ids: Sequence[str], *, reach: Reach, now: datetime) -> dict[str, File]:
        """Return the files with these ids, by id; those not there are left out."""
        ...

    def page(self, *, reach: Reach, where: FileFilter, now: datetime, before: int | None, limit: int) -> list[File]:
        """Return at most *limit* files that match, the newest first; *before* is the row of the last one before."""
        ...

    def of_owner(self, owner: str, *, after: int, limit: int) -> list[File]:
        """Return at most *limit* files of exactly this owner by row, expired ones too, from the row *after* on."""
        ...

    def every(self, *, after: int, limit: int) -> list[File]:
        """Return at most *limit* files of all owners by row, expired ones too, from the row *after* on."""
        ...

    def expired(self, *, now: datetime, limit: int) -> list[File]:
        """Return at most *limit* files of all owners that are expired, the first to expire first."""
        ...

    def referred(self, digests: Iterable[str], *, apart_from: str = "") -> set[str]:
        """Return those of *digests* that are the hash of a file that has its content, expired ones too.

        The files of the owner *apart_from* do not count.
        """
        ...


class FileWrites(FileReferences, Protocol):
    """Files within a transaction."""

    def get(self, file_id: str, *, reach: Reach) -> File | None:
        """Return a file, expired or not, so that no other transaction removes it before this one ends."""
        ...

    def insert(self, file: File) -> File:
        """Insert a new file; return it with its row.

        Raises:
            UniquenessRaceError: The id is taken, by whomever.
            ErasureRunningError: The owner is being erased.
        """
        ...

    def held(self, owner: str, digests: Iterable[str]) -> set[str]:
        """Return those of *digests* that are the hash of a file of *owner* that has its content."""
        ...

    def fill(self, owner: str, sha256: str) -> int:
        """Note of all files of *owner* with this hash that their content is here; return of how many it was not."""
        ...

    def delete(self, files: Sequence[File]) -> int:
        """Remove files by row; return how many were there."""
        ...

    def ids_of_others(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that are ids of files of other owners."""
        ...

    def stored(self, owner: str, ids: Iterable[str]) -> dict[str, File]:
        """Return the files of *owner* that have these ids, expired ones too, by id."""
        ...
