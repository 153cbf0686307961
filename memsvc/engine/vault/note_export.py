"""Showing memories as files: written when something changed, moved with their place, removed with their memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memsvc.domain.memory import Memory
from memsvc.domain.vault import Entry, NoteError, Taken, VaultAction
from memsvc.domain.vault_layout import Place, conflict_path, has_file, path_key, place_of
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.engine.vault.filesystem import digest_of
from memsvc.engine.vault.note_import import NoteImporter, VaultContext
from memsvc.text.front_matter import render_note

GROUP_BYTES = 4_000_000
"""How much is written before the disk is waited for."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Part:
    """What one group of memories comes to: files to write, files to remove after that, and what is known then."""

    files: list[tuple[str, bytes]] = field(default_factory=list)
    over: dict[str, str | None] = field(default_factory=dict)
    """By path the digest of what lies there; None: nothing does."""
    removed: list[tuple[str, str, str]] = field(default_factory=list)
    """Each with the path that must have been written before, or none, and the digest of what may be removed."""
    beside: list[tuple[str, str]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    done: list[Taken] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    """Path keys that memories have got."""
    size: int = 0

    def write(self, path: str, data: bytes) -> None:
        self.files.append((path, data))
        self.size += len(data)


class NoteExporter:
    """Brings files to what their memories are. Doing it again changes nothing."""

    def __init__(self, desk: VaultContext, taking: NoteImporter) -> None:
        """Work at *desk*; what a person changed in the meantime goes through *taking*."""
        self._desk = desk
        self._taking = taking

    def show(
        self, memories: Sequence[Memory], *, anew: bool = False, dry_run: bool = False, position: int | None = None
    ) -> list[Taken]:
        """Write the files of *memories*, and remove those that should have none; return what was done.

        A file that says its memory already is left as it is; with *anew* it is compared byte by byte. What cannot be
        written is told as INVALID. With the last of them the *position* is noted. The caller holds the desk's lock.
        """
        entries = self._desk.book.of([memory.id for memory in memories])
        places = {memory.id: place_of(memory) for memory in memories if has_file(memory)}
        known = self._desk.book.at(
            path for one, place in places.items() if _must_move(entries.get(one), place) for path in place.paths
        )
        part, done = _Part(), []
        for memory in memories:
            SEARCH_PRIORITY.yield_to_searches()
            self._one(part, memory, places.get(memory.id), entries.get(memory.id), known, anew=anew)
            if part.size >= GROUP_BYTES:
                done += self._finished(part, dry_run=dry_run)
                part = _Part(taken=part.taken)
        return done + self._finished(part, dry_run=dry_run, position=position)

    def hide(self, entries: Sequence[Entry], *, dry_run: bool = False) -> list[Taken]:
        """Remove the files of *entries*, whose memories are gone."""
        part = _Part()
        for entry in entries:
            self._hide(part, entry)
        return self._finished(part, dry_run=dry_run)

    def _one(
        self,
        part: _Part,
        memory: Memory,
        place: Place | None,
        entry: Entry | None,
        known: Mapping[str, Entry],
        *,
        anew: bool,
    ) -> None:
        if place is None:
            if entry is not None:
                self._hide(part, entry)
        elif entry is None or _must_move(entry, place):
            self._placed(part, memory, place, entry, known)
        elif anew or entry.revision != memory.revision:
            self._rewritten(part, memory, entry)

    def _rewritten(self, part: _Part, memory: Memory, entry: Entry) -> None:
        """Write a file where it is, unless a person changed it since."""
        rendered = render_note(memory)
        digest = digest_of(rendered)
        after = replace(entry, digest=digest, revision=memory.revision)
        present = self._present(entry)
        if present is None or present == entry.digest:
            if present != digest:
                part.write(entry.path, rendered)
                part.over[entry.path] = present
                part.done.append(Taken(entry.path, VaultAction.WRITTEN, memory.id))
            if after != entry or present is None:
                part.entries.append(after)
        elif present == digest:
            part.entries.append(after)
        else:
            part.done.append(Taken(entry.path, VaultAction.CONFLICT, memory.id))

    def _placed(
        self, part: _Part, memory: Memory, place: Place, entry: Entry | None, known: Mapping[str, Entry]
    ) -> None:
        """Write a file at a place that is new to it, and remove it from the old one."""
        if entry is not None and self._present(entry) not in {None, entry.digest}:
            part.done.append(Taken(entry.path, VaultAction.CONFLICT, memory.id))
            return
        rendered = render_note(memory)
        path = self._free_path(part, memory, place, known, rendered)
        part.taken.add(path_key(path))
        part.write(path, rendered)
        if not self._desk.folder.exists(path):
            part.over[path] = None
        owner, project = memory.scope.owner, memory.scope.project_id
        part.entries.append(Entry(path, owner, project, digest_of(rendered), memory.revision, place.anchor, memory.id))
        if entry is not None and path_key(entry.path) != path_key(path):
            part.removed.append((entry.path, path_key(path), entry.digest))
            part.done.append(Taken(path, VaultAction.MOVED, memory.id, detail=f"from {entry.path}"))
        else:
            part.done.append(Taken(path, VaultAction.WRITTEN, memory.id))

    def _free_path(self, part: _Part, memory: Memory, place: Place, known: Mapping[str, Entry], rendered: bytes) -> str:
        """Return the first of the memory's paths that is nobody else's, and holds nothing that is not known."""
        for path in place.paths:
            key = path_key(path)
            holder = known.get(key)
            if key in part.taken or (holder is not None and holder.memory_id != memory.id):
                continue
            if holder is not None or not self._desk.folder.exists(path):
                return path
            try:
                # What a crash left between the writing and the noting is ours.
                if self._desk.folder.read(path) == rendered:
                    return path
            except NoteError:
                continue
        # Somebody put files at all of them: one more name, which nobody has.
        return conflict_free(place, memory)

    def _hide(self, part: _Part, entry: Entry) -> None:
        """Remove a file; one that a person changed since stays beside, where it is not looked at."""
        present = self._present(entry)
        if present is not None and present != entry.digest:
            beside = conflict_path(entry.path, f"r{entry.revision}")
            part.beside.append((entry.path, beside))
            part.done.append(Taken(entry.path, VaultAction.CONFLICT, entry.memory_id, detail=f"Kept as {beside}"))
        else:
            part.removed.append((entry.path, "", entry.digest))
            part.done.append(Taken(entry.path, VaultAction.REMOVED, entry.memory_id))
        part.forgotten.append(entry.path)

    def _present(self, entry: Entry) -> str | None:
        """Return the digest of a file as it is; None: it is not there. A link in its place counts as changed."""
        try:
            data = self._desk.folder.read(entry.path)
        except NoteError:
            return ""
        return None if data is None else digest_of(data)

    def _finished(self, part: _Part, *, dry_run: bool, position: int | None = None) -> list[Taken]:
        """Do it: write, note, remove. What stands between by a crash is done again, and changes nothing."""
        if dry_run:
            return part.done
        kept = set(self._written(part))
        failed = {path_key(path) for path in kept}
        entries = [entry for entry in part.entries if path_key(entry.path) not in failed]
        for path, other in part.beside:
            self._desk.folder.rename(path, other)
        if entries or part.forgotten or position is not None:
            self._desk.book.record(entries, removed=part.forgotten, position=position)
        for path, after, digest in part.removed:
            if after not in failed:
                self._desk.folder.remove(path, digest)
        done = []
        for one in part.done:
            is_torn = one.action is VaultAction.CONFLICT and not one.detail
            if is_torn or (one.path in kept and self._desk.folder.exists(one.path)):
                # A person changed it.
                done.append(self._taking.take(one.path))
            elif path_key(one.path) in failed:
                done.append(replace(one, action=VaultAction.INVALID, detail="The file cannot be written; see the log."))
            else:
                done.append(one)
        return done

    def _written(self, part: _Part) -> Iterator[str]:
        """Write the files of a part; yield the paths of those that are not, or cannot be, written."""
        try:
            yield from self._desk.folder.write_all(part.files, part.over)
        except OSError:
            self._desk.folder.vault_id()
            for path, data in part.files:
                try:
                    yield from self._desk.folder.write_all([(path, data)], part.over)
                except OSError as error:
                    log.warning("a file of the vault cannot be written (%s); it is tried again at the next sync", error)
                    yield path


def conflict_free(place: Place, memory: Memory) -> str:
    """Return a path that no other memory, and no other revision of this one, would get."""
    return f"{place.folder}/{memory.id}-r{memory.revision}.md"


def _must_move(entry: Entry | None, place: Place) -> bool:
    return entry is None or entry.anchor != place.anchor
