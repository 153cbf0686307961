"""The part of the metadata store that finds daily logs (requirement M18) which have grown old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memsvc.domain.maintenance import Area
from memsvc.domain.memory import Memory


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The last log that was looked at: key and row. Logs are in the order of both."""

    key: str = ""
    row: int = 0


class LogReads(Protocol):
    """Reading daily logs of everybody."""

    def old_logs(self, area: Area, *, before: str, after: LogPlace, limit: int) -> Sequence[Memory]:
        """Return the next *limit* ACTIVE memories of *area* whose key begins with "daily/" and is less than *before*.

        They are ordered by key, equal ones by row. What it takes depends on how many ACTIVE daily logs there are, not
        on how many other memories.
        """
        ...
