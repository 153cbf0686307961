"""Documents and changes for the indexer."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import (
    MAX_ORDINAL,
    ORDINAL_BITS,
    VIEW_BITS,
    Change,
    ChangeAction,
    Chunk,
    Document,
    DocumentHistory,
    ExpectedEntries,
    View,
    entry_id,
    row_of,
)
from memsvc.domain.memory import Memory, Status
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.metadata import Record
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import (
    MAX_INTEGER,
    MAX_PARAMETERS,
    NUMBER,
    cached_statement,
    execute,
    hexadecimal,
    in_json_list,
    insert_new,
    json_list,
    json_value,
    list_parameter,
    rows_as_json,
    rows_of_text,
)
from memsvc_backends.sql.memory_codec import (
    DOUBTFUL_COLUMNS,
    IS_DOUBTFUL,
    MEMORY_COLUMNS,
    Found,
    chunk_from_row,
    found_in,
    memories_as_json,
    memory_from_row,
    memory_from_snapshot,
    sole_chunk,
)
from memsvc_backends.sql.outbox import (
    CHANGE_COLUMNS,
    CLAIMED,
    Check,
    applied_after,
    block_claims,
    claim_changes,
    pending_among,
    reopen_changes,
)
from memsvc_backends.sql.row_writer import delete_tokens, insert_rows
from memsvc_backends.sql.tables import (
    IS_INDEXED,
    IS_PENDING,
    ONE,
    ZERO,
    counters,
    embeddings,
    memories,
    memory_chunks,
    memory_vectors,
    outbox,
    passage_tokens,
    revisions,
)

_Given: TypeAlias = dict[int, tuple[str, bytes]]
"""Given vectors with their models, by row."""
_NOT_GIVEN = ("", b"")
_ACTIONS = {action.value: action for action in ChangeAction}
MOST = 512
"""So many marks are written at once: the most that a crash can have applied again."""
CAPACITY = 8_192
"""An indexer that lags behind by more than this many memories reads those beyond from the database."""

REMOVED_AT_A_TIME = 500
"""Embeddings that one transaction removes: other writers wait for it."""
TRIMMED_AT_A_TIME = 10_000
"""Changes that one transaction removes."""
log = logging.getLogger(__name__)


class SqlIndexFeed:
    """`memsvc.ports.metadata.IndexFeed`."""

    def __init__(self, database: Database, fresh: NewRecordBuffer) -> None:
        """Read from *database* what is no longer *fresh*."""
        self._database = database
        self._fresh = fresh
        self._marks = AppliedMarks(database)
        self._doubts = DoubtfulChanges(database)
        self._checks = threading.local()

    def documents(self, rows: Sequence[int]) -> list[Document]:
        """Return memories for indexing."""
        fresh = self._fresh.take(rows)
        given = {row: (record.given_model, record.given_vector) for row, record in fresh.items()}
        with self._database.snapshot() as connection:
            found = _live_memories(connection, [row for row in rows if row not in fresh])
            given |= _vectors(connection, list(found))
            found |= {row: (record.memory, 1) for row, record in fresh.items()}
            return _documents(connection, found, given)

    def scan(self, *, after_row: int, limit: int) -> list[Document]:
        """Return the next memories for indexing."""
        statement = _after(sa.select(*MEMORY_COLUMNS, memories.c.chunk_count), after_row, limit)
        with self._database.snapshot() as connection:
            found = {row[1]: (memory_from_row(row[:-1]), row[-1]) for row in execute(connection, statement)}
            return _documents(connection, found, _vectors(connection, list(found)))

    def histories(self, *, after_row: int, limit: int) -> list[DocumentHistory]:
        """Return the next memories of any status."""
        parameters = {"after": after_row, "limit": limit}
        with self._database.snapshot() as connection:
            rows = execute(connection, _select_histories(), parameters).all()
            found = {row[1]: (memory_from_row(row[:-1]), row[-1]) for row in rows}
            documents = _documents(connection, found, {})
            earlier = _earlier(connection, [row for row, (memory, _) in found.items() if memory.revision > 1])
        return [DocumentHistory(one, tuple(earlier.get(one.memory.row, ()))) for one in documents]

    def expected_entries(self, *, after_row: int, limit: int) -> list[ExpectedEntries]:
        """Return the expected entries."""
        columns = (memories.c.row, memories.c.fingerprint, memories.c.chunk_count)
        with self._database.read_connection() as connection:
            found = execute(connection, _after(sa.select(*columns), after_row, limit)).all()
        return [ExpectedEntries(*row) for row in found]

    def has_purges(self, *, after: int, since: datetime) -> bool:
        """Look at the changes after a position."""
        parameters = {"after": after, "since": to_micros(since)}
        with self._database.read_connection() as connection:
            return execute(connection, _select_purge(), parameters).first() is not None

    def indexable(self) -> int:
        """Count the memories that the indexes should hold."""
        return self._number(sa.select(sa.func.count()).select_from(memories).where(IS_INDEXED))

    def pending_changes(self, *, limit: int) -> list[Change]:
        """Return the oldest changes that are not applied."""
        marked = self._marks.unwritten
        if limit <= 0:
            return []
        found = self._changes(_select_pending(), {"limit": limit + len(marked)})
        return [change for change in found if change.position not in marked][:limit]

    def long_memories(self, rows: Sequence[int], *, chunks: int) -> dict[int, str]:
        """Return the memories of more chunks; one that is fresh has a single one."""
        stored = [row for row in rows if not self._fresh.holds(row)]
        if not stored:
            return {}
        with self._database.read_connection() as connection:
            found = execute(connection, _select_long(), {"rows": list_parameter(stored), "chunks": chunks})
            return {int(row): owner for row, owner in found}

    def pending_of(self, owner: str, *, up_to: int, limit: int) -> list[int]:
        """Return the positions of pending changes of an owner."""
        marked = list_parameter(self._marks.unwritten)
        wanted = {"marked": marked, "owner": owner, "up_to": up_to, "limit": limit}
        with self._database.read_connection() as connection:
            return [int(position) for (position,) in execute(connection, _select_pending_of(), wanted)]

    def turns(self, *, newest: int, limit: int) -> list[int]:
        """Return the positions of pending changes, the owners in turn."""
        marked = list_parameter(self._marks.unwritten)
        with self._database.read_connection() as connection:
            found = execute(connection, _select_turns(), {"marked": marked, "newest": newest, "limit": limit})
            return [int(position) for (position,) in found]

    @contextmanager
    def claim(
        self, wanted: Sequence[int], *, limit: int, without: AbstractSet[int] = frozenset()
    ) -> Iterator[list[Change]]:
        """Claim changes that no other process has claimed."""
        self._doubts.reopen()
        marked = self._marks.unwritten | without
        with (
            claim_changes(self._database, wanted, max(0, limit), without=marked) as (rows, check),
            self._hold_claim(check),
        ):
            yield [_change(row) for row in rows]

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Prevent claims of all processes."""
        with block_claims(self._database) as check, self._hold_claim(check):
            yield

    def require_claim(self) -> None:
        """Return if this thread still holds its claims and pauses."""
        for check in getattr(self._checks, "held", ()):
            check()

    def confirm_claim(self, changes: Sequence[Change]) -> None:
        """Return if this thread still holds its claims, or make the changes pending again."""
        try:
            self.require_claim()
        except BackendUnavailableError:
            self._doubts.add(change.position for change in changes)
            raise

    def confirm_pause(self, position: int) -> None:
        """Return if this thread still holds its pauses, or make the changes after a position pending again."""
        try:
            self.require_claim()
        except BackendUnavailableError:
            self._doubts.add_after(position)
            raise

    @contextmanager
    def _hold_claim(self, check: Check) -> Iterator[None]:
        before: tuple[Check, ...] = getattr(self._checks, "held", ())
        self._checks.held = (*before, check)
        try:
            yield
        finally:
            self._checks.held = before

    def applied_among(self, positions: Sequence[int]) -> set[int]:
        """Return those that are applied."""
        marked = self._marks.unwritten
        return set(positions) - (pending_among(self._database, positions) - marked)

    def changes_after(self, position: int, *, limit: int, settled: bool = True) -> list[Change]:
        """Return the changes after a position."""
        # Read before the changes: then all up to it are seen.
        last = self._database.settled_position() if settled and self._database.driver.is_shared else MAX_INTEGER
        return self._changes(_select_since(), {"limit": limit, "after": position, "last": last})

    def applied_changes(self, position: int, *, limit: int) -> list[Change]:
        """Return the applied changes after a position."""
        marked = list_parameter(self._marks.unwritten)
        return self._changes(_select_applied_since(), {"limit": limit, "after": position, "marked": marked})

    def mark_applied(self, changes: Sequence[Change]) -> None:
        """Note that changes are applied."""
        if changes:
            self._marks.add(change.position for change in changes)

    def settle(self) -> None:
        """Write the marks."""
        self._marks.write()

    def head_position(self) -> int:
        """Return the newest position."""
        return self._number(_select_head(is_shared=self._database.driver.is_shared))

    def settled_position(self) -> int:
        """Return the position before those under way."""
        return self._database.settled_position()

    def kept_after(self) -> int:
        """Return the last position that was trimmed."""
        return self._number(_select_trimmed())

    def applied_position(self) -> int:
        """Return the position below the oldest change that is not applied or still under way."""
        marked = self._marks.unwritten
        # Read first: a change that is committed later must not be taken for one that is applied.
        settled = self._database.settled_position() if self._database.driver.is_shared else None
        with self._database.read_connection() as connection:
            [(position,)] = execute(connection, _select_applied(), {"marked": list_parameter(marked)})
        return int(position) if settled is None else min(int(position), settled)

    def pending_count(self) -> int:
        """Count the changes that are not applied."""
        marked = list_parameter(self._marks.unwritten)
        return self._number(
            sa.select(sa.func.count()).select_from(outbox).where(IS_PENDING, _is_unmarked()), marked=marked
        )

    def trim(self, *, before: datetime) -> int:
        """Remove the oldest changes."""
        self._marks.write()
        trimmed = 0
        # In parts: writers of all processes wait for each transaction.
        while removed := self._trim_part(before):
            trimmed += removed
        return trimmed

    def _trim_part(self, before: datetime) -> int:
        with self._database.write_transaction() as connection:
            kept = execute(connection, _select_first_kept(), {"before": to_micros(before)}).scalar_one_or_none()
            old = sa.true() if kept is None else outbox.c.position < kept
            part = sa.select(outbox.c.position).where(old).order_by(outbox.c.position).limit(TRIMMED_AT_A_TIME)
            last = execute(connection, sa.select(sa.func.max(part.subquery().c.position))).scalar_one_or_none()
            if last is None:
                return 0
            execute(connection, sa.update(counters).values(trimmed_position=last))
            return execute(connection, sa.delete(outbox).where(outbox.c.position <= last)).rowcount

    def _number(self, statement: sa.Select[Any], **parameters: str) -> int:
        with self._database.read_connection() as connection:
            return int(execute(connection, statement, parameters).scalar_one())

    def _changes(self, statement: sa.Select[Any], parameters: Mapping[str, Any]) -> list[Change]:
        if parameters["limit"] <= 0:
            return []
        with self._database.read_connection() as connection:
            [(text,)] = execute(connection, statement, parameters)
        return [_change(row) for row in sorted(rows_of_text(text))]


def _change(row: Sequence[Any]) -> Change:
    position, number, memory_id, action, revision, time = row
    return Change(position, number, memory_id, _ACTIONS[action], revision, time)


@cached_statement
def _select_long() -> sa.Select[Any]:
    is_long = memories.c.chunk_count > sa.bindparam("chunks", type_=sa.Integer)
    return sa.select(memories.c.row, memories.c.owner).where(in_json_list(memories.c.row, "rows"), is_long, IS_INDEXED)


@cached_statement
def _select_pending_of() -> sa.Select[Any]:
    is_own = outbox.c.owner == sa.bindparam("owner", type_=sa.Text)
    is_before = outbox.c.position <= sa.bindparam("up_to", type_=NUMBER)
    found = sa.select(outbox.c.position).where(IS_PENDING, is_own, is_before, _is_unmarked())
    return found.order_by(outbox.c.position).limit(sa.bindparam("limit", type_=sa.Integer))


@cached_statement
def _select_turns() -> sa.Select[Any]:
    pending = sa.select(outbox.c.position, outbox.c.owner).where(IS_PENDING, _is_unmarked())
    newest = pending.order_by(outbox.c.position.desc()).limit(sa.bindparam("newest", type_=sa.Integer)).subquery()
    turn = sa.func.row_number().over(partition_by=newest.c.owner, order_by=newest.c.position)
    turns = sa.select(newest.c.position, turn.label("turn")).subquery()
    chosen = sa.select(turns.c.position).order_by(turns.c.turn, turns.c.position)
    return chosen.limit(sa.bindparam("limit", type_=sa.Integer))


@cached_statement
def _select_pending() -> sa.Select[Any]:
    return _changes_as_json(IS_PENDING)


@cached_statement
def _select_since() -> sa.Select[Any]:
    return _changes_as_json(
        sa.and_(outbox.c.position > sa.bindparam("after"), outbox.c.position <= sa.bindparam("last"))
    )


@cached_statement
def _select_applied_since() -> sa.Select[Any]:
    is_applied = sa.or_(outbox.c.applied != ZERO, in_json_list(outbox.c.position, "marked"))
    return _changes_as_json(sa.and_(outbox.c.position > sa.bindparam("after"), is_applied))


def _changes_as_json(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    chosen = sa.select(*CHANGE_COLUMNS).where(condition).order_by(outbox.c.position).limit(sa.bindparam("limit"))
    return sa.select(rows_as_json(*chosen.subquery("chosen").c))


def _is_unmarked() -> sa.ColumnElement[bool]:
    return sa.not_(in_json_list(outbox.c.position, "marked"))


@cached_statement
def _select_head(*, is_shared: bool) -> sa.Select[Any]:
    newest = sa.select(sa.func.max(outbox.c.position)).scalar_subquery()
    # Positions that are taken ahead may never be used.
    return sa.select(sa.func.coalesce(newest, counters.c.trimmed_position) if is_shared else counters.c.last_position)


@cached_statement
def _select_trimmed() -> sa.Select[Any]:
    return sa.select(counters.c.trimmed_position)


@cached_statement
def _select_applied() -> sa.Select[Any]:
    oldest = sa.select(sa.func.min(outbox.c.position)).where(IS_PENDING, _is_unmarked()).scalar_subquery()
    return sa.select(sa.func.coalesce(oldest - 1, counters.c.last_position))


@cached_statement
def _select_first_kept() -> sa.Select[Any]:
    # In the order of positions, so that no more is read than will be removed.
    is_kept = sa.or_(outbox.c.applied == ZERO, outbox.c.time >= sa.bindparam("before"))
    return sa.select(outbox.c.position).where(is_kept).order_by(outbox.c.position).limit(1)


def _after(statement: sa.Select[Any], after_row: int, limit: int) -> sa.Select[Any]:
    return statement.where(memories.c.row > after_row, IS_INDEXED).order_by(memories.c.row).limit(max(0, limit))


@cached_statement
def _select_histories() -> sa.Select[Any]:
    columns = (*MEMORY_COLUMNS, memories.c.chunk_count)
    next_rows = sa.select(*columns).where(memories.c.row > sa.bindparam("after", type_=NUMBER))
    return next_rows.order_by(memories.c.row).limit(sa.bindparam("limit", type_=sa.Integer))


def _earlier(connection: sa.Connection, rows: Sequence[int]) -> dict[int, list[Memory]]:
    found: dict[int, list[Memory]] = defaultdict(list)
    if rows:
        for row, text in execute(connection, _select_earlier(), {"rows": list_parameter(rows)}):
            found[row].append(memory_from_snapshot(text))
    return found


@cached_statement
def _select_earlier() -> sa.Select[Any]:
    columns = (revisions.c.row, revisions.c.snapshot)
    return sa.select(*columns).where(in_json_list(revisions.c.row, "rows"), revisions.c.snapshot.is_not(None))


@cached_statement
def _select_purge() -> sa.Select[Any]:
    later = outbox.c.position > sa.bindparam("after", type_=NUMBER)
    recent = outbox.c.time >= sa.bindparam("since", type_=NUMBER)
    is_purge = outbox.c.action == sa.literal(ChangeAction.PURGED.value)
    return sa.select(sa.literal(1)).where(later, recent, is_purge).limit(1)


def _live_memories(connection: sa.Connection, rows: Sequence[int]) -> Found:
    if not rows:
        return {}
    wanted = list_parameter(dict.fromkeys(rows))
    [(text,)] = execute(connection, _select_live(), {"rows": wanted})
    return found_in(text, lambda: execute(connection, _select_doubtful(), {"rows": wanted}).all())


@cached_statement
def _select_live() -> sa.Select[Any]:
    return sa.select(memories_as_json()).where(in_json_list(memories.c.row, "rows"), IS_INDEXED)


@cached_statement
def _select_doubtful() -> sa.Select[Any]:
    return sa.select(*DOUBTFUL_COLUMNS).where(in_json_list(memories.c.row, "rows"), IS_INDEXED, IS_DOUBTFUL)


def _documents(connection: sa.Connection, found: Found, given: _Given) -> list[Document]:
    chunks = _chunks(connection, [row for row, (_, count) in found.items() if count > 1])
    before = {memory.previous_row for memory, _ in found.values() if memory.previous_row is not None}
    previous = found | _live_memories(connection, list(before - found.keys()))
    documents = []
    for row, (memory, _) in found.items():
        model, vector = given.get(row, _NOT_GIVEN)
        earlier = None if memory.previous_row is None else previous.get(memory.previous_row)
        documents.append(
            Document(
                memory=memory,
                chunks=tuple(chunks[row]) if row in chunks else (sole_chunk(memory),),
                previous=None if earlier is None else earlier[0],
                given_vector=vector,
                given_model=model,
            )
        )
    return documents


def _chunks(connection: sa.Connection, rows: Sequence[int]) -> dict[int, list[Chunk]]:
    if not rows:
        return {}
    # The chunks of a memory lie side by side: from its first possible number to its last.
    firsts = json_list("firsts", NUMBER)
    last = firsts.c.value + MAX_ORDINAL
    joined = sa.join(firsts, memory_chunks, memory_chunks.c.entry.between(firsts.c.value, last))
    statement = sa.select(memory_chunks).select_from(joined).order_by(memory_chunks.c.entry)
    parameters = {"firsts": list_parameter(entry_id(row, View.CHUNK, 0) for row in rows)}
    chunks: dict[int, list[Chunk]] = defaultdict(list)
    for row in execute(connection, statement, parameters):
        chunks[row_of(row[0])].append(chunk_from_row(row))
    return dict(chunks)


def _vectors(connection: sa.Connection, rows: Sequence[int]) -> _Given:
    if not rows:
        return {}
    [(text,)] = execute(connection, _select_vectors(), {"rows": list_parameter(rows)})
    return {row: (model, bytes.fromhex(vector)) for row, model, vector in rows_of_text(text)}


@cached_statement
def _select_vectors() -> sa.Select[Any]:
    columns = (memory_vectors.c.row, memory_vectors.c.model, hexadecimal(memory_vectors.c.vector))
    return sa.select(rows_as_json(*columns)).where(in_json_list(memory_vectors.c.row, "rows"))


# Marks of changes that the indexes hold: known at once, written when the indexer has nothing else to do.
#
# Writing them after every step took a sixth of the time of the indexer with many writers, and one commit of theirs.
# Marked changes cannot be claimed. A crash may lose marks; re-applying a change is idempotent.


class AppliedMarks:
    """Marks of applied changes that are not written yet. Thread-safe."""

    def __init__(self, database: Database) -> None:
        """Write to *database*."""
        self._database = database
        self._unwritten: frozenset[int] = frozenset()
        self._lock = threading.Lock()

    @property
    def unwritten(self) -> frozenset[int]:
        """Return the positions of changes that are applied, though the outbox may not say so yet.

        To be asked before the outbox is read: then nothing that was marked before is missing in both.
        """
        return self._unwritten

    def add(self, positions: Iterable[int]) -> None:
        """Mark changes as applied; durable at once where other processes are to know it."""
        new = frozenset(positions)
        with self._lock:
            self._unwritten |= new
        if self._database.driver.is_shared or len(self._unwritten) >= MOST:
            self._write_new(new)

    def _write_new(self, new: AbstractSet[int]) -> None:
        try:
            self.write()
        except BackendUnavailableError:
            if self._database.driver.is_shared:
                # Written after the end of the claim, they would hide that another process reopened the changes.
                with self._lock:
                    self._unwritten -= new
            raise

    def write(self) -> None:
        """Make all marks durable."""
        noted = self._unwritten
        if not noted:
            return
        with self._database.note_transaction() as connection:
            execute(connection, _mark_applied(), {"positions": list_parameter(sorted(noted))})
        with self._lock:
            self._unwritten -= noted


class DoubtfulChanges:
    """Changes that were written to an index while their claim was lost, until they are pending again. Thread-safe."""

    def __init__(self, database: Database) -> None:
        """Reopen them in *database*."""
        self._database = database
        self._positions: frozenset[int] = frozenset()
        self._after: int | None = None
        self._lock = threading.Lock()

    def add(self, positions: Iterable[int]) -> None:
        """Add changes at these positions, and reopen them if that is possible now."""
        with self._lock:
            self._positions |= frozenset(positions)
        self._try()

    def add_after(self, position: int) -> None:
        """Add every change after *position*, and reopen them if that is possible now."""
        with self._lock:
            self._after = position if self._after is None else min(position, self._after)
        self._try()

    def reopen(self) -> None:
        """Make the changes pending again, but for those of memories that another process has claimed.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        if not self._positions and self._after is None:
            return
        with self._lock:
            if self._after is not None:
                self._positions |= frozenset(applied_after(self._database, self._after))
                self._after = None
            positions = sorted(self._positions)
            for start in range(0, len(positions), CLAIMED):
                part = positions[start : start + CLAIMED]
                self._positions -= frozenset(part) - reopen_changes(self._database, part)
            if not self._positions:
                log.info("changes that were written without a claim are pending again")

    def _try(self) -> None:
        log.warning("a claim was lost during a write to an index; its changes are applied again")
        with suppress(BackendUnavailableError):
            self.reopen()


@cached_statement
def _mark_applied() -> sa.Update:
    return sa.update(outbox).values(applied=1).where(in_json_list(outbox.c.position, "positions"), IS_PENDING)


# What was inserted lately, for the indexer: it asks for each new memory once, soon after it was written.


class NewRecordBuffer:
    """New records by row, until they are indexed or changed. When it is full, new ones are not kept.

    The indexer takes the oldest first: pushed out by newer ones, none would be left that it asks for.

    It contains only records that are, or are about to be, in the database: a writer that changes a row calls `forget`
    before the commit, so that no reader of the change finds the earlier state.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Keep at most *capacity* records."""
        self._capacity = capacity
        self._lock = threading.Lock()
        self._records: dict[int, Record] = {}

    def keep(self, records: Iterable[Record]) -> None:
        """Keep new records of short content; they become durable next, or else are forgotten."""
        new = {
            record.memory.row: record
            for record in records
            if not record.chunks and record.memory.status is not Status.DELETED
        }
        with self._lock:
            self._records.update(islice(new.items(), max(0, self._capacity - len(self._records))))

    def forget(self, rows: Iterable[int]) -> None:
        """Drop records that are no longer what will be stored."""
        with self._lock:
            for row in rows:
                self._records.pop(row, None)

    def holds(self, row: int) -> bool:
        """Return whether the record of *row* is here."""
        return row in self._records

    def take(self, rows: Iterable[int]) -> dict[int, Record]:
        """Return those of *rows* that are here, and keep them no longer."""
        with self._lock:
            return {row: self._records.pop(row) for row in rows if row in self._records}


# The cache of embeddings.


class SqlEmbeddingCache:
    """`memsvc.ports.metadata.EmbeddingCache`."""

    def __init__(self, database: Database) -> None:
        """Keep embeddings in *database*."""
        self._database = database

    def get(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the existing ones."""
        found: dict[bytes, bytes] = {}
        for start in range(0, len(digests), MAX_PARAMETERS):
            wanted = embeddings.c.digest.in_(digests[start : start + MAX_PARAMETERS])
            statement = sa.select(embeddings.c.digest, embeddings.c.vector).where(embeddings.c.model == model, wanted)
            with self._database.read_connection() as connection:
                found.update((digest, vector) for digest, vector in execute(connection, statement))
        return found

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Store those that are new."""
        if not vectors:
            return
        values = [{"model": model, "digest": digest, "vector": vectors[digest]} for digest in sorted(vectors)]
        # In the order of the key, so that two who store the same ones do not wait for each other.
        with self._database.note_transaction() as connection:
            execute(connection, insert_new(embeddings), values)

    def count(self, model: str) -> int:
        """Count the vectors of a model."""
        statement = sa.select(sa.func.count()).select_from(embeddings).where(embeddings.c.model == model)
        with self._database.read_connection() as connection:
            return int(execute(connection, statement).scalar_one())

    def models(self) -> list[str]:
        """Return the models, each found by the next key after those of the one before."""
        found: list[str] = []
        with self._database.read_connection() as connection:
            while model := execute(connection, _select_model(), {"after": found[-1] if found else ""}).scalar():
                found.append(model)
        return found

    def digests(self, model: str, *, after: bytes, limit: int) -> list[bytes]:
        """Return the next digests."""
        with self._database.read_connection() as connection:
            found = execute(connection, _select_embedded(), {"model": model, "after": after, "limit": limit})
            return list(found.scalars())

    def remove(self, model: str, digests: Sequence[bytes]) -> int:
        """Remove those that exist."""
        removed = 0
        ordered = sorted(digests)
        for start in range(0, len(ordered), REMOVED_AT_A_TIME):
            wanted = embeddings.c.digest.in_(ordered[start : start + REMOVED_AT_A_TIME])
            statement = sa.delete(embeddings).where(embeddings.c.model == model, wanted)
            with self._database.note_transaction() as connection:
                removed += execute(connection, statement).rowcount
        if removed:
            self._database.driver.empty_log_soon()
        return removed


@cached_statement
def _select_model() -> sa.Select[Any]:
    return sa.select(sa.func.min(embeddings.c.model)).where(embeddings.c.model > sa.bindparam("after", type_=sa.Text))


@cached_statement
def _select_embedded() -> sa.Select[Any]:
    place = (
        embeddings.c.model == sa.bindparam("model"),
        embeddings.c.digest > sa.bindparam("after", type_=sa.LargeBinary),
    )
    ordered = sa.select(embeddings.c.digest).where(*place).order_by(embeddings.c.digest)
    return ordered.limit(sa.bindparam("limit", type_=sa.Integer))


# Token vectors of passages.


_TOKEN_LOCK = 1_835_363_703
_ONE_AT_A_TIME = f"SELECT pg_advisory_xact_lock({_TOKEN_LOCK}, hashtext(current_schema()))"
"""Two processes that replace the tokens of one memory would otherwise insert the same passages."""


class SqlTokenStore:
    """`memsvc.ports.change_feed.TokenStore`."""

    def __init__(self, database: Database) -> None:
        """Keep token vectors in *database*."""
        self._database = database

    def tokens(self, model: str, entries: Sequence[int]) -> dict[int, bytes]:
        """Return the tokens of passages."""
        if not entries:
            return {}
        wanted = {"model": model, "entries": list_parameter(entries)}
        with self._database.read_connection() as connection:
            return dict(execute(connection, _select_tokens(), wanted))

    def digests(self, model: str, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the digests of all passages of memories."""
        wanted = list_parameter(entry_id(row, View.CHUNK, 0) for row in rows)
        with self._database.read_connection() as connection:
            [(text,)] = execute(connection, _select_digests(), {"model": model, "firsts": wanted})
        found = (json_value(passages) for (passages,) in json_value(text))
        return {entry: bytes.fromhex(digest) for passages in found for entry, digest in passages}

    def replace(self, model: str, rows: Sequence[int], passages: Sequence[PassageTokens]) -> None:
        """Replace the passages of memories in one transaction, but for those of memories that a writer holds."""
        new = {one.entry: one for one in passages}
        for row in self._replace(model, sorted(set(rows)), new, waits=False):
            # Each in a transaction of its own: a writer may wait for one memory while it holds another.
            self._replace(model, [row], new, waits=True)

    def _replace(self, model: str, rows: list[int], new: Mapping[int, PassageTokens], *, waits: bool) -> list[int]:
        """Replace the passages of memories; return the memories that a writer holds, when this does not wait for it."""
        if not rows:
            return []
        wanted = {"rows": list_parameter(rows)}
        with self._database.note_transaction() as connection:
            if self._database.driver.is_shared:
                execute(connection, _ONE_AT_A_TIME)
            # PostgreSQL locks them against removal.
            kept = set(execute(connection, _select_kept(waits=waits), wanted).scalars())
            delete_tokens(connection, sorted(kept))
            chosen = [new[entry] for entry in sorted(new) if row_of(entry) in kept]
            values = [(one.entry, model, one.digest, one.tokens) for one in chosen]
            insert_rows(connection, passage_tokens, values)
            if waits or len(kept) == len(rows) or not self._database.driver.is_shared:
                return []
            return sorted(set(execute(connection, _select_existing(), wanted).scalars()) - kept)

    def rows_without(self, model: str, *, given_model: str, after_row: int, limit: int) -> list[int]:
        """Return the next rows without tokens."""
        at = {"model": model, "given_model": given_model, "after": after_row, "limit": max(0, limit)}
        with self._database.read_connection() as connection:
            return execute(connection, _select_rows_without(), at).scalars()

    def count(self, model: str) -> int:
        """Count the passages of a model."""
        with self._database.read_connection() as connection:
            return int(execute(connection, _count_passages(), {"model": model}).scalar_one())


_OF_MODEL = passage_tokens.c.model == sa.bindparam("model", type_=sa.Text)


@cached_statement
def _select_tokens() -> sa.Select[Any]:
    # As rows: 150 of 640 bytes among 100 000 take 0.4 ms, and 0.8 ms as one text.
    columns = (passage_tokens.c.entry, passage_tokens.c.tokens)
    return sa.select(*columns).where(in_json_list(passage_tokens.c.entry, "entries"), _OF_MODEL)


@cached_statement
def _select_digests() -> sa.Select[Any]:
    # Memory by memory: without statistics PostgreSQL would join the list with a scan of the whole table.
    firsts = json_list("firsts", NUMBER)
    is_of = passage_tokens.c.entry.between(firsts.c.value, firsts.c.value + MAX_ORDINAL)
    passages = sa.select(rows_as_json(passage_tokens.c.entry, hexadecimal(passage_tokens.c.digest)))
    of_memory = passages.where(is_of, _OF_MODEL).correlate(firsts).scalar_subquery()
    # Concatenated, since SQLite would put the inner list into the outer one, and PostgreSQL its text.
    return sa.select(rows_as_json(of_memory.concat(sa.literal_column("''")))).select_from(firsts)


@cached_statement
def _select_kept(*, waits: bool) -> sa.Select[Any]:
    return _select_existing().with_for_update(read=True, key_share=True, skip_locked=not waits)


@cached_statement
def _select_existing() -> sa.Select[Any]:
    return sa.select(memories.c.row).where(in_json_list(memories.c.row, "rows"))


@cached_statement
def _select_rows_without() -> sa.Select[Any]:
    first = memories.c.row.op("<<")(sa.literal_column(str(VIEW_BITS + ORDINAL_BITS)))
    passage = sa.exists().where(passage_tokens.c.entry.between(first, first + MAX_ORDINAL), _OF_MODEL)
    is_given = memory_vectors.c.model == sa.bindparam("given_model", type_=sa.Text)
    vector = sa.exists().where(memory_vectors.c.row == memories.c.row, is_given, memories.c.chunk_count <= ONE)
    later = memories.c.row > sa.bindparam("after", type_=NUMBER)
    found = sa.select(memories.c.row).where(later, IS_INDEXED, ~passage, ~vector)
    return found.order_by(memories.c.row).limit(sa.bindparam("limit", type_=sa.Integer))


@cached_statement
def _count_passages() -> sa.Select[Any]:
    return sa.select(sa.func.count()).select_from(passage_tokens).where(_OF_MODEL)
