"""What a period or topic is summed up of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import row_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.search import Order, OrderField, PageCursor
from memsvc.domain.summaries import Period, material_of, when
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.text.analysis import query_terms, terms
from memsvc.text.stemming import fold

MOST = 1_000
"""How many memories one summary is made of at most, the newest first."""
PAGE = 250
"""How many memories are looked at together for their tags and categories."""
_LABELS = "the tags and categories of all memories to be looked at"


class SummarySources:
    """Gathers memories of a period, of a topic, or of both."""

    def __init__(self, reads: MemoryReads, lexical: LexicalIndex) -> None:
        """Read by *reads*; *lexical* finds what speaks of a topic."""
        self._reads = reads
        self._lexical = lexical

    def of(self, scope: Scope, period: Period, topic: str, deadline: Deadline) -> list[Memory]:
        """Return the memories of the scope's own project in the order of their time, at most the newest `MOST`.

        With a *topic* those that hold all of its words, or have it as a tag or as their category. What is one word to a
        search is one here: case, accents, the width of letters and repeated white space do not count. Filters tell
        such tags apart, so all memories of the period are looked at for them.

        Raises:
            BackendUnavailableError: With a topic, when the lexical index cannot be searched.
            DeadlineExceededError: The deadline passed first.
        """
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        happened, written = material_of(period)
        if topic:
            found = self._on(topic, reach, (happened, written), deadline)
        else:
            found = self._page(reach, happened, OrderField.EVENT_TIME, None, MOST)
            found += self._page(reach, written, OrderField.CREATE_TIME, None, MOST)
        distinct = {memory.id: memory for memory in found if not memory.superseded_by_id}
        return sorted(distinct.values(), key=lambda memory: (when(memory), memory.row))[-MOST:]

    def _on(self, topic: str, reach: Reach, periods: Iterable[Filter], deadline: Deadline) -> list[Memory]:
        wanted, label = query_terms(topic), _label(topic)
        found: list[Memory] = []
        for where, order in zip(periods, (OrderField.EVENT_TIME, OrderField.CREATE_TIME), strict=True):
            hits = self._lexical.search(wanted, reach=reach, where=where, limit=MOST, deadline=deadline)
            rows = list(dict.fromkeys(row_of(hit.entry_id) for hit in hits))
            found += [one for one in self._reads.by_rows(rows, reach=reach).values() if _speaks_of(one, wanted)]
            labelled = (one for one in self._all(reach, where, order, deadline) if _is_labelled(one, label))
            found += islice(labelled, MOST)
        return found

    def _all(self, reach: Reach, where: Filter, order: OrderField, deadline: Deadline) -> Iterator[Memory]:
        """Yield all memories of a period, the newest first."""
        after: PageCursor | None = None
        while page := self._page(reach, where, order, after, PAGE):
            yield from page
            if len(page) < PAGE:
                return
            if deadline.passed():
                raise DeadlineExceededError(_LABELS)
            SEARCH_PRIORITY.give_way()
            after = PageCursor(to_micros(when(page[-1])), page[-1].row)

    def _page(
        self, reach: Reach, where: Filter, order: OrderField, after: PageCursor | None, limit: int
    ) -> list[Memory]:
        return self._reads.page(reach=reach, where=where, order=Order(order), after=after, limit=limit)


def _speaks_of(memory: Memory, wanted: Sequence[str]) -> bool:
    return set(wanted) <= set(terms(f"{memory.title}\n{memory.content}"))


def _is_labelled(memory: Memory, label: str) -> bool:
    return _label(memory.category) == label or any(_label(tag) == label for tag in memory.tags)


def _label(text: str) -> str:
    """Return what is the same for a topic and for the tags and categories that mean it."""
    return " ".join(map(fold, text.split()))
