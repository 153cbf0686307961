"""What an erasure does about the files of the data directory: they are cleared, and looked through for what is left."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from memsvc.domain.errors import BackendUnavailableError
from memsvc.engine.user_data.erasure_receipts import ErasureJournal
from memsvc.engine.user_data.residue_scan import ResidueScan, search_files
from memsvc.ports.operations import ErasureReads

QUICK_BYTES = 512 * 1024 * 1024
"""The store's files are written anew after every erasure when they are no larger: writers wait some three seconds."""
OWNER_BYTES = 8
"""A shorter name of an owner is found in any large file by chance, so that it is not looked for."""
PAUSE_SECONDS = 0.2
SETTLE_TRIES = 25

log = logging.getLogger(__name__)


class StorageScrubber:
    """Clears the files of what was removed.

    A database leaves copies of entries in pages that they were moved from, also of such as were removed long before the
    erasure, so that nobody knows any more what to look for. Only writing it anew is sure to remove them. A large one,
    whose writers would have to wait for long, is written anew when the search finds something, above all the owner's
    name, which nearly all entries of tables and indexes have; and when the name is none that a search can tell.
    """

    def __init__(
        self, erasures: ErasureReads, directory: Path, without: Sequence[Path], pause: threading.Event
    ) -> None:
        """Clear *directory* but for the folders *without*; when *pause* is set, nothing is waited for."""
        self._erasures = erasures
        self._directory = directory
        self._without = without
        self._pause = pause

    def run(self, owner: str, notes: ErasureJournal) -> ResidueScan:
        """Clear the files of all that was removed, and return what a search of them finds afterwards.

        Raises:
            BackendUnavailableError: They cannot be rewritten or read.
        """
        is_telling = len(owner.encode()) >= OWNER_BYTES
        is_rewritten = not notes.is_empty and self._is_due(is_telling=is_telling)
        if is_rewritten:
            self._erasures.rewrite()
        self.settle()
        needles = (*notes.ids, *notes.samples, *((owner,) if is_telling else ()))
        search = self._search(needles)
        if not search.holding:
            return search
        own = [needle for needle in needles if not self._is_of_others(needle, owner, notes)]
        search = self._search(own)
        # Whether a name that is part of another's was found, or that other one, cannot be told.
        if search.holding or (is_telling and owner not in own and not is_rewritten):
            log.warning("files may still hold what was erased, and are written anew: %s", ", ".join(search.holding))
            self._erasures.rewrite()
            self.settle()
            search = self._search(own)
        return search

    def settle(self) -> None:
        """Bring what was removed out of the log of changes, unless somebody reads an older state for long."""
        for _ in range(SETTLE_TRIES):
            if self._erasures.settle() or self._pause.wait(PAUSE_SECONDS):
                return

    def _is_due(self, *, is_telling: bool) -> bool:
        """Return whether the store is written anew whatever a search would find."""
        files = [path.resolve() for path in self._erasures.files() if path.exists()]
        if not files:
            return False
        is_searched = all(path.is_relative_to(self._directory.resolve()) for path in files)
        return not (is_telling and is_searched) or sum(path.stat().st_size for path in files) <= QUICK_BYTES

    def _is_of_others(self, needle: str, owner: str, notes: ErasureJournal) -> bool:
        """Return whether it is no wonder that *needle* is found: what others say, too, is theirs."""
        if needle == owner:
            return self._erasures.is_part_of_others(owner)
        return needle in notes.samples and self._erasures.is_elsewhere(needle)

    def _search(self, needles: Sequence[str]) -> ResidueScan:
        try:
            return search_files(self._directory, needles, without=self._without)
        except OSError as error:
            raise BackendUnavailableError("files") from error
