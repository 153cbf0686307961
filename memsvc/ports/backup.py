"""What the metadata store does to be copied while it is used: a part of `memsvc.ports.metadata`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How much of a copy is written, in parts of no particular size; *total* may grow.

    Attributes:
        counts: What the copy holds, by what it is; empty until the end.
    """

    done: int
    total: int
    counts: Mapping[str, int] = field(default_factory=dict)


class StoreCopies(Protocol):
    """Copying the store as a whole."""

    def copy(self, directory: Path) -> Generator[CopyProgress, None, None]:
        """Write the state of one moment into files in *directory*, which is there and empty; writes go on meanwhile.

        A store that is opened in a directory with these files holds that state. When the iteration ends early, what
        was written is of no use. At its end all is safe on the disk.

        Raises:
            CapabilityMissingError: The store cannot be copied so.
            BackendUnavailableError: The store cannot be read, or the directory not written.
        """
        ...

    def counts(self) -> Mapping[str, int]:
        """Count what is stored, of all owners, by what it is: "memories", "sessions" and others."""
        ...

    def renew(self) -> None:
        """Give the data a name that no other store has, since they are a copy: see `ChangeFeed.identity`."""
        ...
