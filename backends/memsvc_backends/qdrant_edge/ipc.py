"""Frames between the adapter and its child: a message of plain values, followed by raw bytes (vectors).

Each connection carries one request and then its reply, so nothing has to be matched up.

Why marshal: both ends are the same interpreter over an inherited socket pair that no other process can open, so neither
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
_TIMEVAL = struct.Struct("@ll")
_SOCKET_BYTES = 1 << 18
_BUFFER_BYTES = 1 << 14
"""Holds the frames of a search; it grows for larger ones, and is kept, since zeroed memory costs more than reading."""


class PipeConnection:
    """One end of a socket pair. Not safe to use from several threads at a time.

    The socket stays in blocking mode and its timeout is the kernel's: Python's own would cost two more system calls
    for each reply, each of which releases the interpreter lock and has to acquire it again.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._filled = 0
        self._is_timed = False

    @classmethod
    def pair(cls) -> tuple[PipeConnection, socket.socket]:
        """Return a connection and the other end of it.

        The buffers hold any frame of a search whole, so that sending one never waits for the other side.
        """
        near, far = socket.socketpair()
        for end in (near, far):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
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
        self._socket.sendall(b"".join((_HEADER.pack(len(head), len(blob)), head, blob)))

    def receive(self, until: float | None = None) -> tuple[Message, bytes]:
        """Return the next frame, at once if it has arrived. A partial frame at the timeout is kept for the next call.

        Args:
            until: A moment on the monotonic clock, or None to wait as long as it takes.

        Raises:
            TimeoutError: The moment passed first.
            OSError: The other end is gone.
        """
        start = end = _HEADER.size
        while self._filled < end or end == _HEADER.size:
            self._receive_some(until)
            if self._filled >= _HEADER.size:
                head_size, blob_size = _HEADER.unpack_from(self._buffer)
                start = _HEADER.size + head_size
                end = start + blob_size
                if end > len(self._buffer):
                    self._grow(end)
        self._filled = 0
        head = marshal.loads(self._buffer[_HEADER.size : start])  # noqa: S302 - see above
        return head, bytes(self._buffer[start:end])

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _receive_some(self, until: float | None) -> None:
        flags = 0
        if until is not None:
            remaining = until - time.monotonic()
            if remaining > 0:
                seconds, rest = divmod(remaining, 1.0)
                # No time at all would mean for ever.
                timeout = _TIMEVAL.pack(int(seconds), int(rest * 1e6) or 1)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
                self._is_timed = True
            else:
                flags = socket.MSG_DONTWAIT
        elif self._is_timed:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(0, 0))
            self._is_timed = False
        try:
            received = self._socket.recv_into(self._buffer[self._filled :], 0, flags)
        except BlockingIOError as error:
            raise TimeoutError from error
        if not received:
            raise ConnectionResetError
        self._filled += received

    def _grow(self, size: int) -> None:
        larger = memoryview(bytearray(size))
        larger[: self._filled] = self._buffer[: self._filled]
        self._buffer = larger
