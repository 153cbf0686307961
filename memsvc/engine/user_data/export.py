"""Export of a user as JSON lines, read from one snapshot and streamed in parts."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, repeat

from memsvc.domain.errors import LimitExceededError, LimitKind
from memsvc.domain.index_entries import View
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import FORMAT, VERSION, RecordKind, StoredMemory
from memsvc.engine.indexing.cached_embedder import CachedEmbedder, text_digest
from memsvc.engine.indexing.vector_entries import EmbeddingGranularity, Passage, passages_of
from memsvc.engine.memories.lookup import AccessCounts
from memsvc.engine.records.memory_builder import document_of
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.user_data import encode
from memsvc.engine.user_data.encode import EncodedLine, Fields, encode_line
from memsvc.ports.metadata import MetadataStore, UserSnapshot
from memsvc.text.passages import ANALYSIS_VERSION

PART_BYTES = 256 * 1024
"""Size of a part; a longer line spans several parts."""
VECTOR_BATCH = 200
"""Memories per lookup of vectors."""
MAX_CONCURRENT_EXPORTS = 4
"""Maximum number of concurrent exports; each holds a snapshot."""


@dataclass(frozen=True, slots=True)
class ExportPart:
    """The next bytes of an export, with the records exported so far and in total."""

    data: bytes
    records: int
    total: int


class UserExporter:
    """The export use case."""

    def __init__(
        self,
        store: MetadataStore,
        accesses: AccessCounts,
        embedding: CachedEmbedder,
        tier: EmbeddingGranularity,
        now: Callable[[], datetime],
        search_priority: SearchPriority,
    ) -> None:
        """Read from *store*; vectors come from *embedding*, for the views of *tier*."""
        self._store = store
        self._accesses = accesses
        self._embedding = embedding
        self._tier = tier
        self._now = now
        self._search_priority = search_priority
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_EXPORTS)

    def run(self, scope: Scope, *, with_vectors: bool, service: str = "") -> Generator[ExportPart, None, None]:
        """Yield all stored data of the user of *scope*, from a snapshot taken at the first step.

        Raises:
            LimitExceededError: Too many exports are running.
            BackendUnavailableError: The store cannot be read.
        """
        with self._slot():
            # Pending access counts are part of the memories.
            self._accesses.flush()
            with self._store.users.snapshot(scope.owner) as snapshot:
                counts = dict(snapshot.counts())
                head = self._header(scope, counts, with_vectors=with_vectors, service=service)
                yield from _parts(self._lines(head, snapshot, with_vectors=with_vectors), sum(counts.values()))

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if not self._slots.acquire(blocking=False):
            limit = f"{MAX_CONCURRENT_EXPORTS} exports at a time"
            raise LimitExceededError(limit, kind=LimitKind.SLOTS)
        try:
            yield
        finally:
            self._slots.release()

    def _header(self, scope: Scope, counts: dict[RecordKind, int], *, with_vectors: bool, service: str) -> EncodedLine:
        header: Fields = {
            "record": "header",
            "format": FORMAT,
            "version": VERSION,
            "user_id": scope.user_id,
            "create_time": self._now().isoformat(),
            "counts": {kind.value: count for kind, count in counts.items()},
        }
        if service:
            header["service"] = service
        if with_vectors:
            header["embedding"] = {
                "model": self._embedding.model,
                "dimension": self._embedding.dimension,
                "analysis": ANALYSIS_VERSION,
            }
        return encode_line(header)

    def _lines(self, header: EncodedLine, snapshot: UserSnapshot, *, with_vectors: bool) -> Iterator[EncodedLine]:
        yield header
        yield from map(encode.session_line, snapshot.sessions())
        yield from map(encode.file_line, snapshot.files())
        memories = snapshot.memories()
        for stored, vectors in self._with_vectors(memories) if with_vectors else zip(memories, repeat(())):
            self._search_priority.yield_to_searches()
            yield encode.memory_line(stored, vectors)
            if stored.memory.revision > 1:
                yield from map(encode.revision_line, snapshot.earlier(stored.memory))
        yield from map(encode.conflict_line, snapshot.conflicts())
        yield from map(encode.checkpoint_line, snapshot.checkpoints())
        yield from map(encode.tombstone_line, snapshot.tombstones())

    def _with_vectors(self, memories: Iterator[StoredMemory]) -> Iterator[tuple[StoredMemory, Sequence[bytes]]]:
        while some := list(islice(memories, VECTOR_BATCH)):
            vectors = self._vectors(some)
            for stored in some:
                yield stored, vectors.get(stored.memory.id, ())

    def _vectors(self, some: Sequence[StoredMemory]) -> dict[str, list[bytes]]:
        """Return the cached vectors of memories without a given vector, by id."""
        model = self._embedding.model
        wanted = [
            (stored.memory.id, passage, text_digest(passage.text))
            for stored in some
            if stored.given_model != model
            for passage in own_passages(stored.memory, self._tier)
        ]
        known = self._embedding.stored_vectors(digest for _, _, digest in wanted)
        found: dict[str, list[bytes]] = {}
        for memory_id, passage, digest in wanted:
            if (vector := known.get(digest)) is not None:
                part = encode.vector_part(vector, passage.view, passage.ordinal)
                found.setdefault(memory_id, []).append(part)
        return found


def own_passages(memory: Memory, tier: EmbeddingGranularity) -> list[Passage]:
    """Return the passages of a memory that depend on it alone, not on the preceding message."""
    return [one for one in passages_of(document_of(memory), tier) if one.view is not View.WINDOW]


def _parts(lines: Iterable[EncodedLine], total: int) -> Iterator[ExportPart]:
    """Yield the lines as bytes, and at the end the footer with their counts and digest.

    Lines are grouped into parts, since every part has a fixed cost for its reader; only a line longer than a part is
    split.
    """
    digest, counts, waiting, size = hashlib.sha256(), Counter[str](), list[bytes](), 0
    for line in lines:
        if waiting and size + len(line.raw) > PART_BYTES:
            whole = b"".join(waiting)
            digest.update(whole)
            yield from _split(whole, counts.total() - 1, total)
            waiting, size = [], 0
        counts[line.record] += 1
        waiting.append(line.raw)
        size += len(line.raw)
    rest = b"".join(waiting)
    digest.update(rest)
    del counts["header"]
    done = counts.total()
    footer = {"record": "footer", "lines": done + 1, "counts": dict(counts), "sha256": digest.hexdigest()}
    yield from _split(rest + encode_line(footer).raw, done, total)


def _split(data: bytes, records: int, total: int) -> Iterator[ExportPart]:
    for start in range(0, len(data), PART_BYTES):
        yield ExportPart(data[start : start + PART_BYTES], records, total)
