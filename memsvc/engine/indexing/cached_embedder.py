"""Embedding with caches: no passage or query is embedded twice."""

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
"""Passages embedded between two lookups of the cache; an interruption loses no more than this."""


class CachedEmbedder:
    """An embedder with two caches: passages in the store, permanently, and recent queries in memory."""

    def __init__(self, embedder: Embedder, cache: EmbeddingCache, *, query_cache_size: int = QUERY_CACHE_SIZE) -> None:
        self._embedder = embedder
        self._cache = cache
        self._queries: OrderedDict[str, Vector] = OrderedDict()
        self._query_cache_size = query_cache_size
        self._lock = threading.Lock()
        self._single_flight = SingleFlight()
        self._tracked: AbstractSet[bytes] = frozenset()
        self._requested: set[bytes] = set()

    @property
    def model(self) -> str:
        """Return the name of the vector space."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        return self._embedder.dimension

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text, in order; unknown ones are embedded and stored.

        Texts that another thread is embedding are awaited: threads with the same texts share the work.

        Raises:
            BackendUnavailableError: The model cannot be reached; vectors embedded before are stored.
        """
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        if self._tracked:
            self._requested.update(digest for digest in digests if digest in self._tracked)
        known = self._cache.get(self.model, digests)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
        while missing:
            known |= self._embed_missing(missing)
            missing = {digest: text for digest, text in missing.items() if digest not in known}
            self._single_flight.wait(missing)
            known |= self._cache.get(self.model, list(missing))
            # Texts that another thread failed to embed are left to this one.
            missing = {digest: text for digest, text in missing.items() if digest not in known}
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.frombuffer(b"".join(known[digest] for digest in digests), dtype="<f4").reshape(len(texts), -1)

    def _embed_missing(self, missing: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Embed and store texts that no other thread is embedding; return their stored vectors by digest."""
        found: dict[bytes, bytes] = {}
        pairs = list(missing.items())
        for start in range(0, len(pairs), SLICE):
            part = dict(pairs[start : start + SLICE])
            with self._single_flight.acquire(part) as acquired:
                # Another thread may have stored vectors of these since they were last looked up.
                found |= self._cache.get(self.model, list(acquired))
                todo = [digest for digest in part if digest in acquired and digest not in found]
                vectors = self._embedder.embed_passages([part[digest] for digest in todo]) if todo else ()
                embedded = {digest: row.astype("<f4").tobytes() for digest, row in zip(todo, vectors, strict=True)}
                self._cache.put(self.model, embedded)
            found |= embedded
        return found

    def stored_vectors(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of passages (little-endian float32) by the SHA-256 digests of their texts."""
        return self._cache.get(self.model, list(digests))

    def store(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors of passages that were embedded elsewhere, by digest; existing ones are kept."""
        self._cache.put(self.model, vectors)

    @contextmanager
    def track_requests(self, digests: AbstractSet[bytes]) -> Iterator[AbstractSet[bytes]]:
        """Yield a set that collects the *digests* whose passages are requested in the context; one tracker at a time.

        Embeddings of them under way are awaited, so that their vectors are stored before tracking begins.
        """
        self._tracked, self._requested = digests, set()
        try:
            self._single_flight.wait(digests)
            yield self._requested
        finally:
            self._tracked = frozenset()

    def clear_text_caches(self) -> None:
        """Clear the cache of queries, and what the embedder keeps of texts."""
        with self._lock:
            self._queries.clear()
        self._embedder.clear_text_cache()

    def are_stored(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether its vector is stored."""
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
        """Return the cached vector of a query, or None."""
        with self._lock:
            if (found := self._queries.get(text)) is not None:
                self._queries.move_to_end(text)
            return found

    def ping(self) -> None:
        """Return if the model answers, otherwise raise BackendUnavailableError."""
        self._embedder.ping()


class SingleFlight:
    """The digests of passages being embedded, each by one thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._digests: set[bytes] = set()

    @contextmanager
    def acquire(self, digests: Iterable[bytes]) -> Iterator[set[bytes]]:
        """Acquire those of *digests* that no thread holds, and hold them while the context is open."""
        with self._changed:
            acquired = set(digests) - self._digests
            self._digests |= acquired
        try:
            yield acquired
        finally:
            with self._changed:
                self._digests -= acquired
                self._changed.notify_all()

    def wait(self, digests: Iterable[bytes]) -> None:
        """Return once none of *digests* is held. Must not be called while holding any."""
        awaited = set(digests)
        with self._changed:
            self._changed.wait_for(lambda: self._digests.isdisjoint(awaited))
