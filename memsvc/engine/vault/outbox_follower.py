"""A writer thread that follows the outbox and exports changes to files in commit order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from memsvc.domain.errors import BackendClosedError
from memsvc.domain.index_entries import Change, ChangeAction
from memsvc.domain.scope import Scope
from memsvc.domain.vault import FileResult
from memsvc.domain.vault_layout import is_said
from memsvc.engine.vault.filesystem import without_message
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import VaultContext
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.ports.change_feed import IndexFeed

GROUP = 256
"""Changes whose files are written in one group."""
IDLE_SECONDS = 1.0
GATHER_SECONDS = 0.2
"""Time for which changes are gathered: the cost per file is lower in a group."""
REST, REST_SECONDS = 3.0, 2.0
"""Pause after a group while memories are being written: a multiple of the group's duration, and its maximum."""
RETRY_SECONDS = 60.0
"""Interval of attempts to write single files that could not be written."""
BACKOFF_SECONDS = (0.5, 1.0, 5.0, 30.0)

log = logging.getLogger(__name__)


class ChangesLostError(Exception):
    """The next changes do not bring the vault up to date: it is too far behind the outbox, or was emptied."""


class OutboxFollower:
    """A follower of the outbox that applies changes in steps and resumes at the recorded position after a crash."""

    def __init__(
        self, context: VaultContext, feed: IndexFeed, exporter: NoteExporter, transcripts: Transcripts
    ) -> None:
        """Follow *feed*."""
        self._context = context
        self._feed = feed
        self._exporter = exporter
        self._transcripts = transcripts
        self._waiting: dict[tuple[str, str, str], Scope] = {}

    def step(self) -> list[FileResult] | None:
        """Write the files of the next changes; return the actions, None: there were no changes.

        Transcripts are written when there are no more changes, so that a long import writes each of them once.

        Raises:
            ChangesLostError: The next changes are no longer in the outbox, or the vault was emptied: a synchronisation
                recovers them.
            VaultGoneError: The vault does not exist, or is another one.
            OSError: The vault cannot be written to.
        """
        with self._context.lock:
            state = self._context.manifest.state()
            changes = self._feed.changes_after(state.position, limit=GROUP) if state is not None else []
            # Asked after the changes were read: what was trimmed in between is not missed.
            if state is not None and self._feed.kept_after() > state.position:
                raise ChangesLostError
            if not changes:
                return self._export_transcripts()
            self._context.require_vault()
            if self._context.is_emptied():
                # A single file in it would make the missing ones removals.
                raise ChangesLostError
            return self._export_changes(changes)

    def retry(self) -> list[FileResult]:
        """Repeat the operations on files that failed; return the actions.

        Raises:
            VaultGoneError: The vault does not exist, or is another one.
            OSError: The vault cannot be written to.
        """
        with self._context.lock:
            return self._exporter.retry() + self._transcripts.retry()

    def behind(self) -> int:
        """Return the number of changes that are not written yet."""
        state = self._context.manifest.state()
        return 0 if state is None else max(0, self._feed.head_position() - state.position)

    def _export_changes(self, changes: Sequence[Change]) -> list[FileResult]:
        memories = self._context.manifest.present([change.row for change in changes])
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
        done = self._remove_purged(gone) if gone else []
        own = sorted((one for one in memories if not is_said(one)), key=lambda one: one.row)
        return done + self._exporter.show(own, position=changes[-1].position)

    def _remove_purged(self, memory_ids: Sequence[str]) -> list[FileResult]:
        """Remove the files of purged memories, and purged messages from the transcripts."""
        entries = self._context.manifest.of(memory_ids)
        done = self._exporter.hide(list(entries.values()))
        for owner, project in self._context.manifest.places_of_purged(one for one in memory_ids if one not in entries):
            for scope in self._transcripts.of_project(owner, project):
                taken = self._transcripts.show_session(scope)
                done += [] if taken is None else [taken]
        return done

    def _export_transcripts(self) -> list[FileResult] | None:
        if not self._waiting:
            return None
        place, scope = next(iter(self._waiting.items()))
        taken = self._transcripts.show_session(scope)
        del self._waiting[place]
        return [] if taken is None else [taken]


class VaultWorker:
    """The writer thread: runs *begin*, then follows the outbox whenever there are changes."""

    def __init__(self, follower: OutboxFollower, begin: Callable[[Callable[[], bool]], None]) -> None:
        """Run *follower*; *begin* gets a function that returns whether to stop."""
        self._follower = follower
        self._begin = begin
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vault-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the current group, and stop; the next start resumes there."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def nudge(self) -> None:
        """Signal that there are new changes."""
        self._wake.set()

    def _run(self) -> None:
        if not self._retry(lambda: self._begin(self._stopping.is_set)):
            return
        retry_at = time.monotonic() + RETRY_SECONDS
        while not self._stopping.is_set():
            if not self._retry(self._drain):
                return
            if time.monotonic() >= retry_at:
                if not self._retry(self._follower.retry):
                    return
                retry_at = time.monotonic() + RETRY_SECONDS
            if self._wake.wait(IDLE_SECONDS):
                # Gathers changes that are close together into one group.
                self._stopping.wait(GATHER_SECONDS)
            self._wake.clear()

    def _drain(self) -> None:
        try:
            while not self._stopping.is_set():
                behind, started = self._follower.behind(), time.perf_counter()
                if self._follower.step() is None:
                    return
                if self._follower.behind() > behind - GROUP:
                    # Memories are being written: three quarters of the time are left to that.
                    self._stopping.wait(min(REST * (time.perf_counter() - started), REST_SECONDS))
        except ChangesLostError:
            self._begin(self._stopping.is_set)

    def _retry(self, work: Callable[[], object]) -> bool:
        """Retry *work* until it succeeds; return False when the service stops before."""
        failures = 0
        while not self._stopping.is_set():
            try:
                work()
            except BackendClosedError:
                return False
            except Exception as error:  # noqa: BLE001 - logged
                log.error("the vault could not be brought up to date; retrying: %s", without_message(error))  # noqa: TRY400
                self._stopping.wait(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                failures += 1
            else:
                return True
        return False
