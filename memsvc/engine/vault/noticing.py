"""What the watcher notices is taken into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memsvc.domain.vault import Taken
from memsvc.engine.vault.filesystem import VaultGoneError
from memsvc.engine.vault.tree import TreeMissingError


class ChangeImporter:
    """Takes files that changed."""

    def __init__(self, take: Callable[[Iterable[str]], Iterator[Taken]]) -> None:
        """Take files by *take*: see `Taking.take_all`."""
        self._take = take

    def present(self, paths: Sequence[str]) -> None:
        """Take these files, which are there.

        Raises:
            TreeMissingError: The folder is not the vault's, so nothing in it means anything.
            BackendUnavailableError: The store cannot be reached now.
        """
        try:
            for _ in self._take(paths):
                pass
        except VaultGoneError as error:
            raise TreeMissingError(*error.args) from error

    def gone(self, paths: Sequence[str]) -> None:
        """Take it that these files are gone; raise as `present` does."""
        self.present(paths)
