"""One child process and the connections to it, seen from the parent."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from memsvc.data_directory import obstacle_of
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import UNREACHED, BackendClosedError, BackendUnavailableError, DeadlineExceededError
from memsvc.ports.faults import FaultLog
from memsvc.ports.thread_wait import ThreadWait
from memsvc_backends.qdrant_edge.ipc import Message, PipeConnection
from memsvc_backends.qdrant_edge.watchdog import Pulse, Watchdog

_log = logging.getLogger(__name__)
_STOP_SECONDS = 5.0
_DIED: Message = ("died", None)
"""The reply of a child that died."""
NO_HURRY = Deadline()
_ATTEMPTS = 4
"""How often an operation is tried; all are idempotent."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
NAME = "qdrant-edge"
"""What the backend is called in errors."""


class Exchange:
    """A request that was sent to a child, and its reply once it is read.

    The waiting thread reads it, or an earlier user of the connection: so an abandoned reply blocks no other request.
    """

    __slots__ = ("_connection", "_reading", "_reply", "child")

    def __init__(self, child: Child, connection: PipeConnection) -> None:
        self.child = child
        self._connection = connection
        self._reply: Message | None = None
        # Held from the start: no thread can read before the request is sent.
        self._reading = threading.Lock()
        self._reading.acquire()

    def send(self, message: Message, blob: bytes) -> None:
        """Send the request, once; a child that is gone shows when the reply is read."""
        try:
            self._connection.send(message, blob)
        except OSError:
            self._finish(_DIED)
        finally:
            self._reading.release()

    def result(self, deadline: Deadline) -> Any:
        """Return the value of the reply. May be called again when the deadline passed.

        Raises:
            DeadlineExceededError: The deadline passed first; the operation may be done all the same.
            ChildDiedError: The process is gone; whether the operation was done is not known.
            EdgeFaultError: The engine refused.
        """
        kind, value = self.settle(deadline)
        if kind == "answer":
            return value
        if kind == "fault":
            raise EdgeFaultError(value)
        raise ChildDiedError

    def settle(self, deadline: Deadline) -> Message:
        """Read the reply unless that is done, give the connection back, and return the reply."""
        remaining = deadline.remaining_seconds()
        if not self._reading.acquire(timeout=-1 if remaining is None else remaining):
            raise DeadlineExceededError(NAME)
        try:
            if self._reply is None:
                with ThreadWait():
                    reply = self._connection.receive(deadline.at)[0]
                self._finish(reply)
        except TimeoutError as error:
            raise DeadlineExceededError(NAME) from error
        except OSError:
            self._finish(_DIED)
        finally:
            self._reading.release()
        assert self._reply is not None  # noqa: S101 - narrows the type
        return self._reply

    def _finish(self, reply: Message) -> None:
        self._reply = reply
        self.child.take_back(self, self._connection, is_whole=reply is not _DIED)


class Child:
    """A running `memsvc_backends.qdrant_edge.worker`. Safe to call from several threads; once dead, it stays so.

    Why not fork: grpc's threads do not survive it. The child gets a process group of its own, so that Ctrl-C in a
    terminal reaches the parent alone. It gets no session of its own: Linux gives each session an equal share of the
    processors first and looks at niceness only within it, so a builder would take as much as the whole service.
    """

    def __init__(self, *, connections: int, niceness: int = 0) -> None:
        pairs: list[tuple[PipeConnection, socket.socket]] = []
        try:
            # One more than for requests: pings have a connection of their own.
            pairs.extend(PipeConnection.pair() for _ in range(connections + 1))
            reading_end, self._lifeline = os.pipe()
        except OSError as error:
            # Too many files are open.
            for near, far in pairs:
                near.close()
                far.close()
            raise ChildDiedError from error
        try:
            self._process = _start(niceness, [reading_end, *(far.fileno() for _, far in pairs)])
        except OSError as error:
            os.close(self._lifeline)
            for near, _ in pairs:
                near.close()
            raise ChildDiedError from error
        finally:
            os.close(reading_end)
            for _, far in pairs:
                far.close()
        self._free = deque(near for near, _ in pairs[1:])
        self.pulse = Pulse(pairs[0][0])
        self._in_flight: dict[Exchange, None] = {}
        self._lock = threading.Lock()
        self._is_dead = False
        self._messages = threading.Thread(
            target=self._log_messages, args=(self._process.stderr,), name="edge-messages", daemon=True
        )
        try:
            self._messages.start()
        except RuntimeError as error:
            # The process has as many threads as it may.
            self.kill()
            raise ChildDiedError from error

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def call(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Any:
        """Send a request and return the value of its reply; raises as `Exchange.result` does."""
        return self.begin(message, blob, deadline=deadline).result(deadline)

    def begin(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Exchange:
        """Send a request and leave its reply for later. Waits only while the child works at more than it has lines.

        Raises:
            DeadlineExceededError: The deadline passed first; nothing was sent.
            ChildDiedError: The process is gone.
        """
        while True:
            with self._lock:
                if self._is_dead:
                    raise ChildDiedError
                if self._free:
                    exchange = Exchange(self, self._free.pop())
                    self._in_flight[exchange] = None
                    break
                oldest = next(iter(self._in_flight), None)
            if oldest is None:
                raise ChildDiedError
            oldest.settle(deadline)
        exchange.send(message, blob)
        return exchange

    def take_back(self, exchange: Exchange, connection: PipeConnection, *, is_whole: bool) -> None:
        """Take the connection of an exchange that is over, to use it again or to close it."""
        with self._lock:
            self._in_flight.pop(exchange, None)
            if is_whole and not self._is_dead:
                self._free.append(connection)
                return
        connection.close()

    def stop(self) -> None:
        """Finish running requests, close the shard, and end the process."""
        deadline = Deadline.after(_STOP_SECONDS)
        with suppress(ChildDiedError, EdgeFaultError, DeadlineExceededError):
            while exchange := self._oldest():
                exchange.settle(deadline)
            self.call(("close",), deadline=deadline)
        self.kill()

    def kill(self) -> None:
        """End the process at once. Harmless when it has ended."""
        with self._lock:
            if self._is_dead:
                return
            self._is_dead = True
            idle = list(self._free)
            self._free.clear()
        self._process.kill()
        self._process.wait()
        self.pulse.close()
        for connection in idle:
            connection.close()
        # A reply that came in time is kept for who comes for it; the others are known not to come.
        while exchange := self._oldest():
            exchange.settle(NO_HURRY)
        os.close(self._lifeline)
        if self._messages.ident is not None:
            self._messages.join()
        elif self._process.stderr is not None:
            self._process.stderr.close()

    def _oldest(self) -> Exchange | None:
        with self._lock:
            return next(iter(self._in_flight), None)

    def _log_messages(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                _log.warning("edge process said: %s", line.decode(errors="replace").rstrip())


def _start(niceness: int, descriptors: list[int]) -> subprocess.Popen[bytes]:
    lifeline, *connections = descriptors
    arguments = (lifeline, niceness, *connections)
    # No shell, and nothing in the command comes from outside. -P: the working directory is not searched for packages.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", "memsvc_backends.qdrant_edge.worker", *map(str, arguments)],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Time limits of a child.

    Attributes:
        hang_seconds: A child that answers no ping for so long is killed.
        open_seconds: A child that does not open its shard in so long is killed; the next one gets twice the time.
        faults: Counts the children that were replaced.
    """

    hang_seconds: float
    open_seconds: float
    faults: FaultLog


# Keeps one child process running for a generation, with its shard open, whatever becomes of it.


class Supervisor:
    """Calls the child of one shard, and replaces it when it has died or hangs. Safe to call from several threads.

    A hung child is killed by a watchdog. Requests that wait for it are sent to the next child, as far as their
    deadlines allow, so that none is lost: all operations can be repeated.
    """

    def __init__(self, path: Path, *, dimension: int, connections: int, limits: ChildLimits) -> None:
        self._path = path
        self._dimension = dimension
        self._connections = connections
        self._limits = limits
        self._watchdog = Watchdog(limits.hang_seconds, self._find_pulse, self._replace_hung)
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._refusal: Callable[[], Exception] | None = None
        self._not_before = 0.0
        self._failures = 0
        self._open_seconds = limits.open_seconds

    @property
    def pid(self) -> int | None:
        """Return the process id of the child that runs now, for diagnosis."""
        child = self._child
        return None if child is None else child.pid

    def open(self) -> None:
        """Start a child and open the shard in it; raises as `call` does."""
        self._ensure_child(None, NO_HURRY)
        self._watchdog.start()

    def begin(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Exchange | None:
        """Send a request whose reply `call` is asked for later, or return None: then it has to be sent there."""
        child = self._child
        if child is None:
            return None
        try:
            return child.begin(message, blob, deadline=deadline)
        except (ChildDiedError, DeadlineExceededError):
            return None

    def call(
        self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY, begun: Exchange | None = None
    ) -> Any:
        """Return the value of the reply to a request; a child that dies of it is replaced and asked again.

        Args:
            message: The request.
            blob: What goes with it.
            deadline: When to give up.
            begun: What `begin` returned for the same request, if that was called.

        Raises:
            BackendClosedError: The supervisor was closed.
            RetiredError: The supervisor was retired.
            DeadlineExceededError: The deadline passed first.
            ChildDiedError: No child could be kept running.
            EdgeFaultError: The engine refused.
        """
        child: Child | None = None
        for attempt in range(_ATTEMPTS):
            try:
                if begun is None:
                    child = self._ensure_child(child, deadline)
                    begun = child.begin(message, blob, deadline=deadline)
                child = begun.child
                return begun.result(deadline)
            except ChildDiedError:
                begun = None
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def retire(self) -> None:
        """End the child when it has answered its requests; later calls raise RetiredError."""
        self._end(RetiredError)

    def close(self) -> None:
        """End the child for good; later calls are an error."""
        self._end(partial(BackendClosedError, NAME))

    def _end(self, refusal: Callable[[], Exception]) -> None:
        with self._lock:
            self._refusal = refusal
            child, self._child = self._child, None
        self._watchdog.stop()
        if child is not None:
            child.stop()

    def _ensure_child(self, failed: Child | None, deadline: Deadline) -> Child:
        """Return a child that is not the one that failed."""
        child = self._child
        if child is not None and child is not failed:
            return child
        remaining = deadline.remaining_seconds()
        if not self._lock.acquire(timeout=-1 if remaining is None else remaining):
            raise DeadlineExceededError(NAME)
        try:
            if self._refusal is not None:
                raise self._refusal()
            if self._child is None or self._child is failed:
                self._child = self._replace(self._child)
            return self._child
        finally:
            self._lock.release()

    def _replace(self, dead: Child | None) -> Child:
        if dead is not None:
            _log.warning("edge process died or was killed, pid %s", dead.pid)
            self._child = None
            self._limits.faults.note_replaced(NAME)
            dead.kill()
        if time.monotonic() < self._not_before:
            raise ChildDiedError
        child = Child(connections=self._connections)
        try:
            child.call(("open", str(self._path), self._dimension), deadline=Deadline.after(self._open_seconds))
        except (ChildDiedError, EdgeFaultError, DeadlineExceededError) as error:
            _log.warning("edge process %s did not open %s: %s", child.pid, self._path.name, error)
            child.kill()
            self._note_failure()
            if isinstance(error, DeadlineExceededError):
                # On a machine too slow for that, no child would ever open it.
                self._open_seconds *= 2
                raise ChildDiedError from error
            raise
        self._failures = 0
        self._open_seconds = self._limits.open_seconds
        _log.info("edge process started, pid %s", child.pid)
        return child

    def _find_pulse(self) -> Pulse | None:
        child = self._child
        return None if child is None else child.pulse

    def _replace_hung(self) -> None:
        """Kill the child and open the shard in another one."""
        child = self._child
        if child is None:
            return
        _log.warning("edge process hangs and is killed, pid %s", child.pid)
        try:
            self._ensure_child(child, NO_HURRY)
        except (ChildDiedError, EdgeFaultError, RetiredError, BackendClosedError) as error:
            _log.warning("edge process was not replaced, the next call tries again: %s", error)

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures > 1:
            pause = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _LONGEST_PAUSE_SECONDS)
            self._not_before = time.monotonic() + pause


# What can go wrong between the adapter and its child process; nothing of this crosses the port.


class ChildDiedError(Exception):
    """The child process ended, or closed a connection, before it answered."""


class EdgeFaultError(Exception):
    """The engine refused an operation; the message is that of the engine."""


class RetiredError(Exception):
    """The generation was replaced."""


@contextmanager
def translate() -> Iterator[None]:
    """Raise BackendUnavailableError for a child that is gone or an engine that refuses."""
    try:
        yield
    except (ChildDiedError, EdgeFaultError, RetiredError) as error:
        raise BackendUnavailableError(NAME, problem=problem_of(error)) from error


def problem_of(error: Exception) -> str:
    """Return what is wrong, without paths."""
    if isinstance(error, ChildDiedError):
        return "cannot be reached: its process ended before it answered; is there enough memory, and space on the disk?"
    return obstacle_of(error) or UNREACHED
