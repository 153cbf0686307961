"""Group commit: concurrent writes become durable in one transaction."""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import (
    BackendClosedError,
    BackendUnavailableError,
    DeadlineExceededError,
    LimitExceededError,
    LimitKind,
    WriteConflictError,
)
from memsvc.engine.commit.busy_owners import BusyOwners, WaitEnd
from memsvc.ports.metadata import MetadataStore, OwnerLock, OwnersBusyError, Transaction, UniquenessRaceError
from memsvc.ports.thread_wait import ThreadWait

T = TypeVar("T")
W = TypeVar("W")
CALL_START: ContextVar[int] = ContextVar("call_start", default=0)
"""Start of the current call in microseconds since the epoch; 0: now.

The store refuses writes of calls that began before an erasure of their owner, and work carries the start of its call.
A context variable, not an argument: every write of every use case needs it, none of them looks at it, and threads that
work on behalf of a call inherit it. It is scoped to one call; no code reads the value of another call.
"""
PAYER: ContextVar[str | None] = ContextVar("payer", default=None)
"""API key whose quota the current call counts towards; empty: a call without a key; None: no quota holds.

A context variable for the reasons of `CALL_START`.
"""
CALL_DEADLINE: ContextVar[Deadline] = ContextVar("call_deadline", default=Deadline())  # noqa: B039 - immutable
"""Deadline of the current call, shortly before which it stops waiting for a commit.

A context variable for the reasons of `CALL_START`.
"""
FEW = 8
"""Memories that a small work writes at most.

Bulk work yields to it, and the indexer applies its changes, if a caller waits for them, before those of batches.
"""
_TRANSACTION_SIZE = 32
"""Memories that are written in the time that a transaction takes besides."""
_FEW_FLOWS = 1_024
"""Flows that are remembered at least, with or without work."""
_CHECK_SECONDS = 0.5
"""Interval at which a wait for a commit looks whether the store is known to hang."""
_COMMIT = "the commit of the write"
_NAME = "committer"
_ATTEMPTS = 8
"""Attempts for work that loses a race for a key or content, before its caller is asked to retry."""


class WritePriority(Protocol):
    """Bulk work, as far as it yields to writes; see `memsvc.engine.runtime.search_priority`."""

    def begin_write(self) -> None:
        """Count a write of few memories as under way."""
        ...

    def end_write(self) -> None:
        """Count it as done."""
        ...

    def without_yielding(self) -> AbstractContextManager[None]:
        """Return the context of work that does not yield in the thread."""
        ...


class GroupCommitter:
    """The only entry to the transactions of the store. Thread-safe.

    Work must be repeatable: it reads and writes through its transaction only, and may run more than once. Work for one
    owner is done in the order in which it was queued, and owners have equal shares of the time: a single write waits
    for the transaction under way, not for all the batches that others have queued. Work for an owner whom another
    process writes for at length waits, and later work for other owners passes it; so does work for several owners.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        max_group: int = 64,
        max_waiting: int = 24,
        priority: WritePriority | None = None,
    ) -> None:
        """Start the thread that commits to *store*.

        Args:
            store: The store.
            priority: Lets bulk work yield to writes of few memories; None: it does not yield.
            max_group: The most memories that the tasks of a transaction write, unless it is one task.
            max_waiting: The most tasks that wait for owners whom other processes write for, half as many of one owner.
        """
        self._store = store
        self._priority = priority
        self._max_waiting = max_waiting
        self._max_group = max_group
        self._queue: SimpleQueue[_Task | WaitEnd | None] = SimpleQueue()
        self._tasks: FairQueue[_Task] = FairQueue()
        self._busy: BusyOwners[_Task] = BusyOwners(store.lock, self._queue.put, most=max_waiting)
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._owner_listeners: tuple[Callable[[AbstractSet[str]], None], ...] = ()
        self._gate = threading.Lock()
        self._closed = False
        self._is_ending = False
        self._thread = threading.Thread(target=self._drain, name="memsvc-committer", daemon=True)
        self._thread.start()

    def on_commit(self, listener: Callable[[], None]) -> None:
        """Call *listener* after every commit that changed memories; it must return at once and must not raise."""
        self._listeners = (*self._listeners, listener)

    def on_owners_changed(self, listener: Callable[[AbstractSet[str]], None]) -> None:
        """As `on_commit`; *listener* receives the owners of the changed memories, and possibly a few other owners."""
        self._owner_listeners = (*self._owner_listeners, listener)

    def submit(self, work: Callable[[Transaction], T], *, owner: str | None = None, size: int = 1) -> CommitResult[T]:
        """Run *work* in a transaction; return once it is durable, or raise its error after rolling it back.

        Args:
            work: The work.
            owner: The only owner whose data the work reads and writes: it then runs next to the work of other owners in
                other processes. None: it concerns several owners, and runs alone.
            size: About how many memories, chunks or messages it writes.

        Raises:
            BackendUnavailableError: The store cannot be reached, another process writes for the owner without end, or
                the work lost too many races.
            DeadlineExceededError: The work was not durable shortly before the deadline of the call.
            LimitExceededError: Too much work waits for another process that writes for its owner.
            BackendClosedError: The committer or the store is closed.
        """
        self._store.check_writes()
        queued = self.queue(work, owner=owner, size=size)
        try:
            return self.wait(queued)
        except (BackendUnavailableError, DeadlineExceededError):
            # What has not begun is not done; what is under way may become durable all the same.
            queued.cancel()
            raise

    def wait(self, queued: Future[CommitResult[T]]) -> CommitResult[T]:
        """Return the result of queued work, or raise its error.

        Raises:
            BackendUnavailableError: The store hangs. The work may become durable all the same.
            DeadlineExceededError: The deadline of the call is near. Likewise.
        """
        left = CALL_DEADLINE.get().patience_seconds()
        # Work that outlasts its call has no deadline.
        until = time.monotonic() + left if left else math.inf
        with ThreadWait():
            while not _is_done(queued, min(_CHECK_SECONDS, until - time.monotonic())):
                self._store.check_writes()
                if time.monotonic() >= until:
                    raise DeadlineExceededError(_COMMIT)
        return queued.result()

    def queue(
        self, work: Callable[[Transaction], T], *, owner: str | None = None, size: int = 1, is_bulk: bool = False
    ) -> Future[CommitResult[T]]:
        """Queue *work* behind earlier work of its owner; return a future with the result or error of `submit`.

        Until a small work is done that is not a part of bulk work, bulk work yields to it.

        Raises:
            BackendClosedError: The committer is closed.
        """
        task = _Task(work, CALL_START.get(), owner, PAYER.get(), max(1, size))
        with self._gate:
            if self._closed:
                raise BackendClosedError(_NAME)
            priority = self._priority
            if priority is not None and size <= FEW and not is_bulk:
                priority.begin_write()
                task.future.add_done_callback(lambda _: priority.end_write())
            self._queue.put(task)
        return task.future

    @property
    def queue_length(self) -> int:
        """Return the approximate number of tasks that wait for the next transaction."""
        return self._queue.qsize() + len(self._tasks) + len(self._busy)

    def close(self) -> None:
        """Finish all submitted work, then stop. Idempotent."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _drain(self) -> None:
        while not self._is_ending or len(self._tasks) or len(self._busy):
            group, ends = self._collect()
            for end in ends:
                self._commit_after_wait(end)
            if group:
                self._commit(group)

    def _collect(self) -> tuple[list[_Task], list[WaitEnd]]:
        """Wait for work; return the next work for owners who are not busy, and the waits that have ended."""
        ends = self._receive()
        group: list[_Task] = []
        size = 0
        while len(self._tasks) and (not group or size + self._tasks.first().size <= self._max_group):
            task = self._tasks.pop()
            if not self._busy.is_busy(task.owner):
                group.append(task)
                size += task.size
            elif not self._busy.add(task.owner, task):
                self._fail((task,), self._refusal())
        return group, ends

    def _receive(self) -> list[WaitEnd]:
        """Receive all that was queued, after a wait if there is no work; return the waits that have ended."""
        ends: list[WaitEnd] = []
        with suppress(Empty):
            while True:
                is_done = self._is_ending and not len(self._busy)
                item = self._next(is_idle=not (len(self._tasks) or ends or is_done))
                if item is None:
                    self._is_ending = True
                elif isinstance(item, WaitEnd):
                    ends.append(item)
                else:
                    self._tasks.put(item, flow=item.owner, cost=1 + item.size / _TRANSACTION_SIZE)
        return ends

    def _next(self, *, is_idle: bool) -> _Task | WaitEnd | None:
        """Return the next item of the queue, after a wait for it if there is nothing else to do.

        Raises:
            Empty: There is none, and no wait.
        """
        with suppress(Empty):
            return self._queue.get_nowait()
        if not is_idle:
            raise Empty
        self._tasks.rest()
        return self._queue.get()

    def _commit_after_wait(self, end: WaitEnd) -> None:
        """Commit the work that waited for an owner, in the transaction that has the lock, or fail it."""
        waited = self._busy.take(end, self._max_group)
        group = [task for task, _ in waited]
        if end.lock is None:
            self._fail(group, end.error or BackendUnavailableError("metadata"))
            return
        try:
            self._commit(group, lock=end.lock, waiting_since=waited[0][1])
        finally:
            end.lock.release()

    def _commit(
        self, group: Sequence[_Task], *, lock: OwnerLock | None = None, waiting_since: float | None = None
    ) -> None:
        """Commit a group, or each of its tasks alone; have those wait whose owner is busy.

        Args:
            group: The tasks, in the order in which they were queued.
            lock: The lock of their only owner.
            waiting_since: When they began to wait for their owner, of `time.monotonic`. None: they did not.
        """
        group = [task for task in group if task.begin()]
        if not group:
            return
        left: Sequence[_Task] = group
        try:
            if not self._commit_together(group, lock):
                for index, task in enumerate(group):
                    left = group[index:]
                    self._commit_together((task,))
        except OwnersBusyError as error:
            self._hold_back(left, error.owners, waiting_since)

    def _hold_back(self, group: Sequence[_Task], owners: AbstractSet[str] | None, waiting_since: float | None) -> None:
        """Have the tasks of *owners* wait, with None those that concern several, and commit the others."""
        held: dict[str | None, list[_Task]] = {}
        rest: list[_Task] = []
        for task in group:
            is_held = task.owner is None if owners is None else task.owner in owners
            (held.setdefault(task.owner, []) if is_held else rest).append(task)
        since = time.monotonic() if waiting_since is None else waiting_since
        for owner, tasks in held.items():
            if refused := self._busy.put_back(owner, tasks, since=since):
                self._fail(refused, self._refusal())
        if rest:
            self._commit(rest)

    def _commit_together(self, group: Sequence[_Task], lock: OwnerLock | None = None) -> bool:
        """Commit a group in one transaction and deliver its results or error.

        Returns:
            False if nothing was done, since the error may come from the combination of several writes.

        Raises:
            OwnersBusyError: Some of the owners are busy; nothing was done.
        """
        failure: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                results, changed = self._run(group, lock)
            except OwnersBusyError:
                raise
            except (BackendUnavailableError, BackendClosedError) as error:
                self._fail(group, error)
            except Exception as error:  # noqa: BLE001 - delivered to the callers
                if len(group) > 1:
                    return False
                if isinstance(error, UniquenessRaceError):
                    failure, lock = error, None
                    continue
                self._fail(group, error)
            else:
                self._finish(group, results, changed)
            return True
        lost = WriteConflictError()
        lost.__cause__ = failure
        self._fail(group, lost)
        return True

    def _refusal(self) -> LimitExceededError:
        limit = (
            f"{self._max_waiting} writes, {self._max_waiting // 2} of one user, that wait for another server to end "
            "its write of the user"
        )
        return LimitExceededError(limit, retry_seconds=1.0, kind=LimitKind.QUEUE)

    @staticmethod
    def _fail(group: Sequence[_Task], error: Exception) -> None:
        for task in group:
            if task.begin():
                task.future.set_exception(error)

    def _run(self, group: Sequence[_Task], lock: OwnerLock | None) -> tuple[list[_TaskResult], AbstractSet[str] | None]:
        """Commit a group; return the result of each task, and the owners of changed memories, None without changes."""
        named = {task.owner for task in group if task.owner is not None}
        owners = named if all(task.owner is not None for task in group) else None
        with (
            nullcontext() if self._priority is None else self._priority.without_yielding(),
            self._store.transaction(owners=owners, works=len(group), is_patient=False, lock=lock) as transaction,
        ):
            results = [_attempt(task, transaction) for task in group]
            changed = transaction.owners if transaction.position else None
        return results, changed

    def _finish(self, group: Sequence[_Task], results: list[_TaskResult], changed: AbstractSet[str] | None) -> None:
        """Resolve the futures of a durable group. An error from here on must not run the tasks again."""
        try:
            if changed is not None:
                self._notify(changed)
            if not all(one.position or one.error for one in results):
                head = self._store.feed.head_position()
                results = [one if one.position or one.error else _TaskResult(one.value, head) for one in results]
        except Exception as error:  # noqa: BLE001 - delivered to the callers
            self._fail(group, error)
        else:
            self._resolve(group, results)

    def _notify(self, owners: AbstractSet[str]) -> None:
        for owner_listener in self._owner_listeners:
            owner_listener(owners)
        for listener in self._listeners:
            listener()

    @staticmethod
    def _resolve(group: Sequence[_Task], results: Sequence[_TaskResult]) -> None:
        for task, one in zip(group, results, strict=True):
            if one.error is None:
                task.future.set_result(CommitResult(one.value, one.position, one.changes))
            else:
                task.future.set_exception(one.error)


class FairQueue(Generic[W]):
    """Work of several flows, in shares that are equal by cost; that of one flow in the order in which it was put.

    Start-time fair queueing (Goyal, Vin and Cheng, 1996): work begins at the time at which the work before it in its
    flow ends, or at the time of the queue if that is later, and ends by its cost later; work that begins first comes
    first, among equals the work that ends first. The time of the queue is the beginning of the latest work taken. So a
    flow that seldom has work waits for the work under way only, whatever the others have queued; among new flows
    cheap work passes costly work. For one thread.
    """

    def __init__(self) -> None:
        self._works: dict[Hashable, deque[tuple[W, float]]] = {}
        self._ends: dict[Hashable, float] = {}
        self._first: list[tuple[float, float, int, Hashable]] = []
        self._time = 0.0
        self._number = 0
        self._count = 0
        self._most_ends = _FEW_FLOWS

    def __len__(self) -> int:
        """Return how much work is queued; from any thread."""
        return self._count

    def put(self, work: W, *, flow: Hashable, cost: float) -> None:
        """Queue *work* of a *flow*; its *cost* is positive, in any unit."""
        works = self._works.setdefault(flow, deque())
        works.append((work, cost))
        self._count += 1
        if len(works) == 1:
            self._schedule(flow)

    def first(self) -> W:
        """Return the next work without removing it.

        Raises:
            IndexError: The queue is empty.
        """
        return self._works[self._first[0][-1]][0][0]

    def pop(self) -> W:
        """Remove and return the next work.

        Raises:
            IndexError: The queue is empty.
        """
        if not self._first:
            message = "The queue is empty."
            raise IndexError(message)
        begin, end, _, flow = heapq.heappop(self._first)
        works = self._works[flow]
        work, _ = works.popleft()
        self._count -= 1
        self._time, self._ends[flow] = begin, end
        if works:
            self._schedule(flow)
        else:
            del self._works[flow]
            self._forget()
        return work

    def rest(self) -> None:
        """Forget what each flow has had: nothing is queued or under way."""
        self._time = max(self._ends.values(), default=self._time)
        self._ends.clear()

    def _schedule(self, flow: Hashable) -> None:
        """Give the first work of a flow its place."""
        _, cost = self._works[flow][0]
        begin = max(self._time, self._ends.get(flow, 0.0))
        self._number += 1
        heapq.heappush(self._first, (begin, begin + cost, self._number, flow))

    def _forget(self) -> None:
        """Drop flows that have no advance, each time that there are twice as many as were left."""
        if len(self._ends) > self._most_ends:
            self._ends = {flow: end for flow, end in self._ends.items() if end > self._time}
            self._most_ends = max(_FEW_FLOWS, 2 * len(self._ends))


class CommitPipeline(Generic[T]):
    """A queue of dependent work, each queued before its predecessor is durable: the committer never idles between them.

    Work whose predecessor failed is not done. Not thread-safe.
    """

    def __init__(self, committer: GroupCommitter, owner: str) -> None:
        """Queue work of *owner* at *committer*."""
        self._committer = committer
        self._owner = owner
        self._last: _Link[T] | None = None
        self._is_reported = True

    def put(self, work: Callable[[Transaction, T | None], T], *, size: int = 1) -> CommitResult[T] | None:
        """Queue work; return the result of its predecessor once that is durable, None if it was returned before.

        Args:
            work: Receives the value of its predecessor, None if it is the first. Like all work it may run again.
            size: As of `GroupCommitter.submit`.

        Raises:
            Exception: The error of the predecessor; the new work is not done either.
        """
        before = self._last
        link: _Link[T] = _Link(before)
        link.future = self._committer.queue(
            lambda transaction: _run(link, work, transaction), owner=self._owner, size=size, is_bulk=True
        )
        was_reported, self._last, self._is_reported = self._is_reported, link, False
        return None if before is None or was_reported else self._result_of(before)

    def settle(self) -> CommitResult[T] | None:
        """Return the result of the last work once it is durable, None if it was returned before.

        Raises:
            Exception: The error of the work.
        """
        last, was_reported = self._last, self._is_reported
        if last is None or was_reported:
            return None
        self._last, self._is_reported = None, True
        result = self._result_of(last)
        # Later work continues from the last value; after a failure it starts without one.
        self._last = last
        return result

    def _result_of(self, link: _Link[T]) -> CommitResult[T]:
        try:
            return self._committer.wait(link.future)
        finally:
            # Unlink the predecessor, so that a long pipeline does not keep every link alive.
            link.before = None


@dataclass(frozen=True, slots=True)
class CommitResult(Generic[T]):
    """The result of durable work.

    Attributes:
        position: An outbox position. Indexes that have reached it contain everything that the work wrote and read.
        changes: The changes that the work made are among as many positions, the last of which is *position*.
    """

    value: T
    position: int
    changes: int = 0


@dataclass(frozen=True, slots=True)
class _Task:
    work: Callable[[Transaction], Any]
    call_start: int
    owner: str | None
    payer: str | None
    size: int
    future: Future[CommitResult[Any]] = field(default_factory=Future)

    def begin(self) -> bool:
        """Return whether the work is to be done, for the committing thread; its caller can cancel it no longer."""
        return self.future.running() or self.future.set_running_or_notify_cancel()


@dataclass(frozen=True, slots=True)
class _TaskResult:
    """Result of a task within its transaction: an error, or a value and the position after it."""

    value: Any = None
    position: int = 0
    changes: int = 0
    error: Exception | None = None


def _attempt(task: _Task, transaction: Transaction) -> _TaskResult:
    """Run a task in its own savepoint, so that its failure does not affect the others.

    Raises:
        UniquenessRaceError: The transaction is void.
        BackendUnavailableError: The store cannot be reached.
        BackendClosedError: The store is closed.
    """
    before = transaction.changes
    try:
        with transaction.savepoint():
            transaction.set_began(task.call_start)
            transaction.set_payer(task.payer)
            value = task.work(transaction)
    except (BackendUnavailableError, BackendClosedError, UniquenessRaceError):
        raise
    except Exception as error:  # noqa: BLE001 - delivered to the caller; the others continue
        return _TaskResult(error=error)
    return _TaskResult(value, transaction.position, transaction.changes - before)


@dataclass(slots=True, eq=False)
class _Link(Generic[T]):
    """Queued work of a pipeline. *value* and *error* come from its latest run."""

    before: _Link[T] | None
    future: Future[CommitResult[T]] = field(default_factory=Future)
    value: T | None = None
    error: BaseException | None = None

    def failure(self) -> BaseException | None:
        """Return the error that prevented the work, as far as it is known."""
        return self.error or (self.future.exception() if self.future.done() else None)


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


def _is_done(future: Future[Any], seconds: float) -> bool:
    """Wait for a future for so many seconds, and return whether it is done."""
    with suppress(TimeoutError):
        future.exception(max(0.0, seconds))
    return future.done()
