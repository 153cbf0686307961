"""Online backup of the database."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memsvc.data_directory import sync
from memsvc.domain.errors import BackendUnavailableError, CapabilityMissingError
from memsvc.ports.operations import CopyProgress
from memsvc_backends.sql.database import BACKEND, DAMAGED, Database, problem_of
from memsvc_backends.sql.dialect import execute
from memsvc_backends.sql.store_migration import change_triggers, migration_state
from memsvc_backends.sql.tables import checkpoints, conflicts, counters, files, memories, messages, revisions, sessions

PAGES = 500
"""Pages copied in one step: 2 MB."""
_TELL_SECONDS = 0.2
_INSTRUCTIONS = 10_000
"""Steps of SQLite's machine between two looks at whether to stop: a few milliseconds."""
BAD_COPY = "was copied wrongly: check the disk of the backups, and make the backup again"
NO_COPIES = "BACKUP; back PostgreSQL up with its own tools, such as pg_dump"


class _StoppedError(Exception):
    """The reader of the progress has stopped."""


class SqlStoreCopies:
    """`memsvc.ports.operations.StoreCopies`, by SQLite's online backup out of a snapshot; writers are not blocked."""

    def __init__(self, database: Database, name: str) -> None:
        """Copy *database* to files called *name*."""
        self._database = database
        self._name = name

    def copy(self, directory: Path) -> Generator[CopyProgress, None, None]:
        """Copy in a thread, and tell how far it is."""
        if self._database.driver.is_shared:
            # PostgreSQL has tools of its own for that, which know the whole server.
            raise CapabilityMissingError(NO_COPIES)
        steps = _Steps()
        with ThreadPoolExecutor(1, thread_name_prefix="backup") as pool:
            copying: Future[dict[str, int]] = pool.submit(self._copy, directory / self._name, steps)
            try:
                while not wait([copying], timeout=_TELL_SECONDS).done:
                    yield steps.progress
                counts = copying.result()
                yield replace(steps.progress, counts=counts)
            finally:
                steps.stop()

    def counts(self) -> dict[str, int]:
        """Count the rows of the tables."""
        with self._database.snapshot() as connection:
            return _counts(connection)

    def renew(self) -> None:
        """Change the name that the database was given when it was made."""
        with self._database.write_transaction() as connection:
            # Of a move that was under way, or had ended, when the copy was made, the copy is no part.
            change_triggers.remove(connection)
            change_triggers.remove_barrier(connection)
            migration_state.forget(connection, migration_state.OUT)
            migration_state.forget(connection, migration_state.INTO)
            execute(connection, sa.update(counters).values(store_id=uuid.uuid4().hex))

    def verify(self) -> None:
        """Check the pages of the file; PostgreSQL has tools of its own for that."""
        if self._database.driver.is_shared:
            return
        with self._database.snapshot() as connection:
            source: Any = connection.connection.driver_connection
            problem = "" if _is_whole(source) else DAMAGED
        if problem:
            self._database.note_damage()
            raise BackendUnavailableError(BACKEND, problem=problem)

    def _copy(self, path: Path, steps: _Steps) -> dict[str, int]:
        with self._database.snapshot() as connection:
            # The snapshot begins with the first look; the copying then sees nothing that is written later.
            execute(connection, sa.select(counters.c.last_position)).one()
            counts = _counts(connection)
            source: Any = connection.connection.driver_connection
            try:
                with closing(sqlite3.connect(path)) as target:
                    source.backup(target, pages=PAGES, progress=steps.note)
                    # The copy, which has no other readers, and not the store: its pages are in the cache of the
                    # system, and writers go on.
                    is_whole = _is_whole(target, steps)
                sync(path)
                sync(path.parent)
            except _StoppedError:
                return {}
            except sqlite3.Error as error:
                raise BackendUnavailableError(BACKEND, problem=self._noted(problem_of(error))) from error
            except OSError as error:
                raise BackendUnavailableError(BACKEND) from error
            if not is_whole:
                # Only damage of the store itself is noted, not that of the disk of the backups.
                problem = BAD_COPY if _is_whole(source, steps) else self._noted(DAMAGED)
                raise BackendUnavailableError(BACKEND, problem=problem)
        return counts

    def _noted(self, problem: str) -> str:
        if problem == DAMAGED:
            self._database.note_damage()
        return problem


def _is_whole(connection: sqlite3.Connection, steps: _Steps | None = None) -> bool:
    """Return whether SQLite finds every page in order.

    `quick_check` reads each page once: 420 MB in 5 s on two busy processors. `integrity_check`, which also looks every
    row up in every index, took 12 s.

    Raises:
        _StoppedError: The reader of the progress has stopped.
    """
    if steps is not None:
        connection.set_progress_handler(lambda: steps.is_stopped, _INSTRUCTIONS)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if steps is not None and steps.is_stopped:
            raise _StoppedError from error
        raise
    except sqlite3.DatabaseError as error:
        if problem_of(error) != DAMAGED:
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    return bool(found is not None and found[0] == "ok")


def _counts(connection: sa.Connection) -> dict[str, int]:
    tables = (memories, revisions, sessions, messages, conflicts, checkpoints, files)
    statements = {table.name: sa.select(sa.func.count()).select_from(table) for table in tables}
    return {name: int(execute(connection, statement).scalar_one()) for name, statement in statements.items()}


class _Steps:
    """Progress of the copy, reported from its thread."""

    def __init__(self) -> None:
        self.progress = CopyProgress(0, 0)
        self._stopped = threading.Event()

    def note(self, _status: int, remaining: int, total: int) -> None:
        if self.is_stopped:
            raise _StoppedError
        self.progress = CopyProgress(total - remaining, total)

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()
