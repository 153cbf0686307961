"""Migration of the store, and its undo."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import BackendUnavailableError, MoveRefusedError
from memsvc.ports.operations import MoveChanges, MovedTable, MovePhase, MoveProgress, MoveTarget
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import execute
from memsvc_backends.sql.migrate import HEAD, create_indexes
from memsvc_backends.sql.settings import SqlSettings
from memsvc_backends.sql.store_migration import change_triggers, migration_state, row_copy, table_rows
from memsvc_backends.sql.store_migration.migration_state import Move
from memsvc_backends.sql.store_migration.migration_target import (
    EMBEDDED,
    Readiness,
    Target,
    clear,
    make_ready,
    open_target,
    place_of,
    readiness_of,
    store_id_of,
    version_of,
)
from memsvc_backends.sql.store_migration.row_copy import CopiedChanges, Digests, copy_changes, into_of
from memsvc_backends.sql.store_migration.table_rows import INCIDENTAL, MOVED, Digest

FEW = 200
"""Changes that may be left when writes are made to wait."""
ROUNDS = 8
"""How often to carry changes over before writes are made to wait all the same."""


class SqlStoreMoves:
    """`memsvc.ports.operations.StoreMoves`.

    Why it cannot lose a change: the target equals the source, by digests of every row, at one moment; and from then on
    it is given every row that the source's own triggers name, with the last ones while writes are blocked.
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
        with self._database.read_connection() as connection:
            into = migration_state.load_move(connection, migration_state.INTO)
        return "" if into is None else into.move_id

    def require_here(self) -> None:
        """Look whether the data moved away."""
        with self._database.read_connection() as connection:
            migration_state.require_here(connection)

    def check(self, target: MoveTarget) -> MoveProgress:
        """Count, and look at the target."""
        with self._other(target) as other, self._database.snapshot() as source:
            self._require_not_left(source, other.place)
            out = migration_state.load_move(source, migration_state.OUT)
            with other.database.read_connection() as there:
                ready = readiness_of(there, store_id_of(source), out.move_id if out else "", other.place)
                note = f"{version_of(source)} to {version_of(there)}; the target {_describe(ready)}"
            tables = tuple(MovedTable(name, rows) for name, rows in table_rows.counts(source).items())
            size = self._database.driver.storage_bytes(source)
        total = sum(table.rows for table in tables)
        return MoveProgress(MovePhase.CHECKED, 0, total, other.place, note, tables, bytes=size)

    def run(self, target: MoveTarget, *, settle: Callable[[], None]) -> Generator[MoveProgress, None, None]:
        """Move."""
        with self._other(target) as other:
            for step in MigrationRun(self._database, other, self._own_place(), self._now).steps(settle):
                yield replace(step, place=other.place)

    def abort(self, target: MoveTarget) -> MoveProgress:
        """Forget the move on both sides."""
        with self._other(target) as other:
            with self._database.read_connection() as source:
                self._require_not_left(source, "")
                store_id = store_id_of(source)
            with other.write_to(other.database) as there:
                into = migration_state.load_move(there, migration_state.INTO)
                if into is not None and into.state != migration_state.ARRIVED and into.store_id == store_id:
                    clear(there)
            with other.write_to(self._database) as source:
                change_triggers.remove(source)
                migration_state.forget(source, migration_state.OUT)
        return MoveProgress(MovePhase.ABORTED, place=other.place, note="nothing is left of the move")

    def undo(self, target: MoveTarget, *, changes: MoveChanges) -> MoveProgress:
        """Close the target, then open the source again."""
        with self._other(target) as other:
            with self._database.read_connection() as source:
                out = migration_state.load_move(source, migration_state.OUT)
            if out is None or out.state != migration_state.LEFT:
                message = (
                    "Nothing was moved away from here, so there is nothing to undo. If something was, say it with the "
                    "settings of the store that it was moved away from."
                )
                raise MoveRefusedError(message)
            with other.write_to(other.database) as there, self._database.snapshot() as source:
                is_renewed = self._close((source, there), out, other.place, changes)
            with other.write_to(self._database) as source:
                change_triggers.remove_barrier(source)
                migration_state.forget(source, migration_state.OUT)
                if is_renewed:
                    # Cursors of the target tell of changes that are not here.
                    execute(source, f"UPDATE counters SET store_id = '{out.move_id}'")  # noqa: S608 - hexadecimal
        note = "this is the place of the data again"
        if is_renewed:
            note += "; restart the service, so that watches do not continue from discarded changes"
        return MoveProgress(MovePhase.UNDONE, place=other.place, note=note)

    def _close(self, sides: tuple[sa.Connection, sa.Connection], out: Move, place: str, changes: MoveChanges) -> bool:
        """Have the target written to no more, and return whether that loses changes. *sides*: source and target."""
        source, there = sides
        into, closed = (
            migration_state.load_move(there, migration_state.INTO),
            migration_state.load_move(there, migration_state.OUT),
        )
        if into is None or into.move_id != out.move_id:
            message = f"The data were moved to {out.place}, and {place} is another store; name the one they are at."
            raise MoveRefusedError(message)
        if closed is not None and closed.state == migration_state.LEFT:
            return bool(closed.details.get("renewed"))
        changed = _changed_since(source, there, into)
        if changed and changes is MoveChanges.KEEP:
            message = (
                f"At {place} was stored since: {', '.join(changed)}. Move it back instead, with `memsvc "
                "migrate-backend --to embedded` at the service there, or lose it with --undo --discard-changes."
            )
            raise MoveRefusedError(message)
        store_id = out.move_id if changed else out.store_id
        change_triggers.install_barrier(there, self._own_place())
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

    def _require_not_left(self, source: sa.Connection, place: str) -> None:
        out = migration_state.load_move(source, migration_state.OUT)
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
        with open_target(self._settings, target, self._default_path) as other:
            yield other


def _changed_since(source: sa.Connection, there: sa.Connection, into: Move) -> list[str]:
    """Return the tables that were written to since the move, other than by a service that started and answered reads.

    *source* is as it was at the move: it takes no writes since then.
    """
    expected = into.details["digests"]
    changed = []
    for name, digest in row_copy.digests_of(there):
        final = [digest.rows, f"{digest.total:x}"]
        if name not in INCIDENTAL:
            changed.append((name, final))
    last = dict(changed)
    differing = [table for table in MOVED if table.name in last and last[table.name] != expected[table.name]]
    return [table.name for table in differing if not row_copy.differ_only_incidentally(source, there, table)]


def _describe(ready: Readiness) -> str:
    return "is empty" if ready is Readiness.EMPTY else ready.value


# One run of a move: copy, follow, verify, switch.


class MigrationRun:
    """One run of a migration."""

    def __init__(self, source: Database, other: Target, own_place: str, now: Callable[[], datetime]) -> None:
        self._source = source
        self._other, self._target = other, other.database
        self._place = other.place
        self._own_place = own_place
        self._now = now

    def steps(self, settle: Callable[[], None]) -> Iterator[MoveProgress]:
        """Do what is left to do."""
        out = self._install_triggers()
        if out.state == migration_state.LEFT:
            yield self._finish(out)
            return
        into = self._prepare_target(out)
        if into.state == migration_state.COPYING:
            yield from self._copy(into)
            yield MoveProgress(MovePhase.FOLLOWING, note="making indexes")
            self._copy_changes(None, ends=True)
        yield from self._follow(None)
        digests: Digests = {}
        yield from self._verify(digests)
        settle()
        yield from self._follow(digests)
        settle()
        yield MoveProgress(MovePhase.SEALED, note="writes wait")
        seconds = self._switch(out, digests)
        yield replace(self._finish(out), sealed_seconds=seconds)

    def _install_triggers(self) -> Move:
        """Install the triggers that log changes, unless they exist."""
        with self._other.write_to(self._source) as source:
            out = migration_state.load_move(source, migration_state.OUT)
            if out is not None and out.state == migration_state.LEFT:
                return out
            if out is not None and out.details.get("version") == HEAD and out.place == self._place:
                return out
            made = Move(
                migration_state.OUT,
                migration_state.FOLLOWED,
                uuid.uuid4().hex,
                store_id_of(source),
                self._place,
                to_micros(self._now()),
            ).at(migration_state.FOLLOWED, version=HEAD)
            with self._target.read_connection() as there:
                # Before anything is changed here.
                readiness_of(there, made.store_id, made.move_id, self._place)
            change_triggers.install(source)
            migration_state.make_table(source)
            migration_state.save(source, made)
        return made

    def _prepare_target(self, out: Move) -> Move:
        """Create the tables of the target unless they exist."""
        with self._other.write_to(self._target) as there:
            ready = readiness_of(there, out.store_id, out.move_id, self._place)
            if ready is Readiness.RESUMES:
                return into_of(there)
            make_ready(there)
            migration_state.make_table(there)
            made = replace(
                out,
                role=migration_state.INTO,
                state=migration_state.COPYING,
                place=self._own_place,
                details={"copied": {}},
            )
            migration_state.save(there, made)
        return made

    def _copy(self, into: Move) -> Iterator[MoveProgress]:
        with self._source.read_connection() as source:
            counts = table_rows.counts(source)
        done, total = 0, sum(counts.values())
        copied = dict(into.details["copied"])
        for table in MOVED:
            known = copied.get(table.name)
            if known is True:
                done += counts[table.name]
                continue
            after, limit = row_copy.decode_key(table, known), table_rows.FIRST_PAGE
            while page := self._page(table, after, limit):
                after = table_rows.key_of(table, page[-1])
                is_last = len(page) < limit
                copied[table.name] = True if is_last else row_copy.encode_key(after)
                with self._other.write_to(self._target) as there:
                    table_rows.write_rows(there, table, page)
                    migration_state.save(there, into.at(migration_state.COPYING, copied=copied))
                done += len(page)
                yield MoveProgress(MovePhase.COPYING, done, max(total, done), note=table.name)
                if is_last:
                    break
                limit = table_rows.next_limit(limit, page)

    def _page(self, table: sa.Table, after: table_rows.Key | None, limit: int) -> list[table_rows.Row]:
        with self._source.read_connection() as source:
            return table_rows.page_after(source, table, after, limit)

    def _follow(self, digests: Digests | None) -> Iterator[MoveProgress]:
        for _ in range(ROUNDS):
            with self._source.read_connection() as source:
                left = change_triggers.count_pending(source)
            yield MoveProgress(MovePhase.FOLLOWING, 0, left, note="changes made during the copy")
            if not left:
                return
            carried = self._copy_changes(digests)
            yield MoveProgress(MovePhase.FOLLOWING, left, left, note="changes made during the copy")
            if carried.rows <= FEW:
                return

    def _copy_changes(self, digests: Digests | None, *, ends: bool = False) -> CopiedChanges:
        """Bring the target to the source's present state; where this *ends* the copying, make the indexes."""
        with (
            self._source.snapshot() as source,
            self._source.driver.keep_alive(source),
            self._other.write_to(self._target) as there,
        ):
            carried = copy_changes(source, there, digests)
            if ends:
                create_indexes(there)
                migration_state.save(there, into_of(there).at(migration_state.FOLLOWING, copied={}))
        self._forget(carried)
        return carried

    def _forget(self, carried: CopiedChanges) -> None:
        if not carried.spans:
            return
        with self._other.write_to(self._source) as source:
            for table in MOVED:
                change_triggers.forget(source, table, carried.spans.get(table.name, ()))

    def _verify(self, digests: Digests) -> Iterator[MoveProgress]:
        """Compare every row of both sides, as of one moment, and keep the digests."""
        ours: Digests = {}
        with self._source.snapshot() as source, self._source.driver.keep_alive(source):
            with self._other.write_to(self._target) as there:
                carried = copy_changes(source, there, None)
            total = 2 * sum(table_rows.counts(source).values())
            for name, digest in row_copy.digests_of(source):
                ours[name] = digest
                yield MoveProgress(MovePhase.VERIFYING, _rows(ours), total, note=name)
        with self._target.snapshot() as there, self._target.driver.keep_alive(there):
            for name, digest in row_copy.digests_of(there):
                digests[name] = digest
                yield MoveProgress(MovePhase.VERIFYING, _rows(ours) + _rows(digests), total, note=name)
        row_copy.compare(ours, digests)
        self._forget(carried)

    def _switch(self, out: Move, digests: Digests) -> float:
        """Copy the last changes while writes are blocked, and mark where the data are, in the source first."""
        begun = time.perf_counter()
        with self._other.write_to(self._source) as source:
            _keep_others_out(source)
            with self._other.write_to(self._target) as there:
                copy_changes(source, there, digests)
                self._count(source, there, digests)
                sums = {name: [digest.rows, f"{digest.total:x}"] for name, digest in digests.items()}
                migration_state.save(there, into_of(there).at(migration_state.VERIFIED, digests=sums))
            change_triggers.install_barrier(source, self._place)
            migration_state.save(source, replace(out, state=migration_state.LEFT, time=to_micros(self._now())))
        return time.perf_counter() - begun

    def _count(self, source: sa.Connection, there: sa.Connection, digests: Digests) -> None:
        ours, theirs = table_rows.counts(source), table_rows.counts(there)
        wrong = [name for name in ours if not ours[name] == theirs[name] == digests[name].rows]
        if wrong:
            raise row_copy.differ(wrong)

    def _finish(self, out: Move) -> MoveProgress:
        """Mark the target as the location of the data."""
        with self._other.write_to(self._target) as there:
            into = migration_state.load_move(there, migration_state.INTO)
            if (
                into is None
                or into.move_id != out.move_id
                or into.state not in {migration_state.VERIFIED, migration_state.ARRIVED}
            ):
                message = f"The data were moved to {out.place}, and {self._place} is another store."
                raise MoveRefusedError(message)
            migration_state.save(there, replace(into, state=migration_state.ARRIVED))
        # It may have to wait for readers; and nothing is written down there any more.
        with suppress(BackendUnavailableError), self._other.write_to(self._source) as source:
            change_triggers.remove(source)
        tables = tuple(
            Digest(rows, int(total, 16)).to_table(name) for name, (rows, total) in into.details["digests"].items()
        )
        rows = sum(table.rows for table in tables)
        return MoveProgress(MovePhase.DONE, rows, rows, tables=tables, note="everything is there")


def _keep_others_out(source: sa.Connection) -> None:
    """Block all writers of all processes, including those without the lock of writers."""
    if source.dialect.name == "postgresql":
        names = ", ".join(f'"{table.name}"' for table in MOVED)
        execute(source, f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")


def _rows(digests: Digests) -> int:
    return sum(digest.rows for digest in digests.values())
