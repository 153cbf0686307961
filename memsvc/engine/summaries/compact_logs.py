"""The maintenance step COMPACT: old daily logs are summarised and archived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.limits import RELATED_IDS
from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.reminders import is_to_come
from memsvc.domain.scope import Reach
from memsvc.domain.summaries import CATEGORY, COMPACTION, day_before, is_old_log, log_key, log_metadata, sums_up
from memsvc.domain.write_requests import Draft, OnDuplicate, UpsertResult
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.maintenance.step import BEGINNING, StepPart, StepResult
from memsvc.engine.memories.upsert import Upserter
from memsvc.engine.records.memory_builder import MemoryBuilder, PreparedMemory, RecordBuilder
from memsvc.engine.summaries.summarizer import TextSummarizer
from memsvc.ports.metadata import MetadataStore, Transaction
from memsvc.ports.operations import LogPlace

BATCH = 8
"""Logs compacted at a time; a language model may be asked for each."""


class LogCompactor:
    """The maintenance step COMPACT.

    A compacted log keeps key, content and revisions, and can be read and restored; searches no longer return it. A
    restored log is left unchanged until it is edited. Text appended later leads to a new summary. A log with a reminder
    that is still to come stays: archived ones are not announced.
    """

    def __init__(
        self, store: MetadataStore, writers: CompactionWriters, summarizer: TextSummarizer, rules: CompactionRules
    ) -> None:
        """Read from *store*, write summaries of *summarizer* by *writers*, according to *rules*."""
        self._store = store
        self._writers = writers
        self._summarizer = summarizer
        self._rules = rules
        self._now: Callable[[], datetime] = writers.memory_builder.now
        self._conflict_states = ConflictStateUpdater(writers.record_builder, self._now)

    @property
    def kind(self) -> UpkeepStep:
        """Return the name of the step."""
        return UpkeepStep.COMPACT

    @property
    def batch(self) -> int:
        """Return the number of logs compacted at a time."""
        return BATCH

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return the next old logs, by key."""
        before = day_before(now, self._rules.days)
        logs = self._store.logs.old_logs(area, before=before, after=_place(after), limit=limit)
        due = tuple(
            DueChange.of(UpkeepStep.COMPACT, MaintenanceReason.OLD_LOG, log)
            for log in logs
            if log.update_time < now and _is_due(log, before, now) and not self._is_summarised(log)
        )
        return StepPart(due, _cursor(logs[-1]) if len(logs) == limit else BEGINNING)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Summarise and archive the logs."""
        planned = [(one, self._plan(one)) for one in due]

        def work(transaction: Transaction) -> list[DueChange]:
            return [one for one, plan in planned if plan is not None and self._compact(transaction, plan[0], plan[1])]

        changed = self._writers.committer.submit(work).value
        return StepResult(tuple(changed), len(due) - len(changed))

    def _is_summarised(self, log: Memory) -> bool:
        """Return whether the current content of a log was summarised, and the log restored since."""
        if not log.related_ids:
            return False
        related = self._store.memories.get(log.related_ids, reach=_reach_of(log))
        return any(sums_up(memory, log) for memory in related.values())

    def _plan(self, due: DueChange) -> tuple[Memory, PreparedMemory] | None:
        """Return a log with its summary, or None if it is no longer due."""
        reach = Reach(due.scope.owner, (due.scope.project_id,))
        log = self._store.memories.get([due.memory_id], reach=reach).get(due.memory_id)
        now = self._now()
        if log is None or not _is_due(log, day_before(now, self._rules.days), now) or self._is_summarised(log):
            return None
        what = f"the log of the day {log.title or log.key}"
        summed = self._summarizer.summarize(
            [log.content], what=what, most_tokens=self._rules.most_tokens, deadline=Deadline()
        )
        draft = _draft(log, summed.text or log.content.strip()[:1] or "…")
        return log, self._writers.memory_builder.prepare(replace(log.scope, session_id=""), draft)

    def _compact(self, transaction: Transaction, log: Memory, prepared: PreparedMemory) -> bool:
        found = transaction.get(log.id, reach=_reach_of(log))
        if found is None or found.revision != log.revision:
            return False
        name = (log.scope.project_id, prepared.record.memory.key)
        bearer = transaction.find_keys(log.scope.owner, [name]).get(name)
        if bearer is not None and bearer.source != COMPACTION:
            # Another memory has the key: the summary gets none.
            prepared = _without_key(prepared)
        try:
            with transaction.savepoint():
                self._replace(transaction, found, prepared)
        except _SummaryNotUsableError:
            return False
        return True

    def _replace(self, transaction: Transaction, log: Memory, prepared: PreparedMemory) -> None:
        [placed] = self._writers.upserter.upsert(transaction, [prepared], OnDuplicate.KEEP_BOTH, None)
        if not isinstance(placed, UpsertResult) or placed.memory.status is not Status.ACTIVE:
            raise _SummaryNotUsableError
        archived = _archive_log(log, placed.memory.id, self._now())
        transaction.update(log, self._writers.record_builder.record_with_same_content(archived), ChangeAction.UPDATED)
        self._conflict_states.update(transaction, [archived])


def _is_due(log: Memory, before: str, now: datetime) -> bool:
    return is_old_log(log, before) and not is_to_come(log.reminder, now)


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """The age of an old log, in days after its day, and the length of its summary."""

    days: float = 7.0
    most_tokens: int = 200


@dataclass(frozen=True, slots=True)
class CompactionWriters:
    """Dependencies for writing."""

    committer: GroupCommitter
    memory_builder: MemoryBuilder
    record_builder: RecordBuilder
    upserter: Upserter


class _SummaryNotUsableError(Exception):
    """The summary would not be in use: it needs a review, or its key belongs to a superseded memory."""


def _draft(log: Memory, summary: str) -> Draft:
    return Draft(
        summary,
        key=log_key(log),
        layer=Layer.LONG_TERM,
        kind=Kind.SUMMARY,
        category=CATEGORY,
        title=log.title,
        tags=log.tags,
        importance=log.importance,
        event_time=log.event_time,
        source=COMPACTION,
        metadata=log_metadata(log),
        origin=log.origin,
        trust=log.trust,
        derived_from_ids=(log.id,),
    )


def _without_key(prepared: PreparedMemory) -> PreparedMemory:
    record = prepared.record
    draft = replace(prepared.draft, key="")
    return replace(prepared, draft=draft, record=replace(record, memory=replace(record.memory, key="")))


def _archive_log(log: Memory, summary_id: str, now: datetime) -> Memory:
    related = tuple(dict.fromkeys((summary_id, *log.related_ids)))[:RELATED_IDS]
    return replace(log, status=Status.ARCHIVED, related_ids=related, update_time=now, revision=log.revision + 1)


def _reach_of(log: Memory) -> Reach:
    return Reach(log.scope.owner, (log.scope.project_id,))


def _place(cursor: str) -> LogPlace:
    row, _, key = cursor.partition(":")
    return LogPlace(key, int(row)) if row else LogPlace()


def _cursor(log: Memory) -> str:
    return f"{log.row}:{log.key}"
