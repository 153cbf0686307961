"""Works of one stream, each queued before the one before it is durable: so the committer never waits for the next."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from memsvc.engine.commit.group_committer import Committed, GroupCommitter
from memsvc.ports.metadata import Transaction

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Link(Generic[T]):
    """A work that was queued. *value* and *error* are of its latest run."""

    before: _Link[T] | None
    future: Future[Committed[T]] = field(default_factory=Future)
    value: T | None = None
    error: BaseException | None = None

    def failure(self) -> BaseException | None:
        """Return what kept the work from being done, as far as is known."""
        return self.error or (self.future.exception() if self.future.done() else None)


class CommitPipeline(Generic[T]):
    """Queues works that follow each other. None is done whose predecessor failed. Not for several callers at a time."""

    def __init__(self, committer: GroupCommitter) -> None:
        """Queue at *committer*."""
        self._committer = committer
        self._last: _Link[T] | None = None
        self._is_told = True

    def put(self, work: Callable[[Transaction, T | None], T]) -> Committed[T] | None:
        """Queue a work and return what the one before came to, once it is durable; None when that was told already.

        Args:
            work: It gets the value of the work before, None if it is the first. As all works it may be run again.

        Raises:
            Exception: What the work before raised; then this one is not done either.
        """
        before = self._last
        link: _Link[T] = _Link(before)
        link.future = self._committer.queue(lambda transaction: _run(link, work, transaction))
        was_told, self._last, self._is_told = self._is_told, link, False
        return None if before is None or was_told else _told(before)

    def settle(self) -> Committed[T] | None:
        """Return what the last work came to, once it is durable; None when that was told already.

        Raises:
            Exception: What it raised.
        """
        last, was_told = self._last, self._is_told
        if last is None or was_told:
            return None
        self._last, self._is_told = None, True
        told = _told(last)
        # What follows goes on from it; after a failure a work begins anew.
        self._last = last
        return told


def _run(link: _Link[T], work: Callable[[Transaction, T | None], T], transaction: Transaction) -> T:
    before = link.before
    link.error = None if before is None else before.failure()
    if link.error is not None:
        raise link.error
    try:
        link.value = work(transaction, None if before is None else before.value)
    except Exception as error:
        link.error = error
        raise
    return link.value


def _told(link: _Link[T]) -> Committed[T]:
    try:
        return link.future.result()
    finally:
        # Its own run is over, and with it the need for the one before.
        link.before = None
