"""Read-only transcripts of sessions, one file per session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field
from memsvc.domain.memory import Kind, Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.vault import FileResult, NoteError, NoteFormat, VaultAction, VaultEntry
from memsvc.domain.vault_layout import ABSENT, conflict_path, path_key, transcript_path
from memsvc.engine.vault.file_status import scope_of
from memsvc.engine.vault.filesystem import digest_of
from memsvc.engine.vault.note_import import VaultContext
from memsvc.ports.features import Transcript
from memsvc.text.vault_notes import file_bytes

PAGE = 500
READ_ONLY = (
    "> 由会话生成，只读：对本文件的修改不会写回。\n"
    "> Made from the session and read only: edits of this file are not taken back."
)


class Transcripts:
    """A writer of session transcripts."""

    def __init__(self, context: VaultContext) -> None:
        """Use *context*, whose lock the caller holds."""
        self._context = context

    def show(self, said: Transcript, *, dry_run: bool = False, forced: bool = False) -> FileResult | None:
        """Write the transcript of a session if it changed; return the action, None: nothing was done.

        An edited file is renamed to a conflict path first. A session without remaining messages has no file.
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
            if entry is not None and present not in {None, entry.digest}:
                self._context.folder.rename(path, conflict_path(path, f"t{said.stamp}"))
            self._context.folder.write_all([(path, data)])
        if entry != after:
            self._context.manifest.record([after])
        return None if present == after.digest else FileResult(path, VaultAction.WRITTEN)

    def show_session(self, scope: Scope) -> FileResult | None:
        """Write the current transcript of the session of *scope*."""
        plain = replace(scope, agent_id="")
        messages = self._messages(plain)
        if not messages:
            entry = self._context.manifest.of_session(plain)
            return None if entry is None else self._remove(entry, dry_run=False)
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
        if not dry_run:
            if self._present(entry.path) not in {None, entry.digest}:
                self._context.folder.rename(entry.path, conflict_path(entry.path, f"t{entry.revision}"))
            self._context.folder.remove(entry.path)
            self._context.manifest.record(removed=[entry.path])
        return FileResult(entry.path, VaultAction.REMOVED)

    def _present(self, path: str) -> str | None:
        try:
            data = self._context.folder.read(path)
        except NoteError:
            return ""
        return None if data is None else digest_of(data)

    def _messages(self, scope: Scope) -> list[Memory]:
        """Return all messages of a session, including deleted ones, in write order."""
        where = And((AnyOf(Field.SESSION_ID, (scope.session_id,)), AnyOf(Field.KIND, (Kind.MESSAGE.value,))))
        rows = self._context.reads.rows_where(where, reach=Reach(scope.owner, (scope.project_id,)))
        found: list[Memory] = []
        for start in range(0, len(rows), PAGE):
            self._context.search_priority.yield_to_searches()
            found += self._context.manifest.present(rows[start : start + PAGE])
        return sorted(found, key=lambda memory: memory.row)


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
