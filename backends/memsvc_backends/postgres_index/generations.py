"""Generations of an index that several processes share: the live one, and the lock of the one being built."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import psycopg
from psycopg import sql

from memsvc.domain.errors import UNREADABLE_INDEX, BackendUnavailableError, MemsvcError, ReindexRunningError
from memsvc_backends.postgres_common.watchdog import LONGEST_IDLE_SECONDS
from memsvc_backends.postgres_index.connections import Connection, ConnectionPool, end_stuck_sessions, translate

FRESH_SECONDS = 1.0
"""So long a manifest that was read is taken for the present one. Searches learn of a switch at once all the same."""
_TABLE = "index_generations"
_LOCK = 1_835_363_710
"""The class of our advisory locks; those of the metadata store are below."""
_MAKE = f"""
CREATE TABLE IF NOT EXISTS {_TABLE} (
    kind text NOT NULL, generation integer NOT NULL, base text NOT NULL, manifest text NOT NULL,
    is_live boolean NOT NULL, PRIMARY KEY (kind, generation)
)
"""
_LIVE = f"SELECT base, manifest FROM {_TABLE} WHERE kind = %s AND is_live"
_OTHERS = f"DELETE FROM {_TABLE} WHERE kind = %s AND NOT is_live AND base <> %s RETURNING base"
_NOTE = f"INSERT INTO {_TABLE} VALUES (%s, %s, %s, %s, false)"
_RETIRE = f"DELETE FROM {_TABLE} WHERE kind = ANY(%s) AND is_live RETURNING base"
_PUBLISH = f"UPDATE {_TABLE} SET is_live = true WHERE kind = %s AND base = %s"
_FORGET = f"DELETE FROM {_TABLE} WHERE kind = %s AND base = %s AND NOT is_live RETURNING base"
_ONE_BY_ONE = f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(current_schema()))"
_HOLD = f"SELECT pg_try_advisory_lock({_LOCK}, hashtext(current_schema() || '.' || %s))"
_IS_HELD = f"classid::bigint = {_LOCK} AND objid::bigint = hashtext(current_schema() || '.' || %s)::bigint & 4294967295"
_LET_GO = "SELECT pg_advisory_unlock_all()"
_NOTICE_DEATH = "SELECT set_config(name, '5s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'"
"""So that a build does not go on, and keep others from building, when its process was killed."""
_NOTICE_STOP = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = 'idle_session_timeout'"
"""The same, when its process is stopped or cut off; see `Heartbeat`."""
_PLACE = "SELECT current_schema()"

_log = logging.getLogger(__name__)


class TableManifest(Protocol):
    """Common fields of manifests."""

    @property
    def generation(self) -> int:
        """Return the number of the generation."""
        ...


M = TypeVar("M", bound=TableManifest)


@dataclass(frozen=True, slots=True)
class IndexTables(Generic[M]):
    """Differences between the vector and the lexical index.

    Attributes:
        name: The kind, part of the names of its tables.
        parts: What the names of a generation's tables end in, in the order in which statements take them.
        entries: What the name of that one ends in which has a row for each entry.
        to_json: Writes a manifest.
        from_json: Reads one.
        earlier: The kinds of tables of another layout, which are dropped when a generation goes live.
    """

    name: str
    parts: tuple[str, ...]
    entries: str
    to_json: Callable[[M], dict[str, Any]]
    from_json: Callable[[dict[str, Any]], M]
    earlier: tuple[str, ...] = ()

    def tables(self, base: str) -> list[str]:
        """Return the names of a generation's tables."""
        return [f"{base}{part}" for part in self.parts]


@dataclass(frozen=True, slots=True)
class LiveTables(Generic[M]):
    """The live generation: the unique prefix of its table names, and its manifest."""

    base: str
    manifest: M


class TableGenerations(Generic[M]):
    """The manifests in the database, and a cache of the live one."""

    def __init__(self, connections: ConnectionPool, kind: IndexTables[M]) -> None:
        """Make the table of manifests, and remove leftovers of processes that died.

        Raises:
            BackendUnavailableError: The database cannot be reached.
        """
        self.kind = kind
        self._connections = connections
        self._looking = threading.Lock()
        self._live: LiveTables[M] | None = None
        self._looked = 0.0
        with translate(connections.name), connections.borrow() as connection:
            require_schema(connection)
            with connection.transaction():
                # Concurrent creations of the same table fail.
                connection.execute(_ONE_BY_ONE)
                connection.execute(_MAKE)
        self.refresh()
        self._remove_leftovers()

    def live(self) -> LiveTables[M] | None:
        """Return the live generation, or None; it is cached for `FRESH_SECONDS`.

        If the database is unreachable, the last known one is returned, and the search itself fails.

        Raises:
            BackendUnavailableError: None is known, and the database cannot be asked whether there is one by now.
        """
        self._connections.require_open()
        # Without a generation a writer treats its changes as written, so its absence is always read.
        if self._live is None:
            return self.refresh()
        # Other threads continue with the known one while one thread reads.
        if time.monotonic() - self._looked >= FRESH_SECONDS and self._looking.acquire(blocking=False):
            try:
                with suppress(BackendUnavailableError):
                    self._read()
            finally:
                self._looking.release()
        return self._live

    def refresh(self) -> LiveTables[M] | None:
        """Read which generation is live.

        Raises:
            BackendUnavailableError: The database cannot be reached.
        """
        with self._looking:
            return self._read()

    def begin(self, manifest: M) -> GenerationBuild[M]:
        """Note a generation that is to be made, which keeps every other process from making one.

        Raises:
            ReindexRunningError: Another process makes one, or has just done so.
            BackendUnavailableError: The database cannot be reached.
        """
        self._connections.require_open()
        with translate(self._connections.name):
            connection = self._connections.connect()
            try:
                self._hold(connection)
                self._require_newer(manifest)
                base = f"{self.kind.name}_{manifest.generation:06d}_{secrets.token_hex(4)}"
                self._clear(connection, base)
                written = json.dumps(self.kind.to_json(manifest))
                connection.execute(_NOTE, (self.kind.name, manifest.generation, base, written))
            except BaseException:
                _release(connection)
                raise
        return GenerationBuild(self, LiveTables(base, manifest), connection, self._connections)

    def publish(self, made: LiveTables[M], connection: Connection) -> None:
        """Make a generation the live one and drop the one before, in one step for all processes."""
        kinds = [self.kind.name, *self.kind.earlier]
        with connection.transaction():
            before = [base for (base,) in connection.execute(_RETIRE, (kinds,)).fetchall()]
            if connection.execute(_PUBLISH, (self.kind.name, made.base)).rowcount != 1:
                raise BackendUnavailableError(self._connections.name)
            drop(connection, [table for base in before for table in self.kind.tables(base)])
        with self._looking:
            self._live, self._looked = made, time.monotonic()

    def forget(self, made: LiveTables[M], connection: Connection) -> None:
        """Remove a generation that never went live."""
        with connection.transaction():
            if connection.execute(_FORGET, (self.kind.name, made.base)).fetchone():
                drop(connection, self.kind.tables(made.base))

    def _read(self) -> LiveTables[M] | None:
        with translate(self._connections.name), self._connections.borrow() as connection:
            found = connection.execute(_LIVE, (self.kind.name,)).fetchone()
        if found is None:
            self._live = None
        elif self._live is None or self._live.base != found[0]:
            self._live = LiveTables(found[0], self._manifest(found[1]))
        self._looked = time.monotonic()
        return self._live

    def _manifest(self, text: str) -> M:
        try:
            return self.kind.from_json(json.loads(text))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # Not a missing index: to build one would destroy that of the newer version.
            raise BackendUnavailableError(self._connections.name, problem=UNREADABLE_INDEX) from error

    def _hold(self, connection: Connection) -> None:
        found = connection.execute(_HOLD, (self.kind.name,)).fetchone()
        if found is None or not found[0]:
            end_stuck_sessions(connection, _IS_HELD, self.kind.name)
            raise ReindexRunningError
        connection.execute(_NOTICE_STOP, (str(LONGEST_IDLE_SECONDS * 1000),))
        with suppress(psycopg.errors.InvalidParameterValue):
            connection.execute(_NOTICE_DEATH)

    def _require_newer(self, manifest: M) -> None:
        live = self.refresh()
        if live is not None and live.manifest.generation >= manifest.generation:
            raise ReindexRunningError

    def _clear(self, connection: Connection, kept: str) -> None:
        """Remove unfinished generations of other processes; the holder of the lock knows that they have died."""
        with connection.transaction():
            left = [base for (base,) in connection.execute(_OTHERS, (self.kind.name, kept)).fetchall()]
            drop(connection, [table for base in left for table in self.kind.tables(base)])

    def _remove_leftovers(self) -> None:
        with translate(self._connections.name):
            connection = self._connections.connect()
            try:
                self._hold(connection)
                self._clear(connection, "")
            except ReindexRunningError:
                _log.debug("a generation of %s is being made by another process", self.kind.name)
            finally:
                _release(connection)


class GenerationBuild(Generic[M]):
    """A generation under construction: its tables, and the connection that holds the lock of builds."""

    def __init__(
        self,
        generations: TableGenerations[M],
        made: LiveTables[M],
        connection: Connection,
        connections: ConnectionPool,
    ) -> None:
        self.made = made
        self.connection = connection
        self.name = connections.name
        self._generations = generations
        self._heartbeat = ExitStack()
        # Embedding takes long between two writes.
        self._heartbeat.enter_context(connections.keep_alive(connection))
        self._is_over = False

    def publish(self) -> None:
        """Go live.

        Raises:
            BackendUnavailableError: The connection was lost, and the lock with it; the generation is given up.
        """
        with translate(self.name):
            self._generations.publish(self.made, self.connection)
        self.close()

    def discard(self) -> None:
        """Remove the generation, unless it is over. Otherwise the next process removes it."""
        if not self._is_over:
            with suppress(psycopg.Error):
                self._generations.forget(self.made, self.connection)
            self.close()

    def close(self) -> None:
        """Allow other processes to build one; they remove an unfinished one."""
        self._is_over = True
        self._heartbeat.close()
        _release(self.connection)


def drop(connection: Connection, tables: Sequence[str]) -> None:
    """Drop tables that may be there."""
    if tables:
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(names))


def require_schema(connection: Connection) -> None:
    """Raise MemsvcError when there is no schema to make tables in."""
    found = connection.execute(_PLACE).fetchone()
    if found is None or found[0] is None:
        raise MemsvcError(
            "The PostgreSQL database has no schema for the indexes: the first one of the search path must exist, and "
            "the user must be allowed to use it (CREATE SCHEMA …; ALTER ROLE … SET search_path = …)."
        )


def _release(connection: Connection) -> None:
    """Close a connection whose locks are gone when this returns: a server may take its time to notice the end."""
    with suppress(psycopg.Error):
        connection.execute(_LET_GO)
    with suppress(psycopg.Error):
        connection.close()
