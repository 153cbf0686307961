"""One run of a move: copy, follow, verify, switch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import BackendUnavailableError, MoveRefusedError
from memsvc.ports.operations import MovePhase, MoveProgress
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import execute_raw
from memsvc_backends.sql.migrate import HEAD, create_indexes
from memsvc_backends.sql.store_migration import change_triggers, fence, migration_state, row_copy, table_rows
from memsvc_backends.sql.store_migration.migration_state import Move
from memsvc_backends.sql.store_migration.migration_target import Readiness, Target, judged, make_ready, store_id_of
from memsvc_backends.sql.store_migration.row_copy import Carried, Digests, carry_changes, into_of
from memsvc_backends.sql.store_migration.table_rows import MOVED, Digest

FEW = 200
"""Changes that may be left when writes are made to wait."""
ROUNDS = 8
"""How often to carry changes over before writes are made to wait all the same."""


class Run:
    """One run of a move."""

    def __init__(self, source: Database, other: Target, own_place: str, now: Callable[[], datetime]) -> None:
        self._source = source
        self._target = other.database
        self._place = other.place
        self._own_place = own_place
        self._now = now

    def steps(self, settle: Callable[[], None]) -> Iterator[MoveProgress]:
        """Do what is left to do."""
        out = self._noted()
        if out.state == migration_state.LEFT:
            yield self._ended(out)
            return
        into = self._readied(out)
        if into.state == migration_state.COPYING:
            yield from self._copy(into)
            yield MoveProgress(MovePhase.FOLLOWING, note="making indexes")
            self._carry(None, ends=True)
        yield from self._follow(None)
        digests: Digests = {}
        yield from self._verify(digests)
        settle()
        yield from self._follow(digests)
        settle()
        yield MoveProgress(MovePhase.SEALED, note="writes wait")
        seconds = self._switch(out, digests)
        yield replace(self._ended(out), sealed_seconds=seconds)

    def _noted(self) -> Move:
        """Have changes noted from now on, unless they are already."""
        with self._source.writing() as source:
            out = migration_state.found(source, migration_state.OUT)
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
            with self._target.reading() as there:
                # Before anything is changed here.
                judged(there, made.store_id, made.move_id, self._place)
            change_triggers.install(source)
            migration_state.make_table(source)
            migration_state.save(source, made)
        return made

    def _readied(self, out: Move) -> Move:
        """Make the tables of the target, unless they are there."""
        with self._target.writing() as there:
            ready = judged(there, out.store_id, out.move_id, self._place)
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
        with self._source.reading() as source:
            counts = table_rows.counts(source)
        done, total = 0, sum(counts.values())
        copied = dict(into.details["copied"])
        for table in MOVED:
            known = copied.get(table.name)
            if known is True:
                done += counts[table.name]
                continue
            after, limit = row_copy.decoded(table, known), table_rows.FIRST_PAGE
            while page := self._page(table, after, limit):
                after = table_rows.key_of(table, page[-1])
                is_last = len(page) < limit
                copied[table.name] = True if is_last else row_copy.encoded(after)
                with self._target.writing() as there:
                    table_rows.write_rows(there, table, page)
                    migration_state.save(there, into.at(migration_state.COPYING, copied=copied))
                done += len(page)
                yield MoveProgress(MovePhase.COPYING, done, max(total, done), note=table.name)
                if is_last:
                    break
                limit = table_rows.next_limit(limit, page)

    def _page(self, table: sa.Table, after: table_rows.Key | None, limit: int) -> list[table_rows.Row]:
        with self._source.reading() as source:
            return table_rows.page_after(source, table, after, limit)

    def _follow(self, digests: Digests | None) -> Iterator[MoveProgress]:
        for _ in range(ROUNDS):
            with self._source.reading() as source:
                left = change_triggers.waiting(source)
            yield MoveProgress(MovePhase.FOLLOWING, 0, left, note="changes made meanwhile")
            if not left:
                return
            carried = self._carry(digests)
            yield MoveProgress(MovePhase.FOLLOWING, left, left, note="changes made meanwhile")
            if carried.rows <= FEW:
                return

    def _carry(self, digests: Digests | None, *, ends: bool = False) -> Carried:
        """Bring the target to the source's present state; where this *ends* the copying, make the indexes."""
        with self._source.snapshot() as source, self._target.writing() as there:
            carried = carry_changes(source, there, digests)
            if ends:
                create_indexes(there)
                migration_state.save(there, into_of(there).at(migration_state.FOLLOWING, copied={}))
        self._forget(carried)
        return carried

    def _forget(self, carried: Carried) -> None:
        if not carried.spans:
            return
        with self._source.writing() as source:
            for table in MOVED:
                change_triggers.forget(source, table, carried.spans.get(table.name, ()))

    def _verify(self, digests: Digests) -> Iterator[MoveProgress]:
        """Compare every row of both sides, as of one moment, and keep the digests."""
        ours: Digests = {}
        with self._source.snapshot() as source:
            with self._target.writing() as there:
                carried = carry_changes(source, there, None)
            total = 2 * sum(table_rows.counts(source).values())
            for name, digest in row_copy.digests_of(source):
                ours[name] = digest
                yield MoveProgress(MovePhase.VERIFYING, _rows(ours), total, note=name)
        with self._target.snapshot() as there:
            for name, digest in row_copy.digests_of(there):
                digests[name] = digest
                yield MoveProgress(MovePhase.VERIFYING, _rows(ours) + _rows(digests), total, note=name)
        row_copy.compare(ours, digests)
        self._forget(carried)

    def _switch(self, out: Move, digests: Digests) -> float:
        """Carry over what is left while nobody can write, and say where the data are: the source says so first."""
        begun = time.perf_counter()
        with self._source.writing() as source:
            _keep_others_out(source)
            with self._target.writing() as there:
                carry_changes(source, there, digests)
                self._count(source, there, digests)
                told = {name: [digest.rows, f"{digest.total:x}"] for name, digest in digests.items()}
                migration_state.save(there, into_of(there).at(migration_state.VERIFIED, digests=told))
            fence.put_up(source, self._place)
            migration_state.save(source, replace(out, state=migration_state.LEFT, time=to_micros(self._now())))
        return time.perf_counter() - begun

    def _count(self, source: sa.Connection, there: sa.Connection, digests: Digests) -> None:
        ours, theirs = table_rows.counts(source), table_rows.counts(there)
        wrong = [name for name in ours if not ours[name] == theirs[name] == digests[name].rows]
        if wrong:
            raise row_copy.differ(wrong)

    def _ended(self, out: Move) -> MoveProgress:
        """Have the target know that it is the place of the data."""
        with self._target.writing() as there:
            into = migration_state.found(there, migration_state.INTO)
            if (
                into is None
                or into.move_id != out.move_id
                or into.state not in {migration_state.VERIFIED, migration_state.ARRIVED}
            ):
                message = f"The data were moved to {out.place}, and {self._place} is another store."
                raise MoveRefusedError(message)
            migration_state.save(there, replace(into, state=migration_state.ARRIVED))
        # It may have to wait for readers; and nothing is written down there any more.
        with suppress(BackendUnavailableError), self._source.writing() as source:
            change_triggers.remove(source)
        tables = tuple(
            Digest(rows, int(total, 16)).told(name) for name, (rows, total) in into.details["digests"].items()
        )
        rows = sum(table.rows for table in tables)
        return MoveProgress(MovePhase.DONE, rows, rows, tables=tables, note="everything is there")


def _keep_others_out(source: sa.Connection) -> None:
    """Have all writers wait, those of other processes and those beside the line too."""
    if source.dialect.name == "postgresql":
        names = ", ".join(f'"{table.name}"' for table in MOVED)
        execute_raw(source, f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")


def _rows(digests: Digests) -> int:
    return sum(digest.rows for digest in digests.values())
