"""Watchdog and heartbeat of connections to PostgreSQL.

The watchdog detects a server that hangs, and one connection that is stuck. No limit of the server helps against either:
a server that hangs keeps no time, and neither does its kernel, which goes on to acknowledge packets. The heartbeat
shows the server that this process runs: see `Heartbeat`.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.faults import CircuitBreaker, FaultLog

CHECK_SECONDS = 0.5
"""Interval of checks, and of probes while the server hangs."""
SLOW_SECONDS = 1.0
"""A statement that takes longer has the server asked whether it answers."""
PROBE_SECONDS = 2.5
"""A server that does not answer the question within this time hangs."""
CONNECT_SECONDS = 2
REST_SECONDS = 2.0
"""Pause between two questions while the server answers."""
LONGEST_IDLE_SECONDS = 30
"""Time after which the server ends a session that holds a lock and says nothing."""
HEARTBEAT_SECONDS = 5.0
"""Interval of heartbeats."""
HANGS = "has not answered for some seconds"
_SLICES = 5
_ACTIVE = 1
"""PQTRANS_ACTIVE: a statement is under way."""
_IDLE, _IN_TRANSACTION = 0, 2
"""PQTRANS_IDLE and PQTRANS_INTRANS: no statement is under way, and the last one did not fail."""
_BEAT = b"SELECT 1"
_STATES = (
    "SELECT pid, state, extract(epoch FROM clock_timestamp() - state_change)::float8 "
    "FROM pg_stat_activity WHERE pid = ANY(%s)"
)

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _WatchedConnection:
    """A connection in use; without a driver it is being made.

    Attributes:
        is_limited: Whether a statement of it may be ended for its duration.
        active_since: Start of the first check that met a statement under way; None: the last one met none.
    """

    driver: Any
    is_limited: bool
    active_since: float | None = None

    def note(self, now: float) -> None:
        """Look whether a statement is under way."""
        if not self._is_active():
            self.active_since = None
        elif self.active_since is None:
            self.active_since = now

    def _is_active(self) -> bool:
        if self.driver is None:
            return True
        # Its own thread may close it at this moment.
        with suppress(Exception):
            return bool(self.driver.pgconn.transaction_status == _ACTIVE)
        return False


class ConnectionWatchdog:
    """A thread that watches the connections in use, and the circuit breaker of the database. Thread-safe.

    If a statement takes longer than a second, a statement on a connection of its own shows whether the server answers.
    If it does not, the sockets of all connections in use are shut down, so that their calls fail, and the breaker fails
    further ones until a probe is answered. If it does, a connection whose session the server does not know, whose
    statement it has not begun, or that takes longer than the limit, is shut down alone.
    """

    def __init__(
        self, backend: str, faults: FaultLog, connect: Callable[[int], Any], *, statement_seconds: float = 0.0
    ) -> None:
        """Watch the connections of *backend*.

        Args:
            backend: The name in errors and metrics.
            faults: The record that knows the state of the breaker.
            connect: Makes a connection of psycopg in autocommit, within the given number of seconds.
            statement_seconds: Longest duration of a statement; 0: no limit.
        """
        self._backend = backend
        self._breaker = CircuitBreaker(backend, faults, failures=1, is_watched=True)
        self._connect = connect
        self._statement_seconds = statement_seconds
        self._lock = threading.Lock()
        self._uses: set[_WatchedConnection] = set()
        self._probe: Any = None
        self._rest_until = 0.0
        self._confirmed = WeakSet[Any]()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Return if the server answers, as far as is known.

        Raises:
            BackendUnavailableError: It hangs.
        """
        self._breaker.check()

    def confirm(self, driver: Any, pid: int) -> None:
        """Note the process of the server that a connection leads to.

        If it is the one that the driver knows, no pool is in between: then a server that does not know it has lost it.
        """
        if driver is not None and driver.info.backend_pid == pid:
            self._confirmed.add(driver)

    @contextmanager
    def watch(self, driver: Any, *, is_limited: bool = True) -> Iterator[None]:
        """Watch a connection of psycopg, or with None the making of one, until the context ends."""
        use = _WatchedConnection(driver, is_limited)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=f"{self._backend}-watchdog", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    # Without it, a connection that hangs would never be given up.
                    raise BackendUnavailableError(self._backend, problem=str(error)) from error
                self._thread = thread
            self._uses.add(use)
        try:
            yield
        finally:
            with self._lock:
                self._uses.discard(use)

    def close(self) -> None:
        """Stop, and close the connection of the probes."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(PROBE_SECONDS)
        self._drop_probe()

    def _run(self) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            try:
                self._step()
            except Exception:
                log.exception("the watchdog of %s failed and goes on", self._backend)

    def _step(self) -> None:
        now = time.monotonic()
        slow = self._slow(now)
        if self._breaker.is_open:
            if self._answers():
                log.warning("%s answers again", self._backend)
                self._breaker.note_success()
        elif slow and now >= self._rest_until:
            if self._answers():
                self._rest_until = time.monotonic() + REST_SECONDS
                self._shut_down_stuck(slow)
            elif not self._ended.is_set():
                log.warning("%s hangs: its connections are given up", self._backend)
                self._breaker.note_failure(HANGS)
                self._shut_down(None)

    def _slow(self, now: float) -> list[_WatchedConnection]:
        """Return the uses with a statement that takes long."""
        with self._lock:
            uses = list(self._uses)
        for use in uses:
            use.note(now)
        return [use for use in uses if use.active_since is not None and now - use.active_since >= SLOW_SECONDS]

    def _shut_down_stuck(self, slow: Sequence[_WatchedConnection]) -> None:
        pids = {use.driver.info.backend_pid: use for use in slow if use.driver is not None and not use.driver.closed}
        states = self._ask(_STATES, (list(pids),)) if pids else None
        # Taken after the state: the comparison below errs towards patience.
        now = time.monotonic()
        if states is None:
            return
        stuck = []
        for pid in pids.keys() - {pid for pid, *_ in states}:
            # After a failover behind a load balancer, which keeps the connection: nothing will answer it.
            use = pids[pid]
            use.note(now)
            if use.active_since is not None and use.driver in self._confirmed:
                stuck.append(use)
        for pid, state, seconds in states:
            use = pids[pid]
            use.note(now)
            waited = now - (use.active_since or now)
            if not waited:
                continue
            # The server says idle and has not changed that since: it has not taken up the statement.
            is_stuck = str(state).startswith("idle") and seconds > waited
            is_late = use.is_limited and 0 < self._statement_seconds < min(seconds, waited)
            if is_stuck or (state == "active" and is_late):
                stuck.append(use)
        if stuck:
            log.warning("%s: %d stuck connections are given up", self._backend, len(stuck))
            self._shut_down(stuck)

    def _shut_down(self, chosen: Sequence[_WatchedConnection] | None) -> None:
        """Shut the sockets of these uses down, by default of all; those that ended since are left alone."""
        with self._lock:
            for use in self._uses if chosen is None else self._uses.intersection(chosen):
                _shut_down(use.driver)

    # The question whether the server answers.

    def _answers(self) -> bool:
        return self._ask("SELECT 1 WHERE %s", (True,)) is not None

    def _ask(self, statement: str, parameters: tuple[Any, ...]) -> list[Any] | None:
        """Return the rows of a statement, or None if they do not come in time.

        The time is waited for in slices: a pause of this process itself uses up one slice and no more.
        """
        found: list[list[Any]] = []
        done = threading.Event()

        def ask() -> None:
            with suppress(Exception):
                if self._probe is None:
                    self._probe = self._connect(CONNECT_SECONDS)
                found.append(self._probe.execute(statement, parameters).fetchall())
            done.set()

        threading.Thread(target=ask, name=f"{self._backend}-probe", daemon=True).start()
        slices = (done.wait(PROBE_SECONDS / _SLICES) or self._ended.is_set() for _ in range(_SLICES))
        if any(slices) and found:
            return found[0]
        self._drop_probe()
        if not self._ended.is_set():
            # A connection under way fails by its own limit.
            done.wait(CONNECT_SECONDS)
            self._drop_probe()
        return None

    def _drop_probe(self) -> None:
        probe, self._probe = self._probe, None
        _shut_down(probe)
        if probe is not None:
            with suppress(Exception):
                probe.close()


def _shut_down(driver: Any) -> None:
    """End the connection under a statement: the thread that waits for it gets an error."""
    with suppress(Exception):
        if driver is not None and not driver.closed:
            with socket.socket(fileno=os.dup(driver.fileno())) as duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)


# Heartbeats of connections that hold a lock while their own thread is busy elsewhere.


class _HeldConnection:
    """A connection of psycopg that holds a lock, until it is released."""

    def __init__(self, driver: Any, watchdog: ConnectionWatchdog) -> None:
        self._driver = driver
        self._watchdog = watchdog
        self._lock = threading.Lock()
        self._is_released = False

    def beat(self) -> None:
        """Run a statement, unless one is under way, which shows the same."""
        with self._lock:
            driver = self._driver
            # The lock of psycopg, which every statement takes. A COPY does without, and has a state of its own.
            if self._is_released or driver.closed or not driver.lock.acquire(blocking=False):
                return
            try:
                if driver.pgconn.transaction_status in {_IDLE, _IN_TRANSACTION}:
                    with self._watchdog.watch(driver):
                        driver.pgconn.exec_(_BEAT)
            finally:
                driver.lock.release()

    def release(self) -> None:
        """Wait for a statement of this class, and run no more."""
        with self._lock:
            self._is_released = True


class Heartbeat:
    """A thread that runs a small statement on held connections, every `HEARTBEAT_SECONDS`. Thread-safe.

    The server ends a session that is silent for `LONGEST_IDLE_SECONDS`, and releases its locks: so those of a process
    that is stopped, or that the network has cut off, do not last. A model may embed for longer.
    """

    def __init__(self, backend: str, watchdog: ConnectionWatchdog) -> None:
        """Start the thread with the first connection.

        Args:
            backend: The name in errors.
            watchdog: It ends a statement that the server does not answer.
        """
        self._backend = backend
        self._watchdog = watchdog
        self._lock = threading.Lock()
        self._held: set[_HeldConnection] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def keep_alive(self, driver: Any) -> Iterator[None]:
        """Keep the session of a connection until the context ends.

        A statement of the connection waits for that of the heartbeat.

        Raises:
            BackendUnavailableError: No thread can be started.
        """
        held = _HeldConnection(driver, self._watchdog)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=f"{self._backend}-heartbeat", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise BackendUnavailableError(self._backend, problem=str(error)) from error
                self._thread = thread
            self._held.add(held)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(held)
            held.release()

    def close(self) -> None:
        """Stop the thread."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with self._lock:
                held = list(self._held)
            for one in held:
                # The thread that uses a lost connection gets the error.
                with suppress(Exception):
                    one.beat()
