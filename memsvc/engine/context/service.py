"""Contexts: begun, gone on with, rendered, and remembered for an hour so that they can be resumed and compared with."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.context import ContextQuery, Event, Held, Item, Plan, Summary
from memsvc.domain.errors import InvalidRequestError, NotReadyError, Violation
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.near_duplicates import Shingles
from memsvc.domain.scope import Scope
from memsvc.domain.search import SearchReply
from memsvc.engine.context.builder import BuildInputs, ContextBuilder
from memsvc.engine.context.core_memories import CoreMemoryCache
from memsvc.engine.context.rendering import CachedTokenCounter, Line
from memsvc.engine.context.sources import AsOfContextSources, ContextSources, search_of
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.search.search import SearchService
from memsvc.ports.metadata import MemoryReads
from memsvc.ports.models import Tokenizer

KEPT_SECONDS = 3600.0
KEPT_CONTEXTS = 2_048
KEPT_LINES = 4_096
KEPT_CHARS = 32 * 1024 * 1024
"""Beyond one of these, the user who has most of it loses the oldest context."""
ID_BYTES = 12


class ContextRun:
    """One context: what was told of it so far, and how it goes on. Safe to use from several threads."""

    def __init__(self, run_id: bytes, building: ContextBuilder, clock: float) -> None:
        self.id = run_id
        self.scope = building.query.scope
        self.began = clock
        self.chars = 0
        self._building = building
        self._batches: Iterator[list[Event]] | None = building.batches()
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._is_abandoned = False

    def held_at(self, index: int) -> dict[str, Held]:
        """Return what whoever got the events up to the one numbered *index* holds, by id.

        That is what the items told them, on top of what they held before; who got the summary holds the whole context.
        """
        with self._lock:
            told = self._events[: index + 1]
            if isinstance(told[-1], Summary):
                return dict(self._building.ledger.holds)
            items = {event.memory_id: event.held for event in told if isinstance(event, Item) and event.held}
            return {**(self._building.earlier or {}), **items}

    def next_events(self, index: int, deadline: Deadline) -> list[tuple[int, Event]]:
        """Return the next events after the one numbered *index*, as many as come together; none at the end.

        Once the context is abandoned, only what was told already.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        with self._lock:
            while index + 1 >= len(self._events) and self._batches is not None and not self._is_abandoned:
                self._building.deadline = deadline
                self._go_on(self._batches)
            return [*enumerate(self._events)][index + 1 :]

    def abandon(self) -> None:
        """Stop what goes on in the background, since nobody listens any more; the context can still be gone on with."""
        self._is_abandoned = True
        self._building.abandon()

    def resume(self) -> None:
        """Go on after all."""
        self._is_abandoned = False

    @property
    def event_count(self) -> int:
        """Return how many events were told."""
        return len(self._events)

    def _go_on(self, batches: Iterator[list[Event]]) -> None:
        try:
            batch = next(batches, None)
        except BaseException:
            self._batches = iter(())
            raise
        if batch is None:
            self._batches = None
            return
        self._events += batch
        self.chars += sum(len(event.text) for event in batch if isinstance(event, Plan | Item | Summary))
        self.chars += sum(len(event.held.excerpt) for event in batch if isinstance(event, Item) and event.held)


@dataclass(frozen=True, slots=True)
class RenderedContext:
    """A context as one text, and the events that it was made of."""

    run_id: bytes
    markdown: str
    events: tuple[Event, ...]

    @property
    def cursor(self) -> tuple[bytes, int]:
        """Return what `ContextQuery.earlier` takes for a delta since this context."""
        return self.run_id, len(self.events) - 1


@dataclass(frozen=True, slots=True)
class ContextDependencies:
    """What contexts are made from.

    Attributes:
        random: Gives so many random bytes.
        least_core_trust: The trust that what neither the user nor an agent wrote must have to stand among the core.
        session_size: Returns how many tokens the session of a scope holds, and may hold, where that is known.
    """

    reads: MemoryReads
    core: CoreMemoryCache
    recall: SearchService
    indexer: Indexer
    tokenizer: Tokenizer
    now: Callable[[], datetime]
    random: Callable[[int], bytes]
    session_size: Callable[[Scope], tuple[int, int] | None] = lambda _: None
    least_core_trust: float = 0.0


class ContextService:
    """Builds contexts."""

    def __init__(self, sources: ContextDependencies, *, threads: int) -> None:
        self._sources = sources
        self._tokenizer = CachedTokenCounter(sources.tokenizer)
        self._lines, self._sayings = LruCache[Hashable, Line](KEPT_LINES), LruCache[Hashable, Shingles](KEPT_LINES)
        self._source_reader = ContextSources(sources.reads, sources.core)
        self._searching = ThreadPoolExecutor(threads, thread_name_prefix="context-search")
        self._lock = threading.Lock()
        self._runs: OrderedDict[bytes, ContextRun] = OrderedDict()

    def close(self) -> None:
        """Give the threads back."""
        self._searching.shutdown(cancel_futures=True)

    def forget(self, owner: str) -> None:
        """Drop the contexts of an owner, which cannot be gone on with any more, and every text that is kept."""
        self._lines.clear()
        self._sayings.clear()
        self._tokenizer.clear()
        with self._lock:
            for run_id in [run.id for run in self._runs.values() if run.scope.owner == owner]:
                del self._runs[run_id]

    def begin(self, query: ContextQuery) -> ContextRun:
        """Return a new context, of which nothing is built yet.

        Raises:
            InvalidRequestError: The earlier context is unknown.
        """
        sources = self._sources
        earlier = None if query.earlier is None else self._held(*query.earlier, query.scope)
        inputs = BuildInputs(
            source_reader=self._source_reader
            if query.as_of is None
            else AsOfContextSources(sources.reads, query.as_of),
            tokenizer=self._tokenizer,
            search=lambda deadline: self._search(query, deadline),
            lines=self._lines,
            sayings=self._sayings,
            session_size=lambda: sources.session_size(query.scope) if query.as_of is None else None,
            earlier=earlier,
            least_core_trust=sources.least_core_trust,
        )
        run = ContextRun(sources.random(ID_BYTES), ContextBuilder(query, inputs, sources.now()), time.monotonic())
        with self._lock:
            self._runs[run.id] = run
            self._forget()
        return run

    def resume(self, run_id: bytes, index: int, scope: Scope) -> ContextRun:
        """Return a context that was begun before.

        Raises:
            InvalidRequestError: It is unknown, too old or of another scope, or has no event of that number.
        """
        run = self._known(run_id, scope, "cursor")
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
        texts = [event.text for event in events if isinstance(event, Plan | Item | Summary)]
        return RenderedContext(run.id, "".join(texts), tuple(events))

    def _search(self, query: ContextQuery, deadline: Deadline) -> Future[SearchReply]:
        return self._searching.submit(self._found, query, deadline)

    def _found(self, query: ContextQuery, deadline: Deadline) -> SearchReply:
        if self._sources.indexer.is_replaying:
            raise NotReadyError(self._sources.indexer.pending)
        return self._sources.recall.search(search_of(query), deadline)

    def _held(self, run_id: bytes, index: int, scope: Scope) -> dict[str, Held]:
        run = self._known(run_id, scope, "earlier_cursor")
        if index >= run.event_count:
            raise _unknown("earlier_cursor")
        return run.held_at(index)

    def _known(self, run_id: bytes, scope: Scope, field: str) -> ContextRun:
        run = self._runs.get(run_id)
        if run is None or run.scope != scope or time.monotonic() - run.began > KEPT_SECONDS:
            raise _unknown(field)
        return run

    def _forget(self) -> None:
        bound = time.monotonic() - KEPT_SECONDS
        while self._runs and (oldest := next(iter(self._runs.values()))).began < bound:
            del self._runs[oldest.id]
        while len(self._runs) > KEPT_CONTEXTS:
            self._forget_one_of_most(lambda _: 1)
        while sum(run.chars for run in self._runs.values()) > KEPT_CHARS:
            self._forget_one_of_most(lambda run: run.chars)

    def _forget_one_of_most(self, weight: Callable[[ContextRun], int]) -> None:
        """Forget the oldest context of the user who has most: nobody pushes the contexts of others out."""
        weights: Counter[str] = Counter()
        for run in self._runs.values():
            weights[run.scope.owner] += weight(run)
        most = max(weights, key=weights.__getitem__)
        oldest = next(run for run in self._runs.values() if run.scope.owner == most)
        del self._runs[oldest.id]


def _unknown(field: str) -> InvalidRequestError:
    description = "is not of a context that this service still knows in this scope; build the context anew"
    return InvalidRequestError([Violation(field, description)])
