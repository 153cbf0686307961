"""Doing something again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memsvc.domain.errors import BackendUnavailableError, StoreMovedError

log = logging.getLogger(__name__)


class PeriodicTask:
    """A thread that does something again and again until it is stopped, and once more at the end."""

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do the work a last time and stop."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        is_away = False
        while True:
            stopping = self._stopping.wait(self._seconds)
            try:
                self._work()
                is_away = False
            except StoreMovedError:
                # Nothing to be done here any more, unless the move is undone.
                log.debug("a repeated task rests: the store was moved")
            except BackendUnavailableError as error:
                # Told once for each outage: it is met again every moment until it ends.
                level = logging.DEBUG if is_away else logging.WARNING
                log.log(level, "a repeated task waits and will be tried again: %s", error.message)
                is_away = True
            except Exception:
                log.exception("a repeated task failed and will be tried again")
            if stopping:
                return
