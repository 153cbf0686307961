"""The connections to the database: one that writes, a few that read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from backends.sql.dialect import SNAPSHOT_BEGIN, WRITE_BEGIN, prepare_connection, run_text
from backends.sql.errors import BACKEND, translate
from backends.sql.settings import SqlSettings
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError


class Database:
    """Lends connections and translates what goes wrong with them.

    Connections are kept open and lent as they are: a checkout from SQLAlchemy's own pool costs more than a small
    query does. Only one write runs at a time; the others wait in line here rather than in the database, where
    waiting means polling.
    """

    def __init__(self, path: Path, settings: SqlSettings) -> None:
        """Open nothing yet; connections are made when they are first needed."""
        self.path = path
        self._wait_seconds = settings.wait_seconds
        url = sa.URL.create("sqlite", database=str(path))
        self._engine = sa.create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

        def prepare(connection: Any, _record: object) -> None:
            prepare_connection(connection, settings)

        sa.event.listen(self._engine, "connect", prepare)
        self._lock = threading.Lock()
        self._writer_thread: int | None = None
        self._writer: sa.Connection | None = None
        self._slots = threading.BoundedSemaphore(settings.readers)
        self._shelf = threading.Lock()
        self._idle: list[sa.Connection] = []
        self._is_closed = False

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Lend a connection on which every statement sees all that was committed before it began."""
        with translate(), self._borrowed() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Lend a connection on which all statements see the same state."""
        with translate(), self._borrowed() as connection:
            run_text(connection, SNAPSHOT_BEGIN)
            try:
                yield connection
            finally:
                run_text(connection, "ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Lend the writing connection in a transaction: committed when the block ends, undone when it raises."""
        self._line_up()
        try:
            with translate():
                connection = self._writing_connection()
                run_text(connection, WRITE_BEGIN)
                try:
                    yield connection
                    run_text(connection, "COMMIT")
                except BaseException:
                    self._undo(connection)
                    raise
        finally:
            self._writer_thread = None
            self._lock.release()

    @contextmanager
    def maintaining(self) -> Iterator[sa.Connection]:
        """Lend the writing connection without a transaction, for what cannot be done in one."""
        self._line_up()
        try:
            with translate():
                yield self._writing_connection()
        finally:
            self._writer_thread = None
            self._lock.release()

    def close(self) -> None:
        """Close every connection, those lent as soon as they come back. Waits for the write that is under way."""
        with self._lock:
            with self._shelf:
                self._is_closed = True
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            if self._writer is not None:
                # The last connection to close brings the log into the database file and removes it.
                self._writer.close()
                self._writer = None
        self._engine.dispose()

    @contextmanager
    def _borrowed(self) -> Iterator[sa.Connection]:
        self._refuse_when_closed()
        if not self._slots.acquire(timeout=self._wait_seconds):
            raise BackendUnavailableError(BACKEND)
        connection: sa.Connection | None = None
        try:
            with self._shelf:
                self._refuse_when_closed()
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._engine.connect()
            yield connection
        finally:
            self._give_back(connection)
            self._slots.release()

    def _give_back(self, connection: sa.Connection | None) -> None:
        if connection is None:
            return
        with self._shelf:
            is_kept = not (self._is_closed or connection.invalidated)
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()

    def _writing_connection(self) -> sa.Connection:
        if self._writer is None:
            self._writer = self._engine.connect()
        return self._writer

    def _line_up(self) -> None:
        self._refuse_when_closed()
        if self._writer_thread == threading.get_ident():
            message = "A transaction is open in this thread already."
            raise RuntimeError(message)
        if not self._lock.acquire(timeout=self._wait_seconds):
            raise BackendUnavailableError(BACKEND)
        if self._is_closed:
            self._lock.release()
            raise BackendClosedError(BACKEND)
        self._writer_thread = threading.get_ident()

    def _undo(self, connection: sa.Connection) -> None:
        # Some failures (a full disk) make SQLite end the transaction itself; there is nothing to undo then.
        if getattr(connection.connection.driver_connection, "in_transaction", True):
            connection.exec_driver_sql("ROLLBACK")

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise BackendClosedError(BACKEND)
