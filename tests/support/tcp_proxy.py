"""A TCP proxy whose connections can be dropped, refused and delayed, as a network does it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Forwards connections to a port or the path of a socket, which may change, while it is told to."""

    def __init__(self, target: int | str) -> None:
        self.target = target
        # Bound to the port all the time, so that nobody else is given it while nothing listens there.
        self._holder = _bound(0)
        self.port: int = self._holder.getsockname()[1]
        self._listener = _listening(self.port)
        self._passing = threading.Event()
        self._passing.set()
        self._stranded: list[threading.Event] = []
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

    def strand(self) -> None:
        """Pass nothing on of the connections there are, not even an end, until `close`; later ones are passed on."""
        self._passing.clear()
        self._stranded.append(self._passing)
        self._passing = threading.Event()
        self._passing.set()

    def release(self) -> None:
        """Pass on what was held, and all that comes."""
        self._passing.set()

    def close(self) -> None:
        """End it."""
        for passing in (self._passing, *self._stranded):
            passing.set()
        self.refuse()
        self._holder.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = self._connect()
            except (ConnectionRefusedError, FileNotFoundError):
                near.close()
                continue
            except OSError:
                return
            with self._lock:
                self._ends |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other, self._passing), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self.target, int):
            return socket.create_connection(("127.0.0.1", self.target))
        made = socket.socket(socket.AF_UNIX)
        made.connect(self.target)
        return made

    def _pump(self, source: socket.socket, sink: socket.socket, passing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                passing.wait()
                sink.sendall(data)
        if passing in self._stranded:
            passing.wait()
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
def proxy(target: int | str) -> Iterator[Proxy]:
    """Run a proxy to a port or socket of this machine."""
    running = Proxy(target)
    try:
        yield running
    finally:
        running.close()
