"""PostgreSQL through psycopg 3: a database that several processes share.

Writes of one owner are serialised across servers: a transaction that changes memories takes an advisory lock of each
owner, ascending, which PostgreSQL releases after the commit is visible. So for each owner the same guarantees hold as
for the threads of one process on SQLite: rows and positions grow in commit order (watchers miss nothing), what a
transaction has read is unchanged when it writes (keys, contents, statements, the ordinals of messages, erasures), a
request is answered once, and transactions do not deadlock. Transactions of other owners run and commit at the same
time. One that concerns any owner takes the lock of the whole store, which the others share.

The shared lock of the store is the last lock that a transaction takes, and only the thread that writes takes it: each
transaction that has it runs, and ends without waiting for another one. One that holds the lock of an owner until its
process writes (`lock_owner`) must not have it. Requests of the shared lock queue behind a request of the exclusive one,
so such a transaction would wait for its process, its process for the exclusive request, and that for the transaction,
which PostgreSQL cannot detect.

Rows and positions are taken from the counters on a connection of their own, so that no writer waits for the commit of
another. Across owners they are therefore not in commit order. A transaction holds a lock whose key is the last position
that was taken before its own: the smallest key of those under way is the position up to which no further change will be
committed (`_SETTLED`). Readers of all owners' changes go no further: indexes, the vault and caches skip no change that
is committed late. The horizon of transaction ids (pg_snapshot_xmin) would do as well, but transactions of other
databases of the server hold it back.

Data without an order (embeddings, applied marks, leases) are written without these locks. Reads never wait.

No transaction outlasts its process: one that is silent is ended by the server. A transaction that lasts while its
thread does something else (a claim, a pause, an export, a migration) is kept alive by a heartbeat.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import math
import select
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.faults import FaultLog
from memsvc.ports.metadata import OwnersBusyError
from memsvc_backends.postgres_common.connection_options import (
    CLIENT,
    READ_COMMITTED,
    SERVER_SILENCE,
    connection_options,
    problem_of_database,
)
from memsvc_backends.postgres_common.watchdog import LONGEST_IDLE_SECONDS, ConnectionWatchdog, Heartbeat
from memsvc_backends.sql.database import LOCK_NOT_IN_TIME
from memsvc_backends.sql.dialect import execute
from memsvc_backends.sql.settings import Durability, SqlSettings
from memsvc_backends.sql.tables import metadata

_log = logging.getLogger(__name__)
_NAME = "sql"
_LOCK = 1_835_363_699
"""The class of our advisory locks ("mems"); the second key is the name of the schema."""
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_NOTE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
ALONE = f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(current_schema()))"
BESIDE = f"SELECT pg_advisory_xact_lock_shared({_LOCK}, hashtext(current_schema()))"
_WRITING_BESIDE = (
    "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted "  # noqa: S608 - a constant
    f"AND classid::bigint = {_LOCK} AND objid::bigint = hashtext(current_schema())::bigint & 4294967295 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""The transactions that have a lock of the store."""
_BRIEF_SECONDS = 0.05
"""How long a request of the exclusive lock of the store holds up others though a transaction may be in its way that
lasts: that of a process which is stopped, for example."""
_LOOK_SECONDS = (0.005, 0.1)
"""The shortest and the longest pause between two looks for such transactions."""
_OWNER, _UNDER_WAY = 1_835_363_704, 1_835_363_705
"""Combined with the name of the schema: the classes of the locks of owners, and of positions."""
_OF_OWNERS = (
    f"SELECT pg_advisory_xact_lock(hashtext(current_schema()) # {_OWNER}, lock) FROM unnest(ARRAY[{{}}]) AS lock"  # noqa: S608 - numbers
)
_BESIDE_UNLESS_HELD = (
    "WITH held AS MATERIALIZED (SELECT lock FROM unnest(ARRAY[{}]) AS lock "  # noqa: S608 - numbers
    f"WHERE NOT pg_try_advisory_xact_lock(hashtext(current_schema()) # {_OWNER}, lock)), "
    f"beside AS MATERIALIZED ({BESIDE} WHERE NOT EXISTS (SELECT FROM held)) "
    "SELECT lock FROM held UNION ALL SELECT NULL FROM beside"
)
"""The locks of owners that others hold; without any, NULL, after the shared lock of the store was taken."""
_ANNOUNCE = (
    f"SELECT pg_advisory_xact_lock_shared(hashtext(current_schema()) # {_UNDER_WAY}, last_position::bit(32)::int) "  # noqa: S608 - a constant
    "FROM counters"
)
"""Before a position is taken: a reader that sees the position taken sees the lock, or the commit."""
_SETTLED = (
    "SELECT last_position - coalesce((SELECT max((last_position - objid::bigint) & 4294967295) FROM pg_locks "  # noqa: S608 - a constant
    "WHERE locktype = 'advisory' AND objsubid = 2 "
    f"AND classid::bigint = (hashtext(current_schema()) # {_UNDER_WAY})::bigint & 4294967295 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), 0) FROM counters"
)
"""The position up to which no further change will be committed. Keys have the lower 32 bits of a position.

The statement sees the counters as they were when it began, and the locks as they are later.
"""
_APPLICATION = "memsvc"
"""The name of the connections in `pg_stat_activity`, unless the URL has one."""
_PATIENCE_WITH_ONE = 3
"""A writer that is silent in its transaction for so many times what others wait has lost it: a process that hangs
must not keep all others from writing."""
_UNLIMITED = (
    "SELECT set_config(name, '0', false) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
"""The idle timeouts of a role or database would end a transaction within its own limit: that of a claim, for example,
between two heartbeats. Another process would apply the changes, and this one would apply them again."""
_NO_LIMITS = (
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_PRESENT = "current_setting('synchronous_commit')"
_ALWAYS_DURABLE = f"CASE {_PRESENT} WHEN 'off' THEN 'on' ELSE {_PRESENT} END"
"""What the server waits for with a commit, but never nothing."""
REWRITE_LOCK_MS, REWRITE_ATTEMPTS = 1_000, 5
"""How long a rewrite waits for the exclusive lock of a table, and how often: others queue behind its request."""
_TABLES = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
_SIZE = "SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0) FROM unnest(%s::text[]) AS name"


class PostgresDriver:
    """`memsvc_backends.sql.database.SharedDriver`."""

    is_shared = True

    def __init__(self, url: str, settings: SqlSettings, faults: FaultLog | None = None) -> None:
        """Connect to nothing yet; connections are made when they are first needed. A server that hangs is reported."""
        try:
            psycopg: Any = importlib.import_module("psycopg")
        except ModuleNotFoundError as error:
            message = (
                "The metadata store on PostgreSQL needs a package that is not installed: pip install memsvc[postgres]"
            )
            raise ModuleNotFoundError(message, name=error.name) from error
        target = sa.make_url(url).set(drivername="postgresql+psycopg")
        patience = max(1, math.ceil(settings.wait_seconds))
        name = {"application_name": target.query.get("application_name", _APPLICATION)}
        self._engine = sa.create_engine(
            target,
            poolclass=NullPool,
            # An error that is logged would have content.
            hide_parameters=True,
            isolation_level="AUTOCOMMIT",
            paramstyle="format",
            use_native_hstore=False,
            connect_args={"connect_timeout": patience, **CLIENT, **name},
        )

        def connect(seconds: int) -> Any:
            return psycopg.connect(**connection_options(url, application=_APPLICATION, seconds=seconds))

        self._watchdog = ConnectionWatchdog(
            _NAME, faults or FaultLog(), connect, statement_seconds=settings.statement_seconds
        )
        lock_timeout = math.ceil(settings.wait_seconds * 1000)
        idle_limit = f"SET LOCAL idle_in_transaction_session_timeout = {_PATIENCE_WITH_ONE * lock_timeout}"
        self._begin_write = f"{_BEGIN_NOTE}; {idle_limit}"
        self.rewrite_bytes = settings.rewrite_bytes
        self._heartbeat = Heartbeat(_NAME, self._watchdog)
        self._limit_idle = f"SET LOCAL idle_in_transaction_session_timeout = {LONGEST_IDLE_SECONDS * 1000}"
        self._usual_limit = f"SET LOCAL lock_timeout = {lock_timeout}"
        durable = _ALWAYS_DURABLE if settings.durability is Durability.FULL else "'off'"
        self._prepare = (
            f"SELECT set_config('lock_timeout', '{lock_timeout}', false), "
            f"set_config('synchronous_commit', {durable}, false), set_config('jit', 'off', false), "
            f"{READ_COMMITTED}, {SERVER_SILENCE}, "
            "current_setting('server_encoding'), pg_is_in_recovery(), pg_backend_pid()"
        )

    def connect(self) -> sa.Connection:
        """Connect to the server."""
        with self._watchdog.watch(None):
            connection = self._engine.connect()
        with self.watch(connection):
            execute(connection, _UNLIMITED)
            *_, encoding, is_standby, pid = execute(connection, self._prepare).one()
        if problem := problem_of_database(encoding, is_standby=is_standby):
            # It would be kept, and refuse every write, after the address leads to the primary again.
            connection.invalidate()
            connection.close()
            raise BackendUnavailableError(_NAME, problem=problem)
        self._watchdog.confirm(_driver(connection), pid)
        return connection

    def check(self) -> None:
        """Raise BackendUnavailableError while the server hangs."""
        self._watchdog.check()

    def check_writes(self) -> None:
        """As `check`."""
        self._watchdog.check()

    def watch(self, connection: sa.Connection, *, is_limited: bool = True) -> AbstractContextManager[None]:
        """Have a statement fail if the server hangs, or does not take it up."""
        return self._watchdog.watch(_driver(connection), is_limited=is_limited)

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
        _say(connection, f"{_BEGIN_SNAPSHOT}; {self._limit_idle}")

    def begin_write(
        self,
        connection: sa.Connection,
        owners: AbstractSet[str] | None = None,
        *,
        is_limited: bool = True,
        lock_seconds: float | None = None,
    ) -> None:
        """Wait for the locks of the owners and the shared one of the store, or for that of the whole store."""
        begin = [self._begin_write, *([] if is_limited else _NO_LIMITS)]
        keys = ",".join(map(str, sorted(set(map(_lock_of, owners or ())))))
        if owners is None:
            self._begin_alone(connection, begin, lock_seconds)
        elif lock_seconds is None or not owners:
            _say(connection, "; ".join([*begin, *([_OF_OWNERS.format(keys)] if owners else []), BESIDE]))
        elif self._held(connection, begin, owners, keys):
            try:
                self._begin_in_time(connection, begin, [_OF_OWNERS.format(keys)], lock_seconds)
                self.begin_locked(connection)
            except OwnersBusyError as error:
                if held := self._held(connection, begin, owners, keys):
                    raise OwnersBusyError(held) from error

    def _begin_alone(self, connection: sa.Connection, begin: Sequence[str], seconds: float | None) -> None:
        """Begin with the exclusive lock of the store, whose request holds up all transactions that begin.

        It is made when the transactions that were in its way have ended, unless they end very soon.

        Raises:
            OwnersBusyError: They last longer than so many seconds, or those that began after them do.
        """
        if seconds is not None and seconds > _BRIEF_SECONDS:
            with suppress(OwnersBusyError):
                self._begin_in_time(connection, begin, [ALONE], _BRIEF_SECONDS)
                return
            self._outwait_running(connection, seconds)
        self._begin_in_time(connection, begin, [ALONE], seconds)

    @staticmethod
    def _outwait_running(connection: sa.Connection, seconds: float) -> None:
        """Wait, in no transaction and without a lock, until the transactions have ended that write now.

        Raises:
            OwnersBusyError: They last longer than so many seconds.
        """
        end = time.monotonic() + seconds
        pause, longest = _LOOK_SECONDS
        running = set(execute(connection, _WRITING_BESIDE).scalars())
        while running := running.intersection(execute(connection, _WRITING_BESIDE).scalars()):
            if time.monotonic() + pause > end:
                raise OwnersBusyError(None)
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def _begin_in_time(
        self, connection: sa.Connection, begin: Sequence[str], locks: Sequence[str], seconds: float | None
    ) -> None:
        """Begin, and take each of the locks within so many seconds; None: as long as for any lock.

        Raises:
            OwnersBusyError: They are over; the connection is in no transaction.
        """
        if seconds is None:
            _say(connection, "; ".join([*begin, *locks]))
            return
        limit = f"SET LOCAL lock_timeout = {math.ceil(seconds * 1000)}"
        try:
            _say(connection, "; ".join([*begin, limit, *locks, self._usual_limit]))
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != LOCK_NOT_IN_TIME:
                raise
            self.undo(connection)
            raise OwnersBusyError(None) from error

    def _held(
        self, connection: sa.Connection, begin: Sequence[str], owners: AbstractSet[str], keys: str
    ) -> AbstractSet[str]:
        """Begin if the locks of all owners are free; otherwise return those whose locks are not, in no transaction."""
        with _spoken(connection, "; ".join([*begin, _BESIDE_UNLESS_HELD.format(keys)])) as cursor:
            while cursor.nextset():
                pass
            held = {key for (key,) in cursor if key is not None}
        if held:
            self.undo(connection)
        return {owner for owner in owners if _lock_of(owner) in held}

    def lock_owner(self, connection: sa.Connection, owner: str, *, seconds: float) -> None:
        """Begin with the lock of the owner, without that of the store."""
        self._begin_in_time(connection, [self._begin_write], [_OF_OWNERS.format(_lock_of(owner))], seconds)

    def begin_locked(self, connection: sa.Connection) -> None:
        """Wait for the shared lock of the store."""
        _say(connection, BESIDE)

    def announce(self, connection: sa.Connection) -> None:
        """Hold the settled position back until the transaction ends."""
        _say(connection, _ANNOUNCE)

    def settled_position(self, connection: sa.Connection) -> int:
        """Return the last position before those of the transactions under way."""
        return int(execute(connection, _SETTLED).scalar_one())

    def begin_note(self, connection: sa.Connection) -> None:
        """Begin without the lock of writers."""
        _say(connection, f"{_BEGIN_NOTE}; {self._limit_idle}")

    @contextmanager
    def keep_alive(self, connection: sa.Connection) -> Iterator[None]:
        """Have the transaction outlast the limit of silence as long as this process runs."""
        _say(connection, self._limit_idle)
        with self._heartbeat.keep_alive(_driver(connection)):
            yield

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

    def empty_log_soon(self) -> None:
        """Return: the log is the server's own affair."""

    def rewrite(self, connection: sa.Connection) -> None:
        """Rewrite the tables one by one; one that others use all the time is left as it is.

        Rows that a transaction under way may still see are kept, too.
        """
        _say(connection, f"SET lock_timeout = {REWRITE_LOCK_MS}")
        try:
            left = [table.name for table in metadata.sorted_tables if not self._rewrite_table(connection, table.name)]
        finally:
            _say(connection, self._usual_limit.replace("SET LOCAL", "SET"))
        if left:
            _log.warning(
                "erased data may remain in pages of tables in use, which were not rewritten: %s", ", ".join(left)
            )

    @staticmethod
    def _rewrite_table(connection: sa.Connection, table: str) -> bool:
        """Return whether the exclusive lock was free in time."""
        for attempt in range(REWRITE_ATTEMPTS):
            try:
                _say(connection, f'VACUUM FULL "{table}"')
            except sa.exc.DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != LOCK_NOT_IN_TIME:
                    raise
                time.sleep(REWRITE_LOCK_MS / 1000 * (attempt + 1))
            else:
                return True
        return False

    def storage_bytes(self, connection: sa.Connection) -> int:
        """Return the size of the tables, with their indexes."""
        [(size,)] = execute(connection, _SIZE, ([table.name for table in metadata.sorted_tables],))
        return int(size)

    def close(self) -> None:
        """Stop watching, and dispose of the engine."""
        self._heartbeat.close()
        self._watchdog.close()
        self._engine.dispose()


def _lock_of(owner: str) -> int:
    """Return the key of the lock of an owner: 31 bits, so that two of many owners may share one."""
    return int.from_bytes(hashlib.blake2b(owner.encode(errors="surrogatepass"), digest_size=4).digest(), "big") >> 1


def _driver(connection: sa.Connection) -> Any:
    return None if connection.invalidated else connection.connection.driver_connection


def _say(connection: sa.Connection, text: str) -> str:
    """Run words without parameters, which may be several statements, and return what the server says of the first."""
    with _spoken(connection, text) as cursor:
        return str(cursor.statusmessage)


@contextmanager
def _spoken(connection: sa.Connection, text: str) -> Iterator[Any]:
    """Run words without parameters, and provide the cursor, which is at the result of the first statement."""
    driver: Any = connection.dialect.dbapi
    if connection.invalidated:
        # SQLAlchemy would connect again, and a COMMIT there would succeed without the transaction.
        raise BackendUnavailableError(_NAME)
    try:
        # A connection that was lost refuses this already.
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(text)
            yield cursor
    except driver.Error as error:
        raise sa.exc.DBAPIError.instance(text, None, error, driver.Error) from error
