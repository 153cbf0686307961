"""Taking files back: what a person or Git did to a file becomes a change of its memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Protocol

from memsvc.domain import limits
from memsvc.domain.errors import (
    BackendClosedError,
    BackendUnavailableError,
    MemsvcError,
    RevisionConflictError,
)
from memsvc.domain.memory import Kind, Layer, Memory, Origin, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.three_way_merge import MergedFields, is_same, merge_fields
from memsvc.domain.vault import Entry, Merged, Note, Taken, VaultAction, differences
from memsvc.domain.vault_layout import conflict_path, name_says, place_of
from memsvc.domain.write_requests import Draft, OnDuplicate, Outcome, Patch, PatchValue, WriteOptions, Written
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.memories.update import MemoryUpdater
from memsvc.engine.vault.file_status import FileInspector, FileStatus
from memsvc.engine.vault.filesystem import VaultFilesystem, digest_of
from memsvc.ports.features import VaultManifest
from memsvc.ports.metadata import MemoryReads
from memsvc.text.front_matter import note_of, render_note

AGENT = "vault"
"""Who is said to write what comes from files."""
TOGETHER = 64
"""Files that are taken while others wait for the vault."""
ATTEMPTS = 4
"""How often a file is looked at again because its memory was changed in between."""
_STATUS_OF_NEW = frozenset({Status.ARCHIVED, Status.QUARANTINED})


@dataclass(frozen=True, slots=True)
class VaultContext:
    """What the vault works with: its folder, what it knows, and the use cases that write memories.

    Attributes:
        lock: Held by whoever looks at files and acts on what they are, one after the other.
    """

    folder: VaultFilesystem
    book: VaultManifest
    reads: MemoryReads
    remember: MemoryCreator
    revise: MemoryUpdater
    lock: threading.RLock


def _untold(taken: Taken) -> None:
    del taken


class NoteImporter:
    """Takes files back, one after the other; the same file twice is taken once."""

    def __init__(self, desk: VaultContext, merge: Merge, told: Callable[[Taken], None] = _untold) -> None:
        """Work at *desk*; *merge* decides where file and memory were both changed, *told* hears what came of files."""
        self._desk = desk
        self._merge = merge
        self._told = told
        self._seeing = FileInspector(desk.folder, desk.book, desk.reads)

    def take(self, path: str) -> Taken:
        """Make of the memory of one file what the file says now, and return what that was.

        The file may be new, edited, moved or gone; *path* is relative to the vault, with "/". What cannot be taken is
        told, and left alone.

        Raises:
            VaultGoneError: The vault is not there.
            BackendUnavailableError: The store cannot be reached.
        """
        [taken] = self.take_all([path])
        return taken

    def take_all(self, paths: Iterable[str]) -> Iterator[Taken]:
        """Take several files; those that are there come before those that are gone, so that moved ones are known.

        Raises:
            VaultGoneError: The vault is not there.
            BackendUnavailableError: The store cannot be reached.
        """
        known = list(dict.fromkeys(paths))
        self._desk.folder.vault_id()
        present = {path for path in known if self._desk.folder.exists(path)}
        ordered = sorted(known, key=lambda path: path not in present)
        for start in range(0, len(ordered), TOGETHER):
            with self._desk.lock:
                done = self._taken(ordered[start : start + TOGETHER])
            for taken in done:
                self._told(taken)
            yield from done

    def preview(self, paths: Iterable[str], claimed: set[str]) -> Iterator[Taken]:
        """Return what `take_all` would do, as far as can be said without doing it.

        *claimed* collects the memories whose files are there, for previews of other paths.
        """
        known = list(dict.fromkeys(paths))
        present = {path for path in known if self._desk.folder.exists(path)}
        for path in sorted(known, key=lambda path: path not in present):
            with self._desk.lock:
                seen = self._seeing.look(path, claimed)
            if seen.data is not None and seen.memory is not None:
                claimed.add(seen.memory.id)
            yield _taken(seen)

    def _taken(self, paths: Sequence[str]) -> list[Taken]:
        """Take files one by one, but make new memories of new ones together, which is quicker."""
        done: dict[str, Taken] = {}
        new: list[FileStatus] = []
        for path in paths:
            seen = self._seeing.look(path)
            if _is_plainly_new(seen):
                new.append(seen)
            else:
                done[path] = self._take(path, seen)
        done |= self._created(new)
        return [done[path] for path in paths]

    def _created(self, new: Sequence[FileStatus]) -> dict[str, Taken]:
        """Make new memories of files, in few transactions."""
        by_scope: dict[Scope, list[tuple[FileStatus, Draft]]] = {}
        for seen in new:
            scope, draft = self._drafted(seen)
            by_scope.setdefault(scope, []).append((seen, draft))
        made: list[tuple[FileStatus, Memory]] = []
        for scope, drafts in by_scope.items():
            results = self._desk.remember.create_batch(scope, [draft for _, draft in drafts], WriteOptions()).results
            made += [
                (seen, result.memory)
                for (seen, _), result in zip(drafts, results, strict=True)
                if isinstance(result, Written) and result.outcome is Outcome.CREATED
            ]
        self._settle(made)
        done = {seen.path: replace(_taken(seen), memory_id=memory.id) for seen, memory in made}
        # Whatever was refused, or is there already, is looked at by itself.
        return done | {seen.path: self._take(seen.path) for seen in new if seen.path not in done}

    def _take(self, path: str, looked: FileStatus | None = None) -> Taken:
        for attempt in range(1, ATTEMPTS + 1):
            seen = self._seeing.look(path) if looked is None or attempt > 1 else looked
            try:
                return self._done(seen)
            except RevisionConflictError:
                if attempt == ATTEMPTS:
                    raise
            except (BackendUnavailableError, BackendClosedError):
                raise
            except MemsvcError as error:
                return replace(_taken(seen), action=VaultAction.INVALID, detail=error.message)
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _done(self, seen: FileStatus) -> Taken:
        if seen.action in {VaultAction.IGNORED, VaultAction.INVALID}:
            return _taken(seen)
        if seen.data is None:
            return self._without_file(seen)
        if seen.action is VaultAction.READ_ONLY:
            return _taken(seen)
        if seen.action is VaultAction.CREATED:
            return self._create(seen)
        if seen.memory is None:
            return self._same_file(seen)
        return self._change(seen, seen.memory)

    def _same_file(self, seen: FileStatus) -> Taken:
        if seen.entry is not None and seen.entry.path != seen.path:
            self._desk.book.record([replace(seen.entry, path=seen.path)])
        return _taken(seen)

    def _without_file(self, seen: FileStatus) -> Taken:
        """Act on a file that is gone: its memory is deleted softly, unless it was changed meanwhile."""
        if seen.action is VaultAction.DELETED and seen.memory is not None:
            scope = _scope_for(seen.memory)
            options = WriteOptions()
            memory = seen.memory
            self._desk.revise.delete(scope, memory.id, hard=False, expected_revision=memory.revision, options=options)
        if seen.entry is not None:
            self._desk.book.record(removed=[seen.entry.path])
        return _taken(seen)

    def _change(self, seen: FileStatus, memory: Memory) -> Taken:
        patch, detail, note = dict(seen.patch or {}), "", _required(seen.note)
        if seen.action is VaultAction.RESTORED:
            memory = self._desk.revise.restore(
                _scope_for(memory), memory.id, expected_revision=memory.revision, options=WriteOptions()
            ).memory
        elif seen.is_behind:
            base = self._base(seen, memory)
            if base is not None and seen.entry is not None and not differences(note, base, note_of(base)):
                # Only the look of the file was changed: it is written anew from the memory.
                self._desk.book.record([replace(seen.entry, path=seen.path, digest=seen.digest)])
                return replace(_taken(seen), action=VaultAction.UNCHANGED)
            patch, detail = self._laid_beside(seen, memory, self._merge.merge(base, note, memory))
        if patch:
            memory = self._desk.revise.update(
                _scope_for(memory),
                memory_id=memory.id,
                key="",
                patch=Patch(patch),
                expected_revision=memory.revision,
                options=WriteOptions(),
            ).memory
        self._settle([(seen, memory)])
        action = VaultAction.UPDATED if seen.is_behind and not detail else seen.action
        return replace(_taken(seen), action=action, memory_id=memory.id, detail=detail)

    def _base(self, seen: FileStatus, memory: Memory) -> Memory | None:
        """Return the memory as the file had it when it was written."""
        if seen.entry is None:
            return None
        reach = Reach(memory.scope.owner, (memory.scope.project_id,))
        return self._desk.reads.revision(memory.id, seen.entry.revision, reach=reach)

    def _laid_beside(self, seen: FileStatus, memory: Memory, merged: Merged) -> tuple[dict[str, PatchValue], str]:
        """Lay the other side beside the file before anything is changed; return what is to be changed, and where."""
        if merged.beside is None:
            return differences(merged.note, memory, note_of(memory)), ""
        beside = conflict_path(seen.path, f"r{merged.beside.revision}")
        self._desk.folder.write_all([(beside, render_note(merged.beside))])
        return differences(merged.note, memory, note_of(memory)), f"The other side lies in {beside}"

    def _create(self, seen: FileStatus) -> Taken:
        scope, draft = self._drafted(seen)
        written = self._desk.remember.create(scope, draft, WriteOptions())
        if written.outcome is Outcome.DUPLICATE and self._has_file(written.memory):
            # The same content in two files is meant to be there twice.
            options = WriteOptions(on_duplicate=OnDuplicate.KEEP_BOTH)
            written = self._desk.remember.create(scope, draft, options)
        memory = written.memory
        status = _required(seen.note).values.get("status")
        wanted = status if status in _STATUS_OF_NEW else None
        if wanted is None and seen.place is not None and seen.place.is_archived:
            wanted = Status.ARCHIVED
        if wanted is not None and memory.status is not wanted:
            patch = Patch({"status": wanted})
            memory = self._desk.revise.update(
                _scope_for(memory),
                memory_id=memory.id,
                key="",
                patch=patch,
                expected_revision=0,
                options=WriteOptions(),
            ).memory
        self._settle([(seen, memory)])
        return replace(_taken(seen), memory_id=memory.id)

    def _has_file(self, memory: Memory) -> bool:
        entry = self._desk.book.of([memory.id]).get(memory.id)
        return entry is not None and self._desk.folder.exists(entry.path)

    def _drafted(self, seen: FileStatus) -> tuple[Scope, Draft]:
        """Return a new memory: as the file says, else as its folder and name do."""
        note, place, scope = _required(seen.note), seen.place, seen.scope
        assert place is not None  # noqa: S101 - for the type checker: the file was read
        assert scope is not None  # noqa: S101
        given = {name: value for name, value in note.values.items() if name != "status"}
        if not note.memory_id:
            category, kind, title = name_says(place.stem)
            said: dict[str, PatchValue] = {"title": _heading(note.content) or title}
            if place.key:
                said = {"key": place.key}
            else:
                said |= {
                    "layer": place.layer,
                    "kind": kind or Kind.NOTE,
                    "category": category or _subfolder(place.rest),
                }
            given = said | given
        given["layer"] = given.get("layer") or place.layer
        if given["layer"] is Layer.SESSION and not note.session_id:
            given["layer"] = Layer.SHORT_TERM
        if not given.get("source"):
            given["source"] = AGENT
        agent = note.agent_id or AGENT
        own = replace(scope, agent_id=agent, session_id=note.session_id)
        return own, Draft(origin=Origin.USER, **given)  # type: ignore[arg-type]  # the fields of a note are those of a draft

    def _settle(self, changed: Sequence[tuple[FileStatus, Memory]]) -> None:
        """Note that files say what their memories do, after writing those anew that do not."""
        files: list[tuple[str, bytes]] = []
        for seen, memory in changed:
            note = _required(seen.note)
            if note.memory_id != memory.id or differences(note, memory, note_of(memory)):
                rendered = render_note(memory)
                if rendered != seen.data:
                    files.append((seen.path, rendered))
        # What was saved since is taken when its turn comes.
        kept = self._desk.folder.write_all(files, {seen.path: seen.digest for seen, _ in changed}) if files else []
        written = {path: digest_of(data) for path, data in files if path not in kept}
        if changed:
            self._desk.book.record(
                [_entry(seen, memory, written.get(seen.path, seen.digest)) for seen, memory in changed]
            )


def _is_plainly_new(seen: FileStatus) -> bool:
    """Return whether a file becomes a new memory without further ado."""
    if seen.action is not VaultAction.CREATED or seen.place is None or seen.note is None:
        return False
    is_named = seen.place.key or seen.note.values.get("key")
    return not (is_named or seen.place.is_archived or "status" in seen.note.values)


def _entry(seen: FileStatus, memory: Memory, digest: str) -> Entry:
    """Return the new entry. A file stays where its person has it, unless it belongs into another folder now."""
    place = place_of(memory)
    stays = seen.has_moved or seen.memory is None or place_of(seen.memory).folder == place.folder
    old = "" if seen.memory is None else place_of(seen.memory).anchor
    anchor = place.anchor if stays else old
    owner, project = memory.scope.owner, memory.scope.project_id
    return Entry(seen.path, owner, project, digest, memory.revision, anchor, memory.id)


def _required(note: Note | None) -> Note:
    assert note is not None  # noqa: S101 - for the type checker: the file was read
    return note


def _scope_for(memory: Memory) -> Scope:
    return replace(memory.scope, agent_id=AGENT)


def _heading(content: str) -> str:
    """Return the text of a first line that is a heading of the first order."""
    first = content.lstrip().split("\n", 1)[0].strip()
    return first[2:].strip()[:512] if first.startswith("# ") else ""


def _subfolder(rest: tuple[str, ...]) -> str:
    return PurePosixPath(*rest[1:]).name[:64] if len(rest) > 1 else ""


def _taken(seen: FileStatus) -> Taken:
    memory_id = seen.memory.id if seen.memory is not None else seen.entry.memory_id if seen.entry is not None else ""
    return Taken(seen.path, seen.action, memory_id, seen.line, seen.detail)


# What becomes of a memory that was changed in its file and by a call at the same time.


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


# Merging what a person wrote into a file with what became of its memory meanwhile (requirement V2).


_MOST: Mapping[str, int] = {
    "content": limits.CONTENT,
    "summary": limits.SUMMARY,
    "tags": limits.TAGS,
    "related_ids": limits.RELATED_IDS,
    "file_refs": limits.FILE_REFS,
    "keywords": limits.KEYWORDS,
}


class ThreeWay:
    """Merges texts by lines and all else by fields.

    Where both sides changed the same, the file has its way, since the memory's side stays in its history anyway.
    """

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> Merged:
        """Return what the memory says from now on, and its side to be laid beside the file where not all of it fits."""
        stored = note_of(memory).values
        if base is None:
            differs = any(not is_same(value, stored.get(name)) for name, value in note.values.items())
            return Merged(note, memory if differs else None)
        merged = _fitting(merge_fields(note_of(base).values, stored, note.values), note)
        whole = Note(merged.values, note.memory_id, note.agent_id, note.session_id)
        return Merged(whole, memory if merged.conflicts else None)


def _fitting(merged: MergedFields, theirs: Note) -> MergedFields:
    """Take the file's side of fields that together are more than a memory may have."""
    too_large = {name for name, value in merged.values.items() if not _fits(name, value)}
    values = {name: theirs.values[name] if name in too_large else value for name, value in merged.values.items()}
    return MergedFields(values, merged.conflicts | too_large)


def _fits(name: str, value: Any) -> bool:
    if name == "metadata":
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.METADATA_BYTES
    return name not in _MOST or len(value) <= _MOST[name]
