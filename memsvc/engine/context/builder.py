"""Building one context: section by section, each within its share of the budget."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from memsvc.domain.clock import Deadline
from memsvc.domain.context import (
    ACTIVE_COUNT,
    ALMOST_FULL,
    CORE_COUNT,
    NEARLY,
    NEARLY_FULL,
    RETRIEVED,
    ContextQuery,
    Event,
    Held,
    LeftOut,
    Locale,
    Notice,
    Plan,
    Reason,
    Section,
    Severity,
    Summary,
    TokenBudget,
    own_shares,
)
from memsvc.domain.errors import MemsvcError
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory, Tier
from memsvc.domain.near_duplicates import Shingles
from memsvc.domain.provenance import speaks_for_the_user
from memsvc.domain.search import SearchHit, SearchReply
from memsvc.engine.context.core_memories import LIST
from memsvc.engine.context.rendering import Line, LineRenderer
from memsvc.engine.context.selection import Deduplicator, Ledger, SectionSelector
from memsvc.engine.context.sources import (
    RECENT_MEMORIES,
    SESSION_MESSAGES,
    ContextSourceReader,
    section_of,
)
from memsvc.ports.models import Tokenizer
from memsvc.text.context_phrases import CLOSING, HEADINGS, OPENING, left_out_line, message, removed_line
from memsvc.text.recalled_text import citation

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

    source_reader: ContextSourceReader
    tokenizer: Tokenizer
    search: Callable[[Deadline], Future[SearchReply]]
    lines: LruCache[Hashable, Line]
    sayings: LruCache[Hashable, Shingles]
    session_size: Callable[[], tuple[int, int] | None] = lambda: None
    earlier: Mapping[str, Held] | None = None
    least_core_trust: float = 0.0


_Found: TypeAlias = tuple[Sequence[SearchHit], str]


class ContextBuilder:
    """One context in the making. Not safe to use from several threads at once."""

    def __init__(self, query: ContextQuery, inputs: BuildInputs, now: datetime) -> None:
        """Build what *query* asks for, as of *now* unless it names another moment."""
        self.query = query
        now = query.moment or now
        self.deadline = Deadline()
        self.ledger = Ledger()
        self.earlier = inputs.earlier
        self._inputs = inputs
        self._now = now
        self._lines = LineRenderer(query, now, inputs.tokenizer, inputs.lines)
        self._notices = ContextWarnings(query.locale)
        self._ending = ContextFooter(query, inputs.tokenizer, inputs.earlier)
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
        text, tokens = opening_lines(self.query.locale, self._inputs.tokenizer)
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
            self._pending = self._inputs.search(self.deadline)
        self.ledger.texts.append(text)
        allowance = TokenBudget(free, self.query.shares, [*filter(self._is_possible, Section)])
        told = Deduplicator(self._inputs.sayings)
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
        return SectionSelector(self._lines, self.ledger, allowance, Deduplicator(self._inputs.sayings))

    def _read(self, section: Section) -> list[Memory]:
        """Return the memories of the session, or those of the last days; read once."""
        if section not in self._gathered:
            source_reader, is_session = self._inputs.source_reader, section is Section.SESSION
            found = (source_reader.session if is_session else source_reader.recent)(self.query, self._now)
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
                memories = [one for part in self._inputs.source_reader.essentials(self.query, project) for one in part]
            self.ledger.leave_out(section, Reason.BUDGET, [memory.id for memory in memories])

    def _plan(self, text: str, tokens: int, sections: Sequence[Section], free: int) -> Plan:
        own = own_shares(max(0, free), self.query.shares, sections)
        return Plan(
            text=text,
            token_count=tokens,
            total_tokens=self.query.total_tokens,
            tokenizer=self._inputs.tokenizer.name,
            sections=tuple((section, own[section]) for section in sections),
            is_delta=self.earlier is not None,
        )

    def _core(self) -> Iterator[Event]:
        counts = [0, 0]
        for section in (Section.GLOBAL_CORE, Section.PROJECT_CORE):
            if not self._is_possible(section):
                continue
            project = self.query.scope.project_id if section is Section.PROJECT_CORE else ""
            core, active = self._inputs.source_reader.essentials(self.query, project)
            counts[0] += sum(memory.tier is Tier.CORE for memory in core)
            counts[1] += len(active)
            memories = [*core[:LIST], *active[:LIST]]
            trusted = [one for one in memories if speaks_for_the_user(one, self._inputs.least_core_trust)]
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
        if size := self._inputs.session_size():
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
            self._pending = self._inputs.search(self.deadline)
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


# The first and the last lines of a context: what encloses the data, and what was left out.


NAMED_IDS = 100
"""So many of what was left out are named."""
REMOVED_MARKS = 20
RESERVED_TOKENS = 160
"""Kept free for the line that says what was left out, or a twentieth of a small budget."""
_PART = 20
_HELD = frozenset({Reason.UNCHANGED, Reason.UNCERTAIN})


class LedgerView(Protocol):
    """What the ending needs to know of a context."""

    holds: dict[str, Held]
    counts: dict[Section, list[int]]
    left_out: dict[tuple[Section, Reason], list[str]]
    texts: list[str]


def opening_lines(locale: Locale, tokenizer: Tokenizer) -> tuple[str, int]:
    """Return the first lines and what they cost."""
    return OPENING[locale], tokenizer.count(OPENING[locale])


class ContextFooter:
    """Closes a context."""

    def __init__(self, query: ContextQuery, tokenizer: Tokenizer, earlier: Mapping[str, Held] | None) -> None:
        self._query = query
        self._count, self._adds_up = tokenizer.count, tokenizer.adds_up
        self._earlier = earlier
        self.least_tokens = tokenizer.count(CLOSING)
        self.reserved_tokens = min(RESERVED_TOKENS, query.total_tokens // _PART)

    def nothing(self, books: LedgerView, sections: Sequence[Section]) -> Summary:
        """Return the summary of a context that has no room for anything."""
        total = self._query.total_tokens
        return Summary("", 0, 0, total, dict.fromkeys(sections, (0, 0)), _left_out(books))

    def summary(self, books: LedgerView, sections: Sequence[Section]) -> Summary:
        """Return the summary: its text says as much of what was left out as there is room for."""
        left_out = _left_out(books)
        removed = () if self._earlier is None else tuple(one for one in self._earlier if one not in books.holds)
        before = "" if self._adds_up else "".join(books.texts)
        spent = sum(map(self._count, books.texts)) if self._adds_up else 0
        for text in (*self._texts(left_out, removed), ""):
            whole = spent + self._count(before + text)
            if whole <= self._query.total_tokens:
                break
        return Summary(
            text=text,
            text_token_count=self._count(text),
            token_count=whole,
            total_tokens=self._query.total_tokens,
            sections={section: _pair(books.counts.get(section)) for section in sections},
            left_out=left_out,
            removed_ids=removed,
        )

    def _texts(self, left_out: Sequence[LeftOut], removed: Sequence[str]) -> Iterator[str]:
        locale = self._query.locale
        told = left_out_line([one for one in left_out if one.reason is not Reason.UNCHANGED], locale)
        marks = removed_line([citation(one) for one in removed[:REMOVED_MARKS]], locale)
        yield told + marks + CLOSING
        if told and marks:
            yield marks + CLOSING
        total = sum(one.count for one in left_out if one.reason is not Reason.UNCHANGED)
        if total:
            yield f"{'Left out' if locale is Locale.EN else '未列出'}: {total}\n{CLOSING}"
        yield CLOSING


def _left_out(books: LedgerView) -> tuple[LeftOut, ...]:
    """Return what was left out by section and reason; what another section shows all the same is not missing."""
    found = []
    order = list(Section)
    for (section, reason), ids in sorted(
        books.left_out.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1])
    ):
        missing = ids if reason in _HELD else [one for one in dict.fromkeys(ids) if one not in books.holds]
        if missing:
            found.append(LeftOut(section, reason, len(missing), tuple(missing[:NAMED_IDS])))
    return tuple(found)


def _pair(counts: Sequence[int] | None) -> tuple[int, int]:
    return (counts[0], counts[1]) if counts else (0, 0)


# What about a context deserves attention.


class ContextWarnings:
    """Makes warnings in one language."""

    def __init__(self, locale: Locale) -> None:
        self._locale = locale

    def too_small(self, needed: int, total: int) -> Notice:
        """Say that nothing fits."""
        return self._notice(Severity.CRITICAL, "BUDGET_TOO_SMALL", needed, total)

    def incomplete(self, detail: str) -> Notice:
        """Say that the search did not find all that it might have."""
        said = message("RETRIEVAL_INCOMPLETE", self._locale, detail=detail)
        return Notice(Severity.WARNING, "RETRIEVAL_INCOMPLETE", said)

    def late(self, sections: Sequence[Section]) -> Notice:
        """Say that there was no time for some sections."""
        names = ", ".join(HEADINGS[self._locale][section] for section in Section if section in sections)
        return Notice(Severity.WARNING, "DEADLINE", message("DEADLINE", self._locale, detail=names))

    def count(self, code: str, value: int, limit: int) -> Iterator[Notice]:
        """Say that there are nearly, or more than, as many memories as a tier is meant for."""
        if value >= NEARLY * limit:
            yield self._notice(Severity.WARNING if value > limit else Severity.INFO, code, value, limit)

    def session(self, tokens: int, limit: int) -> Iterator[Notice]:
        """Say that a session is nearly full."""
        if limit > 0 and tokens > NEARLY_FULL * limit:
            severity = Severity.CRITICAL if tokens > ALMOST_FULL * limit else Severity.WARNING
            yield self._notice(severity, "SESSION_NEARLY_FULL", tokens, limit)

    def _notice(self, severity: Severity, code: str, value: int, limit: int) -> Notice:
        return Notice(severity, code, message(code, self._locale, value=value, limit=limit), value, limit)
