"""What every transaction rests on: its connection, its savepoints, its numbers, and new memories that wait.

A small statement costs tens of microseconds and, beside busy threads, a turn of the interpreter lock. Of writers that
are committed together each would make a dozen of them; so their new memories wait, and go into the tables in the
statements that one would need. Before anything else is asked or written, those that wait are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from memsvc.domain.clock import to_micros
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.ports.metadata import Record, RequestRecord, UniquenessRaceError
from memsvc_backends.sql import idempotency
from memsvc_backends.sql.dialect import execute_raw
from memsvc_backends.sql.errors import translate
from memsvc_backends.sql.idempotency import Request
from memsvc_backends.sql.numbering import Numbering, Numbers, numbered, with_memory
from memsvc_backends.sql.outbox import Noted, append_outbox, note_revisions
from memsvc_backends.sql.row_writer import insert_records
from memsvc_backends.sql.waiting import MOST, PendingWrites


@dataclass(slots=True)
class _Part:
    """A savepoint, which is made when something is written in it, and how all was before it."""

    name: str
    inserted: int
    answers: int
    position: int
    changes: int
    last: Numbers | None
    is_made: bool = False


class WriteSession:
    """The base of `SqlTransaction` and its parts."""

    def __init__(self, connection: sa.Connection, now: datetime) -> None:
        """Work on a connection that is in a transaction."""
        self._direct = connection
        self._now = now
        self._time = to_micros(now)
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
        self._parts: list[_Part] = []
        self._numbering = Numbering(connection)

    @property
    def changed(self) -> AbstractSet[int]:
        """Return the rows of memories that were there before and may be otherwise now."""
        return self._changed

    @property
    def counted(self) -> Mapping[int, int]:
        """Return the access counts of memories of which nothing else was changed here, by row."""
        return self._counted

    @property
    def owners(self) -> AbstractSet[str]:
        """Return whose memories were changed here."""
        return self._owners

    @property
    def inserted(self) -> Sequence[Record]:
        """Return the memories that were not there before, as they were inserted here."""
        return self._inserted

    @property
    def position(self) -> int:
        """Return the position of the last change made here."""
        return self._position

    @property
    def changes(self) -> int:
        """Return how many changes were made here."""
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
            self._numbering.note()

    def refuse_when_void(self) -> None:
        """Raise when a race was lost and passed over: a part of what was written is missing."""
        if self._is_void:
            message = "A key or content was taken by somebody else; repeat the transaction."
            raise UniquenessRaceError(message)

    @property
    def _connection(self) -> sa.Connection:
        """The connection for whatever is not told of those that wait: they are written first."""
        return self._connected()

    def _connected(self) -> sa.Connection:
        """Return the connection for one statement: what waits later is written before the next."""
        self._write_waiting()
        return self._direct

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        # What waited may have been refused in the part before, which is not to blame; PostgreSQL refuses all else then.
        self.refuse_when_void()
        name = f"savepoint_{len(self._parts)}"
        marks = (len(self._inserted), len(self._answers), self._position, self._changes, self._numbering.last)
        part = _Part(name, *marks)
        self._parts.append(part)
        try:
            yield
            self.refuse_when_void()
        except BaseException:
            self._take_back(part)
            raise
        finally:
            self._parts.pop()
            if part.is_made:
                execute_raw(self._direct, f"RELEASE {part.name}")

    def _take_back(self, part: _Part) -> None:
        if part.is_made:
            execute_raw(self._direct, f"ROLLBACK TO {part.name}")
            self._is_void = False
        del self._inserted[part.inserted :], self._answers[part.answers :]
        self._written, self._answered = min(self._written, part.inserted), min(self._answered, part.answers)
        self._position, self._changes, self._numbering.last = part.position, part.changes, part.last
        self._ends.clear()
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

    def _allot(self, *, rows: int, positions: int) -> Numbers:
        """Take the next numbers of rows and positions; return the last of each."""
        self._write_waiting()
        self._changes += positions
        return self._numbering.take(rows=rows, positions=positions)

    def _insert(self, records: Sequence[Record]) -> list[Memory]:
        """Have new memories wait when they may, or write them; return them with their rows."""
        waits = self._waiting.may_wait(records)
        if not waits or len(self._inserted) - self._written + len(records) > MOST:
            self._write_waiting()
        last = self._numbering.take(rows=len(records), positions=len(records))
        written = numbered([record.memory for record in records], last.row - len(records) + 1)
        records = [with_memory(*pair) for pair in zip(records, written, strict=True)]
        self._note_inserted(records, last)
        self._changes += len(records)
        self._waiting.add(records)
        self._ahead = last.position - last.row
        if not waits:
            self._write_waiting()
        return written

    def _note_inserted(self, records: Sequence[Record], last: Numbers) -> None:
        self._inserted += records
        self._owners.update({record.memory.scope.owner for record in records})
        self._position = last.position

    def _note_written(self, records: Sequence[Record], last: Numbers) -> None:
        """Take note of new memories that are in the tables already, with the numbers that they were allotted."""
        self._note_inserted(records, last)
        self._written = len(self._inserted)

    def _answer(self, request: Request, answer: RequestRecord) -> None:
        """Have the answer of a request wait when it may, or write it."""
        if self._waiting.may_answer(request):
            self._answers.append((request, answer))
            self._waiting.answer(request, answer)
        else:
            idempotency.remember(self._connection, request, answer, self._time)

    def _write_waiting(self) -> None:
        """Write what waits; what came before a savepoint goes in before that is made."""
        for part in self._parts:
            if not part.is_made:
                self._write_until(part.inserted, part.answers)
                execute_raw(self._direct, f"SAVEPOINT {part.name}")
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
                idempotency.insert(self._direct, answered, self._time)
        except BaseException:
            self._is_void = True
            raise

    def _write(self, records: Sequence[Record]) -> None:
        first, last = records[0].memory.row, records[-1].memory.row
        insert_records(self._direct, records)
        note_revisions(self._direct, first, last, ChangeAction.CREATED)
        append_outbox(self._direct, Noted(first, last, ChangeAction.CREATED, self._time, last + self._ahead))
