"""What can be chosen about the SQL store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from memsvc.ports.backend import BackendSettings


class Durability(StrEnum):
    """What a commit survives."""

    FULL = "full"
    """The loss of power: every commit waits for the disk."""
    NORMAL = "normal"
    """The death of the process: the last commits before a loss of power may be gone, the file stays whole."""


class SqlSettings(BackendSettings):
    """The options of the backend `sql`."""

    path: Path | None = None
    """The database file; by default memsvc.db in the backend's folder of the data directory."""

    durability: Durability = Durability.FULL
    """What a commit survives."""

    wait_seconds: float = Field(default=10.0, gt=0)
    """How long a call waits for a lock or a connection before it is refused as unavailable."""

    readers: int = Field(default=8, ge=1, le=64)
    """How many reads may run side by side."""

    cache_bytes: int = Field(default=2_000_000, ge=100_000)
    """The page cache of one connection; there is one for writing and up to *readers* for reading."""
