"""What was inserted lately, for the indexer: it asks for each new memory once, soon after it was written."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import islice

from memsvc.domain.memory import Status
from memsvc.ports.metadata import Record

CAPACITY = 8_192
"""An indexer that lags behind by more than this many memories reads those beyond from the database."""


class NewRecordBuffer:
    """New records by row, each until it is taken or changed. When it is full new ones find no room.

    The indexer takes the oldest first: pushed out by newer ones, none would be left that it asks for.

    It holds nothing that the database does not, or will not within the moment: whoever changes a row calls `forget`
    before the commit, so that nobody who knows of the change finds the state before it.
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

    def take(self, rows: Iterable[int]) -> dict[int, Record]:
        """Return those of *rows* that are here, and keep them no longer."""
        with self._lock:
            return {row: self._records.pop(row) for row in rows if row in self._records}
