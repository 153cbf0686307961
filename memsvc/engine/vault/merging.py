"""What becomes of a memory that was changed in its file and by a call at the same time."""

from __future__ import annotations

from typing import Protocol

from memsvc.domain.memory import Memory
from memsvc.domain.vault import Merged, Note


class Merge(Protocol):
    """Makes one of two changes."""

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> Merged:
        """Return what the memory says from now on.

        *base* is the memory as the file had it when it was written, None when that is not known; *note* is what the
        file says now, *memory* what the store does. What neither *Merged.note* nor *Merged.beside* holds is still a
        revision of the memory, if it is the memory's.
        """
        ...


class KeepBoth:
    """The file's side is the memory's next revision; the other side stays a revision, and is laid beside the file."""

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> Merged:
        """Return the file's side."""
        del base
        return Merged(note, memory)
