"""Frames between the adapter and its child: a message of plain values, and raw bytes (vectors) behind it.

Each connection carries one request and then its reply, so nothing has to be matched up.

Why marshal: both ends are the same interpreter over an inherited socket pair that nobody else can open, so neither
versions nor trust are in question. It is several times quicker than pickle or JSON, takes plain values alone, and
reading it runs no code.
"""

from __future__ import annotations

import marshal
import socket
import struct
import time
from typing import Any, TypeAlias

Message: TypeAlias = tuple[Any, ...]
"""Plain values: None, bool, int, float, str, bytes, and tuples, lists and dicts of them."""

_HEADER = struct.Struct("<II")
_CHUNK_BYTES = 1 << 18


class Connection:
    """One end of a socket pair. Not safe to use from several threads at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = bytearray()

    @classmethod
    def pair(cls) -> tuple[Connection, socket.socket]:
        """Return a connection and the other end of it.

        The buffers hold any frame of a search whole, so that sending one never waits for the child.
        """
        near, far = socket.socketpair()
        for end in (near, far):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHUNK_BYTES)
        return cls(near), far

    def fileno(self) -> int:
        """Return the descriptor, for poll."""
        return self._socket.fileno()

    def send(self, message: Message, blob: bytes = b"") -> None:
        """Send one frame.

        Raises:
            OSError: The other end is gone.
        """
        head = marshal.dumps(message)
        self._socket.settimeout(None)
        self._socket.sendall(b"".join((_HEADER.pack(len(head), len(blob)), head, blob)))

    def receive(self, until: float | None = None) -> tuple[Message, bytes]:
        """Return the next frame. When the time is over, what has come so far is kept for the next call.

        Args:
            until: A moment on the monotonic clock, or None to wait as long as it takes.

        Raises:
            TimeoutError: The moment passed first.
            OSError: The other end is gone.
        """
        while (frame := self._take()) is None:
            remaining = None if until is None else until - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
            received = self._socket.recv(_CHUNK_BYTES)
            if not received:
                raise ConnectionResetError
            self._buffer += received
        return frame

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _take(self) -> tuple[Message, bytes] | None:
        if len(self._buffer) < _HEADER.size:
            return None
        head_size, blob_size = _HEADER.unpack_from(self._buffer)
        start = _HEADER.size + head_size
        if len(self._buffer) < start + blob_size:
            return None
        frame = bytes(self._buffer)
        self._buffer.clear()
        return marshal.loads(memoryview(frame)[_HEADER.size : start]), frame[start : start + blob_size]  # noqa: S302 - see above
