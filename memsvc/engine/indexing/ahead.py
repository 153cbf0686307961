"""Embedding what is written next while what comes before it is being written: the model is what takes the time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from memsvc.domain.index_entries import Change, Document
from memsvc.engine.indexing.vector_entries import VectorEntries

DEPTH = 2
"""Parts embedded at the same time: while one of them is stored, or waits for its last text, the model has the other."""
LOOK_SECONDS = 0.02
"""How often to look, while vectors are being made, whether there is something more urgent."""


@dataclass(frozen=True, slots=True)
class Part:
    """Changes that become visible together, and the present state of what they changed.

    Attributes:
        costly: How many passages have to be embedded.
    """

    changes: Sequence[Change]
    documents: Sequence[Document]
    costly: int

    @property
    def rows(self) -> list[int]:
        """Return the rows of the memories that were changed."""
        return list(dict.fromkeys(change.row for change in self.changes))


class EmbeddingPrefetcher:
    """Has the vectors of the next parts made, and kept in the store, by threads of its own."""

    def __init__(self, entries: VectorEntries) -> None:
        self._entries = entries
        self._pool = ThreadPoolExecutor(DEPTH, thread_name_prefix="embedding-ahead")

    def close(self) -> None:
        """Give the threads back once what they are at is done."""
        self._pool.shutdown(cancel_futures=True)

    def each(self, parts: Sequence[Part], is_over: Callable[[], bool]) -> Generator[Part, None, None]:
        """Yield the parts in order, each once its vectors are known; those of the next ones are made meanwhile.

        When *is_over* says so the wait for vectors ends, and no more parts come; what was begun is finished and kept.

        Raises:
            BackendUnavailableError: The embedder cannot be reached; the parts before were yielded.
        """
        coming = iter(parts)
        waiting = deque((part, self._begin(part)) for part in islice(coming, DEPTH))
        try:
            while waiting:
                part, embedded = waiting.popleft()
                if embedded is not None and not _has_come(embedded, is_over):
                    embedded.cancel()
                    return
                waiting.extend((following, self._begin(following)) for following in islice(coming, 1))
                yield part
        finally:
            for _, embedded in waiting:
                if embedded is not None:
                    embedded.cancel()

    def _begin(self, part: Part) -> Future[None] | None:
        # A passage on its own is embedded where it is written: there is nothing to be done beside it.
        return self._pool.submit(self._entries.embed, part.documents) if part.costly > 1 else None


def _has_come(embedded: Future[None], is_over: Callable[[], bool]) -> bool:
    """Wait until it is done, or until *is_over*; return whether it is done, or raise what went wrong.

    What is done in a moment is waited for first, so that vectors which were made before do not wait for ever behind
    one urgent matter after another.
    """
    while not wait([embedded], LOOK_SECONDS).done:
        if is_over():
            return False
    embedded.result()
    return True
