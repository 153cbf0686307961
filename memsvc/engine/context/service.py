"""Contexts: started, resumed, rendered, and kept for an hour for resumption and deltas."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.context import (
    SHORT_TERM,
    ContextHolding,
    ContextItem,
    ContextPlan,
    ContextQuery,
    ContextSummary,
    Event,
    Section,
)
from memsvc.domain.errors import InvalidRequestError, NotReadyError, Violation
from memsvc.domain.limits import SNIPPET_MAX
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.near_duplicates import Shingles
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.search import FoundPassage
from memsvc.engine.conflicts.currency import CurrencyJudge
from memsvc.engine.conflicts.extraction_marks import WITHHELD
from memsvc.engine.context.builder import FILE_PASSAGES, BuildInputs, ContextBuilder, RetrievedHits
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.context.rendering import CachedTokenCounter, RenderedLine
from memsvc.engine.context.sources import AsOfContextSources, ContextSources, EvidenceSearch, search_of
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.search.search import FileSearcher, SearchService
from memsvc.ports.metadata import MemoryReads
from memsvc.ports.models import Tokenizer

LEAST_PASSAGE_SCORE = 0.4
"""Share of the query that a passage of a file covers at least, rare words more: see `FoundPassage.score`."""
KEPT_SECONDS = 3600.0
FRESH_SECONDS = 2.0
"""Events are given as they were built for so long after the begin of a context; then the store is asked again."""
KEPT_CONTEXTS = 2_048
KEPT_LINES = 4_096
KEPT_CHARS = 32 * 1024 * 1024
"""Beyond one of these limits the user with the largest share loses the oldest context."""
ID_BYTES = 12


class ContextService:
    """Starts, resumes and renders contexts."""

    def __init__(self, dependencies: ContextDependencies, *, threads: int) -> None:
        self._dependencies = dependencies
        self._tokenizer = CachedTokenCounter(dependencies.tokenizer)
        self._lines, self._sayings = (
            LruCache[Hashable, RenderedLine](KEPT_LINES),
            LruCache[Hashable, Shingles](KEPT_LINES),
        )
        self._source_reader = ContextSources(dependencies.reads, dependencies.core)
        self._search_executor = ThreadPoolExecutor(threads, thread_name_prefix="context-search")
        self._lock = threading.Lock()
        self._runs: OrderedDict[bytes, ContextRun] = OrderedDict()

    def close(self) -> None:
        """Shut down the threads."""
        self._search_executor.shutdown(cancel_futures=True)

    def forget(self, owner: str) -> None:
        """Drop the contexts of an owner, which cannot be resumed any more, and all cached texts."""
        self._lines.clear()
        self._sayings.clear()
        self._tokenizer.clear()
        if self._dependencies.currency is not None:
            self._dependencies.currency.forget()
        with self._lock:
            for run_id in [run.id for run in self._runs.values() if run.scope.owner == owner]:
                del self._runs[run_id]

    def begin(self, query: ContextQuery) -> ContextRun:
        """Return a new context; nothing is built yet.

        Raises:
            InvalidRequestError: The earlier context is unknown.
        """
        dependencies = self._dependencies
        earlier = None
        if query.earlier is not None:
            before, index = self._find_earlier(*query.earlier, query.scope)
            earlier = before.held_at(index)
            # No handle of the earlier context is given to another memory.
            query = replace(query, first_handle=before.next_handle)
        inputs = BuildInputs(
            source_reader=self._source_reader
            if query.as_of is None
            else AsOfContextSources(dependencies.reads, query.as_of),
            tokenizer=self._tokenizer,
            search=lambda deadline: self._search(query, deadline),
            lines=self._lines,
            sayings=self._sayings,
            session_size=lambda: dependencies.session_size(query.scope) if query.as_of is None else None,
            earlier=earlier,
            least_core_trust=dependencies.least_core_trust,
            currency=dependencies.currency,
            short_term_limit=dependencies.short_term_limit if query.as_of is None else 0,
            short_term_count=lambda: len(dependencies.reads.rows_where(SHORT_TERM, reach=_own_reach(query.scope))),
        )
        run = ContextRun(
            dependencies.random(ID_BYTES), ContextBuilder(query, inputs, dependencies.now()), time.monotonic()
        )
        with self._lock:
            self._runs[run.id] = run
            self._evict()
        return run

    def next_events(self, run: ContextRun, index: int, deadline: Deadline) -> tuple[list[tuple[int, Event]], int]:
        """Return the next batch of events after number *index*, and their number; none at the end.

        Of a context that was resumed, or is read slowly, memories are left out that were deleted, purged or quarantined
        since it began, and files that were deleted; they are counted in the number.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        events = run.next_events(index, deadline)
        if not run.is_resumed and time.monotonic() - run.began < FRESH_SECONDS:
            return events, len(events)
        items = [event for _, event in events if isinstance(event, ContextItem)]
        shown = self._shown(run.query, items) if items else frozenset()
        left = [(at, event) for at, event in events if not isinstance(event, ContextItem) or event.memory_id in shown]
        return left, len(events)

    def _shown(self, query: ContextQuery, items: Sequence[ContextItem]) -> frozenset[str]:
        """Return the ids of those of *items* that may still be shown."""
        dependencies, scope = self._dependencies, query.scope
        reach = Reach.from_scope(scope)
        files = {item.memory_id: item.passage.file.id for item in items if item.passage is not None}
        present = dependencies.file_searcher.present_ids([*files.values()], reach=reach)
        ids = [item.memory_id for item in items if item.passage is None]
        memories = dependencies.reads.get(ids, reach=reach)
        if query.as_of is None:
            memories = {name: one for name, one in memories.items() if one.status not in WITHHELD}
        evidence = [
            memories[item.memory_id]
            for item in items
            if item.section is Section.EVIDENCE and item.memory_id in memories
        ]
        withheld = dependencies.evidence.withheld.among(evidence, reach=reach)
        return frozenset(memories.keys() - withheld).union(name for name, one in files.items() if one in present)

    def resume(self, run_id: bytes, index: int, scope: Scope) -> ContextRun:
        """Return a context that was started before.

        Raises:
            InvalidRequestError: The context is unknown, too old or of another scope, or has no event of that number.
        """
        run = self._find_run(run_id, scope, "cursor")
        if index >= run.event_count:
            raise _unknown("cursor")
        run.resume()
        return run

    def render(self, query: ContextQuery, deadline: Deadline) -> RenderedContext:
        """Return a context as one text.

        Raises:
            InvalidRequestError: The earlier context is unknown.
            BackendUnavailableError: The store cannot be reached.
        """
        run = self.begin(query)
        events: list[Event] = []
        while batch := run.next_events(len(events) - 1, deadline):
            events += [event for _, event in batch]
        texts = [event.text for event in events if isinstance(event, ContextPlan | ContextItem | ContextSummary)]
        return RenderedContext(run.id, "".join(texts), tuple(events))

    def _search(self, query: ContextQuery, deadline: Deadline) -> Future[RetrievedHits]:
        return self._search_executor.submit(self._run_search, query, deadline)

    def _run_search(self, query: ContextQuery, deadline: Deadline) -> RetrievedHits:
        if self._dependencies.indexer.is_replaying:
            raise NotReadyError(self._dependencies.indexer.pending_count)
        search = self._dependencies.recall.search
        memories = search(search_of(query, self._dependencies.min_relevance), deadline)
        # The vector of the query is cached by now.
        evidence = self._dependencies.evidence(query, deadline) if Section.EVIDENCE in query.sections else None
        return RetrievedHits(memories, evidence, self._find_passages(query) if query.reads_files else ())

    def _find_passages(self, query: ContextQuery) -> Sequence[FoundPassage]:
        reach = Reach.from_scope(query.scope, query.selection.visibility)
        found = self._dependencies.file_searcher.find_passages(
            query.text, reach=reach, limit=2 * FILE_PASSAGES, snippet_chars=SNIPPET_MAX
        )
        return [one for one in found if one.score >= LEAST_PASSAGE_SCORE]

    def query_of(self, run_id: bytes, scope: Scope) -> str:
        """Return the text of the query of a context.

        Raises:
            InvalidRequestError: The context is unknown, too old or of another scope.
        """
        return self._find_run(run_id, scope, "context_cursor").query.text

    def resolve(
        self, run_id: bytes, citations: Sequence[str], scope: Scope, fields: Sequence[str] = ()
    ) -> list[tuple[str, int]]:
        """Return the memory id and revision of each citation of a context, with or without its brackets.

        *fields* are the paths of the citations in the request; empty: those of ResolveCitations.

        Raises:
            InvalidRequestError: The context is unknown, too old or of another scope, or it has no such citation.
        """
        cited = self._find_run(run_id, scope, "context_cursor").citations()
        found = [cited.get(one.strip().strip("[]")) for one in citations]
        wrong = [
            Violation(fields[place] if fields else f"citations[{place}]", "must be a citation of this context")
            for place, one in enumerate(found)
            if one is None
        ]
        if wrong:
            raise InvalidRequestError(wrong)
        return [one for one in found if one is not None]

    def _find_earlier(self, run_id: bytes, index: int, scope: Scope) -> tuple[ContextRun, int]:
        run = self._find_run(run_id, scope, "earlier_cursor")
        if index >= run.event_count:
            raise _unknown("earlier_cursor")
        return run, index

    def _find_run(self, run_id: bytes, scope: Scope, field: str) -> ContextRun:
        run = self._runs.get(run_id)
        if run is None or run.scope != scope or time.monotonic() - run.began > KEPT_SECONDS:
            raise _unknown(field)
        return run

    def _evict(self) -> None:
        bound = time.monotonic() - KEPT_SECONDS
        while self._runs and (oldest := next(iter(self._runs.values()))).began < bound:
            del self._runs[oldest.id]
        while len(self._runs) > KEPT_CONTEXTS:
            self._evict_oldest_of_largest(lambda _: 1)
        while sum(run.chars for run in self._runs.values()) > KEPT_CHARS:
            self._evict_oldest_of_largest(lambda run: run.chars)

    def _evict_oldest_of_largest(self, weight: Callable[[ContextRun], int]) -> None:
        """Drop the oldest context of the user with the largest share, so that no user evicts contexts of others."""
        weights: Counter[str] = Counter()
        for run in self._runs.values():
            weights[run.scope.owner] += weight(run)
        most = max(weights, key=weights.__getitem__)
        oldest = next(run for run in self._runs.values() if run.scope.owner == most)
        del self._runs[oldest.id]


class ContextRun:
    """A context: its events so far, and its builder. Thread-safe."""

    def __init__(self, run_id: bytes, builder: ContextBuilder, clock: float) -> None:
        self.id = run_id
        self.scope = builder.query.scope
        self.query = builder.query
        self.is_resumed = False
        self.began = clock
        self.chars = 0
        self._builder = builder
        self._batches: Iterator[list[Event]] | None = builder.batches()
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._readers = 1

    def held_at(self, index: int) -> dict[str, ContextHolding]:
        """Return the content of a client that received the events up to number *index*, by id.

        It is the content of the received items on top of the earlier context; with the summary it is the whole context.
        """
        with self._lock:
            received = self._events[: index + 1]
            if isinstance(received[-1], ContextSummary):
                return dict(self._builder.ledger.holds)
            items = {event.memory_id: event.held for event in received if isinstance(event, ContextItem) and event.held}
            return {**(self._builder.earlier or {}), **items}

    @property
    def next_handle(self) -> int:
        """Return the number of the first handle that this context has not given to a memory."""
        return self._builder.lines.next_handle

    def citations(self) -> dict[str, tuple[str, int]]:
        """Return the id and revision of the memories that this context and those before it show, by citation."""
        with self._lock:
            held = {**(self._builder.earlier or {}), **self._builder.ledger.holds}
            cited = {**{memory_id: one.citation for memory_id, one in held.items()}, **self._builder.lines.handles}
        revisions = {memory_id: one.revision for memory_id, one in held.items()}
        return {name.strip("[]"): (memory_id, revisions.get(memory_id, 0)) for memory_id, name in cited.items()}

    def next_events(self, index: int, deadline: Deadline) -> list[tuple[int, Event]]:
        """Return the next batch of events after number *index*; none at the end.

        For an abandoned context only the events that exist already.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        with self._lock:
            while index + 1 >= len(self._events) and self._batches is not None and self._readers:
                self._builder.deadline = deadline
                self._advance(self._batches)
            return [*enumerate(self._events)][index + 1 :]

    def abandon(self) -> None:
        """Count a client that reads no more; without any, background work stops, and the context can be resumed."""
        self._readers -= 1
        if not self._readers:
            self._builder.abandon()

    def resume(self) -> None:
        """Count another client: a stream whose connection broke may end after the one that resumes it has begun."""
        self._readers += 1
        self.is_resumed = True

    @property
    def event_count(self) -> int:
        """Return the number of events so far."""
        return len(self._events)

    def _advance(self, batches: Iterator[list[Event]]) -> None:
        try:
            batch = next(batches, None)
        except BaseException:
            self._batches = iter(())
            raise
        if batch is None:
            self._batches = None
            return
        self._events += batch
        self.chars += sum(
            len(event.text) for event in batch if isinstance(event, ContextPlan | ContextItem | ContextSummary)
        )
        self.chars += sum(len(event.held.excerpt) for event in batch if isinstance(event, ContextItem) and event.held)


@dataclass(frozen=True, slots=True)
class RenderedContext:
    """A context as one text, and its events."""

    run_id: bytes
    markdown: str
    events: tuple[Event, ...]

    @property
    def cursor(self) -> tuple[bytes, int]:
        """Return the value of `ContextQuery.earlier` for a delta to this context."""
        return self.run_id, len(self.events) - 1


@dataclass(frozen=True, slots=True)
class ContextDependencies:
    """Dependencies of contexts.

    Attributes:
        random: Returns a number of random bytes.
        least_core_trust: Minimum trust of core memories that neither the user nor an agent wrote.
        session_size: Returns the tokens that a session has and may have, if tracked.
        min_relevance: Minimum relevance of retrieved memories, where it is known.
        currency: Marks the retrieved memories that are not current.
        short_term_limit: Number of SHORT_TERM memories of a project above which contexts warn; 0: none.
    """

    reads: MemoryReads
    core: CoreMemoryCache
    recall: SearchService
    indexer: Indexer
    tokenizer: Tokenizer
    now: Callable[[], datetime]
    random: Callable[[int], bytes]
    file_searcher: FileSearcher
    evidence: EvidenceSearch
    session_size: Callable[[Scope], tuple[int, int] | None] = lambda _: None
    least_core_trust: float = 0.0
    min_relevance: float = 0.0
    currency: CurrencyJudge | None = None
    short_term_limit: int = 0


def _own_reach(scope: Scope) -> Reach:
    return Reach.from_scope(scope, Visibility.PROJECT)


def _unknown(field: str) -> InvalidRequestError:
    description = "must name a context of this scope that this server built in the last hour; build the context again"
    return InvalidRequestError([Violation(field, description)])
