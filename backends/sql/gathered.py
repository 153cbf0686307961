"""Many memories as one text, since rows fetched one by one wait for the interpreter lock: see `gathered_rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from backends.sql.codec import MEMORY_COLUMNS, memory_from_row
from backends.sql.dialect import gathered_rows, rows_of_text
from backends.sql.tables import ONE, memories
from memsvc.domain.memory import Memory

Found = dict[int, tuple[Memory, int]]
"""Memories and the number of their chunks, by row."""

# Fractions lose digits in a gathered row. All but a few memories are certain; the others are asked for one by one.
_IS_CERTAIN = memories.c.confidence == ONE
IS_DOUBTFUL = memories.c.confidence != ONE
"""What the rows of `DOUBTFUL_COLUMNS` that `found_in` asks for meet."""
DOUBTFUL_COLUMNS = (memories.c.row, memories.c.confidence)
_COLUMNS = (*MEMORY_COLUMNS, memories.c.chunk_count)
_CERTAINTY: sa.ColumnElement[float] = sa.literal_column("1.0")
_ROW, _CONFIDENCE = ([column.name for column in MEMORY_COLUMNS].index(name) for name in ("row", "confidence"))


def gathered_memories() -> sa.ColumnElement[str]:
    """Return one text that holds memories, for `found_in`."""
    columns = [sa.case((_IS_CERTAIN, _CERTAINTY)) if column.name == "confidence" else column for column in _COLUMNS]
    return gathered_rows(*columns)


def found_in(text: str, doubtful: Callable[[], Iterable[Sequence[Any]]]) -> Found:
    """Return the memories of a text of `gathered_memories`; *doubtful* reads the confidences that are not 1.

    To be called in the snapshot that the text was read in.
    """
    gathered = {row[_ROW]: row for row in rows_of_text(text)}
    if any(row[_CONFIDENCE] is None for row in gathered.values()):
        for row, confidence in doubtful():
            gathered[row][_CONFIDENCE] = confidence
    return {number: (memory_from_row(row[:-1]), row[-1]) for number, row in gathered.items()}
