"""Reports of use: they are stored as evidence, listed for a review, and summed up for the ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from memsvc.domain.errors import InvalidRequestError, MemoryNotFoundError, Violation
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach, Scope, SessionVisibility
from memsvc.domain.search import PageCursor
from memsvc.domain.secrets import Redactor
from memsvc.domain.use_feedback import (
    QUERY_KEPT,
    FeedbackRules,
    StoredUseReport,
    UseCall,
    UseCounts,
    UseFeedback,
    UseOutcome,
    UseReport,
    UseSelection,
)
from memsvc.domain.visibility import visible
from memsvc.engine.commit.idempotency import IdempotentExecutor, IdempotentRequest, request_digest
from memsvc.ports.features import UseReads
from memsvc.ports.metadata import MemoryReads, Transaction


@dataclass(frozen=True, slots=True)
class ContextCitations:
    """Query of a context, and the id and revision of each of the cited memories."""

    query: str
    memories: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class NewUseReports:
    """Reports to store.

    Attributes:
        query: The query as given.
        reports: Those with a citation have an empty memory_id.
        citations: The citations of those reports, by their places.
        context_cursor: The cursor of the context of the citations as given; empty: none.
    """

    scope: Scope
    query: str
    reports: tuple[UseReport, ...]
    citations: Mapping[int, str]
    context_cursor: str
    request_id: str


@dataclass(frozen=True, slots=True)
class UseReceipt:
    """Number of stored reports, and the places of those whose memory is missing."""

    stored: int
    missing: tuple[int, ...]


class UseReporter:
    """Storage of reports. It changes no memory, so indexes and watches see nothing of it."""

    def __init__(
        self, requests: IdempotentExecutor, reads: MemoryReads, now: Callable[[], datetime], redactor: Redactor
    ) -> None:
        """Write by *requests*; *now* is the clock, and *redactor* replaces secrets in queries."""
        self._requests = requests
        self._reads = reads
        self._now = now
        self._redactor = redactor

    def report(self, new: NewUseReports, resolve: Callable[[], ContextCitations]) -> UseReceipt:
        """Store reports in one transaction; *resolve* looks up their context, and is called if they have one.

        Raises:
            InvalidRequestError: Two reports are about the same memory, or *resolve* does not find the context.
            RequestIdReusedError: The request_id was used for another request.
        """
        request = IdempotentRequest("ReportUse", new.request_id, _digest(new), Reach.from_scope(new.scope))
        if new.context_cursor:
            # A repeated call must not depend on the context, which is gone after an hour.
            known = self._requests.find_answer(request)
            if known is not None:
                return _receipt(known.note)
            new = _with_context(new, resolve())
        ids = [one.memory_id for one in new.reports]
        _require_distinct(new, ids)
        stored = self._reads.get(ids, reach=request.reach)
        query, _ = self._redactor.text(new.query.strip())
        is_visible = [one in stored and _is_visible(stored[one], new.scope) for one in ids]

        def work(transaction: Transaction) -> tuple[tuple[()], Any]:
            # A memory may have been purged since.
            rows = transaction.rows(new.scope.owner, ids)
            places = [place for place, one in enumerate(ids) if is_visible[place] and one in rows]
            if places:
                reports = [new.reports[place] for place in places]
                call = UseCall(new.scope, query[:QUERY_KEPT], self._now(), reports)
                transaction.add_use(call, [rows[ids[place]] for place in places])
            missing = [place for place in range(len(ids)) if place not in set(places)]
            return (), {"stored": len(places), "missing": missing}

        return _receipt(self._requests.run_once_with_note(request, work).note)


def _digest(new: NewUseReports) -> str:
    if not new.request_id:
        return ""
    return request_digest(new.scope, new.query, new.reports, sorted(new.citations.items()), new.context_cursor)


def _receipt(note: Any) -> UseReceipt:
    answer = cast("Mapping[str, Any]", note)
    return UseReceipt(answer["stored"], tuple(answer["missing"]))


def _with_context(new: NewUseReports, context: ContextCitations) -> NewUseReports:
    """Return the reports with the memories that they cite, and the query of the context where none is given."""
    reports = list(new.reports)
    for place, (memory_id, revision) in zip(new.citations, context.memories, strict=True):
        reports[place] = replace(reports[place], memory_id=memory_id, revision=reports[place].revision or revision)
    return replace(new, reports=tuple(reports), query=new.query if new.query.strip() else context.query)


def _require_distinct(new: NewUseReports, ids: Sequence[str]) -> None:
    first = {one: place for place, one in reversed([*enumerate(ids)])}
    wrong = [
        Violation(
            f"reports[{place}].{'citation' if place in new.citations else 'memory_id'}",
            f"must name another memory than reports[{first[one]}]",
        )
        for place, one in enumerate(ids)
        if first[one] != place
    ]
    if wrong:
        raise InvalidRequestError(wrong)


def _is_visible(memory: Memory, scope: Scope, sessions: SessionVisibility = SessionVisibility.CURRENT) -> bool:
    return memory.status is not Status.DELETED and visible(memory, scope, sessions)


class UseReader:
    """Reads of stored reports and of what they lead to."""

    def __init__(self, uses: UseReads, reads: MemoryReads, rules: FeedbackRules) -> None:
        """Read from *uses*; *rules* decide whether reports join the ranking."""
        self._uses = uses
        self._reads = reads
        self.rules = rules

    def page(
        self,
        scope: Scope,
        *,
        outcome: UseOutcome | None,
        memory_id: str,
        sessions: SessionVisibility,
        after: PageCursor | None,
        limit: int,
    ) -> tuple[list[StoredUseReport], PageCursor | None]:
        """Return the next *limit* reports, newest first, and the cursor of the next page, None at the end.

        Raises:
            MemoryNotFoundError: *memory_id* is not empty and does not exist, is deleted, or is private to a session.
        """
        reach, row = Reach.from_scope(scope), None
        if memory_id:
            memory = self._reads.get([memory_id], reach=reach).get(memory_id)
            if memory is None or not _is_visible(memory, scope, sessions):
                raise MemoryNotFoundError(memory_id)
            row = memory.row
        selection = UseSelection(scope.session_id, sessions, outcome, row)
        place = None if after is None else (after.value or 0, after.row)
        found = self._uses.page(reach=reach, selection=selection, after=place, limit=limit + 1)
        if len(found) <= limit:
            return found, None
        last = found[limit - 1]
        return found[:limit], PageCursor(last.call, last.row)

    def counts(self, memory: Memory) -> UseCounts:
        """Return the counts of a memory that the caller may see."""
        return self._uses.counts(memory.row, owner=memory.scope.owner)

    def feedback(self, scope: Scope) -> UseFeedback:
        """Return the state of the reports of a user."""
        return self._uses.feedback(scope.owner)
