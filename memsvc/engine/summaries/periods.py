"""Summaries of a month, a period or a topic, each updated under its own key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.errors import (
    DeadlineExceededError,
    LimitExceededError,
    MemoryExistsError,
    MemorySupersededError,
    MemsvcError,
    NothingToSummarizeError,
)
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import row_of
from memsvc.domain.limits import DERIVED_FROM, TITLE
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Json, Kind, Layer, Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Reach, Scope, Visibility
from memsvc.domain.search import Order, OrderField, PageCursor
from memsvc.domain.summaries import CATEGORY, PERIOD, Period, material_of, normal_topic, summary_key
from memsvc.domain.write_requests import Draft, OnDuplicate, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.commit.idempotency import (
    IdempotentExecutor,
    IdempotentRequest,
    IdempotentResult,
    not_found_error,
    request_digest,
)
from memsvc.engine.conflicts.extraction_marks import WITHHELD
from memsvc.engine.maintenance.step import StepPart, StepResult
from memsvc.engine.memories.summaries import memories_of
from memsvc.engine.memories.upsert import Upserter
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.summaries.summarizer import SummaryText, TextSummarizer
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.metadata import MemoryReads, Transaction
from memsvc.ports.operations import IntegrityReads, RowCursor
from memsvc.text.analysis import fold, query_terms, terms
from memsvc.text.context_phrases import day_text
from memsvc.text.extractive_summary import SummaryLine, quoted_by

METHOD = "SummarizePeriod"
MOST = 1_000
"""Maximum number of memories in one summary, the newest first."""
PAGE = 250
"""Memories read at a time to check their tags and categories."""
_ATTEMPTS = 3
_REMEMBERED = 50_000
"""Topics without material that the maintenance step remembers."""
_LABELS = "the check of tags and categories"


class PeriodSummarizer:
    """Writes summaries, each in one transaction."""

    def __init__(
        self,
        memory_builder: MemoryBuilder,
        upserter: Upserter,
        requests: IdempotentExecutor,
        sources: SummarySources,
        summarizer: TextSummarizer,
        *,
        most_tokens: int,
    ) -> None:
        """Write by the first three; *sources* loads the memories, which *summarizer* summarises.

        *most_tokens* limits a summary whose request names no limit.
        """
        self._memory_builder = memory_builder
        self._upserter = upserter
        self._requests = requests
        self._sources = sources
        self._summarizer = summarizer
        self._most_tokens = most_tokens

    def summarize(self, period_request: PeriodRequest, options: WriteOptions, deadline: Deadline) -> PeriodSummary:
        """Summarise memories and store the summary under its key; an earlier summary there gets a revision.

        Raises:
            NothingToSummarizeError: There are no such memories.
            MemoryExistsError: The key belongs to a memory that is no such summary.
            BackendUnavailableError: The lexical index cannot be searched for the topic.
            DeadlineExceededError: The deadline passed first; nothing was written.
            MemorySupersededError: The summary under the key was superseded.
            LimitExceededError: Other calls kept deleting memories to summarise; nothing was written.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(period_request) if options.request_id else ""
        request = IdempotentRequest(METHOD, options.request_id, digest, Reach.from_scope(period_request.scope))
        known = self._requests.find_answer(request)
        if known is not None:
            return _result_of(known)
        for _ in range(_ATTEMPTS):
            sources = self._sources.load(period_request.scope, period_request.period, period_request.topic, deadline)
            summary = self._summarize(period_request, sources, deadline)
            prepared = self._memory_builder.prepare(period_request.scope, _draft(period_request, sources, summary))
            note: Json = {"sources": len(sources), "notice": summary.notice}
            try:
                answer = self._requests.run_once_with_note(
                    request,
                    lambda transaction, prepared=prepared, note=note: ([self._store(transaction, prepared)], note),  # type: ignore[misc]
                )
            except _DeletedSourceError:
                continue
            result = _result_of(answer)
            return replace(result, written=replace(result.written, redactions=prepared.redactions))
        limit = "deletions of the memories to summarise at a time"
        raise LimitExceededError(limit)

    def _summarize(self, period_request: PeriodRequest, sources: Sequence[Memory], deadline: Deadline) -> SummaryText:
        texts = [memory.content for memory in sources if memory.content.strip()]
        if not texts:
            raise NothingToSummarizeError(period_request.period.name, period_request.topic)
        if self._summarizer.asks_a_model:
            texts = [f"{day_text(memory.moment)}: {memory.content}" for memory in sources]
        about = f" about {period_request.topic!r}" if period_request.topic else ""
        what = f"notes{about} of the time {period_request.period.name}, the oldest first"
        summary = self._summarizer.summarize(
            texts, what=what, most_tokens=period_request.most_tokens or self._most_tokens, deadline=deadline
        )
        if not summary.text:
            raise NothingToSummarizeError(period_request.period.name, period_request.topic)
        return summary

    def _store(self, transaction: Transaction, prepared: PreparedMemory) -> UpsertResult:
        memory = prepared.record.memory
        name = (memory.scope.project_id, memory.key)
        bearer = transaction.find_keys(memory.scope.owner, [name]).get(name)
        if bearer is not None and bearer.source != PERIOD:
            raise MemoryExistsError(bearer.id, key=bearer.key)
        found = memories_of(transaction, memory.scope.owner, memory.derived_from_ids)
        if any(name not in found or found[name].status in WITHHELD for name in memory.derived_from_ids):
            raise _DeletedSourceError
        [placed] = self._upserter.upsert(transaction, [prepared], OnDuplicate.KEEP_BOTH, None)
        if isinstance(placed, MemsvcError):
            raise placed
        assert isinstance(placed, UpsertResult)  # noqa: S101 - narrows the type
        return placed


class _DeletedSourceError(Exception):
    """A memory was deleted, purged or quarantined while it was summarised."""


@dataclass(frozen=True, slots=True)
class PeriodSummary:
    """A stored summary.

    Attributes:
        source_count: The number of summarised memories; the summary derives from the 64 most important ones.
        notice: The reason why the language model did not write it, if there is one.
    """

    written: WriteResult
    source_count: int
    notice: str = ""


@dataclass(frozen=True, slots=True)
class PeriodRequest:
    """A requested summary; *most_tokens* None means as in the settings, an empty topic means every topic."""

    scope: Scope
    period: Period
    topic: str
    most_tokens: int | None = None


def _draft(period_request: PeriodRequest, sources: Sequence[Memory], summary: SummaryText) -> Draft:
    title = (
        f"{period_request.period.name} {period_request.topic}" if period_request.topic else period_request.period.name
    )
    return Draft(
        summary.text,
        key=summary_key(period_request.period, period_request.topic),
        session_id="",
        layer=Layer.LONG_TERM,
        kind=Kind.SUMMARY,
        category=CATEGORY,
        title=title[:TITLE],
        event_time=max(memory.moment for memory in sources),
        source=PERIOD,
        metadata={"source_count": len(sources)},
        trust=min(memory.trust for memory in sources),
        derived_from_ids=tuple(memory.id for memory in _most_relevant(sources, summary.text)),
    )


def _most_relevant(sources: Sequence[Memory], summary: str) -> list[Memory]:
    """Return the sources of a summary: quoted ones first, then by importance, then the latest."""
    lines = quoted_by(summary, [SummaryLine("", memory.content) for memory in sources])
    quoted = {sources[place].id for _, places in lines for place in places}
    ordered = sorted(sources, key=lambda one: (one.id in quoted, one.importance, one.moment), reverse=True)
    return sorted(ordered[:DERIVED_FROM], key=lambda one: (one.moment, one.row))


def _result_of(answer: IdempotentResult) -> PeriodSummary:
    [written] = answer.results
    if not isinstance(written, WriteResult):
        raise not_found_error(written)
    note = answer.note
    assert isinstance(note, dict)  # noqa: S101 - narrows the type
    return PeriodSummary(written, int(str(note["sources"])), str(note["notice"]))


class SummarySources:
    """Loads memories of a period, of a topic, or of both."""

    def __init__(self, reads: MemoryReads, lexical: LexicalIndex, search_priority: SearchPriority) -> None:
        """Read from *reads*; find memories about a topic by *lexical*."""
        self._reads = reads
        self._lexical = lexical
        self._search_priority = search_priority

    def load(self, scope: Scope, period: Period, topic: str, deadline: Deadline) -> list[Memory]:
        """Return memories of exactly the scope's project in the order of their time, at most the newest `MOST`.

        With a *topic*, those that contain all its words, or have it as a tag or category. Words are normalised as in a
        search: case, accents, width and repeated white space are ignored. Filters distinguish such tags, so all
        memories of the period are checked.

        Raises:
            BackendUnavailableError: The lexical index cannot be searched for the topic.
            DeadlineExceededError: The deadline passed first.
        """
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        happened, written = material_of(period)
        if topic:
            found = self._about(topic, reach, (happened, written), deadline)
        else:
            found = self._page(reach, happened, OrderField.EVENT_TIME, None, MOST)
            found += self._page(reach, written, OrderField.CREATE_TIME, None, MOST)
        distinct = {memory.id: memory for memory in found if not memory.superseded_by_id}
        return sorted(distinct.values(), key=lambda memory: (memory.moment, memory.row))[-MOST:]

    def _about(self, topic: str, reach: Reach, periods: Iterable[Filter], deadline: Deadline) -> list[Memory]:
        wanted, label = query_terms(topic), _label(topic)
        found: list[Memory] = []
        for where, order in zip(periods, (OrderField.EVENT_TIME, OrderField.CREATE_TIME), strict=True):
            hits = self._lexical.search(wanted, reach=reach, where=where, limit=MOST, deadline=deadline)
            rows = list(dict.fromkeys(row_of(hit.entry_id) for hit in hits))
            found += [one for one in self._reads.by_rows(rows, reach=reach).values() if _contains(one, wanted)]
            labelled = (one for one in self._all(reach, where, order, deadline) if _is_labelled(one, label))
            found += islice(labelled, MOST)
        return found

    def _all(self, reach: Reach, where: Filter, order: OrderField, deadline: Deadline) -> Iterator[Memory]:
        """Yield all memories of a period, newest first."""
        after: PageCursor | None = None
        while page := self._page(reach, where, order, after, PAGE):
            yield from page
            if len(page) < PAGE:
                return
            if deadline.has_passed():
                raise DeadlineExceededError(_LABELS)
            self._search_priority.yield_to_searches()
            after = PageCursor(to_micros(page[-1].moment), page[-1].row)

    def _page(
        self, reach: Reach, where: Filter, order: OrderField, after: PageCursor | None, limit: int
    ) -> list[Memory]:
        return self._reads.page(reach=reach, where=where, order=Order(order), after=after, limit=limit)


def _contains(memory: Memory, wanted: Sequence[str]) -> bool:
    return set(wanted) <= set(terms(f"{memory.title}\n{memory.content}"))


def _is_labelled(memory: Memory, label: str) -> bool:
    return _label(memory.category) == label or any(_label(tag) == label for tag in memory.tags)


def _label(text: str) -> str:
    """Return the normalised form of a topic, tag or category."""
    return " ".join(map(fold, text.split()))


# The maintenance step SUMMARIZE.


@dataclass(frozen=True, slots=True)
class MonthRules:
    """The summaries of a month.

    Attributes:
        topics: Topics of which each month gets a summary, besides that of the whole month.
        least: The least number of memories of the month.
    """

    topics: tuple[str, ...]
    least: int


class SummarizeStep:
    """Summarises the last complete month of each project, as a whole and by topic. An existing summary stays."""

    kind = UpkeepStep.SUMMARIZE
    batch = 1

    def __init__(
        self,
        summarizer: PeriodSummarizer,
        reads: MemoryReads,
        places: IntegrityReads,
        rules: MonthRules,
        now: Callable[[], datetime],
    ) -> None:
        """Write by *summarizer*; *places* lists the projects, *now* is the clock."""
        self._summarizer = summarizer
        self._reads = reads
        self._places = places
        self._rules = rules
        self._now = now
        self._empty = LruCache[tuple[str, str, str], bool](_REMEMBERED)

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Find the projects that lack a summary of the month before *now*."""
        month = _last_month(now)
        places = self._next_places(area, after, limit)
        due = [change for place in places if (change := self._due(place, month, now)) is not None]
        is_over = len(places) < limit or bool(area.project_id)
        return StepPart(tuple(due), "" if is_over else json.dumps([places[-1].owner, places[-1].project_id]))

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Write the missing summaries, each in its own transaction: a project is done when all of them are stored."""
        month = _last_month(self._now())
        return StepResult(
            changed := tuple(one for one in due if self._summarize(one.scope, month)), len(due) - len(changed)
        )

    def _next_places(self, area: MaintenanceScope, after: str, limit: int) -> list[RowCursor]:
        if area.owner is None:
            return self._places.places(after=RowCursor(*json.loads(after)) if after else None, limit=limit)
        first = RowCursor(area.owner, area.project_id)
        if area.project_id:
            return [first]
        found = [] if after else [first]
        following = self._places.places(
            after=RowCursor(*json.loads(after)) if after else first, limit=max(0, limit - len(found))
        )
        return found + [place for place in following if place.owner == area.owner]

    def _due(self, place: RowCursor, month: Period, now: datetime) -> DueChange | None:
        tenant_id, _, user_id = place.owner.partition(OWNER_SEPARATOR)
        scope = Scope(user_id, place.project_id, tenant_id=tenant_id)
        if not self._missing(scope, month):
            return None
        reach, found = Reach.from_scope(scope, Visibility.PROJECT), list[Memory]()
        for where, order in zip(material_of(month), (OrderField.EVENT_TIME, OrderField.CREATE_TIME), strict=True):
            found += self._reads.page(reach=reach, where=where, order=Order(order), after=None, limit=self._rules.least)
        settled = [memory for memory in found if memory.update_time < now]
        if len(settled) < self._rules.least:
            return None
        return DueChange.of(self.kind, MaintenanceReason.MONTH_ENDED, max(settled, key=lambda one: one.moment))

    def _missing(self, scope: Scope, month: Period) -> list[str]:
        """Return the topics without a summary, "" for the whole month."""
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        keys = {topic: summary_key(month, normal_topic(topic)) for topic in ("", *self._rules.topics)}
        return [
            topic
            for topic, key in keys.items()
            if self._empty.get((scope.owner, scope.project_id, key)) is None
            and self._reads.get_by_key(key, reach=reach) is None
        ]

    def _summarize(self, memory_scope: Scope, month: Period) -> bool:
        scope = replace(memory_scope, agent_id="", session_id="")
        is_any = False
        for topic in self._missing(scope, month):
            name = normal_topic(topic)
            try:
                self._summarizer.summarize(PeriodRequest(scope, month, name), WriteOptions(), Deadline())
                is_any = True
            except (NothingToSummarizeError, MemoryExistsError, MemorySupersededError):
                self._empty.put((scope.owner, scope.project_id, summary_key(month, name)), value=True)
        return is_any


def _last_month(now: datetime) -> Period:
    """Return the month before that of *now*, in UTC."""
    before = now.astimezone(UTC).replace(day=1) - timedelta(days=1)
    month = Period.month(f"{before:%Y-%m}")
    assert month is not None  # noqa: S101 - the year has four digits
    return month
