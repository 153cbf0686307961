"""A TCP proxy whose connections can be dropped, refused and delayed, as a network does it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Forwards connections to a port, which may change, while it is told to."""

    def __init__(self, target: int) -> None:
        self.target = target
        # Bound to the port all the time, so that nobody else is given it while nothing listens there.
        self._holder = _bound(0)
        self.port: int = self._holder.getsockname()[1]
        self._listener = _listening(self.port)
        self._passing = threading.Event()
        self._passing.set()
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def drop(self) -> None:
        """Break off every connection; new ones are taken."""
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def refuse(self) -> None:
        """Break off every connection, and listen no more."""
        # Closing alone would leave the accepting thread listening.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.drop()

    def listen(self) -> None:
        """Listen again, where it did before."""
        self._listener = _listening(self.port)
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def hold(self) -> None:
        """Take what is sent and pass nothing on, until `release`: as a network that swallows packets."""
        self._passing.clear()

    def release(self) -> None:
        """Pass on what was held, and all that comes."""
        self._passing.set()

    def close(self) -> None:
        """End it."""
        self._passing.set()
        self.refuse()
        self._holder.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except ConnectionRefusedError:
                near.close()
                continue
            except OSError:
                return
            with self._lock:
                self._ends |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._passing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with self._lock:
            self._ends -= {source, sink}


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def _listening(port: int) -> socket.socket:
    listener = _bound(port)
    listener.listen()
    return listener


@contextlib.contextmanager
def proxy(target: int) -> Iterator[Proxy]:
    """Run a proxy to a port of this machine."""
    running = Proxy(target)
    try:
        yield running
    finally:
        running.close()
