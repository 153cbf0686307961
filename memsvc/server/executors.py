"""Thread pools for blocking work, with a bounded queue each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ParamSpec, TypeAlias, TypeVar

from memsvc.domain.errors import DeadlineExceededError, LimitExceededError, LimitKind
from memsvc.ports import thread_wait
from memsvc.server import call_context
from memsvc.server.slots import BULK_METHODS, Turn, Turns

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PROGRESS_SECONDS = 1.0
"""Seconds between two reports of progress, at the most."""


_WORKER = "_memsvc_worker"


def runs_in(name: str) -> Callable[[F], F]:
    """Mark a method of a servicer as a function that runs in a thread of the executor *name* as a whole.

    It is called with the decoded request, and returns the response, or a `Pending` if it has to wait.
    """

    def mark(method: F) -> F:
        setattr(method, _WORKER, name)
        return method

    return mark


def worker_of(method: object) -> str | None:
    """Return the executor in which a method runs as a whole; None for a coroutine on the event loop."""
    return getattr(method, _WORKER, None)


@dataclass(frozen=True, slots=True)
class Pending(Awaitable[T]):
    """Rest of a call that waits for something without holding a thread.

    Attributes:
        wait: The coroutine function to await.
        respond: Converts its result into the response.
        executor: The threads that run *respond*; None: the event loop.
    """

    wait: Callable[[], Awaitable[Any]]
    respond: Callable[[Any], T]
    executor: NamedExecutor | None = None

    def __await__(self) -> Generator[Any, None, T]:
        """Wait, and return the response."""
        return self._finish().__await__()

    async def _finish(self) -> T:
        found = await self.wait()
        return self.respond(found) if self.executor is None else await self.executor.proceed(self.respond, found)


Answer: TypeAlias = T | Pending[T]
"""The response of a call, or the rest of a call that has to wait."""


class _Job:
    """A blocking call, and the future of the coroutine that awaits it.

    Attributes:
        tenant_id: The tenant of the key that calls; None without a key.
        is_bulk: Whether it is of a method that yields to the others.
        is_heavy: Whether its request is large.
    """

    __slots__ = ("context", "future", "has_begun", "is_bulk", "is_heavy", "loop", "tenant_id", "work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.context = copy_context()
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.has_begun = False
        caller, call = call_context.principal.get(), call_context.current.get()
        self.tenant_id = caller.tenant_id if caller.key_id else None
        self.is_bulk = call is not None and call.method in BULK_METHODS
        self.is_heavy = call is not None and call.is_heavy

    def run(self) -> None:
        """Run the call and hand over its outcome."""
        result: Any = None
        failure: BaseException | None = None
        try:
            result = self.context.run(self.work)
        except BaseException as error:  # noqa: BLE001 - the coroutine raises it
            failure = error
        with suppress(RuntimeError):  # the loop was closed: the coroutine is gone
            self.loop.call_soon_threadsafe(self._settle, result, failure)

    def _settle(self, result: Any, failure: BaseException | None) -> None:
        if self.future.done():
            return
        if failure is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(failure)


class _Worker:
    """Thread of a pool, and its state.

    Attributes:
        job: Its job; None while it rests.
        since: The time at which its job began, by the clock of the pool.
        is_waiting: True while its job waits.
        is_counted: True while it counts among the active threads: it works, neither waiting nor for long.
    """

    __slots__ = ("is_counted", "is_waiting", "job", "pool", "since", "thread", "wake")

    def __init__(self, pool: _WorkerPool, name: str) -> None:
        self.pool = pool
        self.job: _Job | None = None
        self.since = 0.0
        self.is_waiting = False
        self.is_counted = True
        self.wake = threading.Lock()
        self.wake.acquire()
        self.thread = threading.Thread(target=pool.serve, args=(self,), name=name, daemon=True)

    def begin_wait(self) -> None:
        """Let another thread work."""
        self.is_waiting = True
        self.pool.uncount(self)

    def end_wait(self) -> None:
        """Work again, even if as many threads as should work do."""
        self.is_waiting = False
        self.pool.count(self)


class _WorkerPool:
    """Threads of which few are active at a time.

    The interpreter runs one thread at a time, and switching between threads that are ready costs more than it gains: so
    *active* threads take jobs, and a further one only while a job waits (`memsvc.ports.thread_wait`) or takes long.

    Jobs of one tenant that take long share the interpreter with each other more than with other tenants: the more of
    them compute, the later its next job begins. Of its large requests one computes at a time, and of bulk jobs of all
    tenants.
    """

    def __init__(self, name: str, *, threads: int, active: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._threads = threads
        self._limit = active
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._active = 0
        self._is_closed = False

    def submit(self, job: _Job) -> bool:
        """Queue a job and return whether it has to wait.

        Raises:
            RuntimeError: The pool is closed.
        """
        with self._lock:
            if self._is_closed:
                message = f"The pool {self._name!r} is closed."
                raise RuntimeError(message)
            self._jobs.append(job)
            return not self._wake_next()

    def drop(self, job: _Job) -> bool:
        """Remove a job that has not begun; return whether it had not."""
        with self._lock:
            if job.has_begun:
                return False
            with suppress(ValueError):
                self._jobs.remove(job)
            return True

    def relieve(self, seconds: float) -> bool:
        """Let further threads work beside those whose job has taken longer than *seconds*; return whether jobs wait."""
        limit = self._clock() - seconds
        with self._lock:
            for worker in self._workers:
                if worker.is_counted and worker.job is not None and worker.since < limit:
                    self._uncount(worker)
            self._wake_next()
            return bool(self._jobs)

    def close(self) -> None:
        """Drop the jobs that wait, and return when the others have ended."""
        with self._lock:
            self._is_closed = True
            dropped, workers = list(self._jobs), list(self._workers)
            self._jobs.clear()
            for worker in self._idle:
                worker.wake.release()
            self._idle.clear()
        for job in dropped:
            with suppress(RuntimeError):
                job.loop.call_soon_threadsafe(job.future.cancel)
        for worker in workers:
            worker.thread.join()

    def count(self, worker: _Worker) -> None:
        """Count a thread as active."""
        with self._lock:
            self._active += not worker.is_counted
            worker.is_counted = True

    def uncount(self, worker: _Worker) -> None:
        """Count a thread as not active, so that another one may work."""
        with self._lock:
            self._uncount(worker)

    def serve(self, worker: _Worker) -> None:
        """Run jobs in the calling thread until the pool is closed."""
        thread_wait.listen(worker)
        while (job := self._next(worker)) is not None or not self._is_closed:
            if job is None:
                worker.wake.acquire()
            else:
                job.run()

    def _next(self, worker: _Worker) -> _Job | None:
        """Return the next job of a thread, None when it has to rest."""
        with self._lock:
            self._active += not worker.is_counted
            worker.is_counted, worker.job = True, None
            job = self._first() if self._active <= self._limit and not self._is_closed else None
            if job is not None:
                self._jobs.remove(job)
                job.has_begun, worker.since, worker.job = True, self._clock(), job
                return job
            self._active -= 1
            worker.is_counted = False
            if not self._is_closed:
                self._idle.append(worker)
            return None

    def _first(self) -> _Job | None:
        """Return the first job that may begin."""
        delayed: set[tuple[str | None, bool, bool]] = set()
        for job in self._jobs:
            kind = job.tenant_id, job.is_bulk, job.is_heavy
            if kind not in delayed:
                if self._may_begin(job):
                    return job
                delayed.add(kind)
        return None

    def _may_begin(self, job: _Job) -> bool:
        now = self._clock()
        begun = [(one.job, now - one.since) for one in self._workers if one.job is not None and not one.is_waiting]
        if job.is_bulk and any(other.is_bulk and seconds < BULK_DELAY_SECONDS for other, seconds in begun):
            return False
        if job.tenant_id is None:
            return True
        own = [(other, seconds) for other, seconds in begun if other.tenant_id == job.tenant_id]
        if job.is_heavy and any(other.is_heavy and seconds < HEAVY_DELAY_SECONDS for other, seconds in own):
            return False
        long = [seconds for _, seconds in own if seconds >= RELIEF_SECONDS]
        return not long or min(long) >= min(LONGEST_DELAY_SECONDS, RELIEF_SECONDS * LONG_FACTOR ** len(long))

    def _uncount(self, worker: _Worker) -> None:
        self._active -= worker.is_counted
        worker.is_counted = False
        self._wake_next()

    def _wake_next(self) -> bool:
        """Make one more thread active if a job waits and there is room, and return whether one was.

        The thread counts from now on.
        """
        if not self._jobs or self._active >= self._limit or self._first() is None:
            return False
        if self._idle:
            worker = self._idle.pop()
            worker.is_counted = True
            self._active += 1
            worker.wake.release()
        elif len(self._workers) < self._threads:
            worker = _Worker(self, f"{self._name}_{len(self._workers)}")
            try:
                worker.thread.start()
            except RuntimeError:
                # As many threads as there may be; `relieve` tries again.
                return False
            self._workers.append(worker)
            self._active += 1
        else:
            return False
        return True


RELIEF_SECONDS = 0.02
"""A job that takes longer no longer keeps others from being begun."""
LONG_FACTOR = 4
"""Beside a job that computes for longer, the next one of its tenant is begun 4 times as long after it, beside two 16
times and so on. Eight threads that compute without a pause make a list of another tenant take 20 times as long."""
LONGEST_DELAY_SECONDS = 0.64
"""The longest such delay: the other users of the tenant wait too."""
BULK_DELAY_SECONDS = 2.0
"""The longest time for which a bulk job waits until another one computes no more: side by side they end no sooner, and
make other calls wait longer for the interpreter."""

HEAVY_DELAY_SECONDS = 10.0
"""The longest delay of a large request beside another one of its tenant that computes. A text of a million characters
takes a second of processor time; three at a time made a list of another tenant take 27 times as long."""


class NamedExecutor:
    """Thread pool for blocking calls of one kind.

    A call has the context variables of the coroutine that awaits it. When that coroutine is cancelled before the call
    has begun, the call never runs; a running call is not interrupted.
    """

    def __init__(
        self, name: str, *, threads: int, queue_factor: int, active: int = 0, turns: Turns | None = None
    ) -> None:
        """Create a pool in which *active* threads work at a time, 0 being all of them.

        Calls take *turns*; without any they wait in the order of their arrival.
        """
        self.name = name
        self.threads = threads
        self._capacity = threads * (1 + queue_factor)
        self._pool = _WorkerPool(name, threads=threads, active=active or threads)
        self._turns = turns
        self._relieved_by: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._admitted = 0

    @property
    def capacity(self) -> int:
        """Return the number of calls that may run or wait."""
        return self._capacity

    @property
    def admitted(self) -> int:
        """Return the number of calls that run or wait."""
        return self._admitted + (0 if self._turns is None else self._turns.waiting)

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *call* in a thread and return its result.

        Raises:
            LimitExceededError: Too many calls wait, or the call would wait for too long; nothing was run.
            DeadlineExceededError: The caller's deadline passed before the call could begin.
        """
        turns = self._turns
        if turns is not None:
            return await self._run_in_turn(turns, turns.arrive(), call, *args, **kwargs)
        if self._admitted >= self._capacity:
            limit = f"{self._capacity} calls at work or waiting in {self.name!r}"
            raise LimitExceededError(limit, kind=LimitKind.QUEUE)
        return await self.proceed(call, *args, **kwargs)

    async def resume(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the next part of a call that was admitted before: as `run`, but never refused."""
        turns = self._turns
        if turns is None:
            return await self.proceed(call, *args, **kwargs)
        return await self._run_in_turn(turns, turns.arrive(is_refusable=False), call, *args, **kwargs)

    async def _run_in_turn(
        self, turns: Turns, turn: Turn, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if not turn.taken:
            await turns.wait(turn)
        try:
            return await self.proceed(turn.run, call, *args, **kwargs)
        finally:
            turns.leave(turn)

    async def proceed(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the next part of a call that was admitted before: as `resume`, without a turn of its own."""
        loop = asyncio.get_running_loop()
        job = _Job(partial(self._run, call, *args, **kwargs), loop)
        with self._lock:
            self._admitted += 1
        try:
            has_to_wait = self._pool.submit(job)
        except RuntimeError:
            self._leave()
            raise
        if has_to_wait and self._relieved_by is not loop:
            self._relieved_by = loop
            loop.call_later(RELIEF_SECONDS, self._relieve, loop)
        try:
            result: T = await job.future
        except asyncio.CancelledError:
            if self._pool.drop(job):
                self._leave()
            raise
        return result

    def close(self) -> None:
        """Drop waiting calls, and return when the running ones have ended."""
        self._pool.close()

    def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return _run_before_deadline(call, *args, **kwargs)
        finally:
            self._leave()

    def _relieve(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._pool.relieve(RELIEF_SECONDS):
            loop.call_later(RELIEF_SECONDS, self._relieve, loop)
        else:
            self._relieved_by = None

    def _leave(self) -> None:
        with self._lock:
            self._admitted -= 1


def _run_before_deadline(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    if call_context.deadline.get().has_passed():
        waiting_for = "a free thread"
        raise DeadlineExceededError(waiting_for)
    return call(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Executors:
    """Pools of the server: searches do not wait behind writes, nor writes behind a language model."""

    search: NamedExecutor
    write: NamedExecutor
    meta: NamedExecutor
    language: NamedExecutor
    watch: NamedExecutor
    files: NamedExecutor

    def each(self) -> tuple[NamedExecutor, ...]:
        """Return all of them."""
        return (self.search, self.write, self.meta, self.language, self.watch, self.files)

    def close(self) -> None:
        """Close all of them."""
        for executor in self.each():
            executor.close()


async def iterate_in_thread(
    steps: Generator[T, None, None], *, name: str, at_least_every: float
) -> AsyncGenerator[T, None]:
    """Yield the steps of a blocking generator; the latest one again when the next one takes longer than that.

    The generator runs in one thread of its own, from its first step to its closing. It is never a step ahead of its
    reader. When reading ends early, it is closed as soon as the step under way is over.
    """
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
    context = copy_context()
    unfinished: set[asyncio.Future[list[T]]] = set()
    latest: list[T] = []
    try:
        while True:
            unfinished = {loop.run_in_executor(thread, context.run, _step, steps)}
            while not (done := (await asyncio.wait(unfinished, timeout=at_least_every))[0]):
                for step in latest:
                    yield step
            unfinished = set()
            latest = done.pop().result()
            if not latest:
                return
            yield latest[0]
    finally:
        try:
            # Queued behind the step under way; without waiting, backends might be closed while it uses them.
            await finished(loop.run_in_executor(thread, context.run, steps.close))
        finally:
            for abandoned in unfinished:
                # Retrieved, or asyncio would log that it never was.
                abandoned.exception()
            thread.shutdown(wait=False)


async def finished(work: asyncio.Future[Any]) -> None:
    """Return when *work* has ended, with whatever result; a cancellation of the wait is raised after it.

    For work that uses something which is closed next. A second cancellation, as by the client of a call that ends with
    an error, would otherwise close it too early.
    """
    cancellation: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancellation = error
    if not work.cancelled():
        # Retrieved, or asyncio would log that it never was.
        work.exception()
    if cancellation is not None:
        raise cancellation


def _step(steps: Generator[T, None, None]) -> list[T]:
    """Return the next step in a list, or an empty list at the end: StopIteration cannot cross a future."""
    return list(islice(steps, 1))


def stream_progress(steps: Generator[T, None, None], name: str) -> AsyncGenerator[T, None]:
    """Yield the steps of work in a thread; the latest one again while the next one takes long."""
    return iterate_in_thread(steps, name=name, at_least_every=PROGRESS_SECONDS)
