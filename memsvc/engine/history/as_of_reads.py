"""As-of reads: memories by id, by key and by page as they were, and the revisions of a memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TypeAlias

from memsvc.domain.clock import to_micros
from memsvc.domain.errors import MemoryNotFoundError, RevisionNotFoundError
from memsvc.domain.filter_evaluation import memory_test
from memsvc.domain.filters import Field, Filter, Range, conjunction
from memsvc.domain.history import AsOf, Revision, is_valid_at
from memsvc.domain.memory import UNNAMED, Memory, Status
from memsvc.domain.scope import Reach, Scope, SessionVisibility, Visibility
from memsvc.domain.search import Order, OrderField, PageCursor, Selection
from memsvc.domain.visibility import session_privacy, visible
from memsvc.ports.metadata import MemoryReads

PAGE_CHARS = 4_000_000
"""A page of revisions ends early when its content is longer than this."""
_BATCH = 10
_NEWEST = Order(OrderField.UPDATE_TIME, descending=True)

_SortKey: TypeAlias = tuple[bool, int, int]
SLICE = 500
"""Memories read between two checks of the deadline."""


class AsOfReader:
    """Reads of earlier states. They do not count as accesses."""

    def __init__(self, reads: MemoryReads) -> None:
        """Read from *reads*."""
        self.reads = reads

    def get(self, scope: Scope, memory_id: str, as_of: AsOf) -> Memory:
        """Return a memory of the scope's project or a global one as it was.

        Raises:
            MemoryNotFoundError: The memory did not exist yet, was deleted, not valid or private to another session
                then, or was purged since.
        """
        reach = Reach.from_scope(scope)
        memory = self.reads.get([memory_id], reach=reach).get(memory_id)
        if memory is None or not visible(memory, scope):
            raise MemoryNotFoundError(memory_id)
        past_state = (
            memory if as_of.known_time is None else AsOfState(self.reads, scope, reach, as_of.known_time).state(memory)
        )
        return _require_existing(past_state, memory_id, as_of)

    def get_by_key(self, scope: Scope, key: str, as_of: AsOf) -> Memory:
        """Return the memory that had *key* in exactly the scope's project.

        Raises:
            MemoryNotFoundError: As for `get`.
        """
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        memory = self.reads.get_by_key(key, reach=reach)
        moment = as_of.known_time
        if moment is not None and (memory is None or memory.update_time > moment):
            past = AsOfState(self.reads, scope, reach, moment)
            states = (state for part in past.states(past.changed_rows()) for state in part)
            memory = next((one for one in states if one.key == key and one.status not in UNNAMED), None)
        return _require_existing(memory if memory is None or visible(memory, scope) else None, key, as_of)

    def page(
        self,
        scope: Scope,
        selection: Selection,
        *,
        moment: datetime,
        order: Order,
        after: PageCursor | None,
        limit: int,
    ) -> tuple[list[Memory], PageCursor | None]:
        """Return the next *limit* memories as they were at *moment*, and the cursor of the next page.

        The cost grows with the number of memories that changed since.
        """
        past = AsOfState(self.reads, scope, Reach.from_scope(scope, selection.visibility), moment, selection.sessions)
        where = conjunction(selection.where, session_privacy(scope, selection.sessions))
        # Read unchanged memories first: one that changes in between is then read twice, not missed.
        same = self.reads.page(
            reach=past.reach, where=conjunction(where, past.unchanged_filter), order=order, after=after, limit=limit + 1
        )
        changed = past.changed_rows()
        others = filter(memory_test(where), chain.from_iterable(past.states(changed)))
        among = set(changed)
        places = {_sort_key(one, order): one for one in same if one.row not in among}
        places |= _first(others, order, after, limit + 1)
        memories = [places[place] for place in sorted(places)]
        return memories[:limit], None if len(memories) <= limit else cursor_of(memories[limit - 1], order)

    def revision(self, scope: Scope, memory_id: str, number: int) -> Memory:
        """Return one revision of a memory, of any status.

        Raises:
            MemoryNotFoundError: The memory is not visible to the scope.
            RevisionNotFoundError: It has no such revision that is visible to the scope.
        """
        reach = self._require(scope, memory_id)
        found = self.reads.revision(memory_id, number, reach=reach)
        if found is None or not visible(found, scope):
            raise RevisionNotFoundError(memory_id, number)
        return found

    def revisions(
        self, scope: Scope, memory_id: str, *, before: int | None, limit: int
    ) -> tuple[list[Revision], int | None]:
        """Return the newest *limit* revisions below *before*, newest first, and the next value of *before*.

        A page ends early if its content is long.

        Raises:
            MemoryNotFoundError: The memory is not visible to the scope; a deleted one is.
        """
        reach = self._require(scope, memory_id)
        page: list[Revision] = []
        chars = 0
        while len(page) < limit and chars < PAGE_CHARS:
            part = self.reads.revisions(memory_id, reach=reach, before=before, limit=min(_BATCH, limit - len(page)))
            if not part:
                return page, None
            page += [one for one in part if visible(one.memory, scope)]
            chars += sum(len(one.memory.content) for one in part)
            before = part[-1].memory.revision
        return page, None if before == 1 else before

    def _require(self, scope: Scope, memory_id: str) -> Reach:
        reach = Reach.from_scope(scope)
        memory = self.reads.get([memory_id], reach=reach).get(memory_id)
        if memory is None or not visible(memory, scope):
            raise MemoryNotFoundError(memory_id)
        return reach


def latest_moment(reads: MemoryReads, reach: Reach, now: datetime) -> datetime:
    """Return *now*, or the time of the last change in *reach* if that is later, since the clock was set back."""
    newest = reads.page(reach=reach, where=None, order=_NEWEST, after=None, limit=1)
    return max(now, *(memory.update_time for memory in newest)) if newest else now


def cursor_of(memory: Memory, order: Order) -> PageCursor:
    """Return the cursor behind *memory*."""
    return PageCursor(_value(memory, order), memory.row)


def _require_existing(memory: Memory | None, name: str, as_of: AsOf) -> Memory:
    if memory is None or memory.status is Status.DELETED:
        raise MemoryNotFoundError(name)
    if as_of.valid_time is not None and not is_valid_at(memory, as_of.valid_time):
        raise MemoryNotFoundError(name)
    return memory


def _first(memories: Iterator[Memory], order: Order, after: PageCursor | None, limit: int) -> dict[_SortKey, Memory]:
    """Return the first *limit* of *memories* after the cursor, by sort key, without holding them all."""
    bound = None if after is None else _sort_key_of(after.value, after.row, order)
    placed = ((_sort_key(one, order), one) for one in memories)
    following = ((place, one) for place, one in placed if bound is None or place > bound)
    return dict(heapq.nsmallest(limit, following, key=lambda pair: pair[0]))


def _sort_key(memory: Memory, order: Order) -> _SortKey:
    return _sort_key_of(_value(memory, order), memory.row, order)


def _sort_key_of(value: int | None, row: int, order: Order) -> _SortKey:
    sign = -1 if order.descending else 1
    return value is None, 0 if value is None else sign * value, row


def _value(memory: Memory, order: Order) -> int | None:
    value: datetime | int | None = getattr(memory, order.field.value)
    return to_micros(value) if isinstance(value, datetime) else value


# A state at a known time: most memories are unchanged since, by their update_time. The others are few; they are found
# by the index on update_time and read from their revisions.


@dataclass(frozen=True, slots=True)
class AsOfState:
    """The state at *moment* as far as a caller in *scope*, within *reach*, may see it.

    An earlier revision is visible only if the memory is visible now and was not private to another session then;
    *sessions* selects the sessions whose private memories count.
    """

    reads: MemoryReads
    scope: Scope
    reach: Reach
    moment: datetime
    sessions: SessionVisibility = SessionVisibility.CURRENT

    @property
    def unchanged_filter(self) -> Filter:
        """Return the filter for memories that are unchanged since."""
        return Range(Field.UPDATE_TIME, at_most=to_micros(self.moment))

    def changed_rows(self, until: datetime | None = None) -> list[int]:
        """Return the rows of memories changed or created since, ascending; with *until*, no later than that."""
        since = Range(
            Field.UPDATE_TIME, above=to_micros(self.moment), at_most=None if until is None else to_micros(until)
        )
        where = conjunction(since, session_privacy(self.scope, self.sessions))
        return [] if where is None else self.reads.rows_where(where, reach=self.reach)

    def states(self, rows: Sequence[int]) -> Iterator[list[Memory]]:
        """Yield these memories as they were, in slices, without those that did not exist or were private."""
        for start in range(0, len(rows), SLICE):
            known = self.reads.known_at(rows[start : start + SLICE], self.moment, reach=self.reach)
            yield [memory for memory in known.values() if visible(memory, self.scope, self.sessions)]

    def state(self, memory: Memory) -> Memory | None:
        """Return one memory as it was."""
        if memory.update_time <= self.moment:
            return memory
        return next((found for part in self.states([memory.row]) for found in part), None)
