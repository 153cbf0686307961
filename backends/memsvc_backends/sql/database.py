"""The connection pool: one writer, and several readers."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import sqlalchemy as sa
from sqlalchemy import exc

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import (
    RESUMES,
    UNREACHED,
    BackendClosedError,
    BackendUnavailableError,
    MemsvcError,
    ReportedError,
    StoreMovedError,
)
from memsvc.ports.metadata import OwnersBusyError, UniquenessRaceError
from memsvc_backends.postgres_common.connection_options import READ_ONLY
from memsvc_backends.sql.dialect import execute
from memsvc_backends.sql.settings import SqlSettings

BACKEND = "sql"
_UNIQUE_VIOLATION, _DEADLOCK = "23505", "40P01"
LOCK_NOT_IN_TIME = "55P03"
LONGEST_TURN_SECONDS = 0.05
"""How long a write of this process waits while others that came after it go first."""
MOMENT_SECONDS = 0.2
"""How long work waits for the same owner's work in other processes before work for other owners goes first.

A commit takes milliseconds.
"""
_LONGEST_SECONDS = 2.0
"""How long an attempt to write alone waits at most for the transactions under way, and again for those that began
while it waited: then it holds up the transactions that begin, in all processes."""
NOT_DURABLE = "SET synchronous_commit = off"
"""Numbers are durable with the commit of the transaction that uses them, which comes later in the log."""
NOT_DURABLE_HERE = "SET LOCAL synchronous_commit = off"
"""As `NOT_DURABLE`, for one transaction."""
_TAKE_NUMBERS = (
    "UPDATE counters SET last_row = last_row + %s, last_position = last_position + %s RETURNING last_row, last_position"
)
DRIFT_MICROS = 100.0
"""Drift of two clocks in a second."""
MOVED = "memsvc: moved to "
"""What a database refuses writes with whose data have moved away; the place follows."""
_PROBLEMS = {
    r"failed to resolve host|could not translate host": (
        "cannot be reached: the host in its url is not known; write special characters of a password in the url as "
        "%40 (@), %3A (:), %2F (/)"
    ),
    r"timeout expired|connection .*(Connection refused|No such file|No route to host)": (
        "cannot be reached: is PostgreSQL up, and are host and port in its url right?"
    ),
    "password authentication failed": "refuses the connection: correct user and password in its url",
    "no password supplied": "refuses the connection: its url needs a password",
    r'role ".*" does not exist': "refuses the connection: it has no user of the name in its url",
    r'database ".*" does not exist': (
        "refuses the connection: create the database that its url names, or correct the name"
    ),
    r"no pg_hba\.conf entry": "refuses the connection: let this machine and user in by its pg_hba.conf",
    "too many (clients|connections)|remaining connection slots": "has no connection left: raise its max_connections",
    "invalid .*(value|option|port|parameter)": "cannot be reached: its url has a wrong part; check port and parameters",
}
"""What PostgreSQL's client says of a connection that failed, and what to do."""
DAMAGED = "is damaged: stop the service and restore a backup; docs/operations/backup.md says how"
_ALL_IN_USE = "has all connections for reads in use: raise metadata.options.readers if that happens often"
_FULL = f"has no space left: free some on its disk, and it {RESUMES}"
_STATES = {
    "53100": _FULL,
    "XX001": DAMAGED,
    "XX002": DAMAGED,
    "25006": READ_ONLY,
    "42501": (
        "refuses a statement: the user of its url lacks a right; GRANT USAGE, CREATE ON SCHEMA … TO that user, or make "
        "it the owner of the database"
    ),
    "3F000": (
        "has no schema for the tables: the first one of the search path must exist (CREATE SCHEMA …; ALTER ROLE … SET "
        "search_path = …)"
    ),
    "42P07": ("has a table of another application in the schema: give memsvc a schema or a database of its own"),
    LOCK_NOT_IN_TIME: "has a lock that another server holds for long: try again",
    "57014": "ended a statement that took too long: raise or remove the statement_timeout of the user of its url",
}
"""Faults of PostgreSQL that have a code."""
_FILE_PROBLEMS = {
    "file is not a database": DAMAGED,
    "database disk image is malformed": DAMAGED,
    "malformed database schema": DAMAGED,
    "database or disk is full": _FULL,
    "disk I/O error": "cannot read or write its file: check the disk, its space and its log of errors",
    "unable to open database file": "cannot open its file: check the rights and the space of the data directory",
    "readonly database": "cannot write to its file: check the owner and the rights of the data directory",
    "database is locked": f"is locked by another process: stop that, and it {RESUMES}",
}
"""What SQLite says, and what to do."""

_log = logging.getLogger(__name__)


class Database:
    """A pool of connections that translates their errors.

    Connections stay open between uses: a checkout from SQLAlchemy's own pool costs more than a small query does. Only
    one write of a process runs at a time; the others wait here rather than in the database, where waiting means
    polling, or a connection for each. When a connection is found lost, all idle ones are closed too, so that the first
    call after the database came back succeeds.
    """

    def __init__(self, driver: Driver, settings: SqlSettings) -> None:
        """Open nothing yet; connections are made when they are first needed."""
        self.driver = driver
        self._shared = driver if isinstance(driver, SharedDriver) else None
        self._wait_seconds = settings.wait_seconds
        self._lock = TurnLock()
        self._writer_thread: int | None = None
        self._writer: sa.Connection | None = None
        self._numbers: sa.Connection | None = None
        self._slots = threading.BoundedSemaphore(settings.readers)
        self._idle_lock = threading.Lock()
        self._idle: list[sa.Connection] = []
        self._is_closed = False
        self._is_damaged = False

    def require_whole(self) -> None:
        """Return if no damage of the database was seen since it was opened.

        Raises:
            BackendUnavailableError: Some was. Statements that read other pages may succeed all the same.
        """
        if self._is_damaged:
            raise BackendUnavailableError(BACKEND, problem=DAMAGED)

    def note_damage(self) -> None:
        """Record that the database is damaged, until it is opened again."""
        if not self._is_damaged:
            self._is_damaged = True
            _log.error("the database of the store %s", DAMAGED)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate the errors of the block, and note damage of the database."""
        try:
            with translate():
                yield
        except BackendUnavailableError as error:
            if error.backend == BACKEND and error.problem == DAMAGED:
                self.note_damage()
            raise

    @contextmanager
    def read_connection(self) -> Iterator[sa.Connection]:
        """Provide a connection on which every statement sees all earlier commits."""
        with self._translated(), self._borrow() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Provide a connection on which all statements see the same state."""
        with self._translated(), self._borrow() as connection:
            try:
                self.driver.begin_snapshot(connection)
                yield connection
            finally:
                self.driver.undo(connection)

    @contextmanager
    def write_transaction(
        self,
        *,
        owners: AbstractSet[str] | None = None,
        is_limited: bool = True,
        is_patient: bool = True,
        lock: BegunTransaction | None = None,
    ) -> Iterator[sa.Connection]:
        """Provide the writing connection in a transaction: committed at its end, rolled back on an error.

        It waits for those of other processes that write to one of *owners*; without owners, for all. Without
        *is_limited* it waits for them, and its statements take, as long as need be.

        Args:
            owners: The owners.
            is_limited: The settings limit how long it waits and how long a statement takes.
            is_patient: It waits more than a moment for others.
            lock: A transaction that was begun before, and is used unless it is lost.

        Raises:
            OwnersBusyError: It is not patient, and others take long.
        """
        begun = None if lock is None else lock.take(self.driver)
        if begun is not None and self._shared is not None:
            begin_locked = self._shared.begin_locked
            with self._writing_connection(begun) as connection, self._commit_on_exit(connection, begin_locked):
                yield connection
            return
        begin = partial(self.driver.begin_write, owners=owners, is_limited=is_limited)
        with ExitStack() as stack:
            if not is_patient:
                # A moment without others was found just before, and work for single owners does not wait so long.
                seconds = _LONGEST_SECONDS if owners is None and lock is not None else MOMENT_SECONDS
                yield self._begin_write(stack, partial(begin, lock_seconds=seconds))
            elif owners is None and is_limited and self.driver.is_shared:
                yield self._begin_alone(stack)
            else:
                yield self._begin_write(stack, begin, is_limited=is_limited)

    def _begin_write(
        self, stack: ExitStack, begin: Callable[[sa.Connection], None], *, is_limited: bool = True
    ) -> sa.Connection:
        """Begin on the writing connection; the exit of *stack* commits and gives it back."""
        with ExitStack() as attempt:
            connection = attempt.enter_context(self._writing_connection(is_limited=is_limited))
            attempt.enter_context(self._commit_on_exit(connection, begin))
            stack.push(attempt.pop_all())
        return connection

    def _begin_alone(self, stack: ExitStack) -> sa.Connection:
        """Begin when no transaction of another process is under way.

        Other writes of this process take the turn of the writing connection between the attempts.
        """
        for seconds in _attempts(self._wait_seconds):
            with suppress(OwnersBusyError):
                return self._begin_write(stack, partial(self.driver.begin_write, lock_seconds=seconds))
        raise BackendUnavailableError(BACKEND, problem=_STATES[LOCK_NOT_IN_TIME])

    def lock(self, owner: str | None, *, waited_seconds: float) -> BegunTransaction:
        """Begin a transaction on a connection of its own, once no other process writes for *owner*.

        It prevents none that writes alone until `write_transaction` uses it. With None, wait for a moment in which no
        other process writes at all.
        """
        self._refuse_when_closed()
        if self._shared is None:
            return BegunTransaction(None)
        left = max(self._wait_seconds - waited_seconds, MOMENT_SECONDS)
        with self._translated():
            self.driver.check()
            connection = self.driver.connect()
            try:
                with self.driver.watch(connection):
                    if owner is not None:
                        self._shared.lock_owner(connection, owner, seconds=left)
                        return BegunTransaction(connection)
                    self._find_moment_alone(connection, left)
            except BaseException as error:
                _close_connection(connection)
                if isinstance(error, OwnersBusyError):
                    raise BackendUnavailableError(BACKEND, problem=_STATES[LOCK_NOT_IN_TIME]) from error
                raise
        _close_connection(connection)
        return BegunTransaction(None)

    def _find_moment_alone(self, connection: sa.Connection, seconds: float) -> None:
        for patience in _attempts(seconds):
            self._refuse_when_closed()
            with suppress(OwnersBusyError):
                self.driver.begin_write(connection, lock_seconds=patience)
                return
        raise OwnersBusyError(None)

    def take_numbers(self, connection: sa.Connection, rows: int, positions: int) -> tuple[int, int]:
        """Take the next numbers of a shared store, at once for all; return the last row and the last position.

        For the thread in the write transaction of *connection*. The numbers are taken on a connection of their own,
        since the row that holds them would be locked until the end of the transaction.
        """
        self.driver.announce(connection)
        if self._numbers is not None and not self.driver.is_usable(self._numbers):
            self._close_numbers()
        if self._numbers is None:
            self._numbers = self.driver.connect()
            execute(self._numbers, NOT_DURABLE)
        with self.driver.watch(self._numbers):
            row, position = execute(self._numbers, _TAKE_NUMBERS, (rows, positions)).one()
        return int(row), int(position)

    @contextmanager
    def note_transaction(self) -> Iterator[sa.Connection]:
        """Provide a connection as `write_transaction` does, for writes that need no order with changes of memories.

        On a shared store it does not wait for the lock of writers.
        """
        if not self.driver.is_shared:
            with self.write_transaction() as connection:
                yield connection
            return
        with self._translated(), self._borrow() as connection, self._commit_on_exit(connection, self.driver.begin_note):
            yield connection

    @contextmanager
    def maintenance_connection(self) -> Iterator[sa.Connection]:
        """Provide the writing connection without a transaction, for statements that cannot run in one."""
        with self._writing_connection(is_limited=False) as connection:
            yield connection

    def settled_position(self) -> int:
        """Return the position up to which no change will be committed that a later snapshot does not see."""
        with self.read_connection() as connection:
            return self.driver.settled_position(connection)

    def close(self) -> None:
        """Close every connection, those in use when they are returned. Waits for the running write."""
        self._lock.acquire()
        try:
            with self._idle_lock:
                self._is_closed = True
            self._close_idle()
            if self._writer is not None:
                # The last connection to close brings SQLite's log into the database file and removes it.
                self._writer.close()
                self._writer = None
            self._close_numbers()
        finally:
            self._lock.release()
        self.driver.close()

    @contextmanager
    def _commit_on_exit(self, connection: sa.Connection, begin: Callable[[sa.Connection], None]) -> Iterator[None]:
        try:
            begin(connection)
            yield
            self.driver.commit(connection)
        except BaseException:
            self.driver.undo(connection)
            raise

    @contextmanager
    def _borrow(self) -> Iterator[sa.Connection]:
        self._refuse_when_closed()
        if not self._slots.acquire(timeout=self._wait_seconds):
            raise BackendUnavailableError(BACKEND, problem=_ALL_IN_USE)
        connection: sa.Connection | None = None
        try:
            self.driver.check()
            connection = self._take_idle() or self.driver.connect()
            with self.driver.watch(connection):
                yield connection
        finally:
            self._return_connection(connection)
            self._slots.release()

    def _take_idle(self) -> sa.Connection | None:
        """Return a connection that lay idle and can be used."""
        while True:
            with self._idle_lock:
                self._refuse_when_closed()
                connection = self._idle.pop() if self._idle else None
            if connection is None or self.driver.is_usable(connection):
                return connection
            _close_connection(connection)

    def _return_connection(self, connection: sa.Connection | None) -> None:
        if connection is None:
            return
        is_clean = self.driver.is_clean(connection)
        with self._idle_lock:
            is_kept = is_clean and not self._is_closed
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            _close_connection(connection)
        if not is_clean:
            self._close_idle()

    def _close_idle(self) -> None:
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            _close_connection(connection)

    @contextmanager
    def _writing_connection(
        self, begun: sa.Connection | None = None, *, is_limited: bool = True
    ) -> Iterator[sa.Connection]:
        """Provide the connection for writes, or the one that has *begun*, which is closed in the end."""
        try:
            self._wait_for_turn()
        except BaseException:
            if begun is not None:
                _close_connection(begun)
            raise
        try:
            with self._translated():
                self.driver.check()
                if begun is not None:
                    with self.driver.watch(begun, is_limited=is_limited):
                        yield begun
                    return
                if self._writer is not None and not self.driver.is_usable(self._writer):
                    self._close_writer()
                if self._writer is None:
                    self._writer = self.driver.connect()
                with self.driver.watch(self._writer, is_limited=is_limited):
                    yield self._writer
        finally:
            if begun is not None:
                _close_connection(begun)
            if self._writer is not None and not self.driver.is_clean(self._writer):
                self._close_writer()
                self._close_idle()
            self._writer_thread = None
            self._lock.release()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            _close_connection(writer)
        self._close_numbers()

    def _close_numbers(self) -> None:
        numbers, self._numbers = self._numbers, None
        if numbers is not None:
            _close_connection(numbers)

    def _wait_for_turn(self) -> None:
        self._refuse_when_closed()
        if self._writer_thread == threading.get_ident():
            message = "A transaction is open in this thread already."
            raise RuntimeError(message)
        self.driver.check_writes()
        if not self._lock.acquire(timeout=self._wait_seconds):
            self.driver.check_writes()
            raise BackendUnavailableError(BACKEND)
        if self._is_closed:
            self._lock.release()
            raise BackendClosedError(BACKEND)
        self._writer_thread = threading.get_ident()

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise BackendClosedError(BACKEND)


class TurnLock:
    """A lock that goes to the thread which has waited longest once that is longer than `LONGEST_TURN_SECONDS`.

    Until then any thread may take it, as of a `threading.Lock`: handing it over each time leaves it unused until the
    other thread runs. But a `threading.Lock` goes on to a thread that asks for it again at once, as the committer does
    between the batches of several users, until that has no more work. `sync.Mutex` of Go does the same.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_held = False
        self._waiting: deque[_Waiter] = deque()

    @property
    def waiting_count(self) -> int:
        """Return how many threads wait for the lock."""
        return len(self._waiting)

    def acquire(self, *, timeout: float = math.inf) -> bool:
        """Return True once this thread holds the lock, or False after *timeout* seconds."""
        with self._lock:
            if not self._is_held:
                self._is_held = True
                return True
            waiter = _Waiter(time.monotonic())
            self._waiting.append(waiter)
        while True:
            left = waiter.since + timeout - time.monotonic()
            is_woken = waiter.wake.wait(None if left == math.inf else max(0.0, left))
            with self._lock:
                waiter.wake.clear()
                if waiter.is_holder:
                    return True
                if self._is_held and is_woken:
                    # Another thread was faster.
                    continue
                self._waiting.remove(waiter)
                is_free, self._is_held = not self._is_held, True
                return is_free

    def release(self) -> None:
        """Free the lock, or give it to the thread that has waited long."""
        with self._lock:
            self._is_held = False
            if self._waiting:
                first = self._waiting[0]
                if time.monotonic() - first.since >= LONGEST_TURN_SECONDS:
                    self._waiting.popleft()
                    self._is_held = first.is_holder = True
                first.wake.set()


@dataclass(slots=True, eq=False)
class _Waiter:
    """A thread that waits for a `TurnLock` since a time of `time.monotonic`."""

    since: float
    is_holder: bool = False
    wake: threading.Event = field(default_factory=threading.Event)


class BegunTransaction:
    """`memsvc.ports.metadata.OwnerLock`: a transaction that holds the lock of its owner, and has done nothing yet."""

    def __init__(self, connection: sa.Connection | None) -> None:
        """Keep the connection of the transaction. None: no lock is needed."""
        self._connection = connection

    def take(self, driver: Driver) -> sa.Connection | None:
        """Return the connection for its only use, None if it is lost."""
        connection, self._connection = self._connection, None
        if connection is None or driver.is_usable(connection):
            return connection
        _close_connection(connection)
        return None

    def release(self) -> None:
        """Roll back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _close_connection(connection)


def _attempts(seconds: float) -> Iterator[float]:
    """Iterate for about *seconds* over how long to wait, with pauses of the same length between."""
    end, patience = time.monotonic() + seconds, MOMENT_SECONDS
    while True:
        yield patience
        if time.monotonic() + patience > end:
            return
        time.sleep(patience)
        patience = min(2 * patience, _LONGEST_SECONDS)


def _close_connection(connection: sa.Connection) -> None:
    """Close a connection that may be broken."""
    with suppress(sa.exc.SQLAlchemyError):
        if not connection.invalidated:
            connection.invalidate()
        connection.close()


# What the connections to a database are made and driven by: SQLite and PostgreSQL have one each.


class Driver(Protocol):
    """Driver of a dialect: makes connections, begins and ends transactions.

    Connections are in the driver's own autocommit: transactions are begun by words, never by the driver.
    """

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may write to the database: then nothing read can be kept."""
        ...

    def connect(self) -> sa.Connection:
        """Make a connection."""
        ...

    def check(self) -> None:
        """Return, or raise BackendUnavailableError if the database is known to hang."""
        ...

    def check_writes(self) -> None:
        """As `check`, for writes: the disk of an embedded database may hang while reads are answered from memory."""
        ...

    def watch(self, connection: sa.Connection, *, is_limited: bool = True) -> AbstractContextManager[None]:
        """Watch a connection for a database that hangs: its statement then fails.

        Without *is_limited* a statement may take as long as it needs.
        """
        ...

    def is_usable(self, connection: sa.Connection) -> bool:
        """Return whether an idle connection can be used, as far as is known without asking the server."""
        ...

    def is_clean(self, connection: sa.Connection) -> bool:
        """Return whether a returned connection can be reused: it is open, and in no transaction."""
        ...

    def begin_snapshot(self, connection: sa.Connection) -> None:
        """Begin a transaction that sees one state of the database throughout."""
        ...

    def begin_write(
        self,
        connection: sa.Connection,
        owners: AbstractSet[str] | None = None,
        *,
        is_limited: bool = True,
        lock_seconds: float | None = None,
    ) -> None:
        """Begin a transaction that changes memories of *owners*, or with None of any.

        It waits until no other one of these is under way, in this process or another, so that it cannot fail half way
        for it.

        Args:
            connection: A connection that is in no transaction.
            owners: The owners.
            is_limited: The driver limits the time that it waits and takes.
            lock_seconds: How long it waits for each of the owners. None: as long as for any lock.

        Raises:
            OwnersBusyError: The *lock_seconds* are over.
        """
        ...

    def announce(self, connection: sa.Connection) -> None:
        """Say, before numbers are taken ahead of the commit, that positions beyond the last one are under way."""
        ...

    def settled_position(self, connection: sa.Connection) -> int:
        """Return the position up to which no change will be committed that a later statement does not see."""
        ...

    def begin_note(self, connection: sa.Connection) -> None:
        """Begin a transaction for writes without an order; it may run next to one that changes memories."""
        ...

    def keep_alive(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Keep the transaction of a connection while its thread does something else; that of a stopped process ends.

        Without it a transaction other than `begin_write`'s ends when its connection is silent for half a minute.
        """
        ...

    def commit(self, connection: sa.Connection) -> None:
        """Commit, or raise: a transaction in which a statement failed is not passed off as committed."""
        ...

    def undo(self, connection: sa.Connection) -> None:
        """Take the transaction back, if there is one still."""
        ...

    def files(self) -> Sequence[Path]:
        """Return the files, of this machine, in which what was removed may stay until `rewrite`."""
        ...

    def settle(self, connection: sa.Connection) -> bool:
        """Bring what was removed out of the files that hold the log of changes, outside a transaction.

        Return False when a reader of an older state is in the way.
        """
        ...

    def empty_log_soon(self) -> None:
        """Have the log of changes emptied in the background after text was removed for good, where it is a file."""
        ...

    @property
    def rewrite_bytes(self) -> int:
        """Return the size up to which a database on a server is rewritten after every erasure; 0: none is."""
        ...

    def rewrite(self, connection: sa.Connection) -> None:
        """Rewrite all data without removed content. Outside a transaction."""
        ...

    def storage_bytes(self, connection: sa.Connection) -> int:
        """Return the bytes that the database takes up."""
        ...

    def close(self) -> None:
        """Give back what is not a connection."""
        ...


@runtime_checkable
class SharedDriver(Driver, Protocol):
    """Driver of a database that several processes write to."""

    def lock_owner(self, connection: sa.Connection, owner: str, *, seconds: float) -> None:
        """Begin a transaction that keeps others from writing for *owner*, but none from writing alone.

        It may wait for its process while that waits for one that writes alone.

        Raises:
            OwnersBusyError: Another transaction has kept the lock of the owner for so many seconds.
        """
        ...

    def begin_locked(self, connection: sa.Connection) -> None:
        """Go on to write in a transaction of `lock_owner`: wait until no other one writes alone, and prevent it."""
        ...


# The clocks of processes that share a database, which may differ by minutes.


class ClockDifference:
    """Difference between the clock of this process and that of the database, as an interval. Thread-safe.

    Each measurement is an interval as long as its round trip; the difference is in all of them. Between two of them the
    clocks drift apart; if two do not overlap, a clock was set, and the later one holds.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Compare with *now*."""
        self._now = now
        self._lock = threading.Lock()
        self._least, self._most = -math.inf, math.inf
        self._measured = 0.0
        self.latest_checkpoint: datetime | None = None
        """The latest known_time of all checkpoints that this process has read or made; None before the first read."""

    def now(self) -> datetime:
        """Return the time of this process."""
        return self._now()

    def note(self, before: datetime, there: int) -> None:
        """Note that the clock of the database was at *there*, in microseconds, between *before* and now."""
        least, most = to_micros(before) - there, to_micros(self._now()) - there
        measured = time.monotonic()
        with self._lock:
            drift = (measured - self._measured) * DRIFT_MICROS
            self._least, self._most = max(least, self._least - drift), min(most, self._most + drift)
            if self._least > self._most:
                self._least, self._most = least, most
            self._measured = measured

    def latest(self, there: int) -> int:
        """Return the latest time of this process, in microseconds, when the clock of the database was at *there*.

        Until something was measured the clocks are the same: where one process alone uses the database.
        """
        return there + (math.ceil(self._most) if math.isfinite(self._most) else 0)

    def there(self, moment: datetime) -> int:
        """Return the time of the database at a moment of this process, in microseconds: the inverse of `latest`."""
        return to_micros(moment) - self.latest(0)


# Where the errors of SQLAlchemy and the driver become the domain's.


class SchemaVersionError(ReportedError):
    """The database has an unknown schema version; nothing was changed."""


@contextmanager
def translate() -> Iterator[None]:
    """Turn every error of the vendor that leaves the block into one of ours, and keep it as the cause.

    Raises:
        UniquenessRaceError: A unique index refused a row.
        BackendUnavailableError: The database is busy, full, unreadable or out of reach.
        StoreMovedError: The database refused to be written to, since its data have moved away.
        MemsvcError: A statement was refused for a fault of ours.
    """
    try:
        yield
    except exc.DatabaseError as error:
        raise _of_database(error) from error
    except (exc.DBAPIError, exc.TimeoutError, exc.PendingRollbackError, exc.ResourceClosedError) as error:
        raise BackendUnavailableError(BACKEND, problem=problem_of(getattr(error, "orig", None))) from error
    except exc.SQLAlchemyError as error:
        raise _fault() from error


def _of_database(error: exc.DatabaseError) -> Exception:
    text = str(error.orig)
    if getattr(error.orig, "sqlstate", None) == _DEADLOCK:
        return UniquenessRaceError("Another writer waited for this one; repeat the transaction.")
    if MOVED in text:
        # Where to is nothing for those who only write.
        message = "Everything was moved to another store, and the service has yet to be started with that; try again."
        return StoreMovedError(message)
    if isinstance(error, exc.IntegrityError) and _is_unique_violation(error):
        return UniquenessRaceError("Another writer took a key or content; repeat the transaction.")
    if isinstance(error, exc.IntegrityError | exc.ProgrammingError | exc.DataError | exc.NotSupportedError):
        if isinstance(error, exc.IntegrityError) or (problem := problem_of(error.orig)) == UNREACHED:
            return _fault()
        return BackendUnavailableError(BACKEND, problem=problem)
    return BackendUnavailableError(BACKEND, problem=problem_of(error.orig))


def problem_of(error: BaseException | None) -> str:
    """Return the failure of the database and its remedy, without its address.

    What PostgreSQL says of a connection that failed comes without a code and may quote the address, and with it a
    password that was not escaped. Messages of a server in another language are replaced by a general one.
    """
    if state := getattr(error, "sqlstate", None):
        return _STATES.get(state, UNREACHED)
    words = str(error)
    if not type(error).__module__.startswith("psycopg"):
        return next((problem for pattern, problem in _FILE_PROBLEMS.items() if pattern in words), UNREACHED)
    return next((problem for pattern, problem in _PROBLEMS.items() if re.search(pattern, words)), UNREACHED)


def _fault() -> MemsvcError:
    return MemsvcError("The metadata store refused a statement.")


def _is_unique_violation(error: exc.IntegrityError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state == _UNIQUE_VIOLATION or str(error.orig).startswith("UNIQUE constraint failed")
