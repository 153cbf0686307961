"""Probability that a newer text replaces an older one, from their embeddings.

Linear layers read an embedding: which attribute the text is about (a home, a job, a diet, the database in use), how
likely it states one, and how likely it tells of a change. Texts are compared by what was read, their similarity, the
words they share and signs of a change; a logistic regression weighs it. The constants are fitted by
`python -m tests.bench.agent_day.currency`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.engine.runtime.fitted_constants import read_constants, refuse_shapes
from memsvc.ports.models import Vectors
from memsvc.text.change_cues import ChangeCues
from memsvc.text.facts.english_lexicon import KIN

CONSTANTS = Path(__file__).with_name("replacement.npz")
FIRST = 2
"""Ranks that count as first."""
_LEAST_SHARE = 1e-4
_MOST_SHARED = 6.0
_LOGITS = (-6.0, 4.0)
_RELEVANCES = (0.003, 0.997)
UNKNOWN_RELEVANCE = 0.1
"""Relevance of a text that was not retrieved by the query."""
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StatementReading:
    """Reading of an embedding by the layers.

    Attributes:
        vector: The embedding less the mean of its language, of length 1.
        attributes: The probability of each attribute, if the text is about one; their sum is 1.
        about_none: The probability that it is about no attribute.
        states: The log odds that it says how things are with the user.
        changes: The log odds that it tells of a change.
    """

    vector: Floats
    attributes: Floats
    about_none: float
    states: float
    changes: float


@dataclass(frozen=True, slots=True, eq=False)
class ComparedText:
    """A text with what its comparison needs.

    Attributes:
        place: Its rank among the hits of the query, from 0.
        relevance: The probability that it is what the query asks for.
    """

    place: int
    cues: ChangeCues
    reading: StatementReading
    relevance: float = UNKNOWN_RELEVANCE


OF_PAIR = (
    "same attribute", "similarity", "rare words shared", "numbers differ", "one about a person", "other persons",
    "both relevant",
)  # fmt: skip
OF_TEXT = ("about none", "change", "states", "asks", "is first", "signs of a change", "relevance", "rank")
FEATURES = (*OF_PAIR, *(f"older: {name}" for name in OF_TEXT), *(f"newer: {name}" for name in OF_TEXT), "intercept")


@dataclass(frozen=True, slots=True, eq=False)
class ReadingLayers:
    """The linear layers over embeddings of one model.

    Attributes:
        means: The mean embedding of texts of other scripts, and of Han text: [2, dimension].
        attributes: Weights of the attributes, and last of none: [dimension, attributes + 1].
        logits: Weights of `states` and `changes`, and last their intercepts: [dimension + 1, 2].
    """

    means: Floats
    attributes: Floats
    logits: Floats

    def read(self, vectors: Vectors, are_han: Sequence[bool]) -> list[StatementReading]:
        """Return the reading of each embedding, shape [texts, dimension]."""
        centred = centre(vectors, self.means, are_han)
        shares = np.exp(centred @ self.attributes)
        known = shares[:, :-1].sum(axis=1, keepdims=True)
        none = shares[:, -1] / (shares[:, -1] + known[:, 0])
        logits = np.clip(centred @ self.logits[:-1] + self.logits[-1], *_LOGITS)
        return [
            StatementReading(centred[at], shares[at, :-1] / known[at], float(none[at]), *map(float, logits[at]))
            for at in range(len(centred))
        ]


def centre(vectors: Vectors, means: Floats, are_han: Sequence[bool]) -> Floats:
    """Return vectors less the mean of their language, of length 1."""
    centred = np.asarray(vectors, dtype=np.float64) - means[np.asarray(are_han, dtype=np.int64)]
    lengths: Floats = np.linalg.norm(centred, axis=1, keepdims=True)
    found: Floats = centred / np.maximum(lengths, 1e-9)
    return found


class ReplacementModel:
    """Reads statements, and estimates which replaces which. Immutable, so it is safe to call from several threads."""

    def __init__(self, embedding_model: str, layers: ReadingLayers, weights: Floats) -> None:
        """Take the layers for embeddings of *embedding_model*, and the weights of `FEATURES`."""
        self.embedding_model = embedding_model
        self.layers = layers
        self._weights = weights

    @classmethod
    def load(cls, path: Path) -> ReplacementModel:
        """Read the constants of a file.

        Raises:
            UnusableConstantsError: The file is missing or damaged.
        """
        model, arrays = read_constants(path, ("means", "attributes", "logits", "weights"))
        means, attributes, logits, weights = (one.astype(np.float64) for one in arrays)
        rows = {means.shape[-1], len(attributes), len(logits) - 1}
        if len(rows) != 1 or weights.shape != (len(FEATURES),):
            raise refuse_shapes(path)
        return cls(model, ReadingLayers(means, attributes, logits), weights)

    def probabilities(self, texts: Sequence[ComparedText]) -> Floats:
        """Return the probability that a text (row) is outdated by another (column), if that one is newer.

        It is 0 if both speak of persons, none is the same and one is a relative, if the user speaks of themselves alone
        in the newer one and of a person in the older one, and if the newer one only adds.
        """
        of_pair, of_text = _features(texts)
        older, newer = len(OF_PAIR), len(OF_PAIR) + len(OF_TEXT)
        logits = (of_text @ self._weights[older:newer])[:, np.newaxis] + of_text @ self._weights[newer:-1]
        for values, weight in zip(of_pair, self._weights, strict=False):
            logits += weight * values
        found: Floats = may_replace(texts) / (1.0 + np.exp(-logits - self._weights[-1]))
        return found


def pair_features(texts: Sequence[ComparedText]) -> Floats:
    """Return the `FEATURES` of each pair: [older, newer, features]."""
    of_pair, of_text = _features(texts)
    pairs = np.ones((len(texts), len(texts)))
    columns = [*of_pair, *(pairs * one[:, np.newaxis] for one in of_text.T), *(pairs * one for one in of_text.T)]
    return np.stack([*columns, pairs], axis=-1)


def may_replace(texts: Sequence[ComparedText]) -> npt.NDArray[np.bool_]:
    """Return whether a text (column) can replace another (row): it does not only add, and is not about others.

    Names alone say little: a new name is often the change, and other words are taken for names. But what the user says
    of themselves alone replaces nothing that names a person, and a wish of others nothing at all.
    """
    has_kin = np.array([not text.cues.persons.isdisjoint(KIN) for text in texts], dtype=np.bool_)
    are_others = (_differ([text.cues.persons for text in texts]) > 0.0) & (has_kin[:, np.newaxis] | has_kin)
    is_of_self = np.array([text.cues.is_of_self for text in texts], dtype=np.bool_)
    has_person = np.array([bool(text.cues.persons) for text in texts], dtype=np.bool_)
    are_others |= has_person[:, np.newaxis] & is_of_self
    only_adds = np.array([text.cues.is_addition or text.cues.is_wish for text in texts], dtype=np.bool_)
    found: npt.NDArray[np.bool_] = ~(are_others | only_adds)
    return found


def _features(texts: Sequence[ComparedText]) -> tuple[list[Floats], Floats]:
    """Return the features of pairs, [older, newer] each, and of each text: [texts, features]."""
    cues, readings = [text.cues for text in texts], [text.reading for text in texts]
    attributes, vectors = np.array([one.attributes for one in readings]), np.array([one.vector for one in readings])
    terms = _incidence([one.terms for one in cues])
    rarities = np.log(len(texts) / np.maximum(terms.sum(axis=0), 1.0))
    has_person = np.array([bool(one.persons) for one in cues])
    relevances = np.clip([text.relevance for text in texts], *_RELEVANCES)
    odds = np.log(relevances / (1.0 - relevances))
    of_pair = [
        np.log(np.maximum(attributes @ attributes.T, _LEAST_SHARE)),
        vectors @ vectors.T,
        np.minimum((terms * rarities) @ terms.T, _MOST_SHARED),
        _differ([one.numbers for one in cues]),
        (has_person[:, np.newaxis] != has_person).astype(np.float64),
        _differ([one.persons for one in cues]),
        np.minimum(odds[:, np.newaxis], odds),
    ]
    of_text = np.array(
        [
            (
                text.reading.about_none,
                text.reading.changes,
                text.reading.states,
                text.cues.is_question,
                text.place < FIRST,
                min(2.0, text.cues.changes),
                relevance,
                log1p(text.place),
            )
            for text, relevance in zip(texts, odds.tolist(), strict=True)
        ]
    )
    return of_pair, of_text


def _differ(sets: Sequence[frozenset[str]]) -> Floats:
    """Return which pairs hold something both, and nothing in common."""
    holds = np.array([bool(held) for held in sets])
    shared = _incidence(sets)
    found: Floats = (np.outer(holds, holds) & (shared @ shared.T == 0.0)).astype(np.float64)
    np.fill_diagonal(found, 0.0)
    return found


def _incidence(sets: Sequence[frozenset[str]]) -> Floats:
    """Return which set (row) holds which of the members that several hold (columns)."""
    counts = Counter(one for held in sets for one in held)
    columns = {member: at for at, member in enumerate(sorted(one for one, count in counts.items() if count > 1))}
    found = np.zeros((len(sets), len(columns)))
    for row, held in enumerate(sets):
        found[row, [columns[one] for one in held if one in columns]] = 1.0
    return found
