"""Where the memories of a context of another moment come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.context import RECENT_DAYS, ContextQuery
from memsvc.domain.filters import AnyOf, Field, Filter, Not, Or, Range, conjunction
from memsvc.domain.history import AsOf
from memsvc.domain.memory import Layer, Memory, Tier
from memsvc.domain.scope import Reach, Visibility
from memsvc.domain.search import Order, OrderField, Selection
from memsvc.domain.visibility import session_privacy
from memsvc.engine.context.core_memories import LIST
from memsvc.engine.context.sources import RECENT_MEMORIES, SESSION_MESSAGES, happened
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.ports.metadata import MemoryReads

_SHARED = Not(AnyOf(Field.LAYER, (Layer.SESSION.value,)))
_IS_CORE = Or((AnyOf(Field.LAYER, (Layer.CORE.value,)), AnyOf(Field.TIER, (Tier.CORE.value,))))
_IS_ACTIVE = AnyOf(Field.TIER, (Tier.ACTIVE.value,))
_BY_IMPORTANCE = Order(OrderField.IMPORTANCE, descending=True)
_LATEST = Order(OrderField.UPDATE_TIME, descending=True)
_NEWEST = Order(OrderField.CREATE_TIME, descending=True)
_RECENT_MICROS = RECENT_DAYS * 86_400_000_000


class AsOfContextSources:
    """`memsvc.engine.context.sources.Gathers`, from what was known or true at a moment. Nothing of it is cached."""

    def __init__(self, reads: MemoryReads, as_of: AsOf) -> None:
        self._reads = reads
        self._moment = as_of.known_time
        self._retrospect = AsOfReader(reads)

    def essentials(self, query: ContextQuery, project: str) -> tuple[list[Memory], list[Memory]]:
        """Return the core and the active memories of a project."""
        where = Visibility.PROJECT if project else Visibility.GLOBAL
        core = self._page(query, where, (_SHARED, _IS_CORE), _BY_IMPORTANCE, LIST + 1)
        active = self._page(query, where, (_SHARED, _IS_ACTIVE, Not(_IS_CORE)), _BY_IMPORTANCE, LIST + 1)
        core, active = (sorted(part, key=lambda one: (-one.importance, one.row)) for part in (core, active))
        return core, active

    def session(self, query: ContextQuery, now: datetime) -> list[Memory]:
        """Return the newest messages and private memories of the scope's session, in the order of writing."""
        del now
        test = AnyOf(Field.SESSION_ID, (query.scope.session_id,))
        found = self._page(query, Visibility.PROJECT, (test,), _NEWEST, SESSION_MESSAGES + 1)
        return sorted(found, key=lambda memory: memory.row)

    def recent(self, query: ContextQuery, now: datetime) -> list[Memory]:
        """Return the project's SHORT_TERM memories that were changed in the days before *now*, the latest last."""
        # Counted as numbers, since the days before the first ones that there are cannot be named.
        since = Range(Field.UPDATE_TIME, at_least=to_micros(now) - _RECENT_MICROS)
        tests = (AnyOf(Field.LAYER, (Layer.SHORT_TERM.value,)), since)
        return sorted(self._page(query, Visibility.PROJECT, tests, _LATEST, RECENT_MEMORIES + 1), key=happened)

    def _page(
        self, query: ContextQuery, visibility: Visibility, tests: Sequence[Filter], order: Order, limit: int
    ) -> list[Memory]:
        where = conjunction(query.in_force, *tests)
        if self._moment is not None:
            selection = Selection(where, visibility)
            found, _ = self._retrospect.page(
                query.scope, selection, moment=self._moment, order=order, after=None, limit=limit
            )
            return found
        reach = Reach.from_scope(query.scope, visibility)
        where = conjunction(where, session_privacy(query.scope))
        return list(self._reads.page(reach=reach, where=where, order=order, after=None, limit=limit))
