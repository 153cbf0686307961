"""Bringing changes into the index of words alone, while that of meanings, or the model, is away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsvc.domain.index_entries import Change
from memsvc.engine.indexing.applying import ChangeApplier
from memsvc.ports.change_feed import IndexFeed

PAGE = 128
"""Changes written between two commits of the index; so many are lent at once also where processes share a store."""


class LexicalCatchUp:
    """Keeps searches by words fresh when the changes cannot be applied whole.

    The changes stay pending: once the model is back they are applied from the first one on, words too, so that nothing
    depends on what was written ahead. Between processes on one store, only what is lent to this one is written: what
    another one has, it applies itself, and what it has applied whole must not be replaced by an earlier state, for
    nobody would write it again.
    """

    def __init__(self, feed: IndexFeed, applying: ChangeApplier) -> None:
        self._feed = feed
        self._applying = applying
        self._position = 0

    def catch_up(self, applied: int, *, is_over: Callable[[], bool]) -> int:
        """Write what was changed after *applied*, and not here before; return up to which position words are found.

        Raises:
            BackendUnavailableError: The index of words is away, too.
        """
        position = max(self._position, applied)
        while not is_over() and (changes := self._feed.since(position, limit=PAGE)):
            self._write(changes)
            position = self._position = changes[-1].position
        return position

    def _write(self, changes: Sequence[Change]) -> None:
        wanted = {change.position for change in changes}
        with self._feed.claim(sorted(wanted), limit=PAGE) as lent:
            rows = list(dict.fromkeys(change.row for change in lent if change.position in wanted))
            if rows:
                self._applying.write_words(rows, self._feed.documents(rows))
