"""As-of search: the indexes for memories unchanged since, and revisions for the others.

The indexes contain the current state. They are searched with a filter that excludes memories changed since; those are
read from their revisions as they were, filtered, and scored here in the same way: by BM25, by vectors still stored from
their indexing, and by the formula of the keyword table. The hits go through the same fusion and ranking as any search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memsvc.domain.errors import MemsvcError
from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, conjunction
from memsvc.domain.index_entries import Chunk, Document, Hit, LexicalEntry, View, entry_id
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.domain.search import FailedRetriever, Retriever, SearchQuery, candidate_of
from memsvc.engine.history.as_of_reads import AsOfState
from memsvc.engine.indexing.cached_embedder import CachedEmbedder
from memsvc.engine.indexing.vector_entries import (
    EmbeddingGranularity,
    Means,
    VectorEntries,
    lexical_entries,
    passages_of,
)
from memsvc.engine.records.memory_builder import document_of
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.search.question_layer import QuestionLayer
from memsvc.engine.search.retrieval import RetrievalRequest, RetrievalResult, RetrievalSource, table_terms
from memsvc.engine.search.search import SearchReaders
from memsvc.ports.candidates import Candidates, Rows
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.indexes import VectorIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.text.bm25 import length_norm, rarity, saturation
from memsvc.text.ranking_cues import pack_cues

MOST_CHANGED = 10_000
"""Number of changed memories that are searched, the newest first; the reply reports if there are more."""
EXCLUDED_BY_ROW = 2_000
"""Number of changed memories excluded by row; more are excluded by update_time, which is slower."""
PARTIAL = "PARTIAL"
_PER_WEIGHT, _PER_MATCH = 0.3, 0.2
_ROW_SHIFT = entry_id(1, View.CHUNK, 0).bit_length() - 1
EMBEDDED = 32
"""Memories without stored vectors that one search embeds; more would take seconds."""


class AsOfSearch:
    """Conversion of search readers for a search with a known_time."""

    def __init__(
        self, reads: MemoryReads, feed: IndexFeed, vectors: AsOfVectorScorer, search_priority: SearchPriority
    ) -> None:
        """Read from *reads*; *feed* provides the words of unchanged memories."""
        self._reads = reads
        self._feed = feed
        self._vectors = vectors
        self._search_priority = search_priority

    def readers(self, query: SearchQuery, readers: SearchReaders) -> SearchReaders:
        """Return *readers* as of the known_time of the query."""
        assert query.known_time is not None  # noqa: S101 - narrows the type
        reach = Reach.from_scope(query.scope, query.selection.visibility)
        past = AsOfState(self._reads, query.scope, reach, query.known_time, query.selection.sessions)
        states = ChangedMemories(past, MOST_CHANGED)
        retrieval = AsOfRetrieval(readers.retrieval, states, self._feed, self._vectors, self._search_priority)
        reads = AsOfCandidateReader(states)
        return replace(
            readers,
            reads=reads,
            retrieval=retrieval,
            ranker=readers.ranker.with_reader(reads),
            refining=readers.refining.with_reader(reads),
            accesses=NoAccessCounter(),
        )


class NoAccessCounter:
    """Recorder for as-of searches, which are not accesses."""

    def note(self, ids: Iterable[str]) -> None:
        """Do nothing."""


class ChangedMemories:
    """Memories changed since, as they were; read once for a search, on first use."""

    def __init__(self, past: AsOfState, most: int) -> None:
        self.past = past
        self._most = most
        self.rows: list[int] = []
        self.documents: dict[int, Document] = {}
        self.is_partial = False

    def load(self, asked: RetrievalRequest) -> None:
        """Read those that pass the filter, until the deadline or the limit."""
        rows = self.rows = self.past.changed_rows()
        self.is_partial = len(rows) > self._most
        found: list[Memory] = []
        passes = memory_test(asked.where)
        for part in self.past.states(rows[-self._most :]):
            found += [one for one in part if one.status is not Status.DELETED and passes(one)]
            if asked.deadline.has_passed():
                self.is_partial = True
                break
        before = self._previous_messages(found)
        for memory in found:
            previous = None if memory.previous_row is None else before.get(memory.previous_row)
            self.documents[memory.row] = document_of(memory, previous)

    @property
    def keywords(self) -> frozenset[str]:
        """Return the keywords of these memories."""
        return frozenset(word.term for document in self.documents.values() for word in document.memory.keywords)

    @property
    def unchanged_filter(self) -> Filter:
        """Return the filter that excludes memories changed since."""
        if len(self.rows) > EXCLUDED_BY_ROW:
            return self.past.unchanged_filter
        return Not(AnyOf(Field.ROW, tuple(self.rows))) if self.rows else And(())

    def _previous_messages(self, memories: Sequence[Memory]) -> dict[int, Memory]:
        rows = [memory.previous_row for memory in memories if memory.previous_row is not None]
        lines = (line for part in self.past.states(rows) for line in part)
        return {line.row: line for line in lines if line.status is not Status.DELETED}


class AsOfCandidateReader:
    """`memsvc.engine.search.retrieval.CandidateReader` as of a moment."""

    def __init__(self, states: ChangedMemories) -> None:
        self._states = states
        self._reads = states.past.reads

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return the ranking data."""
        documents, wanted = self._states.documents, [int(row) for row in rows]
        live = self._reads.candidates([row for row in wanted if row not in documents], reach=reach)
        earlier = [documents[row].memory for row in wanted if row in documents]
        past = Candidates.of(candidate_of(memory, pack_cues(memory.content)) for memory in earlier)
        return live.join(past)

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return memories as they were, including one that changed during the search."""
        documents, moment = self._states.documents, self._states.past.moment
        live = self._reads.by_rows([row for row in rows if row not in documents], reach=reach)
        late = [row for row, memory in live.items() if memory.update_time > moment]
        past = self._reads.known_at(late, moment, reach=reach) if late else {}
        found = {row: past.get(row) if row in late else memory for row, memory in live.items()}
        found |= {row: documents[row].memory for row in rows if row in documents}
        return {row: memory for row, memory in found.items() if memory is not None}

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return chunks of the content as it was."""
        documents = self._states.documents
        live = self._reads.chunks([name for name in wanted if name[0] not in documents])
        past = {
            (row, chunk.ordinal): chunk
            for row in {row for row, _ in wanted} & documents.keys()
            for chunk in documents[row].chunks
            if len(documents[row].chunks) > 1
        }
        return live | {name: past[name] for name in wanted if name in past}


class AsOfRetrieval:
    """`memsvc.engine.search.retrieval.RetrievalSource` as of a moment: live retrievers plus changed memories."""

    def __init__(
        self,
        live: RetrievalSource,
        states: ChangedMemories,
        feed: IndexFeed,
        vectors: AsOfVectorScorer,
        search_priority: SearchPriority,
    ) -> None:
        self._search_priority = search_priority
        self._live = live
        self._states = states
        self._feed = feed
        self._vectors = vectors
        self._is_loaded = False

    def run(self, asked: RetrievalRequest, early: Callable[[RetrievalResult], None] | None = None) -> RetrievalResult:  # noqa: ARG002
        """Return the hits that the retrievers would have found then; *early* is not called."""
        if not self._is_loaded:
            self._states.load(asked)
            self._is_loaded = True
        unchanged, keywords = conjunction(asked.where, self._states.unchanged_filter), self._states.keywords
        found = self._live.run(replace(asked, where=unchanged, keywords=keywords))
        if self._states.documents:
            with self._search_priority.without_yielding():
                self._add(asked, found)
        if self._states.is_partial:
            message = f"Too many memories changed since: only the newest {MOST_CHANGED} of them were searched."
            found.degraded += [FailedRetriever(one, PARTIAL, message) for one in sorted(found.asked)]
        return found

    def _add(self, asked: RetrievalRequest, found: RetrievalResult) -> None:
        answered = found.asked - {lost.retriever for lost in found.degraded}
        documents = list(self._states.documents.values())
        words = [entry for document in documents for entry in lexical_entries(document)] if found.terms else []
        matching = bm25(words, found.terms)
        if Retriever.BM25 in answered and matching:
            found.bm25 = self._rescore(found, words)[: asked.depth]
        if Retriever.KEYWORD_TABLE in answered:
            hits = [*found.keyword_table, *_keyword_hits(documents, [*table_terms(asked.query), *found.meant])]
            found.keyword_table = _best(hits, asked.depth)
        if Retriever.DENSE in answered:
            self._add_dense(asked, found, matching)

    def _rescore(self, found: RetrievalResult, words: Sequence[LexicalEntry]) -> list[Hit]:
        """Score the hits of the index together with the others: scores of two collections are not comparable."""
        ids = {hit.entry_id for hit in found.bm25}
        live = self._feed.documents(sorted({hit.entry_id >> _ROW_SHIFT for hit in found.bm25}))
        entries = [entry for document in live for entry in lexical_entries(document) if entry.entry_id in ids]
        hits = bm25([*entries, *words], found.terms)
        # An entry that the index found by similarity has none of the terms, and comes last.
        seen = {hit.entry_id for hit in hits}
        return [*hits, *(Hit(hit.entry_id, 0.0) for hit in found.bm25 if hit.entry_id not in seen)]

    def _add_dense(self, asked: RetrievalRequest, found: RetrievalResult, matching: Sequence[Hit]) -> None:
        first = [hit.entry_id >> _ROW_SHIFT for hit in matching]
        try:
            hits, is_partial = self._vectors.nearest(asked.query, self._states.documents, first)
        except MemsvcError as error:
            found.degraded.append(FailedRetriever(Retriever.DENSE, "FAILED", error.message))
            return
        for view, more in hits.items():
            found.dense[view] = _best([*found.dense.get(view, ()), *more], asked.depth)
        if is_partial:
            message = "Some memories that changed since were compared by words only: their vectors are not stored."
            found.degraded.append(FailedRetriever(Retriever.DENSE, PARTIAL, message))


@dataclass(frozen=True, slots=True)
class _Match:
    """The weights of the matching keywords of one memory."""

    row: int
    weights: Sequence[float]

    @property
    def hit(self) -> Hit:
        score = _PER_WEIGHT * sum(self.weights) + _PER_MATCH * len(self.weights)
        return Hit(entry_id(self.row, View.CHUNK, 0), min(score, 1.0))


def _keyword_hits(documents: Iterable[Document], terms: Iterable[str]) -> list[Hit]:
    wanted = frozenset(terms)
    matches = (
        _Match(document.memory.row, [word.weight for word in document.memory.keywords if word.term in wanted])
        for document in documents
    )
    return [match.hit for match in matches if match.weights]


def _best(hits: Iterable[Hit], limit: int) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))[:limit]


# Vectors of texts that no index contains any longer come from the embedding cache.


class AsOfVectorScorer:
    """Scores documents as the live generation of the vector index would."""

    def __init__(
        self,
        vectors: VectorIndex,
        embedding: CachedEmbedder,
        entries: VectorEntries,
        tier: EmbeddingGranularity,
        questions: QuestionLayer | None = None,
    ) -> None:
        """Centre by the manifest of *vectors*; read stored vectors from *embedding*."""
        self._vectors = vectors
        self._embedding = embedding
        self._entries = entries
        self._tier = tier
        self._questions = questions

    def nearest(
        self, query: SearchQuery, documents: Mapping[int, Document], first: Sequence[int]
    ) -> tuple[dict[View, list[Hit]], bool]:
        """Return a hit for each entry by view, and whether documents without vectors were left out.

        Of documents without vectors, the *first* ones by row are embedded.

        Raises:
            BackendUnavailableError: The embedder cannot be reached.
        """
        manifest = self._vectors.manifest
        if manifest is None or manifest.model != self._embedding.model:
            return {}, True
        chosen, is_partial = self._limit_embedding(documents, first)
        means = Means.from_manifest(manifest)
        asked = (
            self._embedding.query(query.text).vector if query.vector is None else np.asarray(query.vector, np.float32)
        )
        hits: dict[View, list[Hit]] = {view: [] for view in manifest.views}
        text = query.text if query.vector is None else ""
        queries = {view: means.centre_query(asked, text, view) for view in manifest.views}
        if self._questions is not None and text:
            queries = {view: self._questions.move(vector, manifest.model).vector for view, vector in queries.items()}
        for entries in self._entries.entries(chosen, means).values():
            for entry in entries:
                if entry.view in hits:
                    score = float(queries[entry.view] @ entry.vector)
                    hits[entry.view].append(Hit(entry.entry_id, score))
        return hits, is_partial

    def _limit_embedding(self, documents: Mapping[int, Document], first: Sequence[int]) -> tuple[list[Document], bool]:
        texts = {row: [passage.text for passage in passages_of(one, self._tier)] for row, one in documents.items()}
        flat = [text for several in texts.values() for text in several]
        stored = {text for text, is_known in zip(flat, self._embedding.are_stored(flat), strict=True) if is_known}
        missing = [row for row, several in texts.items() if not stored.issuperset(several)]
        place = {row: rank for rank, row in reversed(list(enumerate(first)))}
        missing.sort(key=lambda row: place.get(row, len(first)))
        left_out = set(missing[EMBEDDED:])
        return [one for row, one in documents.items() if row not in left_out], bool(left_out)


# BM25 over few entries that no single index contains.


def bm25(entries: Sequence[LexicalEntry], terms: Sequence[str]) -> list[Hit]:
    """Return the entries that contain any of *terms*, best first, ties by entry id."""
    wanted = dict.fromkeys(terms)
    counted = [(entry, Counter(term for term in entry.terms if term in wanted)) for entry in entries]
    average = sum(len(entry.terms) for entry in entries) / max(len(entries), 1) or 1.0
    holders = Counter(term for _, counts in counted for term in counts)
    rarities = {term: rarity(len(entries), number) for term, number in holders.items()}
    hits = []
    for entry, counts in counted:
        norm = length_norm(len(entry.terms), average)
        shares = (rarities[term] * saturation(count, norm) for term, count in counts.items())
        if counts:
            hits.append(Hit(entry.entry_id, math.fsum(shares)))
    return sorted(hits, key=lambda hit: (-hit.score, hit.entry_id))
