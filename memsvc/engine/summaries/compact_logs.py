"""Compact: a daily log that has grown old is summed up and archived (row L6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.limits import RELATED_IDS
from memsvc.domain.maintenance import Area, Due, Reason, UpkeepStep
from memsvc.domain.memory import Kind, Layer, Memory, Status
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
"""A language model may be asked for each."""


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """When a log is old, in days after its day, and how long its summary may be."""

    days: float = 7.0
    most_tokens: int = 200


@dataclass(frozen=True, slots=True)
class CompactionWriters:
    """What compacting writes with."""

    committer: GroupCommitter
    memory_builder: MemoryBuilder
    record_builder: RecordBuilder
    upserter: Upserter


class _CannotBeSummedUpError(Exception):
    """The summary would not be in use: it would wait for a review, or its key is that of a superseded memory."""


class LogCompactor:
    """The step COMPACT.

    The log keeps its key, its content and its revisions, so it can be read and restored; it leaves the searches. What
    is restored is left alone until it is changed. Text that is added to it later is summed up anew.
    """

    def __init__(
        self, store: MetadataStore, writers: CompactionWriters, summarizer: TextSummarizer, rules: CompactionRules
    ) -> None:
        """Read *store* and write by *writers* what *summarizer* says, when *rules* say so."""
        self._store = store
        self._writers = writers
        self._summarizer = summarizer
        self._rules = rules
        self._now: Callable[[], datetime] = writers.memory_builder.now
        self._conflict_states = ConflictStateUpdater(writers.record_builder, self._now)

    @property
    def kind(self) -> UpkeepStep:
        """Name the step."""
        return UpkeepStep.COMPACT

    @property
    def batch(self) -> int:
        """Return how many logs are put away at a time."""
        return BATCH

    def find_due(self, area: Area, now: datetime, after: str, limit: int) -> StepPart:
        """Return the next logs that are old, by their keys."""
        before = day_before(now, self._rules.days)
        logs = self._store.logs.old_logs(area, before=before, after=_place(after), limit=limit)
        due = tuple(
            Due.of(UpkeepStep.COMPACT, Reason.OLD_LOG, log)
            for log in logs
            if log.update_time < now and is_old_log(log, before) and not self._is_summed_up(log)
        )
        return StepPart(due, _cursor(logs[-1]) if len(logs) == limit else BEGINNING)

    def apply(self, due: Sequence[Due]) -> StepResult:
        """Sum the logs up and put them away."""
        before = day_before(self._now(), self._rules.days)
        planned = [(one, self._planned(one, before)) for one in due]

        def work(transaction: Transaction) -> list[Due]:
            return [one for one, plan in planned if plan is not None and self._put_away(transaction, plan[0], plan[1])]

        changed = self._writers.committer.submit(work).value
        return StepResult(tuple(changed), len(due) - len(changed))

    def _is_summed_up(self, log: Memory) -> bool:
        """Return whether a log was put away as it stands, and brought back by somebody who wants it."""
        if not log.related_ids:
            return False
        related = self._store.memories.get(log.related_ids, reach=_reach(log))
        return any(sums_up(memory, log) for memory in related.values())

    def _planned(self, due: Due, before: str) -> tuple[Memory, PreparedMemory] | None:
        """Return a log with its summary, or None when it is no longer due."""
        reach = Reach(due.scope.owner, (due.scope.project_id,))
        log = self._store.memories.get([due.memory_id], reach=reach).get(due.memory_id)
        if log is None or not is_old_log(log, before) or self._is_summed_up(log):
            return None
        what = f"the log of the day {log.title or log.key}"
        summed = self._summarizer.summarize(
            [log.content], what=what, most_tokens=self._rules.most_tokens, deadline=Deadline()
        )
        draft = _draft(log, summed.text or log.content.strip()[:1] or "…")
        return log, self._writers.memory_builder.prepare(replace(log.scope, session_id=""), draft)

    def _put_away(self, transaction: Transaction, log: Memory, prepared: PreparedMemory) -> bool:
        found = transaction.get(log.id, reach=_reach(log))
        if found is None or found.revision != log.revision:
            return False
        name = (log.scope.project_id, prepared.record.memory.key)
        bearer = transaction.find_keys(log.scope.owner, [name]).get(name)
        if bearer is not None and bearer.source != COMPACTION:
            # Somebody else's memory has the key: the summary does without.
            prepared = _unnamed(prepared)
        try:
            with transaction.savepoint():
                self._replace(transaction, found, prepared)
        except _CannotBeSummedUpError:
            return False
        return True

    def _replace(self, transaction: Transaction, log: Memory, prepared: PreparedMemory) -> None:
        [placed] = self._writers.upserter.upsert(transaction, [prepared], OnDuplicate.KEEP_BOTH, None)
        if not isinstance(placed, UpsertResult) or placed.memory.status is not Status.ACTIVE:
            raise _CannotBeSummedUpError
        archived = _archived(log, placed.memory.id, self._now())
        transaction.update(log, self._writers.record_builder.record_with_same_content(archived), ChangeAction.UPDATED)
        self._conflict_states.update(transaction, [archived])


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
        derived_from=(log.id,),
    )


def _unnamed(prepared: PreparedMemory) -> PreparedMemory:
    record = prepared.record
    draft = replace(prepared.draft, key="")
    return replace(prepared, draft=draft, record=replace(record, memory=replace(record.memory, key="")))


def _archived(log: Memory, summary_id: str, now: datetime) -> Memory:
    related = tuple(dict.fromkeys((summary_id, *log.related_ids)))[:RELATED_IDS]
    return replace(log, status=Status.ARCHIVED, related_ids=related, update_time=now, revision=log.revision + 1)


def _reach(log: Memory) -> Reach:
    return Reach(log.scope.owner, (log.scope.project_id,))


def _place(cursor: str) -> LogPlace:
    row, _, key = cursor.partition(":")
    return LogPlace(key, int(row)) if row else LogPlace()


def _cursor(log: Memory) -> str:
    return f"{log.row}:{log.key}"
