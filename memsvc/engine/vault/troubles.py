"""What of a vault's files deserves somebody's attention."""

from __future__ import annotations

import threading

from memsvc.domain.context import Severity
from memsvc.domain.diagnostics import Notice
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Taken, VaultAction
from memsvc.domain.vault_layout import user_folder

KEPT = 1_000
"""Files whose troubles are remembered."""
NAMED = 10
"""Files of one user that are named."""

_MILD = Severity.INFO
"""A file that somebody misspelt does not make the service sick."""
_CODES = {VaultAction.INVALID: "VAULT_FILE_INVALID", VaultAction.CONFLICT: "VAULT_CONFLICT"}
_ADVICE = {
    VaultAction.INVALID: "It was left alone; mend it, and it is taken.",
    VaultAction.CONFLICT: "Both are kept, as revisions too; put together what you need and remove the other file.",
}


class VaultWarnings:
    """The files that could not be taken, or were in conflict, until they are taken without."""

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        self._found: dict[str, Taken] = {}

    def note(self, taken: Taken) -> bool:
        """Note what came of a file, and return whether that is a trouble that was not known."""
        with self._lock:
            known = self._found.get(taken.path)
            if known is not None and known.action is VaultAction.CONFLICT and taken.action is VaultAction.UNCHANGED:
                # That nothing happened since does not settle it.
                return False
            self._found.pop(taken.path, None)
            if taken.action not in _CODES or not taken.detail:
                return False
            if len(self._found) < KEPT:
                self._found[taken.path] = taken
            return known != taken

    def of(self, scope: Scope) -> list[Notice]:
        """Return what about the files of the user of *scope* deserves attention, by path; nobody else's are named."""
        folder = f"{user_folder(scope)}/"
        with self._lock:
            own = sorted((taken for path, taken in self._found.items() if path.startswith(folder)), key=_path)
        found = [Notice(_CODES[one.action], _sentence(one)) for one in own[:NAMED]]
        if len(own) > NAMED:
            found.append(Notice("VAULT_FILE_INVALID", f"{len(own) - NAMED} more files of the vault need a look."))
        return found

    def count(self) -> list[Notice]:
        """Return how many files of everybody deserve attention, without naming any."""
        with self._lock:
            actions = [taken.action for taken in self._found.values()]
        return [
            Notice(
                code, f"{count} files of the vault need a look; the log and GetStats of their users name them.", _MILD
            )
            for action, code in _CODES.items()
            if (count := actions.count(action))
        ]


def _path(taken: Taken) -> str:
    return taken.path


def _sentence(taken: Taken) -> str:
    where = f"{taken.path}, line {taken.line}" if taken.line else taken.path
    return f"{where}: {taken.detail} {_ADVICE[taken.action]}"
