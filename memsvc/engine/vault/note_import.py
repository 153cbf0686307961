"""Import of files: changes made to a file by a person or by Git become changes of its memory."""

from __future__ import annotations

import errno
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
    MemoryExistsError,
    MemsvcError,
    RevisionConflictError,
)
from memsvc.domain.memory import Kind, Layer, Memory, Origin, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.three_way_merge import MergedFields, is_same, merge_fields
from memsvc.domain.vault import FileResult, MergedNote, Note, NoteFormat, VaultAction, VaultEntry, differences
from memsvc.domain.vault_layout import TENANTS, USERS, fields_of_name, location_of, path_key
from memsvc.domain.write_requests import Draft, OnDuplicate, Outcome, Patch, PatchValue, WriteOptions, WriteResult
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.memories.update import MemoryUpdater
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.vault.file_status import FileInspector, FileStatus, copy_of, fields_of_move
from memsvc.engine.vault.filesystem import (
    UNWRITABLE,
    VaultFilesystem,
    VaultGoneError,
    digest_of,
    is_full,
    reason_of,
)
from memsvc.ports.features import VaultManifest
from memsvc.ports.metadata import MemoryReads
from memsvc.text.vault_notes import note_of, render_note

AGENT = "vault"
"""The agent id of memories written from files."""
BATCH = 64
"""Files imported while the vault's lock is held."""
ATTEMPTS = 4
"""Attempts to import a file whose memory is changed concurrently."""
_STATUS_OF_NEW = frozenset({Status.ARCHIVED, Status.QUARANTINED})
_MOST: Mapping[str, int] = {
    "content": limits.CONTENT,
    "summary": limits.SUMMARY,
    "tags": limits.TAGS,
    "related_ids": limits.RELATED_IDS,
    "file_refs": limits.FILE_REFS,
    "keywords": limits.KEYWORDS,
}


@dataclass(frozen=True, slots=True)
class VaultContext:
    """The vault's folder, its manifest, and the use cases that write memories.

    Attributes:
        lock: Serialises inspections of files and the actions that follow from them.
        form: The format of the files.
    """

    folder: VaultFilesystem
    manifest: VaultManifest
    reads: MemoryReads
    memory_creator: MemoryCreator
    memory_updater: MemoryUpdater
    search_priority: SearchPriority
    lock: threading.RLock
    form: NoteFormat = NoteFormat.MEMSVC

    def require_vault(self) -> None:
        """Require the vault of the manifest.

        Raises:
            VaultGoneError: The folder holds no vault, or another one: its files must not be interpreted or changed.
        """
        vault_id, state = self.folder.vault_id(), self.manifest.state()
        if state is not None and state.vault_id != vault_id:
            raise VaultGoneError(errno.ESTALE, "the folder holds another vault")

    def is_emptied(self) -> bool:
        """Return whether no note exists although the manifest knows some, so that missing ones are no removals.

        The removal of a single known note from its folder is one.
        """
        if next(self.folder.notes(), None) is not None:
            return False
        known = self.manifest.count(owner=None)
        return known > 1 or (known == 1 and not any(map(self.folder.exists, (USERS, TENANTS))))


def ignore_result(taken: FileResult) -> None:
    """Ignore the result of a file."""
    del taken


class NoteImporter:
    """An idempotent importer of files, one after the other."""

    def __init__(
        self, context: VaultContext, merge: MergeStrategy, on_result: Callable[[FileResult], None] = ignore_result
    ) -> None:
        """Use *context*; *merge* resolves concurrent changes, *on_result* is called with each result."""
        self._context = context
        self._merge = merge
        self._on_result = on_result
        self._inspector = FileInspector(context.folder, context.manifest, context.reads, context.form)

    def take(self, path: str) -> FileResult:
        """Apply the current state of one file to its memory, and return the action.

        The file may be new, edited, moved or removed; *path* is relative to the vault, with "/". A file that cannot be
        imported is reported and left unchanged.

        Raises:
            VaultGoneError: The vault does not exist, was emptied, or is another one.
            BackendUnavailableError: The store cannot be reached.
        """
        [taken] = self.take_all([path])
        return taken

    def take_all(self, paths: Iterable[str]) -> Iterator[FileResult]:
        """Import several files; existing files come before removed ones, so that moves are recognised.

        Raises:
            VaultGoneError: The vault does not exist, was emptied, or is another one.
            BackendUnavailableError: The store cannot be reached.
        """
        known = list(dict.fromkeys(paths))
        self._context.require_vault()
        present = {path for path in known if self._context.folder.exists(path)}
        ordered = sorted(known, key=lambda path: path not in present)
        for start in range(0, len(ordered), BATCH):
            with self._context.lock:
                self._require_vault(ordered[start : start + BATCH])
                done = self._import_files(ordered[start : start + BATCH])
            for taken in done:
                self._on_result(taken)
            yield from done

    def _require_vault(self, paths: Sequence[str]) -> None:
        self._context.require_vault()
        if not all(map(self._context.folder.exists, paths)) and self._context.is_emptied():
            raise VaultGoneError(errno.ENOENT, "the vault was emptied; a synchronisation fills it")

    def preview(self, paths: Iterable[str], claimed: set[str]) -> Iterator[FileResult]:
        """Return the actions that `take_all` would take, as far as they can be predicted.

        *claimed* collects the memories whose files exist, for previews of other paths.
        """
        known = list(dict.fromkeys(paths))
        present = {path for path in known if self._context.folder.exists(path)}
        for path in sorted(known, key=lambda path: path not in present):
            with self._context.lock:
                seen = self._inspector.look(path, claimed)
            if seen.data is not None and seen.memory is not None:
                claimed.add(seen.memory.id)
            yield _import_files(seen)

    def _import_files(self, paths: Sequence[str]) -> list[FileResult]:
        """Import files one by one, but create the memories of new ones in batches, which is faster."""
        done: dict[str, FileResult] = {}
        new: dict[str, FileStatus] = {}
        respelled: list[str] = []
        for path in paths:
            seen = self._inspector.look(path)
            if path_key(path) in new:
                respelled.append(path)
            elif _is_plainly_new(seen):
                new[path_key(path)] = seen
            else:
                done[path] = self._take(path, seen)
        done |= self._create_memories(list(new.values()))
        done |= {path: self._take(path) for path in respelled}
        return [done[path] for path in paths]

    def _create_memories(self, new: Sequence[FileStatus]) -> dict[str, FileResult]:
        """Create the memories of new files, in few transactions."""
        by_scope: dict[Scope, list[tuple[FileStatus, Draft]]] = {}
        for seen in new:
            scope, draft = self._draft_of(seen)
            by_scope.setdefault(scope, []).append((seen, draft))
        made: list[tuple[FileStatus, Memory]] = []
        for scope, drafts in by_scope.items():
            results = self._context.memory_creator.create_batch(
                scope, [draft for _, draft in drafts], WriteOptions(on_duplicate=OnDuplicate.REJECT)
            ).results
            made += [
                (seen, result.memory)
                for (seen, _), result in zip(drafts, results, strict=True)
                if isinstance(result, WriteResult) and result.outcome is Outcome.CREATED
            ]
        self._settle(made)
        done = {seen.path: replace(_import_files(seen), memory_id=memory.id) for seen, memory in made}
        # Rejected files and duplicates are imported one by one.
        return done | {seen.path: self._take(seen.path) for seen in new if seen.path not in done}

    def _take(self, path: str, looked: FileStatus | None = None) -> FileResult:
        for attempt in range(1, ATTEMPTS + 1):
            seen = self._inspector.look(path) if looked is None or attempt > 1 else looked
            try:
                return self._import_one(seen)
            except RevisionConflictError:
                if attempt == ATTEMPTS:
                    raise
            except (BackendUnavailableError, BackendClosedError):
                raise
            except MemsvcError as error:
                return replace(_import_files(seen), action=VaultAction.INVALID, detail=error.message)
            except OSError as error:
                self._require_passable(error)
                detail = f"{UNWRITABLE} ({reason_of(error)}); it tries again at the next synchronisation."
                return replace(_import_files(seen), action=VaultAction.INVALID, detail=detail)
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _require_passable(self, error: OSError) -> None:
        """Require that an error concerns one file alone.

        Raises:
            OSError: It concerns the whole vault: its folder is gone, or the disk is full or read-only.
        """
        self._context.require_vault()
        if is_full(error):
            raise error

    def _import_one(self, seen: FileStatus) -> FileResult:
        if seen.action in {VaultAction.IGNORED, VaultAction.INVALID}:
            self._note_copy(seen)
            return _import_files(seen)
        if seen.data is None:
            return self._without_file(seen)
        if seen.action is VaultAction.READ_ONLY:
            return _import_files(seen)
        if seen.action is VaultAction.CREATED:
            return self._create(seen)
        if seen.memory is None or seen.is_adopted:
            return self._same_file(seen)
        return self._change(seen, seen.memory)

    def _note_copy(self, seen: FileStatus) -> None:
        """Keep that a file is a copy, so that it does not bring back a memory that is deleted later."""
        copy = copy_of(seen)
        if copy is not None and self._context.manifest.copy_at(copy.path) != copy:
            self._context.manifest.record_copies([copy])

    def _same_file(self, seen: FileStatus) -> FileResult:
        if seen.entry is not None and (seen.entry.path != seen.path or seen.is_adopted):
            self._context.manifest.record([replace(seen.entry, path=seen.path)])
        return _import_files(seen)

    def _without_file(self, seen: FileStatus) -> FileResult:
        """Soft-delete the memory of a removed file, unless the memory was changed since the file was written."""
        if seen.action is VaultAction.DELETED and seen.memory is not None:
            scope = _scope_for(seen.memory)
            options = WriteOptions()
            memory = seen.memory
            self._context.memory_updater.delete(
                scope, memory.id, hard=False, expected_revision=memory.revision, options=options
            )
        if seen.entry is not None:
            self._context.manifest.record(removed=[seen.entry.path])
            return _import_files(seen)
        other = self._context.folder.other_spelling(seen.path)
        return _import_files(seen) if other is None else self._take(other)

    def _change(self, seen: FileStatus, memory: Memory) -> FileResult:
        patch, kept, note = dict(seen.patch or {}), "", _require_note(seen.note)
        if seen.action is VaultAction.RESTORED:
            memory = self._context.memory_updater.restore(
                _scope_for(memory), memory.id, expected_revision=memory.revision, options=WriteOptions()
            ).memory
        elif seen.is_behind:
            base = self._base(seen, memory)
            if base is not None and not differences(note, base, note_of(base)):
                # Only the path or the formatting was changed: the file is rewritten from the memory.
                patch = fields_of_move(seen, {})
                if not patch and seen.entry is not None:
                    self._context.manifest.record([replace(seen.entry, path=seen.path, digest=seen.digest)])
                    action = VaultAction.RENAMED if seen.has_moved else VaultAction.UNCHANGED
                    return replace(_import_files(seen), action=action)
            else:
                patch, kept = self._keep_other_version(seen, memory, self._merge.merge(base, note, memory))
                patch |= fields_of_move(seen, patch)
        if patch:
            memory = self._context.memory_updater.update(
                _scope_for(memory),
                memory_id=memory.id,
                key="",
                patch=Patch(patch),
                expected_revision=memory.revision,
                options=WriteOptions(),
            ).memory
        self._settle([(seen, memory)])
        action = VaultAction.UPDATED if seen.is_behind and not kept else seen.action
        detail = f"The other version is kept in {kept}." if kept else ""
        return replace(_import_files(seen), action=action, memory_id=memory.id, detail=detail, kept_path=kept)

    def _base(self, seen: FileStatus, memory: Memory) -> Memory | None:
        """Return the memory as the file had it when it was written."""
        if seen.entry is None:
            return None
        reach = Reach(memory.scope.owner, (memory.scope.project_id,))
        return self._context.reads.revision(memory.id, seen.entry.revision, reach=reach)

    def _keep_other_version(
        self, seen: FileStatus, memory: Memory, merged: MergedNote
    ) -> tuple[dict[str, PatchValue], str]:
        """Write the other version to a conflict file before any change; return the patch, and the path or ""."""
        if merged.other_version is None:
            return differences(merged.note, memory, note_of(memory)), ""
        data = render_note(merged.other_version, self._context.form)
        kept = self._context.folder.free_conflict_path(seen.path, f"r{merged.other_version.revision}", data)
        self._context.folder.write_all([(kept, data)])
        return differences(merged.note, memory, note_of(memory)), kept

    def _create(self, seen: FileStatus) -> FileResult:
        scope, draft = self._draft_of(seen)
        create = self._context.memory_creator.create
        try:
            memory = create(scope, draft, WriteOptions(on_duplicate=OnDuplicate.REJECT)).memory
        except MemoryExistsError as error:
            # The same content in two files is intended: both memories are kept.
            policy = OnDuplicate.KEEP_BOTH if self._has_file(error.memory_id) else OnDuplicate.RETURN_EXISTING
            memory = create(scope, draft, WriteOptions(on_duplicate=policy)).memory
        status = _require_note(seen.note).values.get("status")
        wanted = status if status in _STATUS_OF_NEW else None
        if wanted is None and seen.place is not None and seen.place.is_archived:
            wanted = Status.ARCHIVED
        if wanted is not None and memory.status is not wanted:
            patch = Patch({"status": wanted})
            memory = self._context.memory_updater.update(
                _scope_for(memory),
                memory_id=memory.id,
                key="",
                patch=patch,
                expected_revision=0,
                options=WriteOptions(),
            ).memory
        self._settle([(seen, memory)])
        return replace(_import_files(seen), memory_id=memory.id)

    def _has_file(self, memory_id: str) -> bool:
        entry = self._context.manifest.of([memory_id]).get(memory_id)
        return entry is not None and self._context.folder.exists(entry.path)

    def _draft_of(self, seen: FileStatus) -> tuple[Scope, Draft]:
        """Return the draft of a new memory from the file, with defaults from its folder and name."""
        note, place, scope = _require_note(seen.note), seen.place, seen.scope
        assert place is not None  # noqa: S101 - for the type checker: the file was read
        assert scope is not None  # noqa: S101
        given = {name: value for name, value in note.values.items() if name != "status"}
        if not note.memory_id:
            category, kind, title = fields_of_name(place.stem)
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
        """Record the entries of files, after rewriting those that differ from their memories.

        Files that cannot be written stay as they are.
        """
        files: list[tuple[str, bytes]] = []
        for seen, memory in changed:
            note = _require_note(seen.note)
            if note.memory_id != memory.id or differences(note, memory, note_of(memory)):
                rendered = render_note(memory, self._context.form)
                if rendered != seen.data:
                    files.append((seen.path, rendered))
        # Files saved since are skipped; their change is imported later, and merged with what they were written from.
        kept = self._rewrite(files, {seen.path: seen.digest for seen, _ in changed}) if files else []
        written = {path: digest_of(data) for path, data in files if path not in kept}
        if changed:
            self._context.manifest.record(
                [
                    _entry(seen, memory, written.get(seen.path, seen.digest), is_unmerged=seen.path in kept)
                    for seen, memory in changed
                ]
            )

    def _rewrite(self, files: Sequence[tuple[str, bytes]], over: Mapping[str, str | None]) -> list[str]:
        """Write files over those of the digests *over*, and return the paths of those that stay as they are."""
        try:
            return self._context.folder.write_all(files, over)
        except OSError as error:
            self._require_passable(error)
        kept = []
        for path, data in files:
            try:
                kept += self._context.folder.write_all([(path, data)], over)
            except OSError as error:
                self._require_passable(error)
                kept.append(path)
        return kept


def _is_plainly_new(seen: FileStatus) -> bool:
    """Return whether a file becomes a new memory without a key lookup or a status change."""
    if seen.action is not VaultAction.CREATED or seen.place is None or seen.note is None:
        return False
    is_named = seen.place.key or seen.note.values.get("key")
    return not (is_named or seen.place.is_archived or "status" in seen.note.values)


def _entry(seen: FileStatus, memory: Memory, digest: str, *, is_unmerged: bool = False) -> VaultEntry:
    """Return the new entry. A file stays at its path, unless the memory now belongs to another folder.

    With *is_unmerged* the file does not contain the concurrent change of the memory.
    """
    place = location_of(memory)
    stays = seen.has_moved or seen.memory is None or location_of(seen.memory).folder == place.folder
    old = "" if seen.memory is None else location_of(seen.memory).anchor
    anchor = place.anchor if stays else old
    owner, project = memory.scope.owner, memory.scope.project_id
    revision = seen.entry.revision if is_unmerged and seen.is_behind and seen.entry is not None else memory.revision
    return VaultEntry(seen.path, owner, project, digest, revision, anchor, memory.id)


def _require_note(note: Note | None) -> Note:
    assert note is not None  # noqa: S101 - for the type checker: the file was read
    return note


def _scope_for(memory: Memory) -> Scope:
    return replace(memory.scope, agent_id=AGENT)


def _heading(content: str) -> str:
    """Return the text of a level-1 heading in the first line, or ""."""
    first = content.lstrip().split("\n", 1)[0].strip()
    return first[2:].strip()[:512] if first.startswith("# ") else ""


def _subfolder(rest: tuple[str, ...]) -> str:
    return PurePosixPath(*rest[1:]).name[:64] if len(rest) > 1 else ""


def _import_files(seen: FileStatus) -> FileResult:
    memory_id = seen.memory.id if seen.memory is not None else seen.entry.memory_id if seen.entry is not None else ""
    return FileResult(seen.path, seen.action, memory_id, seen.line, seen.detail)


# Merge strategies for concurrent changes of a file and its memory.


class MergeStrategy(Protocol):
    """A strategy that merges two concurrent changes."""

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> MergedNote:
        """Return the merged memory.

        *base* is the memory at the revision that the file was written from, None when unknown; *note* is the current
        content of the file, *memory* that of the store. Text of the memory that is in neither *Merged.note* nor
        *Merged.other_version* is still kept as a revision.
        """
        ...


class KeepBothMerge:
    """A strategy in which the file wins; the other version is kept as a revision and a conflict file."""

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> MergedNote:
        """Return the file's version."""
        del base
        return MergedNote(note, memory)


class ThreeWayMerge:
    """A three-way merge of texts by lines and of other values by fields.

    The file wins conflicts, since the memory's version stays in its history.
    """

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> MergedNote:
        """Return the merged memory; in conflicts also the memory's version for a conflict file."""
        stored = note_of(memory).values
        if base is None:
            differs = any(not is_same(value, stored.get(name)) for name, value in note.values.items())
            return MergedNote(note, memory if differs else None)
        merged = _fit_limits(merge_fields(note_of(base).values, stored, note.values), note)
        whole = Note(merged.values, note.memory_id, note.agent_id, note.session_id)
        return MergedNote(whole, memory if merged.conflicts else None)


def _fit_limits(merged: MergedFields, theirs: Note) -> MergedFields:
    """Use the file's version of fields whose merged value exceeds a limit."""
    too_large = {name for name, value in merged.values.items() if not _fits(name, value)}
    values = {name: theirs.values[name] if name in too_large else value for name, value in merged.values.items()}
    return MergedFields(values, merged.conflicts | too_large)


def _fits(name: str, value: Any) -> bool:
    if name == "metadata":
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.METADATA_BYTES
    return name not in _MOST or len(value) <= _MOST[name]
