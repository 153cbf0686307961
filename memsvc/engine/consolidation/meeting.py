"""Which memories of many can say the same as an earlier one at all: told without a search, by what they begin with."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence

from memsvc.domain.memory import Memory
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.text.paraphrase import gist_of

MOST = 1_000_000
"""So many beginnings are remembered; of memories beyond them all are taken."""


class BlockingIndex:
    """Remembers how memories begin, those of one pass over all of them and those that were changed since.

    Of memories that say the same the first sentences do, so they have the same letters or state the same; and of two
    such memories the second one meets the first. Only a help: where not all that came before is remembered, all are
    taken.
    """

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._lock = threading.Lock()
        self._pass: Hashable = None
        self._met: set[int] = set()
        self._all: set[int] | None = None

    def worth_comparing(self, walk: Hashable, memories: Sequence[Memory], *, is_first: bool) -> list[Memory]:
        """Return those of the next *memories* of a *walk* that begin as one before them, in their order.

        Searches go first. A walk that goes on after another one has begun is not remembered: then all are returned.
        """
        with self._lock:
            if is_first:
                self._pass, self._met = walk, set()
            if self._pass != walk or len(self._met) > MOST:
                self._pass, self._met = None, set()
                return list(memories)
            return [memory for memory in memories if _meets(memory, self._met)]

    def finish(self, walk: Hashable) -> None:
        """Take a walk that is over for one over all memories: what changes from now on is compared with them."""
        with self._lock:
            self._all = self._met if self._pass == walk else None
            self._pass, self._met = None, set()

    def worth_comparing_again(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return those of *memories* changed since the last finished walk that begin as any memory, or as they did."""
        with self._lock:
            if self._all is None or len(self._all) > MOST:
                self._all = None
                return list(memories)
            return [memory for memory in memories if _meets(memory, self._all)]


def _meets(memory: Memory, met: set[int]) -> bool:
    SEARCH_PRIORITY.give_way()
    marks = set(_marks(memory))
    is_known = not marks.isdisjoint(met)
    met |= marks
    return is_known


def _marks(memory: Memory) -> Iterator[int]:
    place = (memory.scope.owner, memory.scope.project_id, memory.kind, memory.layer)
    texts = {memory.content, f"{memory.title}\n{memory.content}"} if memory.title else {memory.content}
    for text in texts:
        for said in gist_of(text, memory.speaker).said[:1]:
            yield hash((*place, "".join(sorted("".join(said.words)))))
            if said.stated:
                yield hash((*place, said.stated))
