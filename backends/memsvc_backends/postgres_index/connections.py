"""Connections to the database: a small pool, closed as a whole when one is found lost."""

from __future__ import annotations

import logging
import math
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, DeadlineExceededError, MemsvcError
from memsvc.ports.faults import FaultLog
from memsvc_backends.postgres_common.connection_options import (
    READ_COMMITTED,
    SERVER_SILENCE,
    connection_options,
    problem_of_database,
)
from memsvc_backends.postgres_common.watchdog import LONGEST_IDLE_SECONDS, ConnectionWatchdog, Heartbeat
from memsvc_backends.postgres_index.settings import PostgresSettings

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_TIMES_MS = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Statement timeouts: the next of these above the time left, so that a connection is seldom reconfigured."""
_UNLIMITED = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')"
)
"""Time limits of a role or database are removed: a build would never finish."""
_PRESENT = "current_setting('synchronous_commit')"
_PREPARE = (
    "SELECT set_config('lock_timeout', %s, false), set_config('jit', 'off', false), "
    # A process that is stopped in a transaction keeps no other from writing.
    f"set_config('idle_in_transaction_session_timeout', %s, false), {READ_COMMITTED}, {SERVER_SILENCE}, "
    # A reported change must be durable, whatever the default of the server.
    f"set_config('synchronous_commit', CASE {_PRESENT} WHEN 'off' THEN 'on' ELSE {_PRESENT} END, false)"
)
_CONFIRM = "SELECT pg_is_in_recovery(), pg_backend_pid(), current_setting('server_encoding')"
_ROW_LOCKS = 64
"""A transaction takes no more locks than this, whatever it changes: the lock table of the server is small."""
_END_STUCK = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database "
    "WHERE datname = current_database()) AND state = 'active' AND wait_event = 'ClientRead' "
    "AND state_change < clock_timestamp() - make_interval(secs => %s) AND "
)
_OF_ROWS = "classid::bigint = hashtext(%s)::bigint & 4294967295"
_LOCK_ROWS = "SELECT pg_advisory_xact_lock(hashtext(%s), lock) FROM unnest(%s::int[]) AS lock"
GONE = (errors.UndefinedTable, errors.DeadlockDetected)
"""What a statement meets whose tables a switch is taking away, or has taken away."""
_FIND = (
    "SELECT extversion, nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
    "WHERE extname = 'vector'"
)
_WHERE = "SELECT 1 FROM pg_namespace WHERE nspname = 'public' AND has_schema_privilege(oid, 'CREATE')"
_ONE_BY_ONE = "SELECT pg_advisory_xact_lock(1835363711)"
_REACH = "SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(%s), false)"
_LOOKING_ON = (0, 8)
"""The first version that looks on in a graph when a filter leaves too little."""
_OLDEST = (0, 5)
"""The first version with graphs."""


@dataclass(slots=True)
class _PooledConnection:
    """A connection and its statement timeout (0: none)."""

    driver: Connection
    limit_ms: int = 0


class ConnectionPool:
    """A pool of connections in autocommit; each is used by one thread at a time."""

    def __init__(
        self,
        name: str,
        settings: PostgresSettings,
        prepare: Callable[[Connection], None],
        faults: FaultLog | None = None,
    ) -> None:
        """Connect to nothing yet. *prepare* gets each connection that is made; *faults* the state of the breaker."""
        self.name = name
        self._settings = settings
        self._prepare = prepare
        self._slots = threading.BoundedSemaphore(settings.connections)
        self._lock = threading.Lock()
        self._idle: list[_PooledConnection] = []
        self._is_closed = False
        self._watchdog = ConnectionWatchdog(name, faults or FaultLog(), self._connect)
        self._heartbeat = Heartbeat(name, self._watchdog)

    @contextmanager
    def borrow(self, deadline: Deadline | None = None) -> Iterator[Connection]:
        """Provide a connection; with a deadline, its statements are cancelled soon after it.

        Raises:
            DeadlineExceededError: The deadline passed before a connection was free.
            BackendUnavailableError: There was none for longer than the settings allow.
        """
        self.require_open()
        if not self._slots.acquire(timeout=self._patience(deadline)):
            if deadline is not None and deadline.has_passed():
                raise DeadlineExceededError(self.name)
            raise BackendUnavailableError(self.name)
        kept: _PooledConnection | None = None
        try:
            self._watchdog.check()
            kept = self._take(_limit_ms(deadline))
            with self._watchdog.watch(kept.driver):
                yield kept.driver
        finally:
            self._return_connection(kept)
            self._slots.release()

    def connect(self) -> Connection:
        """Make a connection that is the caller's to close."""
        with self._watchdog.watch(None):
            made = self._connect(max(1, math.ceil(self._settings.wait_seconds)))
        try:
            with self._watchdog.watch(made):
                made.execute(_UNLIMITED)
                patience = math.ceil(self._settings.wait_seconds * 1000)
                made.execute(_PREPARE, (str(patience), str(LONGEST_IDLE_SECONDS * 1000)))
                self._confirm(made)
                self._prepare(made)
        except BaseException:
            made.close()
            raise
        return made

    def keep_alive(self, connection: Connection) -> AbstractContextManager[None]:
        """Keep the session of a connection of the caller's that is silent for long; that of a stopped process ends."""
        return self._heartbeat.keep_alive(connection)

    def _confirm(self, made: Connection) -> None:
        """Raise BackendUnavailableError if the database is none to write to; note the process for the watchdog."""
        [(is_standby, pid, encoding)] = made.execute(_CONFIRM).fetchall()
        if problem := problem_of_database(encoding, is_standby=is_standby):
            raise BackendUnavailableError(self.name, problem=problem)
        self._watchdog.confirm(made, pid)

    def _connect(self, seconds: int) -> Connection:
        return psycopg.connect(
            **connection_options(self._settings.address, application=f"memsvc-{self.name}", seconds=seconds)
        )

    def require_open(self) -> None:
        """Raise BackendClosedError once it is closed."""
        if self._is_closed:
            raise BackendClosedError(self.name)

    def close(self) -> None:
        """Close every connection, those in use when they are returned."""
        with self._lock:
            self._is_closed = True
        self._heartbeat.close()
        self._watchdog.close()
        self._close_idle()

    def _patience(self, deadline: Deadline | None) -> float:
        left = None if deadline is None else deadline.remaining_seconds()
        return self._settings.wait_seconds if left is None else min(left, self._settings.wait_seconds)

    def _take(self, limit_ms: int) -> _PooledConnection:
        kept = self._idle_one(limit_ms)
        if kept is None:
            kept = _PooledConnection(self.connect())
        if kept.limit_ms != limit_ms:
            try:
                kept.driver.execute(f"SET statement_timeout = {limit_ms}")
            except BaseException:
                _close_connection(kept)
                self._close_idle()
                raise
            kept.limit_ms = limit_ms
        return kept

    def _idle_one(self, limit_ms: int) -> _PooledConnection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                place = next((n for n, kept in enumerate(self._idle) if kept.limit_ms == limit_ms), -1)
                kept = self._idle.pop(place)
            if _is_usable(kept.driver):
                return kept
            _close_connection(kept)

    def _return_connection(self, kept: _PooledConnection | None) -> None:
        if kept is None:
            return
        is_clean = not kept.driver.closed and kept.driver.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            is_kept = is_clean and not self._is_closed
            if is_kept:
                self._idle.append(kept)
        if not is_kept:
            _close_connection(kept)
        if not is_clean:
            # Where one is lost the others are: the first call after the server came back finds it.
            self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for kept in idle:
            _close_connection(kept)


def _limit_ms(deadline: Deadline | None) -> int:
    left = None if deadline is None else deadline.remaining_seconds()
    if left is None:
        return 0
    return next((limit for limit in _TIMES_MS if limit >= left * 1000), 0)


def _is_usable(driver: Connection) -> bool:
    """Return whether nothing was said to it while it lay idle: a server that goes away says so."""
    if driver.closed:
        return False
    poll = select.poll()
    poll.register(driver.fileno(), select.POLLIN)
    return not poll.poll(0)


def _close_connection(kept: _PooledConnection) -> None:
    with suppress(psycopg.Error):
        kept.driver.close()


def lock_rows(connection: Connection, table: str, rows: Iterable[int]) -> None:
    """Make transactions that replace entries of the same memories in *table* run one after another.

    Claims of changes normally prevent that two processes apply one change at the same time, but a claim may expire.
    Both would then insert the same entries, and one would fail. The locks are taken in ascending order, so that
    transactions cannot block each other in a circle, and end with the transaction.
    """
    connection.execute(_LOCK_ROWS, (table, sorted({row % _ROW_LOCKS for row in rows})))


@contextmanager
def end_stuck_writers(connection: Connection, table: str) -> Iterator[None]:
    """If the context waits in vain for `lock_rows`, end the sessions of stopped processes that hold such locks.

    The server ends a session that is silent between two statements, but not one whose client is silent within a COPY.
    """
    try:
        yield
    except errors.LockNotAvailable:
        end_stuck_sessions(connection, _OF_ROWS, table)
        raise


def end_stuck_sessions(connection: Connection, lock: str, name: str) -> None:
    """End the sessions that hold an advisory lock, and wait for the data of a COPY for `LONGEST_IDLE_SECONDS`.

    Args:
        connection: A connection that is in no transaction.
        lock: The condition that a row of pg_locks meets, with a parameter for *name*.
        name: The name that the lock is of.
    """
    with suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute((_END_STUCK + lock).encode(), (LONGEST_IDLE_SECONDS, name))


# What the client library raises, in the words of the domain.


@contextmanager
def translate(name: str, deadline: Deadline | None = None) -> Iterator[None]:
    """Raise an error of the domain in place of anything that the client library raises.

    Raises:
        DeadlineExceededError: The server broke a statement off because the deadline passed.
        BackendUnavailableError: Anything else. The index is derived and can be rebuilt.
    """
    try:
        yield
    except errors.QueryCanceled as error:
        if deadline is not None and deadline.has_passed():
            raise DeadlineExceededError(name) from error
        raise BackendUnavailableError(name) from error
    except psycopg.Error as error:
        raise BackendUnavailableError(name) from error


# The extension pgvector: is it there, and of which version?


_log = logging.getLogger(__name__)


def ensure_extension(connection: Connection) -> tuple[int, ...]:
    """Create the extension when it is not there, and return its version.

    Raises:
        MemsvcError: It is not installed on the server, may not be created, or is too old.
    """
    found = connection.execute(_FIND).fetchone()
    if found is None:
        _create(connection)
        found = connection.execute(_FIND).fetchone()
    version = parse_version(found[0]) if found is not None else ()
    if version < _OLDEST:
        raise MemsvcError(
            f"The extension 'vector' of the PostgreSQL database is version {found[0] if found else '?'}; 0.5 or newer "
            "is needed: install it on the server and run ALTER EXTENSION vector UPDATE."
        )
    return version


def extend_search_path(connection: Connection) -> None:
    """Let a connection find the extension's types wherever they are; tables still go into its first schema."""
    found = connection.execute(_FIND).fetchone()
    if found is not None:
        connection.execute(_REACH, (found[1],))


def searches_iteratively(version: tuple[int, ...]) -> bool:
    """Return whether a graph of this version is searched on until a filter leaves enough."""
    return version >= _LOOKING_ON


def parse_version(version: str) -> tuple[int, ...]:
    """Return a version such as 0.8.1 as numbers; what is no number ends it."""
    parts: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def _create(connection: Connection) -> None:
    try:
        with connection.transaction():
            # Two who create it at the same time fail.
            connection.execute(_ONE_BY_ONE)
            # In a schema that is not dropped by accident: all columns of the type would be dropped with it.
            place = " SCHEMA public" if connection.execute(_WHERE).fetchone() else ""
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS vector{place}".encode())
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise MemsvcError(
            "The PostgreSQL server has no extension 'vector': install pgvector on the server (packages are called "
            "postgresql-NN-pgvector or pgvector_NN), or choose another backend for vectors."
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise MemsvcError(
            "The PostgreSQL user may not create the extension 'vector': as a superuser, run CREATE EXTENSION vector in "
            "the database once, or choose another backend for vectors."
        ) from error
    _log.info("created the extension vector")
