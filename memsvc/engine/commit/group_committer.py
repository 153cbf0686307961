"""Group commit: writes that wait at the same time become durable together, by one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.metadata import MetadataStore, Transaction, UniquenessRaceError

T = TypeVar("T")

_NAME = "committer"
_ATTEMPTS = 8
"""How often a work that lost a race for a key or content is tried before its caller is told to come back."""


@dataclass(frozen=True, slots=True)
class CommitResult(Generic[T]):
    """What a durable work came to.

    Attributes:
        position: An outbox position; indexes that have reached it know all that the work did, and all that it saw.
        changes: How many changes the work made, the last of them at *position*.
    """

    value: T
    position: int
    changes: int = 0


@dataclass(frozen=True, slots=True)
class _Task:
    work: Callable[[Transaction], Any]
    began: int
    answer: Future[CommitResult[Any]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of a work within its transaction: an error, or a value and the position after it."""

    value: Any = None
    position: int = 0
    changes: int = 0
    error: Exception | None = None


class GroupCommitter:
    """The one way into the store's transactions. Safe to use from any number of threads.

    A work must be repeatable: it reads and writes through its transaction alone, and it may be run more than once.
    """

    def __init__(self, store: MetadataStore, *, max_group: int = 64) -> None:
        """Start the thread that commits to *store*, at most *max_group* works at a time."""
        self._store = store
        self._max_group = max_group
        self._queue: SimpleQueue[_Task | None] = SimpleQueue()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._owners_listeners: tuple[Callable[[AbstractSet[str]], None], ...] = ()
        self._gate = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._drain, name="memsvc-committer", daemon=True)
        self._thread.start()

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Have *listener* called after every commit that changed memories; it must return at once and not raise."""
        self._listeners = (*self._listeners, listener)

    def on_owners_changed(self, listener: Callable[[AbstractSet[str]], None]) -> None:
        """As `on_commit`; *listener* is told whose memories were changed, and perhaps a few owners more."""
        self._owners_listeners = (*self._owners_listeners, listener)

    def submit(self, work: Callable[[Transaction], T]) -> CommitResult[T]:
        """Run *work* in a transaction and return once it is durable, or raise what it raised: then it left no trace.

        Raises:
            BackendUnavailableError: The store cannot be reached, or the work lost too many races.
            BackendClosedError: The committer or the store was closed.
        """
        return self.queue(work).result()

    def queue(self, work: Callable[[Transaction], T]) -> Future[CommitResult[T]]:
        """Have *work* run after those that were queued before; the future comes to what `submit` returns or raises.

        Raises:
            BackendClosedError: The committer was closed.
        """
        task = _Task(work, CALL_START.get())
        with self._gate:
            if self._closed:
                raise BackendClosedError(_NAME)
            self._queue.put(task)
        return task.answer

    @property
    def waiting(self) -> int:
        """Return how many works wait for the next transaction, about."""
        return self._queue.qsize()

    def close(self) -> None:
        """Finish all that was submitted, then stop. Closing twice is allowed."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _drain(self) -> None:
        is_open = True
        while is_open:
            group: list[_Task] = []
            task = self._queue.get()
            while task is not None:
                group.append(task)
                if len(group) == self._max_group:
                    break
                try:
                    task = self._queue.get_nowait()
                except Empty:
                    break
            is_open = task is not None
            self._commit(group)

    def _commit(self, group: Sequence[_Task], attempts: int = _ATTEMPTS) -> None:
        try:
            done, changed = self._run(group)
        except (BackendUnavailableError, BackendClosedError) as error:
            self._fail(group, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the callers, who raise it
            if len(group) > 1:
                # What one of them wrote may have failed in the end, when it went in with what the others wrote.
                for task in group:
                    self._commit((task,))
            elif not isinstance(error, UniquenessRaceError):
                self._fail(group, error)
            elif attempts > 1:
                self._commit(group, attempts - 1)
            else:
                failure = BackendUnavailableError("metadata", retry_seconds=0.1)
                failure.__cause__ = error
                self._fail(group, failure)
        else:
            self._conclude(group, done, changed)

    @staticmethod
    def _fail(group: Sequence[_Task], error: Exception) -> None:
        for task in group:
            task.answer.set_exception(error)

    def _run(self, group: Sequence[_Task]) -> tuple[list[_Done], AbstractSet[str] | None]:
        """Commit a group; return what became of each work, and whose memories were changed, None when none were."""
        with self._store.transaction() as transaction:
            done = [_attempt(task, transaction) for task in group]
            changed = transaction.owners if transaction.position else None
        return done, changed

    def _conclude(self, group: Sequence[_Task], done: list[_Done], changed: AbstractSet[str] | None) -> None:
        """Answer for a group that is durable: whatever fails from here on, its works must not be run again."""
        try:
            if changed is not None:
                self._tell(changed)
            if not all(one.position or one.error for one in done):
                head = self._store.feed.head()
                done = [one if one.position or one.error else _Done(one.value, head) for one in done]
        except Exception as error:  # noqa: BLE001 - the callers raise it
            self._fail(group, error)
        else:
            self._answer(group, done)

    def _tell(self, owners: AbstractSet[str]) -> None:
        for told in self._owners_listeners:
            told(owners)
        for listener in self._listeners:
            listener()

    @staticmethod
    def _answer(group: Sequence[_Task], done: Sequence[_Done]) -> None:
        for task, one in zip(group, done, strict=True):
            if one.error is None:
                task.answer.set_result(CommitResult(one.value, one.position, one.changes))
            else:
                task.answer.set_exception(one.error)


def _attempt(task: _Task, transaction: Transaction) -> _Done:
    """Run a work in its own savepoint, so that its failure is its own.

    Raises:
        UniquenessRaceError: The transaction is void.
        BackendUnavailableError: The store is gone.
        BackendClosedError: The store was closed.
    """
    before = transaction.changes
    try:
        with transaction.savepoint():
            transaction.set_began(task.began)
            value = task.work(transaction)
    except (BackendUnavailableError, BackendClosedError, UniquenessRaceError):
        raise
    except Exception as error:  # noqa: BLE001 - it belongs to the caller, who raises it; the others go on
        return _Done(error=error)
    return _Done(value, transaction.position, transaction.changes - before)


# Works of one stream, each queued before the one before it is durable: so the committer never waits for the next.


@dataclass(slots=True, eq=False)
class _Link(Generic[T]):
    """A work that was queued. *value* and *error* are of its latest run."""

    before: _Link[T] | None
    future: Future[CommitResult[T]] = field(default_factory=Future)
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

    def put(self, work: Callable[[Transaction, T | None], T]) -> CommitResult[T] | None:
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

    def settle(self) -> CommitResult[T] | None:
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


def _told(link: _Link[T]) -> CommitResult[T]:
    try:
        return link.future.result()
    finally:
        # Its own run is over, and with it the need for the one before.
        link.before = None


# When the work at hand was begun, so that it cannot bring back what was erased meanwhile.


CALL_START: ContextVar[int] = ContextVar("began", default=0)
"""In microseconds since the epoch; 0: just now. Whoever works on behalf of a call has the call's."""
