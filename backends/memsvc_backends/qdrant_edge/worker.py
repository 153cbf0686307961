"""Child process that holds a shard.

Usage: `python -m memsvc_backends.qdrant_edge.worker LIFELINE NICENESS CONNECTION...`.

The engine's binding holds the interpreter lock in every call, so it runs here, where nothing else has to. One
thread, one loop: all searches that wait are answered before one slice of a change is made, so neither starves.
What takes longer than a slice is done before the process is searched: each generation has a process of its own.

The write-ahead log makes every change durable. A shard is flushed after `FLUSHED_POINTS`: opening it replays what was
not, at 50 to 80 µs a point. A flush takes 35 ms and 18 µs a point, in which no search is answered.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from memsvc_backends.qdrant_edge.ipc import Message, PipeConnection
from memsvc_backends.qdrant_edge.shard import Shard
from memsvc_backends.qdrant_edge.watchdog import PING

ANSWER, FAULT = "answer", "fault"
"""The first word of a reply: then comes the value, or the engine's text."""
_SLOW = frozenset({"write", "finish", "create", "open", "close"})
"""Operations that wait while searches are waiting."""


class EdgeProcess:
    """The shard and its operations."""

    def __init__(self) -> None:
        self._opened: Shard | None = None
        self.operations: dict[str, Callable[..., Any]] = {
            PING: lambda _blob: None,
            "create": self._create,
            "open": self._open,
            "close": self._close,
            "write": self._write,
            "search": self._search,
            "count": lambda _blob, where: self._shard.count(where),
            "page": lambda _blob, *rest: self._shard.page(*rest),
            "finish": lambda _blob: self._shard.finish(),
            "largest": lambda _blob: self._shard.largest_owner()[1],
        }

    def answer(self, message: Message, blob: bytes) -> Message:
        """Return the reply to a request."""
        operation, *rest = message
        try:
            return ANSWER, self.operations[operation](blob, *rest)
        except Exception as error:  # noqa: BLE001 - the engine raises bare Exception, for whatever it refuses
            return FAULT, f"{operation}: {error}"

    @property
    def _shard(self) -> Shard:
        if self._opened is None:
            message = "No shard is open."
            raise LookupError(message)
        return self._opened

    def _create(self, _blob: bytes, path: str, dimension: int, graph: tuple[int, int] | None) -> None:
        self._opened = Shard.create(path, dimension, graph)

    def _open(self, _blob: bytes, path: str, dimension: int) -> None:
        self._opened = Shard.load(path, dimension)
        self._opened.warm()

    def _close(self, _blob: bytes) -> None:
        shard, self._opened = self._opened, None
        if shard is not None:
            shard.close()

    def _write(self, blob: bytes, ids: Any, payloads: Any, memories: Any) -> None:
        self._shard.write(ids, payloads, memories, blob)

    def _search(self, blob: bytes, where: bytes, limit: int, width: int | None, least: bytes | None) -> Any:
        return self._shard.search(blob, where, limit, width, least)


class Loop:
    """Event loop that answers the requests of all connections, searches first."""

    def __init__(self, connections: list[PipeConnection]) -> None:
        self._process = EdgeProcess()
        self._connections = {connection.fileno(): connection for connection in connections}
        self._poll = select.poll()
        for descriptor in self._connections:
            self._poll.register(descriptor, select.POLLIN)
        self._slow: deque[tuple[PipeConnection, Message, bytes]] = deque()

    def run(self) -> None:
        """Work until every connection is closed by the other side."""
        while self._connections:
            for descriptor, _ in self._poll.poll(0 if self._slow else None):
                self._read(self._connections[descriptor])
            if self._slow:
                self._reply(*self._slow.popleft())

    def _read(self, connection: PipeConnection) -> None:
        try:
            message, blob = connection.receive()
        except OSError:
            self._drop(connection)
            return
        if message[0] in _SLOW:
            self._slow.append((connection, message, blob))
        else:
            self._reply(connection, message, blob)

    def _reply(self, connection: PipeConnection, message: Message, blob: bytes) -> None:
        reply = self._process.answer(message, blob)
        try:
            connection.send(reply)
        except OSError:
            self._drop(connection)

    def _drop(self, connection: PipeConnection) -> None:
        if self._connections.pop(connection.fileno(), None) is not None:
            self._poll.unregister(connection.fileno())
            connection.close()


def main(arguments: list[str]) -> None:
    """Run the process until its parent closes the connections, or is gone."""
    lifeline, niceness, *descriptors = arguments
    _die_with(int(lifeline))
    # The parent says when to stop; a signal to the whole group must not be quicker than the parent's own goodbye.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(int(niceness))
    connections = [PipeConnection(socket.socket(fileno=int(descriptor))) for descriptor in descriptors]
    # What was loaded so far stays: garbage collection need not scan it while a search waits.
    gc.freeze()
    Loop(connections).run()


def _die_with(lifeline: int) -> None:
    """Have the kernel end this process when the parent ends, even in the middle of a long call into the engine.

    Nothing is ever written to the lifeline, so the only event is its end, and SIGIO kills unless it is handled.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


if __name__ == "__main__":
    main(sys.argv[1:])
