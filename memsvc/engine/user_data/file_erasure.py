"""What an erasure does about files: the blobs that nobody else uses go before what is known of the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.garbage_collection import without_files
from memsvc.ports.blobs import BlobStore
from memsvc.ports.features import FileReads

BATCH = 200
"""Files looked at together."""
BLOBS = "blobs"
ORPHANS = "orphan_blobs"
"""What the blobs are counted as that no file names."""


class FilesOfUsers:
    """Finds and removes the blobs of users."""

    def __init__(self, files: FileReads, blobs: BlobStore, keeping: BlobGuard) -> None:
        """Look into *files*, and remove from *blobs* by *keeping*."""
        self._files = files
        self._blobs = blobs
        self._keeping = keeping

    def count(self, owner: str) -> int:
        """Return how many blobs nobody but *owner* uses."""
        return len({sha256 for part in self._parts(owner) for sha256 in part})

    def remove(self, owner: str, require_running: Callable[[], None]) -> set[str]:
        """Remove the blobs that nobody but *owner* uses, and return which they were.

        The owner's files are still there afterwards, so that it can be begun again after a crash.

        Raises:
            BackendUnavailableError: They cannot be reached.
        """
        removed: set[str] = set()
        for part in self._parts(owner):
            require_running()
            self._keeping.erase(part, owner)
            removed |= part
        return removed

    def orphans(self) -> dict[str, datetime]:
        """Return the blobs that no file names, with when they were put; whose they were nobody knows.

        The file of a memory that was deleted for good may be gone before its bytes.

        Raises:
            BackendUnavailableError: They cannot be reached.
        """
        found = {blob.sha256: blob.put_time for blob in without_files(self._blobs.blobs(), self._files)}
        left = self._keeping.unused(found)
        return {sha256: put_time for sha256, put_time in found.items() if sha256 in left}

    def remove_orphans(self, digests: Collection[str], require_running: Callable[[], None]) -> int:
        """Remove those of these blobs that no file names still; return how many. Whoever puts one keeps it.

        Raises:
            BackendUnavailableError: They cannot be reached.
        """
        removed = 0
        for sha256 in digests:
            require_running()
            removed += self._keeping.erase([sha256], "")
        return removed

    def remaining(self, digests: Collection[str]) -> int:
        """Return how many of these blobs are there and used by nobody."""
        return len(self._keeping.unused(digests))

    def _parts(self, owner: str) -> Iterator[set[str]]:
        after = 0
        while part := self._files.of_owner(owner, after=after, limit=BATCH):
            digests = {file.sha256 for file in part if file.has_content}
            yield digests - self._files.referred(digests, apart_from=owner)
            after = part[-1].row
