"""Reindexing on request, and automatically when an index is lost, broken or outgrown."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Protocol

from memsvc.domain.diagnostics import IndexKind, ReindexMode, ReindexPhase, ReindexProgress
from memsvc.domain.errors import BackendUnavailableError, MemsvcError, ReindexRunningError
from memsvc.domain.index_entries import Change, Document
from memsvc.engine.indexing.index_writers import GenerationBuilder, IndexWriter, VectorIndexWriter
from memsvc.engine.indexing.indexer import ChangeApplier
from memsvc.engine.indexing.repair import IndexDifferences, IndexRepairer
from memsvc.engine.runtime.latency_stats import LastErrors
from memsvc.engine.runtime.leader_lease import LeaderElection, Lease
from memsvc.ports.change_feed import IndexFeed

PATIENCE = 2
"""Consecutive checks that find an index broken before it is rebuilt."""

LONGEST_PAUSE = 63
"""Maximum number of checks skipped before a failed repair is retried."""

STOP_SECONDS = 2.0
"""Time that a stop waits for the monitor to finish."""

log = logging.getLogger(__name__)
MOST_PENDING = 256
"""More pending changes than this indicate an import that the indexes cannot keep up with."""
IMPORT_RATE = 100.0
"""More changes a second than this indicate an import. An embedder is slower: its imports are not waited for."""
WAIT_SECONDS = 120.0, 0.002, 1_800.0
"""Maximum time that rebuilds wait for an import: at least the first, for each memory the second, at most the third.

It is about the time that a rebuild takes, so that an import makes the work at most twice as much. An import of
1 000 000 memories in half an hour is waited for; in this time searches compare every vector of their user.
"""
RECOUNTED = 0.01
"""Share of the memories that must have changed before they are counted again."""
BATCH = 256
"""Memories read, embedded and written at a time."""
CATCH_UP = 1_000
"""Changes applied at a time after the bulk load."""
FREEZE_LIMIT = 64
"""Number of changes from which on they are applied before the live indexes are frozen, as long as they become fewer."""


class ReindexService:
    """Rebuilds and repairs of indexes, one at a time in the process and among processes that share an index."""

    def __init__(
        self,
        feed: IndexFeed,
        writers: Mapping[IndexKind, IndexWriter],
        rebuild: IndexRebuilder,
        repair: IndexRepairer,
        last_errors: LastErrors | None = None,
        election: LeaderElection | None = None,
    ) -> None:
        """Reindex *writers*; *election* chooses the process that builds a shared index."""
        self._feed = feed
        self._election = election
        self._last_errors = last_errors or LastErrors()
        self._writers = writers
        self._rebuild = rebuild
        self._repair = repair
        self._running = threading.Lock()
        self._latest: ReindexProgress | None = None
        self._counted: tuple[int, int] | None = None

    @property
    def progress(self) -> ReindexProgress | None:
        """Return the progress of the current run, or None."""
        return self._latest

    def run(self, indexes: Sequence[IndexKind], mode: ReindexMode) -> Generator[ReindexProgress, None, None]:
        """Rebuild or repair *indexes* (none: all), yielding the progress; the last step is DONE.

        Raises:
            ReindexRunningError: Another run is active, in this process or in another one that shares an index.
            BackendUnavailableError: An index or the embedder cannot be reached; the live generations stay.
        """
        if not self._running.acquire(blocking=False):
            raise ReindexRunningError
        try:
            for kind in indexes or tuple(self._writers):
                writer = self._writers[kind]
                with self._lead(writer) as lease:
                    steps = self._rebuild.run(writer) if mode is ReindexMode.REBUILD else self._repair_all(writer)
                    yield from self._track(steps, lease)
            yield ReindexProgress(ReindexPhase.DONE, kind, 1, 1, 0)
        finally:
            self._latest = None
            self._running.release()

    def repair_rows(self, kind: IndexKind, rows: Sequence[int]) -> None:
        """Rewrite the entries of some memories, and delete those of purged memories.

        Raises:
            ReindexRunningError: A run is active.
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
        """Return whether an index has a generation that accepts writes."""
        return self._writers[kind].is_current()

    def _lead(self, writer: IndexWriter) -> AbstractContextManager[Lease | None]:
        return self._election.lead() if self._election is not None and writer.is_shared else nullcontext()

    def _track(
        self, steps: Generator[ReindexProgress, None, None], lease: Lease | None
    ) -> Generator[ReindexProgress, None, None]:
        with closing(steps):
            for step in steps:
                if lease is not None:
                    lease.require()
                self._latest = step
                yield step

    def compare(self, kind: IndexKind) -> IndexDifferences:
        """Compare one index with the store."""
        return self._repair.compare(self._writers[kind])

    def prepare(self) -> None:
        """Create the first generation of the indexes of an empty store, which is fast.

        A lost index of a store with memories is left to the monitor: searches are degraded until it is rebuilt. So is
        an index that cannot be created now because the model or the index is unavailable, or another process creates
        it.
        """
        if self._feed.scan(after_row=-1, limit=1):
            return
        for writer in self._writers.values():
            try:
                self._begin(writer)
            except BackendUnavailableError as error:
                log.warning("the %s index was not prepared and is left to the monitor: %s", writer.kind, error)
            except ReindexRunningError:
                log.info("the %s index is being created by another process", writer.kind)

    def _begin(self, writer: IndexWriter) -> None:
        if writer.is_stale():
            with self._lead(writer):
                # Another process may have created it while this one waited for the lease.
                for step in self._rebuild.run(writer) if writer.is_stale() else ():
                    log.debug("first generation: %s", step)

    def find_stale(self) -> list[IndexKind]:
        """Return the indexes without a generation of the current model and analysis, as far as they can be reached."""
        return [kind for kind, writer in self._writers.items() if _is_surely_stale(writer)]

    def find_due(self) -> list[IndexKind]:
        """Return the indexes whose live generation is outdated: model, analysis, means or graph."""
        total = self._estimate_total(within=RECOUNTED)
        return [
            kind
            for kind, writer in self._writers.items()
            if writer.is_stale() or (isinstance(writer, VectorIndexWriter) and writer.needs_refresh(total))
        ]

    def _estimate_total(self, *, within: float) -> int:
        """Return the number of memories that the indexes should hold, *within* a share of the last count.

        A count reads an index of the store from end to end: 0.4 s at 1 000 000 memories.
        """
        head = self._feed.head_position()
        if self._counted is None or head - self._counted[0] > within * self._counted[1]:
            self._counted = head, self._feed.indexable()
        return self._counted[1]

    def find_broken(self) -> list[IndexKind]:
        """Return the indexes that cannot be reached, or failed in their last operation.

        Indexes on a server are excluded: an unreachable server does not break its data.
        """
        return [
            kind
            for kind, writer in self._writers.items()
            if not writer.is_shared
            and not writer.is_stale()
            and (self._last_errors.of(kind.value.lower()) or not writer.is_reachable())
        ]

    def is_quiet(self, quiet_period: QuietPeriodDetector) -> bool:
        """Return whether no import is running that a rebuild would compete with."""
        head, pending = self._feed.head_position(), self._feed.pending_count()
        return quiet_period.is_quiet(head, pending, memories=self._estimate_total(within=1.0))

    def _repair_all(self, writer: IndexWriter) -> Generator[ReindexProgress, None, None]:
        yield ReindexProgress(ReindexPhase.READING, writer.kind, 0, self._feed.indexable(), writer.generation())
        differences = self._repair.compare(writer)
        yield ReindexProgress(ReindexPhase.REPAIRED, writer.kind, 0, len(differences.rows), writer.generation())
        yield from self._repair.repair(writer, differences)


class PendingComparison(Protocol):
    """A comparison of the indexes with the store that may be pending, also after a restart."""

    @property
    def is_pending(self) -> bool:
        """Return whether the comparison is pending."""
        ...

    def mark_done(self) -> None:
        """Record that the comparison was done."""
        ...


class IndexMonitor:
    """A thread that rebuilds lost indexes, runs pending repairs, and then rebuilds broken and outdated indexes."""

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
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Abort the work under way and stop."""
        self._stopping.set()
        if self._thread.ident is not None:
            # A build may take minutes: closing the index, which comes next, ends its builder and thus this thread.
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        self._attempt(self._begin)
        while not self._stopping.wait(self._interval_seconds):
            self._attempt(self._check)

    def _attempt(self, work: Callable[[], None]) -> None:
        """Call *work*; an error of any kind is left to the next check."""
        try:
            work()
        except Exception:
            if not self._stopping.is_set():
                log.exception("the index check failed and is retried")

    def _begin(self) -> None:
        if stale := self._reindex.find_stale():
            self._perform(stale, ReindexMode.REBUILD)
        self._compare()

    def _check(self) -> None:
        self._compare()
        if due := self._still_broken() or self._find_due_kinds():
            self._perform(due, ReindexMode.REBUILD)

    def _compare(self) -> None:
        """Run a pending repair; after a failure wait longer each time."""
        if self._stopping.is_set() or not self._comparison.is_pending:
            return
        if self._looks_left:
            self._looks_left -= 1
            return
        # Until it is done and recorded: recording may fail, too.
        self._pause = self._looks_left = min(2 * self._pause + 1, LONGEST_PAUSE)
        if self._perform([], ReindexMode.REPAIR):
            self._comparison.mark_done()
            self._pause = self._looks_left = 0

    def _still_broken(self) -> list[IndexKind]:
        """Return the indexes that were found broken often enough, so that transient failures pass.

        If rebuilding does not help, as on a full disk, twice as many checks are needed the next time.
        """
        found = self._reindex.find_broken()
        self._sightings = Counter({kind: self._sightings[kind] + 1 for kind in found})
        due = [kind for kind in found if self._sightings[kind] >= self._patience]
        if not found:
            self._patience = PATIENCE
        elif due:
            log.warning("indexes are broken and are rebuilt: %s", ", ".join(due))
            self._patience *= 2
            self._sightings.clear()
        return due

    def _find_due_kinds(self) -> list[IndexKind]:
        try:
            return self._reindex.find_due() if self._reindex.is_quiet(self._quiet_period) else []
        except BackendUnavailableError as error:
            log.warning("the index check failed and is retried: %s", error.message)
        except MemsvcError:
            log.warning("the index check failed and is retried", exc_info=True)
        return []

    def _perform(self, kinds: Sequence[IndexKind], mode: ReindexMode) -> bool:
        """Run a reindex; return whether it finished."""
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
            log.debug("a reindex was skipped: another one is running")
        except BackendUnavailableError as error:
            log.warning("a reindex was postponed: %s", error.message)
        except Exception:
            # The service that stops closes the embedder and the indexes under the work; the next start does it.
            if not self._stopping.is_set():
                log.exception("a reindex failed and is retried")
        finally:
            steps.close()
        return is_done


def _is_surely_stale(writer: IndexWriter) -> bool:
    try:
        return writer.is_stale()
    except BackendUnavailableError:
        return False


class QuietPeriodDetector:
    """Defers rebuilds while a bulk import is running, from checks of the outbox head at a fixed interval.

    An import of 100 000 memories outgrew its vector index a dozen times, and each rebuild read and wrote everything
    once more: a third of the work of the process.
    """

    def __init__(self, *, interval_seconds: float) -> None:
        """Expect a check every *interval_seconds*."""
        self._interval_seconds = interval_seconds
        self._head: int | None = None
        self._waited = 0.0

    def is_quiet(self, head: int, pending: int, *, memories: int) -> bool:
        """Return whether to rebuild now; *head* is the newest position, *pending* the number of pending changes.

        The first check returns False: there is no earlier head to compare with.
        """
        before, self._head = self._head, head
        if pending > MOST_PENDING:
            return False
        rushes = before is None or head - before > IMPORT_RATE * self._interval_seconds
        self._waited = self._waited + self._interval_seconds if rushes else 0.0
        least, each, most = WAIT_SECONDS
        if self._waited > min(most, max(least, each * memories)):
            self._waited = 0.0
            return True
        return not rushes


class IndexRebuilder:
    """Builds a generation from the store next to the live one, then applies concurrent changes."""

    def __init__(self, feed: IndexFeed, change_applier: ChangeApplier) -> None:
        self._feed = feed
        self._change_applier = change_applier

    def run(self, writer: IndexWriter) -> Generator[ReindexProgress, None, None]:
        """Build a generation of *writer* and make it live; closing the iterator early discards it.

        Raises:
            BackendUnavailableError: The index or the embedder cannot be reached; the live generation stays.
        """
        position = self._feed.settled_position()
        total = self._feed.indexable()
        generation = writer.begin_generation(position=position, sample=self._documents, total=total)
        try:
            yield from self._bulk(writer, generation, total)
            yield ReindexProgress(ReindexPhase.BUILDING, writer.kind, total, total, generation.number)
            generation.seal()
            yield ReindexProgress(
                ReindexPhase.CATCHING_UP, writer.kind, 0, self._feed.head_position() - position, generation.number
            )
            self._switch(generation, position)
            yield ReindexProgress(ReindexPhase.SWITCHED, writer.kind, total, total, generation.number)
        finally:
            generation.discard()

    def _bulk(self, writer: IndexWriter, generation: GenerationBuilder, total: int) -> Iterator[ReindexProgress]:
        done = 0
        yield ReindexProgress(ReindexPhase.READING, writer.kind, 0, total, generation.number)
        for batch in self._batches():
            generation.write([document.memory.row for document in batch], batch)
            done += len(batch)
            yield ReindexProgress(ReindexPhase.READING, writer.kind, done, max(total, done), generation.number)

    def _switch(self, generation: GenerationBuilder, position: int) -> None:
        catch_up = _CatchUp(self._feed, generation, position)
        before, count = math.inf, catch_up.apply()
        while FREEZE_LIMIT < count < before:
            before, count = count, catch_up.apply()
        # Once more, so that nothing remains to be embedded while the indexes are frozen.
        catch_up.apply()
        with self._feed.pause(), self._change_applier.exclusive() as unmarked:
            catch_up.apply(unmarked)
            self._feed.require_claim()
            try:
                generation.switch()
            finally:
                self._feed.confirm_pause(catch_up.position)

    def _documents(self) -> Iterator[Document]:
        for batch in self._batches():
            yield from batch

    def _batches(self) -> Iterator[list[Document]]:
        after = -1
        while batch := self._feed.scan(after_row=after, limit=BATCH):
            yield batch
            after = batch[-1].memory.row


class _CatchUp:
    """Application to a generation of what was applied to the live index since the generation was begun.

    Pending changes are left to the indexer, which applies them to the generation when it is live: embedding a backlog
    takes minutes, and nothing else would be indexed in that time.
    """

    def __init__(self, feed: IndexFeed, generation: GenerationBuilder, position: int) -> None:
        """Apply to *generation*, which has every memory as of *position* or later."""
        self._feed = feed
        self._generation = generation
        self.position = position
        """The position up to which every change is applied to the generation."""
        self._beyond: set[int] = set()

    def apply(self, unmarked: Sequence[Change] = ()) -> int:
        """Apply what was applied to the live index since the last call; return the number of changes.

        Args:
            unmarked: Changes that were applied to the live index, and that the store may not have marked yet.
        """
        # Read before the changes: then every one up to it is among them.
        applied = self._feed.applied_position()
        count = self._write(unmarked)
        after = self.position
        while changes := self._feed.applied_changes(after, limit=CATCH_UP):
            count += self._write(changes)
            after = changes[-1].position
        self.position = max(self.position, applied)
        self._beyond = {position for position in self._beyond if position > self.position}
        return count

    def _write(self, changes: Sequence[Change]) -> int:
        new = [change for change in changes if change.position not in self._beyond]
        if new:
            rows = list(dict.fromkeys(change.row for change in new))
            self._generation.write(rows, self._feed.documents(rows))
            self._beyond.update(change.position for change in new)
        return len(new)
