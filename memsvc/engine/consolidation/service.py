"""Consolidate: groups of memories of one project that say the same are merged, each by one transaction (row L5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.consolidation import Consolidated, ConsolidationReport, Group, mergeable
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
"""How many memories are looked at between two looks at the clock."""
MOST_CHARS = 1_000_000
"""How much text an answer holds, about: what is found next is for the next call."""
MOST_EXAMINED = 20_000
"""How many memories one call looks at."""
RESERVE_SECONDS = 0.5
"""Kept of the caller's time for the answer."""
_METHOD = "ConsolidateMemories"
_NEWEST_FIRST = Order(OrderField.CREATE_TIME)


@dataclass(frozen=True, slots=True)
class ConsolidationRequest:
    """What a caller wants to have consolidated.

    Attributes:
        threshold: The least similarity; None: that of the settings.
        after: Where the call before stopped; None: at the newest memory.
    """

    scope: Scope
    threshold: float | None
    most_groups: int
    after: PageCursor | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class _Run:
    """What was done so far, as ids and revisions, and where to go on (row None: at the end)."""

    groups: tuple[Mapping[str, Any], ...] = ()
    examined: int = 0
    skipped: int = 0
    after: PageCursor | None = None
    done: bool = False
    position: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the run as it is remembered of its request."""
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
    def recalled(cls, answer: Mapping[str, Any]) -> _Run:
        """Return the run as it was remembered."""
        after = None if answer["after"] is None else PageCursor(*answer["after"])
        return cls(
            tuple(answer["groups"]), answer["examined"], answer["skipped"], after, answer["done"], answer["position"]
        )


class ConsolidationService:
    """Consolidates the memories of a project on call."""

    def __init__(
        self,
        finder: CandidateFinder,
        merger: GroupMerger,
        committer: GroupCommitter,
        reads: MemoryReads,
        threshold: float,
    ) -> None:
        """Find by *finder* and merge by *merger*; *threshold* is for callers who name none."""
        self._finder = finder
        self._merger = merger
        self._committer = committer
        self._reads = reads
        self._threshold = threshold

    def preview(self, asked: ConsolidationRequest, deadline: Deadline) -> tuple[ConsolidationReport, PageCursor | None]:
        """Return what `run` would do now, and where to go on; nothing is changed.

        Raises:
            BackendUnavailableError: The vector index cannot be searched now.
            DeadlineExceededError: There was no time for even the first memories.
        """
        groups: list[Consolidated] = []
        examined, chars, after = 0, 0, asked.after
        for found, seen, following in self._found(asked, asked.after, 0, deadline):
            groups += [self._merger.preview(group) for group in found]
            examined, after = examined + seen, following
            chars += sum(map(_chars, found))
            if len(groups) >= asked.most_groups or chars > MOST_CHARS:
                break
        return ConsolidationReport(tuple(groups), examined), after

    def run(self, asked: ConsolidationRequest, deadline: Deadline) -> tuple[ConsolidationReport, PageCursor | None]:
        """Merge the groups among the next memories; return them once all is durable, and where to go on.

        Each group is one transaction. When the call breaks off, what was merged stays so, and the same request goes
        on; a finished request is answered as before.

        Raises:
            BackendUnavailableError: The vector index cannot be searched now, or the store is gone.
            DeadlineExceededError: There was no time for even the first memories.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(asked) if asked.request_id else ""
        reach = Reach.from_scope(asked.scope, Visibility.PROJECT)
        request = IdempotentRequest(_METHOD, asked.request_id, digest, reach)
        run = self._committer.submit(lambda transaction: _opened(transaction, request, asked)).value
        chars = 0
        if not run.done:
            for found, seen, following in self._found(asked, run.after, run.examined, deadline):
                for group in found:
                    run = self._merged(run, request, group, deadline)
                run = replace(run, examined=run.examined + seen, after=following)
                chars += sum(map(_chars, found))
                if len(run.groups) >= asked.most_groups or chars > MOST_CHARS:
                    break
            run = self._closed(run, request)
        return self._report(run, reach), run.after

    def _found(
        self, asked: ConsolidationRequest, after: PageCursor | None, examined: int, deadline: Deadline
    ) -> Iterator[tuple[list[Group], int, PageCursor | None]]:
        """Yield the groups of page after page with its size and where the next one begins, as long as there is time."""
        reach = Reach.from_scope(asked.scope, Visibility.PROJECT)
        threshold = self._threshold if asked.threshold is None else asked.threshold
        is_first = True
        while examined < MOST_EXAMINED:
            left = deadline.remaining()
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

    def _merged(self, run: _Run, request: IdempotentRequest, group: Group, deadline: Deadline) -> _Run:
        planned = self._merger.plan(group, deadline)

        def work(transaction: Transaction) -> _Run:
            merged = self._merger.merge(transaction, planned)
            if merged is None:
                return replace(run, skipped=run.skipped + 1)
            own = replace(run, groups=(*run.groups, _noted(merged)), position=transaction.position)
            remember_answer(transaction, request, own.as_json())
            return own

        return self._committer.submit(work).value

    def _closed(self, run: _Run, request: IdempotentRequest) -> _Run:
        done = replace(run, done=True)

        def work(transaction: Transaction) -> None:
            remember_answer(transaction, request, done.as_json())

        self._committer.submit(work)
        return done

    def _report(self, run: _Run, reach: Reach) -> ConsolidationReport:
        groups = [self._again(noted, reach) for noted in run.groups]
        present = tuple(group for group in groups if group is not None)
        return ConsolidationReport(present, run.examined, run.skipped, position=run.position)

    def _again(self, noted: Mapping[str, Any], reach: Reach) -> Consolidated | None:
        """Return a merged group as it was when it was merged; None when it was removed for good since."""
        merged = self._reads.revision(*noted["merged"], reach=reach)
        if merged is None:
            return None
        found = (self._reads.revision(memory_id, revision, reach=reach) for memory_id, revision in noted["originals"])
        originals = tuple(one for one in found if one is not None)
        return Consolidated(merged, originals, noted["similarity"], noted["notice"])


def _opened(transaction: Transaction, request: IdempotentRequest, asked: ConsolidationRequest) -> _Run:
    answer = recall_answer(transaction, request)
    if answer is not None:
        return _Run.recalled(answer)
    run = _Run(after=asked.after)
    remember_answer(transaction, request, run.as_json())
    return run


def _noted(merged: Consolidated) -> dict[str, Any]:
    return {
        "merged": [merged.merged.id, merged.merged.revision],
        "originals": [[original.id, original.revision] for original in merged.originals],
        "similarity": merged.similarity,
        "notice": merged.notice,
    }


def _chars(group: Group) -> int:
    return sum(len(member.content) for member in group.members)


def _cursor(memory: Memory) -> PageCursor:
    return PageCursor(to_micros(memory.create_time), memory.row)
