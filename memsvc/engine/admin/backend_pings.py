"""Pings of the backends, in parallel and within a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memsvc.domain.diagnostics import BackendHealth
from memsvc.domain.errors import MemsvcError

PING_SECONDS = 3.0
"""A backend that does not answer a ping within this time is unhealthy."""


@dataclass(frozen=True, slots=True)
class Pingable:
    """A backend that can be pinged: the port it serves, its name, and the ping function."""

    port: str
    name: str
    ping: Callable[[], None]


class BackendPings:
    """Pings every backend in a thread of its own. Thread-safe.

    A ping that hangs keeps one thread, and no second ping of that backend begins until it ends.
    """

    def __init__(self, backends: Sequence[Pingable], seconds: float = PING_SECONDS) -> None:
        """Wait *seconds* for an answer."""
        self._backends = backends
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: dict[str, _Ping] = {}

    def health(self) -> tuple[BackendHealth, ...]:
        """Return the health of every backend, in at most the time for one ping."""
        with self._lock:
            for backend in self._backends:
                running = self._running.get(backend.port)
                if running is None or running.is_done:
                    self._running[backend.port] = _Ping(backend)
            pings = [self._running[backend.port] for backend in self._backends]
        until = time.monotonic() + self._seconds
        return tuple(ping.health(until) for ping in pings)


class _Ping:
    """One ping under way, in a daemon thread: a hung backend must not keep the process from ending."""

    def __init__(self, backend: Pingable) -> None:
        self._backend = backend
        self._started = time.monotonic()
        self._seconds = 0.0
        self._trouble = ""
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ping-{backend.port}", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def health(self, until: float) -> BackendHealth:
        self._thread.join(max(0.0, until - time.monotonic()))
        if not self.is_done:
            seconds = time.monotonic() - self._started
            trouble = f"The backend {self._backend.name!r} has not answered for {seconds:.1f} s."
            return BackendHealth(
                self._backend.port, self._backend.name, healthy=False, message=trouble, ping_seconds=seconds
            )
        if self._failure is not None:
            raise self._failure
        return BackendHealth(
            self._backend.port,
            self._backend.name,
            healthy=not self._trouble,
            message=self._trouble,
            ping_seconds=self._seconds,
        )

    def _run(self) -> None:
        try:
            self._backend.ping()
        except MemsvcError as error:
            self._trouble = error.message
        except Exception as error:  # noqa: BLE001 - raised by the thread that asks
            self._failure = error
        self._seconds = time.monotonic() - self._started
