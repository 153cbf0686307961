"""Sources of the memories of a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.context import RECENT_DAYS, ContextQuery, Locale, Section, is_in_use
from memsvc.domain.filters import AnyOf, Field, Filter, Not, Or, Range, conjunction
from memsvc.domain.history import AsOf
from memsvc.domain.limits import SNIPPET_MAX
from memsvc.domain.memory import Kind, Layer, Memory, Tier
from memsvc.domain.scope import Reach, Scope, SessionVisibility, Visibility
from memsvc.domain.search import FoundPassage, Order, OrderField, SearchQuery, SearchReply, Selection
from memsvc.domain.sessions import Role
from memsvc.domain.visibility import session_privacy
from memsvc.engine.conflicts.extraction_marks import WithheldMessages
from memsvc.engine.context.core_memories import LIST, CoreMemoryCache
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.ports.features import SessionReads
from memsvc.ports.metadata import MemoryReads
from memsvc.text.context_phrases import passage_place

SESSION_MESSAGES = 1_000
"""Number of messages of the session that are read, the newest."""
EVIDENCE = 30
"""Number of messages of other sessions that are looked for."""
RECENT_MEMORIES = 500
"""Number of recent memories that are read, the latest."""
_SPOKEN = tuple(role.value.lower() for role in (Role.USER, Role.ASSISTANT))
"""Categories of the messages that are evidence: their roles."""
_SHARED = Not(AnyOf(Field.LAYER, (Layer.SESSION.value,)))
_IS_CORE = Or((AnyOf(Field.LAYER, (Layer.CORE.value,)), AnyOf(Field.TIER, (Tier.CORE.value,))))
_IS_ACTIVE = AnyOf(Field.TIER, (Tier.ACTIVE.value,))
_BY_IMPORTANCE = Order(OrderField.IMPORTANCE, descending=True)
_LATEST = Order(OrderField.UPDATE_TIME, descending=True)
_NEWEST = Order(OrderField.CREATE_TIME, descending=True)
_RECENT_MICROS = RECENT_DAYS * 86_400_000_000


class ContextSourceReader(Protocol):
    """Reads the candidates of each section. Thread-safe."""

    def essentials(self, query: ContextQuery, project: str) -> tuple[list[Memory], list[Memory]]:
        """Return the core and the active memories of a project, or with "" the global ones, most important first.

        At most `LIST` plus one of each.
        """
        ...

    def session(self, query: ContextQuery, now: datetime) -> list[Memory]:
        """Return the newest messages and private memories of the scope's session, in the order of writing.

        At most `SESSION_MESSAGES` plus one.
        """
        ...

    def recent(self, query: ContextQuery, now: datetime) -> list[Memory]:
        """Return the project's recently changed SHORT_TERM memories, the latest last.

        At most `RECENT_MEMORIES` plus one.
        """
        ...


class ContextSources:
    """`ContextSourceReader` of the current state."""

    def __init__(self, reads: MemoryReads, core: CoreMemoryCache) -> None:
        self._reads = reads
        self._core = core

    def essentials(self, query: ContextQuery, project: str) -> tuple[list[Memory], list[Memory]]:
        """Return the core and the active memories of a project."""
        return self._core.core_and_active(query.scope.owner, project)

    def session(self, query: ContextQuery, now: datetime) -> list[Memory]:
        """Return the newest messages and private memories of the scope's session, in the order of writing."""
        scope = query.scope
        reach = Reach.from_scope(scope, Visibility.PROJECT)
        rows = self._reads.session_rows(scope.session_id, reach=reach, now=now, limit=SESSION_MESSAGES + 1)
        return sorted(self._in_use(rows, reach, now), key=lambda memory: memory.row)

    def recent(self, query: ContextQuery, now: datetime) -> list[Memory]:
        """Return the project's recently changed SHORT_TERM memories, the latest last."""
        reach = Reach.from_scope(query.scope, Visibility.PROJECT)
        since = now - timedelta(days=RECENT_DAYS)
        rows = self._reads.recent_rows(since=since, reach=reach, now=now, limit=RECENT_MEMORIES + 1)
        return sorted(self._in_use(rows, reach, now), key=event_order)

    def _in_use(self, rows: Sequence[int], reach: Reach, now: datetime) -> list[Memory]:
        """Return the memories of these rows that are still in use."""
        return [memory for memory in self._reads.by_rows(rows, reach=reach).values() if is_in_use(memory, now)]


def search_of(query: ContextQuery, min_relevance: float = 0.0) -> SearchQuery:
    """Return the search of a context query, for memories of at least *min_relevance*."""
    return SearchQuery(
        scope=query.scope,
        text=query.text,
        vector=query.vector,
        selection=query.selection,
        min_score=query.min_score,
        min_relevance=min_relevance,
        limit=query.relevant_limit,
        snippet_chars=SNIPPET_MAX,
        known_time=None if query.as_of is None else query.as_of.known_time,
        use_feedback=query.use_feedback,
    )


def evidence_search_of(query: ContextQuery) -> SearchQuery:
    """Return the search for messages of the other sessions of the same project that fit a context query.

    Messages that another agent appended are private to it.
    """
    scope = query.scope
    where = conjunction(
        query.selection.where,
        AnyOf(Field.LAYER, (Layer.SESSION.value,)),
        AnyOf(Field.KIND, (Kind.MESSAGE.value,)),
        AnyOf(Field.CATEGORY, _SPOKEN),
        AnyOf(Field.AGENT_ID, tuple(dict.fromkeys((scope.agent_id, "")))),
        *((Not(AnyOf(Field.SESSION_ID, (scope.session_id,))),) if scope.session_id else ()),
    )
    return replace(
        search_of(query), selection=Selection(where, Visibility.PROJECT, SessionVisibility.ALL), limit=EVIDENCE
    )


class EvidenceSearch:
    """The search of `evidence_search_of`, without messages that contexts must not show. Thread-safe.

    These are messages of sessions that another agent opened, since messages name only the agent that appended them, and
    those of `WithheldMessages`.
    """

    def __init__(
        self,
        search: Callable[[SearchQuery, Deadline], SearchReply],
        sessions: SessionReads,
        withheld: WithheldMessages,
    ) -> None:
        """Search by *search*; *sessions* says who opened them, *withheld* what was deleted."""
        self._search = search
        self._sessions = sessions
        self.withheld = withheld

    def __call__(self, query: ContextQuery, deadline: Deadline, *, counts_access: bool = True) -> SearchReply:
        """Return the messages that fit a context query."""
        reply = self._search(replace(evidence_search_of(query), counts_access=counts_access), deadline)
        scope, ids = query.scope, {hit.memory.scope.session_id for hit in reply.hits}
        openers = self._sessions.agents(scope.owner, scope.project_id, ids)
        shared = ("", scope.agent_id)
        known = [hit for hit in reply.hits if openers.get(hit.memory.scope.session_id, "") in shared]
        withheld = self.withheld.among([hit.memory for hit in known], reach=Reach.from_scope(scope))
        return replace(reply, hits=tuple(hit for hit in known if hit.memory.id not in withheld))


def passage_memory(found: FoundPassage, locale: Locale) -> Memory:
    """Return a passage of a file in the form of a memory, as the lines of a context are made of it.

    Its title says where the passage is; its time is that of the upload.
    """
    file = found.file
    title = passage_place(file.name, page=found.passage.page, line=found.start_line, locale=locale)
    return Memory(
        id=found.passage_id,
        scope=file.scope,
        content=found.passage.text,
        title=title,
        create_time=file.create_time,
        update_time=file.create_time,
        content_hash="",
        row=found.passage.ordinal,
    )


def section_of(memory: Memory, scope: Scope) -> Section:
    """Return the section of a retrieved memory."""
    return Section.GLOBAL if not memory.scope.project_id and scope.project_id else Section.LONG_TERM


def event_order(memory: Memory) -> tuple[datetime, int]:
    """Return the sort key by event time, or else by time of writing."""
    return memory.moment, memory.row


class AsOfContextSources:
    """Sources of a context as of a moment, by known time or valid time. Results are not cached."""

    def __init__(self, reads: MemoryReads, as_of: AsOf) -> None:
        self._reads = reads
        self._moment = as_of.known_time
        self._as_of_reader = AsOfReader(reads)

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
        """Return the project's SHORT_TERM memories changed in the days before *now*, the latest last."""
        # Compared as numbers, because dates before the minimum of datetime cannot be represented.
        since = Range(Field.UPDATE_TIME, at_least=to_micros(now) - _RECENT_MICROS)
        tests = (AnyOf(Field.LAYER, (Layer.SHORT_TERM.value,)), since)
        return sorted(self._page(query, Visibility.PROJECT, tests, _LATEST, RECENT_MEMORIES + 1), key=event_order)

    def _page(
        self, query: ContextQuery, visibility: Visibility, tests: Sequence[Filter], order: Order, limit: int
    ) -> list[Memory]:
        where = conjunction(query.in_force, *tests)
        if self._moment is not None:
            selection = Selection(where, visibility)
            found, _ = self._as_of_reader.page(
                query.scope, selection, moment=self._moment, order=order, after=None, limit=limit
            )
            return found
        reach = Reach.from_scope(query.scope, visibility)
        where = conjunction(where, session_privacy(query.scope))
        return list(self._reads.page(reach=reach, where=where, order=order, after=None, limit=limit))
