"""The part of the metadata store that finds what upkeep is due, of every owner. It only reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from memsvc.domain.maintenance import Area
from memsvc.domain.scope import Scope

ScanPosition: TypeAlias = tuple[int, ...]
"""Where a memory stands in one of these lists; it means something to the store alone. Empty: before the first."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A memory that upkeep may be due of, without what it says.

    Attributes:
        place: Where it stands in the list it came from.
        content_bytes: The size of its content in UTF-8.
    """

    row: int
    memory_id: str
    scope: Scope
    place: ScanPosition
    work_in_progress: bool
    content_bytes: int


class UpkeepReads(Protocol):
    """Lists of ACTIVE memories that lie in an area, none of layer or tier CORE, at most *limit* after a place.

    Each is read by an index that holds little else. Equal ones are in the order of rows.
    """

    def expired(self, area: Area, *, at: datetime, after: ScanPosition, limit: int) -> list[Waiting]:
        """Return those whose expire_time is not after *at*, the first to expire first."""
        ...

    def read_often(self, area: Area, *, least: int, at: datetime, after: ScanPosition, limit: int) -> list[Waiting]:
        """Return those of layer SHORT_TERM that were read *least* times or more, the least often read first.

        They were last changed before *at* and do not expire by then; not work in progress, and not messages.
        """
        ...

    def unread(self, area: Area, *, since: datetime, after: ScanPosition, limit: int) -> list[Waiting]:
        """Return those of layer LONG_TERM that were neither read nor changed at or after *since*.

        Those never read come first, then those read the longest ago.
        """
        ...

    def above(self, area: Area, *, content_bytes: int, since: datetime, at: datetime) -> dict[str, int]:
        """Return the owners whose LONG_TERM memories hold more bytes of content, and by how many more.

        Those changed at or after *at*, and those that `unread` returns, do not count. All projects of the owners do,
        whatever the area. It looks at all memories that may be archived, once.
        """
        ...

    def least_useful(
        self, area: Area, *, owner: str, since: datetime, at: datetime, after: ScanPosition, limit: int
    ) -> list[Waiting]:
        """Return those of layer LONG_TERM of one owner that were last changed before *at*, the least useful first.

        That is the least important, of those the least often read, of those the oldest; not what `unread` returns.
        """
        ...
