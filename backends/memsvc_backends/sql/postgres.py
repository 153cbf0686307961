"""PostgreSQL through psycopg 3: a database that several processes share.

Why: one writer at a time. Whoever begins to change memories takes an advisory lock of the whole store, which
PostgreSQL lets go with the transaction, after it is visible. So the writers of all processes stand in one line, as the
threads of one process do on SQLite, and what was decided there holds here unchanged: rows and positions grow in the
order of commits without gaps (watchers miss nothing), what a transaction looked at is still so when it writes (keys,
contents, statements, the places of messages, erasures), a request is answered once, and no two transactions wait for
each other. Locking the row of counters alone would order the numbers too, but later than the looks. What is in no
order, embeddings, what is indexed, leases, is written beside the line. Reads wait for nobody.
"""

from __future__ import annotations

import importlib
import math
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from memsvc_backends.sql.dialect import execute
from memsvc_backends.sql.settings import Durability, SqlSettings
from memsvc_backends.sql.tables import metadata

_LOCK = 1_835_363_699
"""The class of our advisory locks ("mems"), beside which the schema is told apart by its name."""
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_NOTE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_LINE_UP = f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(current_schema()))"
_PATIENCE_WITH_ONE = 3
"""A writer that is silent in its transaction for so many times what others wait has lost it: a process that hangs
must not keep all others from writing."""
_LONGEST_SILENCE_SECONDS = 30
"""After so long without an answer a server is taken for gone."""
_UNLIMITED = (
    "SELECT set_config(name, '0', false) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
"""What a role or a database is told about idle transactions would take changes back from whoever was lent them, while a
model embeds what they are about; another process would apply them, and then this one an older state."""
_PRESENT = "current_setting('synchronous_commit')"
_ALWAYS_DURABLE = f"CASE {_PRESENT} WHEN 'off' THEN 'on' ELSE {_PRESENT} END"
"""What the server waits for with a commit, but never nothing."""
_TABLES = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
_SIZE = "SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0) FROM unnest(%s::text[]) AS name"


class PostgresDriver:
    """`memsvc_backends.sql.database.Driver`."""

    is_shared = True

    def __init__(self, url: str, settings: SqlSettings) -> None:
        """Connect to nothing yet; connections are made when they are first needed."""
        try:
            importlib.import_module("psycopg")
        except ModuleNotFoundError as error:
            message = (
                "The metadata store on PostgreSQL needs a package that is not installed: pip install memsvc[postgres]"
            )
            raise ModuleNotFoundError(message, name=error.name) from error
        target = sa.make_url(url).set(drivername="postgresql+psycopg")
        patience = max(1, math.ceil(settings.wait_seconds))
        self._engine = sa.create_engine(
            target,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            paramstyle="format",
            use_native_hstore=False,
            connect_args={
                "connect_timeout": patience,
                "application_name": target.query.get("application_name", "memsvc"),
                "tcp_user_timeout": _LONGEST_SILENCE_SECONDS * 1000,
                "keepalives_idle": _LONGEST_SILENCE_SECONDS,
            },
        )
        lock_timeout = math.ceil(settings.wait_seconds * 1000)
        silence = f"SET LOCAL idle_in_transaction_session_timeout = {_PATIENCE_WITH_ONE * lock_timeout}"
        self._begin_write = f"{_BEGIN_NOTE}; {silence}; {_LINE_UP}"
        durable = _ALWAYS_DURABLE if settings.durability is Durability.FULL else "'off'"
        self._prepare = (
            f"SELECT set_config('lock_timeout', '{lock_timeout}', false), "
            f"set_config('synchronous_commit', {durable}, false), set_config('jit', 'off', false)"
        )

    def connect(self) -> sa.Connection:
        """Connect to the server."""
        connection = self._engine.connect()
        execute(connection, _UNLIMITED)
        execute(connection, self._prepare)
        return connection

    def is_usable(self, connection: sa.Connection) -> bool:
        """Return whether nothing was said to it while it lay idle: a server that goes away says so."""
        driver = _driver(connection)
        if driver is None or driver.closed:
            return False
        poll = select.poll()
        poll.register(driver.fileno(), select.POLLIN)
        return not poll.poll(0)

    def is_clean(self, connection: sa.Connection) -> bool:
        """Return whether it is there, and in no transaction."""
        driver = _driver(connection)
        return driver is not None and not driver.closed and driver.info.transaction_status.name == "IDLE"

    def begin_snapshot(self, connection: sa.Connection) -> None:
        """Begin to read one state."""
        _say(connection, _BEGIN_SNAPSHOT)

    def begin_write(self, connection: sa.Connection) -> None:
        """Wait in the line of all writers of all processes."""
        _say(connection, self._begin_write)

    def begin_note(self, connection: sa.Connection) -> None:
        """Begin beside the line."""
        _say(connection, _BEGIN_NOTE)

    def commit(self, connection: sa.Connection) -> None:
        """Commit; PostgreSQL answers ROLLBACK when a statement had failed, and that is no commit."""
        if _say(connection, "COMMIT") != "COMMIT":
            message = "A statement of the transaction had failed; nothing was committed."
            raise sa.exc.InvalidRequestError(message)

    def undo(self, connection: sa.Connection) -> None:
        """Take back, unless the connection is lost, and the transaction with it."""
        driver = _driver(connection)
        if driver is not None and not driver.closed and driver.info.transaction_status.name != "IDLE":
            _say(connection, "ROLLBACK")

    def files(self) -> Sequence[Path]:
        """Return nothing: they are the server's own affair."""
        return ()

    def settle(self, connection: sa.Connection) -> bool:
        """Let the places of removed rows be used again; the log of changes is the server's own affair."""
        _say(connection, f"VACUUM {_TABLES}")
        return True

    def rewrite(self, connection: sa.Connection) -> None:
        """Write all tables anew."""
        _say(connection, f"VACUUM FULL {_TABLES}")

    def storage_bytes(self, connection: sa.Connection) -> int:
        """Return the size of the tables, with their indexes."""
        [(size,)] = execute(connection, _SIZE, ([table.name for table in metadata.sorted_tables],))
        return int(size)

    def close(self) -> None:
        """Dispose of the engine."""
        self._engine.dispose()


def _driver(connection: sa.Connection) -> Any:
    return None if connection.invalidated else connection.connection.driver_connection


def _say(connection: sa.Connection, text: str) -> str:
    """Run words without parameters, which may be several statements, and return what the server says of the first."""
    driver: Any = connection.dialect.dbapi
    cursor = connection.connection.cursor()
    try:
        cursor.execute(text)
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(text, None, error, driver.Error) from error
    else:
        return str(cursor.statusmessage)
    finally:
        cursor.close()
