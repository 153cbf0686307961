"""SQLite's log is brought into the database file beside the writer, not in its commits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from memsvc_backends.sql.dialect import execute_raw

ROWS = 2048
"""Rows that are changed before what they wrote to the log is carried over: some 4 MB of an import."""
LONG_PAGES = 4096
"""Pages of the log, of 4 KiB, from which on a commit carries over what is left, so that the log begins anew."""

_FAILED = "SQLite's log grows, it cannot be brought into the file: %s"
_log = logging.getLogger(__name__)


class WalCheckpointer:
    """A thread with a connection of its own that carries the log over while others write.

    Without it, the commit that finds the log long carries all of it over, and its writer waits for two more flushes
    of the disk and a thousand pages here and there in the file. The log can begin anew only once nothing is left in
    it, which never comes about beside a steady writer; so a commit still does the rest, of which there is little.
    """

    def __init__(self, connect: Callable[[], sa.Connection]) -> None:
        """Start nothing yet; the thread comes with the first rows to carry."""
        self._connect = connect
        self._carried = 0
        self._is_due = threading.Event()
        self._is_long = False
        self._is_closed = False
        self._file = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: sa.Connection | None = None

    def wrote(self, connection: sa.Connection, rows: int) -> None:
        """Come after a commit of the writing connection, which has changed so many rows since it was opened."""
        if self._is_long:
            self._begin_anew(connection)
        elif not 0 <= rows - self._carried < ROWS:
            self._carried = rows
            self._wake()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep off the log while the context is open: SQLite lets one at a time carry it over and refuses others."""
        with self._file:
            yield

    def close(self) -> None:
        """Stop; what is under way is finished."""
        self._is_closed = True
        self._is_due.set()
        if self._thread is not None:
            self._thread.join()

    def _begin_anew(self, connection: sa.Connection) -> None:
        """Carry the rest over, unless the thread is about to carry most of it: then after the next commit."""
        if self._file.acquire(blocking=False):
            try:
                pages, carried = _carry(connection)
                self._is_long = carried < pages
            except sa.exc.DBAPIError as error:
                # The commit is none the worse: what it wrote is in the log.
                _log.warning(_FAILED, error)
            finally:
                self._file.release()

    def _wake(self) -> None:
        self._is_due.set()
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="sqlite-log", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # As many threads as there may be. The commit is none the worse, and the next rows try again.
                _log.warning(_FAILED, error)
            else:
                self._thread = thread

    def _run(self) -> None:
        while True:
            self._is_due.wait()
            self._is_due.clear()
            if self._is_closed:
                break
            self._try()
        if self._connection is not None:
            self._connection.close()

    def _try(self) -> None:
        try:
            with self._file:
                self._connection = self._connection or self._connect()
                pages, _ = _carry(self._connection)
                self._is_long = pages > LONG_PAGES
        except sa.exc.DBAPIError as error:
            _log.warning(_FAILED, error)


def _carry(connection: sa.Connection) -> tuple[int, int]:
    """Return how many pages the log has, and how many of them are in the file now."""
    [(_, pages, carried)] = execute_raw(connection, "PRAGMA wal_checkpoint(PASSIVE)")
    return pages, carried
