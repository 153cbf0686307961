"""The lexical index over a Qdrant server: BM25 by sparse vectors, the rarity of terms by the server.

How entries are weighed, and what a hash of terms costs, says `backends.qdrant.sparse_terms`. The average length of
entries is fixed with a generation: that of up to 1 000 random entries of the generation before, or the setting
`average_terms` for the first one. On a collection of several shards each shard knows the rarity within itself.

A term of a search that no entry holds is replaced by the words one edit away, each with `FORGIVEN` of the weight that
it has by itself: the server weighs by rarity whatever it is asked, so no term can have a fixed weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from qdrant_client import models

from backends.qdrant.connection import AbsentError, Connection, connected
from backends.qdrant.generations import Generations, Live
from backends.qdrant.server_filters import filter_within, payload_indexes
from backends.qdrant.server_generation import ServerGeneration
from backends.qdrant.server_manifest import lexical_manifest, lexical_text
from backends.qdrant.server_points import operations, server_payload
from backends.qdrant.server_reading import Reading, best_hits
from backends.qdrant.server_settings import QdrantSparseSettings
from backends.qdrant.sparse_terms import is_forgivable, wanted, weighed
from backends.qdrant.vocabulary import Vocabulary
from memsvc.domain.clock import Deadline
from memsvc.domain.entries import Hit, LexicalEntry
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.indexing import LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.backend import BackendContext, BackendSpec
from memsvc.ports.index import Generation, Listed
from memsvc.ports.lexical import LexicalIndex

NAME = "qdrant-sparse"
VECTOR = "terms"
FORGIVEN = 0.5
_AVERAGE = "memsvc_average_terms"
_LENGTH = "length"
_SAMPLE = 1000
_ENTRY_BYTES = 1000
"""About what an entry, its payload and their indexes take."""


class QdrantSparseIndex:
    """`memsvc.ports.lexical.LexicalIndex`. A down server makes calls fail, and nothing else: it may come back."""

    is_shared = True

    def __init__(self, connection: Connection, settings: QdrantSparseSettings, context: BackendContext) -> None:
        self._connection = connection
        self._settings = settings
        codec = (lexical_text, lexical_manifest)
        self._generations = Generations(connection, settings, f"{settings.prefix}-lexical", codec, context.now)
        self._reading = Reading(connection, self._generations)
        self._vocabulary = Vocabulary(connection)

    @property
    def manifest(self) -> LexicalManifest | None:
        """Return the manifest of the live generation, or None when there is none.

        Raises:
            BackendUnavailableError: The server cannot be reached, and never was since the index was opened.
        """
        live = self._generations.live()
        return None if live is None else live.manifest

    def replace(self, changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        """Make the entries of each memory exactly those given, in the generation whose manifest this thread read."""
        live = self._generations.written_for()
        if live is None:
            message = "The index has no generation yet."
            raise ValueError(message)
        self._write(live, changes)
        self._generations.confirm(live)

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Return the entries that hold one of the terms or more, best first, equal scores by entry id."""
        live = self._generations.live()
        if deadline.passed():
            raise DeadlineExceededError(NAME)
        if live is None or not terms or limit <= 0:
            return []
        within = filter_within(reach, None, where)
        return self._reading.of_live(lambda found: self._found(found, list(terms), within, limit, deadline))

    def begin(self, manifest: LexicalManifest) -> Generation[LexicalEntry]:
        """Start a generation in two collections of its own: one of entries, one of words."""
        sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
        made = self._generations.create(
            manifest,
            {_AVERAGE: self._average()},
            vectors_config={},
            sparse_vectors_config={VECTOR: sparse},
        )
        try:
            for name, schema in payload_indexes().items():
                self._connection.write(
                    "create_payload_index", collection_name=made.collection, field_name=name, field_schema=schema
                )
            self._generations.collection(Vocabulary.name_of(made.collection), **Vocabulary.layout())
            self._vocabulary.prepare(made.collection)
        except BackendUnavailableError:
            self._remove(made.collection)
            raise
        return ServerGeneration(self._generations, made, self._write, self._remove)

    def switch(self, generation: Generation[LexicalEntry]) -> None:
        """Make a sealed generation the live one; the one before is removed after a moment."""
        self._connection.require_open()
        if not isinstance(generation, ServerGeneration):
            message = "The generation is another index's."
            raise TypeError(message)
        generation.require_sealed()
        self._generations.switch(generation.made)
        generation.went_live()

    def inventory(self) -> Iterator[Listed]:
        """List the entries of the generation that is live when the first one is taken."""
        return self._reading.inventory()

    def count(self, *, reach: Reach | None = None) -> int:
        """Return the number of entries: those in *reach*, or all."""
        return self._reading.count(None if reach is None else filter_within(reach))

    def storage_bytes(self) -> int:
        """Return about what the live generation takes; the server does not tell."""
        return self._reading.count(None) * _ENTRY_BYTES

    def ping(self) -> None:
        """Return when the server answers, or raise BackendUnavailableError; then clear away what nobody wants."""
        self._connection.require_open()
        self._generations.refresh()
        self._generations.clear_away()

    def close(self) -> None:
        """Close the connections, and refuse every later use."""
        self._connection.close()

    def _found(
        self, live: Live[LexicalManifest], terms: list[str], where: models.Filter, limit: int, deadline: Deadline
    ) -> list[Hit]:
        """Search for what is held, and once more with what is meant where a term is held by nothing."""
        doubtful = [term for term in dict.fromkeys(terms) if is_forgivable(term)]
        unknown = self._unknown(live, doubtful, deadline)
        weights = [1.0] * len(terms)
        for term in unknown:
            near = self._vocabulary.near(live.collection, term, deadline)
            terms += near
            weights += [FORGIVEN] * len(near)
        query = wanted(terms, weights)
        return best_hits(partial(self._asked, live, query, where, deadline), limit)

    def _asked(
        self,
        live: Live[LexicalManifest],
        query: models.SparseVector,
        where: models.Filter,
        deadline: Deadline,
        limit: int,
    ) -> list[tuple[int, float]]:
        found = self._connection.read(
            "query_points",
            deadline=deadline,
            collection_name=live.collection,
            query=query,
            using=VECTOR,
            query_filter=where,
            limit=limit,
            with_payload=False,
        )
        return [(int(point.id), _rounded(point.score)) for point in found.points if point.score > 0]

    def _unknown(self, live: Live[LexicalManifest], terms: Sequence[str], deadline: Deadline) -> list[str]:
        """Return those of *terms* that no entry of anybody holds."""
        if not terms:
            return []
        requests = [
            models.QueryRequest(query=wanted([term], [1.0]), using=VECTOR, limit=1, with_payload=False)
            for term in terms
        ]
        found = self._connection.read(
            "query_batch_points", deadline=deadline, collection_name=live.collection, requests=requests
        )
        return [term for term, reply in zip(terms, found, strict=True) if not any(p.score > 0 for p in reply.points)]

    def _write(self, live: Live[LexicalManifest], changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        average = float(live.metadata[_AVERAGE])
        try:
            for request in operations(changes, partial(_point, average), size=self._settings.batch_points):
                self._connection.write(
                    "batch_update_points", collection_name=live.collection, update_operations=request, wait=True
                )
            terms = (term for entries in changes.values() for entry in entries for term in entry.terms)
            self._vocabulary.learn(live.collection, terms)
        except AbsentError as error:
            raise BackendUnavailableError(NAME) from error

    def _remove(self, name: str) -> None:
        self._generations.remove(Vocabulary.name_of(name))
        self._generations.remove(name)

    def _average(self) -> float:
        """Return how many terms the entries of the live generation have on average."""
        none: list[int] = []
        lengths = self._reading.of_live(self._sampled, none)
        return sum(lengths) / len(lengths) if any(lengths) else self._settings.average_terms

    def _sampled(self, live: Live[LexicalManifest]) -> list[int]:
        found: Any = self._connection.read(
            "query_points",
            collection_name=live.collection,
            query=models.SampleQuery(sample=models.Sample.RANDOM),
            limit=_SAMPLE,
            with_payload=[_LENGTH],
        )
        return [int(point.payload[_LENGTH]) for point in found.points]


def _point(average: float, entry: LexicalEntry) -> models.PointStruct:
    payload = server_payload(entry.attributes)
    payload[_LENGTH] = len(entry.terms)
    vector: dict[str, Any] = {VECTOR: weighed(entry.terms, average)} if entry.terms else {}
    return models.PointStruct(id=entry.entry_id, vector=vector, payload=payload)


def _rounded(score: float) -> float:
    """Return six digits of a score: the last bits of a sum hang on the order in which a segment adds."""
    return round(score, 5 - math.floor(math.log10(score)))


@contextmanager
def _open(settings: QdrantSparseSettings, context: BackendContext) -> Iterator[LexicalIndex]:
    index = QdrantSparseIndex(connected(settings, NAME), settings, context)
    try:
        yield index
    finally:
        index.close()


SPARSE: BackendSpec[LexicalIndex] = BackendSpec(settings=QdrantSparseSettings, open=_open)
"""The words on a Qdrant server, as the entry point names it."""
