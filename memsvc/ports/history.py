"""The parts of the port to the metadata store that look back: revisions, checkpoints, tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from memsvc.domain.history import Checkpoint, Revision, Tombstone
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach


class HistoryReads(Protocol):
    """Reading memories as they were. Everything is held to *reach*, of which a memory never leaves its place.

    A revision is what was known from its update_time until that of the next one. Where clocks ran backwards, the
    highest revision with an update_time that is not later counts.
    """

    def revisions(self, memory_id: str, *, reach: Reach, before: int | None, limit: int) -> list[Revision]:
        """Return the newest *limit* revisions of a memory below *before*, newest first; none of an unknown memory."""
        ...

    def known_at(self, rows: Sequence[int], moment: datetime, *, reach: Reach) -> dict[int, Memory]:
        """Return these memories as they were known at *moment*, by row; those not yet there then are left out.

        Access counts and times are those of the end of the revision.
        """
        ...


class CheckpointReads(Protocol):
    """Reading checkpoints, and what is left of purged memories."""

    def get(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its whole name."""
        ...

    def page(self, owner: str, project_id: str, *, after: tuple[datetime, str] | None, limit: int) -> list[Checkpoint]:
        """Return at most *limit* checkpoints, the newest by create_time first, equal ones by name.

        *after* holds the create_time and name of the last one of the page before.
        """
        ...

    def tombstones(self, *, reach: Reach, moment: datetime, after_row: int, limit: int) -> list[Tombstone]:
        """Return by ascending row the next *limit* memories that were there at *moment* and were purged since."""
        ...


class CheckpointWrites(Protocol):
    """What a transaction can do about checkpoints."""

    def find_checkpoint(self, owner: str, project_id: str, name: str) -> Checkpoint | None:
        """Return a checkpoint by its whole name."""
        ...

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a new checkpoint.

        Raises:
            UniquenessRaceError: The name is taken.
        """
        ...
