"""Turning a blocking generator into an asynchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


async def iterate_in_thread(
    steps: Generator[T, None, None], *, name: str, at_least_every: float
) -> AsyncGenerator[T, None]:
    """Yield what *steps* yields; when its next step takes longer than that many seconds, the latest one again.

    The generator runs in one thread of its own, from its first step to its closing. It is never a step ahead of who
    reads. When reading ends early, it is closed as soon as the step under way is over.
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
        # Queued behind the step under way; without waiting, backends might be closed under its feet.
        await asyncio.wait({loop.run_in_executor(thread, context.run, steps.close)})
        for abandoned in unfinished:
            # Asked for, so that asyncio does not complain that nobody did.
            abandoned.exception()
        thread.shutdown(wait=False)


def _step(steps: Generator[T, None, None]) -> list[T]:
    """Return the next step in a list, or an empty list at the end: StopIteration cannot cross a future."""
    return list(islice(steps, 1))
