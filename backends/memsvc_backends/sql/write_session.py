"""Base of a transaction: its connection, savepoints and numbers, and new memories that wait to be written.

A small statement costs tens of microseconds and, with busy threads, a turn of the interpreter lock. Of writers that
are committed together each would make a dozen of them; so their new memories wait, and go into the tables in the
statements that one would need. Before anything else is asked or written, those that wait are written.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from memsvc.domain.api_keys import QuotaSubject, Usage
from memsvc.domain.clock import to_micros
from memsvc.domain.conflicts import Fact
from memsvc.domain.errors import QuotaExceededError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import UNNAMED, Memory, Status
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.ports.metadata import ContentName, Record, RequestRecord, UniquenessRaceError
from memsvc_backends.sql.database import ClockDifference, translate
from memsvc_backends.sql.dialect import cached_statement, execute, json_text, upsert, upsert_sum, utf8_length
from memsvc_backends.sql.history import EARLIEST, latest_checkpoint
from memsvc_backends.sql.memory_codec import with_rows
from memsvc_backends.sql.outbox import ChangeRows, append_outbox, note_revisions
from memsvc_backends.sql.row_writer import insert_many, insert_records
from memsvc_backends.sql.tables import counters, memories, quotas, requests, stored_amounts

T = TypeVar("T")
MOST = 128
"""So many wait at the most: more at once are no cheaper."""
_TICK = timedelta(microseconds=1)
_NAMES = ("owner", "method", "request_id")


@dataclass(slots=True)
class _Savepoint:
    """A savepoint, set at its first write, and the state before it."""

    name: str
    inserted: int
    answers: int
    position: int
    changes: int
    numbers: NumberState
    amounts: Amounts
    is_made: bool = False


class WriteSession:
    """The base of `SqlTransaction` and its parts."""

    def __init__(
        self,
        connection: sa.Connection,
        clocks: ClockDifference,
        numbering: NumberAllocator | None = None,
        allowed: AbstractSet[str] | None = None,
        ledger: UsageLedger | None = None,
    ) -> None:
        """Work on a connection that is in a transaction; None but *allowed* owners may be written to."""
        self._ledger = UsageLedger(connection) if ledger is None else ledger
        self._direct = connection
        self._allowed = allowed
        self._clocks = clocks
        self._now = clocks.now()
        self._time = to_micros(self._now)
        self._position = self._changes = 0
        self._is_void = False
        self._changed: set[int] = set()
        self._counted: dict[int, int] = {}
        self._owners: set[str] = set()
        self._ends: dict[str, int] = {}
        self._inserted: list[Record] = []
        self._written = 0
        self._answers: list[tuple[Request, RequestRecord]] = []
        self._answered = 0
        self._ahead = 0
        self._waiting = PendingWrites()
        self._checkpoint_times: dict[tuple[str, str], datetime] = {}
        self._dated: dict[int, Memory] = {}
        self._facts: dict[tuple[Any, ...], Fact] = {}
        self._parts: list[_Savepoint] = []
        self._numbering = NumberAllocator(connection) if numbering is None else numbering

    @property
    def changed_rows(self) -> AbstractSet[int]:
        """Return the rows of memories that were there before and may be otherwise now."""
        return self._changed

    @property
    def access_counts(self) -> Mapping[int, int]:
        """Return the access counts of memories of which nothing else was changed here, by row."""
        return self._counted

    @property
    def owners(self) -> AbstractSet[str]:
        """Return whose memories were changed here."""
        return self._owners

    @property
    def inserted_records(self) -> Sequence[Record]:
        """Return the memories that were not there before, as they were inserted here."""
        return self._inserted

    @property
    def position(self) -> int:
        """Return the position of the last change made here."""
        return self._position

    @property
    def changes(self) -> int:
        """Return among how many positions, up to the last one, the changes made here are."""
        return self._changes

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Open a part that can fail alone, with an error of ours."""
        with translate(), self._savepoint():
            yield

    def finish(self) -> None:
        """Write what waits still; nothing comes after.

        Raises:
            UniquenessRaceError: Something was lost in a race: the transaction must not be committed.
        """
        self.refuse_when_void()
        with translate():
            self._write_waiting()
            self._ledger.write()
            self._numbering.note()

    def refuse_when_void(self) -> None:
        """Raise when a race was lost and passed over: a part of what was written is missing."""
        if self._is_void:
            message = "Another writer took a key or content; repeat the transaction."
            raise UniquenessRaceError(message)

    @property
    def _connection(self) -> sa.Connection:
        """The connection, after the pending rows have been written."""
        return self._connection_for_statement()

    def _connection_for_statement(self) -> sa.Connection:
        """Return the connection for one statement: what waits later is written before the next."""
        self._write_waiting()
        return self._direct

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        # What waited may have been refused in the part before, which is not to blame; PostgreSQL refuses all else then.
        self.refuse_when_void()
        name = f"savepoint_{len(self._parts)}"
        marks = (len(self._inserted), len(self._answers), self._position, self._changes)
        part = _Savepoint(name, *marks, self._numbering.state, self._ledger.state)
        self._parts.append(part)
        try:
            yield
            self.refuse_when_void()
        except BaseException:
            self._roll_back(part)
            raise
        finally:
            self._parts.pop()
            if part.is_made:
                execute(self._direct, f"RELEASE {part.name}")

    def _roll_back(self, part: _Savepoint) -> None:
        if part.is_made:
            execute(self._direct, f"ROLLBACK TO {part.name}")
            self._is_void = False
        del self._inserted[part.inserted :], self._answers[part.answers :]
        self._written, self._answered = min(self._written, part.inserted), min(self._answered, part.answers)
        self._position, self._changes, self._numbering.state = part.position, part.changes, part.numbers
        self._ledger.state = part.amounts
        self._ends.clear()
        self._checkpoint_times.clear()
        self._changed.update(self._counted)
        self._counted.clear()
        self._waiting.clear()
        self._waiting.add(self._inserted[self._written :])
        for request, answer in self._answers[self._answered :]:
            self._waiting.answer(request, answer)

    @contextmanager
    def _void_on_race(self) -> Iterator[None]:
        try:
            with translate():
                yield
        except UniquenessRaceError:
            self._is_void = True
            raise

    def _allot_row(self) -> int:
        return self._allot(rows=1, positions=0).row

    def _allot(self, *, rows: int, positions: int) -> NextNumbers:
        """Take the next numbers of rows and positions; return the last of each."""
        self._write_waiting()
        return self._take(rows, positions)

    def _take(self, rows: int, positions: int) -> NextNumbers:
        before = self._numbering.last
        last = self._numbering.take(rows=rows, positions=positions)
        # With the positions of others in between, if the numbers come from another block.
        self._changes += positions if before is None else last.position - before.position
        return last

    def _revision_time(self, scope: Scope, moment: datetime, previous: datetime = EARLIEST) -> datetime:
        """Return the time of a revision that is written at *moment*, after the one of the time *previous*.

        It differs from *moment* if the clock was set back: a revision is no earlier than the one before, and later than
        the checkpoints of its project, which would hold it otherwise.
        """
        project = (scope.owner, scope.project_id)
        if self._clocks.latest_checkpoint is None:
            self._clocks.latest_checkpoint = latest_checkpoint(self._direct)
        if moment <= self._clocks.latest_checkpoint:
            if project not in self._checkpoint_times:
                self._checkpoint_times[project] = latest_checkpoint(self._direct, project)
            if moment <= self._checkpoint_times[project]:
                moment = self._checkpoint_times[project] + _TICK
        return max(moment, previous)

    def _date_new(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return new memories with the times of their first revisions."""
        times = [self._revision_time(one.memory.scope, one.memory.update_time) for one in records]
        return [
            one if one.memory.update_time == time else with_memory(one, replace(one.memory, update_time=time))
            for one, time in zip(records, times, strict=True)
        ]

    def _date_next(self, before: Memory, after: Memory) -> tuple[Memory, Memory]:
        """Return a revision and the next one with their times, that of *before* as it is stored."""
        stored = self._dated.pop(before.row, None)
        if stored is not None and stored.revision == before.revision:
            before = replace(before, update_time=stored.update_time)
        time = self._revision_time(before.scope, after.update_time, before.update_time)
        if time != after.update_time:
            after = replace(after, update_time=time)
            self._dated[before.row] = after
        return before, after

    def _note_owners(self, owners: Iterable[str]) -> None:
        """Note whose memories are changed.

        Raises:
            RuntimeError: The transaction was not opened for one of them: another process may be writing to it.
        """
        self._owners.update(self._require_allowed(owners))

    def _require_allowed(self, owners: Iterable[str]) -> Iterable[str]:
        owners = set(owners)
        if self._allowed is not None and not owners <= self._allowed:
            message = "A transaction of other owners wrote to this one."
            raise RuntimeError(message)
        return owners

    def _insert(self, records: Sequence[Record]) -> list[Memory]:
        """Have new memories wait when they may, or write them; return them with their rows."""
        records = self._date_new(records)
        waits = self._waiting.may_wait(records)
        is_full = len(self._inserted) - self._written + len(records) > MOST
        if not waits or is_full or not self._numbering.has(rows=len(records), positions=len(records)):
            # What waits is written as one run of numbers.
            self._write_waiting()
        last = self._take(len(records), len(records))
        written = assign_rows([record.memory for record in records], last.row - len(records) + 1)
        records = [with_memory(*pair) for pair in zip(records, written, strict=True)]
        self._note_inserted(records, last)
        self._waiting.add(records)
        self._ahead = last.position - last.row
        if not waits:
            self._write_waiting()
        return written

    def _note_inserted(self, records: Sequence[Record], last: NextNumbers) -> None:
        self._inserted += records
        self._note_owners({record.memory.scope.owner for record in records})
        self._position = last.position
        for record in records:
            self._ledger.add(record.memory.scope.owner, amount_of(record.memory))
        self._ledger.require()

    def _note_written(self, records: Sequence[Record], last: NextNumbers) -> None:
        """Take note of new memories that are in the tables already, with the numbers that they were allotted."""
        self._note_inserted(records, last)
        self._written = len(self._inserted)

    def _answer(self, request: Request, answer: RequestRecord) -> None:
        """Have the answer of a request wait when it may, or write it."""
        if self._waiting.may_answer(request):
            self._answers.append((request, answer))
            self._waiting.answer(request, answer)
        else:
            remember_answer(self._connection, request, answer, self._time)

    def _write_waiting(self) -> None:
        """Write pending rows; those before a savepoint are written before it is set."""
        for part in self._parts:
            if not part.is_made:
                self._write_until(part.inserted, part.answers)
                execute(self._direct, f"SAVEPOINT {part.name}")
                part.is_made = True
        self._write_until(len(self._inserted), len(self._answers))
        self._waiting.clear()

    def _write_until(self, inserted: int, answers: int) -> None:
        records, answered = self._inserted[self._written : inserted], self._answers[self._answered : answers]
        self._written, self._answered = inserted, answers
        try:
            with translate():
                if records:
                    self._write(records)
                insert_answers(self._direct, answered, self._time)
        except BaseException:
            self._is_void = True
            raise

    def _write(self, records: Sequence[Record]) -> None:
        first, last = records[0].memory.row, records[-1].memory.row
        insert_records(self._direct, records)
        note_revisions(self._direct, first, last, ChangeAction.CREATED)
        append_outbox(self._direct, ChangeRows(first, last, ChangeAction.CREATED, self._time, last + self._ahead))


# New memories that wait within a transaction, so that those of several writers go into the tables together.


Key = tuple[str, str, str]
"""Owner, project and key, or owner, project and session."""
Content = tuple[str, ContentName]


class PendingWrites:
    """Records and answers that are not written yet, and names known to be free.

    Pending rows claim only names that are known to be free; these stay free, because writes are serialised.
    """

    def __init__(self) -> None:
        # None: looked for in vain.
        self._contents: dict[Content, Memory | None] = {}
        self._keys: dict[Key, Memory | None] = {}
        self._answers: dict[Request, RequestRecord | None] = {}
        self._latest: dict[Key, int] = {}

    def may_wait(self, records: Sequence[Record]) -> bool:
        """Return whether *records* are few, and all names that they claim are free and claimed once."""
        if len(records) > MOST:
            return False
        contents = [name for record in records if (name := _content(record)) is not None]
        keys = [key for record in records if (key := _key(record.memory)) is not None]
        return _are_free(contents, self._contents) and _are_free(keys, self._keys)

    def may_answer(self, request: Request) -> bool:
        """Return whether a request is known to have no answer yet."""
        return _are_free([request], self._answers)

    def add(self, records: Iterable[Record]) -> None:
        """Have *records* wait, which may."""
        for record in records:
            memory = record.memory
            scope = memory.scope
            if (content := _content(record)) is not None:
                self._contents[content] = memory
            if (key := _key(memory)) is not None:
                self._keys[key] = memory
            if scope.session_id and memory.status is not Status.DELETED:
                self._latest[scope.owner, scope.project_id, scope.session_id] = memory.row

    def answer(self, request: Request, answer: RequestRecord | None) -> None:
        """Have the answer of a request wait; None: take note that there is none."""
        self._answers[request] = answer

    def clear(self) -> None:
        """Drop all pending writes and what is known of free contents and keys."""
        for names in (self._contents, self._keys, self._answers, self._latest):
            names.clear()

    def contents(self, owner: str, names: Iterable[ContentName]) -> dict[ContentName, Memory]:
        """Return those who wait and hold one of the contents."""
        found = ((name, self._contents.get((owner, name))) for name in names)
        return {name: memory for name, memory in found if memory is not None}

    def keys(self, owner: str, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Memory]:
        """Return those who wait and hold one of the (project, key) pairs."""
        found = ((name, self._keys.get((owner, *name))) for name in names)
        return {name: memory for name, memory in found if memory is not None}

    def latest(self, session: Key) -> int | None:
        """Return the newest row of a session, by owner, project and id, that waits."""
        return self._latest.get(session)

    def answer_of(self, request: Request) -> RequestRecord | None:
        """Return the answer of a request that waits."""
        return self._answers.get(request)

    def note_free_contents(self, owner: str, names: Iterable[ContentName]) -> None:
        """Note contents that no memory claims."""
        self._contents.update({(owner, name): None for name in names})

    def note_free_keys(self, owner: str, names: Iterable[tuple[str, str]]) -> None:
        """Note (project, key) pairs that no memory has."""
        self._keys.update({(owner, *name): None for name in names})


def _are_free(names: Sequence[T], known: Mapping[T, object]) -> bool:
    return all(name in known and known[name] is None for name in names) and len(set(names)) == len(names)


def _content(record: Record) -> Content | None:
    memory = record.memory
    if not record.is_unique or memory.status in UNNAMED:
        return None
    scope = memory.scope
    return scope.owner, ContentName(scope.project_id, memory.kind.value, memory.content_hash, memory.speaker)


def _key(memory: Memory) -> Key | None:
    if not memory.key or memory.status in UNNAMED:
        return None
    return memory.scope.owner, memory.scope.project_id, memory.key


# The numbers that a transaction gives: rows of new memories, and positions of changes.


class NextNumbers(NamedTuple):
    """The last allocated row and position."""

    row: int
    position: int


SMALL_BLOCKS, LARGEST_BLOCK = 4, 1024
"""So many blocks of a transaction have the size that was asked for; the next ones double up to the largest."""
NumberState = tuple[NextNumbers | None, NextNumbers | None]
"""The numbers that were taken last, and the last ones of the block that they are from."""


class NumberAllocator:
    """Allocator of rows and positions: read at first use, and written when the transaction ends.

    Writes are serialised across processes, so no other process allocates numbers at the same time.
    """

    def __init__(self, connection: sa.Connection) -> None:
        """Number in the transaction of a connection."""
        self._connection = connection
        self._numbers: NextNumbers | None = None
        self.last: NextNumbers | None = None

    @property
    def state(self) -> NumberState:
        """Return what `take` goes on from."""
        return self.last, None

    @state.setter
    def state(self, state: NumberState) -> None:
        """Go back to an earlier state."""
        self.last = state[0]

    def has(self, *, rows: int, positions: int) -> bool:
        """Return whether the next numbers follow those before: they always do."""
        del rows, positions
        return True

    def take(self, *, rows: int, positions: int) -> NextNumbers:
        """Take the next numbers; return the last of each."""
        if self._numbers is None:
            [row] = execute(self._connection, _select_numbers(), {})
            self._numbers = NextNumbers(*row)
        last = self.last or self._numbers
        self.last = NextNumbers(last.row + rows, last.position + positions)
        return self.last

    def note(self) -> None:
        """Have the store know what was given."""
        if self.last is not None and self.last != self._numbers:
            execute(self._connection, _note_numbers(), {"row": self.last.row, "position": self.last.position})
            self._numbers = self.last


class BlockAllocator(NumberAllocator):
    """Allocator from blocks of numbers that are taken ahead of the commit, so that others can take the next ones.

    The numbers of a block follow one another; those of the next block are larger. Numbers that are not used stay so. A
    transaction of many changes takes ever larger blocks, since each costs two calls.
    """

    def __init__(self, connection: sa.Connection, block: Callable[[int, int], tuple[int, int]], size: int) -> None:
        """Take blocks of *size* numbers or more from *block*, which returns the last row and position of the block."""
        super().__init__(connection)
        self._block = block
        self._size = size
        self._taken = 0
        self._end: NextNumbers | None = None

    @property
    def state(self) -> NumberState:
        """Return what `take` goes on from."""
        return self.last, self._end

    @state.setter
    def state(self, state: NumberState) -> None:
        """Go back to an earlier state; a block that was taken since is not used."""
        self.last, self._end = state

    def has(self, *, rows: int, positions: int) -> bool:
        """Return whether the block has so many numbers left."""
        last, end = self.last, self._end
        if last is None or end is None:
            return False
        return last.row + rows <= end.row and last.position + positions <= end.position

    def take(self, *, rows: int, positions: int) -> NextNumbers:
        """Take the next numbers, if need be from another block; return the last of each."""
        last = self.last
        if last is None or not self.has(rows=rows, positions=positions):
            size = min(self._size << max(0, self._taken - SMALL_BLOCKS), LARGEST_BLOCK)
            counts = max(rows, size), max(positions, size)
            self._taken += 1
            self._end = NextNumbers(*self._block(*counts))
            last = NextNumbers(self._end.row - counts[0], self._end.position - counts[1])
        self.last = NextNumbers(last.row + rows, last.position + positions)
        return self.last

    def note(self) -> None:
        """Return: blocks are noted when they are taken."""


def assign_rows(new: Sequence[Memory], first: int) -> list[Memory]:
    """Assign rows from *first* on, and link consecutive messages of a session."""
    latest: dict[tuple[str, str, str], int] = {}
    found: list[Memory] = []
    for row, memory in enumerate(new, start=first):
        scope = memory.scope
        if not scope.session_id:
            found.append(with_rows(memory, row, memory.previous_row))
            continue
        session = (scope.owner, scope.project_id, scope.session_id)
        found.append(with_rows(memory, row, latest.get(session, memory.previous_row)))
        latest[session] = row
    return found


def with_memory(record: Record, memory: Memory) -> Record:
    """Return *record* of *memory*."""
    vector = (record.given_vector, record.given_model)
    return Record(memory, record.chunks, record.is_unique, *vector, record.statements)


@cached_statement
def _select_numbers() -> sa.Select[Any]:
    return sa.select(counters.c.last_row, counters.c.last_position)


@cached_statement
def _note_numbers() -> sa.Update:
    return sa.update(counters).values(last_row=sa.bindparam("row"), last_position=sa.bindparam("position"))


# The amounts that tenants and keys have stored, and their quotas.


Holder = tuple[QuotaSubject, str]
Amounts = Mapping[tuple[QuotaSubject, str, int], Usage]
"""Changes by subject, id and shard."""
SHARDS = 16
"""The rows of a tenant in a database with several writers."""
QUOTA_SECONDS = 2.0
"""The time for which what was read of quotas counts: another process may have changed them since."""
MAX_CACHED_QUOTAS = 10_000
_LIMITED = (("memories", "memories"), ("content_bytes", "bytes of content"), ("file_bytes", "bytes of files"))


class QuotaCache:
    """Quotas that were read a short time ago. Used by one transaction at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing known; *clock* gives seconds."""
        self._clock = clock
        self._any: tuple[bool, float] = (False, -math.inf)
        self._known: dict[Holder, tuple[Usage, float]] = {}

    def limits(self, connection: sa.Connection, holder: Holder) -> Usage:
        """Return the amounts that a holder may store; 0: no limit."""
        now = self._clock()
        if now - self._any[1] >= QUOTA_SECONDS:
            self._any = (bool(execute(connection, _any_quota(), {})), now)
        if not self._any[0]:
            return Usage()
        known, moment = self._known.get(holder, (Usage(), -math.inf))
        if now - moment < QUOTA_SECONDS:
            return known
        rows = execute(connection, _select_limits(), dict(zip(("subject", "id"), holder, strict=True)))
        if len(self._known) >= MAX_CACHED_QUOTAS:
            self._known.clear()
        limits = Usage(*rows[0]) if rows else Usage()
        self._known[holder] = (limits, now)
        return limits

    def forget(self) -> None:
        """Forget everything: a quota was changed."""
        self._any = (False, -math.inf)
        self._known.clear()


class UsageLedger:
    """Changes of stored amounts in one transaction; they are written at its end.

    Quotas hold for what a call adds, with what is committed and what the transaction has added before. Transactions of
    other processes that are under way are not seen, so that a quota may be exceeded by what they add.
    """

    def __init__(self, connection: sa.Connection, cache: QuotaCache | None = None, shards: int = 1) -> None:
        """Write to so many rows of each tenant on *connection*."""
        self._connection = connection
        self._cache = cache or QuotaCache()
        self._shards = shards
        self._changes: dict[tuple[QuotaSubject, str, int], Usage] = {}
        self._grown: dict[Holder, Usage] = {}
        self._committed: dict[Holder, Usage] = {}
        self.payer: str | None = None
        self.has_removals = False
        """Whether memories or bytes of files were removed for good; True may be about a part that was taken back."""

    @property
    def state(self) -> Amounts:
        """Return the changes so far."""
        return dict(self._changes)

    @state.setter
    def state(self, state: Amounts) -> None:
        """Go back to an earlier state."""
        self._changes = dict(state)
        self._grown.clear()

    def add(self, owner: str, amount: Usage, *, is_paid: bool = True) -> None:
        """Add to what the tenant of *owner*, and if *is_paid* the key that pays, have stored; `require` checks it."""
        self.has_removals = self.has_removals or amount.memories < 0 or amount.file_bytes < 0
        tenant = owner.partition(OWNER_SEPARATOR)[0]
        shard = zlib.crc32(owner.encode(errors="surrogatepass")) % self._shards if self._shards > 1 else 0
        self._add(QuotaSubject.TENANT, tenant, shard, amount)
        if self.payer and is_paid:
            self._add(QuotaSubject.KEY, self.payer, 0, amount)

    def forget_quotas(self) -> None:
        """Read quotas again: one was changed."""
        self._cache.forget()

    def require(self) -> None:
        """Return if what was added since the last check is within the quotas, or if no call pays for it.

        Raises:
            QuotaExceededError: It is not.
        """
        grown = dict(self._grown)
        self._grown.clear()
        if self.payer is None:
            return
        for holder, added in grown.items():
            limits = self._cache.limits(self._connection, holder)
            if limits != Usage():
                self._require(holder, limits, added)

    def write(self) -> None:
        """Write the changes. In order, so that transactions of other processes wait for each other in one direction."""
        for (subject, name, shard), amount in sorted(self._changes.items()):
            if amount != Usage():
                execute(self._connection, _add_amounts(), _amount_values(subject, name, shard, amount))
        self._changes.clear()

    def _add(self, subject: QuotaSubject, name: str, shard: int, amount: Usage) -> None:
        place = subject, name, shard
        before = self._changes.get(place)
        self._changes[place] = amount if before is None else before + amount
        grown = self._grown.get(place[:2])
        self._grown[place[:2]] = amount if grown is None else grown + amount

    def _require(self, holder: Holder, limits: Usage, added: Usage) -> None:
        used = self._used(holder)
        for name, noun in _LIMITED:
            limit, total, more = (getattr(one, name) for one in (limits, used, added))
            if limit and more > 0 and total > limit:
                kind, of = ("tenant", holder[1]) if holder[0] is QuotaSubject.TENANT else ("API key", holder[1])
                raise QuotaExceededError(kind, of, amount=noun, limit=limit, used=max(0, total - more), added=more)

    def _used(self, holder: Holder) -> Usage:
        committed = self._committed.get(holder)
        if committed is None:
            committed = self._committed[holder] = read_amounts(self._connection, holder)
        changed = (amount for place, amount in self._changes.items() if place[:2] == holder)
        return sum(changed, committed)


def amount_of(memory: Memory) -> Usage:
    """Return what a memory adds to the stored amounts."""
    extra = len(json_text(dict(memory.metadata)).encode()) - 2 if memory.metadata else 0
    return Usage(1, len(memory.content.encode()) + extra)


def memory_amounts() -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    """Return what selected memories add to the stored amounts: their number and their bytes."""
    size = memories.c.content_bytes + utf8_length(memories.c.metadata) - sa.literal_column("2")
    return sa.func.count(), sa.func.coalesce(sa.func.sum(size), sa.literal_column("0"))


def read_amounts(connection: sa.Connection, holder: Holder) -> Usage:
    """Return the stored amounts of a tenant or a key."""
    rows = execute(connection, _select_amounts(), dict(zip(("subject", "id"), holder, strict=True)))
    return Usage(*map(int, rows[0]))


def add_amounts(connection: sa.Connection, holder: Holder, amount: Usage) -> None:
    """Add to the stored amounts of a tenant or a key."""
    execute(connection, _add_amounts(), _amount_values(*holder, 0, amount))


def _amount_values(subject: QuotaSubject, name: str, shard: int, amount: Usage) -> dict[str, Any]:
    amounts = {"memories": amount.memories, "content_bytes": amount.content_bytes, "file_bytes": amount.file_bytes}
    return {"subject": subject.value, "id": name, "shard": shard, **amounts}


@cached_statement
def _any_quota() -> sa.Select[Any]:
    return sa.select(sa.literal_column("1")).select_from(quotas).limit(sa.literal_column("1"))


@cached_statement
def _select_limits() -> sa.Select[Any]:
    place = [quotas.c[name] == sa.bindparam(name) for name in ("subject", "id")]
    return sa.select(*(quotas.c[name] for name, _ in _LIMITED)).where(*place)


@cached_statement
def _select_amounts() -> sa.Select[Any]:
    place = [stored_amounts.c[name] == sa.bindparam(name) for name in ("subject", "id")]
    sums = (sa.func.coalesce(sa.func.sum(stored_amounts.c[name]), sa.literal_column("0")) for name, _ in _LIMITED)
    return sa.select(*sums).where(*place)


@cached_statement
def _add_amounts() -> sa.Insert:
    names = [column.name for column in stored_amounts.columns]
    insert = upsert_sum(stored_amounts, [name for name, _ in _LIMITED])
    return insert.values({name: sa.bindparam(name) for name in names})


# The answers of requests, by their idempotency keys.


Request = tuple[str, str, str]
"""Owner, method and request id."""


def recall_answer(connection: sa.Connection, request: Request) -> RequestRecord | None:
    """Return the answer of a request, or None."""
    found = execute(connection, _select_one(), dict(zip(_NAMES, request, strict=True)))
    return RequestRecord(*found[0]) if found else None


def remember_answer(connection: sa.Connection, request: Request, record: RequestRecord, time: int) -> None:
    """Store the answer of a request, or replace it."""
    [values] = _values([(request, record)], time)
    execute(connection, upsert(requests, ("time", "digest", "answer")), values)


def insert_answers(connection: sa.Connection, answered: Sequence[tuple[Request, RequestRecord]], time: int) -> None:
    """Store answers of requests that have none yet."""
    insert_many(connection, requests, _values(answered, time))


def forget_answers(connection: sa.Connection, before: datetime) -> int:
    """Forget the requests remembered before that moment; return how many."""
    return execute(connection, sa.delete(requests).where(requests.c.time < to_micros(before))).rowcount


def _values(answered: Iterable[tuple[Request, RequestRecord]], time: int) -> list[dict[str, Any]]:
    return [
        dict(zip(_NAMES, request, strict=True)) | {"time": time, "digest": one.digest, "answer": one.answer}
        for request, one in answered
    ]


@cached_statement
def _select_one() -> sa.Select[Any]:
    place = [requests.c[name] == sa.bindparam(name) for name in _NAMES]
    return sa.select(requests.c.digest, requests.c.answer).where(*place)
