"""Waits of worker threads: while a thread waits for a process, a disk or a network, its pool lets another one work."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol


class WaitListener(Protocol):
    """Pool of the calling thread."""

    def begin_wait(self) -> None:
        """Note that the thread waits."""
        ...

    def end_wait(self) -> None:
        """Note that the thread works again."""
        ...


_CURRENT = threading.local()


def listen(listener: WaitListener | None) -> None:
    """Report the waits of the calling thread to *listener* from now on."""
    _CURRENT.listener = listener


class ThreadWait:
    """Context in which the calling thread waits. In a thread of no pool it does nothing."""

    __slots__ = ("_listener",)

    def __enter__(self) -> None:
        """Begin to wait."""
        self._listener: WaitListener | None = getattr(_CURRENT, "listener", None)
        if self._listener is not None:
            self._listener.begin_wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Work again."""
        if self._listener is not None:
            self._listener.end_wait()
