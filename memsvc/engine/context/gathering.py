"""Where the memories of a context come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from memsvc.domain.clock import to_micros
from memsvc.domain.context import RECENT_DAYS, ContextQuery, Section
from memsvc.domain.essentials import Essentials
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Or, Range
from memsvc.domain.limits import SNIPPET_MAX
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.query import Order, OrderField, SearchQuery
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.engine.context.core import LIST, Core
from memsvc.ports.metadata import MemoryReads

SESSION_MESSAGES = 1_000
RECENT_MEMORIES = 500
"""More than these are not looked at."""


class Gathering:
    """Reads what each section is chosen from."""

    def __init__(self, reads: MemoryReads, core: Core) -> None:
        self._reads = reads
        self._core = core

    def essentials(self, scope: Scope) -> Essentials:
        """Return the core and active memories."""
        return self._core.load(scope, limit=LIST)

    def session(self, scope: Scope, now: datetime) -> list[Memory]:
        """Return the newest messages and private memories of the scope's session, in the order of writing."""
        where = And(
            (
                *_in_use(now),
                AnyOf(Field.SESSION_ID, (scope.session_id,)),
                Or((AnyOf(Field.LAYER, (Layer.SESSION.value,)), AnyOf(Field.KIND, (Kind.MESSAGE.value,)))),
            )
        )
        found = self._page(scope, where, OrderField.CREATE_TIME, SESSION_MESSAGES)
        return sorted(found, key=lambda memory: memory.row)

    def recent(self, scope: Scope, now: datetime) -> list[Memory]:
        """Return the project's SHORT_TERM memories that were changed lately, the latest last."""
        since = to_micros(now - timedelta(days=RECENT_DAYS))
        where = And(
            (
                *_in_use(now),
                AnyOf(Field.LAYER, (Layer.SHORT_TERM.value,)),
                Range(Field.UPDATE_TIME, at_least=since),
            )
        )
        found = self._page(scope, where, OrderField.UPDATE_TIME, RECENT_MEMORIES)
        return sorted(found, key=happened)

    def _page(self, scope: Scope, where: Filter, field: OrderField, limit: int) -> list[Memory]:
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        return self._reads.page(reach=reach, where=where, order=Order(field), after=None, limit=limit)


def search_of(query: ContextQuery) -> SearchQuery:
    """Return the search for what the query retrieves."""
    return SearchQuery(
        scope=query.scope,
        text=query.text,
        vector=query.vector,
        selection=query.selection,
        min_score=query.min_score,
        limit=query.relevant_limit,
        snippet_chars=SNIPPET_MAX,
    )


def section_of(memory: Memory, scope: Scope) -> Section:
    """Return where a retrieved memory belongs."""
    return Section.GLOBAL if not memory.scope.project_id and scope.project_id else Section.LONG_TERM


def happened(memory: Memory) -> tuple[datetime, int]:
    """Return when it happened or was written, to sort by."""
    return memory.event_time or memory.create_time, memory.row


def _in_use(now: datetime) -> Sequence[Filter]:
    return (
        AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
        Not(AnyOf(Field.TIER, (Tier.ARCHIVED.value,))),
        Not(Range(Field.EXPIRE_TIME, at_most=to_micros(now))),
    )
