"""Constants that are fitted to the vectors of one embedding model, in a file next to the code that uses them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZIP_BZIP2, BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = list[npt.NDArray[Any]]
_STEP, _HALF_STEP = 1 << 4, 1 << 3


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
    # RuntimeError: this Python has no bz2.
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile, zlib.error) as error:
        message = f"{path.name} cannot be read ({error})"
        raise UnusableConstantsError(message) from error


def save_constants(path: Path, embedding_model: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write constants to a file that `numpy.load` reads, as numbers in half precision that are rounded.

    Packed by bzip2 they take a tenth less than as `numpy.savez_compressed` packs them.
    """
    stored = {"embedding_model": np.array(embedding_model)} | {
        name: _rounded_halves(one) for name, one in arrays.items()
    }
    with ZipFile(path, "w", ZIP_BZIP2, compresslevel=9) as archive:
        for name, array in stored.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _rounded_halves(values: npt.NDArray[Any]) -> npt.NDArray[np.float16]:
    """Return numbers in half precision with 6 instead of 10 binary digits behind the first: they compress better.

    The error is at most 1/128 of a number.
    """
    bits = values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return ((bits + _HALF_STEP) // _STEP * _STEP).astype(np.uint16).view(np.float16)


def refuse_shapes(path: Path) -> UnusableConstantsError:
    """Return the error of a file whose arrays do not fit each other."""
    return UnusableConstantsError(f"{path.name} holds arrays of other shapes")
