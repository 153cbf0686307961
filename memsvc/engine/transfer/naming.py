"""The ids of imported memories: their own, unless those are, or may be, somebody else's."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from memsvc.domain.memory import FileRef, Memory
from memsvc.domain.session import MessageRecord
from memsvc.domain.transfer import Earlier, Stored, derived_id


class Naming:
    """Gives every id of a file the one it has here.

    A file of another user gets new ids throughout, each made of the old one and the owner alone. In a file of the same
    user only *taken* ids are replaced, those of memories of other owners: so nothing of theirs is overwritten, and the
    reply is the same as if they were free.
    """

    def __init__(
        self,
        owner: str,
        *,
        all_are_new: bool,
        taken: AbstractSet[str] = frozenset(),
        taken_files: AbstractSet[str] = frozenset(),
    ) -> None:
        """Name for *owner*. Files keep their ids unless they are *taken_files*: contents speak of them, too."""
        self._taken_files = taken_files
        self._owner = owner
        self._all_are_new = all_are_new
        self._taken = taken

    def of(self, memory_id: str) -> str:
        """Return the id here; empty for an empty one."""
        if memory_id and (self._all_are_new or memory_id in self._taken):
            return derived_id(memory_id, self._owner)
        return memory_id

    def of_file(self, file_id: str) -> str:
        """Return the id here of a file."""
        return derived_id(file_id, self._owner) if file_id in self._taken_files else file_id

    def stored(self, stored: Stored) -> Stored:
        """Return a memory under the ids of here."""
        if not (self._all_are_new or self._taken or self._taken_files):
            return stored
        return replace(
            stored,
            memory=self._memory(stored.memory),
            previous_id=self.of(stored.previous_id),
            message=None if stored.message is None else self._message(stored.message),
        )

    def earlier(self, earlier: Earlier) -> Earlier:
        """Return an earlier revision under the ids of here."""
        return replace(earlier, memory=self._memory(earlier.memory))

    def _memory(self, memory: Memory) -> Memory:
        return replace(
            memory,
            id=self.of(memory.id),
            supersedes_id=self.of(memory.supersedes_id),
            superseded_by_id=self.of(memory.superseded_by_id),
            related_ids=tuple(map(self.of, memory.related_ids)),
            derived_from=tuple(map(self.of, memory.derived_from)),
            file_refs=tuple(FileRef(ref.category, self.of_file(ref.id)) for ref in memory.file_refs),
        )

    def _message(self, message: MessageRecord) -> MessageRecord:
        return replace(message, summary_id=self.of(message.summary_id))


def ids_in(memory: Memory) -> list[str]:
    """Return every id that a memory names, its own first."""
    named = (memory.id, memory.supersedes_id, memory.superseded_by_id, *memory.related_ids, *memory.derived_from)
    return [name for name in named if name]
