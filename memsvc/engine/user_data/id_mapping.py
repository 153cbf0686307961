"""The ids of imported memories and files: their own, unless those are, or may be, somebody else's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from memsvc.domain.files import File, FileCategory
from memsvc.domain.memory import FileRef, Memory, content_hash
from memsvc.domain.sessions import MessageRecord
from memsvc.domain.user_data import Stored, StoredRevision, derived_id
from memsvc.engine.files.upload import MEMORY_ID
from memsvc.engine.user_data.decode import Place, is_uuid, renamed

Places = Mapping[str, Sequence[Place]]
"""Where contents refer to files, by content."""


class IdMapping:
    """Gives every id of a file the one it has here.

    A file of another user gets new ids throughout, each made of the old one and the owner alone. In a file of the same
    user only *taken* ids are replaced, those of memories of other owners: so nothing of theirs is overwritten, and the
    reply is the same as if they were free. Which ids of files are replaced is said by *files*; contents that refer to
    them follow.
    """

    def __init__(
        self,
        owner: str,
        *,
        all_are_new: bool,
        taken: AbstractSet[str] = frozenset(),
        files: Mapping[str, str] | None = None,
    ) -> None:
        """Name for *owner*; *files* gives new ids of files by their old ones, as `new_file_ids` returns them."""
        self._owner = owner
        self._all_are_new = all_are_new
        self._taken = taken
        self._files = files or {}

    def of(self, memory_id: str) -> str:
        """Return the id here; empty for an empty one."""
        if memory_id and (self._all_are_new or memory_id in self._taken):
            return derived_id(memory_id, self._owner)
        return memory_id

    def file(self, file: File) -> File:
        """Return a file under the ids of here: its own, and that of the memory that it is attached to."""
        named = self._files.get(file.id, file.id)
        attached = attached_to(file)
        if self.of(attached) == attached:
            return replace(file, id=named)
        return replace(file, id=named, metadata={**file.metadata, MEMORY_ID: self.of(attached)})

    def stored(self, stored: Stored, places: Places) -> Stored:
        """Return a memory under the ids of here; *places* are those in its content."""
        if not (self._all_are_new or self._taken or self._files):
            return stored
        return replace(
            stored,
            memory=self._memory(stored.memory, places),
            previous_id=self.of(stored.previous_id),
            message=None if stored.message is None else self._message(stored.message),
        )

    def earlier(self, earlier: StoredRevision, places: Places) -> StoredRevision:
        """Return an earlier revision under the ids of here; *places* are those in its content."""
        return replace(earlier, memory=self._memory(earlier.memory, places))

    def _memory(self, memory: Memory, places: Places) -> Memory:
        content, digest = memory.content, memory.content_hash
        if self._files and content in places:
            content = renamed(content, places[content], self._files)
            digest = content_hash(content)
        return replace(
            memory,
            id=self.of(memory.id),
            content=content,
            content_hash=digest,
            supersedes_id=self.of(memory.supersedes_id),
            superseded_by_id=self.of(memory.superseded_by_id),
            related_ids=tuple(map(self.of, memory.related_ids)),
            derived_from=tuple(map(self.of, memory.derived_from)),
            file_refs=tuple(FileRef(ref.category, self._files.get(ref.id, ref.id)) for ref in memory.file_refs),
        )

    def _message(self, message: MessageRecord) -> MessageRecord:
        return replace(message, summary_id=self.of(message.summary_id))


def new_file_ids(derived: Mapping[str, str], *, coming: AbstractSet[str], mine: AbstractSet[str]) -> dict[str, str]:
    """Return the new ids of files by their old ones; what is not in it keeps its id.

    Of the ids in *derived*, by which the ones made of them are found, those are replaced that are *coming* as somebody
    else's files, and those that came before: under the new id there is one that is *mine*. What is
    *mine* under its old id keeps it, and so does what nobody brought: it may be the name of something elsewhere.
    """
    return {old: new for old, new in derived.items() if old not in mine and (old in coming or new in mine)}


def attached_to(file: File) -> str:
    """Return the id of the memory that a file is attached to, empty for none."""
    named = file.metadata.get(MEMORY_ID)
    if file.category is not FileCategory.MEMORY or not isinstance(named, str) or not is_uuid(named.lower()):
        return ""
    return named.lower()


def ids_in(memory: Memory) -> list[str]:
    """Return every id that a memory names, its own first."""
    named = (memory.id, memory.supersedes_id, memory.superseded_by_id, *memory.related_ids, *memory.derived_from)
    return [name for name in named if name]


def file_ids_in(memory: Memory, places: Places) -> Iterator[str]:
    """Yield the ids of files that a memory refers to, but for those that no file of the service can have."""
    yield from (ref.id for ref in memory.file_refs if is_uuid(ref.id))
    yield from (place.ref.id for place in places.get(memory.content, ()))
