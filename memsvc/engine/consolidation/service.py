"""Consolidation on request: groups of equivalent memories of a project are merged, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.consolidation import Consolidation, ConsolidationReport, MemoryGroup, mergeable
from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.search import Order, OrderField, PageCursor
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.consolidation.candidates import CandidateFinder
from memsvc.engine.consolidation.merge import GroupMerger
from memsvc.ports.metadata import MemoryReads, Transaction

PAGE = 64
"""Memories examined between two checks of the deadline."""
MOST_CHARS = 1_000_000
"""Approximate amount of text in one answer; more groups are left to the next call."""
MOST_EXAMINED = 20_000
"""Memories examined in one call."""
RESERVE_SECONDS = 0.5
"""Time reserved for the answer."""
_METHOD = "ConsolidateMemories"
_NEWEST_FIRST = Order(OrderField.CREATE_TIME)


class ConsolidationService:
    """Consolidates the memories of a project on request."""

    def __init__(
        self,
        finder: CandidateFinder,
        merger: GroupMerger,
        committer: GroupCommitter,
        reads: MemoryReads,
        threshold: float,
    ) -> None:
        """Find by *finder*, merge by *merger*; *threshold* is the default."""
        self._finder = finder
        self._merger = merger
        self._committer = committer
        self._reads = reads
        self._threshold = threshold

    def preview(
        self, wanted: ConsolidationRequest, deadline: Deadline
    ) -> tuple[ConsolidationReport, PageCursor | None]:
        """Return what `run` would do now, and the next cursor, without changing anything.

        Raises:
            BackendUnavailableError: The vector index cannot be searched.
            DeadlineExceededError: There was no time for the first memories.
        """
        groups: list[Consolidation] = []
        examined, chars, after = 0, 0, wanted.after
        for found, seen, following in self._find_groups(wanted, wanted.after, 0, deadline):
            groups += [self._merger.preview(group) for group in found]
            examined, after = examined + seen, following
            chars += sum(map(_chars, found))
            if len(groups) >= wanted.most_groups or chars > MOST_CHARS:
                break
        return ConsolidationReport(tuple(groups), examined), after

    def run(self, wanted: ConsolidationRequest, deadline: Deadline) -> tuple[ConsolidationReport, PageCursor | None]:
        """Merge the groups among the next memories; return them once all are durable, and the next cursor.

        Each group is one transaction. An interrupted call keeps its merges, and the same request continues; a finished
        request returns its first answer.

        Raises:
            BackendUnavailableError: The vector index cannot be searched, or the store cannot be reached.
            DeadlineExceededError: There was no time for the first memories.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(wanted) if wanted.request_id else ""
        reach = Reach.from_scope(wanted.scope, Visibility.PROJECT)
        request = IdempotentRequest(_METHOD, wanted.request_id, digest, reach)
        run = self._committer.submit(lambda transaction: _start(transaction, request, wanted)).value
        chars = 0
        if not run.done:
            for found, seen, following in self._find_groups(wanted, run.after, run.examined, deadline):
                for group in found:
                    run = self._merge(run, request, group, deadline)
                run = replace(run, examined=run.examined + seen, after=following)
                chars += sum(map(_chars, found))
                if len(run.groups) >= wanted.most_groups or chars > MOST_CHARS:
                    break
            run = self._finish(run, request)
        return self._report(run, reach), run.after

    def _find_groups(
        self, wanted: ConsolidationRequest, after: PageCursor | None, examined: int, deadline: Deadline
    ) -> Iterator[tuple[list[MemoryGroup], int, PageCursor | None]]:
        """Yield the groups of each page with its size and the next cursor, as long as there is time."""
        reach = Reach.from_scope(wanted.scope, Visibility.PROJECT)
        threshold = self._threshold if wanted.threshold is None else wanted.threshold
        is_first = True
        while examined < MOST_EXAMINED:
            left = deadline.remaining_seconds()
            if not is_first and left is not None and left < RESERVE_SECONDS:
                return
            page = self._reads.page(reach=reach, where=mergeable(), order=_NEWEST_FIRST, after=after, limit=PAGE)
            try:
                groups = self._finder.groups(page, threshold, deadline)
            except DeadlineExceededError:
                if is_first:
                    raise
                return
            is_first = False
            examined += len(page)
            after = _cursor(page[-1]) if len(page) == PAGE else None
            yield groups, len(page), after
            if after is None:
                return

    def _merge(
        self, run: _ConsolidationRun, request: IdempotentRequest, group: MemoryGroup, deadline: Deadline
    ) -> _ConsolidationRun:
        planned = self._merger.plan(group, deadline)

        def work(transaction: Transaction) -> _ConsolidationRun:
            merged = self._merger.merge(transaction, planned)
            if merged is None:
                return replace(run, skipped=run.skipped + 1)
            own = replace(run, groups=(*run.groups, _group_as_json(merged)), position=transaction.position)
            remember_answer(transaction, request, own.as_json())
            return own

        return self._committer.submit(work).value

    def _finish(self, run: _ConsolidationRun, request: IdempotentRequest) -> _ConsolidationRun:
        done = replace(run, done=True)

        def work(transaction: Transaction) -> None:
            remember_answer(transaction, request, done.as_json())

        self._committer.submit(work)
        return done

    def _report(self, run: _ConsolidationRun, reach: Reach) -> ConsolidationReport:
        groups = [self._load_group(noted, reach) for noted in run.groups]
        present = tuple(group for group in groups if group is not None)
        return ConsolidationReport(present, run.examined, run.skipped, position=run.position)

    def _load_group(self, noted: Mapping[str, Any], reach: Reach) -> Consolidation | None:
        """Return a merged group as it was when it was merged; None if it was purged since."""
        merged = self._reads.revision(*noted["merged"], reach=reach)
        if merged is None:
            return None
        found = (self._reads.revision(memory_id, revision, reach=reach) for memory_id, revision in noted["originals"])
        originals = tuple(one for one in found if one is not None)
        return Consolidation(merged, originals, noted["similarity"], noted["notice"])


@dataclass(frozen=True, slots=True)
class ConsolidationRequest:
    """A requested consolidation.

    Attributes:
        threshold: The minimum similarity; None: that of the settings.
        after: The cursor of the previous call; None: start with the newest memory.
    """

    scope: Scope
    threshold: float | None
    most_groups: int
    after: PageCursor | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class _ConsolidationRun:
    """The progress: ids and revisions of merged groups, and the next cursor (row None: at the end)."""

    groups: tuple[Mapping[str, Any], ...] = ()
    examined: int = 0
    skipped: int = 0
    after: PageCursor | None = None
    done: bool = False
    position: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the run as JSON, as stored with its request."""
        after = None if self.after is None else [self.after.value, self.after.row]
        return {
            "groups": list(self.groups),
            "examined": self.examined,
            "skipped": self.skipped,
            "after": after,
            "done": self.done,
            "position": self.position,
        }

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> _ConsolidationRun:
        """Return the run from its stored form."""
        after = None if answer["after"] is None else PageCursor(*answer["after"])
        return cls(
            tuple(answer["groups"]), answer["examined"], answer["skipped"], after, answer["done"], answer["position"]
        )


def _start(transaction: Transaction, request: IdempotentRequest, wanted: ConsolidationRequest) -> _ConsolidationRun:
    answer = recall_answer(transaction, request)
    if answer is not None:
        return _ConsolidationRun.from_json(answer)
    run = _ConsolidationRun(after=wanted.after)
    remember_answer(transaction, request, run.as_json())
    return run


def _group_as_json(merged: Consolidation) -> dict[str, Any]:
    return {
        "merged": [merged.merged.id, merged.merged.revision],
        "originals": [[original.id, original.revision] for original in merged.originals],
        "similarity": merged.similarity,
        "notice": merged.notice,
    }


def _chars(group: MemoryGroup) -> int:
    return sum(len(member.content) for member in group.members)


def _cursor(memory: Memory) -> PageCursor:
    return PageCursor(to_micros(memory.create_time), memory.row)
