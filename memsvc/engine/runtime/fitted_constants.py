"""Constants that are fitted to the vectors of one embedding model, in a file next to the code that uses them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = list[npt.NDArray[Any]]


class UnusableConstantsError(Exception):
    """The constants cannot be used; the message is the reason."""


def read_constants(path: Path, names: Sequence[str]) -> tuple[str, Arrays]:
    """Return the embedding model that the constants are made for, and the arrays of these names.

    Raises:
        UnusableConstantsError: The file is missing or damaged.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return str(stored["embedding_model"]), [stored[name] for name in names]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        message = f"{path.name} cannot be read ({error})"
        raise UnusableConstantsError(message) from error


def refuse_shapes(path: Path) -> UnusableConstantsError:
    """Return the error of a file whose arrays do not fit each other."""
    return UnusableConstantsError(f"{path.name} holds arrays of other shapes")
