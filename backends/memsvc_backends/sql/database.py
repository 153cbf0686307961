"""The connections to the database: one that writes, a few that read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import sqlalchemy as sa

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc_backends.sql.driver import Driver
from memsvc_backends.sql.errors import BACKEND, translate
from memsvc_backends.sql.settings import SqlSettings


class Database:
    """Lends connections and translates what goes wrong with them.

    Connections are kept open and lent as they are: a checkout from SQLAlchemy's own pool costs more than a small
    query does. Only one write of a process runs at a time; the others wait in line here rather than in the database,
    where waiting means polling, or a connection for each. When a connection is found lost, those that lie idle are
    given up with it: so the first call after the database came back finds it.
    """

    def __init__(self, driver: Driver, settings: SqlSettings) -> None:
        """Open nothing yet; connections are made when they are first needed."""
        self.driver = driver
        self._wait_seconds = settings.wait_seconds
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
            try:
                self.driver.begin_snapshot(connection)
                yield connection
            finally:
                self.driver.undo(connection)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Lend the writing connection in a transaction: committed when the block ends, undone when it raises."""
        with self._writing_connection() as connection, self._committed(connection, self.driver.begin_write):
            yield connection

    @contextmanager
    def noting(self) -> Iterator[sa.Connection]:
        """Lend a connection as `writing` does, for what is in no order with the changes of memories.

        Where several processes write, that does not wait in their line.
        """
        if not self.driver.is_shared:
            with self.writing() as connection:
                yield connection
            return
        with translate(), self._borrowed() as connection, self._committed(connection, self.driver.begin_note):
            yield connection

    @contextmanager
    def maintaining(self) -> Iterator[sa.Connection]:
        """Lend the writing connection without a transaction, for what cannot be done in one."""
        with self._writing_connection() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection, those lent as soon as they come back. Waits for the write that is under way."""
        with self._lock:
            with self._shelf:
                self._is_closed = True
            self._give_up_idle()
            if self._writer is not None:
                # The last connection to close brings SQLite's log into the database file and removes it.
                self._writer.close()
                self._writer = None
        self.driver.close()

    @contextmanager
    def _committed(self, connection: sa.Connection, begin: Callable[[sa.Connection], None]) -> Iterator[None]:
        try:
            begin(connection)
            yield
            self.driver.commit(connection)
        except BaseException:
            self.driver.undo(connection)
            raise

    @contextmanager
    def _borrowed(self) -> Iterator[sa.Connection]:
        self._refuse_when_closed()
        if not self._slots.acquire(timeout=self._wait_seconds):
            raise BackendUnavailableError(BACKEND)
        connection: sa.Connection | None = None
        try:
            connection = self._taken() or self.driver.connect()
            yield connection
        finally:
            self._give_back(connection)
            self._slots.release()

    def _taken(self) -> sa.Connection | None:
        """Return a connection that lay idle and can be used."""
        while True:
            with self._shelf:
                self._refuse_when_closed()
                connection = self._idle.pop() if self._idle else None
            if connection is None or self.driver.is_usable(connection):
                return connection
            _part_with(connection)

    def _give_back(self, connection: sa.Connection | None) -> None:
        if connection is None:
            return
        is_clean = self.driver.is_clean(connection)
        with self._shelf:
            is_kept = is_clean and not self._is_closed
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            _part_with(connection)
        if not is_clean:
            self._give_up_idle()

    def _give_up_idle(self) -> None:
        with self._shelf:
            idle, self._idle = self._idle, []
        for connection in idle:
            _part_with(connection)

    @contextmanager
    def _writing_connection(self) -> Iterator[sa.Connection]:
        self._line_up()
        try:
            with translate():
                if self._writer is not None and not self.driver.is_usable(self._writer):
                    self._part_with_writer()
                if self._writer is None:
                    self._writer = self.driver.connect()
                yield self._writer
        finally:
            if self._writer is not None and not self.driver.is_clean(self._writer):
                self._part_with_writer()
                self._give_up_idle()
            self._writer_thread = None
            self._lock.release()

    def _part_with_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            _part_with(writer)

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

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise BackendClosedError(BACKEND)


def _part_with(connection: sa.Connection) -> None:
    """Close a connection that may be broken."""
    with suppress(sa.exc.SQLAlchemyError):
        if not connection.invalidated:
            connection.invalidate()
        connection.close()
