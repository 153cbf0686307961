"""The port to an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]
"""One vector, shape (dimension,)."""
Vectors: TypeAlias = npt.NDArray[np.float32]
"""Several vectors, shape (count, dimension)."""


class Embedder(Protocol):
    """Turns text into vectors of unit length whose dot product says how near two meanings are.

    Safe to call from several threads; the same text must give the same vector.
    """

    @property
    def model(self) -> str:
        """Name the vector space: two embedders with the same model give comparable vectors."""
        ...

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts that are to be found, one row for each, in order. No texts: shape (0, dimension).

        A query may be embedded meanwhile: the embedder must not make it wait for the whole of *texts*.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed a text that is searched with.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        ...

    def ping(self) -> None:
        """Return when the model answers, or raise BackendUnavailableError."""
        ...
