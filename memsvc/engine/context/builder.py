"""Building one context: section by section, each within its share of the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from memsvc.domain.clock import Deadline
from memsvc.domain.context import (
    ACTIVE_COUNT,
    CORE_COUNT,
    NEARLY_FULL,
    RETRIEVED,
    ContextQuery,
    Event,
    Held,
    Plan,
    Reason,
    Section,
    TokenBudget,
    own_shares,
)
from memsvc.domain.errors import MemsvcError
from memsvc.domain.memory import Memory, Tier
from memsvc.domain.near_duplicates import Shingles
from memsvc.domain.provenance import speaks_for_the_user
from memsvc.domain.search import SearchHit, SearchReply
from memsvc.engine.context.core_memories import LIST
from memsvc.engine.context.ending import ContextFooter, opening
from memsvc.engine.context.kept import LruCache
from memsvc.engine.context.ledger import Ledger
from memsvc.engine.context.noticing import ContextWarnings
from memsvc.engine.context.rendering import Line, LineRenderer
from memsvc.engine.context.selection import SectionSelector
from memsvc.engine.context.sources import (
    RECENT_MEMORIES,
    SESSION_MESSAGES,
    Gathers,
    section_of,
)
from memsvc.engine.context.told import Deduplicator
from memsvc.ports.models import Tokenizer

MARGIN_SECONDS = 0.05
"""So long before the deadline the search is no longer waited for: what is there must still be told."""
LEAST_SECONDS = 0.02
"""With less time left no further section is begun: the summary must still be told."""


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """What a context is built with.

    Attributes:
        search: Begins the search for what the query retrieves.
        session_size: Returns how many tokens the scope's session holds, and may hold; None: nothing keeps count.
        earlier: What an earlier context holds, by id; None: no delta is wanted.
        least_core_trust: See `memsvc.domain.provenance.speaks_for_the_user`.
        lines: Lines of memories that were made for earlier contexts.
        sayings: What memories say, worked out for earlier contexts.
    """

    gathering: Gathers
    tokenizer: Tokenizer
    search: Callable[[Deadline], Future[SearchReply]]
    lines: LruCache[Line]
    sayings: LruCache[Shingles]
    session_size: Callable[[], tuple[int, int] | None] = lambda: None
    earlier: Mapping[str, Held] | None = None
    least_core_trust: float = 0.0


_Found: TypeAlias = tuple[Sequence[SearchHit], str]


class ContextBuilder:
    """One context in the making. Not safe to use from several threads at once."""

    def __init__(self, query: ContextQuery, materials: BuildInputs, now: datetime) -> None:
        """Build what *query* asks for, as of *now* unless it names another moment."""
        self.query = query
        now = query.moment or now
        self.deadline = Deadline()
        self.ledger = Ledger()
        self.earlier = materials.earlier
        self._materials = materials
        self._now = now
        self._lines = LineRenderer(query, now, materials.tokenizer, materials.lines)
        self._notices = ContextWarnings(query.locale)
        self._ending = ContextFooter(query, materials.tokenizer, materials.earlier)
        self._choosing = self._nothing_to_spend()
        self._pending: Future[SearchReply] | None = None
        self._skipped: list[Section] = []
        self._gathered: dict[Section, list[Memory]] = {}

    def abandon(self) -> None:
        """Do without the search while nobody waits for it; whoever goes on begins it anew."""
        if self._pending is not None:
            self._pending.cancel()

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events: what needs no search at once, the rest when the search is done, the summary with it.

        A batch is empty when the context was abandoned while it waited.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        text, tokens = opening(self.query.locale, self._materials.tokenizer)
        fixed = tokens + self._ending.least_tokens
        sections = [section for section in Section if section in self.query.sections]
        is_hopeless = fixed > self.query.total_tokens
        free = self.query.total_tokens - fixed - self._ending.reserved_tokens
        plan = self._plan("" if is_hopeless else text, 0 if is_hopeless else tokens, sections, free)
        if is_hopeless:
            notice = self._notices.too_small(fixed, self.query.total_tokens)
            self._leave_all_out()
            yield [plan, notice, self._ending.nothing(self.ledger, sections)]
            return
        if self.query.retrieves:
            self._pending = self._materials.search(self.deadline)
        self.ledger.texts.append(text)
        allowance = TokenBudget(free, self.query.shares, [*filter(self._is_possible, Section)])
        told = Deduplicator(self._materials.sayings)
        self._choosing = SectionSelector(self._lines, self.ledger, allowance, told, self.earlier, self._coming)
        yield [plan, *self._core()]
        if self._begins(Section.SESSION):
            yield self._session()
        begun = [section for section in (Section.LONG_TERM, Section.GLOBAL) if self._begins(section)]
        found: _Found = ((), "")
        if begun:
            while (awaited := self._awaited()) is None:
                yield []
            found = awaited
        rest = [*self._retrieved(begun, *found)]
        if self._skipped:
            rest.append(self._notices.late(self._skipped))
        rest.append(self._ending.summary(self.ledger, sections))
        # Only what is asked of later is kept for an hour.
        self.ledger.texts, self._choosing = [], self._nothing_to_spend()
        self._pending, self._gathered = None, {}
        yield rest

    def _nothing_to_spend(self) -> SectionSelector:
        allowance = TokenBudget(0, self.query.shares)
        return SectionSelector(self._lines, self.ledger, allowance, Deduplicator(self._materials.sayings))

    def _read(self, section: Section) -> list[Memory]:
        """Return the memories of the session, or those of the last days; read once."""
        if section not in self._gathered:
            gathering, is_session = self._materials.gathering, section is Section.SESSION
            found = (gathering.session if is_session else gathering.recent)(self.query, self._now)
            most = SESSION_MESSAGES if is_session else RECENT_MEMORIES
            self.ledger.leave_out(section, Reason.LIMIT, [memory.id for memory in found[:-most]])
            self._gathered[section] = found[-most:]
        return self._gathered[section]

    def _coming(self, section: Section) -> Sequence[Memory] | None:
        """Return what a section that waits for no search would show; None: that is not known yet."""
        return self._read(section) if section in {Section.SESSION, Section.SHORT_TERM} else None

    def _is_possible(self, section: Section) -> bool:
        """Return whether a section is asked for and can hold anything."""
        scope = self.query.scope
        needed = {
            Section.PROJECT_CORE: scope.project_id,
            Section.SESSION: scope.session_id,
            Section.SHORT_TERM: scope.project_id,
            Section.LONG_TERM: self.query.retrieves,
            Section.GLOBAL: self.query.retrieves and scope.project_id,
        }
        return section in self.query.sections and bool(needed.get(section, True))

    def _begins(self, section: Section) -> bool:
        """Return whether a section is asked for and can hold anything, and there is time for it."""
        if not self._is_possible(section):
            return False
        remaining = self.deadline.remaining()
        if remaining is not None and remaining < LEAST_SECONDS:
            self._skipped.append(section)
            return False
        return True

    def _leave_all_out(self) -> None:
        """Note what would be shown without a search, had it room; what the earlier context holds stays held."""
        self._carry_over({*self.query.sections}, set())
        for section in filter(self._is_possible, Section):
            if section in RETRIEVED:
                continue
            if section in {Section.SESSION, Section.SHORT_TERM}:
                memories = self._read(section)
            else:
                project = self.query.scope.project_id if section is Section.PROJECT_CORE else ""
                memories = [one for part in self._materials.gathering.essentials(self.query, project) for one in part]
            self.ledger.leave_out(section, Reason.BUDGET, [memory.id for memory in memories])

    def _plan(self, text: str, tokens: int, sections: Sequence[Section], free: int) -> Plan:
        own = own_shares(max(0, free), self.query.shares, sections)
        return Plan(
            text=text,
            token_count=tokens,
            total_tokens=self.query.total_tokens,
            tokenizer=self._materials.tokenizer.name,
            sections=tuple((section, own[section]) for section in sections),
            is_delta=self.earlier is not None,
        )

    def _core(self) -> Iterator[Event]:
        counts = [0, 0]
        for section in (Section.GLOBAL_CORE, Section.PROJECT_CORE):
            if not self._is_possible(section):
                continue
            project = self.query.scope.project_id if section is Section.PROJECT_CORE else ""
            core, active = self._materials.gathering.essentials(self.query, project)
            counts[0] += sum(memory.tier is Tier.CORE for memory in core)
            counts[1] += len(active)
            memories = [*core[:LIST], *active[:LIST]]
            trusted = [one for one in memories if speaks_for_the_user(one, self._materials.least_core_trust)]
            ids = {memory.id for memory in trusted}
            self.ledger.leave_out(section, Reason.UNTRUSTED, [one.id for one in memories if one.id not in ids])
            yield from self._choosing.in_order(section, trusted)
            self.ledger.leave_out(section, Reason.LIMIT, [one.id for part in (core, active) for one in part[LIST:]])
        yield from self._notices.count("CORE_COUNT", counts[0], CORE_COUNT)
        yield from self._notices.count("ACTIVE_COUNT", counts[1], ACTIVE_COUNT)

    def _session(self) -> list[Event]:
        messages = self._read(Section.SESSION)
        items = list(self._choosing.newest(Section.SESSION, messages))
        return [*items, *self._notices.session(*self._session_size(messages))]

    def _session_size(self, messages: Sequence[Memory]) -> tuple[int, int]:
        """Return how many tokens the session holds, and may hold; where nothing keeps count, its share of the budget.

        Counted are messages only when there may be enough of them for a warning: no token has less than a byte.
        """
        if size := self._materials.session_size():
            return size
        limit = int(self.query.total_tokens * self.query.shares.session)
        if sum(len(memory.content.encode(errors="replace")) for memory in messages) <= NEARLY_FULL * limit:
            return 0, limit
        return sum(self._lines.cost(memory.content) for memory in messages), limit

    def _retrieved(self, begun: Sequence[Section], hits: Sequence[SearchHit], lost: str) -> Iterator[Event]:
        if lost:
            yield self._notices.incomplete(lost)
        scope = self.query.scope
        found: dict[Section, list[SearchHit]] = {Section.LONG_TERM: [], Section.GLOBAL: []}
        recent: list[Memory] = []
        if self._begins(Section.SHORT_TERM):
            recent = self._read(Section.SHORT_TERM)
        recent_ids = {memory.id for memory in recent}
        for hit in hits:
            if hit.memory.id not in self.ledger.holds and hit.memory.id not in recent_ids:
                found[section_of(hit.memory, scope)].append(hit)
        if Section.LONG_TERM in begun:
            yield from self._choosing.best(Section.LONG_TERM, found[Section.LONG_TERM])
        if recent:
            new = [memory for memory in recent if memory.id not in self.ledger.holds]
            yield from self._choosing.newest(Section.SHORT_TERM, new)
        if Section.GLOBAL in begun:
            yield from self._choosing.best(Section.GLOBAL, found[Section.GLOBAL])
        self._carry_over({*self._skipped, *(begun if lost else ())}, {hit.memory.id for hit in hits})

    def _carry_over(self, sections: AbstractSet[Section], found: AbstractSet[str]) -> None:
        """Hold on to what the earlier context has in sections that are not complete: it may only not have been read."""
        for memory_id, held in (self.earlier or {}).items():
            if held.section in sections and memory_id not in found and memory_id not in self.ledger.holds:
                self.ledger.holds[memory_id] = held
                self.ledger.leave_out(held.section, Reason.UNCERTAIN, [memory_id])

    def _awaited(self) -> _Found | None:
        """Return what was found, and why that may not be all; None when nobody waits for it any more."""
        if self._pending is None or self._pending.cancelled():
            self._pending = self._materials.search(self.deadline)
        pending, remaining = self._pending, self.deadline.remaining()
        try:
            reply = pending.result(None if remaining is None else max(0.0, remaining - MARGIN_SECONDS))
        except CancelledError:
            return None
        except FutureTimeoutError:
            pending.cancel()
            return (), "DEADLINE_EXCEEDED"
        except MemsvcError as error:
            return (), error.message
        return reply.hits, ", ".join(f"{one.retriever} {one.reason}" for one in reply.degraded)
