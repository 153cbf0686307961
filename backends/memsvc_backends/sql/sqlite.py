"""SQLite: a file that one process has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from memsvc_backends.sql.carrying import LONG_PAGES, WalCheckpointer
from memsvc_backends.sql.dialect import execute_raw
from memsvc_backends.sql.settings import Durability, SqlSettings

LOG_BYTES = 64 * 1024 * 1024
"""What the log may keep of the disk after a large transaction."""


class SqliteDriver:
    """`memsvc_backends.sql.driver.Driver`."""

    is_shared = False

    def __init__(self, path: Path, settings: SqlSettings) -> None:
        """Open nothing yet; connections are made when they are first needed."""
        self.path = path
        url = sa.URL.create("sqlite", database=str(path))
        self._engine = sa.create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

        def prepare(connection: Any, _record: object) -> None:
            _prepare(connection, settings)

        sa.event.listen(self._engine, "connect", prepare)
        self._carrier = WalCheckpointer(self.connect)

    def connect(self) -> sa.Connection:
        """Open the file."""
        return self._engine.connect()

    def is_usable(self, _connection: sa.Connection) -> bool:
        """Return True: a file does not go away."""
        return True

    def is_clean(self, connection: sa.Connection) -> bool:
        """Return whether it was not found broken."""
        return not connection.invalidated

    def begin_snapshot(self, connection: sa.Connection) -> None:
        """Begin; the state is that of the first look."""
        execute_raw(connection, "BEGIN")

    def begin_write(self, connection: sa.Connection) -> None:
        """Take the writer's lock at once."""
        execute_raw(connection, "BEGIN IMMEDIATE")

    def begin_note(self, connection: sa.Connection) -> None:
        """Do as for any write: SQLite has one writer."""
        self.begin_write(connection)

    def commit(self, connection: sa.Connection) -> None:
        """Commit."""
        execute_raw(connection, "COMMIT")
        driver: Any = connection.connection.driver_connection
        self._carrier.wrote(connection, driver.total_changes)

    def undo(self, connection: sa.Connection) -> None:
        """Take back, unless a failure (a full disk) made SQLite end the transaction itself."""
        if getattr(connection.connection.driver_connection, "in_transaction", True):
            connection.exec_driver_sql("ROLLBACK")

    def files(self) -> Sequence[Path]:
        """Return the file and its log: copies of entries stay in pages that they were moved from."""
        return (self.path, self.path.with_name(f"{self.path.name}-wal"))

    def settle(self, connection: sa.Connection) -> bool:
        """Bring the log into the file and make it empty."""
        with self._carrier.paused():
            [(is_busy, _, _)] = execute_raw(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not is_busy

    def rewrite(self, connection: sa.Connection) -> None:
        """Write the whole file anew.

        The copy is made in a file beside it, not in memory, where a large one would not fit.
        """
        folder = str(self.path.parent.absolute()).replace("'", "''")
        execute_raw(connection, f"PRAGMA temp_store_directory = '{folder}'")
        execute_raw(connection, "PRAGMA temp_store = FILE")
        try:
            execute_raw(connection, "VACUUM")
        finally:
            execute_raw(connection, "PRAGMA temp_store = MEMORY")
        self.settle(connection)

    def storage_bytes(self, _connection: sa.Connection) -> int:
        """Return the size of the file and of its log."""
        return sum(file.stat().st_size for file in self.files() if file.exists())

    def close(self) -> None:
        """Dispose of the engine."""
        self._carrier.close()
        self._engine.dispose()


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
        # What is purged is to be gone from the file too, not only from its directory of pages.
        "secure_delete = ON",
        # The carrier sees to the log before; this is for when it cannot.
        f"wal_autocheckpoint = {2 * LONG_PAGES}",
        f"journal_size_limit = {LOG_BYTES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
