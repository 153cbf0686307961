"""What SQLite does with the statements of a store: each is noted where the driver gets it, and its plan asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, ClassVar

import sqlalchemy as sa

from memsvc_backends.sql import SqlMetadataStore
from memsvc_backends.sql.sqlite import SqliteDriver

SCANS_ALLOWED = (
    "SCAN listed_",
    "SCAN chosen",
    "SCAN part_",
    "SCAN exploded",
    "SCAN counters",
    "SCAN outbox USING INDEX outbox_pending",
    "SCAN CONSTANT",
    *(f"SCAN {1 << power} CONSTANT" for power in range(12)),
    "SCAN pairs_",
    "SCAN anon_1",
)
"""Lists that we pass in, tables of one row, and an index that holds no more than what is asked for."""


class _Cursor(sqlite3.Cursor):
    """Notes what it executes."""

    noted: ClassVar[list[tuple[str, Any]]] = []

    def execute(self, statement: str, parameters: Any = ()) -> _Cursor:
        self.noted.append((statement, parameters))
        super().execute(statement, parameters)
        return self

    def executemany(self, statement: str, parameters: Any) -> _Cursor:
        self.noted.append((statement, parameters[0]))
        super().executemany(statement, parameters)
        return self


class _Connection(sqlite3.Connection):
    def cursor(self, _factory: object = None) -> Any:
        return super().cursor(_Cursor)


def _watch(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
    options["factory"] = _Connection


@contextmanager
def noted() -> Iterator[None]:
    """Note the statements of every store that is opened while the context is open."""
    sa.event.listen(sa.Engine, "do_connect", _watch)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "do_connect", _watch)


class Plans:
    """The plan of every statement that a store runs, line by line."""

    def __init__(self, store: SqlMetadataStore) -> None:
        self._database = store._database
        driver = store._database.driver
        assert isinstance(driver, SqliteDriver)
        self._path = driver.path
        self.lines: list[str] = []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Take the plans of what is run while the context is open."""
        _Cursor.noted.clear()
        yield
        with closing(sqlite3.connect(self._path)) as connection:
            for statement, parameters in _Cursor.noted:
                if statement.split()[0] in {"SELECT", "UPDATE", "DELETE", "INSERT", "WITH"}:
                    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                    self.lines += [line[3] for line in plan]

    def scans(self) -> list[str]:
        """Return the lines of plans that scan what an index should find."""
        return [line for line in self.lines if line.startswith("SCAN") and not line.startswith(SCANS_ALLOWED)]
