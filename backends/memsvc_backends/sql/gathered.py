"""Many memories as one text, since rows fetched one by one wait for the interpreter lock: see `rows_as_json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from memsvc.domain.memory import Memory
from memsvc_backends.sql.dialect import rows_as_json, rows_of_text
from memsvc_backends.sql.memory_codec import MEMORY_COLUMNS, memory_from_row
from memsvc_backends.sql.tables import memories

Found = dict[int, tuple[Memory, int]]
"""Memories and the number of their chunks, by row."""

# Fractions lose digits in a gathered row, whole numbers do not. From 2**-10 on every confidence is a whole number of
# 2**-62; those few that are not are asked for one by one.
_UNITS = 1 << 62
_IN_UNITS: sa.ColumnElement[float] = memories.c.confidence * sa.literal_column(f"{_UNITS}.0", sa.Double)
_WHOLE = sa.cast(_IN_UNITS, sa.BigInteger)
_IS_CERTAIN = sa.cast(_WHOLE, sa.Double) == _IN_UNITS
IS_DOUBTFUL = sa.not_(_IS_CERTAIN)
"""What the rows of `DOUBTFUL_COLUMNS` that `found_in` asks for meet."""
DOUBTFUL_COLUMNS = (memories.c.row, memories.c.confidence)
_COLUMNS = (*MEMORY_COLUMNS, memories.c.chunk_count)
_ROW_COLUMN, _CONFIDENCE = ([column.name for column in MEMORY_COLUMNS].index(name) for name in ("row", "confidence"))


def gathered_memories() -> sa.ColumnElement[str]:
    """Return one text that holds memories, for `found_in`."""
    columns = [sa.case((_IS_CERTAIN, _WHOLE)) if column.name == "confidence" else column for column in _COLUMNS]
    return rows_as_json(*columns)


def found_in(text: str, doubtful: Callable[[], Iterable[Sequence[Any]]]) -> Found:
    """Return the memories of a text of `gathered_memories`; *doubtful* reads the confidences that it does not hold.

    To be called in the snapshot that the text was read in.
    """
    rows = rows_of_text(text)
    missing = {row[_ROW_COLUMN]: row for row in rows if row[_CONFIDENCE] is None}
    for number, confidence in doubtful() if missing else ():
        missing[number][_CONFIDENCE] = confidence * _UNITS
    return _found(rows)


def whole_in(text: str) -> Found | None:
    """Return the memories of a text of `gathered_memories`, or None when it does not hold every confidence."""
    rows = rows_of_text(text)
    return None if any(row[_CONFIDENCE] is None for row in rows) else _found(rows)


def _found(rows: Iterable[list[Any]]) -> Found:
    found: Found = {}
    for row in rows:
        row[_CONFIDENCE] /= _UNITS
        chunk_count = row.pop()
        found[row[_ROW_COLUMN]] = (memory_from_row(row), chunk_count)
    return found
