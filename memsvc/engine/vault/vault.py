"""The vault as the rest of the engine knows it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.vault import Taken
from memsvc.engine.vault.file_status import scope_of
from memsvc.engine.vault.merging import Merge
from memsvc.engine.vault.note_export import NoteExporter
from memsvc.engine.vault.note_import import NoteImporter, VaultContext
from memsvc.engine.vault.outbox_follower import OutboxFollower, VaultWorker
from memsvc.engine.vault.sync import Event, Sync, SyncPlan, forget_user
from memsvc.engine.vault.transcripts import Transcripts
from memsvc.ports.change_feed import IndexFeed


@dataclass(frozen=True, slots=True)
class Parts:
    """What a vault is made of."""

    desk: VaultContext
    taking: NoteImporter
    following: OutboxFollower
    sync: Sync


class Vault:
    """Memories as files, both ways. Safe to use from several threads."""

    def __init__(self, parts: Parts) -> None:
        """Work by *parts*; nothing happens by itself until `start`."""
        self._parts = parts
        self._thread = VaultWorker(parts.following, self._begin)

    @property
    def desk(self) -> VaultContext:
        """Return what the vault works with."""
        return self._parts.desk

    def start(self) -> None:
        """Synchronise, then follow the store, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; what is left is done after the next start."""
        self._thread.stop()

    def nudge(self) -> None:
        """Say that there are new changes; returns at once."""
        self._thread.nudge()

    def sync(self, plan: SyncPlan) -> Generator[Event, None, None]:
        """Synchronise: see `Sync.run`.

        Raises:
            BackendUnavailableError: The vault is not there, or the store cannot be reached.
        """
        try:
            yield from self._parts.sync.run(plan)
        except OSError as error:
            raise BackendUnavailableError("vault") from error

    def take(self, paths: Iterable[str]) -> Iterator[Taken]:
        """Take files back: see `NoteImporter.take_all`."""
        return self._parts.taking.take_all(paths)

    def follow(self) -> None:
        """Write all that is committed by now, in this thread; for those who run without `start`."""
        while self._parts.following.step() is not None:
            pass

    def forget(self, owner: str) -> None:
        """Remove all files of a user.

        Raises:
            BackendUnavailableError: They cannot be removed; nothing else of the vault was changed.
        """
        try:
            forget_user(self._parts.desk, scope_of(owner, ""))
        except OSError as error:
            raise BackendUnavailableError("vault") from error

    def behind(self) -> int:
        """Return how many changes are still to be written."""
        return self._parts.following.behind()

    def _begin(self, is_stopping: Callable[[], bool]) -> None:
        for _ in self._parts.sync.run(SyncPlan()):
            if is_stopping():
                return


def _untold(taken: Taken) -> None:
    del taken


def assembled(desk: VaultContext, feed: IndexFeed, merge: Merge, told: Callable[[Taken], None] = _untold) -> Vault:
    """Make a vault; *told* hears what came of each file that was taken back."""
    taking = NoteImporter(desk, merge, told)
    showing, transcripts = NoteExporter(desk, taking), Transcripts(desk)
    following = OutboxFollower(desk, feed, showing, transcripts)
    return Vault(Parts(desk, taking, following, Sync(desk, feed, taking, showing, transcripts)))
