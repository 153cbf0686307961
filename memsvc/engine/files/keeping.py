"""The one way to blobs that are put or removed, so that nobody removes what somebody else is just about to use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.blobs import BlobStore
from memsvc.ports.files import FileReads

log = logging.getLogger(__name__)


class Keeping:
    """Puts and removes blobs; what is done with one and the same blob is done one after the other.

    Whoever puts a blob holds it until the file that uses it is committed; whoever removes one looks, while holding it,
    whether any file uses it. So in one process no file ever loses its blob. Another process on the same stores is kept
    away by the grace time of `memsvc.engine.files.sweep`, and by its own deletions being told to the same store.
    """

    def __init__(self, files: FileReads, blobs: BlobStore) -> None:
        """Keep *blobs* that *files* say are used."""
        self._files = files
        self._blobs = blobs
        self._lock = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}

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

    def remove_unused(self, digests: Iterable[str], *, apart_from: str = "") -> int:
        """Remove those blobs that no file uses, those of the owner *apart_from* not counted; return how many.

        Raises:
            BackendUnavailableError: The blobs cannot be reached; the rest stays for a sweep.
        """
        removed = 0
        for sha256 in dict.fromkeys(digests):
            with self.held(sha256):
                if not self._files.referred([sha256], apart_from=apart_from):
                    removed += self._blobs.delete(sha256)
        return removed

    def try_to_remove_unused(self, digests: Iterable[str]) -> None:
        """Remove those blobs that no file uses, or leave that to a sweep when they cannot be reached now."""
        try:
            self.remove_unused(digests)
        except BackendUnavailableError:
            log.warning("blobs that nobody uses could not be removed; a sweep will", exc_info=True)
