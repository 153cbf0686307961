"""Guarded writes and removals of blobs, so that no blob is removed while a new file is about to use it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.blobs import BlobStore
from memsvc.ports.features import FileReads

log = logging.getLogger(__name__)


class BlobGuard:
    """A guard that serialises the operations on each blob.

    A writer holds a blob until the file that uses it is committed; a remover checks, while holding it, that no file
    uses it. So within one process no file loses its blob. Against other processes on the same stores protect the grace
    time of the garbage collection, and deletions that are recorded in the shared store.
    """

    def __init__(self, files: FileReads, blobs: BlobStore) -> None:
        """Guard *blobs*; *files* knows which are used."""
        self._files = files
        self._blobs = blobs
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}
        self._guests = 0
        self._put_off: set[str] = set()

    @contextmanager
    def lock(self, sha256: str) -> Iterator[None]:
        """Hold the lock of a blob."""
        with self._lock:
            lock, holders = self._locks.get(sha256, (threading.Lock(), 0))
            self._locks[sha256] = (lock, holders + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, holders = self._locks.pop(sha256)
                if holders > 1:
                    self._locks[sha256] = (lock, holders - 1)

    @contextmanager
    def defer_removals(self) -> Iterator[None]:
        """Defer removals of blobs, except by erasures, until all open contexts are closed."""
        with self._lock:
            self._guests += 1
        try:
            yield
        finally:
            with self._lock:
                self._guests -= 1
                due = set() if self._guests else set(self._put_off)
                self._put_off -= due
            self.try_to_remove_unused(due)

    def remove_unused(self, digests: Iterable[str]) -> int:
        """Remove the blobs that no file uses; return the number.

        Raises:
            BackendUnavailableError: The blobs cannot be reached; the rest is left to a sweep.
        """
        wanted = set(digests)
        with self._lock:
            if self._guests:
                self._put_off |= wanted
                return 0
        return sum(self._remove(sha256, apart_from="") for sha256 in wanted)

    def erase(self, digests: Iterable[str], owner: str) -> int:
        """Remove the blobs used only by *owner*, without deferral; return the number.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        return sum(self._remove(sha256, apart_from=owner) for sha256 in set(digests))

    def find_unused(self, digests: Iterable[str]) -> set[str]:
        """Return the blobs that exist and that no file uses; wait for current holders.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        return {sha256 for sha256 in set(digests) if self._is_unused(sha256)}

    def try_to_remove_unused(self, digests: Iterable[str]) -> None:
        """Remove the blobs that no file uses, or leave that to a sweep when they cannot be reached."""
        try:
            self.remove_unused(digests)
        except BackendUnavailableError:
            log.warning("unused blobs could not be removed; a sweep will remove them", exc_info=True)

    def _is_unused(self, sha256: str) -> bool:
        with self.lock(sha256):
            return self._blobs.find(sha256) is not None and not self._files.digests_in_use([sha256])

    def _remove(self, sha256: str, *, apart_from: str) -> bool:
        with self.lock(sha256):
            if self._files.digests_in_use([sha256], apart_from=apart_from):
                return False
            return self._blobs.delete(sha256)
