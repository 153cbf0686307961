"""What the metadata store does to forget a user: parts of `memsvc.ports.metadata`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from memsvc.domain.user_data import Erasure


class ErasureReads(Protocol):
    """Looking for what is left of owners."""

    def find(self, owner: str) -> Erasure | None:
        """Return the latest erasure of *owner* that is not forgotten yet."""
        ...

    def running(self) -> list[Erasure]:
        """Return the erasures that were begun and have not ended."""
        ...

    def traces(self, owner: str) -> dict[str, int]:
        """Count what is stored of *owner* in each table that holds anything of owners, by the table's name."""
        ...

    def projects(self, owner: str) -> list[str]:
        """Return the projects in which anything of *owner* is stored."""
        ...

    def is_elsewhere(self, text: str) -> bool:
        """Return whether the content of any memory, of any owner and revision, holds *text*. It reads them all."""
        ...

    def is_part_of_others(self, owner: str) -> bool:
        """Return whether the name of another owner, of whom anything is stored, has that of *owner* within it."""
        ...

    def files(self) -> Sequence[Path]:
        """Return the files, of this machine, in which what was removed may stay until `rewrite`; often there are none.

        Some of them may not be there.
        """
        ...

    def settle(self) -> bool:
        """Bring what was removed out of the files that hold the log of changes; return whether that was possible.

        It is not while a reader looks at an older state.
        """
        ...

    def rewrite(self) -> None:
        """Write the data anew, without what was removed; others cannot write meanwhile."""
        ...


class ErasureWrites(Protocol):
    """What a transaction does about erasures.

    While an erasure of an owner runs, and in transactions whose work was begun before it ended, nothing new of the
    owner can be stored: every write of this transaction that would raises ErasureRunningError.
    """

    def begin_erasure(self, erasure: Erasure) -> None:
        """Note that an erasure is begun, in the place of an earlier one of the owner."""
        ...

    def end_erasure(self, erasure: Erasure) -> None:
        """Note that an erasure has ended; of the owner no more is kept than a digest."""
        ...

    def erase_memories(self, owner: str, rows: Sequence[int], digests: Sequence[bytes]) -> Mapping[str, int]:
        """Remove memories of *owner* with all that is stored of them, and embeddings by the digests of their texts.

        The outbox says that they are gone, and no tombstone is left. Returns how much was removed by table.
        """
        ...

    def erase_rest(self, owner: str, *, limit: int) -> Mapping[str, int]:
        """Remove at most *limit* rows of each other table of *owner*; return how many by table, nothing at the end.

        Changes in the outbox stay, but no longer say whose they are or of what.
        """
        ...

    def set_began(self, moment: int) -> None:
        """Say when the work that follows was begun, in microseconds; 0: now."""
        ...
