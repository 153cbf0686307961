"""Summaries whose sources are deleted, quarantined or restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from memsvc.domain.consolidation import SOURCE as MERGED
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Memory, Status
from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import SOURCE, Message, Role
from memsvc.domain.summaries import COMPACTION, MADE_SUMMARIES, summary_tokens
from memsvc.engine.conflicts.extraction_marks import WITHHELD
from memsvc.engine.conflicts.state_updates import ConflictStateUpdater
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.engine.records.memory_patch import apply_values
from memsvc.ports.metadata import Transaction
from memsvc.text.extractive_summary import SummaryLine, quoted_by, summary_of
from memsvc.text.paraphrase import remove_statements

_WEIGHTS = {Role.USER: 1.3, Role.ASSISTANT: 1.0, Role.TOOL: 0.4, Role.SYSTEM: 0.4}
"""Weight of sentences by role: users state facts, tools are verbose."""
_MOST_MERGED = 100
_AT_ONCE = timedelta(seconds=1)
"""What was deleted at most this long before or after another memory was deleted with it."""


class SummaryUpdater:
    """Keeps summaries from saying what is deleted or quarantined, within the transaction that changes their source.

    What an original alone says is removed from the memory that it was merged into, too.

    Applies to summaries of trimmed messages, of periods and topics, and of daily logs, and to summaries of these. The
    sentences of a source are removed; a summary that is no list of sentences of its sources, because a language model
    wrote it, is replaced by the most informative sentences of those that remain. A summary of which nothing remains is
    deleted.
    """

    def __init__(
        self, memory_builder: MemoryBuilder, record_builder: RecordBuilder, redactor: Redactor, lengths: SummaryLengths
    ) -> None:
        """Write by the first two; *redactor* replaces secrets as it did when the summaries were made."""
        self._memory_builder = memory_builder
        self._record_builder = record_builder
        self._redactor = redactor
        self._lengths = lengths
        self._conflict_states = ConflictStateUpdater(record_builder, memory_builder.now)

    def remove(self, transaction: Transaction, gone: Sequence[Memory], *, is_purged: bool = False) -> None:
        """Remove what memories of one owner say from the summaries that are made of them.

        Call it after a deletion or quarantine, and before a purge: then the earlier revisions of these summaries are
        removed, too. With a memory that a consolidation made go the originals, which say the same.
        """
        former = [*gone, *(one for memory in gone for one in originals_of(transaction, memory))]
        names = frozenset(one.id for one in former)
        wanted = list(dict.fromkeys(name for one in former for name in transaction.summaries_of(one)))
        for summary in self._load(transaction, wanted, former):
            if summary.id not in names and (is_purged or summary.status is not Status.DELETED):
                self._remove_from(transaction, summary, former, is_purged=is_purged)
        for memory in gone:
            if memory.superseded_by_id and memory.superseded_by_id not in names:
                self._remove_original(transaction, memory, is_purged=is_purged)

    def add(self, transaction: Transaction, before: Memory, restored: Memory) -> None:
        """Let the summaries that are made of *restored* quote it again; *before* is its deleted form."""
        for summary in self._load(transaction, transaction.summaries_of(restored), [restored]):
            sources = self._sources(transaction, summary, frozenset([restored.id]))
            lines = quoted_by(summary.content, [source.line for source in sources])
            content = self._extract(summary, [source for source in sources if source.is_current])
            if summary.status is not Status.DELETED:
                is_missing = not any(sources[place].is_named for _, places in lines for place in places)
                if is_missing and all(places for _, places in lines):
                    self._write(transaction, summary, {"content": content}, ChangeAction.UPDATED)
            elif were_deleted_together(summary, before) and not self._is_key_taken(transaction, summary):
                values = {"status": Status.ACTIVE, "content": content}
                self._write(transaction, summary, values, ChangeAction.RESTORED)

    @staticmethod
    def _load(transaction: Transaction, ids: Sequence[str], sources: Sequence[Memory]) -> Iterator[Memory]:
        """Yield the summaries with these ids, each as it is when its turn comes."""
        for name in ids:
            summary = memories_of(transaction, sources[0].scope.owner, [name]).get(name)
            if summary is not None and summary.source in MADE_SUMMARIES:
                yield summary

    @staticmethod
    def _is_key_taken(transaction: Transaction, summary: Memory) -> bool:
        name = (summary.scope.project_id, summary.key)
        return bool(summary.key) and name in transaction.find_keys(summary.scope.owner, [name])

    def _remove_from(
        self, transaction: Transaction, summary: Memory, former: Sequence[Memory], *, is_purged: bool
    ) -> None:
        names = frozenset(one.id for one in former)
        sources = self._sources(transaction, summary, names, names if is_purged else frozenset())
        # A summary that changed says less than it did: what it said is compared with its former text.
        sources += [
            _Source(SummaryLine("", text), is_named=True, is_current=False) for one in former for text in _lines_of(one)
        ]
        content = self._without(summary, sources)
        values: dict[str, Any] = {"content": content} if content else {"status": Status.DELETED}
        if is_purged:
            for field in ("derived_from_ids", "related_ids"):
                values[field] = tuple(one for one in getattr(summary, field) if one not in names)
        if is_purged and not content:
            self._purge(transaction, summary)
            return
        after = self._write(transaction, summary, values, ChangeAction.UPDATED if content else ChangeAction.DELETED)
        if is_purged:
            transaction.forget_revisions(after)
        if after is not summary or is_purged:
            self.remove(transaction, [summary], is_purged=is_purged)

    def _remove_original(self, transaction: Transaction, gone: Memory, *, is_purged: bool) -> None:
        """Remove what an original alone says from the memory that it was merged into."""
        owner = gone.scope.owner
        merged = memories_of(transaction, owner, [gone.superseded_by_id]).get(gone.superseded_by_id)
        if merged is None or merged.source != MERGED or merged.status is Status.DELETED:
            return
        known = memories_of(transaction, owner, merged.derived_from_ids)
        others = [one.content for one in known.values() if one.id != gone.id and one.status not in WITHHELD]
        content = remove_statements(merged.content, gone.content, others, merged.speaker)
        if is_purged and not content:
            self._purge(transaction, merged)
            return
        values: dict[str, Any] = {"content": content} if content else {"status": Status.DELETED}
        if is_purged:
            values["derived_from_ids"] = tuple(one for one in merged.derived_from_ids if one != gone.id)
        after = self._write(transaction, merged, values, ChangeAction.UPDATED if content else ChangeAction.DELETED)
        if is_purged and content != merged.content:
            transaction.forget_revisions(after)
        if after is not merged:
            self.remove(transaction, [merged], is_purged=is_purged)

    def _purge(self, transaction: Transaction, memory: Memory) -> None:
        self.remove(transaction, [memory], is_purged=True)
        self._conflict_states.update(transaction, [memory], gone=memory.id)
        transaction.purge(memory)

    def _without(self, summary: Memory, sources: Sequence[_Source]) -> str:
        """Return the text of *summary* that is left, empty if nothing is."""
        lines = quoted_by(summary.content, [source.line for source in sources])
        if all(places for _, places in lines):
            named = frozenset(place for place, source in enumerate(sources) if source.is_named)
            current = frozenset(place for place, source in enumerate(sources) if source.is_current)
            return "\n".join(line for line, places in lines if places.isdisjoint(named) or places & current)
        return self._extract(summary, [source for source in sources if source.is_current])

    def _extract(self, summary: Memory, sources: Sequence[_Source]) -> str:
        most = self._lengths.most_tokens(summary.source, sum(one.tokens for one in sources))
        return summary_of([one.line for one in sources], most_tokens=most, count=self._lengths.count)

    def _sources(
        self,
        transaction: Transaction,
        summary: Memory,
        names: frozenset[str],
        purged: frozenset[str] = frozenset(),
    ) -> list[_Source]:
        """Return the sources of a summary that exist.

        Named are the memories with these *names*, and the messages from which they were extracted; *purged* are those
        that are about to be.
        """
        owner = summary.scope.owner
        if summary.source == SOURCE:
            messages = transaction.sessions.messages_of(summary.id)
            linked = [frozenset(one.memory_id for one in message.record.extracted) for message in messages]
            states = _SourceStates(transaction, owner, frozenset[str]().union(*linked), purged)
            return [
                _Source(
                    summary_line(message, self._redactor),
                    is_named=message.memory.id in names or not names.isdisjoint(extracted),
                    is_current=states.is_shown(message.memory) and states.are_shown(extracted),
                    tokens=message.record.token_count,
                )
                for message, extracted in zip(messages, linked, strict=True)
            ]
        states = _SourceStates(transaction, owner, summary.derived_from_ids, purged)
        return [
            _Source(
                SummaryLine("", self._redactor.text(one.content)[0]),
                is_named=one.id in names,
                is_current=states.is_shown(one),
            )
            for one in states.memories.values()
        ]

    def _write(self, transaction: Transaction, summary: Memory, values: dict[str, Any], action: ChangeAction) -> Memory:
        """Write the next revision of a summary; return it, or *summary* itself if nothing changes."""
        now = self._memory_builder.now()
        after = apply_values(summary, values, now, self._memory_builder.reminder_detector)
        if after is summary:
            return summary
        record = self._record_builder.record(summary, after)
        if summary.source != SOURCE:  # equal summaries of different messages are no duplicates
            record, _ = self._record_builder.claim(transaction, record)
        transaction.update(summary, record, action)
        self._conflict_states.update(transaction, [record.memory])
        return record.memory


def summary_line(message: Message, redactor: Redactor) -> SummaryLine:
    """Return a message as summaries quote it, without its secrets.

    The text is redacted as a whole: a sentence may contain only half of a secret.
    """
    return SummaryLine(message.speaker, redactor.text(message.memory.content)[0], _WEIGHTS[message.record.role])


@dataclass(frozen=True, slots=True)
class SummaryLengths:
    """The lengths of summaries in tokens, as *count* counts them.

    Attributes:
        messages: The maximum of a summary of messages, whatever their length.
        period: The maximum of a period or topic.
        log: The maximum of a daily log.
    """

    count: Callable[[str], int]
    messages: int
    period: int
    log: int

    def most_tokens(self, source: str, tokens: int) -> int:
        """Return the maximum length of a summary with this `Memory.source`, of messages of so many *tokens*."""
        if source == SOURCE:
            return summary_tokens(tokens, self.messages)
        return self.log if source == COMPACTION else self.period


@dataclass(frozen=True, slots=True)
class _Source:
    """A source of a summary.

    Attributes:
        is_named: Whether it is one of the memories in question, or a message from which one was extracted.
        is_current: Whether summaries may quote it.
        tokens: The length of a message.
    """

    line: SummaryLine
    is_named: bool
    is_current: bool
    tokens: int = 0


class _SourceStates:
    """The memories with these ids, and whether summaries may quote them."""

    def __init__(self, transaction: Transaction, owner: str, ids: Iterable[str], purged: frozenset[str]) -> None:
        self.memories = memories_of(transaction, owner, ids)
        self._purged = purged
        merged = {one.superseded_by_id for one in self.memories.values() if _is_merged(one)}
        self._merged = memories_of(transaction, owner, merged)

    def are_shown(self, ids: Iterable[str]) -> bool:
        """Return whether all memories with these ids exist and may be quoted."""
        return all(one in self.memories and self.is_shown(self.memories[one]) for one in ids)

    def is_shown(self, memory: Memory) -> bool:
        """Return whether a memory is neither withheld nor merged into one that is."""
        if memory.id in self._purged or memory.status in WITHHELD:
            return False
        if not _is_merged(memory):
            return True
        merged = self._merged.get(memory.superseded_by_id)
        return merged is not None and merged.id not in self._purged and merged.status not in WITHHELD


def _is_merged(memory: Memory) -> bool:
    """Return whether another memory says the same in its place: it is the result of a consolidation or promotion."""
    return memory.status is Status.ARCHIVED and bool(memory.superseded_by_id)


def _lines_of(memory: Memory) -> list[str]:
    return memory.content.splitlines() if memory.kind is Kind.SUMMARY else []


def memories_of(transaction: Transaction, owner: str, ids: Iterable[str]) -> dict[str, Memory]:
    """Return the memories of *owner* with these ids, of any project and status, by id."""
    return {name: stored.memory for name, stored in transaction.get_many(owner, ids).items()}


def were_deleted_together(one: Memory, other: Memory) -> bool:
    """Return whether *one* was deleted when *other* was; *other* was quarantined or deleted at its last revision."""
    return one.status is Status.DELETED and abs(one.update_time - other.update_time) <= _AT_ONCE


def originals_deleted_with(transaction: Transaction, merged: Memory) -> list[Memory]:
    """Return the memories that were merged into this one, which is deleted, and were deleted with it."""
    found = memories_of(transaction, merged.scope.owner, merged.derived_from_ids).values()
    return [one for one in found if one.superseded_by_id == merged.id and were_deleted_together(one, merged)]


def originals_of(transaction: Transaction, merged: Memory) -> list[Memory]:
    """Return the archived memories that were merged into this one, and those that were merged into these.

    They say the same: who deletes the merged memory deletes them.
    """
    found: dict[str, Memory] = {}
    waiting = [] if merged.kind is Kind.SUMMARY else [*merged.derived_from_ids]
    while waiting and len(found) < _MOST_MERGED:
        name = waiting.pop()
        memory = None if name in found else memories_of(transaction, merged.scope.owner, [name]).get(name)
        if memory is not None and _is_merged(memory):
            found[name] = memory
            waiting += memory.derived_from_ids
    return [one for one in found.values() if one.id != merged.id]
