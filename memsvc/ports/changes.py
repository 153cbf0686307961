"""The port to the log of changes, as those who watch memories read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from memsvc.domain.index_entries import Change
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A change, and who may know of it when the memory itself can no longer say.

    Attributes:
        private_session: The session that alone may know of the change, because the memory was of layer SESSION before
            and after it; empty when everybody within reach may.
    """

    change: Change
    private_session: str = ""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes that follow a position, ascending, and what is known around them, all as of one moment.

    Attributes:
        position: Every change of the reach up to it is in this page, or lies before it.
        is_all: Whether there are no more.
        kept_after: Every change after this position is still kept; earlier ones may be gone.
        head: The position of the newest change of anybody.
    """

    changes: tuple[LoggedChange, ...]
    position: int
    is_all: bool
    kept_after: int
    head: int


class ChangeFeed(Protocol):
    """The changes of memories within a reach. A change is here as soon as it is committed, and never before."""

    @property
    def identity(self) -> str:
        """Return a name of the store's data that no other store has; it stays when the store is opened again."""
        ...

    def after(self, position: int, *, reach: Reach, limit: int) -> ChangePage:
        """Return the next *limit* (at least 1) changes of memories in *reach* after *position*.

        A memory's project and owner never change, so neither does the reach of its changes.
        """
        ...

    def count(self, position: int, *, reach: Reach) -> int:
        """Return how many changes of memories in *reach* come after *position*."""
        ...

    def states(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Memory]:
        """Return memories as they were by (row, revision), of any owner; those removed for good are left out."""
        ...
