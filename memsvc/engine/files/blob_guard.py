"""The one way to blobs that are put or removed, so that nobody removes what somebody else is just about to use."""

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
    """Puts and removes blobs; what is done with one and the same blob is done one after the other.

    Whoever puts a blob holds it until the file that uses it is committed; whoever removes one looks, while holding it,
    whether any file uses it. So in one process no file ever loses its blob. Another process on the same stores is kept
    away by the grace time of the garbage collection, and by its own deletions being recorded in the same store.
    """

    def __init__(self, files: FileReads, blobs: BlobStore) -> None:
        """Keep *blobs* that *files* say are used."""
        self._files = files
        self._blobs = blobs
        self._lock = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}
        self._guests = 0
        self._put_off: set[str] = set()

    @contextmanager
    def held(self, sha256: str) -> Iterator[None]:
        """Hold a blob; others who want to hold it wait."""
        with self._lock:
            lock, holders = self._held.get(sha256, (threading.Lock(), 0))
            self._held[sha256] = (lock, holders + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, holders = self._held.pop(sha256)
                if holders > 1:
                    self._held[sha256] = (lock, holders - 1)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Put the removal of blobs off, but for erasures, until all who asked for that are done."""
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
        """Remove those blobs that no file uses; return how many.

        Raises:
            BackendUnavailableError: The blobs cannot be reached; the rest stays for a sweep.
        """
        wanted = set(digests)
        with self._lock:
            if self._guests:
                self._put_off |= wanted
                return 0
        return sum(self._remove(sha256, apart_from="") for sha256 in wanted)

    def erase(self, digests: Iterable[str], owner: str) -> int:
        """Remove those blobs at once that nobody but *owner* uses; return how many.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        return sum(self._remove(sha256, apart_from=owner) for sha256 in set(digests))

    def unused(self, digests: Iterable[str]) -> set[str]:
        """Return those blobs that are there and that no file uses; who is about to use one is waited for.

        Raises:
            BackendUnavailableError: The blobs cannot be reached.
        """
        return {sha256 for sha256 in set(digests) if self._is_unused(sha256)}

    def try_to_remove_unused(self, digests: Iterable[str]) -> None:
        """Remove those blobs that no file uses, or leave that to a sweep when they cannot be reached now."""
        try:
            self.remove_unused(digests)
        except BackendUnavailableError:
            log.warning("blobs that nobody uses could not be removed; a sweep will", exc_info=True)

    def _is_unused(self, sha256: str) -> bool:
        with self.held(sha256):
            return self._blobs.find(sha256) is not None and not self._files.referred([sha256])

    def _remove(self, sha256: str, *, apart_from: str) -> bool:
        with self.held(sha256):
            if self._files.referred([sha256], apart_from=apart_from):
                return False
            return self._blobs.delete(sha256)
