"""What went wrong with an index when it was last asked or written to: files may break where no ping looks."""

from __future__ import annotations

import threading


class LastErrors:
    """Remembers, for each index and each thing done with it, whether it failed the last time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], str] = {}

    def note(self, port: str, operation: str, message: str) -> None:
        """Note that something failed."""
        with self._lock:
            self._known[port, operation] = message

    def forget(self, port: str, operation: str = "") -> None:
        """Note that something went well; without an operation, that the index is a new one."""
        if not self._known:
            return
        with self._lock:
            for name in [one for one in self._known if one[0] == port and operation in {"", one[1]}]:
                del self._known[name]

    def of(self, port: str) -> dict[str, str]:
        """Return what failed with an index the last time, and how, by operation."""
        with self._lock:
            return {operation: message for (name, operation), message in self._known.items() if name == port}
