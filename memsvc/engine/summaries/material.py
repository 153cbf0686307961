"""What a period or topic is summed up of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memsvc.domain.clock import Deadline
from memsvc.domain.entries import row_of
from memsvc.domain.filters import AnyOf, Field, Filter, conjunction
from memsvc.domain.memory import Memory
from memsvc.domain.query import Order, OrderField
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.summaries import Period, material_of, when
from memsvc.ports.lexical import LexicalIndex
from memsvc.ports.metadata import MemoryReads
from memsvc.text.analysis import query_terms, terms

MOST = 1_000
"""How many memories one summary is made of at most, the newest first."""


class Material:
    """Gathers memories of a period, of a topic, or of both."""

    def __init__(self, reads: MemoryReads, lexical: LexicalIndex) -> None:
        """Read by *reads*; *lexical* finds what speaks of a topic."""
        self._reads = reads
        self._lexical = lexical

    def of(self, scope: Scope, period: Period, topic: str, deadline: Deadline) -> list[Memory]:
        """Return the memories of the scope's own project in the order of their time, at most the newest `MOST`.

        With a *topic* those that hold all of its words, or have it as a tag or as their category.

        Raises:
            BackendUnavailableError: With a topic, when the lexical index cannot be searched.
            DeadlineExceededError: The deadline passed first.
        """
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        happened, written = material_of(period)
        if topic:
            found = self._on(topic, reach, (happened, written), deadline)
        else:
            found = [*self._page(reach, happened, OrderField.EVENT_TIME)]
            found += self._page(reach, written, OrderField.CREATE_TIME)
        distinct = {memory.id: memory for memory in found if not memory.superseded_by_id}
        return sorted(distinct.values(), key=lambda memory: (when(memory), memory.row))[-MOST:]

    def _page(self, reach: Reach, where: Filter | None, order: OrderField) -> list[Memory]:
        return self._reads.page(reach=reach, where=where, order=Order(order), after=None, limit=MOST)

    def _on(self, topic: str, reach: Reach, periods: Iterable[Filter], deadline: Deadline) -> list[Memory]:
        wanted = query_terms(topic)
        found: list[Memory] = []
        for where, order in zip(periods, (OrderField.EVENT_TIME, OrderField.CREATE_TIME), strict=True):
            hits = self._lexical.search(wanted, reach=reach, where=where, limit=MOST, deadline=deadline)
            rows = list(dict.fromkeys(row_of(hit.entry_id) for hit in hits))
            found += [one for one in self._reads.by_rows(rows, reach=reach).values() if _speaks_of(one, wanted)]
            for field in (Field.TAGS, Field.CATEGORY):
                found += self._page(reach, conjunction(where, AnyOf(field, (topic,))), order)
        return found


def _speaks_of(memory: Memory, wanted: Sequence[str]) -> bool:
    return set(wanted) <= set(terms(f"{memory.title}\n{memory.content}"))
