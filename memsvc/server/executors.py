"""Thread pools for blocking work, with a bounded queue each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ParamSpec, TypeVar

from memsvc.domain.errors import DeadlineExceededError, LimitExceededError
from memsvc.server import call_context

P = ParamSpec("P")
T = TypeVar("T")

PROGRESS_SECONDS = 1.0
"""Seconds between two reports of progress, at the most."""


class NamedExecutor:
    """Thread pool for blocking calls of one kind.

    A call has the context variables of the coroutine that awaits it. When that coroutine is cancelled before the call
    has begun, the call never runs; a running call is not interrupted.
    """

    def __init__(self, name: str, *, threads: int, queue_factor: int) -> None:
        self.name = name
        self.threads = threads
        self._capacity = threads * (1 + queue_factor)
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._admitted = 0

    @property
    def capacity(self) -> int:
        """Return the number of calls that may run or wait."""
        return self._capacity

    @property
    def admitted(self) -> int:
        """Return the number of calls that run or wait."""
        return self._admitted

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *call* in a thread and return its result.

        Raises:
            LimitExceededError: The queue is full; nothing was run.
            DeadlineExceededError: The caller's deadline passed before the call could begin.
        """
        if self._admitted >= self._capacity:
            limit = f"{self._capacity} calls at work or waiting in {self.name!r}"
            raise LimitExceededError(limit)
        return await self.proceed(call, *args, **kwargs)

    async def proceed(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the next part of a call that was admitted before: as `run`, but never refused for the queue's length."""
        with self._lock:
            self._admitted += 1
        try:
            work = partial(_run_before_deadline, call, *args, **kwargs)
            future: Future[T] = self._pool.submit(copy_context().run, work)
        except RuntimeError:
            self._leave(None)
            raise
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Drop waiting calls, and return when the running ones have ended."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _leave(self, _: Future[T] | None) -> None:
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
        # Queued behind the step under way; without waiting, backends might be closed while it uses them.
        await asyncio.wait({loop.run_in_executor(thread, context.run, steps.close)})
        for abandoned in unfinished:
            # Retrieved, or asyncio would log that it never was.
            abandoned.exception()
        thread.shutdown(wait=False)


def _step(steps: Generator[T, None, None]) -> list[T]:
    """Return the next step in a list, or an empty list at the end: StopIteration cannot cross a future."""
    return list(islice(steps, 1))


def stream_progress(steps: Generator[T, None, None], name: str) -> AsyncGenerator[T, None]:
    """Yield the steps of work in a thread; the latest one again while the next one takes long."""
    return iterate_in_thread(steps, name=name, at_least_every=PROGRESS_SECONDS)
