"""Git commits of what happened to the files of a vault (requirement V4)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dulwich.errors import NotGitRepository

from memsvc.engine.vault.repository import (
    Files,
    RepositoryBusyError,
    RepositoryUnfitError,
    Signature,
    commit_files,
    counted,
)

MOST_FILES = 2_000
"""Files of one commit, so that the index is not held for long."""
SHOWN = 20
"""Files named in a message."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitForm:
    """What commits look like.

    Attributes:
        message: The first line; "{summary}" in it stands for what happened, such as "2 added, 1 changed".
    """

    signature: Signature
    message: str


class GitCommits:
    """Collects the files that changed and commits them together, when asked to. Nothing here ever fails a write.

    What cannot be committed, because somebody merges, say, waits for the next time.
    """

    def __init__(self, root: Path, form: CommitForm, now: Callable[[], datetime]) -> None:
        """Commit files of *root*; *now* is the clock."""
        self._root = root
        self._form = form
        self._now = now
        self._lock = threading.Lock()
        self._working = threading.Lock()
        self._pending: set[str] = set()
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Return why the last commit was not made; empty when nothing was in the way."""
        return self._trouble

    @property
    def waiting(self) -> int:
        """Return how many files wait to be committed."""
        return len(self._pending)

    def note(self, paths: Iterable[str]) -> None:
        """Note that these files were written, changed or removed. To be called by any thread; costs next to nothing."""
        with self._lock:
            self._pending.update(paths)

    def commit(self) -> int:
        """Commit what was noted, and return how many files were committed."""
        done = 0
        with self._working:
            while taken := self._taken():
                try:
                    files = commit_files(
                        self._root, taken, signature=self._form.signature, message=self._message, now=self._now()
                    )
                except (RepositoryBusyError, RepositoryUnfitError) as error:
                    self._put_off(taken, str(error))
                    break
                except (NotGitRepository, OSError, ValueError, KeyError, AssertionError) as error:
                    # Dulwich says by these that a repository is damaged, or of a form that it does not know.
                    self._put_off(taken, f"{type(error).__name__}: {error}")
                    break
                self._trouble = ""
                done += len(files)
        return done

    def _taken(self) -> list[str]:
        with self._lock:
            taken = sorted(self._pending)[:MOST_FILES]
            self._pending.difference_update(taken)
        return taken

    def _put_off(self, paths: Iterable[str], trouble: str) -> None:
        self.note(paths)
        if trouble != self._trouble:
            log.warning("changes of the vault wait to be committed to Git: %s", trouble)
        self._trouble = trouble

    def _message(self, files: Files) -> str:
        summary = ", ".join(f"{count} {sort}" for sort, count in counted(files).items())
        marked = [
            *(f"A {path}" for path in files.added),
            *(f"M {path}" for path in files.changed),
            *(f"D {path}" for path in files.removed),
        ]
        more = [f"and {len(marked) - SHOWN} more"] if len(marked) > SHOWN else []
        return "\n".join([self._form.message.replace("{summary}", summary), "", *marked[:SHOWN], *more])
