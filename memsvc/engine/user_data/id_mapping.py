"""Ids of imported memories and files: unchanged, unless they belong, or may belong, to another user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from memsvc.domain.files import File, FileCategory
from memsvc.domain.memory import FileRef, Memory, content_hash
from memsvc.domain.sessions import MessageRecord
from memsvc.domain.user_data import StoredMemory, StoredRevision, derived_id
from memsvc.engine.files.upload import MEMORY_ID
from memsvc.engine.user_data.decode import FileRefPosition, is_uuid, rename_file_refs

Places = Mapping[str, Sequence[FileRefPosition]]
"""The references to files in contents, by content."""


class IdMapping:
    """A mapping from the ids in an export to ids in this store.

    In an export of another user all ids are replaced, each derived from the old one and the owner alone. In an export
    of the same user only *taken* ids are replaced, those of memories of other owners: so nothing of theirs is
    overwritten, and the reply is the same as if they were free. *files* gives the replaced ids of files; references in
    contents follow.
    """

    def __init__(
        self,
        owner: str,
        *,
        all_are_new: bool,
        taken: AbstractSet[str] = frozenset(),
        files: Mapping[str, str] | None = None,
    ) -> None:
        """Map for *owner*; *files* gives new ids of files by their old ones, as `new_file_ids` returns them."""
        self._owner = owner
        self._all_are_new = all_are_new
        self._taken_ids = taken
        self._files = files or {}

    def of(self, memory_id: str) -> str:
        """Return the id in this store; empty for an empty id."""
        if memory_id and (self._all_are_new or memory_id in self._taken_ids):
            return derived_id(memory_id, self._owner)
        return memory_id

    def file(self, file: File) -> File:
        """Return a file with mapped ids: its own, and that of the memory that it is attached to."""
        named = self._files.get(file.id, file.id)
        attached = attached_to(file)
        if self.of(attached) == attached:
            return replace(file, id=named)
        return replace(file, id=named, metadata={**file.metadata, MEMORY_ID: self.of(attached)})

    def map_stored(self, stored: StoredMemory, places: Places) -> StoredMemory:
        """Return a memory with mapped ids; *places* are the references in its texts."""
        if not (self._all_are_new or self._taken_ids or self._files):
            return stored
        return replace(
            stored,
            memory=self._memory(stored.memory, places),
            previous_id=self.of(stored.previous_id),
            message=None if stored.message is None else self._message(stored.message),
        )

    def earlier(self, earlier: StoredRevision, places: Places) -> StoredRevision:
        """Return an earlier revision with mapped ids; *places* are the references in its texts."""
        return replace(earlier, memory=self._memory(earlier.memory, places))

    def _memory(self, memory: Memory, places: Places) -> Memory:
        content = self._text(memory.content, places)
        return replace(
            memory,
            id=self.of(memory.id),
            content=content,
            content_hash=memory.content_hash if content == memory.content else content_hash(content),
            summary=self._text(memory.summary, places),
            supersedes_id=self.of(memory.supersedes_id),
            superseded_by_id=self.of(memory.superseded_by_id),
            related_ids=tuple(map(self.of, memory.related_ids)),
            derived_from_ids=tuple(map(self.of, memory.derived_from_ids)),
            file_refs=tuple(FileRef(ref.category, self._files.get(ref.id, ref.id)) for ref in memory.file_refs),
        )

    def _text(self, text: str, places: Places) -> str:
        return rename_file_refs(text, places[text], self._files) if self._files and text in places else text

    def _message(self, message: MessageRecord) -> MessageRecord:
        extracted = tuple(replace(one, memory_id=self.of(one.memory_id)) for one in message.extracted)
        return replace(message, summary_id=self.of(message.summary_id), extracted=extracted)


def new_file_ids(derived: Mapping[str, str], *, coming: AbstractSet[str], mine: AbstractSet[str]) -> dict[str, str]:
    """Return the new ids of files by their old ones; ids without an entry are kept.

    *derived* maps candidates to their derived ids. A candidate is replaced if it is *coming* as a file of another
    user, or if it came before: a file that is *mine* has the derived id. A file that is *mine* under its old id keeps
    it, and so does an id without a file: it may name something external.
    """
    return {old: new for old, new in derived.items() if old not in mine and (old in coming or new in mine)}


def attached_to(file: File) -> str:
    """Return the id of the memory that a file is attached to, empty for none."""
    named = file.metadata.get(MEMORY_ID)
    if file.category is not FileCategory.MEMORY or not isinstance(named, str) or not is_uuid(named.lower()):
        return ""
    return named.lower()


def ids_in(memory: Memory) -> list[str]:
    """Return every id in a memory, its own first."""
    named = (memory.id, memory.supersedes_id, memory.superseded_by_id, *memory.related_ids, *memory.derived_from_ids)
    return [name for name in named if name]


def file_ids_in(memory: Memory, places: Places) -> Iterator[str]:
    """Yield the ids of files that a memory refers to, except those that are not ids of the service."""
    yield from (ref.id for ref in memory.file_refs if is_uuid(ref.id))
    yield from (place.ref.id for text in (memory.content, memory.summary) for place in places.get(text, ()))
