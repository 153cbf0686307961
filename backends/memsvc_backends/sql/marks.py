"""Marks of changes that the indexes hold: known at once, written when the indexer has nothing else to do.

Written after every step they took a sixth of the indexer's time beside many writers, and put these off by a commit
more. What is marked is lent to nobody; a crash may forget it, and it is applied again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cache

import sqlalchemy as sa

from memsvc_backends.sql.database import Database
from memsvc_backends.sql.dialect import execute_compiled, is_listed, list_parameter
from memsvc_backends.sql.tables import IS_PENDING, outbox

MOST = 512
"""So many marks are written at once: the most that a crash can have applied again."""


class Marks:
    """Safe to use from any number of threads."""

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
        with self._lock:
            self._unwritten |= frozenset(positions)
        if self._database.driver.is_shared or len(self._unwritten) >= MOST:
            self.write()

    def write(self) -> None:
        """Make all marks durable."""
        noted = self._unwritten
        if not noted:
            return
        with self._database.noting() as connection:
            execute_compiled(connection, _mark_applied(), {"positions": list_parameter(sorted(noted))})
        with self._lock:
            self._unwritten -= noted


@cache
def _mark_applied() -> sa.Update:
    return sa.update(outbox).values(applied=1).where(is_listed(outbox.c.position, "positions"), IS_PENDING)
