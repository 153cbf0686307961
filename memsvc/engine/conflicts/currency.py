"""Judgement of which retrieved texts are outdated by a newer one among them.

Two ways, and neither changes what is stored. A contradiction of statements, as at write time, is sure. Similarity is a
guess: two texts that are about the same attribute, of which the newer one tells how it is now. See
`memsvc.engine.conflicts.replacement`.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.domain.conflicts import CURRENT, Currency, CurrencyMark, Fact, contradicts, stored_mark
from memsvc.domain.errors import MemsvcError
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Kind, Memory, Recurrence, Reminder
from memsvc.domain.search import SearchHit
from memsvc.engine.conflicts.extraction_marks import ExtractionMarkReader, ExtractionMarks
from memsvc.engine.conflicts.replacement import (
    CONSTANTS,
    UNKNOWN_RELEVANCE,
    ComparedText,
    Floats,
    ReplacementModel,
    StatementReading,
)
from memsvc.engine.conflicts.resolution import ConflictMarkReader, ConflictMarks, Outranks
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError
from memsvc.text.analysis import is_han
from memsvc.text.capture_rules import bid_in
from memsvc.text.change_cues import ChangeCues
from memsvc.text.facts import concerns_answers, facts_in, loose_facts_in
from memsvc.text.passages import passage
from memsvc.text.reminder_extraction import (
    changed_event,
    concerns_another_event,
    is_beside_due,
    is_exception,
    moved_rhythm,
    names_dated_event,
    names_weekday,
    reminder_in,
    states_another_day,
)

COMPARED = 48
"""Hits that are compared by similarity, the most relevant first, and as many of the other memories."""
STATED = 40
"""Hits whose statements are compared."""
MOST_CHARS = 1_000
"""Longer texts say more than one thing and are not compared."""
DOUBTS = (0.06, 0.24, 0.6)
"""Least probability at which an older text is marked: of the first hits, the next, and all others.

What answers a question does more harm if it is outdated than what only is near it.
"""
LEAST_STATED = 0.005
"""Least probability, by similarity, at which loose statements that contradict each other mark the older text.

Of those of the users and lives of the benchmark 1 % of the right and two thirds of the wrong ones are less probable: by
such statements "the spider has left the building" contradicts any job.
"""
RANKS = (3, 12)
"""Ranks from which on the second and the third of `DOUBTS` hold."""
MARKED_LISTS = 256
"""Lists of memories whose marks are kept, apart from hits of queries."""
UNREAD_SECONDS = 1.0
"""As long they are kept if a memory has no embedding yet."""
SURE = 0.95
"""From this probability on a newer text may outdate several older ones."""
SAME = 0.85
"""Older texts that similar say the same."""
_RECORDS = frozenset({Kind.DOCUMENT, Kind.SUMMARY, Kind.SKILL, Kind.KNOWLEDGE})
_USER = frozenset({"user"})
"""The category of what a user says in a session."""
_UNNAMED = frozenset({"", "user", "human", "me", "assistant", "用户", "我", "助手"})
"""Speakers of no name, in lower case."""
log = logging.getLogger(__name__)
_Read: TypeAlias = tuple[tuple[Fact, ...], tuple[Fact, ...], ChangeCues]
VectorReader: TypeAlias = Callable[[Iterable[bytes]], Mapping[bytes, bytes]]
"""Returns stored embeddings (little-endian float32) by the SHA-256 digests of their passages."""


@dataclass(frozen=True, slots=True)
class _KeptMarks:
    """The marks of a list of memories, and the `time.monotonic` until which they hold."""

    marks: dict[str, CurrencyMark]
    until: float


@dataclass(frozen=True, slots=True)
class _Similarity:
    """Memories that were compared by similarity.

    Attributes:
        places: The place of each memory, by id.
        probabilities: The probability that a memory (row) is outdated by another (column), if that one is newer.
    """

    memories: Sequence[Memory]
    places: Mapping[str, int]
    texts: Sequence[ComparedText]
    probabilities: Floats


class CurrencyJudge:
    """Judges the hits of a query. Thread-safe."""

    def __init__(
        self,
        vectors: VectorReader,
        embedding_model: Callable[[], str],
        conflicts: ConflictMarkReader,
        extractions: ExtractionMarkReader,
        kept: int = 4_096,
    ) -> None:
        """Read the embeddings of *embedding_model* by *vectors*; keep what was read of *kept* texts.

        Of messages *extractions* says what became of the memories that were extracted from them.

        Similarity is judged for the embedding model alone whose constants are known. If they cannot be read, statements
        alone count, and the log says so.
        """
        self._vectors = vectors
        self._embedding_model = embedding_model
        self._conflicts = conflicts
        self._extractions = extractions
        self._model = _load_model()
        self._known = LruCache[tuple[str, str, bool], _Read](kept)
        self._readings = LruCache[bytes, StatementReading](kept)
        self._marks = LruCache[Hashable, _KeptMarks](MARKED_LISTS)

    def forget(self) -> None:
        """Drop what is kept of texts."""
        self._known.clear()
        self._readings.clear()
        self._marks.clear()

    def marks(
        self, hits: Sequence[SearchHit], others: Sequence[Memory] = (), valid_time: datetime | None = None
    ) -> dict[str, CurrencyMark]:
        """Return the marks of the memories that are not current, by id; *others* were not retrieved by the query.

        With *valid_time* what replaced a memory only later, or was said later, does not count. Both sides of an open
        conflict are CONFLICTED; a pair that was decided to stay is not compared. A memory that outranks a newer one is
        not marked because of it; the newer one is then CONFLICTED. If the embeddings cannot be read, statements alone
        count, and the log says so.
        """
        memories = [*(hit.memory for hit in hits), *others]
        extractions = self._extractions.read(memories)
        said = {one.id: one for found in extractions.memories.values() for one in found}
        known = _decided_for_messages(
            self._conflicts.read({one.id: one for one in (*said.values(), *memories)}.values()), extractions
        )
        if hits:
            marks = self._judge(hits, others, known, valid_time, extractions.marks if valid_time is None else {})
            return marks | _marks_of_sources(marks, extractions, known, {one.id for one in memories})
        # What is loaded at each start is the same for long.
        revisions = tuple((one.id, one.revision) for one in others)
        key = revisions, tuple(known.open_sides.items()), known.kept, valid_time
        kept = self._marks.get(key)
        if kept is not None and time.monotonic() < kept.until:
            return kept.marks
        marks = self._judge(hits, others, known, valid_time, {})
        is_complete = all(self._readings.get(_digest(one)) is not None for one in others if _may_change(one))
        self._marks.put(key, _KeptMarks(marks, math.inf if is_complete else time.monotonic() + UNREAD_SECONDS))
        return marks

    def _judge(
        self,
        hits: Sequence[SearchHit],
        others: Sequence[Memory],
        known: ConflictMarks,
        valid_time: datetime | None,
        of_messages: Mapping[str, CurrencyMark],
    ) -> dict[str, CurrencyMark]:
        memories = [*(hit.memory for hit in hits), *others]
        marks = {memory.id: mark for memory in memories if (mark := stored_mark(memory, valid_time)) is not CURRENT}
        marks |= of_messages
        superseded = {one for one, mark in marks.items() if mark.currency is Currency.OUTDATED}
        said = sorted((hit for hit in hits if _is_compared(hit.memory, valid_time)), key=lambda hit: -_relevance(hit))
        beside = [one for one in others if _is_compared(one, valid_time)]
        relevant = [(hit.memory, hit.relevance) for hit in said if hit.relevance is not None][:COMPARED]
        similar = self._compare_by_similarity(relevant, beside[:COMPARED])
        stated = [hit.memory for hit in said[:STATED]] + beside[:STATED]
        self._compare_statements(stated, marks, known.kept, similar)
        # What is known of the memory of a message says more than a comparison of its text.
        marks |= {one: mark for one, mark in of_messages.items() if mark.currency is Currency.OUTDATED}
        marks |= {one: mark for one, mark in known.open_sides.items() if one not in superseded}
        if similar is not None:
            marks |= _guesses(similar, marks, known.kept, self._conflicts.outranks)
        return marks

    def _compare_statements(
        self,
        memories: Sequence[Memory],
        marks: dict[str, CurrencyMark],
        kept: AbstractSet[tuple[str, str]],
        similar: _Similarity | None,
    ) -> None:
        ordered = sorted(memories, key=lambda one: one.moment)
        known = [self._read(memory) for memory in ordered]
        for currency, is_loose in ((Currency.POSSIBLY_OUTDATED, True), (Currency.OUTDATED, False)):
            stated = [loose if is_loose else sure for sure, loose, _ in known]
            # The newest one is named, and a sure contradiction counts more than a doubtful one.
            for at, later, is_of_answers in sorted(_contradictions(stated)):
                older, newer = ordered[at], ordered[later]
                if not older.moment < newer.moment or (older.id, newer.id) in kept:
                    continue
                if _is_of_another_speaker(older, newer):
                    continue
                if self._conflicts.outranks(older, newer):
                    if not is_loose:
                        marks.setdefault(newer.id, CurrencyMark(Currency.CONFLICTED))
                    continue
                is_sure = is_of_answers and older.kind is Kind.PREFERENCE
                is_doubted = is_loose and not is_sure and _is_improbable(similar, older, newer)
                is_of_others = is_loose and _is_of_others(older.content.lower(), known[at][2], known[later][2])
                if is_doubted or is_of_others or (is_loose and _is_about_another(older, newer)):
                    continue
                marks[older.id] = CurrencyMark(currency, newer.id)
        moved = [pair for pair in _moved_rhythms(ordered, kept) if not self._conflicts.outranks(*pair)]
        marks |= {older.id: CurrencyMark(Currency.OUTDATED, newer.id) for older, newer in moved}

    def _compare_by_similarity(
        self, hits: Sequence[tuple[Memory, float]], others: Sequence[Memory]
    ) -> _Similarity | None:
        """Return how probably memories replace each other, *hits* with their relevances; None if it is not known."""
        try:
            readings = self._readings_of([*(memory for memory, _ in hits), *others])
        except MemsvcError as error:
            log.warning("the currency of hits was judged by their statements alone: %s", error.message)
            return None
        placed = [(place, *hit) for place, hit in enumerate(hits)]
        placed += [(COMPARED, memory, UNKNOWN_RELEVANCE) for memory in others]
        known = [one for one in placed if one[1].id in readings]
        texts = [
            ComparedText(place, self._read(one)[2], readings[one.id], relevance) for place, one, relevance in known
        ]
        if self._model is None or len(texts) < 2:  # noqa: PLR2004 - a pair
            return None
        memories = [memory for _, memory, _ in known]
        places = {memory.id: at for at, memory in enumerate(memories)}
        return _Similarity(memories, places, texts, self._model.probabilities(texts))

    def _readings_of(self, memories: Sequence[Memory]) -> dict[str, StatementReading]:
        """Return what the layers read in the embeddings of memories, by id; those without one are left out."""
        if self._model is None or self._embedding_model() != self._model.embedding_model:
            return {}
        digests = {memory.id: _digest(memory) for memory in memories}
        found = {digest: known for digest in digests.values() if (known := self._readings.get(digest)) is not None}
        are_han = {digests[memory.id]: is_han(memory.content) for memory in memories if digests[memory.id] not in found}
        stored = self._vectors(are_han) if are_han else {}
        if stored:
            vectors = np.frombuffer(b"".join(stored.values()), dtype="<f4").reshape(len(stored), -1)
            read = self._model.layers.read(vectors, [are_han[digest] for digest in stored])
            for digest, reading in zip(stored, read, strict=True):
                self._readings.put(digest, reading)
                found[digest] = reading
        return {one: found[digest] for one, digest in digests.items() if digest in found}

    def _read(self, memory: Memory) -> _Read:
        """Return the sure and the loose statements of a memory, and its signs of a change."""
        voice, is_titled = _voice(memory), bool(memory.title)
        key = memory.content_hash, voice, is_titled
        known = self._known.get(key)
        if known is None:
            content = bid_in(memory.content)
            sure = facts_in(content, speaker=voice, is_titled=is_titled)
            cues = ChangeCues.of(content)
            known = sure, () if cues.is_denial else loose_facts_in(content, speaker=voice), cues
            self._known.put(key, known)
        return known


def _decided_for_messages(known: ConflictMarks, extractions: ExtractionMarks) -> ConflictMarks:
    """Return the conflicts of memories, of which the decisions hold for the messages that say the same, too."""
    holders: dict[str, list[str]] = defaultdict(list)
    for message_id, memories in extractions.memories.items():
        for memory in memories:
            holders[memory.id].append(message_id)
    if not holders:
        return known
    kept = {
        pair
        for older, newer in known.kept
        for pair in product((older, *holders.get(older, ())), (newer, *holders.get(newer, ())))
    }
    return ConflictMarks(known.open_sides, frozenset(kept))


def _marks_of_sources(
    marks: Mapping[str, CurrencyMark], extractions: ExtractionMarks, known: ConflictMarks, judged: AbstractSet[str]
) -> dict[str, CurrencyMark]:
    """Return the marks that messages have from their memories, unless they are surely outdated by what they say.

    That of an open conflict, or else that of the memories if all were judged and none is current.
    """
    found: dict[str, CurrencyMark] = {}
    for message_id, memories in extractions.memories.items():
        mark = marks.get(message_id, CURRENT)
        sides = [known.open_sides[one.id] for one in memories if one.id in known.open_sides]
        own = [marks.get(one.id, CURRENT) if one.id in judged else CURRENT for one in memories]
        if sides and mark.currency is not Currency.OUTDATED:
            found[message_id] = sides[-1]
        elif mark is CURRENT and own and CURRENT not in own:
            found[message_id] = own[-1]
    return found


def _moved_rhythms(ordered: Sequence[Memory], kept: AbstractSet[tuple[str, str]]) -> Iterator[tuple[Memory, Memory]]:
    """Yield the memories of what took place on a weekday, each with the newer one that says it moved to another.

    *ordered* by when they were said. Nothing unless exactly one earlier memory is about the event; those that say the
    same count as one.
    """
    naming = [one for one in ordered if one.reminder is not None or names_weekday(one.content)]
    moves = [(one, *found) for one in naming if (found := moved_rhythm(one.content, one.moment)) is not None]
    weekly = [(one, reminder) for one in naming if (reminder := _weekly_reminder(one)) is not None] if moves else []
    for newer, left, change in moves:
        now = _weekly_reminder(newer)
        if now is None:
            continue
        older: dict[str, list[Memory]] = defaultdict(list)
        for one, reminder in weekly:
            weekday = _weekday(reminder)
            is_left = weekday == left if left is not None else weekday != _weekday(now)
            if is_left and one.moment < newer.moment and not _is_of_another_speaker(one, newer):
                older[one.content].append(one)
        place = changed_event(change, list(older))
        if place is not None:
            yield from ((one, newer) for one in list(older.values())[place] if (one.id, newer.id) not in kept)


def _weekly_reminder(memory: Memory) -> Reminder | None:
    reminder = memory.reminder or reminder_in(memory.content, memory.moment)
    return reminder if reminder is not None and reminder.recurrence is Recurrence.WEEKLY else None


def _weekday(reminder: Reminder) -> int:
    """Return the weekday of a reminder of every week; 0: Monday."""
    return date(reminder.year, reminder.month, reminder.day).weekday()


def _is_improbable(similar: _Similarity | None, older: Memory, newer: Memory) -> bool:
    """Return whether two memories were compared by similarity, by which one hardly outdates the other."""
    if similar is None:
        return False
    at, later = similar.places.get(older.id), similar.places.get(newer.id)
    return at is not None and later is not None and bool(similar.probabilities[at, later] < LEAST_STATED)


def _guesses(
    similar: _Similarity,
    marks: Mapping[str, CurrencyMark],
    kept: AbstractSet[tuple[str, str]],
    outranks: Outranks,
) -> dict[str, CurrencyMark]:
    """Return the marks that similarity gives to memories without one, by id."""
    memories, texts = similar.memories, similar.texts
    days = np.array([memory.moment.date().toordinal() for memory in memories])
    taken = {mark.newer_id for mark in marks.values()}
    is_taken = np.array([memory.id in taken for memory in memories])
    may_outdate = np.array([not text.cues.is_denial for text in texts])
    contents = [memory.content.lower() for memory in memories]
    concerns = np.array(
        [
            [not _is_of_others(said, one.cues, other.cues) for other in texts]
            for said, one in zip(contents, texts, strict=True)
        ]
    )
    doubts = np.where((days[:, np.newaxis] < days) & may_outdate & concerns, similar.probabilities, 0.0)
    found = find_replaced(texts, doubts, is_taken)
    while others_meant := [
        (row, column) for row, column in found if _is_no_replacement(memories[row], memories[column], outranks)
    ]:
        # What a newer text is not about leaves it free to replace something else.
        doubts[tuple(zip(*others_meant, strict=True))] = 0.0
        found = find_replaced(texts, doubts, is_taken)
    pairs = ((memories[row], memories[column]) for row, column in sorted(found, key=lambda pair: float(doubts[pair])))
    return {
        older.id: CurrencyMark(Currency.POSSIBLY_OUTDATED, newer.id)
        for older, newer in pairs
        if older.id not in marks and (older.id, newer.id) not in kept
    }


def _is_no_replacement(older: Memory, newer: Memory, outranks: Outranks) -> bool:
    return outranks(older, newer) or _is_about_another(older, newer)


def _is_of_others(older: str, said: ChangeCues, newer: ChangeCues) -> bool:
    """Return whether a newer text speaks of persons alone whom the *older* text, in small letters, does not name.

    The older one, with the signs *said*, is about the user.
    """
    return said.is_of_self and newer.is_of_others and not any(person in older for person in newer.persons)


def _load_model() -> ReplacementModel | None:
    try:
        return ReplacementModel.load(CONSTANTS)
    except UnusableConstantsError as error:
        log.warning("the currency of hits is judged by their statements alone: %s", error)
        return None


def _contradictions(stated: Sequence[Sequence[Fact]]) -> Iterator[tuple[int, int, bool]]:
    """Yield the places of those whose facts a later one contradicts, each with the place of the later one.

    And whether they say how to answer, which is hardly ever read wrongly in a preference.
    """
    by_topic: dict[str, list[tuple[int, Fact]]] = defaultdict(list)
    for at, facts in enumerate(stated):
        for fact in facts:
            by_topic[fact.topic].append((at, fact))
    for known in by_topic.values():
        for (at, older), (later, newer) in combinations(known, 2):
            if at < later and contradicts(older, newer):
                yield at, later, concerns_answers(older)


def find_replaced(
    texts: Sequence[ComparedText], doubts: Floats, is_taken: npt.NDArray[np.bool_], least: Sequence[float] = DOUBTS
) -> list[tuple[int, int]]:
    """Return the pairs (older, newer) of which the older one is probably outdated.

    A newer text replaces one thing as a rule: what it contradicts (*is_taken*), or else what is most probable. It may
    be said more than once.
    """
    vectors = np.array([text.reading.vector for text in texts])
    is_same = vectors @ vectors.T >= SAME
    of_rank = np.array(least)[np.searchsorted(RANKS, [text.place for text in texts], side="right")]
    found = []
    for column in map(int, np.flatnonzero(doubts.max(axis=0, initial=0.0) > min(least))):
        of_older = doubts[:, column]
        is_chosen = of_older >= SURE
        if not is_taken[column]:
            is_chosen |= is_same[int(np.argmax(of_older))]
        found += [(int(row), column) for row in np.flatnonzero(is_chosen & (of_older > of_rank))]
    return found


def _is_of_another_speaker(older: Memory, newer: Memory) -> bool:
    """Return whether two people said two memories, and the newer one does not name who said the older one.

    Texts of a user without a name, or under that of the user_id, are compared with those of every speaker: of one user
    some memories may have the name and others not.
    """
    before, after = _named_speaker(older), _named_speaker(newer)
    if not before or not after or before == after:
        return False
    name = rf"\b{re.escape(before)}\b" if before.isascii() else re.escape(before)
    return re.search(name, newer.content.casefold()) is None


def _named_speaker(memory: Memory) -> str:
    """Return the name of the speaker in lower case; empty if there is none, or if it is the name of the role alone."""
    speaker = memory.speaker.strip().casefold()
    return "" if speaker in _UNNAMED or speaker == memory.scope.user_id.strip().casefold() else speaker


def _is_about_another(older: Memory, newer: Memory) -> bool:
    """Return whether a newer memory is of another speaker, or about another event, or another thing that has a day.

    A birthday or an anniversary does not change: what is only similar to it is about something else. Nor does an
    exception of one week change what takes place every week.
    """
    before, after = older.content, newer.content
    if _is_of_another_speaker(older, newer) or concerns_another_event(before, after):
        return True
    reminder = older.reminder or reminder_in(before, older.moment)
    if reminder is None:
        return names_dated_event(before, older.moment) and states_another_day(before, after, newer.moment)
    if reminder.recurrence in {Recurrence.WEEKLY, Recurrence.MONTHLY} and is_exception(after):
        return True
    is_yearly = reminder.recurrence is Recurrence.YEARLY
    return is_yearly or states_another_day(before, after, newer.moment) or is_beside_due(before, after)


def _digest(memory: Memory) -> bytes:
    """Return the digest of the passage that a short memory is embedded as."""
    text = passage(
        text=memory.content,
        speaker=memory.speaker,
        title=memory.title,
        heading_path=(),
        moment=memory.event_time,
    )
    return hashlib.sha256(text.encode()).digest()


def _may_change(memory: Memory) -> bool:
    """Return whether a memory says how things are: not what an assistant said, nor a document or a summary."""
    if len(memory.content) > MOST_CHARS or memory.kind in _RECORDS:
        return False
    return memory.kind is not Kind.MESSAGE or memory.category in _USER


def _is_compared(memory: Memory, valid_time: datetime | None) -> bool:
    """Return whether a memory says how things are, and said so by *valid_time*."""
    return _may_change(memory) and (valid_time is None or memory.moment <= valid_time)


def _voice(memory: Memory) -> str:
    """Return to whom "I" refers; empty for the user."""
    speaker = memory.speaker.strip()
    is_user = memory.category in _USER or speaker.casefold() == memory.scope.user_id.strip().casefold()
    return "" if is_user else speaker


def _relevance(hit: SearchHit) -> float:
    return hit.score if hit.relevance is None else hit.relevance
