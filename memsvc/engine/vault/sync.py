"""Synchronising: what files and memories say is compared, both ways, and brought together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias

from memsvc.domain.scope import Scope
from memsvc.domain.vault import Entry, Taken, VaultAction, VaultProgress, VaultSummary
from memsvc.domain.vault_layout import path_key, user_folder
from memsvc.engine.vault.filesystem import VaultGoneError
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import NoteImporter, VaultContext
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.ports.change_feed import IndexFeed

PAGE = 200
"""Files or memories looked at while others wait for the vault."""
PATIENCE_SECONDS = 0.5

Event: TypeAlias = Taken | VaultProgress | VaultSummary
QUIET = frozenset({VaultAction.UNCHANGED, VaultAction.IGNORED})
"""What is not told of."""


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What to synchronise, and how.

    Attributes:
        scope: Only the files of its user; None: of everybody.
        is_forced: Files are written anew where they differ from what would be written, and missing ones are written
            again instead of deleting their memories. What was edited is taken back before, as ever.
        is_dry: Nothing is changed; what would be done is told.
    """

    scope: Scope | None = None
    is_forced: bool = False
    is_dry: bool = False

    @property
    def owner(self) -> str | None:
        """Return whose files are synchronised."""
        return None if self.scope is None else self.scope.owner


_MISNAMED = "Its name, or that of a folder on the way, is not UTF-8: rename it, and it is taken."


@dataclass(slots=True)
class _Tally:
    files: int = 0
    claimed: set[str] = field(default_factory=set)
    counts: Counter[VaultAction] = field(default_factory=Counter)

    def told(self, taken: Taken) -> Iterator[Taken]:
        if taken.action not in QUIET:
            self.counts[taken.action] += 1
            yield taken


class Sync:
    """Synchronises; one run at a time, the others wait."""

    def __init__(
        self, desk: VaultContext, feed: IndexFeed, taking: NoteImporter, showing: NoteExporter, transcripts: Transcripts
    ) -> None:
        """Work at *desk*; *feed* says up to where the vault is then."""
        self._desk = desk
        self._feed = feed
        self._taking = taking
        self._showing = showing
        self._transcripts = transcripts
        self._running = threading.Lock()

    def run(self, plan: SyncPlan) -> Generator[Event, None, None]:
        """Bring files and memories together; tell what was done, how far it is, and at the end the summary.

        What a person did to files comes first, so that nothing is written over it. What was done stays done when the
        iteration ends early.

        Raises:
            VaultGoneError: The vault is not there.
            BackendUnavailableError: The store cannot be reached.
        """
        while not self._running.acquire(timeout=PATIENCE_SECONDS):
            yield VaultProgress("waiting", 0)
        try:
            yield from self._run(plan)
        finally:
            self._running.release()

    def _run(self, plan: SyncPlan) -> Iterator[Event]:
        head = self._feed.head()
        is_new = self._require_vault(is_dry=plan.is_dry)
        tally = _Tally()
        yield from self._files(plan, tally)
        if not is_new or not plan.is_dry:
            yield from self._missing(plan, tally)
        yield from self._memories(plan, tally)
        yield from self._lost(plan, tally)
        yield from self._sessions(plan, tally)
        if plan.owner is None and not plan.is_dry:
            with self._desk.lock:
                state = self._desk.book.state()
                if state is not None and state.position < head:
                    self._desk.book.record(position=head)
        counts = {action: tally.counts[action] for action in VaultAction if tally.counts[action]}
        state = self._desk.book.state()
        behind = self._feed.head() - state.position if state is not None else 0
        yield VaultSummary(tally.files, self._desk.book.count(owner=plan.owner), behind, counts)

    def _require_vault(self, *, is_dry: bool) -> bool:
        """Begin anew with a vault that the store does not know; return whether that is so."""
        vault_id = self._desk.folder.vault_id()
        state = self._desk.book.state()
        if state is not None and state.vault_id == vault_id:
            return False
        if not is_dry:
            with self._desk.lock:
                self._desk.book.begin(vault_id)
        return True

    def _files(self, plan: SyncPlan, tally: _Tally) -> Iterator[Event]:
        """Take back what is new or was edited."""
        below = "" if plan.scope is None else user_folder(plan.scope)
        paths = self._desk.folder.notes(below)
        while part := list(islice(paths, PAGE)):
            tally.files += len(part)
            for taken in self._taking.preview(part, tally.claimed) if plan.is_dry else self._taking.take_all(part):
                yield from tally.told(taken)
            yield VaultProgress("files", tally.files)
        for path in self._desk.folder.misnamed(below):
            yield from tally.told(Taken(path, VaultAction.INVALID, detail=_MISNAMED))

    def _missing(self, plan: SyncPlan, tally: _Tally) -> Iterator[Event]:
        """Take back that files are gone; when forced they are written again."""
        after, seen = "", 0
        while page := self._desk.book.page(owner=plan.owner, after=after, limit=PAGE):
            after, seen = path_key(page[-1].path), seen + len(page)
            gone = [entry.path for entry in page if not self._desk.folder.exists(entry.path)]
            if gone and not plan.is_forced:
                self._desk.folder.vault_id()
                for taken in self._taking.preview(gone, tally.claimed) if plan.is_dry else self._taking.take_all(gone):
                    yield from tally.told(taken)
            yield VaultProgress("missing", seen)

    def _memories(self, plan: SyncPlan, tally: _Tally) -> Iterator[Event]:
        """Write what files do not show."""
        after, seen = 0, 0
        listing = partial(self._desk.book.behind, owner=plan.owner, limit=PAGE, every=plan.is_forced)
        while memories := listing(after_row=after):
            with self._desk.lock:
                # As they are once nobody else writes files.
                fresh = self._desk.book.present([memory.row for memory in memories])
                fresh.sort(key=lambda memory: memory.row)
                done = self._showing.show(fresh, anew=plan.is_forced, dry_run=plan.is_dry)
            after, seen = memories[-1].row, seen + len(memories)
            for taken in done:
                yield from tally.told(taken)
            yield VaultProgress("memories", seen)

    def _lost(self, plan: SyncPlan, tally: _Tally) -> Iterator[Event]:
        """Remove files of memories that are gone for good."""
        after = ""
        while page := self._desk.book.lost(owner=plan.owner, after=after, limit=PAGE):
            after = path_key(page[-1].path)
            with self._desk.lock:
                done = self._showing.hide(page, dry_run=plan.is_dry)
            for taken in done:
                yield from tally.told(taken)

    def _sessions(self, plan: SyncPlan, tally: _Tally) -> Iterator[Event]:
        after, seen = 0, 0
        while page := self._desk.book.said(owner=plan.owner, after_row=after, limit=PAGE):
            after = page[-1].row
            for said in page:
                with self._desk.lock:
                    taken = self._transcripts.show(said, dry_run=plan.is_dry, anew=plan.is_forced)
                seen += 1
                yield from () if taken is None else tally.told(taken)
            yield VaultProgress("sessions", seen)


def forget_user(desk: VaultContext, scope: Scope) -> None:
    """Remove all files of a user, those that the vault does not know too.

    Raises:
        OSError: Something cannot be removed.
    """
    with desk.lock:
        try:
            desk.folder.vault_id()
        except VaultGoneError:
            return
        desk.folder.remove_tree(user_folder(scope))
        _forget(desk, scope.owner)


def _forget(desk: VaultContext, owner: str) -> None:
    while page := desk.book.page(owner=owner, after="", limit=PAGE):
        desk.book.record(removed=_paths(page))


def _paths(entries: Sequence[Entry]) -> list[str]:
    return [entry.path for entry in entries]
