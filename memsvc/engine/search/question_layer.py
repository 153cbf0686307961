"""A layer that moves the vector of a question to those of statements that answer it.

    v' = unit(v + U · max(0, Wᵀ v + b))

An embedder places "Where do I live?" next to texts on living, and far from "We got the keys in Porto". The layer is
fitted on such questions and the statements that answer them, and to leave questions about events, conversations and
documents where they are: `python -m tests.bench.question_layer`. Vectors of passages stay as they are, so that an index
needs no rebuild. A search whose vector is given does not use it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memsvc.engine.runtime.fitted_constants import UnusableConstantsError, read_constants, refuse_shapes, save_constants
from memsvc.ports.models import Vector, Vectors

CONSTANTS = Path(__file__).with_name("question_layer.npz")
log = logging.getLogger(__name__)


LEAST_LENGTH = 1e-9
FAR = 1.5
"""Distance from which a question counts as moved entirely: less than the median of questions about attributes, 2.0.
Of questions about events in conversations nine in ten are moved by less than 0.2."""


@dataclass(frozen=True, slots=True, eq=False)
class MovedQuestion:
    """The vector to search with, of length 1.

    Attributes:
        share: How far it was moved, in 0..1: 0 for a question about an event, 1 for most about a person's attribute.
    """

    vector: Vector
    share: float = 0.0


class QuestionLayer:
    """The layer of one embedding model. Immutable, so it is safe to call from several threads.

    Attributes:
        embedding_model: The model of the vectors that it moves; others are left as they are.
    """

    def __init__(self, embedding_model: str, inner: Vectors, bias: Vector, outer: Vectors) -> None:
        """Take W and U, of the shape [dimension, units] each, and b, [units]."""
        self.embedding_model = embedding_model
        self._inner, self._bias, self._outer = inner, bias, outer

    @classmethod
    def load(cls, path: Path) -> QuestionLayer:
        """Read the constants of a file.

        Raises:
            UnusableConstantsError: The file is missing or damaged.
        """
        model, arrays = read_constants(path, ("inner", "bias", "outer"))
        inner, bias, outer = (np.ascontiguousarray(one, dtype=np.float32) for one in arrays)
        if inner.shape != outer.shape or bias.shape != inner.shape[1:]:
            raise refuse_shapes(path)
        return cls(model, inner, bias, outer)

    def save(self, path: Path) -> None:
        """Write the constants to a file, as half-precision numbers that are rounded."""
        arrays = {"inner": self._inner, "bias": self._bias, "outer": self._outer}
        save_constants(path, self.embedding_model, arrays)

    def move(self, vector: Vector, embedding_model: str) -> MovedQuestion:
        """Return the vector of a query, centred and of length 1, moved to those of its answers.

        One of another model stays as it is, and so does a zero vector.
        """
        if embedding_model != self.embedding_model or not vector.any():
            return MovedQuestion(vector)
        moved = self.move_all(vector[np.newaxis])[0]
        distance = float(np.linalg.norm(moved - vector))
        return MovedQuestion(moved / max(float(np.linalg.norm(moved)), LEAST_LENGTH), min(1.0, distance / FAR))

    def move_all(self, vectors: Vectors) -> Vectors:
        """Return vectors moved, shape [n, dimension], not scaled to length 1."""
        found: npt.NDArray[np.float32] = vectors + np.maximum(vectors @ self._inner + self._bias, 0.0) @ self._outer.T
        return found


def load_question_layer() -> QuestionLayer | None:
    """Return the shipped layer; None, with a line in the log, if it cannot be used."""
    try:
        return QuestionLayer.load(CONSTANTS)
    except UnusableConstantsError as error:
        log.warning("questions are searched for by the vector of the embedder alone: %s", error)
        return None
