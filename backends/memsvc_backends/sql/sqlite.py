"""SQLite: a database file of one process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from memsvc.domain.errors import BackendUnavailableError
from memsvc_backends.sql.database import BACKEND
from memsvc_backends.sql.dialect import execute
from memsvc_backends.sql.settings import Durability, SqlSettings

LOG_BYTES = 64 * 1024 * 1024
"""What the log may keep of the disk after a large transaction."""
ROWS = 2048
"""Rows that are changed before what they wrote to the log is carried over: some 4 MB of an import."""
LONG_PAGES = 4096
"""Pages of the log, of 4 KiB, from which on a commit checkpoints the rest, so that the log restarts."""
EMPTY_SECONDS = 0.5
"""Pause before the next attempt to empty the log."""
FILE_LOST = (
    "has lost its file, which was removed, moved or replaced while the service ran: stop the service, put the file "
    "back (mount its volume, or restore a backup) and start it again"
)
_FAILED = "SQLite's log grows, it cannot be brought into the file: %s"


class SqliteDriver:
    """`memsvc_backends.sql.database.Driver`."""

    is_shared = False
    rewrite_bytes = 0

    def __init__(self, path: Path, settings: SqlSettings) -> None:
        """Open nothing yet; connections are made when they are first needed."""
        self.path = path
        url = sa.URL.create("sqlite", database=str(path))
        # An error that is logged would have content without hide_parameters.
        self._engine = sa.create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True)

        def prepare(connection: Any, _record: object) -> None:
            _prepare(connection, settings)

        sa.event.listen(self._engine, "connect", prepare)
        self._carrier = WalCheckpointer(self.connect)
        self._wait_seconds = settings.wait_seconds
        self._flushing_since: float | None = None
        self._identity: tuple[int, int] | None = None

    def connect(self) -> sa.Connection:
        """Open the file.

        Raises:
            BackendUnavailableError: It is not the one that was opened first.
        """
        # Before SQLite creates another one.
        self.require_file()
        connection = self._engine.connect()
        if self._identity is None:
            self._identity = _identity_of(self.path)
        return connection

    def require_file(self) -> None:
        """Return if the path leads to the file that is open.

        SQLite would write to a file without a name, and what it acknowledged would be gone with the process.

        Raises:
            BackendUnavailableError: It leads to another file or to none.
        """
        if self._identity is not None and _identity_of(self.path) != self._identity:
            raise BackendUnavailableError(BACKEND, problem=FILE_LOST)

    def check(self) -> None:
        """Return: a file is no server."""

    def check_writes(self) -> None:
        """Raise BackendUnavailableError if the file is lost, or a flush is under way for longer than calls wait."""
        self.require_file()
        since = self._flushing_since
        if since is not None and time.monotonic() - since > self._wait_seconds:
            problem = (
                f"waits for its disk, which has not answered for {self._wait_seconds:g} s: writes fail until it does"
            )
            raise BackendUnavailableError(BACKEND, problem=problem)

    @contextmanager
    def _flush(self) -> Iterator[None]:
        """Note that the writer, of which there is one, waits for the disk: that wait cannot be interrupted."""
        self._flushing_since = time.monotonic()
        try:
            yield
        finally:
            self._flushing_since = None

    def watch(self, connection: sa.Connection, *, is_limited: bool = True) -> AbstractContextManager[None]:
        """Watch nothing."""
        del connection, is_limited
        return nullcontext()

    def is_usable(self, _connection: sa.Connection) -> bool:
        """Return True: a file does not go away."""
        return True

    def is_clean(self, connection: sa.Connection) -> bool:
        """Return whether it was not found broken."""
        return not connection.invalidated

    def begin_snapshot(self, connection: sa.Connection) -> None:
        """Begin; the state is that of the first look."""
        execute(connection, "BEGIN")

    def begin_write(
        self,
        connection: sa.Connection,
        owners: AbstractSet[str] | None = None,
        *,
        is_limited: bool = True,
        lock_seconds: float | None = None,
    ) -> None:
        """Take the writer's lock at once, for any owners.

        Raises:
            BackendUnavailableError: The file was removed, moved or replaced.
        """
        del owners, is_limited, lock_seconds
        self.require_file()
        execute(connection, "BEGIN IMMEDIATE")

    def announce(self, connection: sa.Connection) -> None:
        """Return: there is one writer, and positions are in the order of its commits."""

    def settled_position(self, connection: sa.Connection) -> int:
        """Return the position of the last change."""
        return int(execute(connection, "SELECT last_position FROM counters").scalar_one())

    def begin_note(self, connection: sa.Connection) -> None:
        """Do as for any write: SQLite has one writer."""
        self.begin_write(connection)

    def keep_alive(self, connection: sa.Connection) -> AbstractContextManager[None]:  # noqa: ARG002 - as the port has it
        """Do nothing: a process that is stopped keeps the lock of the file."""
        return nullcontext()

    def commit(self, connection: sa.Connection) -> None:
        """Commit."""
        with self._flush():
            execute(connection, "COMMIT")
            driver: Any = connection.connection.driver_connection
            self._carrier.wrote(connection, driver.total_changes)

    def undo(self, connection: sa.Connection) -> None:
        """Take back, unless a failure (a full disk) made SQLite end the transaction itself."""
        if getattr(connection.connection.driver_connection, "in_transaction", True):
            execute(connection, "ROLLBACK")

    def files(self) -> Sequence[Path]:
        """Return the file and its log: copies of entries stay in pages that they were moved from."""
        return (self.path, self.path.with_name(f"{self.path.name}-wal"))

    def settle(self, connection: sa.Connection) -> bool:
        """Bring the log into the file and make it empty."""
        with self._flush(), self._carrier.pause():
            [(is_busy, _, _)] = execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not is_busy

    def empty_log_soon(self) -> None:
        """Have the thread that checkpoints empty the log, as soon as no reader needs it."""
        self._carrier.empty_soon()

    def rewrite(self, connection: sa.Connection) -> None:
        """Rewrite the whole file.

        The copy is a file next to it, not in memory, where a large one would not fit.
        """
        folder = str(self.path.parent.absolute()).replace("'", "''")
        execute(connection, f"PRAGMA temp_store_directory = '{folder}'")
        execute(connection, "PRAGMA temp_store = FILE")
        try:
            execute(connection, "VACUUM")
        finally:
            execute(connection, "PRAGMA temp_store = MEMORY")
        self.settle(connection)

    def storage_bytes(self, _connection: sa.Connection) -> int:
        """Return the size of the file and of its log."""
        return sum(file.stat().st_size for file in self.files() if file.exists())

    def close(self) -> None:
        """Dispose of the engine."""
        self._carrier.close()
        self._engine.dispose()


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return the device and the number of a file; None: there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - half the time of Path.stat, before every write
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _prepare(connection: Any, settings: SqlSettings) -> None:
    """Set a fresh connection of the driver up; transactions are begun by us, never by the driver."""
    connection.isolation_level = None
    cursor = connection.cursor()
    synchronous = "FULL" if settings.durability is Durability.FULL else "NORMAL"
    for pragma in (
        f"busy_timeout = {int(settings.wait_seconds * 1000)}",
        "journal_mode = WAL",
        f"synchronous = {synchronous}",
        f"cache_size = -{max(1, settings.cache_bytes // 1000)}",
        "temp_store = MEMORY",
        # The space of removed entries is overwritten, not only free. Copies of entries in pages that were divided or
        # joined before may remain until `rewrite`, and the log has the text until it is emptied: `empty_log_soon`.
        "secure_delete = ON",
        # The carrier sees to the log before; this is for when it cannot.
        f"wal_autocheckpoint = {2 * LONG_PAGES}",
        f"journal_size_limit = {LOG_BYTES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


# Checkpoints of SQLite's write-ahead log in a thread of their own, not in the commits of the writer.


_log = logging.getLogger(__name__)


class WalCheckpointer:
    """A thread that checkpoints the write-ahead log with a connection of its own.

    Without it, the commit that finds the log long carries all of it over, and its writer waits for two more flushes
    of the disk and a thousand pages here and there in the file. The log can restart only once nothing is left in
    it, which never happens with a steady writer; so a commit still does the rest, of which there is little.

    After a removal of text the thread also empties the log, which holds it. It never waits for a lock while it has
    another one, so that neither readers nor the writer wait for more than its work; it tries again instead.
    """

    def __init__(self, connect: Callable[[], sa.Connection]) -> None:
        """Start nothing yet; the thread comes with the first rows to carry."""
        self._connect = connect
        self._carried = 0
        self._is_due = threading.Event()
        self._is_long = False
        self._is_to_empty = False
        self._is_closed = False
        self._file = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: sa.Connection | None = None

    def wrote(self, connection: sa.Connection, rows: int) -> None:
        """Come after a commit of the writing connection, which has changed so many rows since it was opened."""
        if self._is_long:
            self._truncate_log(connection)
        elif not 0 <= rows - self._carried < ROWS:
            self._carried = rows
            self._wake()

    def empty_soon(self) -> None:
        """Empty the log as soon as no reader needs it."""
        self._is_to_empty = True
        self._wake()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Keep off the log while the context is open: SQLite lets one at a time carry it over and refuses others."""
        with self._file:
            yield

    def close(self) -> None:
        """Stop; what is under way is finished."""
        self._is_closed = True
        self._is_due.set()
        if self._thread is not None:
            self._thread.join()

    def _truncate_log(self, connection: sa.Connection) -> None:
        """Carry the rest over, unless the thread is about to carry most of it: then after the next commit."""
        if self._file.acquire(blocking=False):
            try:
                pages, carried = _checkpoint(connection)
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
        seconds: float | None = None
        while True:
            self._is_due.wait(seconds)
            self._is_due.clear()
            if self._is_closed:
                break
            seconds = EMPTY_SECONDS if self._try() else None
        if self._connection is not None:
            self._connection.close()

    def _try(self) -> bool:
        """Carry the log over, and empty it if that is wanted; return whether a reader or the writer was in the way."""
        is_to_empty, self._is_to_empty = self._is_to_empty, False
        try:
            with self._file:
                if self._connection is None:
                    self._connection = self._connect()
                    execute(self._connection, "PRAGMA busy_timeout = 0")
                pages, _ = _checkpoint(self._connection)
                self._is_long = pages > LONG_PAGES
                if is_to_empty:
                    [(is_busy, _, _)] = execute(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")
                    self._is_to_empty = self._is_to_empty or bool(is_busy)
        except (sa.exc.DBAPIError, BackendUnavailableError) as error:
            _log.warning(_FAILED, error)
            self._is_to_empty = self._is_to_empty or is_to_empty
            return False
        return self._is_to_empty


def _checkpoint(connection: sa.Connection) -> tuple[int, int]:
    """Return how many pages the log has, and how many of them are in the file now."""
    [(_, pages, carried)] = execute(connection, "PRAGMA wal_checkpoint(PASSIVE)")
    return pages, carried
