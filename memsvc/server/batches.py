"""What both imports do with their batches: the next one is handed over before the one before is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from memsvc.server.executors import NamedExecutor

Batch = TypeVar("Batch")
Progress = TypeVar("Progress")
Batch_contra = TypeVar("Batch_contra", contravariant=True)
Progress_co = TypeVar("Progress_co", covariant=True)


class Storing(Protocol[Batch_contra, Progress_co]):
    """An import at work."""

    def store(self, batch: Batch_contra, /) -> Progress_co:
        """Begin to store a batch; return the progress once the one before is durable."""
        ...

    def settle(self) -> Progress_co:
        """Return the progress once all that was begun is durable."""
        ...


async def commit_batches(
    run: Storing[Batch, Progress],
    ready: asyncio.Queue[Batch | None],
    executor: NamedExecutor,
    note: Callable[[Progress], Awaitable[None]],
) -> None:
    """Store batch after batch until None comes, and have *note* told of each progress.

    When nothing is ready to go on with, what was begun is noted at once. A batch counts as done (`Queue.task_done`)
    then, or when the next one was begun: so who joins the queue finds everything noted.
    """
    while (batch := await ready.get()) is not None:
        await note(await executor.proceed(run.store, batch))
        if ready.empty():
            await note(await executor.proceed(run.settle))
        ready.task_done()
    await note(await executor.proceed(run.settle))
