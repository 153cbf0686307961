"""Judgement of which due reminders are outdated by what was said since: moved and cancelled appointments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import replace

from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import CURRENT, CurrencyMark
from memsvc.domain.context import ContextQuery
from memsvc.domain.errors import MemsvcError
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.search import SearchQuery, SearchReply, Selection
from memsvc.engine.conflicts.currency import MOST_CHARS, CurrencyJudge
from memsvc.engine.context.sources import EvidenceSearch, search_of
from memsvc.ports.thread_wait import ThreadWait

JUDGED = 50
"""Reminders of one call that are judged, the first ones."""
BUDGET_SECONDS = 1.0
"""Time for all searches of a call."""
COMPARED = 20
"""Memories that a reminder is compared with; as many messages of sessions as a context retrieves."""
log = logging.getLogger(__name__)
Search = Callable[[SearchQuery, Deadline], SearchReply]


class ReminderCurrencyReader:
    """Compares the memories of due reminders with what is similar to them. Thread-safe."""

    def __init__(
        self,
        search: Search,
        evidence: EvidenceSearch,
        judge: CurrencyJudge,
        when_indexed: Callable[[str], Future[None]],
    ) -> None:
        """Search memories by *search*, and messages by *evidence*.

        *when_indexed* returns a future for when searches find all that an owner has stored.
        """
        self._search = search
        self._evidence = evidence
        self._judge = judge
        self._when_indexed = when_indexed

    def marks(
        self, scope: Scope, memories: Sequence[Memory], selection: Selection, deadline: Deadline
    ) -> Mapping[str, CurrencyMark]:
        """Return whether the memories still hold, by id; those that were not judged are left out.

        Each is compared with the memories of the *selection* and the messages of sessions that are similar to it, as a
        context retrieves them. If they cannot all be searched within a second, or what was written is not indexed by
        then, what was not found to be outdated is not judged; if none can be, the log says so.
        """
        remaining = deadline.remaining_seconds()
        within = Deadline.after(BUDGET_SECONDS if remaining is None else min(BUDGET_SECONDS, remaining / 2))
        found: dict[str, CurrencyMark] = {}
        is_indexed = self._is_indexed(scope.owner, within)
        for memory in memories[:JUDGED]:
            if len(memory.content) > MOST_CHARS:
                continue
            try:
                replies = self._similar(scope, memory, selection, within)
            except MemsvcError as error:
                log.warning("reminders were listed without their currency: %s", error.message)
                break
            hits = [hit for reply in replies for hit in reply.hits]
            mark = self._judge.marks(hits).get(memory.id, CURRENT)
            if mark is not CURRENT or (is_indexed and not any(reply.degraded for reply in replies)):
                found[memory.id] = mark
        return found

    def _is_indexed(self, owner: str, deadline: Deadline) -> bool:
        """Return whether searches find all that an owner has stored, for which half of the time is waited."""
        remaining = deadline.remaining_seconds() or 0.0
        with suppress(FutureTimeoutError, MemsvcError):
            with ThreadWait():
                self._when_indexed(owner).result(remaining / 2)
            return True
        return False

    def _similar(
        self, scope: Scope, memory: Memory, selection: Selection, deadline: Deadline
    ) -> tuple[SearchReply, SearchReply]:
        """Return the memories and the messages that are similar to a memory, which is among its own hits."""
        query = ContextQuery(scope=scope, text=memory.content, selection=selection, relevant_limit=COMPARED)
        of_memories = self._search(replace(search_of(query), counts_access=False), deadline)
        return of_memories, self._evidence(query, deadline, counts_access=False)
