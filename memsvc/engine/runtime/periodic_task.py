"""Periodic background tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memsvc.domain.errors import BackendUnavailableError, StoreMovedError

log = logging.getLogger(__name__)


class PeriodicTask:
    """A thread that runs a function periodically, and once more when it is stopped."""

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Run the function a last time and stop."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        is_unavailable = False
        while True:
            stopping = self._stopping.wait(self._seconds)
            try:
                self._work()
                is_unavailable = False
            except StoreMovedError:
                # The store is at another location; the task has nothing to do unless the move is undone.
                log.debug("a periodic task was skipped: the store was moved")
            except BackendUnavailableError as error:
                # Warn once for each outage.
                level = logging.DEBUG if is_unavailable else logging.WARNING
                log.log(level, "a periodic task was postponed: %s", error.message)
                is_unavailable = True
            except Exception:
                log.exception("a periodic task failed and is retried")
            if stopping:
                return
