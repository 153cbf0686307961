"""The target of a migration: address, readiness and preparation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr, ValidationError

from memsvc.domain.errors import BackendUnavailableError, MoveRefusedError
from memsvc.ports.operations import MoveTarget
from memsvc_backends.sql.database import BACKEND, Database, Driver
from memsvc_backends.sql.dialect import execute, has_table
from memsvc_backends.sql.migrate import create_tables
from memsvc_backends.sql.postgres import PostgresDriver
from memsvc_backends.sql.settings import SqlSettings
from memsvc_backends.sql.sqlite import SqliteDriver
from memsvc_backends.sql.store_migration import change_triggers, migration_state
from memsvc_backends.sql.store_migration.table_rows import MOVED
from memsvc_backends.sql.tables import counters

EMBEDDED = "the embedded store of the data directory"
_LOCK = 1_835_363_701
"""The class of the advisory lock of a migration into a PostgreSQL schema."""
_PATIENCE_MILLISECONDS = 2_000
"""How long to wait for a server to notice that an earlier migration process has died."""
_LOST = (
    "has ended the lock of this move, since the process was stopped or cut off for too long; run `memsvc "
    "migrate-backend` again, and it goes on where it was"
)
_OWN = ("alembic_version", migration_state.store_moves.name)


class Readiness(Enum):
    """Readiness of a target for a migration."""

    EMPTY = "empty"
    RESUMES = "goes on where it was"
    STALE = "holds an older state of this store, which is replaced"
    ARRIVED = "everything is there"


@dataclass(frozen=True, slots=True)
class Target:
    """A reachable target.

    Attributes:
        place: Where it is, for people, without a password.
        require_alone: Raises BackendUnavailableError if this process has lost the lock of the migration.
    """

    database: Database
    place: str
    require_alone: Callable[[], None]

    @contextmanager
    def write_to(self, database: Database) -> Iterator[sa.Connection]:
        """Provide a transaction on one of the two databases, while this process has the lock of the migration.

        A process that was stopped may go on after another one has taken the migration over. That one waits for this
        transaction, and what is written in it belongs to the time before.

        Raises:
            BackendUnavailableError: The lock is lost: the process was stopped or cut off for too long.
        """
        with database.write_transaction() as connection:
            self.require_alone()
            yield connection


@contextmanager
def open_target(settings: SqlSettings, target: MoveTarget, default_path: Path) -> Iterator[Target]:
    """Open the target for this migration, without changes. *settings* are those of the source.

    Raises:
        MoveRefusedError: It cannot be reached, or another move to it is under way.
    """
    chosen = _settings(settings, target)
    place = EMBEDDED if chosen.url is None else place_of(chosen.url.get_secret_value())
    database = Database(_driver(chosen, default_path), chosen)
    try:
        with _require_answer(database, place), _alone(database, place) as require_alone:
            yield Target(database, place, require_alone)
    finally:
        database.close()


def place_of(url: str) -> str:
    """Return where a PostgreSQL database is, without a password."""
    parts = sa.make_url(url)
    asked = parts.query.get("host")
    host = parts.host or (asked[0] if isinstance(asked, tuple) else asked) or "localhost"
    who = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    options = str(parts.query.get("options", ""))
    schema = f" (schema {options.partition('search_path=')[2].split()[0]})" if "search_path=" in options else ""
    # Words of a trigger: without what has a meaning there.
    return f"postgresql://{who}{host}{port}/{parts.database or ''}{schema}".replace("%", "?").replace("\\", "?")


def readiness_of(connection: sa.Connection, store_id: str, move_id: str, place: str) -> Readiness:
    """Return the readiness of the target for a migration of the store *store_id*.

    Raises:
        MoveRefusedError: It holds something else, is the store itself, or does not let itself be written to.
    """
    _require_rights(connection, place)
    names = set(sa.inspect(connection).get_table_names())
    into, out = (
        migration_state.load_move(connection, migration_state.INTO),
        migration_state.load_move(connection, migration_state.OUT),
    )
    if out is not None and out.state == migration_state.LEFT and out.store_id == store_id:
        return Readiness.STALE
    if into is not None and into.state != migration_state.ARRIVED:
        if into.store_id != store_id:
            message = f"A move of another store to {place} has not ended; end it, or name an empty database."
            raise MoveRefusedError(message)
        return Readiness.RESUMES if into.move_id == move_id else Readiness.STALE
    if into is not None and into.move_id == move_id:
        return Readiness.ARRIVED
    _require_empty(connection, names, store_id, place)
    return Readiness.EMPTY


def make_ready(connection: sa.Connection) -> None:
    """Drop and create the tables."""
    clear(connection)
    create_tables(connection)


def clear(connection: sa.Connection) -> None:
    """Remove all that is ours."""
    change_triggers.remove(connection)
    for table in (*(table.name for table in MOVED), *_OWN):
        execute(connection, f'DROP TABLE IF EXISTS "{table}"')
    if connection.dialect.name == "postgresql":
        execute(connection, 'DROP FUNCTION IF EXISTS "moved_away"()')


def store_id_of(connection: sa.Connection) -> str:
    """Return the identity of the store that a database holds; empty when it holds none."""
    if not has_table(connection, counters.name):
        return ""
    return execute(connection, sa.select(counters.c.store_id)).scalar() or ""


def _settings(settings: SqlSettings, target: MoveTarget) -> SqlSettings:
    values = settings.model_dump(exclude={"url", "path"})
    if target.url:
        values["url"] = SecretStr(target.url)
    try:
        chosen = SqlSettings.model_validate(values)
        if target.url:
            sa.make_url(target.url)
    except (ValidationError, sa.exc.ArgumentError):
        chosen = None
    if chosen is None:
        message = "The address of the target must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
        raise MoveRefusedError(message)
    return chosen


def _driver(settings: SqlSettings, default_path: Path) -> Driver:
    if settings.url is not None:
        return PostgresDriver(settings.url.get_secret_value(), settings)
    default_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return SqliteDriver(default_path, settings)


@contextmanager
def _require_answer(database: Database, place: str) -> Iterator[None]:
    """Translate the failure of the first contact."""
    reason = ""
    try:
        with database.read_connection() as connection:
            execute(connection, "SELECT 1")
    except BackendUnavailableError as error:
        reason = _reason(error)
    if reason:
        message = f"The target {place} {reason}."
        raise MoveRefusedError(message)
    yield


def _reason(error: BackendUnavailableError) -> str:
    """Describe the failure of a connection. The driver's message may contain secrets."""
    said = str(error.__cause__).lower()
    if "authentication" in said or "password" in said:
        return "does not accept the user or the password"
    if "does not exist" in said:
        return "has no such user or database; create it first"
    if "resolve" in said or "name or service" in said:
        return "cannot be reached: its host name is not known"
    return "cannot be reached: check host and port, and that the server there takes connections from here"


@contextmanager
def _alone(database: Database, place: str) -> Iterator[Callable[[], None]]:
    """Hold the lock of the migration in a transaction of its own, and provide what raises if the lock is lost.

    The transaction of a process that is stopped or cut off ends after `LONGEST_IDLE_SECONDS`, as those of other holders
    do.
    """
    driver = database.driver
    if not driver.is_shared:
        yield _is_alone
        return
    connection = driver.connect()

    def require() -> None:
        with suppress(sa.exc.SQLAlchemyError), driver.watch(connection):
            execute(connection, "SELECT 1")
            return
        raise BackendUnavailableError(BACKEND, problem=_LOST)

    try:
        if not _is_taken(driver, connection):
            message = f"A move to {place} is under way already; wait until it has ended."
            raise MoveRefusedError(message)
        with driver.keep_alive(connection):
            yield require
    finally:
        with suppress(sa.exc.SQLAlchemyError):
            # At once: the server may take a while to notice that the connection is closed.
            driver.undo(connection)
        with suppress(sa.exc.SQLAlchemyError):
            connection.close()


def _is_alone() -> None:
    """Return: the file of an embedded store belongs to one service."""


def _is_taken(driver: Driver, connection: sa.Connection) -> bool:
    driver.begin_note(connection)
    execute(connection, f"SET LOCAL lock_timeout = {_PATIENCE_MILLISECONDS}")
    try:
        execute(connection, f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(coalesce(current_schema(), '')))")
    except sa.exc.DBAPIError:
        return False
    return True


def _require_rights(connection: sa.Connection, place: str) -> None:
    if connection.dialect.name != "postgresql":
        return
    asked = "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE'), current_user"
    schema, may_create, user = execute(connection, asked).one()
    if schema is None:
        message = (
            f"The user {user!r} sees no schema at {place}: create one that is in its search path, or as the owner of "
            f'one run GRANT CREATE, USAGE ON SCHEMA ... TO "{user}".'
        )
        raise MoveRefusedError(message)
    if not may_create:
        message = (
            f"The user {user!r} may not create tables at {place}: as its owner run "
            f'GRANT CREATE, USAGE ON SCHEMA "{schema}" TO "{user}".'
        )
        raise MoveRefusedError(message)


def _require_empty(connection: sa.Connection, names: set[str], store_id: str, place: str) -> None:
    if store_id and _present_store(connection, names) == store_id:
        message = f"The target {place} is the store itself; name another database."
        raise MoveRefusedError(message)
    ours = [table.name for table in MOVED if table.name in names]
    if ours and "alembic_version" not in names:
        message = (
            f"The target {place} has tables of something else: {', '.join(ours)}. Name an empty database or schema."
        )
        raise MoveRefusedError(message)
    filled = [name for name in ours if name not in {"counters", "leases"} and _has_rows(connection, name)]
    if filled:
        message = (
            f"The target {place} is not empty: it holds {', '.join(filled)} of another store. Name an empty database "
            "or schema."
        )
        raise MoveRefusedError(message)


def _present_store(connection: sa.Connection, names: set[str]) -> str:
    return store_id_of(connection) if counters.name in names else ""


def _has_rows(connection: sa.Connection, name: str) -> bool:
    return execute(connection, f'SELECT 1 FROM "{name}" LIMIT 1').first() is not None  # noqa: S608 - our name


def version_of(connection: sa.Connection) -> str:
    """Return the name and version of the server."""
    if connection.dialect.name != "postgresql":
        return f"SQLite {execute(connection, 'SELECT sqlite_version()').scalar()}"
    said: Any = execute(connection, "SHOW server_version").scalar()
    return f"PostgreSQL {said}"
