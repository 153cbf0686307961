"""Retrieval: all retrievers in parallel, each with the same filter pushed down."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    BackendClosedError,
    BackendUnavailableError,
    DeadlineExceededError,
    DimensionMismatchError,
    LimitExceededError,
    LimitKind,
    MemsvcError,
    NotReadyError,
)
from memsvc.domain.filters import (
    STORE_ONLY,
    And,
    AnyOf,
    Field,
    Filter,
    FilterMemo,
    Match,
    Not,
    Or,
    Range,
    key_test,
    number_test,
)
from memsvc.domain.index_entries import Chunk, Hit, VectorManifest, View
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach
from memsvc.domain.search import FailedRetriever, FusionMethod, Mode, Retriever, SearchQuery, WordMatch
from memsvc.engine.indexing.vector_entries import EmbeddingSpace, EmbeddingSpaces, LiveMeans, Means
from memsvc.engine.search.question_layer import MovedQuestion, QuestionLayer
from memsvc.ports.candidates import Candidates, Rows
from memsvc.ports.faults import FaultLog
from memsvc.ports.indexes import LexicalIndex, PendingSearch, VectorIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.ports.models import QueryTokens, Vector
from memsvc.ports.thread_wait import ThreadWait
from memsvc.text.analysis import query_terms
from memsvc.text.passages import extract_keywords

MODE_RETRIEVERS = {
    Mode.HYBRID: frozenset(Retriever),
    Mode.SEMANTIC: frozenset({Retriever.DENSE}),
    Mode.KEYWORD: frozenset({Retriever.BM25, Retriever.KEYWORD_TABLE}),
}
DEGRADED_REASONS: tuple[tuple[type[MemsvcError], str], ...] = (
    (BackendUnavailableError, "UNAVAILABLE"),
    (DeadlineExceededError, "DEADLINE_EXCEEDED"),
    (NotReadyError, "NOT_READY"),
    (LimitExceededError, "LIMIT_EXCEEDED"),
    (MemsvcError, "FAILED"),
)
"""Reported reason of a failed retriever, by the first matching class."""
log = logging.getLogger(__name__)
BEING_BUILT = "vectors (the index is being built)"
EMBEDDING = "the vector of the query"
QUERY_TERMS = 512
"""Terms of a query that are looked up: each takes 6 µs, and the longest query has 7 000."""
LEAST_PART, MOST_MEANT = 2, 32
"""The length of words that match others by a part, and how many of these a search looks for."""
RETRIEVER_SECONDS = 1.0
"""Default patience with a retriever beyond its usual duration."""
RETRIEVERS = "the retrievers"
WORDS_BEING_BUILT = "lexical (the index is being built)"


class HybridRetriever:
    """Runs the retrievers that the mode and the weights of a search call for."""

    def __init__(  # noqa: PLR0913 - an option each
        self,
        reads: MemoryReads,
        indexes: tuple[VectorIndex, LexicalIndex],
        spaces: EmbeddingSpaces,
        threads: int,
        *,
        patience: float = RETRIEVER_SECONDS,
        faults: FaultLog | None = None,
        questions: QuestionLayer | None = None,
    ) -> None:
        """Give a retriever *patience* seconds beyond its usual duration; count failures in *faults*."""
        self._reads = reads
        vectors, self._lexical = indexes
        self._dense = DenseRetriever(vectors, spaces, threads, questions)
        self._needs_store: FilterMemo[bool] = FilterMemo()
        self._faults = FaultLog() if faults is None else faults
        self._budgets = {Retriever.DENSE: TimeBudget(patience), Retriever.BM25: TimeBudget(patience)}

    def close(self) -> None:
        """Shut down the threads."""
        self._dense.close()

    def run(self, asked: RetrievalRequest, early: Callable[[RetrievalResult], None] | None = None) -> RetrievalResult:
        """Return the hits; a retriever that fails or exceeds its time budget is listed in *degraded*.

        If BM25 fails in a HYBRID search, the keyword table takes its place. If the search also runs the dense
        retriever, *early* receives the lexical hits as soon as there are any.

        Raises:
            DeadlineExceededError: The deadline has passed already.
            MemsvcError: Every selected retriever failed; the error of the first one.
        """
        if asked.deadline.has_passed():
            raise DeadlineExceededError(RETRIEVERS)
        query = asked.query
        found = RetrievalResult(select_retrievers(query), meant=self._meant(asked))
        found.terms = _terms(query, found.meant)
        inner = asked.where
        if inner is not None and self._needs_store.get(inner, _needs_store):
            inner = _resolve(inner, lambda leaf: self._reads.rows_where(leaf, reach=asked.reach))
        failures: list[MemsvcError] = []
        dense = self._begin_dense(asked, inner, found) if Retriever.DENSE in found.asked else None
        if Retriever.BM25 in found.asked:
            self._collect_failures(Retriever.BM25, lambda: self._bm25(asked, inner, found), found, failures)
            if failures and query.mode is Mode.HYBRID and table_terms(query):
                found.asked |= {Retriever.KEYWORD_TABLE}
        if Retriever.KEYWORD_TABLE in found.asked:
            self._collect_failures(Retriever.KEYWORD_TABLE, lambda: self._table(asked, found), found, failures)
        if dense is not None and early is not None and (found.bm25 or found.keyword_table):
            early(replace(found, asked=found.asked - {Retriever.DENSE}, timings=[*found.timings]))
        if dense is not None:
            self._collect_failures(Retriever.DENSE, lambda: _collect(dense, found), found, failures)
        if failures and len(failures) == len(found.asked):
            raise failures[0]
        return found

    def _begin_dense(
        self, asked: RetrievalRequest, where: Filter | None, found: RetrievalResult
    ) -> Callable[[], DenseResult]:
        limited = replace(asked, deadline=self._limit(Retriever.DENSE, asked, found))
        return self._dense.begin(limited, where, self._budgets[Retriever.DENSE])

    def _limit(self, retriever: Retriever, asked: RetrievalRequest, found: RetrievalResult) -> Deadline:
        return self._budgets[retriever].limit(asked.deadline, has_others=len(found.asked) > 1)

    def _bm25(self, asked: RetrievalRequest, where: Filter | None, found: RetrievalResult) -> None:
        if not found.terms:
            return
        if self._lexical.manifest is None:
            raise BackendUnavailableError(WORDS_BEING_BUILT)
        started, deadline = time.perf_counter(), self._limit(Retriever.BM25, asked, found)
        found.bm25 = self._lexical.search(
            found.terms, reach=asked.reach, where=where, limit=asked.depth, deadline=deadline
        )
        self._budgets[Retriever.BM25].note(time.perf_counter() - started)

    def _meant(self, asked: RetrievalRequest) -> list[str]:
        """Return the keywords that words of the query match by a part."""
        query = asked.query
        if query.mode is Mode.SEMANTIC or query.word_match is WordMatch.WHOLE:
            return []
        parts = [word for word in table_terms(query) if len(word) >= LEAST_PART]
        match = query.word_match
        found = self._reads.keywords_with(parts, reach=asked.reach, where=asked.where, match=match, limit=MOST_MEANT)
        return match.chosen((*found, *asked.keywords), parts, MOST_MEANT) if asked.keywords else found

    def _table(self, asked: RetrievalRequest, found: RetrievalResult) -> None:
        if terms := [*table_terms(asked.query), *found.meant]:
            found.keyword_table = self._reads.keyword_hits(
                terms, reach=asked.reach, where=asked.where, limit=asked.depth
            )

    def _collect_failures(
        self, name: Retriever, ask: Callable[[], None], found: RetrievalResult, failures: list[MemsvcError]
    ) -> None:
        started = time.perf_counter()
        try:
            ask()
        except MemsvcError as error:
            # Every search fails while a backend is down: a trace for each would hide other messages.
            log.warning("retriever %s failed: %s", name, error.message)
            log.debug("retriever %s failed", name, exc_info=True)
            failures.append(error)
            reason = next(reason for kind, reason in DEGRADED_REASONS if isinstance(error, kind))
            found.degraded.append(FailedRetriever(name, reason, error.message))
            self._faults.note_degraded(name.value, reason)
            return
        if name is not Retriever.DENSE:
            found.timings.append((name.value.lower(), started, time.perf_counter() - started))


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A query with its scope, filter, depth and deadline.

    Attributes:
        keywords: Keywords that words of the query may match by a part, besides those of the memories that pass *where*.
    """

    query: SearchQuery
    reach: Reach
    where: Filter | None
    depth: int
    deadline: Deadline
    keywords: frozenset[str] = frozenset()


@dataclass(slots=True)
class RetrievalResult:
    """Hits of the retrievers: dense by view, lexical, keyword table; and the failed retrievers.

    Attributes:
        query_tokens: The tokens of the query for late interaction, in the space *token_model*; None if it was not
            embedded, because its vector was given or the mode needs none, or if the embedder gives no token vectors.
        embedded_chars: The number of characters of the query that the dense retriever searched with; 0: all, or none
            because its vector was given.
        moved: How far the vector of the query was moved to those of its answers, in 0..1.
        terms: The terms for the lexical index.
        meant: The keywords that words of the query match by a part.
    """

    asked: frozenset[Retriever] = frozenset()
    dense: dict[View, Sequence[Hit]] = field(default_factory=dict)
    bm25: Sequence[Hit] = field(default_factory=list)
    keyword_table: Sequence[Hit] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    meant: list[str] = field(default_factory=list)
    query_tokens: QueryTokens | None = None
    token_model: str = ""
    embedded_chars: int = 0
    moved: float = 0.0
    degraded: list[FailedRetriever] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    def is_full(self, depth: int) -> bool:
        """Return whether a retriever returned as many hits as requested, so that there may be more."""
        return any(len(hits) >= depth for hits in (*self.dense.values(), self.bm25, self.keyword_table))


def select_retrievers(query: SearchQuery) -> frozenset[Retriever]:
    """Return the retrievers of a search: those of its mode that have input and a weight.

    The default recipe omits the keyword table, unless keywords are given or the mode is KEYWORD.
    """
    asked = set(MODE_RETRIEVERS[query.mode])
    if query.vector is None and not query.text:
        asked.discard(Retriever.DENSE)
    if not (query.text or query.keywords):
        asked -= {Retriever.BM25, Retriever.KEYWORD_TABLE}
    if query.fusion.method is FusionMethod.DEFAULT:
        if query.mode is Mode.HYBRID and not query.keywords:
            asked.discard(Retriever.KEYWORD_TABLE)
    elif query.fusion.weights is not None and len(asked) > 1:
        asked = {one for one in asked if query.fusion.weights.get(one, 0.0) > 0.0}
    return frozenset(asked)


def _terms(query: SearchQuery, meant: Sequence[str]) -> list[str]:
    """Return the terms of a query and of the keywords that it matches by parts, these first if they are too many."""
    keywords = (*query.keywords, *meant)
    found = query_terms(" ".join((query.text, *keywords)))
    return found if len(found) <= QUERY_TERMS else query_terms(" ".join((*keywords, query.text)))[:QUERY_TERMS]


def table_terms(query: SearchQuery) -> list[str]:
    """Return the terms to look up in the keyword table."""
    return [*query.keywords] or [term for term, _ in extract_keywords(query.text)]


def _collect(dense: Callable[[], DenseResult], found: RetrievalResult) -> None:
    result = dense()
    found.dense = result.hits
    found.query_tokens, found.token_model = result.query_tokens, result.token_model
    found.embedded_chars = result.embedded_chars
    found.moved = result.moved
    found.timings.extend(result.timings)


def _needs_store(where: Filter) -> bool:
    if isinstance(where, And | Or):
        return any(map(_needs_store, where.children))
    if isinstance(where, Not):
        return _needs_store(where.child)
    return where.field in STORE_ONLY or _is_range_of_metadata(where)


def _is_range_of_metadata(where: Filter) -> bool:
    return isinstance(where, Range) and where.field is Field.METADATA


def _resolve(where: Filter, rows_where: Callable[[Filter], Sequence[int]]) -> Filter:
    """Replace tests that only the store can evaluate by the rows that pass them, so that indexes can apply them.

    Ranges of numbers in metadata and folders of keys become tests of terms, which indexes hold.
    """
    if isinstance(where, And):
        return And(tuple(_resolve(child, rows_where) for child in where.children))
    if isinstance(where, Or):
        return Or(tuple(_resolve(child, rows_where) for child in where.children))
    if isinstance(where, Not):
        return Not(_resolve(where.child, rows_where))
    if isinstance(where, AnyOf) and where.match is Match.PREFIX and (of_terms := key_test(where)) is not None:
        return of_terms
    if where.field in STORE_ONLY:
        return AnyOf(Field.ROW, tuple(rows_where(where)))
    return number_test(where) if isinstance(where, Range) and where.field is Field.METADATA else where


# Dense retrieval: embed the query, and search every view of the vector index in parallel to the other retrievers.


Timing: TypeAlias = tuple[str, float, float]
"""A stage, its start and its duration."""


@dataclass(slots=True)
class DenseResult:
    """The hits of every view, the durations of the stages, and the tokens of the query in the space *token_model*.

    Attributes:
        embedded_chars: The number of characters of the query that were embedded, if not all of them, otherwise 0.
        moved: As in `RetrievalResult`.
    """

    hits: dict[View, Sequence[Hit]] = field(default_factory=dict)
    timings: list[Timing] = field(default_factory=list)
    query_tokens: QueryTokens | None = None
    token_model: str = ""
    embedded_chars: int = 0
    moved: float = 0.0


@dataclass(frozen=True, slots=True)
class _QueryVector:
    """The vector of a query, its embedding space, its tokens if there are any, and how much of it was embedded."""

    vector: Vector
    space: EmbeddingSpace
    tokens: QueryTokens | None = None
    chars: int = 0


@dataclass(frozen=True, slots=True)
class _PendingSearches:
    """Searches of every view, begun with the means of one generation."""

    manifest: VectorManifest
    query_vector: _QueryVector
    pending: dict[View, PendingSearch]
    moved: float


class DenseRetriever:
    """Vector search of every view. Only queries that must be embedded use a thread."""

    def __init__(
        self, vectors: VectorIndex, spaces: EmbeddingSpaces, threads: int, questions: QuestionLayer | None = None
    ) -> None:
        self._vectors = vectors
        self._spaces = spaces
        self._questions = questions
        lanes = spaces.current.embedding.query_lanes
        self._queue = QueryQueue(min(threads, lanes) if lanes else threads)
        self._means = LiveMeans()

    def close(self) -> None:
        """Shut down the threads."""
        self._queue.close()

    def begin(
        self, asked: RetrievalRequest, where: Filter | None, budget: TimeBudget | None = None
    ) -> Callable[[], DenseResult]:
        """Start the search; return a function that returns its result or raises a MemsvcError.

        *budget* learns how long it takes, even if it takes longer than the deadline of the request.
        """
        started = time.perf_counter()
        try:
            space = self._space(asked.query)
            query_vector = _known_vector(asked.query, space)
            if query_vector is None:
                text, scope = asked.query.text, asked.query.scope
                embedding = self._queue.submit(
                    (scope.tenant_id, scope.user_id), partial(_embed_query, text, space), is_long=len(text) > LONG_QUERY
                )
                if budget is not None:
                    embedding.add_done_callback(lambda done: _note_duration(done, budget, started))
                return lambda: self._search_when_embedded(embedding, asked, where, started)
            embedded = time.perf_counter()
            begun = self._begin(query_vector, asked, where)
        except MemsvcError as error:
            return _raise_later(error)
        return lambda: self._result(begun, asked, where, (started, embedded))

    def _space(self, query: SearchQuery) -> EmbeddingSpace:
        """Return the space of the live generation; a query with only a vector requires that of the current model.

        Raises:
            BackendUnavailableError: There is no generation, or its model is not available.
        """
        space = self._spaces.of(self._vectors.manifest)
        if space is None or not (space.is_current or query.text):
            raise BackendUnavailableError(BEING_BUILT)
        return space

    def _search_when_embedded(
        self,
        embedding: Future[tuple[_QueryVector, float]],
        asked: RetrievalRequest,
        where: Filter | None,
        started: float,
    ) -> DenseResult:
        remaining = asked.deadline.remaining_seconds()
        try:
            with ThreadWait():
                query_vector, embedded = embedding.result(remaining)
        except TimeoutError as error:
            embedding.cancel()
            raise DeadlineExceededError(EMBEDDING) from error
        return self._result(self._begin(query_vector, asked, where), asked, where, (started, embedded))

    def _result(
        self, begun: _PendingSearches, asked: RetrievalRequest, where: Filter | None, moments: tuple[float, float]
    ) -> DenseResult:
        """Return the results; search again if the generation was switched during the search."""
        started, embedded = moments
        while True:
            try:
                hits = {view: pending.result() for view, pending in begun.pending.items()}
            except DimensionMismatchError:
                # An index without early searches has searched a generation of another model.
                if self._is_live(begun):
                    raise
                hits = {}
            if self._is_live(begun):
                timings = [
                    ("embed", started, embedded - started),
                    ("dense", embedded, time.perf_counter() - embedded),
                ]
                asked_in, length = begun.query_vector, len(asked.query.text)
                chars = asked_in.chars if asked_in.chars < length else 0
                token_model = asked_in.space.embedding.token_model
                return DenseResult(hits, timings, asked_in.tokens, token_model, chars, begun.moved)
            begun = self._begin(begun.query_vector, asked, where)

    def _is_live(self, begun: _PendingSearches) -> bool:
        live = self._vectors.manifest
        return live is not None and live.generation == begun.manifest.generation

    def _begin(self, query_vector: _QueryVector, asked: RetrievalRequest, where: Filter | None) -> _PendingSearches:
        manifest = self._vectors.manifest
        space = self._spaces.of(manifest)
        if manifest is None or space is None:
            raise BackendUnavailableError(BEING_BUILT)
        if space is not query_vector.space:
            # A generation of another model went live since the query was embedded; this is rare.
            space = self._space(asked.query)
            query_vector = _known_vector(asked.query, space) or _embed_query(asked.query.text, space)[0]
        means = self._means.of(manifest)
        is_given = asked.query.vector is not None and query_vector.space.is_current
        text = "" if is_given else asked.query.text
        questions = {view: self._moved(query_vector, text, means, view) for view in manifest.views}
        pending = {
            view: self._vectors.begin_search(
                question.vector,
                view=view,
                reach=asked.reach,
                where=where,
                limit=asked.depth,
                deadline=asked.deadline,
            )
            for view, question in questions.items()
        }
        return _PendingSearches(manifest, query_vector, pending, questions[View.CHUNK].share)

    def _moved(self, query_vector: _QueryVector, text: str, means: Means, view: View) -> MovedQuestion:
        """Return the vector to search a view with; one that is given, without *text*, is only centred."""
        centred = means.centre_query(query_vector.vector, text, view)
        if self._questions is None or not text:
            return MovedQuestion(centred)
        return self._questions.move(centred, query_vector.space.embedding.model)


def _known_vector(query: SearchQuery, space: EmbeddingSpace) -> _QueryVector | None:
    """Return the vector of a query in *space* if it is given or cached."""
    if query.vector is not None and space.is_current:
        return _QueryVector(np.asarray(query.vector, np.float32), space)
    known = space.embedding.cached_query(query.text) if query.text else None
    return None if known is None else _QueryVector(known.vector, space, known.tokens, known.chars)


def _embed_query(text: str, space: EmbeddingSpace) -> tuple[_QueryVector, float]:
    found = space.embedding.query(text)
    return _QueryVector(found.vector, space, found.tokens, found.chars), time.perf_counter()


def _note_duration(embedding: Future[tuple[_QueryVector, float]], budget: TimeBudget, started: float) -> None:
    if not embedding.cancelled() and embedding.exception() is None:
        budget.note(embedding.result()[1] - started)


def _raise_later(error: MemsvcError) -> Callable[[], DenseResult]:
    def result() -> DenseResult:
        raise error

    return result


# The queue of queries to embed, apart from that of searches.


LONG_QUERY = 256
"""Characters above which a query may take several times as long to embed as a question."""
QUEUED_QUERIES = 16
"""Queries of one user that wait to be embedded."""


class QueryQueue:
    """Threads that embed queries, each user in turn; long queries leave a thread to the others.

    Embedding cannot be interrupted. With one line for all, eight callers with long queries delayed all others.
    """

    def __init__(self, threads: int) -> None:
        """Embed on *threads* threads, at most all but one of them, and at least one, with long queries."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="embed")
        # Started here, where a process with as many threads as it may have fails; a query would keep its place.
        all_started = threading.Barrier(threads)
        try:
            for _ in range(threads):
                self._executor.submit(all_started.wait)
        except RuntimeError:
            # Those that were started wait for the others, and would keep the process from ending.
            all_started.abort()
            self._executor.shutdown(wait=False)
            raise
        self._free = threads
        self._free_for_long = max(1, threads - 1)
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_QueuedQuery]] = {}

    def submit(
        self, user: Hashable, embed: Callable[[], tuple[_QueryVector, float]], *, is_long: bool
    ) -> Future[tuple[_QueryVector, float]]:
        """Return the future of a query; one that is cancelled while it waits is not embedded.

        Raises:
            LimitExceededError: Too many queries of *user* wait.
        """
        query = _QueuedQuery(embed, is_long)
        with self._lock:
            waiting = self._waiting.setdefault(user, deque())
            if len(waiting) >= QUEUED_QUERIES:
                limit = f"{QUEUED_QUERIES} queries of a user that wait to be embedded"
                raise LimitExceededError(limit, kind=LimitKind.QUEUE)
            waiting.append(query)
            ready = self._take_ready()
        self._start(ready)
        return query.future

    def close(self) -> None:
        """Cancel waiting queries, and return when the running ones are done."""
        with self._lock:
            for queries in self._waiting.values():
                for query in queries:
                    query.future.cancel()
            self._waiting.clear()
        self._executor.shutdown()

    def _take_ready(self) -> list[_QueuedQuery]:
        """Remove and return the queries that may begin, each with its thread; the lock is held."""
        ready = []
        while self._free and (query := self._take()) is not None:
            if query.future.set_running_or_notify_cancel():
                self._free -= 1
                self._free_for_long -= query.is_long
                ready.append(query)
        return ready

    def _start(self, ready: Sequence[_QueuedQuery]) -> None:
        """Start queries. Not under the lock: the callback of one that is done at once runs here."""
        for query in ready:
            try:
                self._executor.submit(query.embed).add_done_callback(partial(self._end, query))
            except RuntimeError:
                query.future.set_exception(BackendClosedError(EMBEDDING))

    def _take(self) -> _QueuedQuery | None:
        """Remove and return the first query that may run, of the user whose turn is the longest ago."""
        for user, queries in self._waiting.items():
            found = next((query for query in queries if self._free_for_long or not query.is_long), None)
            if found is not None:
                queries.remove(found)
                del self._waiting[user]
                if queries:
                    self._waiting[user] = queries
                return found
        return None

    def _end(self, query: _QueuedQuery, embedded: Future[tuple[_QueryVector, float]]) -> None:
        if error := embedded.exception():
            query.future.set_exception(error)
        else:
            query.future.set_result(embedded.result())
        with self._lock:
            self._free += 1
            self._free_for_long += query.is_long
            ready = self._take_ready()
        self._start(ready)


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedQuery:
    """A query that waits to be embedded."""

    embed: Callable[[], tuple[_QueryVector, float]]
    is_long: bool
    future: Future[tuple[_QueryVector, float]] = field(default_factory=Future)


# Ports of a search, narrow enough to be implemented for earlier states too.


class CandidateReader(Protocol):
    """Reads the data for ranking and hydration; `memsvc.ports.metadata.MemoryReads` is an implementation."""

    def candidates(self, rows: Rows, *, reach: Reach) -> Candidates:
        """Return the ranking data of these memories, in any order, without missing ones."""
        ...

    def by_rows(self, rows: Sequence[int], *, reach: Reach) -> dict[int, Memory]:
        """Return the memories with these rows, by row."""
        ...

    def chunks(self, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Chunk]:
        """Return chunks by (row, ordinal), without those of memories with a single chunk."""
        ...


class RetrievalSource(Protocol):
    """Runs the retrievers, as `HybridRetriever` does."""

    def run(self, asked: RetrievalRequest, early: Callable[[RetrievalResult], None] | None = None) -> RetrievalResult:
        """Return the hits; a retriever that fails is listed in *degraded*.

        *early* may receive the lexical hits as soon as they are known.
        """
        ...


class AccessRecorder(Protocol):
    """Records accesses of memories, as `memsvc.engine.memories.lookup.AccessCounts` does."""

    def note(self, ids: Iterable[str]) -> None:
        """Record that these memories were read."""
        ...


# Time budget of a retriever: its share of the deadline of a search.


BUDGET_SHARE = 0.75
"""Share of the remaining time that retrieval may use; the rest is left for ranking and reading the hits."""
USUAL_DECAY = 0.95
"""Factor by which the usual duration shrinks with every quicker answer."""
LONGEST_USUAL_SECONDS = 10.0


class TimeBudget:
    """Budget of one retriever: its usual duration and some patience beyond it. Thread-safe.

    The usual duration is the recent maximum of the durations of successful answers, so that a model that takes a second
    for every query is not given up each time.
    """

    def __init__(self, patience: float) -> None:
        """Allow *patience* seconds beyond the usual duration."""
        self._patience = patience
        self._usual = 0.0
        self._lock = threading.Lock()

    def note(self, seconds: float) -> None:
        """Record the duration of a successful answer."""
        with self._lock:
            self._usual = min(max(seconds, self._usual * USUAL_DECAY), LONGEST_USUAL_SECONDS)

    def limit(self, deadline: Deadline, *, has_others: bool) -> Deadline:
        """Return the deadline of the retriever.

        If no other retriever can answer (*has_others* is False), there is nothing to gain by giving up early.
        """
        if not has_others:
            return deadline
        remaining = deadline.remaining_seconds()
        seconds = self._usual + self._patience
        return Deadline(time.monotonic() + (seconds if remaining is None else min(seconds, remaining * BUDGET_SHARE)))
