"""Reindexing on call, and by itself when an index has outgrown what it was built for."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Protocol

from memsvc.domain.diagnostics import IndexKind, ReindexMode, ReindexPhase, ReindexProgress
from memsvc.domain.errors import BackendUnavailableError, MemsvcError, ReindexRunningError
from memsvc.domain.index_entries import Document
from memsvc.engine.indexing.index_writers import GenerationBuilder, IndexWriter, VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.repair import IndexDifferences, IndexRepairer
from memsvc.engine.runtime.instrumentation import LastErrors
from memsvc.engine.runtime.leader_lease import LeaderElection, Lease
from memsvc.ports.change_feed import IndexFeed

PATIENCE = 2
"""So many times in a row an index is seen broken before it is built anew."""

LONGEST_PAUSE = 63
"""So many looks at most are let pass before a repair that failed is tried again."""

STOP_SECONDS = 2.0
"""How long a stop waits for upkeep to come to a good end by itself."""

log = logging.getLogger(__name__)


class ReindexService:
    """Rebuilds or repairs indexes, one run at a time in the process, and of all that share an index."""

    def __init__(
        self,
        feed: IndexFeed,
        writers: Mapping[IndexKind, IndexWriter],
        rebuild: IndexRebuilder,
        repair: IndexRepairer,
        last_errors: LastErrors | None = None,
        election: LeaderElection | None = None,
    ) -> None:
        """Work on *writers*; of all processes that share one, the one that *election* chooses builds it."""
        self._feed = feed
        self._election = election
        self._last_errors = last_errors or LastErrors()
        self._writers = writers
        self._rebuild = rebuild
        self._repair = repair
        self._running = threading.Lock()
        self._latest: ReindexProgress | None = None

    @property
    def progress(self) -> ReindexProgress | None:
        """Return how far the run under way is, or None when none is."""
        return self._latest

    def run(self, indexes: Sequence[IndexKind], mode: ReindexMode) -> Generator[ReindexProgress, None, None]:
        """Rebuild or repair *indexes* (none: all), telling the progress; the last step is DONE.

        Raises:
            ReindexRunningError: Another run is under way, in this process or in another one that shares an index.
            BackendUnavailableError: An index or the embedder cannot be reached; the live generations stay.
        """
        if not self._running.acquire(blocking=False):
            raise ReindexRunningError
        try:
            for kind in indexes or tuple(self._writers):
                writer = self._writers[kind]
                with self._lead(writer) as lease:
                    steps = self._rebuild.run(writer) if mode is ReindexMode.REBUILD else self._mended(writer)
                    yield from self._told(steps, lease)
            yield ReindexProgress(ReindexPhase.DONE, kind, 1, 1, 0)
        finally:
            self._latest = None
            self._running.release()

    def repair_rows(self, kind: IndexKind, rows: Sequence[int]) -> None:
        """Write the entries of some memories anew, those of memories that are gone away.

        Raises:
            ReindexRunningError: A run is under way.
            BackendUnavailableError: The index or the embedder cannot be reached.
        """
        if not self._running.acquire(blocking=False):
            raise ReindexRunningError
        try:
            for _ in self._repair.repair(self._writers[kind], IndexDifferences(0, 0, tuple(rows), (), ())):
                pass
        finally:
            self._running.release()

    def accepts_writes(self, kind: IndexKind) -> bool:
        """Return whether an index has a generation that can be written to."""
        return self._writers[kind].is_current()

    def _lead(self, writer: IndexWriter) -> AbstractContextManager[Lease | None]:
        return self._election.lead() if self._election is not None and writer.is_shared else nullcontext()

    def _told(
        self, steps: Generator[ReindexProgress, None, None], lease: Lease | None
    ) -> Generator[ReindexProgress, None, None]:
        with closing(steps):
            for step in steps:
                if lease is not None:
                    lease.require()
                self._latest = step
                yield step

    def compare(self, kind: IndexKind) -> IndexDifferences:
        """Hold one index against the store."""
        return self._repair.compare(self._writers[kind])

    def prepare(self) -> None:
        """Give the indexes of an empty store their first generation, which takes no time worth naming.

        An index that was lost while there are memories is left to upkeep: searches are degraded until it is rebuilt.
        So is one that cannot be made now, as when the model or the index is away, or another process makes it.
        """
        if self._feed.indexable():
            return
        for writer in self._writers.values():
            try:
                self._begin(writer)
            except BackendUnavailableError as error:
                log.warning("the index of %s cannot be reached and is left for later: %s", writer.kind, error)
            except ReindexRunningError:
                log.info("the index of %s is being made by another process", writer.kind)

    def _begin(self, writer: IndexWriter) -> None:
        if writer.is_stale():
            with self._lead(writer):
                # It may have been made while the turn was waited for.
                for step in self._rebuild.run(writer) if writer.is_stale() else ():
                    log.debug("first generation: %s", step)

    def find_stale(self) -> list[IndexKind]:
        """Return the indexes that have no generation of the model and analysis in use, so far as they can be asked."""
        return [kind for kind, writer in self._writers.items() if _is_surely_stale(writer)]

    def find_due(self) -> list[IndexKind]:
        """Return the indexes whose live generation no longer fits: model, analysis, means or graph."""
        total = self._feed.indexable()
        return [
            kind
            for kind, writer in self._writers.items()
            if writer.is_stale() or (isinstance(writer, VectorIndexWriter) and writer.refresh_is_due(total))
        ]

    def find_broken(self) -> list[IndexKind]:
        """Return the indexes that cannot be reached, or failed when they were last asked or written to.

        Not those of a server: that it cannot be reached breaks nothing that is on it.
        """
        return [
            kind
            for kind, writer in self._writers.items()
            if not writer.is_shared
            and not writer.is_stale()
            and (self._last_errors.of(kind.value.lower()) or not writer.is_reachable())
        ]

    def is_quiet(self, quiet_period: QuietPeriodDetector) -> bool:
        """Return whether a rebuild would not race an import."""
        return quiet_period.is_quiet(self._feed.head(), self._feed.pending_count())

    def _mended(self, writer: IndexWriter) -> Generator[ReindexProgress, None, None]:
        yield ReindexProgress(ReindexPhase.READING, writer.kind, 0, self._feed.indexable(), writer.generation())
        differences = self._repair.compare(writer)
        yield ReindexProgress(ReindexPhase.REPAIRED, writer.kind, 0, len(differences.rows), writer.generation())
        yield from self._repair.repair(writer, differences)


class PendingComparison(Protocol):
    """A comparison of the indexes with the store that may be owed, by this process or the next."""

    @property
    def is_pending(self) -> bool:
        """Return whether it has yet to be done."""
        ...

    def mark_done(self) -> None:
        """Note that it was done."""
        ...


class IndexMonitor:
    """A thread that rebuilds lost indexes, repairs where that is owed, and then rebuilds what broke or is due."""

    def __init__(self, reindex: ReindexService, *, interval_seconds: float, comparison: PendingComparison) -> None:
        self._reindex = reindex
        self._interval_seconds = interval_seconds
        self._quiet_period = QuietPeriodDetector(interval_seconds=interval_seconds)
        self._comparison = comparison
        self._pause = self._looks_left = 0
        self._stopping = threading.Event()
        self._sightings: Counter[IndexKind] = Counter()
        self._patience = PATIENCE
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Start looking after the indexes."""
        self._thread.start()

    def stop(self) -> None:
        """Break off what is under way and stop."""
        self._stopping.set()
        if self._thread.ident is not None:
            # A build may take minutes: closing the index, which comes next, ends its builder and so this thread.
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        if stale := self._reindex.find_stale():
            self._perform(stale, ReindexMode.REBUILD)
        self._compare()
        while not self._stopping.wait(self._interval_seconds):
            self._compare()
            if due := self._still_broken() or self._due():
                self._perform(due, ReindexMode.REBUILD)

    def _compare(self) -> None:
        """Repair what differs from the store, if that is owed; where it fails, wait longer each time."""
        if self._stopping.is_set() or not self._comparison.is_pending:
            return
        if self._looks_left:
            self._looks_left -= 1
        elif self._perform([], ReindexMode.REPAIR):
            self._comparison.mark_done()
        else:
            self._pause = self._looks_left = min(2 * self._pause + 1, LONGEST_PAUSE)

    def _still_broken(self) -> list[IndexKind]:
        """Return the indexes that were seen broken often enough: what passes by itself is left to pass.

        When building them anew does not help, as on a full disk, they have to be seen twice as often the next time.
        """
        found = self._reindex.find_broken()
        self._sightings = Counter({kind: self._sightings[kind] + 1 for kind in found})
        due = [kind for kind in found if self._sightings[kind] >= self._patience]
        if not found:
            self._patience = PATIENCE
        elif due:
            log.warning("indexes are broken and will be built anew: %s", ", ".join(due))
            self._patience *= 2
            self._sightings.clear()
        return due

    def _due(self) -> list[IndexKind]:
        try:
            return self._reindex.find_due() if self._reindex.is_quiet(self._quiet_period) else []
        except BackendUnavailableError as error:
            log.warning("upkeep could not look at the indexes and will look again: %s", error.message)
        except MemsvcError:
            log.warning("upkeep could not look at the indexes and will look again", exc_info=True)
        return []

    def _perform(self, kinds: Sequence[IndexKind], mode: ReindexMode) -> bool:
        """Do it, and return whether it came to its end."""
        is_done = False
        steps = self._reindex.run(kinds, mode)
        try:
            for step in steps:
                quiet = step.phase is ReindexPhase.READING
                log.log(
                    logging.DEBUG if quiet else logging.INFO,
                    "reindexing: %s %s %d of %d",
                    step.index,
                    step.phase,
                    step.done,
                    step.total,
                )
                is_done = step.phase is ReindexPhase.DONE
                if self._stopping.is_set():
                    break
        except ReindexRunningError:
            log.debug("a reindex is running; upkeep will look again")
        except BackendUnavailableError as error:
            log.warning("upkeep waits and will look again: %s", error.message)
        except Exception:
            log.exception("upkeep failed and will be tried again")
        finally:
            steps.close()
        return is_done


def _is_surely_stale(writer: IndexWriter) -> bool:
    try:
        return writer.is_stale()
    except BackendUnavailableError:
        return False


# When to build an index anew that still serves: not while so much is written that it would soon be outgrown again.


MOST_PENDING = 256
"""More changes than this that the indexes have not taken in mean an import which they cannot keep up with."""
RUSH_PER_SECOND = 100.0
"""More changes a second than this mean an import. An embedder brings fewer: what it feeds is not waited for."""
LONGEST_SECONDS = 120.0
"""An import that lasts longer is not waited for."""


class QuietPeriodDetector:
    """Tells whether a lull has come, from looks at the head of the outbox at a steady interval.

    An import of 100 000 memories outgrew its vector index a dozen times, and each time all that was there was read and
    written once more beside it: a third of what the process did.
    """

    def __init__(self, *, interval_seconds: float) -> None:
        """Expect a look every *interval_seconds*."""
        self._interval_seconds = interval_seconds
        self._head: int | None = None
        self._waited = 0.0

    def is_quiet(self, head: int, pending: int) -> bool:
        """Return whether now is the time; *head* is the newest position, *pending* the number of changes not applied.

        The first look says no: it cannot tell yet.
        """
        before, self._head = self._head, head
        if pending > MOST_PENDING:
            return False
        rushes = before is None or head - before > RUSH_PER_SECOND * self._interval_seconds
        self._waited = self._waited + self._interval_seconds if rushes else 0.0
        if self._waited > LONGEST_SECONDS:
            self._waited = 0.0
            return True
        return not rushes


# Building a new generation of an index beside the live one, while searches and writes go on.


BATCH = 256
"""Memories read, embedded and written at a time."""
CATCH_UP = 1_000
"""Changes taken over at a time once the bulk is done."""
NEARLY = 64
"""So few changes are left for the moment in which the live indexes stand still."""


class IndexRebuilder:
    """Makes generations from the store as of an outbox position, then takes over what changed meanwhile."""

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier) -> None:
        self._feed = feed
        self._change_applier = change_applier

    def run(self, writer: IndexWriter) -> Generator[ReindexProgress, None, None]:
        """Build a generation of *writer* and switch to it; leaving the iteration early discards it.

        Raises:
            BackendUnavailableError: The index or the embedder cannot be reached; the live generation stays.
        """
        position = self._feed.head()
        total = self._feed.indexable()
        draft = writer.begin_generation(position=position, sample=self._documents, total=total)
        try:
            yield from self._bulk(writer, draft, total)
            yield ReindexProgress(ReindexPhase.BUILDING, writer.kind, total, total, draft.number)
            draft.seal()
            yield ReindexProgress(ReindexPhase.CATCHING_UP, writer.kind, 0, self._feed.head() - position, draft.number)
            self._switch(draft, position)
            yield ReindexProgress(ReindexPhase.SWITCHED, writer.kind, total, total, draft.number)
        finally:
            draft.discard()

    def _bulk(self, writer: IndexWriter, draft: GenerationBuilder, total: int) -> Iterator[ReindexProgress]:
        done = 0
        yield ReindexProgress(ReindexPhase.READING, writer.kind, 0, total, draft.number)
        for batch in self._batches():
            draft.write([document.memory.row for document in batch], batch)
            done += len(batch)
            yield ReindexProgress(ReindexPhase.READING, writer.kind, done, max(total, done), draft.number)

    def _switch(self, draft: GenerationBuilder, position: int) -> None:
        while self._feed.head() - position > NEARLY:
            position = self._take_over(draft, position)
        # Once more: while the indexes stand still nothing should be left that the model has to embed.
        position = self._take_over(draft, position)
        with self._feed.standing_still(), self._change_applier.exclusive():
            while (reached := self._take_over(draft, position)) != position:
                position = reached
            self._feed.require_lent()
            draft.switch()

    def _take_over(self, draft: GenerationBuilder, position: int) -> int:
        changes = self._feed.since(position, limit=CATCH_UP)
        if changes:
            rows = list(dict.fromkeys(change.row for change in changes))
            draft.write(rows, self._feed.documents(rows))
            position = changes[-1].position
        return position

    def _documents(self) -> Iterator[Document]:
        for batch in self._batches():
            yield from batch

    def _batches(self) -> Iterator[list[Document]]:
        after = -1
        while batch := self._feed.scan(after_row=after, limit=BATCH):
            yield batch
            after = batch[-1].memory.row
