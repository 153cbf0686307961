"""Marks of messages and summaries by the present state of the memories that say the same, and withheld messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memsvc.domain.conflicts import ConflictState, Currency, CurrencyMark
from memsvc.domain.history import is_valid_now
from memsvc.domain.memory import Kind, Layer, Memory, Status, content_hash
from memsvc.domain.scope import Reach
from memsvc.domain.sessions import SOURCE, ExtractedMemory
from memsvc.domain.summaries import MADE_SUMMARIES
from memsvc.ports.features import HistoryReads, SessionReads, StatementReads
from memsvc.ports.metadata import MemoryReads
from memsvc.text.capture_rules import bid_in
from memsvc.text.extractive_summary import SummaryLine, quoted_by
from memsvc.text.recalled_text import is_part_of, normal_text
from memsvc.text.statement_split import statements

MOST_STEPS = 8
"""Memories that superseded each other are followed so far."""
MOST_STATEMENTS = 200
"""Statements of a message among which what a memory said at first is looked for."""
HASHED_STATEMENTS = 100
"""Number of statements of a message that are compared with those that were deleted."""
_IN_USE = frozenset({Status.ACTIVE, Status.CONFLICTED})
WITHHELD = frozenset({Status.DELETED, Status.QUARANTINED})
"""Statuses of memories that no context shows, nor the messages and summaries that say the same."""


@dataclass(frozen=True, slots=True)
class ExtractionMarks:
    """The state of messages by the memories that were extracted from them.

    Attributes:
        marks: The marks of messages and summaries that say what is outdated, by id, naming the memory that says how it
            is now.
        withheld: The ids of the messages of which a memory was deleted, purged, quarantined or rejected, or is expired.
        memories: The current memories that say what messages say, by the ids of these.
    """

    marks: Mapping[str, CurrencyMark] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    memories: Mapping[str, Sequence[Memory]] = field(default_factory=dict)


class ExtractionMarkReader:
    """Looks up the memories that were extracted from messages, and the sources of summaries. Thread-safe."""

    def __init__(
        self,
        memories: MemoryReads,
        sessions: SessionReads,
        statements: StatementReads,
        now: Callable[[], datetime],
    ) -> None:
        """Read from these; *statements* says which memories were rejected in a conflict, *now* is the clock."""
        self._now = now
        self._memories = memories
        self._sessions = sessions
        self._statements = statements

    def read(self, memories: Iterable[Memory]) -> ExtractionMarks:
        """Return the marks of those of *memories* that are messages from which memories were extracted, or summaries.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        given = list(memories)
        messages = [one for one in given if one.layer is Layer.SESSION and one.kind is Kind.MESSAGE]
        extracted = self._sessions.extractions([one.row for one in messages]) if messages else {}
        found = self._of_messages([(one, extracted[one.row]) for one in messages if one.row in extracted])
        summaries = [one for one in given if one.kind is Kind.SUMMARY and one.source in MADE_SUMMARIES]
        return replace(found, marks={**found.marks, **self._of_summaries(summaries)}) if summaries else found

    def _of_messages(self, messages: Sequence[tuple[Memory, Sequence[ExtractedMemory]]]) -> ExtractionMarks:
        by_reach: dict[Reach, list[tuple[Memory, Sequence[ExtractedMemory]]]] = defaultdict(list)
        for message, extracted in messages:
            by_reach[Reach.from_scope(message.scope)].append((message, extracted))
        marks: dict[str, CurrencyMark] = {}
        withheld: set[str] = set()
        found: dict[str, Sequence[Memory]] = {}
        for reach, of_reach in by_reach.items():
            lines = self._lines(reach, [one.memory_id for _, extracted in of_reach for one in extracted])
            archived = [one.id for one in lines.values() if one.status is Status.ARCHIVED]
            rejected = rejected_ids(self._statements, reach.owner, archived)
            for message, extracted in of_reach:
                versions = [_CurrentVersion.of(one, lines, message, self._now()) for one in extracted]
                if any(version.current is None or version.current.id in rejected for version in versions):
                    withheld.add(message.id)
                    continue
                found[message.id] = [
                    version.current for version in versions if version.current is not None and version.is_said
                ]
                if mark := _mark_of(versions):
                    marks[message.id] = mark
        return ExtractionMarks(marks, frozenset(withheld), found)

    def _of_summaries(self, summaries: Sequence[Memory]) -> dict[str, CurrencyMark]:
        """Return the marks of summaries with lines of which no source holds any more."""
        summed_up = self._sessions.messages_of([one.id for one in summaries if one.source == SOURCE])
        messages = [message for found in summed_up.values() for message in found]
        states = self._of_messages([(one.memory, one.record.extracted) for one in messages if one.record.extracted])
        marks: dict[str, CurrencyMark] = {}
        for summary in summaries:
            if summary.source == SOURCE:
                sources = [
                    _SourceLine(SummaryLine(one.speaker, one.memory.content), states.marks.get(one.memory.id))
                    for one in summed_up.get(summary.id, ())
                ]
            else:
                sources = self._sources_of(summary)
            if mark := _mark_of_lines(summary, sources):
                marks[summary.id] = mark
        return marks

    def _sources_of(self, summary: Memory) -> list[_SourceLine]:
        """Return the memories that a summary was made of; one that changed since may be what the summary quotes."""
        found = self._memories.get(summary.derived_from_ids, reach=Reach.from_scope(summary.scope))
        sources: list[_SourceLine] = []
        for one in found.values():
            is_superseded = one.status is Status.SUPERSEDED
            newer = CurrencyMark(Currency.OUTDATED, one.superseded_by_id) if is_superseded else None
            changed_id = one.id if one.update_time > summary.update_time and one.status in _IN_USE else ""
            sources.append(_SourceLine(SummaryLine("", one.content), newer, changed_id))
        return sources

    def _lines(self, reach: Reach, ids: Sequence[str]) -> dict[str, Memory]:
        """Return the memories of these ids and those that superseded them, by id."""
        found: dict[str, Memory] = {}
        wanted = list(dict.fromkeys(ids))
        for _ in range(MOST_STEPS):
            if not wanted:
                break
            read = self._memories.get(wanted, reach=reach)
            found |= read
            successors = dict.fromkeys(one.superseded_by_id for one in read.values() if one.status is Status.SUPERSEDED)
            wanted = [one for one in successors if one and one not in found]
        return found


def rejected_ids(statements: StatementReads, owner: str, archived: Sequence[str]) -> frozenset[str]:
    """Return the ids of those *archived* memories that were archived because a conflict was decided against them."""
    if not archived:
        return frozenset()
    conflicts = statements.conflicts_of(owner, archived)
    return frozenset(one.newer_id for one in conflicts if one.state is ConflictState.REJECTED) & set(archived)


@dataclass(frozen=True, slots=True)
class _SourceLine:
    """A source of a summary.

    Attributes:
        mark: That of the source, if it does not hold any more.
        changed_id: The id of a memory that was changed after the summary was written; empty for others.
    """

    line: SummaryLine
    mark: CurrencyMark | None
    changed_id: str = ""


def _mark_of_lines(summary: Memory, sources: Sequence[_SourceLine]) -> CurrencyMark | None:
    """Return the mark of a summary: surely outdated if no line holds any more.

    A line that no source says is outdated if other lines are quotations and a source was changed: it was its line.
    """
    lines = quoted_by(summary.content, [source.line for source in sources])
    quoted = {place for _, places in lines for place in places}
    changed = [one.changed_id for place, one in enumerate(sources) if one.changed_id and place not in quoted]
    newer: list[str] = []
    for _, places in lines:
        marks = [sources[place].mark for place in places]
        if marks and all(mark is not None for mark in marks):
            newer.append(next(mark.newer_id for mark in marks if mark is not None))
        elif not marks and quoted and changed:
            newer.append(changed[-1])
    if not newer:
        return None
    return CurrencyMark(Currency.OUTDATED if len(newer) == len(lines) else Currency.POSSIBLY_OUTDATED, newer[-1])


@dataclass(frozen=True, slots=True)
class _CurrentVersion:
    """The current version of a memory that was extracted from a message, and whether the message says the same.

    Attributes:
        current: None if the memory is gone, or withheld.
        newer_id: The id of the memory that says how it is now; empty if none does.
    """

    current: Memory | None
    is_said: bool
    newer_id: str = ""

    @classmethod
    def of(
        cls, extracted: ExtractedMemory, lines: Mapping[str, Memory], message: Memory, now: datetime
    ) -> _CurrentVersion:
        first = lines.get(extracted.memory_id)
        if first is None:
            return cls(None, is_said=False)
        is_said = _still_says(first, extracted, message)
        current = first
        for newer in _successors(first, lines):
            # A merge of near-duplicates and a promotion say the same.
            is_said = is_said and current.id in newer.derived_from_ids
            current = newer
        if current.status in WITHHELD or _is_over(current, now):
            return cls(None, is_said)
        is_current = current.status is not Status.SUPERSEDED and is_valid_now(current, now)
        return cls(current, is_said and is_current, current.id if is_current else "")


def _is_over(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is past the expiry that a caller gave it; that of a SHORT_TERM one is a default."""
    return memory.layer is not Layer.SHORT_TERM and memory.expire_time is not None and memory.expire_time <= now


def _successors(memory: Memory, lines: Mapping[str, Memory]) -> Iterator[Memory]:
    """Yield the memories that superseded each other, those alone that are there."""
    known = {memory.id}
    while memory.status is Status.SUPERSEDED and memory.superseded_by_id not in known:
        newer = lines.get(memory.superseded_by_id)
        if newer is None:
            return
        known.add(newer.id)
        memory = newer
        yield newer


def _still_says(memory: Memory, extracted: ExtractedMemory, message: Memory) -> bool:
    """Return whether a memory says what a message said: its content is the same, or was only added to."""
    if not extracted.content_hash:
        return False
    if memory.revision == 1 or memory.content_hash == extracted.content_hash:
        return True
    said = [piece.text for piece in statements(message.content, most=MOST_STATEMENTS)]
    now = normal_text(memory.content)
    return any(
        is_part_of(normal_text(text), now)
        for text in (message.content.strip(), *said, *map(bid_in, said))
        if content_hash(text) == extracted.content_hash
    )


def _mark_of(versions: Sequence[_CurrentVersion]) -> CurrencyMark | None:
    """Return the mark of a message: it is surely outdated if it says nothing else that is known."""
    stale = [version for version in versions if version.current is not None and not version.is_said]
    if not stale:
        return None
    is_all = len(stale) == len(versions)
    return CurrencyMark(Currency.OUTDATED if is_all else Currency.POSSIBLY_OUTDATED, stale[-1].newer_id)


class WithheldMessages:
    """Finds the messages that contexts and summaries must not show. Thread-safe.

    These are messages from which a memory was extracted that was deleted, purged, quarantined or rejected, and messages
    that say what a memory said that was deleted after them.
    """

    def __init__(self, extractions: ExtractionMarkReader, history: HistoryReads) -> None:
        """Find them by what *extractions* and *history* say of deleted memories."""
        self._extractions = extractions
        self._history = history

    def among(self, messages: Sequence[Memory], *, reach: Reach) -> frozenset[str]:
        """Return the ids of those of *messages* that are withheld; the deleted memories are those of *reach*.

        To split 30 messages into statements takes 3 ms, which users who deleted nothing are spared.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        withheld = self._extractions.read(messages).withheld
        left = [one for one in messages if one.id not in withheld]
        if not left or not self._history.has_deleted(reach=reach):
            return withheld
        said = [_hashes_of_statements(one.content) for one in left]
        deleted = self._history.deletion_times(set().union(*said), reach=reach)
        return withheld.union(
            one.id
            for one, hashes in zip(left, said, strict=True)
            if any(deleted[found] >= one.create_time for found in hashes & deleted.keys())
        )


def _hashes_of_statements(message: str) -> set[str]:
    """Return the content hashes of what capture may have made of a message: its statements, and the whole."""
    said = [piece.text for piece in statements(message, most=HASHED_STATEMENTS)]
    return {content_hash(text) for text in (message.strip(), *said, *map(bid_in, said))}
