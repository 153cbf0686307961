"""Two-way synchronisation of files and memories."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias

from memsvc.domain.scope import Scope
from memsvc.domain.vault import FileResult, VaultAction, VaultEntry, VaultProgress, VaultSummary
from memsvc.domain.vault_layout import path_key, user_folder
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import NoteImporter, VaultContext
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.ports.change_feed import IndexFeed

PAGE = 200
"""Files or memories processed per batch."""
PATIENCE_SECONDS = 0.5

SyncEvent: TypeAlias = FileResult | VaultProgress | VaultSummary
QUIET = frozenset({VaultAction.UNCHANGED, VaultAction.IGNORED})
"""Actions that are not reported."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The options of a synchronisation.

    Attributes:
        scope: Limits the run to the files of its user; None: all users.
        is_forced: Files that differ from their rendered memories are rewritten, and missing ones are written again
            instead of deleting their memories. Edited files are imported before that in any case.
        is_dry: Nothing is changed; the planned actions are reported.
    """

    scope: Scope | None = None
    is_forced: bool = False
    is_dry: bool = False

    @property
    def owner(self) -> str | None:
        """Return the owner whose files are synchronised; None: all."""
        return None if self.scope is None else self.scope.owner


@dataclass(slots=True)
class _SyncTally:
    files: int = 0
    claimed: set[str] = field(default_factory=set)
    counts: Counter[VaultAction] = field(default_factory=Counter)

    def report(self, taken: FileResult) -> Iterator[FileResult]:
        if taken.action not in QUIET:
            self.counts[taken.action] += 1
            yield taken


class VaultSync:
    """The synchronisation use case; one run at a time, the others wait."""

    def __init__(
        self,
        context: VaultContext,
        feed: IndexFeed,
        importer: NoteImporter,
        exporter: NoteExporter,
        transcripts: Transcripts,
    ) -> None:
        """Use *context*; *feed* gives the position that a run brings the vault to."""
        self._context = context
        self._feed = feed
        self._importer = importer
        self._exporter = exporter
        self._transcripts = transcripts
        self._running = threading.Lock()

    def run(self, plan: SyncPlan) -> Generator[SyncEvent, None, None]:
        """Synchronise files and memories; yield the actions, the progress, and at the end the summary.

        Changes of files are imported first, so that none is overwritten. Completed actions are kept when the iteration
        ends early.

        Raises:
            VaultGoneError: The vault does not exist.
            BackendUnavailableError: The store cannot be reached.
        """
        while not self._running.acquire(timeout=PATIENCE_SECONDS):
            yield VaultProgress("waiting", 0)
        try:
            yield from self._run(plan)
        finally:
            self._running.release()

    def _run(self, plan: SyncPlan) -> Iterator[SyncEvent]:
        head = self._feed.settled_position()
        is_new = self._require_vault(is_dry=plan.is_dry)
        tally = _SyncTally()
        yield from self._files(plan, tally)
        if not is_new or not plan.is_dry:
            yield from self._import_removals(plan, tally)
        yield from self._memories(plan, tally, is_new=is_new)
        yield from self._remove_purged(plan, tally)
        yield from self._sessions(plan, tally)
        if plan.owner is None and not plan.is_dry:
            with self._context.lock:
                state = self._context.manifest.state()
                if state is not None and state.position < head:
                    self._context.manifest.record(position=head)
        counts = {action: tally.counts[action] for action in VaultAction if tally.counts[action]}
        state = self._context.manifest.state()
        behind = self._feed.head_position() - state.position if state is not None else 0
        yield VaultSummary(tally.files, self._context.manifest.count(owner=plan.owner), behind, counts)

    def _require_vault(self, *, is_dry: bool) -> bool:
        """Reset the manifest for a vault that is unknown or was emptied; return whether it is one."""
        vault_id = self._context.folder.vault_id()
        state = self._context.manifest.state()
        if state is not None and state.vault_id == vault_id and not self._context.is_emptied():
            return False
        if not is_dry:
            with self._context.lock:
                self._context.manifest.begin(vault_id)
        return True

    def _files(self, plan: SyncPlan, tally: _SyncTally) -> Iterator[SyncEvent]:
        """Import new and edited files."""
        below = "" if plan.scope is None else user_folder(plan.scope)
        paths = self._context.folder.notes(below)
        while part := list(islice(paths, PAGE)):
            tally.files += len(part)
            for taken in self._importer.preview(part, tally.claimed) if plan.is_dry else self._importer.take_all(part):
                yield from tally.report(taken)
            yield VaultProgress("files", tally.files)
        for path, advice in self._context.folder.unusable_paths(below):
            yield from tally.report(FileResult(path, VaultAction.INVALID, detail=advice))

    def _import_removals(self, plan: SyncPlan, tally: _SyncTally) -> Iterator[SyncEvent]:
        """Import the removal of files; when forced, they are written again later."""
        after, seen = "", 0
        while page := self._context.manifest.page(owner=plan.owner, after=after, limit=PAGE):
            after, seen = path_key(page[-1].path), seen + len(page)
            gone = [entry.path for entry in page if not self._context.folder.exists(entry.path)]
            if gone and not plan.is_forced:
                self._context.require_vault()
                for taken in (
                    self._importer.preview(gone, tally.claimed) if plan.is_dry else self._importer.take_all(gone)
                ):
                    yield from tally.report(taken)
            yield VaultProgress("missing", seen)
        if not plan.is_dry:
            self._forget_missing_copies(plan)

    def _forget_missing_copies(self, plan: SyncPlan) -> None:
        after = ""
        while page := self._context.manifest.copies(owner=plan.owner, after=after, limit=PAGE):
            after = path_key(page[-1].path)
            self._context.require_vault()
            if gone := [copy.path for copy in page if not self._context.folder.exists(copy.path)]:
                self._context.manifest.record_copies(removed=gone)

    def _memories(self, plan: SyncPlan, tally: _SyncTally, *, is_new: bool) -> Iterator[SyncEvent]:
        """Write the memories whose files are out of date."""
        after, seen, forced = 0, 0, plan.is_forced or (is_new and plan.is_dry)
        listing = partial(self._context.manifest.behind, owner=plan.owner, limit=PAGE, every=forced)
        while memories := listing(after_row=after):
            with self._context.lock:
                # Read again under the lock, when no other thread writes files.
                fresh = self._context.manifest.present([memory.row for memory in memories])
                fresh.sort(key=lambda memory: memory.row)
                done = self._exporter.show(fresh, forced=forced, dry_run=plan.is_dry)
            after, seen = memories[-1].row, seen + len(memories)
            for taken in done:
                yield from tally.report(taken)
            yield VaultProgress("memories", seen)

    def _remove_purged(self, plan: SyncPlan, tally: _SyncTally) -> Iterator[SyncEvent]:
        """Remove the files of purged memories."""
        after = ""
        while page := self._context.manifest.entries_without_memory(owner=plan.owner, after=after, limit=PAGE):
            after = path_key(page[-1].path)
            with self._context.lock:
                done = self._exporter.hide(page, dry_run=plan.is_dry)
            for taken in done:
                yield from tally.report(taken)

    def _sessions(self, plan: SyncPlan, tally: _SyncTally) -> Iterator[SyncEvent]:
        after, seen = 0, 0
        while page := self._context.manifest.transcripts(owner=plan.owner, after_row=after, limit=PAGE):
            after = page[-1].row
            for said in page:
                with self._context.lock:
                    taken = self._transcripts.show(said, dry_run=plan.is_dry, forced=plan.is_forced)
                seen += 1
                yield from () if taken is None else tally.report(taken)
            yield VaultProgress("sessions", seen)


def forget_user(context: VaultContext, scope: Scope) -> None:
    """Remove all files of a user, including those without manifest entries.

    Raises:
        VaultGoneError: The vault is not there, or another one is: the files of the user may still exist.
        OSError: A file cannot be removed.
    """
    with context.lock:
        context.require_vault()
        context.folder.remove_tree(user_folder(scope))
        _forget(context, scope.owner)


def _forget(context: VaultContext, owner: str) -> None:
    while page := context.manifest.page(owner=owner, after="", limit=PAGE):
        context.manifest.record(removed=_paths(page))
    while copies := context.manifest.copies(owner=owner, after="", limit=PAGE):
        context.manifest.record_copies(removed=[copy.path for copy in copies])


def _paths(entries: Sequence[VaultEntry]) -> list[str]:
    return [entry.path for entry in entries]
