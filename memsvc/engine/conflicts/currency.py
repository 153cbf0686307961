"""Judgement of which retrieved texts are outdated by a newer one among them.

Two ways, and neither changes what is stored. A contradiction of statements, as at write time, is sure. Similarity is a
guess: two texts that fit the same query, of which the newer one resembles the older one and tells of a change, are
probably about the same thing. Its probability comes from a logistic regression, fitted by
`python -m tests.bench.agent_day.currency` on scripted users.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import TypeAlias

import numpy as np

from memsvc.domain.conflicts import CURRENT, Currency, CurrencyMark, Fact, contradicts, stored_mark
from memsvc.domain.errors import MemsvcError
from memsvc.domain.index_entries import View, entry_id
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Kind, Memory
from memsvc.domain.search import SearchHit
from memsvc.engine.conflicts.resolution import ConflictMarkReader
from memsvc.ports.change_feed import TokenStore
from memsvc.ports.models import Vectors
from memsvc.text.change_cues import ChangeCues
from memsvc.text.facts import facts_in, loose_facts_in

COMPARED = 16
"""Hits that are compared by similarity, the most relevant first."""
STATED = 40
"""Hits whose statements are compared."""
FIRST = 2
"""Ranks that count as first."""
MOST_CHARS = 1_000
"""Longer texts say more than one thing and are not compared."""
TOKEN_BYTES = 16
"""Bytes of a stored token: the signs of its 128 values."""
HELD = 0.5
"""A text holds a token of another if one of its own is that similar."""
DOUBT = 0.4
"""Least probability at which an older text is marked: of users that the weights were not fitted on, it marks 52 % of
the outdated hits among the compared ones, and 3.5 % of the current facts."""
_RECORDS = frozenset({Kind.DOCUMENT, Kind.SUMMARY, Kind.SKILL, Kind.KNOWLEDGE})
_USER = frozenset({"user"})
"""The category of what a user says in a session."""
log = logging.getLogger(__name__)
_Read: TypeAlias = tuple[tuple[Fact, ...], tuple[Fact, ...], ChangeCues]


@dataclass(frozen=True, slots=True, eq=False)
class ComparedText:
    """A text with what its comparison needs.

    Attributes:
        moment: When it was said or happened.
        relevance: Of the query, in 0..1.
        place: Its rank among the compared texts, from 0.
        tokens: Token vectors of length 1, at least one.
    """

    moment: datetime
    relevance: float
    place: int
    cues: ChangeCues
    tokens: Vectors


FEATURES = (
    "relevance of older", "relevance of newer", "token similarity", "tokens held", "pooled similarity", "shared words",
    "change", "change and similarity", "change in older", "addition", "numbers differ", "newer asks", "older asks",
    "older is first", "newer is first", "intercept",
)  # fmt: skip
WEIGHTS = (
    0.12, -0.09, 0.32, 2.07, 4.7, 1.38, 0.36, 2.21, -0.42, -0.36, 0.88, -1.61, -0.93, 0.69, 0.68, -8.06,
)  # fmt: skip


def pair_features(older: ComparedText, newer: ComparedText) -> tuple[float, ...]:
    """Return the features of a pair, in the order of `FEATURES`."""
    cosines = older.tokens @ newer.tokens.T
    of_older = cosines.max(axis=1)
    similarity = max(float(of_older.mean()), float(cosines.max(axis=0).mean()))
    pooled = older.tokens.mean(axis=0) @ newer.tokens.mean(axis=0)
    lengths = float(np.linalg.norm(older.tokens.mean(axis=0)) * np.linalg.norm(newer.tokens.mean(axis=0)))
    one, two = older.cues, newer.cues
    is_change = float(two.changes > 0)
    return (
        _logit(older.relevance),
        _logit(newer.relevance),
        similarity,
        float((of_older > HELD).mean()),
        float(pooled) / max(lengths, 1e-9),
        min(3.0, len(one.terms & two.terms)),
        min(2.0, two.changes),
        is_change * similarity,
        float(one.changes > 0),
        float(two.is_addition),
        float(bool(one.numbers and two.numbers and not one.numbers & two.numbers)),
        float(two.is_question),
        float(one.is_question),
        float(older.place < FIRST),
        float(newer.place < FIRST),
        1.0,
    )


def _logit(probability: float) -> float:
    bounded = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(bounded / (1 - bounded))


class CurrencyJudge:
    """Judges the hits of a query. Thread-safe."""

    def __init__(
        self,
        tokens: TokenStore,
        token_model: Callable[[], str],
        conflicts: ConflictMarkReader,
        kept: int = 4_096,
    ) -> None:
        """Read the tokens of *token_model* from *tokens*; keep the statements and signs of *kept* texts."""
        self._tokens = tokens
        self._conflicts = conflicts
        self._token_model = token_model
        self._known = LruCache[str, _Read](kept)

    def forget(self) -> None:
        """Drop what is kept of texts."""
        self._known.clear()

    def marks(self, hits: Sequence[SearchHit], others: Sequence[Memory] = ()) -> dict[str, CurrencyMark]:
        """Return the marks of the memories that are not current, by id; of *others* only statements are compared.

        Both sides of an open conflict are CONFLICTED; a pair that was decided to stay is not compared. If the tokens
        cannot be read, statements alone count, and the log says so.
        """
        memories = [*(hit.memory for hit in hits), *others]
        marks = {memory.id: mark for memory in memories if (mark := stored_mark(memory)) is not CURRENT}
        superseded = {one for one, mark in marks.items() if mark.currency is Currency.OUTDATED}
        said = sorted((hit for hit in hits if _may_change(hit.memory)), key=lambda hit: -_relevance(hit))
        stated = [hit.memory for hit in said[:STATED]] + [one for one in others if _may_change(one)][:STATED]
        known = self._conflicts.read(memories)
        self._compare_statements(stated, marks, known.kept)
        marks |= {one: mark for one, mark in known.open_sides.items() if one not in superseded}
        self._compare_similarity([hit for hit in said if hit.relevance is not None][:COMPARED], marks)
        return marks

    def _compare_statements(
        self, memories: Sequence[Memory], marks: dict[str, CurrencyMark], kept: AbstractSet[tuple[str, str]]
    ) -> None:
        known = [(memory, self._read(memory)) for memory in memories]
        for currency, is_loose in ((Currency.POSSIBLY_OUTDATED, True), (Currency.OUTDATED, False)):
            read = [(memory, loose if is_loose else sure) for memory, (sure, loose, _) in known]
            stated = sorted((pair for pair in read if pair[1]), key=lambda pair: _moment(pair[0]))
            for (older, said), (newer, then) in combinations(stated, 2):
                is_kept = (older.id, newer.id) in kept
                if _moment(older) < _moment(newer) and not is_kept and _contradict(said, then):
                    # The last one is the newest, and a sure contradiction counts more than a doubtful one.
                    marks[older.id] = CurrencyMark(currency, newer.id)

    def _compare_similarity(self, hits: Sequence[SearchHit], marks: dict[str, CurrencyMark]) -> None:
        entries = {entry_id(hit.memory.row, View.CHUNK, hit.chunk_ordinal): hit for hit in hits}
        try:
            stored = self._tokens.tokens(self._token_model(), list(entries)) if len(entries) > 1 else {}
        except MemsvcError as error:
            log.warning("the currency of hits was judged by their statements alone: %s", error.message)
            return
        texts: list[tuple[Memory, ComparedText]] = []
        for place, (entry, hit) in enumerate(entries.items()):
            packed = stored.get(entry, b"")
            if packed and len(packed) % TOKEN_BYTES == 0:
                cues = self._read(hit.memory)[2]
                compared = ComparedText(_moment(hit.memory), hit.relevance or 0.0, place, cues, unpack_signs(packed))
                texts.append((hit.memory, compared))
        texts.sort(key=lambda pair: pair[1].moment)
        guesses: dict[str, tuple[float, str]] = {}
        for (older, one), (newer, two) in combinations(texts, 2):
            if one.moment.date() < two.moment.date() and older.id not in marks:
                doubt = probability(one, two)
                if doubt > max(DOUBT, guesses.get(older.id, (0.0, ""))[0]):
                    guesses[older.id] = doubt, newer.id
        marks |= {older: CurrencyMark(Currency.POSSIBLY_OUTDATED, newer) for older, (_, newer) in guesses.items()}

    def _read(self, memory: Memory) -> _Read:
        """Return the sure and the loose statements of a memory, and its signs of a change."""
        key = f"{memory.content_hash}{memory.speaker}"
        known = self._known.get(key)
        if known is None:
            content, voice = memory.content, _voice(memory)
            sure = facts_in(content, speaker=voice, is_titled=bool(memory.title))
            known = sure, loose_facts_in(content, speaker=voice), ChangeCues.of(content)
            self._known.put(key, known)
        return known


def _contradict(said: Sequence[Fact], then: Sequence[Fact]) -> bool:
    topics = {one.topic: one for one in said}
    return any(two.topic in topics and contradicts(topics[two.topic], two) for two in then)


def probability(older: ComparedText, newer: ComparedText) -> float:
    """Return the probability that *older* is outdated by *newer*."""
    logit = sum(weight * value for weight, value in zip(WEIGHTS, pair_features(older, newer), strict=True))
    return 1.0 / (1.0 + math.exp(-logit))


def unpack_signs(packed: bytes) -> Vectors:
    """Return token vectors of length 1 from their signs, shape [tokens, 128]."""
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8).reshape(-1, TOKEN_BYTES), axis=1)
    vectors: Vectors = (bits.astype(np.float32) * 2.0 - 1.0) / np.float32(math.sqrt(8 * TOKEN_BYTES))
    return vectors


def _may_change(memory: Memory) -> bool:
    """Return whether a memory says how things are: not what an assistant said, nor a document or a summary."""
    if len(memory.content) > MOST_CHARS or memory.kind in _RECORDS:
        return False
    return memory.kind is not Kind.MESSAGE or memory.category in _USER


def _voice(memory: Memory) -> str:
    """Return to whom "I" refers; empty for the user."""
    speaker = memory.speaker.strip()
    is_user = memory.category in _USER or speaker.casefold() == memory.scope.user_id.strip().casefold()
    return "" if is_user else speaker


def _moment(memory: Memory) -> datetime:
    return memory.event_time or memory.create_time


def _relevance(hit: SearchHit) -> float:
    return hit.score if hit.relevance is None else hit.relevance
