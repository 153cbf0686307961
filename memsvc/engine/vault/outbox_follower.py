"""The writer: one thread that follows the outbox, so that files show what is stored, in the order of the commits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from memsvc.domain.errors import BackendClosedError
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Taken
from memsvc.domain.vault_layout import is_said
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import VaultContext
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.ports.change_feed import IndexFeed

GROUP = 256
"""Changes whose files are written together."""
IDLE_SECONDS = 1.0
GATHER_SECONDS = 0.2
"""How long a change waits for others: a write of one file costs more than one of many does for each."""
REST, REST_SECONDS = 3.0, 2.0
"""So many times as long as a group took the writer rests while memories are being written, but no longer than this."""
BACKOFF_SECONDS = (0.5, 1.0, 5.0, 30.0)

log = logging.getLogger(__name__)


class ChangesLostError(Exception):
    """The vault has not followed for so long that the outbox is of no use."""


class OutboxFollower:
    """Brings the vault up to the newest change, step by step; what was done before a crash is not done again."""

    def __init__(self, desk: VaultContext, feed: IndexFeed, showing: NoteExporter, transcripts: Transcripts) -> None:
        """Follow *feed*."""
        self._desk = desk
        self._feed = feed
        self._showing = showing
        self._transcripts = transcripts
        self._waiting: dict[tuple[str, str, str], Scope] = {}

    def step(self) -> list[Taken] | None:
        """Write what the next changes call for; return what was done, None: there were none.

        Transcripts are written when there are no more changes, so that a long import writes each of them once.

        Raises:
            ChangesLostError: The next changes are no longer kept: a synchronisation finds what they were.
            VaultGoneError: The vault is not there.
            OSError: It cannot be written.
        """
        with self._desk.lock:
            state = self._desk.book.state()
            changes = self._feed.since(state.position, limit=GROUP) if state is not None else []
            if state is not None and self._is_gap(state.position, changes):
                raise ChangesLostError
            if not changes:
                return self._transcribed()
            self._desk.folder.vault_id()
            return self._shown(changes)

    def behind(self) -> int:
        """Return how many changes are still to be written."""
        state = self._desk.book.state()
        return 0 if state is None else max(0, self._feed.head() - state.position)

    def _is_gap(self, position: int, changes: Sequence[Change]) -> bool:
        """Return whether changes after *position* are no longer kept: positions follow one another."""
        return changes[0].position > position + 1 if changes else self._feed.head() > position

    def _shown(self, changes: Sequence[Change]) -> list[Taken]:
        memories = self._desk.book.present([change.row for change in changes])
        for memory in memories:
            if is_said(memory):
                scope = memory.scope
                self._waiting.setdefault((scope.owner, scope.project_id, scope.session_id), scope)
        there = {memory.id for memory in memories}
        gone = [
            change.memory_id
            for change in changes
            if change.action is ChangeAction.PURGED and change.memory_id and change.memory_id not in there
        ]
        done = self._gone(gone) if gone else []
        own = sorted((one for one in memories if not is_said(one)), key=lambda one: one.row)
        return done + self._showing.show(own, position=changes[-1].position)

    def _gone(self, memory_ids: Sequence[str]) -> list[Taken]:
        """Remove the files of purged memories; what was said by them goes from the transcripts."""
        entries = self._desk.book.of(memory_ids)
        done = self._showing.hide(list(entries.values()))
        for owner, project in self._desk.book.purged(one for one in memory_ids if one not in entries):
            for scope in self._transcripts.of_project(owner, project):
                taken = self._transcripts.show_session(scope)
                done += [] if taken is None else [taken]
        return done

    def _transcribed(self) -> list[Taken] | None:
        if not self._waiting:
            return None
        place, scope = next(iter(self._waiting.items()))
        taken = self._transcripts.show_session(scope)
        del self._waiting[place]
        return [] if taken is None else [taken]


class VaultWorker:
    """Runs the writer: first whatever *begin* does, then step by step, whenever there are changes."""

    def __init__(self, following: OutboxFollower, begin: Callable[[Callable[[], bool]], None]) -> None:
        """Follow by *following*; *begin* is told how to know that it shall stop."""
        self._following = following
        self._begin = begin
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vault-writer", daemon=True)

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the part under way, and stop; the next start goes on."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def nudge(self) -> None:
        """Say that there are new changes."""
        self._wake.set()

    def _run(self) -> None:
        if not self._tried(lambda: self._begin(self._stopping.is_set)):
            return
        while not self._stopping.is_set():
            if not self._tried(self._drain):
                return
            if self._wake.wait(IDLE_SECONDS):
                # Files of changes that come close together are written together.
                self._stopping.wait(GATHER_SECONDS)
            self._wake.clear()

    def _drain(self) -> None:
        try:
            while not self._stopping.is_set():
                behind, started = self._following.behind(), time.perf_counter()
                if self._following.step() is None:
                    return
                if self._following.behind() > behind - GROUP:
                    # Somebody is writing: three quarters of the time are theirs.
                    self._stopping.wait(min(REST * (time.perf_counter() - started), REST_SECONDS))
        except ChangesLostError:
            self._begin(self._stopping.is_set)

    def _tried(self, work: Callable[[], None]) -> bool:
        """Do *work* until it succeeds; return False when the service stops before."""
        failures = 0
        while not self._stopping.is_set():
            try:
                work()
            except BackendClosedError:
                return False
            except Exception:
                log.exception("the vault could not be brought up to date and will be tried again")
                self._stopping.wait(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                failures += 1
            else:
                return True
        return False
