"""Who may use the processors: queries at once, passages when no query is about."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memsvc.domain.errors import BackendClosedError

PATIENCE_SECONDS = 0.05
"""How long a passage gives way to queries before it goes ahead, so that a stream of queries starves no import."""


class QueryPriority:
    """Counts the calls under way.

    A query starts at once. A passage starts when fewer than *lanes* passages run and, for at most
    `PATIENCE_SECONDS`, when no query runs.
    """

    def __init__(self, *, lanes: int, name: str) -> None:
        """Let *lanes* passages run at once; *name* is the backend's, for errors."""
        self._lanes = threading.Semaphore(lanes)
        self._name = name
        self._changed = threading.Condition()
        self._queries = 0
        self._passages = 0
        self._closed = False

    @contextmanager
    def query(self) -> Iterator[int]:
        """Be a query under way; the value is the number of queries under way, this one included.

        Raises:
            BackendClosedError: `close` was called.
        """
        with self._changed:
            self.check_open()
            self._queries += 1
            count = self._queries
        try:
            yield count
        finally:
            with self._changed:
                self._queries -= 1
                self._changed.notify_all()

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Be a passage under way, after giving way.

        Raises:
            BackendClosedError: `close` was called.
        """
        with self._lanes:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or not self._queries, PATIENCE_SECONDS)
                self.check_open()
                self._passages += 1
            try:
                yield
            finally:
                with self._changed:
                    self._passages -= 1
                    self._changed.notify_all()

    def check_open(self) -> None:
        """Return, or raise BackendClosedError when `close` was called."""
        if self._closed:
            raise BackendClosedError(self._name)

    def close(self) -> None:
        """Let nobody in any more, and return when everybody is out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queries and not self._passages)
