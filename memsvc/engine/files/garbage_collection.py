"""Garbage collection of expired files and unused blobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from memsvc.domain.errors import MemsvcError
from memsvc.domain.files import File
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.blobs import Blob, BlobStore
from memsvc.ports.features import FileReads
from memsvc.ports.metadata import Transaction

BATCH = 100
"""Files or blobs per step."""
GRACE = timedelta(hours=1)
"""Minimum age of a blob without a file: its upload may be about to finish, also in another process."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SweepCounts:
    """The counts of removals by a sweep, made or planned."""

    expired_files: int = 0
    orphan_blobs: int = 0
    orphan_bytes: int = 0


class FileSweep:
    """A sweep that finds and removes expired files and unused blobs."""

    def __init__(
        self,
        committer: GroupCommitter,
        files: FileReads,
        blobs: BlobStore,
        blob_guard: BlobGuard,
        now: Callable[[], datetime],
        search_priority: SearchPriority,
    ) -> None:
        """Sweep *files* and *blobs*; *now* is the clock."""
        self._committer = committer
        self._files = files
        self._blobs = blobs
        self._blob_guard = blob_guard
        self._now = now
        self._search_priority = search_priority

    def run(self, *, grace: timedelta = GRACE, is_dry_run: bool = False) -> SweepCounts:
        """Remove expired files, and blobs without files that are older than *grace*; return the counts.

        Raises:
            BackendUnavailableError: A store cannot be reached; the rest is left to the next sweep.
        """
        expired = self._count_expired() if is_dry_run else self._remove_expired()
        count = size = 0
        for blob in self.orphans(grace=grace):
            if is_dry_run or self._blob_guard.remove_unused([blob.sha256]):
                count, size = count + 1, size + blob.size_bytes
        return SweepCounts(expired, count, size)

    def orphans(self, *, grace: timedelta = GRACE) -> Iterator[Blob]:
        """Yield the blobs that no file uses and that are older than *grace*."""
        latest = self._now() - grace
        blobs = (blob for blob in self._blobs.blobs() if blob.put_time <= latest)
        yield from without_files(blobs, self._files, self._search_priority)

    def find_broken(self) -> Iterator[File]:
        """Yield the files of all owners whose content was stored but whose blob is lost, oldest first."""
        after = 0
        while part := self._files.every(after=after, limit=BATCH):
            for file in part:
                self._search_priority.yield_to_searches()
                if file.has_content and self._blobs.find(file.sha256) is None:
                    yield file
            after = part[-1].row

    def _count_expired(self) -> int:
        return len(self._files.expired_files(now=self._now(), limit=1_000_000))

    def _remove_expired(self) -> int:
        removed, now = 0, self._now()
        while part := self._files.expired_files(now=now, limit=BATCH):
            removed += self._committer.submit(_deletion_of(part)).value
            self._blob_guard.try_to_remove_unused(file.sha256 for file in part)
        return removed


def without_files(blobs: Iterator[Blob], files: FileReads, search_priority: SearchPriority) -> Iterator[Blob]:
    """Yield those of *blobs* that no file uses; the upload of one may be about to finish."""
    while part := list(islice(blobs, BATCH)):
        search_priority.yield_to_searches()
        used = files.digests_in_use(blob.sha256 for blob in part)
        yield from (blob for blob in part if blob.sha256 not in used)


def _deletion_of(files: Sequence[File]) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.files.delete(files)


class BlobGarbageCollector:
    """A thread that sweeps periodically."""

    def __init__(self, sweep: FileSweep, seconds: float) -> None:
        """Sweep every *seconds*, the first time that long after the start."""
        self._sweep = sweep
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memsvc-files", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for a running sweep."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                swept = self._sweep.run()
            except MemsvcError:
                log.warning("the sweep of files failed and will be retried", exc_info=True)
            else:
                if swept != SweepCounts():
                    log.info("files swept: %s", swept)
