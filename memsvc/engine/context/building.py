"""Building one context: section by section, each within its share of the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from memsvc.domain.budget import Allowance, own_shares
from memsvc.domain.clock import Deadline
from memsvc.domain.context import (
    ACTIVE_COUNT,
    CORE_COUNT,
    RETRIEVED,
    ContextQuery,
    Event,
    Held,
    Item,
    Plan,
    Reason,
    Section,
)
from memsvc.domain.errors import MemsvcError
from memsvc.domain.limits import SNIPPET_MAX
from memsvc.domain.memory import Memory, Tier
from memsvc.domain.query import SearchHit, SearchReply
from memsvc.domain.repetition import Saying, is_near_duplicate
from memsvc.engine.context.core import LIST
from memsvc.engine.context.ending import Ending, opening
from memsvc.engine.context.gathering import (
    RECENT_MEMORIES,
    SESSION_MESSAGES,
    Gathers,
    happened,
    section_of,
)
from memsvc.engine.context.lines import NO_LINE, Line, Lines, most_of
from memsvc.engine.context.noticing import Notices
from memsvc.ports.tokenizer import Tokenizer

MARGIN_SECONDS = 0.05
"""So long before the deadline the search is no longer waited for: what is there must still be told."""
DUPLICATE_THRESHOLD = 0.85
COMPARED_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Materials:
    """What a context is built with.

    Attributes:
        search: Begins the search for what the query retrieves.
        session_limit: How many tokens the scope's session may hold; None: as many as its share of the budget.
        earlier: What an earlier context holds, by id; None: no delta is wanted.
    """

    gathering: Gathers
    tokenizer: Tokenizer
    search: Callable[[Deadline], Future[SearchReply]]
    session_limit: int | None = None
    earlier: Mapping[str, Held] | None = None


@dataclass(slots=True)
class Ledger:
    """What came of each section so far."""

    holds: dict[str, Held] = field(default_factory=dict)
    counts: dict[Section, list[int]] = field(default_factory=dict)
    left_out: dict[tuple[Section, Reason], list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    sayings: dict[tuple[str, tuple[str, ...]], list[Saying]] = field(default_factory=dict)

    def leave_out(self, section: Section, reason: Reason, ids: Iterable[str]) -> None:
        """Note memories that were left out."""
        if ids := list(ids):
            self.left_out.setdefault((section, reason), []).extend(ids)


@dataclass(frozen=True, slots=True)
class _Offer:
    """A memory that a section might show.

    Attributes:
        part: What to show of it when it is too long.
    """

    memory: Memory
    part: str = ""
    score: float = 0.0


_Choice: TypeAlias = tuple[_Offer, Line]


class Building:
    """One context in the making. Not safe to use from several threads at once."""

    def __init__(self, query: ContextQuery, materials: Materials, now: datetime) -> None:
        """Build what *query* asks for, as of *now* unless it names another moment."""
        self.query = query
        now = query.moment or now
        self.deadline = Deadline()
        self.ledger = Ledger()
        self._materials = materials
        self._now = now
        self._lines = Lines(query, now, materials.tokenizer)
        self._notices = Notices(query.locale)
        self._ending = Ending(query, materials.tokenizer, materials.earlier)
        self._allowance = Allowance(0, query.shares)

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events: what needs no search at once, the rest when the search is done, the summary with it.

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
            yield [plan, notice, self._ending.nothing(sections)]
            return
        pending = self._materials.search(self.deadline) if self.query.retrieves else None
        self.ledger.texts.append(text)
        self._allowance = Allowance(free, self.query.shares)
        yield [plan, *self._core()]
        if Section.SESSION in self.query.sections and self.query.scope.session_id:
            yield self._session()
        rest = [*self._retrieved(pending), self._ending.summary(self.ledger, sections)]
        # Only what is asked of later is kept for an hour.
        self.ledger.texts, self.ledger.sayings = [], {}
        yield rest

    def _plan(self, text: str, tokens: int, sections: Sequence[Section], free: int) -> Plan:
        own = own_shares(max(0, free), self.query.shares)
        return Plan(
            text=text,
            token_count=tokens,
            total_tokens=self.query.total_tokens,
            tokenizer=self._materials.tokenizer.name,
            sections=tuple((section, own[section]) for section in sections),
            is_delta=self._materials.earlier is not None,
        )

    def _core(self) -> Iterator[Event]:
        wanted = self.query.sections & {Section.GLOBAL_CORE, Section.PROJECT_CORE}
        if not wanted:
            return
        essentials = self._materials.gathering.essentials(self.query)
        loaded = [*essentials.core, *essentials.active]
        project = self.query.scope.project_id
        parts = {
            Section.GLOBAL_CORE: [memory for memory in loaded if not memory.scope.project_id],
            Section.PROJECT_CORE: [memory for memory in loaded if project and memory.scope.project_id == project],
        }
        for section, memories in parts.items():
            if section in self.query.sections:
                yield from self._in_order(section, memories)
        if any(len(part) == LIST for part in (essentials.core, essentials.active)):
            self.ledger.leave_out(Section.GLOBAL_CORE, Reason.LIMIT, [""])
        cores = sum(memory.tier is Tier.CORE for memory in loaded)
        yield from self._notices.count("CORE_COUNT", cores, CORE_COUNT)
        yield from self._notices.count("ACTIVE_COUNT", len(loaded) - len(essentials.core), ACTIVE_COUNT)

    def _session(self) -> list[Event]:
        messages = self._materials.gathering.session(self.query, self._now)
        items = list(self._newest(Section.SESSION, messages))
        if len(messages) == SESSION_MESSAGES:
            self.ledger.leave_out(Section.SESSION, Reason.LIMIT, [""])
        tokens = sum(self._materials.tokenizer.count(memory.content) for memory in messages)
        limit = self._materials.session_limit or int(self.query.total_tokens * self.query.shares.session)
        return [*items, *self._notices.session(tokens, limit)]

    def _retrieved(self, pending: Future[SearchReply] | None) -> Iterator[Event]:
        hits, lost = self._awaited(pending) if pending is not None else ((), "")
        if lost:
            yield self._notices.incomplete(lost)
        scope = self.query.scope
        found: dict[Section, list[SearchHit]] = {Section.LONG_TERM: [], Section.GLOBAL: []}
        recent: list[Memory] = []
        if Section.SHORT_TERM in self.query.sections and scope.project_id:
            recent = self._materials.gathering.recent(self.query, self._now)
        recent_ids = {memory.id for memory in recent}
        for hit in hits:
            if hit.memory.id not in self.ledger.holds and hit.memory.id not in recent_ids:
                found[section_of(hit.memory, scope)].append(hit)
        if Section.LONG_TERM in self.query.sections:
            yield from self._best(Section.LONG_TERM, found[Section.LONG_TERM])
        if recent:
            recent = self._without_duplicates(Section.SHORT_TERM, [m for m in recent if m.id not in self.ledger.holds])
            yield from self._newest(Section.SHORT_TERM, recent)
            if len(recent_ids) == RECENT_MEMORIES:
                self.ledger.leave_out(Section.SHORT_TERM, Reason.LIMIT, [""])
        if Section.GLOBAL in self.query.sections:
            yield from self._best(Section.GLOBAL, found[Section.GLOBAL])
        if lost:
            self._carry_over({hit.memory.id for hit in hits})

    def _carry_over(self, found: AbstractSet[str]) -> None:
        """Hold on to what the earlier context retrieved: what was not found may only not have been looked for."""
        for memory_id, held in (self._materials.earlier or {}).items():
            is_asked = held.section in RETRIEVED & self.query.sections
            if is_asked and memory_id not in found and memory_id not in self.ledger.holds:
                self.ledger.holds[memory_id] = held
                self.ledger.leave_out(held.section, Reason.UNCERTAIN, [memory_id])

    def _awaited(self, pending: Future[SearchReply]) -> tuple[Sequence[SearchHit], str]:
        """Return what was found, and why that may not be all."""
        remaining = self.deadline.remaining()
        try:
            reply = pending.result(None if remaining is None else max(0.0, remaining - MARGIN_SECONDS))
        except FutureTimeoutError:
            pending.cancel()
            return (), "DEADLINE_EXCEEDED"
        except MemsvcError as error:
            return (), error.message
        return reply.hits, ", ".join(f"{one.retriever} {one.reason}" for one in reply.degraded)

    def _in_order(self, section: Section, memories: Sequence[Memory]) -> Iterator[Item]:
        """Choose and show memories in the order given; one that has no room is passed over."""
        chosen = self._chosen(section, [_Offer(memory) for memory in self._without_duplicates(section, memories)])
        yield from self._shown(section, chosen)

    def _newest(self, section: Section, memories: Sequence[Memory]) -> Iterator[Item]:
        """Choose the newest that have room, without a gap, and show them in the order given, the newest last."""
        chosen = self._chosen(section, [_Offer(memory) for memory in reversed(memories)], may_have_gaps=False)
        yield from self._shown(section, chosen[::-1])

    def _best(self, section: Section, hits: Sequence[SearchHit]) -> Iterator[Item]:
        """Choose the hits that fit best and have room, and show them by date."""
        kept = {memory.id for memory in self._without_duplicates(section, [hit.memory for hit in hits])}
        offers = [_Offer(hit.memory, _part(hit), hit.score) for hit in hits if hit.memory.id in kept]
        chosen = self._chosen(section, offers)
        yield from self._shown(section, sorted(chosen, key=lambda pair: happened(pair[0].memory)))

    def _chosen(self, section: Section, offers: Sequence[_Offer], *, may_have_gaps: bool = True) -> list[_Choice]:
        """Return those offers that have room together, the first ones first, with their lines."""
        room = self._allowance.open(section) - (self._lines.heading(section).tokens if offers else 0)
        most = most_of(room)
        chosen: list[_Choice] = []
        for number, offer in enumerate(offers):
            line = self._lines.line(section, offer.memory, most=min(most, room), part=offer.part)
            if line is not None:
                chosen.append((offer, line))
                room -= line.tokens
                continue
            left = offers[number : number + 1] if may_have_gaps else offers[number:]
            self.ledger.leave_out(section, Reason.BUDGET, [one.memory.id for one in left])
            if not may_have_gaps:
                break
        return chosen

    def _shown(self, section: Section, chosen: Sequence[_Choice]) -> Iterator[Item]:
        """Take lines into the books, and yield their items but for those that the earlier context holds."""
        earlier = self._materials.earlier or {}
        counts = self.ledger.counts.setdefault(section, [0, 0])
        heading = self._lines.heading(section)
        if chosen:
            self._allowance.spend(heading.tokens)
        for offer, line in chosen:
            memory = offer.memory
            # What is unchanged costs its part of the budget of the whole, and no token of the delta.
            self._allowance.spend(line.tokens)
            self.ledger.holds[memory.id] = Held(section, memory.revision)
            before = earlier.get(memory.id)
            if before is not None and before.revision == memory.revision:
                self.ledger.leave_out(section, Reason.UNCHANGED, [memory.id])
                continue
            above = heading if not counts[0] else NO_LINE
            item = Item(
                section,
                memory.id,
                memory.revision,
                above.text + line.text,
                above.tokens + line.tokens,
                offer.score,
                is_excerpt=line.is_excerpt,
                heading_chars=len(above.text),
            )
            counts[0] += 1
            counts[1] += item.token_count
            self.ledger.texts.append(item.text)
            yield item

    def _without_duplicates(self, section: Section, memories: Sequence[Memory]) -> list[Memory]:
        """Return the memories that say something else than those before them, here and in earlier sections."""
        kept = []
        for memory in memories:
            saying = _saying(memory)
            others = self.ledger.sayings.setdefault(saying.bucket, [])
            if any(is_near_duplicate(saying, other, DUPLICATE_THRESHOLD) for other in others):
                self.ledger.leave_out(section, Reason.DUPLICATE, [memory.id])
                continue
            others.append(saying)
            kept.append(memory)
        return kept


def _saying(memory: Memory) -> Saying:
    beyond = memory.content_hash if len(memory.content) > COMPARED_CHARS else ""
    happened_on = "" if memory.event_time is None else f"{memory.event_time:%Y-%m-%d}"
    return _kept_saying(memory.title, memory.content[:COMPARED_CHARS], beyond, (memory.speaker, happened_on))


@lru_cache(maxsize=4096)
def _kept_saying(title: str, content: str, beyond: str, marks: tuple[str, str]) -> Saying:
    """Return what a memory says; a context that is built again asks for the same ones."""
    return Saying.of(f"{title} {content}", beyond=beyond, marks=marks)


def _part(hit: SearchHit) -> str:
    """Return what to show of a long memory: the piece that fits the query."""
    return hit.snippet if len(hit.memory.content) > SNIPPET_MAX else ""
