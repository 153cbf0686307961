"""Embedding with a memory: the same passage, or query, is not embedded twice (requirement M14)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

import numpy as np

from memsvc.ports.change_feed import EmbeddingCache
from memsvc.ports.models import Embedder, Vector, Vectors

QUERY_CACHE_SIZE = 10_000
SLICE = 32
"""Passages embedded between two looks at the cache: work that is cut off loses no more than this."""


class CachedEmbedder:
    """An embedder behind two caches: passages in the store, for good, and recent queries in memory."""

    def __init__(self, embedder: Embedder, cache: EmbeddingCache, *, query_cache_size: int = QUERY_CACHE_SIZE) -> None:
        self._embedder = embedder
        self._cache = cache
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._query_cache_size = query_cache_size
        self._lock = threading.Lock()
        self._flights = SingleFlight()
        self._watched: AbstractSet[bytes] = frozenset()
        self._asked: set[bytes] = set()

    @property
    def model(self) -> str:
        """Name the vector space."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        return self._embedder.dimension

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text, in order; those not yet known are embedded and stored.

        What another thread is embedding already is waited for; two threads with the same work share it.

        Raises:
            BackendUnavailableError: The model cannot be reached; what was embedded before that is stored.
        """
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        if self._watched:
            self._asked.update(digest for digest in digests if digest in self._watched)
        known = self._cache.get(self.model, digests)
        absent = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        while absent:
            known |= self._fresh(absent)
            absent = {digest: text for digest, text in absent.items() if digest not in known}
            self._flights.wait(absent)
            known |= self._cache.get(self.model, list(absent))
            # What another thread had in hand and did not embed, because it failed, is left to this one.
            absent = {digest: text for digest, text in absent.items() if digest not in known}
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.frombuffer(b"".join(known[digest] for digest in digests), dtype="<f4").reshape(len(texts), -1)

    def _fresh(self, absent: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Embed and store what no other thread is embedding; return the vectors, as stored, by digest."""
        found: dict[bytes, bytes] = {}
        pairs = list(absent.items())
        for start in range(0, len(pairs), SLICE):
            part = dict(pairs[start : start + SLICE])
            with self._flights.acquire(part) as mine:
                # Another thread may have stored vectors of these since they were last looked up.
                found |= self._cache.get(self.model, list(mine))
                todo = [digest for digest in part if digest in mine and digest not in found]
                vectors = self._embedder.embed_passages([part[digest] for digest in todo]) if todo else ()
                fresh = {digest: row.astype("<f4").tobytes() for digest, row in zip(todo, vectors, strict=True)}
                self._cache.put(self.model, fresh)
            found |= fresh
        return found

    def stored_vectors(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of passages (little-endian float32) by the SHA-256 digests of their texts."""
        return self._cache.get(self.model, list(digests))

    def store(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors of passages that were embedded elsewhere, by digest; those that are here stay."""
        self._cache.put(self.model, vectors)

    @contextmanager
    def track_requests(self, digests: AbstractSet[bytes]) -> Iterator[AbstractSet[bytes]]:
        """Give a set that fills with those of *digests* whose passages anybody asks for meanwhile; one at a time.

        What the model has in hand of them is waited for: its vectors are stored when this begins, not after it.
        """
        self._watched, self._asked = digests, set()
        try:
            self._flights.wait(digests)
            yield self._asked
        finally:
            self._watched = frozenset()

    def forget_queries(self) -> None:
        """Forget what was asked lately."""
        with self._lock:
            self._queries.clear()

    def are_stored(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether its vector is stored, so that it need not be embedded."""
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        stored = self._cache.get(self.model, digests)
        return [digest in stored for digest in digests]

    def query(self, text: str) -> Vector:
        """Return the vector of a query.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        if (found := self.cached_query(text)) is not None:
            return found
        vector = self._embedder.embed_query(text)
        with self._lock:
            self._queries[text] = vector
            while len(self._queries) > self._query_cache_size:
                self._queries.popitem(last=False)
        return vector

    def cached_query(self, text: str) -> Vector | None:
        """Return the vector of a query that was embedded lately, or None."""
        with self._lock:
            if (found := self._queries.get(text)) is not None:
                self._queries.move_to_end(text)
            return found

    def ping(self) -> None:
        """Return when the model answers, or raise BackendUnavailableError."""
        self._embedder.ping()


# What is being embedded at this moment, so that two threads do not embed the same passage.


class SingleFlight:
    """The digests of passages under way, each in one thread's hands."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._digests: set[bytes] = set()

    @contextmanager
    def acquire(self, digests: Iterable[bytes]) -> Iterator[set[bytes]]:
        """Take those of *digests* that nobody has, and hold them while the context is open."""
        with self._changed:
            mine = set(digests) - self._digests
            self._digests |= mine
        try:
            yield mine
        finally:
            with self._changed:
                self._digests -= mine
                self._changed.notify_all()

    def wait(self, digests: Iterable[bytes]) -> None:
        """Return once none of *digests* is under way. Not to be called while holding any."""
        awaited = set(digests)
        with self._changed:
            self._changed.wait_for(lambda: self._digests.isdisjoint(awaited))
