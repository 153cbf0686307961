"""Building of one context: section by section, each within its share of the budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeAlias

from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import CURRENT, Currency, CurrencyMark
from memsvc.domain.context import (
    ACTIVE_COUNT,
    ALMOST_FULL,
    CORE_COUNT,
    NEARLY,
    NEARLY_FULL,
    RETRIEVED,
    ContextHolding,
    ContextNotice,
    ContextPlan,
    ContextQuery,
    ContextSummary,
    Event,
    Locale,
    NoticeSeverity,
    Omission,
    OmissionReason,
    Section,
)
from memsvc.domain.errors import MemsvcError
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory, Tier
from memsvc.domain.near_duplicates import Shingles
from memsvc.domain.provenance import speaks_for_the_user
from memsvc.domain.search import FoundPassage, SearchHit, SearchReply
from memsvc.engine.conflicts.currency import CurrencyJudge
from memsvc.engine.context.core_memories import LIST
from memsvc.engine.context.rendering import LineRenderer, RenderedLine
from memsvc.engine.context.selection import Deduplicator, Ledger, SectionSelector, TokenBudget, own_shares
from memsvc.engine.context.sources import (
    RECENT_MEMORIES,
    SESSION_MESSAGES,
    ContextSourceReader,
    passage_memory,
    section_of,
)
from memsvc.ports.models import Tokenizer
from memsvc.ports.thread_wait import ThreadWait
from memsvc.text.capture_rules import is_courtesy, is_forget_request
from memsvc.text.change_cues import count_changes
from memsvc.text.context_phrases import (
    CLOSING,
    HEADINGS,
    OPENING,
    left_out_line,
    local,
    message,
    removed_line,
    today_text,
)
from memsvc.text.recalled_text import citation, is_part_of, normal_text

MARGIN_SECONDS = 0.05
"""Time before the deadline at which the search is abandoned, to return what is available."""
CORE_PATIENCE_SECONDS = 1.0
"""As long the search is awaited before the core memories are written, which what it finds may outdate."""
LEAST_SECONDS = 0.02
"""With less time left no further section is started, to leave time for the summary."""
NAMED_IDS = 100
"""Number of ids named for each reason of omission."""
REMOVED_MARKS = 20
RELATED = 0.1
"""Relevance from which on a recent memory competes with what the query retrieves, instead of by its age."""
LEAST_EVIDENCE = 0.02
"""Least relevance of a message of an earlier session, if it is known."""
FILE_PASSAGES = 8
"""Number of passages of files that a context shows."""
REPEATED = 0.6
"""Share of a message that memories repeat, so that these are shown alone."""
RESERVED_TOKENS = 160
"""Tokens reserved for the line about omitted memories; a twentieth of a small budget."""
MOST_RELEVANT = 1.0
"""Relevance of what outdates a memory that every context shows."""
_PART = 20
_REPLACED = frozenset({Currency.OUTDATED, Currency.POSSIBLY_OUTDATED})
_HELD = frozenset({OmissionReason.UNCHANGED, OmissionReason.UNCERTAIN})


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """Dependencies and inputs of a context.

    Attributes:
        search: Starts the search of the query.
        session_size: Returns the tokens that the scope's session has and may have; None if they are not tracked.
        earlier: The content of an earlier context by id; None if no delta is requested.
        least_core_trust: See `memsvc.domain.provenance.speaks_for_the_user`.
        currency: Marks the retrieved memories that are not current.
        short_term_limit: Number of SHORT_TERM memories above which to warn; 0: none.
        short_term_count: Returns that number, in a time that grows with it.
        lines: Cached lines of memories from earlier contexts.
        sayings: Cached shingles of memories from earlier contexts.
    """

    source_reader: ContextSourceReader
    tokenizer: Tokenizer
    search: Callable[[Deadline], Future[RetrievedHits]]
    lines: LruCache[Hashable, RenderedLine]
    sayings: LruCache[Hashable, Shingles]
    session_size: Callable[[], tuple[int, int] | None] = lambda: None
    earlier: Mapping[str, ContextHolding] | None = None
    least_core_trust: float = 0.0
    currency: CurrencyJudge | None = None
    short_term_limit: int = 0
    short_term_count: Callable[[], int] = lambda: 0


@dataclass(frozen=True, slots=True)
class RetrievedHits:
    """Hits of the query: memories, messages of earlier sessions, and passages of files."""

    memories: SearchReply
    evidence: SearchReply | None = None
    passages: Sequence[FoundPassage] = ()


_Found: TypeAlias = tuple[Sequence[SearchHit], Sequence[SearchHit], str]


class ContextBuilder:
    """A context under construction. Not thread-safe."""

    def __init__(self, query: ContextQuery, inputs: BuildInputs, now: datetime) -> None:
        """Build the context of *query*, as of *now* unless the query names another moment."""
        self.query = query
        now = query.moment or now
        self.deadline = Deadline()
        self.ledger = Ledger()
        self.earlier = inputs.earlier
        self._inputs = inputs
        self._now = now
        cited = {memory_id: held.citation for memory_id, held in (inputs.earlier or {}).items()}
        self.lines = LineRenderer(query, inputs.tokenizer, inputs.lines, cited)
        self._warnings = ContextWarnings(query.locale)
        self._nothing_relevant = False
        self._archived_count = 0
        self._embedded_chars = 0
        self._passages: Sequence[FoundPassage] = ()
        self._footer = ContextFooter(query, inputs.tokenizer, inputs.earlier)
        self._selector = self._empty_selector()
        self._pending: Future[RetrievedHits] | None = None
        self._skipped: list[Section] = []
        self._read_memories: dict[Section, list[Memory]] = {}
        self._core_memories: Sequence[Memory] = ()
        self._judged: Mapping[str, Memory] = {}

    def abandon(self) -> None:
        """Cancel the search while no client reads; a resumed context starts it again."""
        if self._pending is not None:
            self._pending.cancel()

    def batches(self) -> Iterator[list[Event]]:
        """Yield the events: the plan, the core sections, the session, and the others with the summary.

        The plan comes at once. Core memories wait for the search, but no longer than `CORE_PATIENCE_SECONDS`, because
        what it finds may outdate them. The session waits for nothing else, the other sections for the whole search.

        A batch is empty if the context was abandoned while it waited.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        text, tokens = opening_lines(self.query, self._now, self._inputs.tokenizer)
        fixed = tokens + self._footer.least_tokens
        sections = [section for section in Section if section in self.query.sections]
        is_too_small = fixed > self.query.total_tokens
        free = self.query.total_tokens - fixed - self._footer.reserved_tokens
        plan = self._plan("" if is_too_small else text, 0 if is_too_small else tokens, sections, free)
        if is_too_small:
            notice = self._warnings.too_small(fixed, self.query.total_tokens)
            self._leave_all_out()
            yield [plan, notice, self._footer.empty_summary(self.ledger, sections)]
            return
        if self.query.retrieves:
            self._pending = self._inputs.search(self.deadline)
        self.ledger.texts.append(text)
        allowance = TokenBudget(free, self.query.shares, [*filter(self._is_possible, Section)])
        deduplicator = Deduplicator(self._inputs.sayings)
        self._selector = SectionSelector(self.lines, self.ledger, allowance, deduplicator, self.earlier, self._preview)
        yield [plan]
        yield [*self._core()]
        if self._starts(Section.SESSION):
            yield self._session()
        started = [section for section in Section if section in RETRIEVED and self._starts(section)]
        found: _Found = ((), (), "")
        if started:
            while (awaited := self._await_search()) is None:
                yield []
            found = awaited
        rest = [*self._build_retrieved(started, found, allowance)]
        if self._skipped:
            rest.append(self._warnings.late(self._skipped))
        rest.append(self._footer.summary(self.ledger, sections))
        # Drop everything that resuming and deltas do not need, because contexts are kept for an hour.
        self.ledger.texts, self._selector = [], self._empty_selector()
        self._pending, self._read_memories = None, {}
        yield rest

    def _empty_selector(self) -> SectionSelector:
        allowance = TokenBudget(0, self.query.shares)
        return SectionSelector(self.lines, self.ledger, allowance, Deduplicator(self._inputs.sayings))

    def _read(self, section: Section) -> list[Memory]:
        """Return the memories of the session, or recent memories; read once."""
        if section not in self._read_memories:
            source_reader, is_session = self._inputs.source_reader, section is Section.SESSION
            found = (source_reader.session if is_session else source_reader.recent)(self.query, self._now)
            most = SESSION_MESSAGES if is_session else RECENT_MEMORIES
            self.ledger.leave_out(section, OmissionReason.LIMIT, [memory.id for memory in found[:-most]])
            self._read_memories[section] = found[-most:]
        return self._read_memories[section]

    def _preview(self, section: Section) -> Sequence[Memory] | None:
        """Return the memories of a section that needs no search; None if they are not known yet."""
        return self._read(section) if section in {Section.SESSION, Section.SHORT_TERM} else None

    def _is_possible(self, section: Section) -> bool:
        """Return whether a section is requested and can have content."""
        scope = self.query.scope
        needed = {
            Section.PROJECT_CORE: scope.project_id,
            Section.SESSION: scope.session_id,
            Section.SHORT_TERM: scope.project_id,
            Section.LONG_TERM: self.query.retrieves,
            Section.GLOBAL: self.query.retrieves and scope.project_id,
            Section.EVIDENCE: self.query.retrieves,
            Section.FILES: self.query.reads_files,
        }
        return section in self.query.sections and bool(needed.get(section, True))

    def _starts(self, section: Section) -> bool:
        """Return whether a section is possible and there is time for it."""
        if not self._is_possible(section):
            return False
        remaining = self.deadline.remaining_seconds()
        if remaining is not None and remaining < LEAST_SECONDS:
            self._skipped.append(section)
            return False
        return True

    def _leave_all_out(self) -> None:
        """Record all memories of sections without a search as left out; the content of an earlier context stays."""
        self._carry_over({*self.query.sections}, set())
        for section in filter(self._is_possible, Section):
            if section in RETRIEVED:
                continue
            if section in {Section.SESSION, Section.SHORT_TERM}:
                memories = self._read(section)
            else:
                project = self.query.scope.project_id if section is Section.PROJECT_CORE else ""
                memories = [one for part in self._inputs.source_reader.essentials(self.query, project) for one in part]
            self.ledger.leave_out(section, OmissionReason.BUDGET, [memory.id for memory in memories])

    def _plan(self, text: str, tokens: int, sections: Sequence[Section], free: int) -> ContextPlan:
        own = own_shares(max(0, free), self.query.shares, sections)
        return ContextPlan(
            text=text,
            token_count=tokens,
            total_tokens=self.query.total_tokens,
            tokenizer=self._inputs.tokenizer.name,
            sections=tuple((section, own[section]) for section in sections),
            is_delta=self.earlier is not None,
        )

    def _core(self) -> Iterator[Event]:
        counts = [0, 0]
        essentials = {}
        for section in (Section.GLOBAL_CORE, Section.PROJECT_CORE):
            if self._is_possible(section):
                project = self.query.scope.project_id if section is Section.PROJECT_CORE else ""
                essentials[section] = self._inputs.source_reader.essentials(self.query, project)
        self._judge_core([one for core, active in essentials.values() for one in (*core[:LIST], *active[:LIST])])
        for section, (core, active) in essentials.items():
            counts[0] += sum(memory.tier is Tier.CORE for memory in core)
            counts[1] += len(active)
            memories = [*core[:LIST], *active[:LIST]]
            trusted = [one for one in memories if speaks_for_the_user(one, self._inputs.least_core_trust)]
            ids = {memory.id for memory in trusted}
            self.ledger.leave_out(section, OmissionReason.UNTRUSTED, [one.id for one in memories if one.id not in ids])
            outdated = {one.id for one in trusted if self._is_revoked(one)}
            self.ledger.leave_out(section, OmissionReason.OUTDATED, [*outdated])
            shown = [one for one in trusted if one.id not in outdated]
            # What is doubted takes no room from what is not, above all not from what it is doubted for.
            yield from self._selector.in_order(section, sorted(shown, key=self._is_doubted))
            self.ledger.leave_out(
                section, OmissionReason.LIMIT, [one.id for part in (core, active) for one in part[LIST:]]
            )
        yield from self._warnings.count("CORE_COUNT", counts[0], CORE_COUNT)
        yield from self._warnings.count("ACTIVE_COUNT", counts[1], ACTIVE_COUNT)

    def _judge_core(self, core: Sequence[Memory]) -> None:
        """Mark what is outdated of the core memories; the search, which finds what is new, is awaited for a moment."""
        self._core_memories = core
        if self._inputs.currency is None or not core:
            return
        hits: Sequence[SearchHit] = ()
        messages: Sequence[SearchHit] = ()
        if self._pending is not None:
            remaining = self.deadline.remaining_seconds()
            patience = CORE_PATIENCE_SECONDS if remaining is None else min(CORE_PATIENCE_SECONDS, remaining / 2)
            with suppress(CancelledError, FutureTimeoutError, MemsvcError):
                with ThreadWait():
                    found = self._pending.result(max(0.0, patience))
                hits, messages = found.memories.hits, found.evidence.hits if found.evidence else ()
        recent = self._read(Section.SHORT_TERM) if self._is_possible(Section.SHORT_TERM) else []
        self._judge(hits, messages, recent)

    def _judge(
        self, hits: Sequence[SearchHit], messages: Sequence[SearchHit], recent: Sequence[Memory]
    ) -> Mapping[str, str]:
        """Mark what is not current; return the messages of which memories repeat most: see `_repeated_by`."""
        core = [one for one in self._core_memories if speaks_for_the_user(one, self._inputs.least_core_trust)]
        repeated_by = _repeated_by(messages, [*(hit.memory for hit in hits), *core])
        if self._inputs.currency is not None:
            found = {hit.memory.id: hit.memory for hit in (*hits, *messages)}
            others = {one.id: one for one in (*self._core_memories, *recent) if one.id not in found}
            if self._judged.keys() == {*found, *others}:
                return repeated_by
            valid_time = None if self.query.as_of is None else self.query.as_of.valid_time
            marks = self._inputs.currency.marks([*hits, *messages], [*others.values()], valid_time)
            self.lines.marks = _naming_shown(marks, repeated_by)
            self._judged = {**others, **found}
        return repeated_by

    def _is_revoked(self, memory: Memory) -> bool:
        """Return whether a newer memory contradicts this one, or is in conflict with it and tells of a change."""
        mark = self.lines.marks.get(memory.id, CURRENT)
        newer = self._judged.get(mark.newer_id) if mark.currency is Currency.CONFLICTED else None
        is_changed = newer is not None and count_changes(newer.content) > 0
        return is_changed or mark.currency is Currency.OUTDATED

    def _is_doubted(self, memory: Memory) -> bool:
        return self.lines.marks.get(memory.id, CURRENT).currency in _REPLACED

    def _session(self) -> list[Event]:
        messages = self._read(Section.SESSION)
        items = list(self._selector.newest(Section.SESSION, messages))
        return [*items, *self._warnings.session(*self._session_size(messages))]

    def _session_size(self, messages: Sequence[Memory]) -> tuple[int, int]:
        """Return the tokens that the session has and may have; if they are not tracked, its share of the budget.

        Messages are counted only if there may be enough for a warning: every token has at least one byte.
        """
        if size := self._inputs.session_size():
            return size
        limit = int(self.query.total_tokens * self.query.shares.session)
        if sum(len(memory.content.encode(errors="replace")) for memory in messages) <= NEARLY_FULL * limit:
            return 0, limit
        return sum(self.lines.cost(memory.content) for memory in messages), limit

    def _build_retrieved(
        self, started: Sequence[Section], retrieved: _Found, allowance: TokenBudget
    ) -> Iterator[Event]:
        hits, messages, lost = retrieved
        yield from self._build_search_warnings(lost)
        recent = self._read(Section.SHORT_TERM) if self._starts(Section.SHORT_TERM) else []
        limit = self._inputs.short_term_limit
        if limit and len(recent) >= min(RECENT_MEMORIES, NEARLY * limit):
            yield from self._warnings.count("SHORT_TERM_COUNT", self._inputs.short_term_count(), limit)
        repeated_by = self._judge(hits, messages, recent)
        replaced = _most_relevant_replaced((*hits, *messages), self.lines.marks, shown=self.ledger.holds.keys())
        unshown = [hit for hit in hits if hit.memory.id not in self.ledger.holds]
        hits, messages = _lift(unshown, replaced), _lift(messages, replaced)
        unrepeated = [hit for hit in messages if hit.memory.id not in repeated_by]
        found = self._by_section(started, hits, unrepeated, recent)
        for section, tokens in self._selector.shares_of(found).items():
            allowance.reserve(section, tokens)
        for section in (Section.LONG_TERM, Section.SHORT_TERM, Section.GLOBAL, Section.EVIDENCE):
            if section is Section.SHORT_TERM:
                new = [memory for memory in recent if memory.id not in self.ledger.holds]
                yield from self._selector.newest(section, new)
            elif section in started:
                yield from self._selector.best(section, found[section])
        found_ids = {hit.memory.id for hit in (*hits, *messages)}
        if Section.FILES in started:
            passages = [(one, passage_memory(one, self.query.locale)) for one in self._passages]
            found_ids |= {memory.id for _, memory in passages}
            self.ledger.leave_out(
                Section.FILES, OmissionReason.LIMIT, [memory.id for _, memory in passages[FILE_PASSAGES:]]
            )
            yield from self._selector.passages(Section.FILES, passages[:FILE_PASSAGES])
        self._carry_over({*self._skipped, *(started if lost else ())}, found_ids)

    def _build_search_warnings(self, lost: str) -> Iterator[ContextNotice]:
        if lost:
            yield self._warnings.incomplete(lost)
        elif self._nothing_relevant:
            yield self._warnings.nothing_relevant()
        if self._archived_count:
            yield self._warnings.archived_found(self._archived_count)
        if self._embedded_chars:
            yield self._warnings.query_cut(self._embedded_chars, len(self.query.text))

    def _by_section(
        self,
        started: Sequence[Section],
        hits: Sequence[SearchHit],
        messages: Sequence[SearchHit],
        recent: Sequence[Memory],
    ) -> dict[Section, list[SearchHit]]:
        """Return what the query retrieved by section, without recent memories that are only near the query."""
        found: dict[Section, list[SearchHit]] = {section: [] for section in started if section is not Section.FILES}
        recent_ids = {memory.id for memory in recent}
        for hit in hits:
            section = section_of(hit.memory, self.query.scope)
            is_related = hit.memory.id not in recent_ids or (hit.relevance or 0.0) >= RELATED
            if is_related and section in found and hit.memory.id not in self.ledger.holds:
                found[section].append(hit)
        if Section.EVIDENCE in found:
            found[Section.EVIDENCE] = [hit for hit in messages if _is_evidence(hit)]
        return found

    def _carry_over(self, sections: AbstractSet[Section], found: AbstractSet[str]) -> None:
        """Keep the content of the earlier context in incomplete sections, where it may only not have been read."""
        for memory_id, held in (self.earlier or {}).items():
            if held.section in sections and memory_id not in found and memory_id not in self.ledger.holds:
                self.ledger.holds[memory_id] = held
                self.ledger.leave_out(held.section, OmissionReason.UNCERTAIN, [memory_id])

    def _await_search(self) -> _Found | None:
        """Return the hits, and why they may be incomplete; None if the context was abandoned."""
        if self._pending is None or self._pending.cancelled():
            self._pending = self._inputs.search(self.deadline)
        pending, remaining = self._pending, self.deadline.remaining_seconds()
        try:
            with ThreadWait():
                reply = pending.result(None if remaining is None else max(0.0, remaining - MARGIN_SECONDS))
        except CancelledError:
            return None
        except FutureTimeoutError:
            pending.cancel()
            return (), (), "DEADLINE_EXCEEDED"
        except MemsvcError as error:
            return (), (), error.message
        memories, evidence = reply.memories, reply.evidence
        is_without_evidence = evidence is None or not evidence.hits or evidence.nothing_relevant
        self._nothing_relevant = memories.nothing_relevant and is_without_evidence
        self._archived_count = len(memories.archived) if is_without_evidence else 0
        self._embedded_chars = memories.embedded_chars
        self._passages = reply.passages
        lost = ", ".join(f"{one.retriever} {one.reason}" for one in memories.degraded)
        return memories.hits, () if evidence is None else evidence.hits, lost


def _repeated_by(messages: Sequence[SearchHit], memories: Sequence[Memory]) -> dict[str, str]:
    """Return the ids of the messages of which memories together repeat most, each with the one that repeats most."""
    known = [(text, memory.id) for memory in memories if (text := normal_text(memory.content))]
    found = {}
    for hit in messages:
        said = normal_text(hit.memory.content)
        parts = [(text, memory_id) for text, memory_id in known if is_part_of(text, said)]
        if parts and _covered_length(said, [text for text, _ in parts]) >= REPEATED * len(said):
            found[hit.memory.id] = max(parts, key=lambda part: len(part[0]))[1]
    return found


def _covered_length(whole: str, parts: Sequence[str]) -> int:
    """Return how many characters of a text its *parts* cover, each once."""
    covered = end = 0
    for first, last in sorted((at := whole.find(part), at + len(part)) for part in parts):
        covered += max(0, last - max(first, end))
        end = max(end, last)
    return covered


def _most_relevant_replaced(
    hits: Sequence[SearchHit], marks: Mapping[str, CurrencyMark], shown: Collection[str]
) -> dict[str, tuple[str, float]]:
    """Return the ids of hits that outdate more relevant ones, each with the id and the relevance of the best of them.

    The query is often nearer to how it was: "Where do I live?" is nearer to "I live in Leeds" than to "the keys
    to the house came on Friday". What outdates a memory that is *shown* already, because every context shows it, is
    the most relevant.
    """
    known = {hit.memory.id: hit.relevance for hit in hits if hit.relevance is not None}
    best: dict[str, tuple[str, float]] = {}
    for older, mark in marks.items():
        relevance = MOST_RELEVANT if older in shown else known.get(older, 0.0)
        own = known.get(mark.newer_id, MOST_RELEVANT)
        if mark.currency in _REPLACED and relevance > max(own, best.get(mark.newer_id, ("", 0.0))[1]):
            best[mark.newer_id] = older, relevance
    return best


def _lift(hits: Sequence[SearchHit], replaced: Mapping[str, tuple[str, float]]) -> list[SearchHit]:
    """Return hits, each newer one as relevant as what it replaces and in its place; the older one takes its place."""
    ordered = [hit for hit in hits if hit.memory.id not in replaced]
    for place, hit in enumerate(hits):
        if hit.memory.id not in replaced:
            continue
        older, relevance = replaced[hit.memory.id]
        lifted = replace(hit, relevance=relevance)
        at = next((at for at, one in enumerate(ordered) if one.memory.id == older), None)
        if at is None:
            less = (at for at, one in enumerate(ordered) if (one.relevance or 0.0) <= relevance)
            ordered.insert(next(less, len(ordered)), lifted)
        else:
            ordered[at], demoted = lifted, ordered[at]
            ordered.insert(place, demoted)
    return ordered


def _is_evidence(hit: SearchHit) -> bool:
    """Return whether a message is at all relevant, and more than a courtesy or a request to forget something."""
    content = hit.memory.content
    is_relevant = hit.relevance is None or hit.relevance >= LEAST_EVIDENCE
    return is_relevant and not is_courtesy(content) and not is_forget_request(content)


def _naming_shown(marks: Mapping[str, CurrencyMark], repeated_by: Mapping[str, str]) -> dict[str, CurrencyMark]:
    """Return *marks* that name a memory in place of a message that it repeats, which no section shows."""
    return {
        older: replace(mark, newer_id=repeated_by.get(mark.newer_id, mark.newer_id))
        for older, mark in marks.items()
        if repeated_by.get(mark.newer_id) != older
    }


class LedgerView(Protocol):
    """The parts of the ledger that the footer reads."""

    holds: dict[str, ContextHolding]
    counts: dict[Section, list[int]]
    left_out: dict[tuple[Section, OmissionReason], list[str]]
    texts: list[str]


def opening_lines(query: ContextQuery, now: datetime, tokenizer: Tokenizer) -> tuple[str, int]:
    """Return the first lines, which say what day it is, and their token count."""
    text = OPENING[query.locale].format(today=today_text(local(now, query.zone), query.locale))
    return text, tokenizer.count(text)


class ContextFooter:
    """The closing lines and the summary of a context."""

    def __init__(self, query: ContextQuery, tokenizer: Tokenizer, earlier: Mapping[str, ContextHolding] | None) -> None:
        self._query = query
        self._count, self._adds_up = tokenizer.count, tokenizer.adds_up
        self._earlier = earlier
        self.least_tokens = tokenizer.count(CLOSING)
        self.reserved_tokens = min(RESERVED_TOKENS, query.total_tokens // _PART)

    def empty_summary(self, ledger: LedgerView, sections: Sequence[Section]) -> ContextSummary:
        """Return the summary of a context whose budget is too small."""
        total = self._query.total_tokens
        return ContextSummary("", 0, 0, total, dict.fromkeys(sections, (0, 0)), _left_out(ledger))

    def summary(self, ledger: LedgerView, sections: Sequence[Section]) -> ContextSummary:
        """Return the summary; its text describes the omitted memories as far as there is room."""
        left_out = _left_out(ledger)
        removed = () if self._earlier is None else tuple(one for one in self._earlier if one not in ledger.holds)
        preceding = "" if self._adds_up else "".join(ledger.texts)
        spent = sum(map(self._count, ledger.texts)) if self._adds_up else 0
        for text in (*self._texts(left_out, removed), ""):
            whole = spent + self._count(preceding + text)
            if whole <= self._query.total_tokens:
                break
        return ContextSummary(
            text=text,
            text_token_count=self._count(text),
            token_count=whole,
            total_tokens=self._query.total_tokens,
            sections={section: _pair(ledger.counts.get(section)) for section in sections},
            left_out=left_out,
            removed_ids=removed,
        )

    def _texts(self, left_out: Sequence[Omission], removed: Sequence[str]) -> Iterator[str]:
        locale = self._query.locale
        omitted = left_out_line([one for one in left_out if one.reason is not OmissionReason.UNCHANGED], locale)
        earlier = self._earlier or {}
        marks = removed_line([earlier[one].citation or citation(one) for one in removed[:REMOVED_MARKS]], locale)
        yield omitted + marks + CLOSING
        if omitted and marks:
            yield marks + CLOSING
        total = sum(one.count for one in left_out if one.reason is not OmissionReason.UNCHANGED)
        if total:
            yield f"{'Left out' if locale is Locale.EN else '未列出'}: {total}\n{CLOSING}"
        yield CLOSING


def _left_out(ledger: LedgerView) -> tuple[Omission, ...]:
    """Return the omitted memories by section and reason, without those that another section shows."""
    found = []
    order = list(Section)
    for (section, reason), ids in sorted(
        ledger.left_out.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1])
    ):
        missing = ids if reason in _HELD else [one for one in dict.fromkeys(ids) if one not in ledger.holds]
        if missing:
            found.append(Omission(section, reason, len(missing), tuple(missing[:NAMED_IDS])))
    return tuple(found)


def _pair(counts: Sequence[int] | None) -> tuple[int, int]:
    return (counts[0], counts[1]) if counts else (0, 0)


class ContextWarnings:
    """Warnings about a context in one language."""

    def __init__(self, locale: Locale) -> None:
        self._locale = locale

    def too_small(self, needed: int, total: int) -> ContextNotice:
        """Return the warning that nothing fits into the budget."""
        return self._notice(NoticeSeverity.CRITICAL, "BUDGET_TOO_SMALL", needed, total)

    def incomplete(self, detail: str) -> ContextNotice:
        """Return the warning that the search may be incomplete."""
        said = message("RETRIEVAL_INCOMPLETE", self._locale, detail=detail)
        return ContextNotice(NoticeSeverity.WARNING, "RETRIEVAL_INCOMPLETE", said)

    def nothing_relevant(self) -> ContextNotice:
        """Return the note that no memory fits the query."""
        return ContextNotice(NoticeSeverity.INFO, "NOTHING_RELEVANT", message("NOTHING_RELEVANT", self._locale))

    def archived_found(self, count: int) -> ContextNotice:
        """Return the note that archived memories fit the query."""
        return self._notice(NoticeSeverity.INFO, "ARCHIVED_FOUND", count, 0)

    def query_cut(self, chars: int, length: int) -> ContextNotice:
        """Return the note that the end of the query was not searched by meaning."""
        return self._notice(NoticeSeverity.INFO, "QUERY_CUT", chars, length)

    def late(self, sections: Sequence[Section]) -> ContextNotice:
        """Return the warning that there was no time for some sections."""
        names = ", ".join(HEADINGS[self._locale][section] for section in Section if section in sections)
        return ContextNotice(NoticeSeverity.WARNING, "DEADLINE", message("DEADLINE", self._locale, detail=names))

    def count(self, code: str, value: int, limit: int) -> Iterator[ContextNotice]:
        """Yield a warning if a tier has nearly, or more than, the intended number of memories."""
        if value >= NEARLY * limit:
            yield self._notice(NoticeSeverity.WARNING if value > limit else NoticeSeverity.INFO, code, value, limit)

    def session(self, tokens: int, limit: int) -> Iterator[ContextNotice]:
        """Yield a warning if a session is nearly full."""
        if limit > 0 and tokens > NEARLY_FULL * limit:
            severity = NoticeSeverity.CRITICAL if tokens > ALMOST_FULL * limit else NoticeSeverity.WARNING
            yield self._notice(severity, "SESSION_NEARLY_FULL", tokens, limit)

    def _notice(self, severity: NoticeSeverity, code: str, value: int, limit: int) -> ContextNotice:
        return ContextNotice(severity, code, message(code, self._locale, value=value, limit=limit), value, limit)
