"""Embedding with caches: no passage or query is embedded twice."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.change_feed import EmbeddingCache
from memsvc.ports.models import Embedder, QueryTokens, Vector, Vectors, token_embedder

QUERY_CACHE_SIZE = 10_000
TOKEN_QUERY_CACHE_SIZE = 1_000
"""Cached queries if they have token vectors: at most 32 kB each."""
RECENT_TOKEN_BYTES = 32_000_000
"""Token vectors kept of the passages that were embedded last, until they are stored with their memories."""
_NAME = "embedder"
SLICE = 32
"""Passages embedded between two lookups of the cache; an interruption loses no more than this."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryEmbedding:
    """The vector of a query, and its tokens if the embedder gives token vectors.

    Attributes:
        chars: The number of characters at the beginning of the query that were embedded.
    """

    vector: Vector
    tokens: QueryTokens | None = None
    chars: int = 0


class CachedEmbedder:
    """An embedder with two caches: passages in the store, permanently, and recent queries in memory."""

    def __init__(self, embedder: Embedder, cache: EmbeddingCache, *, query_cache_size: int | None = None) -> None:
        """Embed by *embedder*; *query_cache_size* is the number of cached queries, by default a fixed one."""
        self._embedder = embedder
        self._tokens = token_embedder(embedder)
        self._cache = cache
        self._queries: OrderedDict[bytes, QueryEmbedding] = OrderedDict()
        default_size = QUERY_CACHE_SIZE if self._tokens is None else TOKEN_QUERY_CACHE_SIZE
        self._query_cache_size = default_size if query_cache_size is None else query_cache_size
        self._recent = _RecentTokens(RECENT_TOKEN_BYTES)
        self._lock = threading.Lock()
        self._single_flight = SingleFlight()
        self._requested: set[bytes] | None = None

    @property
    def model(self) -> str:
        """Return the name of the vector space."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        return self._embedder.dimension

    @property
    def query_lanes(self) -> int:
        """Return how many queries the embedder takes at once; 0: any number."""
        return self._embedder.query_lanes

    @property
    def token_model(self) -> str:
        """Return the name of the token vectors; empty if the embedder gives none."""
        return "" if self._tokens is None else self._tokens.token_model

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text, in order; unknown ones are embedded and stored.

        Texts that another thread is embedding are awaited: threads with the same texts share the work.

        Raises:
            BackendUnavailableError: The model cannot be reached; vectors embedded before are stored.
        """
        digests = list(map(text_digest, texts))
        self._note_requested(digests)
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
                vectors = self._embed(todo, [part[digest] for digest in todo]) if todo else ()
                embedded = _stored(todo, vectors)
                self._cache.put(self.model, embedded)
            found |= embedded
        return found

    def _embed(self, digests: Sequence[bytes], texts: Sequence[str]) -> Vectors:
        if self._tokens is None:
            return self._embedder.embed_passages(texts)
        vectors, tokens = self._tokens.embed_passages_with_tokens(texts)
        self._recent.add(dict(zip(digests, tokens, strict=True)))
        return vectors

    def recent_tokens(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the packed tokens of passages that were embedded last, by the SHA-256 digests of their texts."""
        return self._recent.get(digests)

    def passage_tokens(self, texts: Mapping[bytes, str], should_stop: Callable[[], bool]) -> dict[bytes, bytes]:
        """Return the packed tokens of passages by the SHA-256 digests of their texts.

        Tokens of passages that were embedded last are at hand; the others are embedded again. Without token vectors all
        are empty.

        Raises:
            BackendUnavailableError: The model cannot be reached.
            BackendClosedError: *should_stop* returned True, which is asked before each slice of the texts.
        """
        if self._tokens is None:
            return dict.fromkeys(texts, b"")
        found = self._recent.get(texts)
        missing = [digest for digest in texts if digest not in found]
        for start in range(0, len(missing), SLICE):
            if should_stop():
                raise BackendClosedError(_NAME)
            part = missing[start : start + SLICE]
            vectors, tokens = self._tokens.embed_passages_with_tokens([texts[digest] for digest in part])
            # A rebuild for a new model may need them next.
            self._cache.put(self.model, _stored(part, vectors))
            found.update(zip(part, tokens, strict=True))
        return found

    def stored_vectors(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of passages (little-endian float32) by the SHA-256 digests of their texts."""
        return self._cache.get(self.model, list(digests))

    def store(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors of passages that were embedded elsewhere, by digest; existing ones are kept."""
        self._note_requested(vectors)
        self._cache.put(self.model, vectors)

    @contextmanager
    def track_requests(self) -> Iterator[AbstractSet[bytes]]:
        """Yield a set that collects the digests of passages requested in the context; one tracker at a time.

        Embeddings under way are awaited, so that their vectors are stored before the context begins.
        """
        requested = self._requested = set[bytes]()
        try:
            self._single_flight.wait_for_acquired()
            yield requested
        finally:
            self._requested = None

    def _note_requested(self, digests: Iterable[bytes]) -> None:
        if (requested := self._requested) is not None:
            requested.update(digests)

    def clear_text_caches(self) -> None:
        """Clear the cache of queries, and what the embedder keeps of texts."""
        with self._lock:
            self._queries.clear()
        self._recent.clear()
        self._embedder.clear_text_cache()

    def are_stored(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether its vector is stored."""
        digests = list(map(text_digest, texts))
        stored = self._cache.get(self.model, digests)
        return [digest in stored for digest in digests]

    def query(self, text: str) -> QueryEmbedding:
        """Return the vector of the beginning of a query that the model takes, with its tokens.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        if (found := self.cached_query(text)) is not None:
            return found
        part = self._embedder.query_part(text)
        vector, tokens = (
            (self._embedder.embed_query(part), None)
            if self._tokens is None
            else self._tokens.embed_query_with_tokens(part)
        )
        embedding = QueryEmbedding(vector, tokens, len(part))
        with self._lock:
            self._queries[_key(text)] = embedding
            while len(self._queries) > self._query_cache_size:
                self._queries.popitem(last=False)
        return embedding

    def cached_query(self, text: str) -> QueryEmbedding | None:
        """Return the cached vector and tokens of a query, or None."""
        key = _key(text)
        with self._lock:
            if (found := self._queries.get(key)) is not None:
                self._queries.move_to_end(key)
            return found

    def ping(self) -> None:
        """Return if the model answers, otherwise raise BackendUnavailableError."""
        self._embedder.ping()


def text_digest(text: str) -> bytes:
    """Return the digest that keys the stored embedding of a text."""
    return hashlib.sha256(text.encode()).digest()


def _key(text: str) -> bytes:
    """Return the digest of a query: ten thousand texts of 8 192 characters would take 300 MB."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _stored(digests: Sequence[bytes], vectors: Iterable[Vector]) -> dict[bytes, bytes]:
    """Return vectors as they are stored, by digest."""
    return {digest: row.astype("<f4").tobytes() for digest, row in zip(digests, vectors, strict=True)}


class _RecentTokens:
    """Tokens of the passages that were embedded last, by digest, up to a total size."""

    def __init__(self, most_bytes: int) -> None:
        self._lock = threading.Lock()
        self._most_bytes = most_bytes
        self._tokens: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0

    def add(self, tokens: Mapping[bytes, bytes]) -> None:
        with self._lock:
            for digest, packed in tokens.items():
                self._size += len(packed) - len(self._tokens.pop(digest, b""))
                self._tokens[digest] = packed
            while self._size > self._most_bytes:
                self._size -= len(self._tokens.popitem(last=False)[1])

    def get(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            return {digest: self._tokens[digest] for digest in digests if digest in self._tokens}

    def clear(self) -> None:
        with self._lock:
            self._tokens.clear()
            self._size = 0


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

    def wait_for_acquired(self) -> None:
        """Return once none of the digests that are held now is. Must not be called while holding any."""
        with self._changed:
            awaited = set(self._digests)
        self.wait(awaited)
