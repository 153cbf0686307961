"""Removal of embeddings that no stored text needs: those of purged memories and of erased users.

The cache of embeddings names no memory: users share the embedding of an equal text, and a key of the digest alone says
nothing about who needs it. So all stored texts are read, and every embedding of another text is removed.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from memsvc.domain.errors import BackendClosedError, MaintenanceRunningError
from memsvc.domain.index_entries import Document, DocumentHistory
from memsvc.engine.indexing.cached_embedder import CachedEmbedder, text_digest
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, passages_of
from memsvc.engine.records.memory_builder import document_of
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.change_feed import EmbeddingCache, IndexFeed
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES

PAGE = 256
"""Memories read at a time."""
DIGESTS = 2_000
"""Embeddings listed, and at most removed, at a time."""
SWEEP_SECONDS = 30.0
"""Interval of looks for purges."""
PAUSE_RATIO = 20.0
"""A run is followed by a pause of so many times its duration: it reads all memories of the store."""
MARGIN = timedelta(hours=1)
"""A start looks for purges from so long before the end of the last run on: it may have begun before them."""
_PREFIX_BYTES = 8
_Prefixes = NDArray[np.uint64]
log = logging.getLogger(__name__)


class UnusedEmbeddings:
    """The embeddings of texts that are neither stored, in any revision, nor needed by the indexes themselves."""

    def __init__(
        self,
        embedding: CachedEmbedder,
        cache: EmbeddingCache,
        feed: IndexFeed,
        tier: EmbeddingGranularity,
        search_priority: SearchPriority,
    ) -> None:
        """Remove from *cache*, which *embedding* uses, what no memory of *feed* needs in the views of *tier*."""
        self._embedding = embedding
        self._cache = cache
        self._feed = feed
        self._tier = tier
        self._search_priority = search_priority
        self._running = threading.Lock()

    def remove(self, require_running: Callable[[], None]) -> int:
        """Remove them, of every model; return their number. *require_running* is called now and then, and may raise.

        An embedding that is stored or requested in the course of it stays. One that another process requests then may
        be removed: that text is embedded again when an index is rebuilt.

        Raises:
            BackendUnavailableError: The store cannot be reached; a part may be removed.
        """
        with self._running, self._embedding.track_requests() as requested:
            listed = self._list()
            is_needed = np.zeros(len(listed), dtype=np.bool_)
            for prefixes in self._needed(require_running):
                is_needed[_places(listed, prefixes)] = True
            return self._remove(listed[~is_needed], requested, require_running)

    def _list(self) -> _Prefixes:
        """Return the first 8 bytes of every stored digest as numbers, ascending: of a million digests 8 MB."""
        parts = [_prefixes(digests) for _, digests in self._pages()]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)

    def _pages(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the stored digests with their model, page by page."""
        for model in self._cache.models():
            after = b""
            while page := self._cache.digests(model, after=after, limit=DIGESTS):
                yield model, page
                after = page[-1]

    def _needed(self, require_running: Callable[[], None]) -> Iterator[_Prefixes]:
        yield _prefixes(_digests(chain.from_iterable(NEUTRAL_SENTENCES.values())))
        after = -1
        while page := self._feed.histories(after_row=after, limit=PAGE):
            require_running()
            yield _prefixes(_digests(chain.from_iterable(map(self._texts, page))))
            after = page[-1].document.memory.row

    def _texts(self, history: DocumentHistory) -> list[str]:
        self._search_priority.yield_to_searches()
        before = history.document.previous
        documents: list[Document] = [history.document, *(document_of(one, before) for one in history.earlier)]
        return [one.text for document in documents for one in passages_of(document, self._tier)]

    def _remove(self, unused: _Prefixes, requested: Container[bytes], require_running: Callable[[], None]) -> int:
        removed = 0
        for model, page in self._pages() if len(unused) else ():
            require_running()
            self._search_priority.yield_to_searches()
            chosen = np.isin(_prefixes(page), unused)
            gone = [digest for digest, is_gone in zip(page, chosen, strict=True) if is_gone and digest not in requested]
            removed += self._cache.remove(model, gone)
        return removed


def _digests(texts: Iterable[str]) -> Iterator[bytes]:
    return map(text_digest, texts)


def _prefixes(digests: Iterable[bytes]) -> _Prefixes:
    return np.frombuffer(b"".join(digest[:_PREFIX_BYTES] for digest in digests), dtype=">u8").astype(np.uint64)


def _places(listed: _Prefixes, wanted: _Prefixes) -> NDArray[np.intp]:
    """Return the places of those of *wanted* that are in *listed*, which is ascending."""
    places = np.searchsorted(listed, wanted)
    inside = places < len(listed)
    found: NDArray[np.intp] = places[inside][listed[places[inside]] == wanted[inside]]
    return found


@dataclass(slots=True)
class _Schedule:
    """The time of the next run, and the last change that was looked at.

    Attributes:
        since: Purges before that time are covered by an earlier run.
        next_seconds: The earliest time of the next run, by the monotonic clock.
    """

    position: int = 0
    since: datetime | None = None
    next_seconds: float = -math.inf


class EmbeddingSweeper:
    """The periodic removal of unused embeddings after memories were purged, by one process of a store at a time."""

    def __init__(
        self,
        unused: UnusedEmbeddings,
        feed: IndexFeed,
        election: LeaderElection,
        *,
        pause_ratio: float = PAUSE_RATIO,
    ) -> None:
        """Look for purges in *feed*, and run *unused* as the leader of *election*.

        A run of t seconds is followed by a pause of *pause_ratio* * t.
        """
        self._unused = unused
        self._feed = feed
        self._election = election
        self._pause_ratio = pause_ratio
        self._schedule = _Schedule()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End a run after the page under way, and begin no other; what is left is removed after the next start."""
        self._stopping.set()

    def run(self) -> None:
        """Run if it is due, unless another process does or the service stops; to be called periodically.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        try:
            removed = self.run_if_due()
        except (BackendClosedError, MaintenanceRunningError):
            log.debug("unused embeddings were not removed, since the service stops or another process removes them")
        else:
            log.log(logging.INFO if removed else logging.DEBUG, "%d unused embeddings were removed", removed or 0)

    def run_if_due(self) -> int | None:
        """Remove unused embeddings if a memory was purged since the last run; return their number, None if not due.

        Raises:
            MaintenanceRunningError: Another process does it.
            BackendUnavailableError: The store cannot be reached.
            BackendClosedError: The service stops.
        """
        self._require_running()
        position = self._feed.settled_position()
        if not self._is_due():
            self._schedule.position = position
            return None
        if time.monotonic() < self._schedule.next_seconds:
            return None
        begun = time.monotonic()
        with self._election.lead() as lease:
            removed = self._unused.remove(self._require_running)
            lease.is_finished = True
        ended = time.monotonic()
        self._schedule.position = position
        self._schedule.next_seconds = ended + self._pause_ratio * (ended - begun)
        return removed

    def _is_due(self) -> bool:
        """Return whether a memory was purged since the last run, or there was none yet."""
        if self._schedule.since is None:
            last = self._election.last_end()
            if last is None:
                return True
            self._schedule.since = last - MARGIN
        return self._feed.has_purges(after=self._schedule.position, since=self._schedule.since)

    def _require_running(self) -> None:
        if self._stopping.is_set():
            name = "service"
            raise BackendClosedError(name)
