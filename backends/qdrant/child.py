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

from backends.qdrant.errors import NAME, ChildDiedError, EdgeFaultError, ShardClosedError
from backends.qdrant.frames import Connection, Message
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError

_log = logging.getLogger(__name__)
_STOP_SECONDS = 5.0
NO_HURRY = Deadline()


class Child:
    """A running `backends.qdrant.edge_process`. Safe to call from several threads; once dead, it stays so.

    Why not fork: grpc's threads do not survive it. The child gets a session of its own, so that Ctrl-C in a
    terminal reaches the parent alone.
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
        self._owing: set[Connection] = set()
        self._changed = threading.Condition()
        self._is_dead = False
        self._messages = threading.Thread(target=self._log_messages, args=(self._process.stderr,), daemon=True)
        self._messages.start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def call(self, message: Message, blob: bytes = b"", *, deadline: Deadline = NO_HURRY) -> Any:
        """Send a request and return the value of its reply.

        Raises:
            DeadlineExceededError: The deadline passed first; the operation may be done all the same.
            ChildDiedError: The process is gone; whether the operation was done is not known.
            EdgeFaultError: The engine refused.
            ShardClosedError: No shard of this name is open.
        """
        connection = self._take(deadline)
        try:
            reply = self._exchange(connection, message, blob, deadline)
        except OSError as error:
            self._drop(connection)
            raise ChildDiedError from error
        self._give_back(connection)
        kind, value = reply
        if kind == "answer":
            return value
        raise (ShardClosedError if kind == "no shard" else EdgeFaultError)(value)

    def stop(self, *shards: str) -> None:
        """Close the shards in good order and end the process."""
        with suppress(ChildDiedError, EdgeFaultError, DeadlineExceededError):
            for shard in shards:
                self.call(("close", shard), deadline=Deadline.after(_STOP_SECONDS))
        self.kill()

    def kill(self) -> None:
        """End the process at once. Harmless when it has ended."""
        with self._changed:
            if self._is_dead:
                return
            self._is_dead = True
            idle = list(self._free)
            self._free.clear()
            self._changed.notify_all()
        self._process.kill()
        self._process.wait()
        for connection in idle:
            connection.close()
        os.close(self._lifeline)
        self._messages.join()

    def _exchange(self, connection: Connection, message: Message, blob: bytes, deadline: Deadline) -> Message:
        try:
            if connection in self._owing:
                connection.receive(deadline.at)
                self._owing.discard(connection)
            connection.send(message, blob)
            self._owing.add(connection)
            reply, _ = connection.receive(deadline.at)
        except TimeoutError as error:
            self._give_back(connection)
            raise DeadlineExceededError(NAME) from error
        self._owing.discard(connection)
        return reply

    def _take(self, deadline: Deadline) -> Connection:
        with self._changed:
            while not self._free:
                if self._is_dead:
                    raise ChildDiedError
                if not self._changed.wait(deadline.remaining()) and deadline.passed():
                    raise DeadlineExceededError(NAME)
            return self._free.pop()

    def _give_back(self, connection: Connection) -> None:
        with self._changed:
            if self._is_dead:
                connection.close()
            elif connection in self._owing:
                self._free.appendleft(connection)
            else:
                self._free.append(connection)
            self._changed.notify()

    def _drop(self, connection: Connection) -> None:
        with self._changed:
            self._owing.discard(connection)
        connection.close()

    def _log_messages(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                _log.warning("edge process said: %s", line.decode(errors="replace").rstrip())


def _start(niceness: int, descriptors: list[int]) -> subprocess.Popen[bytes]:
    lifeline, *connections = descriptors
    arguments = (lifeline, niceness, *connections)
    # No shell, and nothing in the command comes from outside. -P: the working directory is nobody's package folder.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", "backends.qdrant.edge_process", *map(str, arguments)],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
