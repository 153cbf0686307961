"""Export of memories to files: written after changes, moved with the memory's path, removed with the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from memsvc.domain.memory import Memory
from memsvc.domain.vault import FileResult, NoteError, VaultAction, VaultEntry
from memsvc.domain.vault_layout import (
    NoteLocation,
    has_file,
    location_of,
    parse_note_path,
    path_key,
    root_of,
    user_folder,
)
from memsvc.engine.vault.file_status import scope_of
from memsvc.engine.vault.filesystem import UNWRITABLE, digest_of, is_full, reason_of
from memsvc.engine.vault.note_import import NoteImporter, VaultContext, ignore_result
from memsvc.text.vault_notes import read_note, render_note

PAGE = 500
GROUP_BYTES = 4_000_000
"""Bytes written before a sync to the disk."""

MAX_FAILURES = 10_000
"""Failed files that are repeated; those beyond it are written by the next synchronisation."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A file that could not be written, and the row of its memory; 0: the memory was purged."""

    path: str
    row: int = 0


@dataclass(slots=True)
class _FileOperations:
    """The operations for one group of memories: moves, writes, removals and new manifest entries."""

    unknown: _UnknownNotes
    moved: list[tuple[VaultEntry, VaultEntry]] = field(default_factory=list)
    """The entry of a file, and the entry of the same file at its new path."""
    files: list[tuple[str, bytes]] = field(default_factory=list)
    over: dict[str, str | None] = field(default_factory=dict)
    """The digest of the existing file by path; None: there is none."""
    removed: list[tuple[str, str, str]] = field(default_factory=list)
    """Path to remove, the digest that the file must have, and the path in the result."""
    kept_versions: list[tuple[str, str]] = field(default_factory=list)
    entries: list[VaultEntry] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    done: list[FileResult] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    """Path keys that are assigned to memories."""
    size: int = 0
    edited: dict[str, str] = field(default_factory=dict)
    """Paths of files that a person changed or removed since, by the path key of the result."""
    imported: set[str] = field(default_factory=set)
    """Memories whose files were imported."""
    failed: set[str] = field(default_factory=set)
    """Path keys of results of operations that failed."""

    full_error: OSError | None = None
    """The error of a full or read-only disk."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reasons of failures by path key."""

    def is_open(self, path: str) -> bool:
        """Return whether nothing prevented the operations of the result of *path* so far."""
        return path_key(path) not in self.failed and path_key(path) not in self.edited

    def write(self, path: str, data: bytes) -> None:
        self.files.append((path, data))
        self.size += len(data)


class NoteExporter:
    """An idempotent writer of memories to files."""

    def __init__(
        self,
        context: VaultContext,
        importer: NoteImporter,
        on_result: Callable[[FileResult], None] = ignore_result,
    ) -> None:
        """Use *context*; files that a person changed are imported with *importer*.

        *on_result* is called with the result of each file that cannot be written, and when a later attempt succeeds,
        and of each edited file that is kept under another path.
        """
        self._context = context
        self._importer = importer
        self._on_result = on_result
        self._failures: dict[str, _Failure] = {}

    def show(
        self, memories: Sequence[Memory], *, forced: bool = False, dry_run: bool = False, position: int | None = None
    ) -> list[FileResult]:
        """Write the files of *memories*, and remove those of memories without files; return the actions.

        Files of the current revision are not touched; with *forced* they are compared byte by byte. A file that cannot
        be written is reported as INVALID, see `retry`. The *position* is recorded with the last group. The caller holds
        the context's lock.

        Raises:
            VaultGoneError: The vault does not exist, or is another one.
            OSError: The disk is full or read-only, and nothing of a group was written.
        """
        done, imported = self._show(memories, forced=forced, dry_run=dry_run, position=position)
        if imported and not dry_run:
            # Files of these memories were edited or moved: what they did not show before the import is written now.
            fresh = self._context.manifest.present([memory.row for memory in memories if memory.id in imported])
            done += self._show(fresh, forced=False, dry_run=False, position=None)[0]
        return done

    def _show(
        self, memories: Sequence[Memory], *, forced: bool, dry_run: bool, position: int | None
    ) -> tuple[list[FileResult], set[str]]:
        """Return the actions, and the ids of the memories whose files were imported."""
        entries = self._context.manifest.of([memory.id for memory in memories])
        places = {memory.id: location_of(memory) for memory in memories if has_file(memory)}
        known = self._context.manifest.at(
            path for one, place in places.items() if _must_move(entries.get(one), place) for path in place.paths
        )
        unknown = _UnknownNotes(self._context)
        operations, done, imported = _FileOperations(unknown), [], set[str]()
        for memory in memories:
            self._context.search_priority.yield_to_searches()
            entry, place = entries.get(memory.id), places.get(memory.id)
            if entry is not None and place is not None and (moved := self._moved_path(memory, entry, place, unknown)):
                operations.done.append(FileResult(moved, VaultAction.CONFLICT, memory.id))
            else:
                self._one(operations, memory, place, entry, known, forced=forced)
            if operations.size >= GROUP_BYTES:
                done += self._apply_operations(operations, dry_run=dry_run)
                imported |= operations.imported
                operations = _FileOperations(unknown, taken=operations.taken)
        done += self._apply_operations(operations, dry_run=dry_run, position=position)
        for memory in memories:
            if memory.id in self._failures:
                self._failures[memory.id] = replace(self._failures[memory.id], row=memory.row)
        return done, imported | operations.imported

    def retry(self) -> list[FileResult]:
        """Repeat the operations that failed; return the actions. The caller holds the context's lock.

        Raises:
            VaultGoneError: The vault does not exist, or is another one.
            OSError: The disk is full or read-only, and nothing of a group was written.
        """
        if not self._failures:
            return []
        failures, self._failures = self._failures, {}
        try:
            memories = self._context.manifest.present([failure.row for failure in failures.values()])
            purged = failures.keys() - {memory.id for memory in memories}
            done = self.show(memories) + self.hide(list(self._context.manifest.of(purged).values()))
        except BaseException:
            self._failures = failures | self._failures
            raise
        for memory_id in failures.keys() - self._failures.keys():
            self._on_result(FileResult(failures[memory_id].path, VaultAction.UNCHANGED, memory_id))
        return done

    def hide(self, entries: Sequence[VaultEntry], *, dry_run: bool = False) -> list[FileResult]:
        """Remove the files of *entries*, whose memories no longer exist."""
        operations = _FileOperations(_UnknownNotes(self._context))
        for entry in entries:
            self._hide(operations, entry)
        return self._apply_operations(operations, dry_run=dry_run)

    def _one(
        self,
        operations: _FileOperations,
        memory: Memory,
        place: NoteLocation | None,
        entry: VaultEntry | None,
        known: Mapping[str, VaultEntry],
        *,
        forced: bool,
    ) -> None:
        if place is None:
            if entry is not None:
                self._hide(operations, entry)
        elif entry is None or _must_move(entry, place):
            self._write_new_path(operations, memory, place, entry, known)
        elif forced or entry.revision != memory.revision:
            self._rewrite(operations, memory, entry)

    def _moved_path(self, memory: Memory, entry: VaultEntry, place: NoteLocation, unknown: _UnknownNotes) -> str | None:
        """Return where a person moved the file of a memory that differs from its entry; None: it was not moved."""
        is_behind = entry.revision != memory.revision or _must_move(entry, place)
        return unknown.of(entry) if is_behind and not self._context.folder.exists(entry.path) else None

    def _rewrite(self, operations: _FileOperations, memory: Memory, entry: VaultEntry) -> None:
        """Rewrite a file in place, unless a person changed it."""
        rendered = render_note(memory, self._context.form)
        digest = digest_of(rendered)
        after = replace(entry, digest=digest, revision=memory.revision)
        present = self._present(entry)
        if present is None or present == entry.digest:
            if present != digest:
                operations.write(entry.path, rendered)
                operations.over[entry.path] = present
                operations.done.append(FileResult(entry.path, VaultAction.WRITTEN, memory.id))
            if after != entry or present is None:
                operations.entries.append(after)
        elif present == digest:
            operations.entries.append(after)
        else:
            operations.done.append(FileResult(entry.path, VaultAction.CONFLICT, memory.id))

    def _write_new_path(
        self,
        operations: _FileOperations,
        memory: Memory,
        place: NoteLocation,
        entry: VaultEntry | None,
        known: Mapping[str, VaultEntry],
    ) -> None:
        """Write a new file, or move the file to a new path and rewrite it there."""
        present = None if entry is None else self._present(entry)
        if entry is not None and present not in {None, entry.digest}:
            operations.done.append(FileResult(entry.path, VaultAction.CONFLICT, memory.id))
            return
        rendered = render_note(memory, self._context.form)
        path = self._free_path(operations, memory, place, known, rendered)
        operations.taken.add(path_key(path))
        operations.write(path, rendered)
        owner, project = memory.scope.owner, memory.scope.project_id
        after = VaultEntry(path, owner, project, digest_of(rendered), memory.revision, place.anchor, memory.id)
        operations.entries.append(after)
        is_free = not self._context.folder.exists(path)
        if is_free:
            operations.over[path] = None
        if entry is not None and entry.path != path:
            if present is not None and (is_free or self._context.folder.is_same_file(entry.path, path)):
                operations.moved.append((entry, replace(entry, path=path, anchor=place.anchor)))
                operations.over[path] = entry.digest
            else:
                operations.removed.append((entry.path, entry.digest, path))
            operations.done.append(FileResult(path, VaultAction.MOVED, memory.id, detail=f"from {entry.path}"))
        else:
            operations.done.append(FileResult(path, VaultAction.WRITTEN, memory.id))

    def _free_path(
        self,
        operations: _FileOperations,
        memory: Memory,
        place: NoteLocation,
        known: Mapping[str, VaultEntry],
        rendered: bytes,
    ) -> str:
        """Return the first of the memory's paths that belongs to no other memory and holds no unknown file."""
        for path in place.paths:
            key = path_key(path)
            holder = known.get(key)
            if key in operations.taken or (holder is not None and holder.memory_id != memory.id):
                continue
            if holder is not None or not self._context.folder.exists(path):
                return path
            try:
                # A file written by the service before a crash, but not yet recorded.
                if self._context.folder.read(path) == rendered:
                    return path
            except NoteError:
                continue
        # All of them hold unknown files: a unique fallback name.
        return fallback_path(place, memory)

    def _hide(self, operations: _FileOperations, entry: VaultEntry) -> None:
        """Remove a file; one that a person changed is kept under a conflict path, which is not imported."""
        operations.forgotten.append(entry.path)
        present = self._present(entry)
        if present is None and (moved := operations.unknown.of(entry)):
            entry = replace(entry, path=moved)
            present = self._present(entry)
        if present is not None and present != entry.digest:
            kept = self._context.folder.free_conflict_path(entry.path, f"r{entry.revision}")
            operations.kept_versions.append((entry.path, kept))
            operations.done.append(
                FileResult(entry.path, VaultAction.CONFLICT, entry.memory_id, detail=f"Kept as {kept}.", kept_path=kept)
            )
        else:
            operations.removed.append((entry.path, entry.digest, entry.path))
            operations.done.append(FileResult(entry.path, VaultAction.REMOVED, entry.memory_id))

    def _present(self, entry: VaultEntry) -> str | None:
        """Return the digest of the current file; None: there is none. A link in its place counts as changed."""
        try:
            data = self._context.folder.read(entry.path)
        except NoteError:
            return ""
        return None if data is None else digest_of(data)

    def _apply_operations(
        self, operations: _FileOperations, *, dry_run: bool, position: int | None = None
    ) -> list[FileResult]:
        """Move, write and remove files, and record them. After a crash in between, repeating the steps is idempotent.

        A file that cannot be moved, written or removed keeps its entry, and so differs from its memory until a later
        attempt succeeds.
        """
        if dry_run:
            return operations.done
        self._move_files(operations)
        self._remove_files(operations)
        self._write_files(operations)
        if operations.full_error is not None and all(
            path_key(one.path) in operations.failed for one in operations.done
        ):
            raise operations.full_error
        entries = [entry for entry in operations.entries if operations.is_open(entry.path)]
        forgotten = [path for path in operations.forgotten if operations.is_open(path)]
        if entries or forgotten or position is not None:
            self._context.manifest.record(entries, removed=forgotten, position=position)
        return [self._result_of(operations, one) for one in operations.done]

    def _result_of(self, operations: _FileOperations, planned: FileResult) -> FileResult:
        """Return the result of an operation, after importing the file if a person changed it."""
        key = path_key(planned.path)
        is_edited = planned.action is VaultAction.CONFLICT and not planned.detail
        if is_edited or key in operations.edited:
            taken = self._importer.take(operations.edited.get(key, planned.path))
            if taken.action is not VaultAction.INVALID:
                operations.imported.add(planned.memory_id)
            elif taken.detail.startswith(UNWRITABLE):
                self._note_failure(planned)
            return taken
        if key in operations.failed:
            detail = f"{UNWRITABLE} ({operations.reasons[key]}); it tries again every minute."
            failed = replace(planned, action=VaultAction.INVALID, detail=detail, kept_path="")
            self._note_failure(planned)
            self._on_result(failed)
            return failed
        if planned.action is VaultAction.CONFLICT:
            self._on_result(planned)
        return planned

    def _note_failure(self, planned: FileResult) -> None:
        if len(self._failures) < MAX_FAILURES:
            self._failures[planned.memory_id] = _Failure(planned.path)

    def _move_files(self, operations: _FileOperations) -> None:
        """Move files, and record that before they are rewritten."""
        moved: list[VaultEntry] = []
        for before, after in operations.moved:
            with self._failure_at(operations, after.path):
                if self._context.folder.move(before.path, after.path, before.digest):
                    moved.append(after)
                else:
                    operations.edited[path_key(after.path)] = before.path
        if moved:
            self._context.manifest.record(moved)

    def _remove_files(self, operations: _FileOperations) -> None:
        for path, other in operations.kept_versions:
            with self._failure_at(operations, path):
                self._context.folder.rename(path, other)
        for path, digest, result in operations.removed:
            with self._failure_at(operations, result):
                self._context.folder.remove(path, digest)

    def _write_files(self, operations: _FileOperations) -> None:
        files = [(path, data) for path, data in operations.files if operations.is_open(path)]
        if not files:
            return
        try:
            edited = self._context.folder.write_all(files, operations.over)
        except OSError:
            edited = []
            for path, data in files:
                with self._failure_at(operations, path):
                    edited += self._context.folder.write_all([(path, data)], operations.over)
        operations.edited |= {path_key(path): path for path in edited}

    @contextmanager
    def _failure_at(self, operations: _FileOperations, path: str) -> Iterator[None]:
        """Record an operation as failed when it raises an OSError.

        Raises:
            VaultGoneError: The vault does not exist, or is another one.
        """
        try:
            yield
        except OSError as error:
            self._context.require_vault()
            operations.failed.add(path_key(path))
            operations.reasons[path_key(path)] = reason_of(error)
            if is_full(error):
                operations.full_error = error


class _UnknownNotes:
    """Notes without manifest entries, such as those that a person moved; each user's folder is read once."""

    def __init__(self, context: VaultContext) -> None:
        self._context = context
        self._paths: dict[str, dict[tuple[str, str], str]] = {}

    def of(self, entry: VaultEntry) -> str | None:
        """Return the path of the note with the memory or the digest of *entry* in the same project."""
        if entry.owner not in self._paths:
            self._paths[entry.owner] = dict(self._find(user_folder(scope_of(entry.owner, ""))))
        paths, root = self._paths[entry.owner], root_of(scope_of(entry.owner, entry.project_id))
        return paths.get((root, entry.memory_id)) or paths.get((root, entry.digest))

    def _find(self, folder: str) -> Iterator[tuple[tuple[str, str], str]]:
        notes = self._context.folder.notes(folder)
        while paths := list(islice(notes, PAGE)):
            known = self._context.manifest.at(paths)
            for path in paths:
                place = parse_note_path(path)
                if place is None or (path_key(path) in known and known[path_key(path)].path == path):
                    continue
                try:
                    data = self._context.folder.read(path) or b""
                    memory_id = read_note(data, self._context.form).memory_id
                except NoteError:
                    continue
                yield (place.root, memory_id or digest_of(data)), path


def fallback_path(place: NoteLocation, memory: Memory) -> str:
    """Return a path that is unique to this revision of the memory."""
    return f"{place.folder}/{memory.id}-r{memory.revision}.md"


def _must_move(entry: VaultEntry | None, place: NoteLocation) -> bool:
    return entry is None or entry.anchor != place.anchor
