"""Moving the store, and taking that back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import MoveRefusedError
from memsvc.ports.operations import Changes, MovePhase, MoveProgress, MoveTarget, TableMoved
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.settings import SqlSettings
from memsvc_backends.sql.store_migration import change_triggers, fence, migration_state, row_copy, table_rows
from memsvc_backends.sql.store_migration.migration_state import Move
from memsvc_backends.sql.store_migration.migration_target import (
    EMBEDDED,
    Readiness,
    Target,
    clear,
    judged,
    opened,
    place_of,
    store_id_of,
    version_of,
)
from memsvc_backends.sql.store_migration.run import Run
from memsvc_backends.sql.store_migration.table_rows import INCIDENTAL


class SqlStoreMoves:
    """`memsvc.ports.operations.StoreMoves`.

    Why it cannot lose a change: the target equals the source, by digests of every row, at one moment; and from then on
    it is given every row that the source's own triggers name, with the last ones while nobody can write.
    """

    def __init__(
        self, database: Database, settings: SqlSettings, default_path: Path, now: Callable[[], datetime]
    ) -> None:
        """Move *database*; *default_path* is where the embedded store of this service is."""
        self._database = database
        self._settings = settings
        self._default_path = default_path
        self._now = now

    @property
    def arrival(self) -> str:
        """Look by which move the data came here."""
        with self._database.reading() as connection:
            into = migration_state.found(connection, migration_state.INTO)
        return "" if into is None else into.move_id

    def require_here(self) -> None:
        """Look whether the data moved away."""
        with self._database.reading() as connection:
            migration_state.require_here(connection)

    def check(self, target: MoveTarget) -> MoveProgress:
        """Count, and look at the target."""
        with self._other(target) as other, self._database.snapshot() as source:
            self._require_not_left(source, other.place)
            out = migration_state.found(source, migration_state.OUT)
            with other.database.reading() as there:
                ready = judged(there, store_id_of(source), out.move_id if out else "", other.place)
                note = f"{version_of(source)} to {version_of(there)}; the target {_said(ready)}"
            tables = tuple(TableMoved(name, rows) for name, rows in table_rows.counts(source).items())
            size = self._database.driver.storage_bytes(source)
        total = sum(table.rows for table in tables)
        return MoveProgress(MovePhase.CHECKED, 0, total, other.place, note, tables, bytes=size)

    def run(self, target: MoveTarget, *, settle: Callable[[], None]) -> Generator[MoveProgress, None, None]:
        """Move."""
        with self._other(target) as other:
            for step in Run(self._database, other, self._own_place(), self._now).steps(settle):
                yield replace(step, place=other.place)

    def abort(self, target: MoveTarget) -> MoveProgress:
        """Forget the move on both sides."""
        with self._other(target) as other:
            with self._database.reading() as source:
                self._require_not_left(source, "")
                store_id = store_id_of(source)
            with other.database.writing() as there:
                into = migration_state.found(there, migration_state.INTO)
                if into is not None and into.state != migration_state.ARRIVED and into.store_id == store_id:
                    clear(there)
            self._let_go()
        return MoveProgress(MovePhase.ABORTED, place=other.place, note="nothing is left of the move")

    def undo(self, target: MoveTarget, *, changes: Changes) -> MoveProgress:
        """Close the target, then open the source again."""
        with self._other(target) as other:
            with self._database.reading() as source:
                out = migration_state.found(source, migration_state.OUT)
            if out is None or out.state != migration_state.LEFT:
                message = (
                    "Nothing was moved away from here, so there is nothing to undo. If something was, say it with the "
                    "settings of the store that it was moved away from."
                )
                raise MoveRefusedError(message)
            with other.database.writing() as there:
                is_renewed = self._close(there, out, other.place, changes)
            with self._database.writing() as source:
                fence.take_down(source)
                migration_state.forget(source, migration_state.OUT)
                if is_renewed:
                    # Cursors of the target tell of changes that are not here.
                    source.exec_driver_sql(f"UPDATE counters SET store_id = '{out.move_id}'")  # noqa: S608 - hexadecimal
        note = "this is the place of the data again"
        if is_renewed:
            note += "; start the service anew, so that watches do not go on from what was discarded"
        return MoveProgress(MovePhase.UNDONE, place=other.place, note=note)

    def _close(self, there: sa.Connection, out: Move, place: str, changes: Changes) -> bool:
        """Have the target written to no more, and return whether that loses changes."""
        into, closed = (
            migration_state.found(there, migration_state.INTO),
            migration_state.found(there, migration_state.OUT),
        )
        if into is None or into.move_id != out.move_id:
            message = f"The data were moved to {out.place}, and {place} is another store; name the one they are at."
            raise MoveRefusedError(message)
        if closed is not None and closed.state == migration_state.LEFT:
            return bool(closed.details.get("renewed"))
        changed = _changed_since(there, into)
        if changed and changes is Changes.KEEP:
            message = (
                f"At {place} was stored since: {', '.join(changed)}. Move it back instead, with `memsvc "
                "migrate-backend --to embedded` at the service there, or lose it with --undo --discard-changes."
            )
            raise MoveRefusedError(message)
        store_id = out.move_id if changed else out.store_id
        fence.put_up(there, self._own_place())
        left = Move(
            migration_state.OUT,
            migration_state.LEFT,
            uuid.uuid4().hex,
            store_id,
            self._own_place(),
            to_micros(self._now()),
        )
        migration_state.save(there, replace(left, details={"renewed": bool(changed)}))
        return bool(changed)

    def _let_go(self) -> None:
        with self._database.writing() as source:
            change_triggers.remove(source)
            migration_state.forget(source, migration_state.OUT)

    def _require_not_left(self, source: sa.Connection, place: str) -> None:
        out = migration_state.found(source, migration_state.OUT)
        if out is not None and out.state == migration_state.LEFT and out.place != place:
            message = f"The data were moved to {out.place}; `memsvc migrate-backend --undo` takes that back."
            raise MoveRefusedError(message, subject="source")

    def _own_place(self) -> str:
        url = self._settings.url
        return EMBEDDED if url is None else place_of(url.get_secret_value())

    @contextmanager
    def _other(self, target: MoveTarget) -> Iterator[Target]:
        if not target.url and self._settings.url is None:
            message = "The store is the embedded one already; name a PostgreSQL database."
            raise MoveRefusedError(message)
        with opened(self._settings, target, self._default_path) as other:
            yield other


def _changed_since(there: sa.Connection, into: Move) -> list[str]:
    """Return the tables that were written to since the move, other than by a service that did no more than start."""
    told = into.details["digests"]
    changed = []
    for name, digest in row_copy.digests_of(there):
        final = [digest.rows, f"{digest.total:x}"]
        if name not in INCIDENTAL:
            changed.append((name, final))
    last = dict(changed)
    return [name for name, final in last.items() if final != told[name]]


def _said(ready: Readiness) -> str:
    return "is empty" if ready is Readiness.EMPTY else ready.value
