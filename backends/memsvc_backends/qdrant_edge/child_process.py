"""One child process and the connections to it, seen from the parent."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import IO, Any

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc_backends.qdrant_edge.errors import NAME, ChildDiedError, EdgeFaultError
from memsvc_backends.qdrant_edge.ipc import Connection, Message

_log = logging.getLogger(__name__)
_STOP_SECONDS = 5.0
_DIED: Message = ("died", None)
"""What stands for a reply that will never come."""
NO_HURRY = Deadline()


class Exchange:
    """A request that was sent to a child, and its reply once somebody has read it.

    That is who waits for it, or who needs its connection before. So a reply that nobody comes for is in nobody's way.
    """

    __slots__ = ("_connection", "_reading", "_reply", "child")

    def __init__(self, child: Child, connection: Connection) -> None:
        self.child = child
        self._connection = connection
        self._reply: Message | None = None
        # Held from the start: nobody can read before the request is sent.
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
        remaining = deadline.remaining()
        if not self._reading.acquire(timeout=-1 if remaining is None else remaining):
            raise DeadlineExceededError(NAME)
        try:
            if self._reply is None:
                self._finish(self._connection.receive(deadline.at)[0])
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
        pairs = [Connection.pair() for _ in range(connections)]
        reading_end, self._lifeline = os.pipe()
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
        self._free = deque(near for near, _ in pairs)
        self._begun: dict[Exchange, None] = {}
        self._lock = threading.Lock()
        self._is_dead = False
        self._messages = threading.Thread(target=self._log_messages, args=(self._process.stderr,), daemon=True)
        self._messages.start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def call(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Any:
        """Send a request and return the value of its reply; what is raised is what `Exchange.result` raises."""
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
                    self._begun[exchange] = None
                    break
                oldest = next(iter(self._begun), None)
            if oldest is None:
                raise ChildDiedError
            oldest.settle(deadline)
        exchange.send(message, blob)
        return exchange

    def take_back(self, exchange: Exchange, connection: Connection, *, is_whole: bool) -> None:
        """Take the connection of an exchange that is over, to use it again or to close it."""
        with self._lock:
            self._begun.pop(exchange, None)
            if is_whole and not self._is_dead:
                self._free.append(connection)
                return
        connection.close()

    def stop(self) -> None:
        """Let what was begun come to its end, close the shard in good order, and end the process."""
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
        for connection in idle:
            connection.close()
        # A reply that came in time is kept for who comes for it; the others are known not to come.
        while exchange := self._oldest():
            exchange.settle(NO_HURRY)
        os.close(self._lifeline)
        self._messages.join()

    def _oldest(self) -> Exchange | None:
        with self._lock:
            return next(iter(self._begun), None)

    def _log_messages(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                _log.warning("edge process said: %s", line.decode(errors="replace").rstrip())


def _start(niceness: int, descriptors: list[int]) -> subprocess.Popen[bytes]:
    lifeline, *connections = descriptors
    arguments = (lifeline, niceness, *connections)
    # No shell, and nothing in the command comes from outside. -P: the working directory is nobody's package folder.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", "memsvc_backends.qdrant_edge.worker", *map(str, arguments)],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
