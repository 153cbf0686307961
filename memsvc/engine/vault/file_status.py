"""Read-only inspection of vault files: the memory of a file, the action that it calls for, and scans of the tree."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import OWNER_SEPARATOR, Reach, Scope
from memsvc.domain.vault import Note, NoteError, NoteFormat, VaultAction, VaultCopy, VaultEntry, differences
from memsvc.domain.vault_layout import (
    ABSENT,
    PUT_AWAY,
    SESSIONS,
    NotePath,
    is_listing,
    is_memory_path,
    is_note,
    is_watched_folder,
    layer_of_move,
    location_of,
    named_root,
    parse_note_path,
    path_key,
    root_of,
)
from memsvc.domain.write_requests import PatchValue
from memsvc.engine.vault.filesystem import VaultFilesystem, digest_of
from memsvc.ports.features import VaultManifest
from memsvc.ports.metadata import MemoryReads
from memsvc.text.vault_notes import is_transcript, note_of, read_note, unmerged_lines

MAX_RENAME_CANDIDATES = 8
"""Maximum number of entries with the same content that are compared to find a renamed file."""
REVISIONS = 100
"""Revisions read at a time."""
_PURGED = "Its memory was deleted for good: remove the file, or the line id, which makes a new memory of it."
_COPY = "It is a copy of the file of a memory that was deleted: remove it, or edit it, or call RestoreMemory."
_READ_ONLY = "Transcripts are read-only; edits are not imported."
_UNMERGED = (
    "It has the marks of an unfinished merge (<<<<<<<, =======, >>>>>>>): merge the two sides, or indent marks that "
    "are content."
)
_SPELLING = "Its name differs from that of {} only in case or in the form of letters: rename one of the two."


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The current state of one path and the action that it calls for.

    Attributes:
        scope: The user and project of the file, by its folder.
        data: The file's bytes; None: there is no file.
        entry: The manifest entry of the path, or of the previous path of the file.
        memory: The memory of the file; None: a new memory, or none.
        patch: The fields in which the file differs from the memory.
        is_behind: Whether the memory was also changed since the file was written.
        is_adopted: Whether *entry* is new, since the file is that of an earlier revision in a vault that is read for
            the first time.
        copy_of: The id of the memory of which the file is a copy; empty: it is none. A copy is INVALID.
    """

    path: str
    action: VaultAction
    scope: Scope | None = None
    place: NotePath | None = None
    data: bytes | None = None
    entry: VaultEntry | None = None
    note: Note | None = None
    memory: Memory | None = None
    patch: dict[str, PatchValue] | None = None
    is_behind: bool = False
    is_adopted: bool = False
    line: int = 0
    detail: str = ""
    copy_of: str = ""

    @property
    def digest(self) -> str:
        """Return the digest of the file."""
        return digest_of(self.data or b"")

    @property
    def has_moved(self) -> bool:
        """Return whether the path differs from that of the entry."""
        return self.entry is not None and self.entry.path != self.path


class FileInspector:
    """An inspector of single files."""

    def __init__(self, folder: VaultFilesystem, manifest: VaultManifest, reads: MemoryReads, form: NoteFormat) -> None:
        """Inspect *folder* of files of a format; *manifest* holds entries of written files, *reads* reads memories."""
        self._folder = folder
        self._manifest = manifest
        self._reads = reads
        self._form = form

    def look(self, path: str, claimed: AbstractSet[str] = frozenset()) -> FileStatus:
        """Return the status of *path*. The memories in *claimed* have another file now."""
        place = parse_note_path(path)
        if not is_note(path) or place is None:
            return FileStatus(path, VaultAction.IGNORED)
        entry = self._manifest.at([path]).get(path_key(path))
        if entry is None and self._form is NoteFormat.OKF and is_listing(path):
            return FileStatus(path, VaultAction.IGNORED)
        try:
            data = self._folder.read(path)
        except NoteError as error:
            # A transcript may be larger than a note.
            is_own = entry is not None and entry.session_id != "" and self._folder.digest(path) == entry.digest
            action = VaultAction.UNCHANGED if is_own else VaultAction.INVALID
            return FileStatus(path, action, entry=entry, line=error.line, detail="" if is_own else error.description)
        if data is None:
            return self._inspect_gone(path, entry, claimed)
        if entry is not None and entry.path != path and self._is_other_file(entry.path, path):
            return FileStatus(path, VaultAction.INVALID, detail=_SPELLING.format(entry.path))
        return self._inspect_present(FileStatus(path, VaultAction.UNCHANGED, place=place, data=data, entry=entry))

    def _is_other_file(self, path: str, other: str) -> bool:
        return self._folder.exists(path) and not self._folder.is_same_file(path, other)

    def _inspect_present(self, seen: FileStatus) -> FileStatus:
        if seen.entry is not None and seen.entry.digest == seen.digest:
            return seen
        if seen.entry is not None and seen.entry.session_id:
            return replace(seen, action=VaultAction.READ_ONLY, detail=_READ_ONLY)
        if seen.place is not None and seen.place.rest[:1] == (SESSIONS,) and is_transcript(seen.data or b""):
            # The transcript of an unknown vault, or of a session that no longer exists.
            return replace(seen, action=VaultAction.READ_ONLY, entry=None, detail=_READ_ONLY)
        unmerged = unmerged_lines(seen.data or b"")
        try:
            note = read_note(seen.data or b"", self._form)
            found = self._inspect_known(replace(seen, note=note, scope=self._scope(seen)))
        except NoteError as error:
            found = replace(seen, action=VaultAction.INVALID, line=error.line, detail=error.description)
        own = [] if found.memory is None or not unmerged else unmerged_lines(found.memory.content.encode())
        if len(unmerged) > len(own):
            return replace(seen, action=VaultAction.INVALID, line=unmerged[0], detail=_UNMERGED)
        return found

    def _inspect_gone(self, path: str, entry: VaultEntry | None, claimed: AbstractSet[str]) -> FileStatus:
        if entry is None or entry.memory_id in claimed:
            return FileStatus(path, VaultAction.UNCHANGED, entry=entry)
        if (entry.path != path and self._folder.exists(entry.path)) or self._folder.other_spelling(path) is not None:
            # The name was changed to another spelling: the memory has a file.
            return FileStatus(path, VaultAction.UNCHANGED)
        if entry.session_id:
            return FileStatus(
                path, VaultAction.READ_ONLY, entry=entry, detail="Transcripts are read-only; the file is written again."
            )
        scope = scope_of(entry.owner, entry.project_id)
        memory = self._memory(entry.memory_id, scope)
        if memory is None or memory.status in ABSENT:
            return FileStatus(path, VaultAction.UNCHANGED, scope=scope, entry=entry)
        if memory.revision != entry.revision:
            detail = "The memory was changed since the file was written, so the file is written again."
            return FileStatus(path, VaultAction.CONFLICT, scope=scope, entry=entry, memory=memory, detail=detail)
        return FileStatus(path, VaultAction.DELETED, scope=scope, entry=entry, memory=memory)

    def _inspect_known(self, seen: FileStatus) -> FileStatus:
        """Find the memory of a parsed file, and compare the two."""
        memory, entry = self._identity(seen)
        if memory is None:
            return self._new(seen)
        adopted = self._revision_entry(seen, memory) if entry is None and self._is_first_sync() else None
        if adopted is not None:
            return replace(seen, memory=memory, entry=adopted, is_adopted=True)
        seen = replace(seen, memory=memory, entry=entry)
        if memory.status is Status.QUARANTINED:
            detail = "The memory is quarantined and waits for a review: see ListQuarantined."
            return replace(seen, action=VaultAction.INVALID, detail=detail)
        assert seen.note is not None  # noqa: S101 - for the type checker: it was read
        if memory.status is Status.DELETED and entry is None and self._is_copy_of_deleted(seen):
            return replace(seen, action=VaultAction.INVALID, detail=_COPY, copy_of=memory.id)
        patch = differences(seen.note, memory, note_of(memory))
        if memory.status is Status.DELETED:
            patch.pop("status", None)
            return replace(seen, action=VaultAction.RESTORED, patch=patch)
        is_behind = bool(patch) and (entry is None or entry.revision != memory.revision)
        patch |= fields_of_move(seen, patch)
        action = VaultAction.RENAMED if seen.has_moved else VaultAction.UNCHANGED
        if patch:
            action = VaultAction.CONFLICT if is_behind else VaultAction.UPDATED
        return replace(seen, action=action, patch=patch, is_behind=is_behind)

    def _identity(self, seen: FileStatus) -> tuple[Memory | None, VaultEntry | None]:
        """Return the memory of a file and its manifest entry; a copy of a file has no memory."""
        assert seen.note is not None  # noqa: S101 - for the type checker: it was read
        assert seen.scope is not None  # noqa: S101
        named = self._memory(seen.note.memory_id, seen.scope) if seen.note.memory_id else None
        if named is not None:
            entry = self._manifest.of([named.id]).get(named.id)
            if entry is None or path_key(entry.path) == path_key(seen.path) or not self._is_in_place(entry):
                return named, entry
            return (None, None) if seen.entry is None else self._of_entry(seen)
        if seen.entry is not None:
            return self._of_entry(seen)
        for entry in self._manifest.ids_with_content(seen.scope.owner, seen.digest, limit=MAX_RENAME_CANDIDATES):
            if entry.memory_id and entry.project_id == seen.scope.project_id and not self._folder.exists(entry.path):
                return self._memory(entry.memory_id, seen.scope), entry
        return None, None

    def _is_first_sync(self) -> bool:
        """Return whether no synchronisation of this vault has completed, so that no missing entry means a removal."""
        state = self._manifest.state()
        return state is None or state.position == 0

    def _is_purged(self, memory_id: str, scope: Scope) -> bool:
        return (scope.owner, scope.project_id) in self._manifest.places_of_purged([memory_id])

    def _revision_entry(self, seen: FileStatus, memory: Memory) -> VaultEntry | None:
        """Return the entry of an unedited file of an earlier revision; None: there is no such revision."""
        assert seen.note is not None  # noqa: S101 - for the type checker: it was read
        if memory.status not in ABSENT and not differences(seen.note, memory, note_of(memory)):
            return None
        reach, before = Reach(memory.scope.owner, (memory.scope.project_id,)), None
        while page := self._reads.revisions(memory.id, reach=reach, before=before, limit=REVISIONS):
            for one in page:
                past = one.memory
                if not differences(seen.note, past, note_of(past)):
                    owner, project, anchor = past.scope.owner, past.scope.project_id, location_of(past).anchor
                    return VaultEntry(seen.path, owner, project, seen.digest, past.revision, anchor, past.id)
            before = page[-1].memory.revision
        return None

    def _is_in_place(self, entry: VaultEntry) -> bool:
        """Return whether the path of *entry* still holds the file of its memory, and not that of another memory."""
        try:
            data = self._folder.read(entry.path)
            if data is None or digest_of(data) == entry.digest:
                return data is not None
            return read_note(data, self._form).memory_id in {"", entry.memory_id}
        except NoteError:
            return True

    def _of_entry(self, seen: FileStatus) -> tuple[Memory | None, VaultEntry | None]:
        assert seen.scope is not None  # noqa: S101 - for the type checker
        entry = seen.entry
        return (None, None) if entry is None else (self._memory(entry.memory_id, seen.scope), entry)

    def _new(self, seen: FileStatus) -> FileStatus:
        place, note = seen.place, seen.note
        assert place is not None  # noqa: S101 - for the type checker
        assert note is not None  # noqa: S101
        assert seen.scope is not None  # noqa: S101
        if place.fault and not (place.layer is Layer.SESSION and note.session_id):
            return replace(seen, action=VaultAction.INVALID, entry=None, detail=place.fault)
        if note.memory_id and seen.entry is None and self._is_purged(note.memory_id, seen.scope):
            return replace(seen, action=VaultAction.INVALID, detail=_PURGED)
        key = str(note.values.get("key") or place.key)
        bearer = self._reads.get_by_key(key, reach=Reach(seen.scope.owner, (seen.scope.project_id,))) if key else None
        if bearer is None:
            if key and seen.entry is None and self._is_copy_of_deleted(seen):
                return replace(seen, action=VaultAction.INVALID, detail=_COPY)
            return replace(seen, action=VaultAction.CREATED, entry=None)
        entry = self._manifest.of([bearer.id]).get(bearer.id)
        if entry is not None and path_key(entry.path) != path_key(seen.path) and self._folder.exists(entry.path):
            detail = f"The memory with this key already has another file: {entry.path}"
            is_copy = note.memory_id == bearer.id or not differences(note, bearer, note_of(bearer))
            copy_of = bearer.id if is_copy else ""
            return replace(seen, action=VaultAction.INVALID, entry=None, detail=detail, copy_of=copy_of)
        patch = differences(note, bearer, note_of(bearer))
        action = VaultAction.CONFLICT if patch else VaultAction.UNCHANGED
        return replace(seen, action=action, entry=entry, memory=bearer, patch=patch, is_behind=bool(patch))

    def _is_copy_of_deleted(self, seen: FileStatus) -> bool:
        """Return whether a file is, unchanged, a copy that was rejected while the memory of the original existed."""
        assert seen.scope is not None  # noqa: S101 - for the type checker
        copy = self._manifest.copy_at(seen.path)
        if copy is None or copy.digest != seen.digest:
            return False
        original = self._memory(copy.memory_id, seen.scope)
        return original is None or original.status is Status.DELETED

    def _memory(self, memory_id: str, scope: Scope) -> Memory | None:
        found = self._reads.get([memory_id], reach=Reach(scope.owner, (scope.project_id,)))
        return found.get(memory_id)

    def _scope(self, seen: FileStatus) -> Scope:
        """Return the scope of a folder; that of a folder with a shortened name comes from the entries of files in it.

        Raises:
            NoteError: The folder has no known file yet.
        """
        place = seen.place
        if place is not None and place.scope is not None:
            return place.scope
        assert place is not None  # noqa: S101 - for the type checker: other paths are ignored before
        root = path_key(place.root) + "/"
        for entry in self._manifest.page(owner=None, after=root, limit=1):
            scope = scope_of(entry.owner, entry.project_id)
            if path_key(entry.path).startswith(root) and root_of(scope) == unicodedata.normalize("NFC", place.root):
                return scope
        proper = named_root(place.root)
        hint = f" The folder for these names is {proper}." if proper else ""
        raise NoteError(0, f"The folder {place.root} is not that of a known user or project.{hint}")


def scope_of(owner: str, project_id: str) -> Scope:
    """Return the scope of an owner and project."""
    tenant, _, user = owner.partition(OWNER_SEPARATOR)
    return Scope(user, project_id, tenant_id=tenant)


def fields_of_move(seen: FileStatus, patch: Mapping[str, PatchValue]) -> dict[str, PatchValue]:
    """Return the fields implied by a move of the file to another folder; fields in *patch* take precedence."""
    memory, place, entry = seen.memory, seen.place, seen.entry
    if entry is None or memory is None or place is None or not seen.has_moved:
        return {}
    said: dict[str, PatchValue] = {}
    layer = layer_of_move(entry.path, seen.path)
    if layer is not None and layer is not memory.layer and "layer" not in patch:
        said["layer"] = layer
    before = parse_note_path(entry.path)
    if before is not None and before.is_archived is not place.is_archived and "status" not in patch:
        if place.is_archived and memory.status not in PUT_AWAY:
            said["status"] = Status.ARCHIVED
        elif not place.is_archived and memory.status in {Status.ARCHIVED, Status.EXPIRED}:
            said["status"] = Status.ACTIVE
    if place.key and not memory.key and "key" not in patch:
        said["key"] = place.key
    return said


def copy_of(seen: FileStatus) -> VaultCopy | None:
    """Return what the manifest keeps of a file that is a copy; None: it is none."""
    if not seen.copy_of or seen.scope is None:
        return None
    return VaultCopy(seen.path, seen.scope.owner, seen.scope.project_id, seen.digest, seen.copy_of)


# Scans of the tree on the disk; symbolic links are not followed.


class FileStamp(NamedTuple):
    """A stamp of a file that detects changes without reading it.

    Modification times can be set back, as archive programs do; the time of the last change of the inode cannot.
    """

    modified_ns: int
    changed_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileStamp:
        """Return the stamp for a stat result."""
        return cls(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def is_content_of(self, other: FileStamp) -> bool:
        """Return whether the content is the same as at *other*; the name may differ."""
        return self[0] == other[0] and self[2:] == other[2:]


Snapshot: TypeAlias = Mapping[str, FileStamp]


@dataclass(frozen=True, slots=True)
class TreeScan:
    """The folders of a vault, its root first, and the stamps of the files that may be memories, by path."""

    folders: tuple[str, ...]
    files: Snapshot


class TreeMissingError(OSError):
    """The vault's folder is missing: removed, or its volume is not mounted."""


def scan(root: Path) -> TreeScan:
    """Return the tree in *root*. Entries that vanish during the scan, or cannot be read, are left out.

    Raises:
        TreeMissingError: There is no such folder.
    """
    if not root.is_dir():
        raise TreeMissingError(errno.ENOENT, "The folder of the vault is missing", str(root))
    folders: list[str] = []
    files: dict[str, FileStamp] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        folders.append(folder)
        for entry in _entries(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if is_watched_folder(entry.name):
                    pending.append(path)
            elif is_memory_path(path) and (stamp := _stamp(entry)) is not None:
                files[path] = stamp
    return TreeScan(tuple(folders), files)


def tree_differences(before: Snapshot, after: Snapshot) -> set[str]:
    """Return the paths that are in only one snapshot, or whose stamps differ."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def file_stamp(root: Path, path: str) -> FileStamp | None:
    """Return the stamp of a file of the vault, or None when there is no readable file.

    A path with a symbolic link in any component is not a file of the vault, whatever its target.
    """
    try:
        descriptor = open_inside(root, path)
    except OSError:
        return None
    try:
        return FileStamp.of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def open_inside(root: Path, path: str) -> int:
    """Open a file of the vault for reading and return its descriptor, which the caller closes.

    Each component is opened relative to the previous one and none may be a symbolic link, so replacing a folder during
    the call cannot lead out of the vault.

    Raises:
        OSError: There is no file, it is not a regular file, or a component is a link.
    """
    *folders, name = path.split("/")
    if any(part in {"", ".", ".."} for part in (*folders, name)):
        raise FileNotFoundError(errno.ENOENT, "Not a path of a vault", path)
    plain = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, plain | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        descriptor = os.open(name, plain, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "Not a regular file", path)
    return descriptor


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _stamp(entry: os.DirEntry[str]) -> FileStamp | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return FileStamp.of(found) if stat.S_ISREG(found.st_mode) else None
