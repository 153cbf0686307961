"""Read-only transcripts of sessions, one file per session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field
from memsvc.domain.memory import Kind, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.vault import FileResult, NoteError, NoteFormat, VaultAction, VaultEntry
from memsvc.domain.vault_layout import ABSENT, path_key, transcript_path
from memsvc.engine.vault.file_status import scope_of
from memsvc.engine.vault.filesystem import UNWRITABLE, digest_of, is_full, reason_of
from memsvc.engine.vault.note_import import VaultContext, ignore_result
from memsvc.ports.features import Transcript
from memsvc.text.vault_notes import file_bytes, is_transcript

PAGE = 500
MAX_FAILURES = 1_000
"""Failed transcripts that are repeated; those beyond it are written by the next synchronisation."""
READ_ONLY = (
    "> 由会话生成，只读：对本文件的修改不会写回。\n"
    "> Made from the session and read only: edits of this file are not taken back."
)


class Transcripts:
    """A writer of session transcripts."""

    def __init__(self, context: VaultContext, on_result: Callable[[FileResult], None] = ignore_result) -> None:
        """Use *context*, whose lock the caller holds.

        *on_result* is called with each transcript that cannot be written, and when a later attempt succeeds.
        """
        self._context = context
        self._on_result = on_result
        self._failures: dict[Scope, str] = {}
        """The paths of transcripts that could not be written, by session."""

    def show(self, said: Transcript, *, dry_run: bool = False, forced: bool = False) -> FileResult | None:
        """Write the transcript of a session if it changed; return the action, None: nothing was done.

        An edited file, and one with later messages than the session has, is renamed to a conflict path first. A session
        without remaining messages has no file. A file that cannot be written is reported as INVALID, see `retry`.

        Raises:
            VaultGoneError: The vault does not exist, or is another one.
            OSError: The disk is full or read-only.
        """
        entry = self._context.manifest.of_session(said.scope)
        if entry is not None and entry.revision == said.stamp and not forced:
            return None
        messages = [message for message in self._messages(said.scope) if message.status not in ABSENT]
        if not messages:
            return None if entry is None else self._remove(entry, dry_run=dry_run)
        data = _render_transcript(said, messages, self._context.form)
        path = self._path(said, entry)
        present = self._present(path)
        after = VaultEntry(
            path, said.scope.owner, said.scope.project_id, digest_of(data), said.stamp, "", "", said.scope.session_id
        )
        if dry_run:
            return None if present == after.digest else FileResult(path, VaultAction.WRITTEN)
        if present != after.digest:
            try:
                if present is not None and self._is_kept(path, present, entry, data):
                    self._context.folder.rename(path, self._context.folder.free_conflict_path(path, f"t{said.stamp}"))
                self._context.folder.write_all([(path, data)])
            except OSError as error:
                return self._failed(said.scope, path, error)
        if entry != after:
            self._context.manifest.record([after])
        self._note_success(said.scope)
        return None if present == after.digest else FileResult(path, VaultAction.WRITTEN)

    def retry(self) -> list[FileResult]:
        """Repeat the operations that failed; return the actions.

        Raises:
            VaultGoneError: The vault does not exist, or is another one.
            OSError: The disk is full or read-only.
        """
        return [taken for scope in list(self._failures) if (taken := self.show_session(scope)) is not None]

    def _failed(self, scope: Scope, path: str, error: OSError) -> FileResult:
        """Report a transcript that cannot be written, moved or removed.

        Raises:
            OSError: No other file can be written either.
        """
        self._context.require_vault()
        if is_full(error):
            raise error
        if len(self._failures) < MAX_FAILURES:
            self._failures[scope] = path
        detail = f"{UNWRITABLE} ({reason_of(error)}); it tries again every minute."
        failed = FileResult(path, VaultAction.INVALID, detail=detail)
        self._on_result(failed)
        return failed

    def _note_success(self, scope: Scope) -> None:
        path = self._failures.pop(scope, None)
        if path is not None:
            self._on_result(FileResult(path, VaultAction.UNCHANGED))

    def _is_kept(self, path: str, present: str, entry: VaultEntry | None, data: bytes) -> bool:
        """Return whether the existing file is kept under another path, as an edited one and one with later messages.

        A file without an entry, as in an unknown vault, may be an earlier state of the transcript, which is replaced;
        so is a state with messages that were deleted since. A folder stays where it is.
        """
        if (self._context.folder.root / path).is_dir():
            return False
        if entry is not None:
            return present != entry.digest
        try:
            found = self._context.folder.read(path) or b""
        except NoteError:
            return True
        return not is_transcript(found) or _body(found).startswith(_body(data))

    def show_session(self, scope: Scope) -> FileResult | None:
        """Write the current transcript of the session of *scope*."""
        plain = replace(scope, agent_id="")
        messages = self._messages(plain)
        if not messages:
            entry = self._context.manifest.of_session(plain)
            if entry is not None:
                return self._remove(entry, dry_run=False)
            self._note_success(plain)
            return None
        first = min(message.create_time for message in messages)
        stamp = max(to_micros(message.update_time) for message in messages)
        return self.show(Transcript(plain, first, stamp, messages[0].row), forced=True)

    def of_project(self, owner: str, project_id: str) -> list[Scope]:
        """Return the sessions of a project that have transcripts."""
        found: list[Scope] = []
        after = ""
        while page := self._context.manifest.page(owner=owner, after=after, limit=PAGE):
            after = path_key(page[-1].path)
            found += [
                replace(scope_of(owner, project_id), session_id=entry.session_id)
                for entry in page
                if entry.session_id and entry.project_id == project_id
            ]
        return found

    def _path(self, said: Transcript, entry: VaultEntry | None) -> str:
        if entry is not None:
            return entry.path
        paths = transcript_path(said.scope, said.first_time)
        known = self._context.manifest.at(paths)
        return next((path for path in paths if path_key(path) not in known), paths[-1])

    def _remove(self, entry: VaultEntry, *, dry_run: bool) -> FileResult:
        if dry_run:
            return FileResult(entry.path, VaultAction.REMOVED)
        scope = replace(scope_of(entry.owner, entry.project_id), session_id=entry.session_id)
        try:
            if self._present(entry.path) not in {None, entry.digest}:
                kept = self._context.folder.free_conflict_path(entry.path, f"t{entry.revision}")
                self._context.folder.rename(entry.path, kept)
            self._context.folder.remove(entry.path)
        except OSError as error:
            return self._failed(scope, entry.path, error)
        self._context.manifest.record(removed=[entry.path])
        self._note_success(scope)
        return FileResult(entry.path, VaultAction.REMOVED)

    def _present(self, path: str) -> str | None:
        return self._context.folder.digest(path)

    def _messages(self, scope: Scope) -> list[Memory]:
        """Return all messages of a session, including deleted ones, in write order."""
        where = And((AnyOf(Field.SESSION_ID, (scope.session_id,)), AnyOf(Field.KIND, (Kind.MESSAGE.value,))))
        rows = self._context.reads.rows_where(where, reach=Reach(scope.owner, (scope.project_id,)))
        found: list[Memory] = []
        for start in range(0, len(rows), PAGE):
            self._context.search_priority.yield_to_searches()
            found += self._context.manifest.present(rows[start : start + PAGE])
        return sorted(found, key=lambda memory: memory.row)


def _body(data: bytes) -> bytes:
    """Return the messages of a transcript, without the end of the file."""
    return data.partition(b"\n---\n")[2].rstrip()


def _render_transcript(said: Transcript, messages: list[Memory], form: NoteFormat) -> bytes:
    front: dict[str, Any] = {
        **({"type": "Transcript"} if form is NoteFormat.OKF else {}),
        "session": said.scope.session_id,
        "read_only": True,
        "first_time": said.first_time,
        "messages": len(messages),
    }
    parts = [READ_ONLY]
    for message in messages:
        moment = message.moment.strftime("%Y-%m-%d %H:%M:%S")
        parts.append(f"## {moment} {message.speaker or 'unknown'}\n\n{message.content}")
    return file_bytes(front, "\n\n".join(parts))
