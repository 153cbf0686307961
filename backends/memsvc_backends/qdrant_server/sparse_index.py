"""The lexical index over a Qdrant server: BM25 by sparse vectors, the rarity of terms by the server.

See `qdrant_server.bm25_terms` for the weights of entries and the cost of hashing terms. The average length of
entries is fixed with a generation: that of up to 1 000 random entries of the generation before, or the setting
`average_terms` for the first one. On a collection of several shards each shard knows the rarity within itself.

A term of a search that no entry holds is replaced by the words one edit away, each with `FORGIVEN` of the weight that
it has by itself: the server weighs by rarity whatever it is asked, so no term can have a fixed weight. Terms that had
entries a moment ago are not looked up again: after the last entry with a term is gone, other processes may take up to
`vocabulary.HELD_SECONDS` to notice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any

from qdrant_client import models

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import LexicalEntry, LexicalManifest
from memsvc.domain.scope import Reach
from memsvc.ports.candidates import Hits
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.qdrant_server.bm25_terms import entry_vector, is_forgivable, query_vector
from memsvc_backends.qdrant_server.collection_index import CollectionIndex, asked_for, best_hits
from memsvc_backends.qdrant_server.connection import Scored, ServerConnection, open_connection
from memsvc_backends.qdrant_server.generations import (
    CollectionGenerations,
    LiveCollection,
    lexical_manifest,
    lexical_text,
)
from memsvc_backends.qdrant_server.points import filter_within, server_payload
from memsvc_backends.qdrant_server.settings import QdrantSparseSettings
from memsvc_backends.qdrant_server.vocabulary import HeldTerms, ServerVocabulary

NAME = "qdrant-sparse"
VECTOR = "terms"
FORGIVEN = 0.5
_AVERAGE = "memsvc_average_terms"
_LENGTH = "length"
_SAMPLE = 1000
_ENTRY_BYTES = 1000
"""About what an entry, its payload and their indexes take."""


class QdrantSparseIndex(CollectionIndex[LexicalEntry, LexicalManifest]):
    """`memsvc.ports.indexes.LexicalIndex`. A generation is two collections: one of entries, one of words."""

    def __init__(self, connection: ServerConnection, settings: QdrantSparseSettings, context: BackendContext) -> None:
        codec = (lexical_text, lexical_manifest)
        generations = CollectionGenerations(connection, settings, f"{settings.prefix}-lexical", codec, context.now)
        super().__init__(connection, settings, generations)
        self._average_terms = settings.average_terms
        self._vocabulary = ServerVocabulary(connection)
        self._held = HeldTerms()

    def search(
        self, terms: Sequence[str], *, reach: Reach, where: Filter | None = None, limit: int, deadline: Deadline
    ) -> Hits:
        """Return the entries that hold one of the terms or more, best first, equal scores by entry id."""
        live = self._generations.live()
        if deadline.has_passed():
            raise DeadlineExceededError(NAME)
        if live is None or not terms or limit <= 0:
            return Hits.of(())
        within = filter_within(reach, None, where)
        return self._reading.of_live(
            lambda found: self._search_terms(found, list(terms), (reach.owner, within), limit, deadline)
        )

    def storage_bytes(self) -> int:
        """Return about what the live generation takes; the server does not tell."""
        return self._reading.count(None) * _ENTRY_BYTES

    def _search_terms(
        self,
        live: LiveCollection[LexicalManifest],
        terms: list[str],
        within: tuple[str, models.Filter],
        limit: int,
        deadline: Deadline,
    ) -> Hits:
        """Search for the terms, and in the same request for entries of anybody with the terms not known to have any.

        A second search, with similar terms, follows for those without an entry.
        """
        doubtful = self._held.doubtful(live.collection, [term for term in dict.fromkeys(terms) if is_forgivable(term)])
        weights = [1.0] * len(terms)
        owner, where = within
        request = _request(query_vector(terms, weights), asked_for(limit), where, live.shard_keys.of(owner))
        probes = [_request(query_vector([term], [1.0]), 1) for term in doubtful]
        found, *replies = self._connection.query(live.collection, [request, *probes], deadline)
        unknown = [term for term, reply in zip(doubtful, replies, strict=True) if not _positive(reply)]
        self._held.note(live.collection, set(doubtful) - set(unknown))
        similar = [near for term in unknown for near in self._vocabulary.near(live.collection, term, deadline)]
        if similar:
            query = query_vector([*terms, *similar], [*weights, *[FORGIVEN] * len(similar)])
            request = request.model_copy(update={"query": query})
            [found] = self._connection.query(live.collection, [request], deadline)
        return best_hits(_positive(found), partial(self._ask, live.collection, request, deadline), limit)

    def _ask(self, collection: str, request: models.QueryRequest, deadline: Deadline, asked: int) -> Scored:
        [found] = self._connection.query(collection, [request.model_copy(update={"limit": asked})], deadline)
        return _positive(found)

    def _create(self, manifest: LexicalManifest) -> LiveCollection[LexicalManifest]:
        return self._generations.create(
            manifest,
            {_AVERAGE: self._average()},
            vectors_config={},
            sparse_vectors_config=self._sparse(),
        )

    def _sparse(self) -> dict[str, models.SparseVectorParams]:
        postings = models.SparseIndexParams(on_disk=self._settings.storage.sparse_on_disk)
        return {VECTOR: models.SparseVectorParams(modifier=models.Modifier.IDF, index=postings)}

    def _layout_changes(self, manifest: LexicalManifest) -> dict[str, Any]:
        del manifest
        return {"sparse_vectors_config": self._sparse()}

    def _prepare(self, made: LiveCollection[LexicalManifest]) -> None:
        super()._prepare(made)
        self._generations.collection(ServerVocabulary.name_of(made.collection), **ServerVocabulary.layout())
        self._vocabulary.prepare(made.collection)

    def _put(self, live: LiveCollection[LexicalManifest], changes: Mapping[int, Sequence[LexicalEntry]]) -> None:
        self._send(live, changes, partial(_point, float(live.metadata[_AVERAGE])))
        if not all(map(_is_new, changes.values())):
            # The last entry with a term may be gone.
            self._held.clear()
        terms = (term for entries in changes.values() for entry in entries for term in entry.terms)
        self._vocabulary.learn(live.collection, terms)

    def _remove(self, collection: str) -> None:
        self._generations.remove(ServerVocabulary.name_of(collection))
        super()._remove(collection)

    def _average(self) -> float:
        """Return how many terms the entries of the live generation have on average."""
        none: list[int] = []
        lengths = self._reading.of_live(self._sample_lengths, none)
        return sum(lengths) / len(lengths) if any(lengths) else self._average_terms

    def _sample_lengths(self, live: LiveCollection[LexicalManifest]) -> list[int]:
        found: Any = self._connection.read(
            "query_points",
            collection_name=live.collection,
            query=models.SampleQuery(sample=models.Sample.RANDOM),
            limit=_SAMPLE,
            with_payload=[_LENGTH],
        )
        return [int(point.payload[_LENGTH]) for point in found.points]


def _is_new(entries: Sequence[LexicalEntry]) -> bool:
    """Return whether a memory has entries and was not changed since it was created, so that it had none before."""
    return bool(entries) and entries[0].attributes.update_time == entries[0].attributes.create_time


def _point(average: float, entry: LexicalEntry) -> models.PointStruct:
    payload = server_payload(entry.attributes)
    payload[_LENGTH] = len(entry.terms)
    vector: dict[str, Any] = {VECTOR: entry_vector(entry.terms, average)} if entry.terms else {}
    return models.PointStruct(id=entry.entry_id, vector=vector, payload=payload)


def _request(
    query: models.SparseVector, limit: int, where: models.Filter | None = None, key: str | None = None
) -> models.QueryRequest:
    return models.QueryRequest(query=query, using=VECTOR, filter=where, limit=limit, with_payload=False, shard_key=key)


def _positive(found: Scored) -> Scored:
    return [(number, _round_score(score)) for number, score in found if score > 0]


def _round_score(score: float) -> float:
    """Return six digits of a score: the last bits of a sum hang on the order in which a segment adds."""
    return round(score, 5 - math.floor(math.log10(score)))


def _open(settings: QdrantSparseSettings, context: BackendContext) -> AbstractContextManager[LexicalIndex]:
    return closing(QdrantSparseIndex(open_connection(settings, NAME, context.faults), settings, context))


SPARSE: BackendSpec[LexicalIndex] = BackendSpec(settings=QdrantSparseSettings, open=_open)
"""The words on a Qdrant server, as the entry point names it."""
