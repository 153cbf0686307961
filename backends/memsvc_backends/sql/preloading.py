"""Reading ahead, after a start, what ranking needs: so the first searches are as fast as later ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from memsvc.domain.errors import MemsvcError
from memsvc_backends.sql.database import Database
from memsvc_backends.sql.ranking_columns import SELECTED, CandidateColumns
from memsvc_backends.sql.tables import memories

PAGE = 1_024
"""Memories read at a time."""
PAUSE_SECONDS = 0.02
"""Between two pages, for whatever else the process does: starting, at first."""

log = logging.getLogger(__name__)


class Preloading:
    """A thread that fills the columns with the latest memories, and ends."""

    def __init__(self, database: Database, columns: CandidateColumns) -> None:
        self._database = database
        self._columns = columns
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preloading", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait until everything is read."""
        self._thread.join()

    def stop(self) -> None:
        """End it before its end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        left, before = self._columns.capacity, None
        try:
            while left > 0 and not self._stopping.wait(PAUSE_SECONDS):
                version = self._columns.version
                rows = self._page(before, min(PAGE, left))
                if not rows:
                    break
                self._columns.keep(rows, version)
                left, before = left - len(rows), rows[-1][0]
        except MemsvcError as error:
            # Searches read what they miss by themselves.
            log.debug("what ranking needs is not read ahead: %s", error.message)

    def _page(self, before: int | None, limit: int) -> Sequence[Sequence[Any]]:
        with self._database.reading() as connection:
            if before is None:
                return connection.execute(_select_page(first=True), {"limit": limit}).all()
            return connection.execute(_select_page(first=False), {"limit": limit, "before": before}).all()


@cache
def _select_page(*, first: bool) -> sa.Select[Any]:
    """Return the statement that reads memories by descending row."""
    chosen = sa.select(*SELECTED).order_by(memories.c.row.desc())
    chosen = chosen.limit(sa.bindparam("limit", type_=sa.Integer))
    return chosen if first else chosen.where(memories.c.row < sa.bindparam("before", type_=sa.Integer))
