"""Probability that a newer text replaces an older one, from their embeddings.

Three linear layers read an embedding: which attribute the text is about (a home, a job, a diet, the database in use), how
likely it states one, and how likely it tells of a change. Texts are compared by what was read, their similarity, the
words they share and signs of a change; a logistic regression weighs it. The constants are fitted by
`python -m tests.bench.agent_day.currency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from memsvc.ports.models import Vectors
from memsvc.text.change_cues import ChangeCues

CONSTANTS = Path(__file__).with_name("replacement.npz")
FIRST = 2
"""Ranks that count as first."""
_LEAST_SHARE = 1e-4
_MOST_SHARED = 6.0
_LOGITS = (-6.0, 4.0)
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StatementReading:
    """What the layers read in an embedding.

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
    """A text with what its comparison needs; *place* is its rank among the hits of the query, from 0."""

    place: int
    cues: ChangeCues
    reading: StatementReading


FEATURES = (
    "same attribute", "older about none", "newer about none", "similarity", "change in older", "change in newer",
    "older states", "newer states", "rare words shared", "addition", "numbers differ", "newer asks", "older asks",
    "older is first", "newer is first", "signs of a change", "signs in older", "intercept",
)  # fmt: skip


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
    def load(cls, path: Path = CONSTANTS) -> ReplacementModel:
        """Read the constants of a file."""
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            layers = ReadingLayers(*(stored[name].astype(np.float64) for name in ("means", "attributes", "logits")))
            return cls(str(stored["embedding_model"]), layers, stored["weights"].astype(np.float64))

    def probabilities(self, texts: Sequence[ComparedText]) -> Floats:
        """Return the probability that a text (row) is outdated by another (column), if that one is newer."""
        logits = pair_features(texts) @ self._weights
        found: Floats = 1.0 / (1.0 + np.exp(-logits))
        return found


def pair_features(texts: Sequence[ComparedText]) -> Floats:
    """Return the `FEATURES` of each pair: [older, newer, features]."""
    readings = [text.reading for text in texts]
    attributes = np.array([one.attributes for one in readings])
    vectors = np.array([one.vector for one in readings])
    cues = [text.cues for text in texts]
    numbers = _incidence([one.numbers for one in cues])
    has_number = numbers.any(axis=1)
    terms = _incidence([one.terms for one in cues])
    rarities = np.log(len(texts) / np.maximum(terms.sum(axis=0), 1.0))
    pairs = np.ones((len(texts), len(texts)))

    def of_older(values: Sequence[float]) -> Floats:
        return pairs * np.array(values)[:, np.newaxis]

    def of_newer(values: Sequence[float]) -> Floats:
        return pairs * np.array(values)

    first = [float(text.place < FIRST) for text in texts]
    asks = [float(one.is_question) for one in cues]
    return np.stack(
        [
            np.log(np.maximum(attributes @ attributes.T, _LEAST_SHARE)),
            of_older([one.about_none for one in readings]),
            of_newer([one.about_none for one in readings]),
            vectors @ vectors.T,
            of_older([one.changes for one in readings]),
            of_newer([one.changes for one in readings]),
            of_older([one.states for one in readings]),
            of_newer([one.states for one in readings]),
            np.minimum((terms * rarities) @ terms.T, _MOST_SHARED),
            of_newer([float(one.is_addition) for one in cues]),
            (np.outer(has_number, has_number) & (numbers @ numbers.T == 0.0)).astype(np.float64),
            of_newer(asks),
            of_older(asks),
            of_older(first),
            of_newer(first),
            of_newer([min(2.0, one.changes) for one in cues]),
            of_older([float(one.changes > 0) for one in cues]),
            pairs,
        ],
        axis=-1,
    )


def _incidence(sets: Sequence[frozenset[str]]) -> Floats:
    """Return which set (row) holds which of all members (columns, at least one)."""
    columns = {member: at for at, member in enumerate(sorted(frozenset().union(*sets)))}
    found = np.zeros((len(sets), max(1, len(columns))))
    for row, held in enumerate(sets):
        found[row, [columns[one] for one in held]] = 1.0
    return found
