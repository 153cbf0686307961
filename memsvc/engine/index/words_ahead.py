"""Bringing changes into the index of words alone, while that of meanings, or the model, is away."""

from __future__ import annotations

from collections.abc import Callable

from memsvc.engine.index.applying import Applying
from memsvc.ports.feed import IndexFeed

PAGE = 512
"""Changes written between two commits of the index."""


class WordsAhead:
    """Keeps searches by words fresh when the changes cannot be applied whole.

    The changes stay pending: once the model is back they are applied from the first one on, words too, so that nothing
    depends on what was written ahead. Between processes on one store, what another one wrote a moment later may be
    replaced until then.
    """

    def __init__(self, feed: IndexFeed, applying: Applying) -> None:
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
            rows = list(dict.fromkeys(change.row for change in changes))
            self._applying.write_words(rows, self._feed.documents(rows))
            position = self._position = changes[-1].position
        return position
