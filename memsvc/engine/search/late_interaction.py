"""Late interaction: scores of passages by the similarities of single tokens, from one bit for each dimension.

    score = Σ w(t) · max(own(t), c · previous(t)) / Σ w(t)

own(t) is the greatest cosine of token t of the query to a token of the passage, previous(t) that of the passage before
it in the session, and w(t) is the rarity of the token as in BM25. The sum of maxima is MaxSim (Khattab and Zaharia,
2020). A token of a passage is stored as the signs of its 128 values: 16 bytes. The query's tokens stay floats.

An embedder gives the tokens of texts of one embedding space: centred, projected, and scaled to length 1.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.domain.errors import MemsvcError
from memsvc.domain.index_entries import View, entry_id
from memsvc.engine.search.scoring import RankedList
from memsvc.ports.candidates import Candidates, Integers, Numbers
from memsvc.ports.change_feed import TokenStore
from memsvc.ports.models import QueryTokens, Vectors
from memsvc.text.bm25 import rarity

DIMENSION = 128
TOKEN_BYTES = DIMENSION // 8
PREVIOUS_FACTOR = 0.8
"""Share of the similarity to the passage before. Without it recall@10 of the scores alone is 0.01 to 0.03 lower in
chats; between 0.7 and 0.9 it makes no difference, nor does it if only candidates count as passages before."""
_BLOCK_VALUES = 20_480
"""Cosines of a block of passages: 80 kB. The allocator returns memory from 128 kB on to the system when it is freed;
the page faults of the next block would double the time."""
LEAST = -1.0
"""Similarity to a passage without tokens: the least that a cosine can be."""

COMMON_SHARE = 0.25
"""A token that a larger share of the candidates hold is weighted by its rarity among them. Such are the names of those
who talk in a chat: recall@10 +0.01 on LoCoMo and REALTALK, and no change on FriendsQA and the Chinese sets. With 0.4,
or if a passage holds a token from 0.4 or 0.6 on, it is at most 0.005 lower."""
LEAST_COMPARED = 40
"""With fewer passages a share says little: the only answer would make its own word common."""
HELD = 0.5
"""A passage holds a token if one of its own is that similar. Of equal tokens 55 % are, of others 2 %."""

DEPTH = 200
"""Candidates that are scored, best fused scores first."""
NORMALIZED = 100
"""Scores that are mapped to 0..1; lower ones become 0."""
MOST_TOKENS = 24_000
"""Tokens of passages that a search compares: 4 ms. Longer passages leave candidates with low fused scores out."""
log = logging.getLogger(__name__)

Bits: TypeAlias = npt.NDArray[np.uint8]
Similarities: TypeAlias = npt.NDArray[np.float32]
"""Shape [tokens of the query, passages]: the greatest cosine of a token of the query to those of a passage."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedTokens:
    """The tokens of several passages, one after the other.

    Attributes:
        bits: Shape [tokens, 16]. A set bit is a positive value; the highest bit of the first byte is the first value.
        counts: The number of tokens of each passage, shape [passages]; it may be 0.
    """

    bits: Bits
    counts: Integers

    @classmethod
    def of(cls, passages: Sequence[bytes]) -> PackedTokens:
        """Return the tokens of passages; each is given as the bytes of its tokens, in any order of tokens.

        Raises:
            ValueError: The bytes of a passage are no whole number of tokens.
        """
        sizes = np.fromiter(map(len, passages), dtype=np.int64, count=len(passages))
        if (sizes % TOKEN_BYTES).any():
            message = f"The tokens of a passage have {sizes[sizes % TOKEN_BYTES > 0][0]} bytes: no multiple of 16."
            raise ValueError(message)
        bits = np.frombuffer(b"".join(passages), dtype=np.uint8).reshape(-1, TOKEN_BYTES)
        return cls(bits, sizes // TOKEN_BYTES)

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.counts)


def pack_signs(tokens: Vectors) -> Bits:
    """Return the signs of tokens, shape [tokens, 128], as bits, shape [tokens, 16]; 0 counts as negative."""
    return np.packbits(tokens > 0.0, axis=1)


def max_similarities(query: Vectors, passages: PackedTokens) -> Similarities:
    """Return the greatest cosine of each token of *query* to the tokens of each passage.

    Equal passages have equal similarities, to the last bit, and the order of passages and tokens changes none. 150
    passages of 40 tokens and a query of 20 tokens take 0.9 ms on a Zen 4 core, and 1.2 ms in a process that has not
    freed a large array yet: its allocator returns the tables to the system each time.

    Args:
        query: Shape [tokens, 128], each of length 1.
        passages: The packed tokens; a passage without tokens has the similarity `LEAST`.
    """
    similarities = np.full((len(query), len(passages)), LEAST, dtype=np.float32)
    # A segment of no tokens would get the first value of the next one.
    filled = np.flatnonzero(passages.counts)
    if not len(query) or not len(filled):
        return similarities
    counts = passages.counts[filled]
    ends = np.cumsum(counts)
    tables, columns = _tables(query), np.ascontiguousarray(passages.bits.T)
    first, block = 0, max(1, _BLOCK_VALUES // len(query))
    while first < len(filled):
        begin = int(ends[first] - counts[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + block, side="right")))
        cosines = _cosines(tables, columns[:, begin : ends[last - 1]])
        begins = ends[first:last] - counts[first:last] - begin
        similarities[:, filled[first:last]] = np.maximum.reduceat(cosines, begins, axis=0).T
        first = last
    return similarities


def _cosines(tables: Vectors, columns: Bits) -> Vectors:
    """Return the cosine of each token of *columns* to each token of the query: shape [tokens, tokens of the query].

    A cosine is the sum of 16 values, one for each byte. Unpacking and a matrix product take as long on one thread, but
    the library may start threads for it, which wait for each other on a busy machine, and its rounding depends on the
    position of a token.
    """
    cosines: Vectors = tables[0].take(columns[0], axis=0)
    for table, column in zip(tables[1:], columns[1:], strict=True):
        cosines += table.take(column, axis=0)
    return cosines


def _tables(query: Vectors) -> Vectors:
    """Return the product of each byte with its part of each token of the query: [16, 256, tokens of the query]."""
    scaled = query / np.float32(math.sqrt(DIMENSION))
    values = np.ascontiguousarray(scaled.reshape(len(query), TOKEN_BYTES, 8).transpose(2, 1, 0))[:, :, np.newaxis]
    tables = np.empty((TOKEN_BYTES, 256, len(query)), dtype=np.float32)
    tables[:, :1] = -values.sum(axis=0)
    # Each bit doubles the table: setting it turns the sign of its value. The last value is the lowest bit.
    for bit, value in enumerate(values[::-1]):
        half = 1 << bit
        np.add(tables[:, :half], 2 * value, out=tables[:, half : 2 * half])
    return tables


def include_previous(own: Similarities, previous: Integers, factor: float = PREVIOUS_FACTOR) -> Similarities:
    """Return for each token and passage the larger of its own similarity and *factor* times that of the passage before.

    Args:
        own: The similarities of the passages.
        previous: The position of the passage before each one; negative if there is none among the passages.
        factor: In 0..1; 0 leaves only positive similarities as they are, so omit the call instead.
    """
    is_present = previous >= 0
    combined = own.copy()
    combined[:, is_present] = np.maximum(own[:, is_present], np.float32(factor) * own[:, previous[is_present]])
    return combined


def common_rarities(own: Similarities, rarities: Numbers) -> Numbers:
    """Return the weight of each token of a query, lowered for those that many of the compared passages hold.

    Args:
        own: The similarities of the passages, without those before them. Fewer than `LEAST_COMPARED` change nothing.
        rarities: The rarity of each token in texts at large.
    """
    passages = own.shape[1]
    if passages < LEAST_COMPARED:
        return rarities
    holders = (own > HELD).sum(axis=1).tolist()
    pairs = zip(rarities.tolist(), holders, strict=True)
    return np.array(
        [min(usual, rarity(passages, held)) if held > COMMON_SHARE * passages else usual for usual, held in pairs]
    )


def late_interaction_scores(similarities: Similarities, weights: Numbers) -> Numbers:
    """Return the mean similarity of each passage, over the tokens of the query by their weights, in -1..1.

    Args:
        similarities: Shape [tokens of the query, passages].
        weights: A weight of each token of the query, not negative. If all are 0, all scores are 0.
    """
    total = float(weights.sum())
    if not total:
        return np.zeros(similarities.shape[1])
    # No matrix product: its rounding depends on the position of a passage, and equal passages must tie.
    scores: Numbers = np.add.reduce(weights[:, np.newaxis] * similarities, axis=0) / total
    return scores


# The stage of a search.


@dataclass(frozen=True, slots=True, eq=False)
class LateScores:
    """The scores of the candidates of a search; NaN for those without tokens.

    Attributes:
        raw: The mean similarity by the rarities in texts at large, in -1..1.
        coverage: The same of the greatest similarity of each token to any compared passage: how far the memory has what
            the query is about.
        normalized: The ranking: mean similarities by `common_rarities`, the best `NORMALIZED` of them mapped to 0..1,
            and lower ones to 0. If all are equal they are 1.
    """

    raw: Numbers
    coverage: float
    normalized: Numbers


def normalize(scores: Numbers) -> Numbers:
    """Return scores, of which at least one is not NaN, mapped to 0..1 as `LateScores.normalized` says."""
    known = scores[~np.isnan(scores)]
    highest, lowest = float(known.max()), float(np.sort(known)[max(0, len(known) - NORMALIZED)])
    span = highest - lowest
    if span <= 0.0:
        return np.where(np.isnan(scores), scores, 1.0)
    normalized: Numbers = np.maximum(0.0, (scores - lowest) / span)
    return normalized


class LateInteraction:
    """Scores the candidates of a search by the stored tokens of their passages."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store

    def scores(
        self,
        query: QueryTokens,
        model: str,
        candidates: Candidates,
        fused: Numbers,
        lists: Sequence[RankedList],
    ) -> LateScores | None:
        """Return the scores of the candidates, or None if none of them has tokens of *model*.

        A memory is represented by its best chunk in each of *lists*, and by its first chunk if it is in none.
        Candidates that are not compared, because there are too many or too long ones, get the lowest score of those
        that are. If the store cannot be read, none has tokens, and the log says so.
        """
        if not query.rarities.any():
            return None
        order = np.argsort(-fused, kind="stable")
        chosen = order[:DEPTH]
        rows: list[int] = candidates.rows[chosen].tolist()
        entries = _entries(rows, lists)
        try:
            stored = self._store.tokens(model, [entry for several in entries for entry in several])
        except MemsvcError as error:
            log.warning("a search was ranked without late interaction: %s", error.message)
            return None
        tokens, is_cut = _within_limit(entries, stored)
        packed = PackedTokens.of(tokens)
        has_tokens = packed.counts > 0
        if not has_tokens.any():
            return None
        places = {row: place for place, row in enumerate(rows)}
        before = [places.get(row, -1) for row in candidates.previous_rows[chosen].tolist()]
        own = max_similarities(query.vectors, packed)
        weights = common_rarities(own[:, has_tokens], query.rarities)
        similarities = include_previous(own, np.array(before, dtype=np.int64))
        columns = []
        for several in (query.rarities, weights):
            found = late_interaction_scores(similarities, several)
            column = np.full(len(candidates), np.nan)
            column[chosen[has_tokens]] = found[has_tokens]
            column[chosen[is_cut]] = column[order[DEPTH:]] = found[has_tokens].min()
            columns.append(column)
        best = own.max(axis=1, keepdims=True)
        coverage = float(late_interaction_scores(best, query.rarities)[0])
        return LateScores(columns[0], coverage, normalize(columns[1]))


def _entries(rows: Sequence[int], lists: Sequence[RankedList]) -> list[list[int]]:
    """Return the entries of the chunks that represent each memory."""
    best: dict[int, dict[int, None]] = {row: {} for row in rows}
    for ranking in lists:
        for row, entry in zip(ranking.rows.tolist(), ranking.entries.tolist(), strict=True):
            if row in best:
                best[row][entry] = None
    return [[*several] or [entry_id(row, View.CHUNK, 0)] for row, several in best.items()]


def _within_limit(
    entries: Sequence[Sequence[int]], stored: Mapping[int, bytes]
) -> tuple[list[bytes], npt.NDArray[np.bool_]]:
    """Return the tokens of each memory as long as their sum is within the limit, and which memories are cut."""
    left = MOST_TOKENS * TOKEN_BYTES
    found, is_cut = [], []
    for several in entries:
        tokens = b"".join([stored.get(entry, b"") for entry in several])
        if len(tokens) % TOKEN_BYTES:
            log.warning("the token vectors of a memory are damaged and are not compared: %d bytes", len(tokens))
            tokens = b""
        left -= len(tokens)
        is_cut.append(left < 0 and bool(tokens))
        found.append(tokens if left >= 0 else b"")
    return found, np.array(is_cut, dtype=bool)


# Relevance: the probability that a memory is what a query asks for, by logistic regression on first hits.
#
# The constants were fitted on half of the questions of FriendsQA, of the Chinese set and across languages, and on
# questions asked of other memories, which count as much as the own ones. `python -m tests.bench.late_interaction`
# repeats the fit. On the other half and on three other sets, the expected calibration error is 0.044, and the
# threshold that keeps 95 % of the right first hits of all sets rejects 80 % of the foreign questions: 75 % without
# the coverage.
#
# The last three were fitted afterwards, on these questions and those of lives of made-up people; they change nothing
# for a question that is not moved. On lives set aside they lower the expected calibration error from 0.10 to 0.03, and
# the share of right first hits with a relevance below 0.1 from 15 % to 6 %.
#
# Tried and left out, because none of them lowers the expected calibration error by more than 0.001: the cosine of the
# vector, the scores by words, the share of tokens above a similarity, the lead over the next hit.


@dataclass(frozen=True, slots=True, eq=False)
class AnswerScores:
    """The similarities of candidates to the vector of a question that the question layer moved.

    Attributes:
        leads: The cosine of each candidate less the median of the best `NORMALIZED`: see `leads_of`.
        moved: How far the question was moved, in 0..1.
    """

    leads: Numbers
    moved: float


def leads_of(scores: Numbers, best: Numbers, usual: float) -> Numbers:
    """Return the lead of *scores* over the median of the *best* `NORMALIZED`, in any order.

    Fewer than `FEW` are filled up with *usual*: a few memories are no measure of each other.
    """
    first = np.sort(best)[-NORMALIZED:]
    leads: Numbers = scores - np.median(np.pad(first, (0, max(0, FEW - len(first))), constant_values=usual))
    return leads


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """The coefficients of the logistic regression.

    Attributes:
        score: Of the score by late interaction.
        lead: Of its lead over the median of the best: see `leads_of`.
        coverage: Of `LateScores.coverage`.
        other_script: Added if the text of the memory and the query are of different scripts.
        intercept: Added always.
        answer: Of the lead in `AnswerScores`. This one and the next two are multiplied by how far it was moved.
        moved_lead: Of the lead of the score by late interaction, which says less of a question that was moved.
        moved: Added to a question that was moved.
    """

    score: float
    lead: float
    coverage: float
    other_script: float
    intercept: float
    answer: float
    moved_lead: float
    moved: float

    def relevances(
        self, late: LateScores, is_other_script: npt.NDArray[np.bool_], answers: AnswerScores | None = None
    ) -> Numbers:
        """Return the relevance of each candidate in 0..1; NaN for those without tokens."""
        leads = leads_of(late.raw, late.raw[~np.isnan(late.raw)], USUAL)
        logits = self.score * late.raw + self.lead * leads + self.coverage * late.coverage
        logits += self.other_script * is_other_script + self.intercept
        if answers is not None and answers.moved:
            logits += answers.moved * (self.answer * answers.leads + self.moved_lead * leads + self.moved)
        relevances: Numbers = 1.0 / (1.0 + np.exp(-logits))
        return relevances


FEW = 20
USUAL = 0.23
"""A usual median: 0.21 to 0.27 in four sets, and 0.37 in two whose questions all name those who talk."""
OTHER_SCRIPT = 2.3
"""Not fitted: of the few first hits in the other script nearly all are right, and the fit, 4.2, lifts hits that come
later above a half."""
USUAL_ANSWER = 0.05
"""A usual median of the cosines of centred vectors."""
RELEVANCE = RelevanceModel(
    score=7.25,
    lead=5.61,
    coverage=6.28,
    other_script=OTHER_SCRIPT,
    intercept=-8.6,
    answer=21.5,
    moved_lead=-7.8,
    moved=-0.76,
)
