"""Watchdog of a child process: detects one that is alive and does not answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from memsvc_backends.qdrant_edge.ipc import PipeConnection

log = logging.getLogger(__name__)
PING = "ping"
"""The operation that the child answers at once."""
_SLICES = 4
_LONGEST_FACTOR = 8.0


def processor_time(pid: int) -> int | None:
    """Return the processor time that a process has used, in ticks, or None where that is not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12])


class Pulse:
    """Pings of one child over a connection of their own, so that they queue behind no other request. One thread."""

    def __init__(self, connection: PipeConnection) -> None:
        self._connection = connection
        self._is_awaited = False

    def is_late(self, seconds: float) -> bool:
        """Return whether the child is alive and answers no ping within *seconds*.

        The time is waited for in slices: a pause of this process itself, as when its container is frozen, uses up one
        slice and no more, so it is not taken for a hang of the child.
        """
        return all(self._is_unanswered(seconds / _SLICES) for _ in range(_SLICES))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _is_unanswered(self, seconds: float) -> bool:
        try:
            if not self._is_awaited:
                self._connection.send((PING,))
                self._is_awaited = True
            self._connection.receive(time.monotonic() + seconds)
        except TimeoutError:
            return True
        except OSError:
            # The child ended: the next call replaces it.
            return False
        self._is_awaited = False
        return False


class Watchdog:
    """A thread that checks a child at intervals and has a hung one replaced.

    After a replacement the next child gets twice the time, until a ping is answered in the usual time: on a machine too
    slow for the usual time, children would otherwise be replaced endlessly.
    """

    def __init__(self, seconds: float, find_pulse: Callable[[], Pulse | None], replace: Callable[[], None]) -> None:
        """Check the child of *find_pulse* (None: no check), and call *replace* if it is late by *seconds*."""
        self._seconds = self._patience = seconds
        self._find_pulse = find_pulse
        self._replace = replace
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edge-watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; a replacement under way is finished first."""
        self._ended.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds / _SLICES):
            try:
                self._check()
            except Exception:
                log.exception("the watchdog of the edge process failed and goes on")

    def _check(self) -> None:
        pulse = self._find_pulse()
        if pulse is None:
            return
        if not pulse.is_late(self._seconds):
            self._patience = self._seconds
        elif not self._ended.is_set() and (
            self._patience <= self._seconds or pulse.is_late(self._patience - self._seconds)
        ):
            self._replace()
            self._patience = min(self._patience * 2, self._seconds * _LONGEST_FACTOR)
