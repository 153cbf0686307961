"""Selection of the memories that a section shows: as many as fit in its share of the budget, and no duplicates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memsvc.domain.conflicts import CURRENT, Currency, CurrencyMark
from memsvc.domain.context import ContextHolding, ContextItem, OmissionReason, Section, SectionShares
from memsvc.domain.limits import SNIPPET_MAX
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory
from memsvc.domain.near_duplicates import Shingles, is_near_duplicate
from memsvc.domain.search import FoundPassage, SearchHit
from memsvc.engine.context.rendering import (
    CHARS_A_TOKEN,
    NO_LINE,
    LineRenderer,
    RenderedLine,
    content_identity,
    least_room,
    most_item_tokens,
)
from memsvc.engine.context.sources import event_order
from memsvc.text.context_phrases import day_text

_FRONT_TOKENS = 80
"""Upper bound for citation, date, age and origin."""
_COMPLETE = frozenset({Section.SESSION})
"""Sections shown with their repetitions; a repetition of one of their lines in another section is omitted."""
ADVANTAGE = 0.1
"""Of a memory's relevance over that of a message."""
THRESHOLD = 0.85
COMPARED_CHARS = 2_000


def own_shares(total: int, shares: SectionShares, sections: Collection[Section] = tuple(Section)) -> dict[Section, int]:
    """Return the tokens of those *sections*, together at most *total*. Of two with one share, the first has it."""
    parts = {
        Section.GLOBAL_CORE: shares.core,
        Section.PROJECT_CORE: 0.0 if Section.GLOBAL_CORE in sections else shares.core,
        Section.SESSION: shares.session,
        Section.LONG_TERM: shares.long_term,
        Section.SHORT_TERM: shares.short_term,
        Section.GLOBAL: 0.0,
        Section.EVIDENCE: 0.0 if Section.LONG_TERM in sections else shares.long_term,
        Section.FILES: 0.0,
    }
    return {section: int(total * parts[section]) for section in Section if section in sections}


class TokenBudget:
    """Remaining budget, section by section in their order.

    Kept back for each section to come is its own share, or less where it is known to need less; all else may be
    spent. So no section gets less than its share, or than it needs, because of those before it.
    """

    def __init__(self, total: int, shares: SectionShares, sections: Collection[Section] = tuple(Section)) -> None:
        """Share out *total* tokens among those *sections*, all of them; less than none is none."""
        self._total = max(0, total)
        own = own_shares(self._total, shares, sections)
        given = sum(own.values())
        self._own = {section: tokens * self._total // given if given else 0 for section, tokens in own.items()}
        self.spent = 0

    def open(self, section: Section, need: Callable[[Section, int], int] | None = None) -> int:
        """Return what a section may spend.

        *need* returns how many tokens a later section needs, for a given number of its tokens; one that is not known
        needs all of them. Without it all do.
        """
        order = list(Section)
        later = [one for one in self._own if order.index(one) > order.index(section)]
        kept = sum(min(self._own[one], need(one, self._own[one])) if need else self._own[one] for one in later)
        return max(0, self._total - self.spent - kept)

    def reserve(self, section: Section, tokens: int) -> None:
        """Make *tokens* the own share of a section to come."""
        self._own[section] = tokens

    def spend(self, tokens: int) -> None:
        """Spend tokens of the section that is open."""
        self.spent += tokens


class SectionSelector:
    """Fills the sections of one context, one after another."""

    def __init__(
        self,
        lines: LineRenderer,
        ledger: Ledger,
        allowance: TokenBudget,
        deduplicator: Deduplicator,
        earlier: Mapping[str, ContextHolding] | None = None,
        preview: Callable[[Section], Sequence[Memory] | None] = lambda _: None,
    ) -> None:
        """Spend from *allowance*, record in *ledger*, and omit duplicates by *deduplicator*.

        *earlier* is the content that the receiver has already; *preview* returns the memories of a later section, if
        known.
        """
        self._preview = preview
        self._lines = lines
        self._ledger = ledger
        self._allowance = allowance
        self._earlier = earlier or {}
        self._deduplicator = deduplicator

    def in_order(self, section: Section, memories: Sequence[Memory]) -> Iterator[ContextItem]:
        """Select and yield memories in the given order; of duplicates the one changed last.

        A memory that does not fit is skipped.
        """
        groups = [
            [SelectionCandidate(memory) for memory in group] for group in self._deduplicator.group_duplicates(memories)
        ]
        yield from self._yield_items(section, self._select(section, groups))

    def newest(self, section: Section, memories: Sequence[Memory]) -> Iterator[ContextItem]:
        """Select the newest memories that fit, without a gap, and yield them in the given order, newest last."""
        groups = [[SelectionCandidate(memory)] for memory in reversed(memories)]
        yield from self._yield_items(section, self._select(section, groups, may_have_gaps=False)[::-1])

    def passages(self, section: Section, found: Sequence[tuple[FoundPassage, Memory]]) -> Iterator[ContextItem]:
        """Select the best passages of files that fit, given with their memories, and yield them by date and place."""
        by_id = {memory.id: passage for passage, memory in found}
        groups = [[SelectionCandidate(memory, score=passage.score)] for passage, memory in found]
        chosen = sorted(self._select(section, groups), key=lambda pair: _passage_order(by_id[pair[0].memory.id]))
        for item in self._yield_items(section, chosen):
            yield replace(item, passage=by_id[item.memory_id])

    def best(self, section: Section, hits: Sequence[SearchHit]) -> Iterator[ContextItem]:
        """Select the best hits that fit, and yield them by date.

        Hits that are outdated come last, and others that a newer one may replace after that one.
        """
        ordered = _newer_first(hits, self._lines.marks)
        chosen = self._select(section, [[SelectionCandidate(hit.memory, _part(hit), hit.score)] for hit in ordered])
        yield from self._yield_items(section, sorted(chosen, key=lambda pair: event_order(pair[0].memory)))

    def shares_of(self, found: Mapping[Section, Sequence[SearchHit]]) -> dict[Section, int]:
        """Return the tokens that each section gets of the room that they share, the most relevant hits first.

        A message needs to be somewhat more relevant than a memory, which was extracted or written on purpose.
        """
        room = self._allowance.open(Section.LONG_TERM, self._need)
        most, needed, shares = most_item_tokens(room), 0, dict.fromkeys(found, 0)
        ranked = [(hit, section) for section, hits in found.items() for hit in hits]
        ranked.sort(key=lambda pair: -_relevance(pair[0]) - (ADVANTAGE if pair[1] is not Section.EVIDENCE else 0.0))
        for hit, section in ranked:
            line = self._lines.line(section, hit.memory, most=most, part=_part(hit))
            if line is None:
                continue
            tokens = line.tokens if shares[section] else line.tokens + self._lines.heading(section).tokens
            if needed + tokens <= room:
                needed += tokens
                shares[section] += tokens
        return shares

    def _select(
        self, section: Section, groups: Sequence[Sequence[SelectionCandidate]], *, may_have_gaps: bool = True
    ) -> list[_Choice]:
        """Return the first candidates that fit together, with their lines; at most one of each group."""
        room = self._room(section, groups)
        most = most_item_tokens(room)
        chosen: list[_Choice] = []
        for number, group in enumerate(groups):
            if section not in _COMPLETE and self._deduplicator.find_duplicate(group[0].memory) is not None:
                self._leave_out(section, OmissionReason.DUPLICATE, group)
                continue
            choice = self._choose_fitting(section, group, most=min(most, room))
            if choice is not None:
                chosen.append(choice)
                room -= choice[1].tokens
                self._deduplicator.add(choice[0].memory)
                self._leave_out(section, OmissionReason.DUPLICATE, [offer for offer in group if offer is not choice[0]])
                continue
            for left in [group] if may_have_gaps else groups[number:]:
                self._leave_out(section, OmissionReason.BUDGET, left)
            if not may_have_gaps:
                break
        return chosen

    def _room(self, section: Section, groups: Sequence[Sequence[SelectionCandidate]]) -> int:
        """Return the tokens for lines of a section; other sections are asked to spare some only if it is short."""
        room = self._allowance.open(section)
        if sum(_most_tokens(group[0].memory) for group in groups) > room:
            room = self._allowance.open(section, self._need)
        return room - (self._lines.heading(section).tokens if groups else 0)

    def _need(self, section: Section, own: int) -> int:
        """Return the tokens that a later section needs: at most its own share, all of it if unknown."""
        memories = self._preview(section)
        if memories is None or sum(len(one.content) for one in memories) >= own * CHARS_A_TOKEN:
            return own
        heading = needed = self._lines.heading(section).tokens if memories else 0
        longest = 0
        for memory in memories:
            line = self._lines.line(section, memory, most=own)
            if line is None or needed >= own:
                return own
            needed += line.tokens
            longest = max(longest, line.tokens)
        return min(max(needed, heading + least_room(longest)), own)

    def _choose_fitting(self, section: Section, group: Sequence[SelectionCandidate], *, most: int) -> _Choice | None:
        for offer in group:
            if line := self._lines.line(section, offer.memory, most=most, part=offer.part):
                return offer, line
        return None

    def _leave_out(self, section: Section, reason: OmissionReason, offers: Sequence[SelectionCandidate]) -> None:
        self._ledger.leave_out(section, reason, [offer.memory.id for offer in offers])

    def _yield_items(self, section: Section, chosen: Sequence[_Choice]) -> Iterator[ContextItem]:
        """Record lines, and yield their items except those in the earlier context."""
        counts = self._ledger.counts.setdefault(section, [0, 0])
        heading = self._lines.heading(section)
        if chosen:
            self._allowance.spend(heading.tokens)
        for offer, uncited in chosen:
            memory = offer.memory
            line = self._lines.cite(uncited, memory.id)
            # An unchanged memory uses the budget of the whole context, but no token of the delta.
            self._allowance.spend(line.tokens)
            mark = self._lines.marks.get(memory.id, CURRENT)
            held = ContextHolding(section, memory.revision, line.excerpt, self._lines.citation(memory.id), mark)
            self._ledger.holds[memory.id] = held
            before = self._earlier.get(memory.id)
            if before is not None and before.covers(held):
                self._ledger.leave_out(section, OmissionReason.UNCHANGED, [memory.id])
                continue
            above = heading if not counts[0] else NO_LINE
            item = ContextItem(
                section,
                memory.id,
                memory.revision,
                above.text + line.text,
                above.tokens + line.tokens,
                offer.score,
                is_excerpt=bool(line.excerpt),
                heading_chars=len(above.text),
                held=held,
            )
            counts[0] += 1
            counts[1] += item.token_count
            self._ledger.texts.append(item.text)
            yield item


@dataclass(frozen=True, slots=True)
class SelectionCandidate:
    """A memory that a section may show.

    Attributes:
        part: The part to show if the memory is too long.
    """

    memory: Memory
    part: str = ""
    score: float = 0.0


_Choice = tuple[SelectionCandidate, RenderedLine]


def _passage_order(found: FoundPassage) -> tuple[datetime, str, int]:
    return found.file.create_time, found.file.id, found.passage.ordinal


def _most_tokens(memory: Memory) -> int:
    """Return an upper bound for the tokens of a memory: every token has at least one byte."""
    text = f"{memory.content}{memory.title}{memory.speaker}"
    return _FRONT_TOKENS + (len(text) if text.isascii() else len(text.encode(errors="replace")))


def _newer_first(hits: Sequence[SearchHit], marks: Mapping[str, CurrencyMark]) -> list[SearchHit]:
    places = {hit.memory.id: place for place, hit in enumerate(hits)}

    def key(hit: SearchHit) -> tuple[bool, int, bool]:
        mark = marks.get(hit.memory.id, CURRENT)
        place = places[hit.memory.id]
        return mark.currency is Currency.OUTDATED, max(place, places.get(mark.newer_id, -1)), mark is not CURRENT

    return sorted(hits, key=key)


def _relevance(hit: SearchHit) -> float:
    """Return the relevance of a hit, or its score where it is not known."""
    return hit.score if hit.relevance is None else hit.relevance


def _part(hit: SearchHit) -> str:
    """Return the part of a long memory to show: the chunk that matches the query."""
    return hit.snippet if len(hit.memory.content) > SNIPPET_MAX else ""


_Bucket = tuple[str, tuple[str, ...]]


class Deduplicator:
    """Detection of near-duplicates of the selected memories. Shingles are computed at the first comparison."""

    def __init__(self, cache: LruCache[Hashable, Shingles]) -> None:
        """Start without memories; shingles are cached in *cache*."""
        self._cache = cache
        self._waiting: list[Memory] = []
        self._shingles: dict[_Bucket, list[tuple[Shingles, Memory]]] = {}

    def add(self, memory: Memory) -> None:
        """Add a selected memory."""
        self._waiting.append(memory)

    def find_duplicate(self, memory: Memory) -> Memory | None:
        """Return the first selected memory that is a near-duplicate of this one."""
        for chosen in self._waiting:
            own = self._shingles_of(chosen)
            self._shingles.setdefault(own.bucket, []).append((own, chosen))
        self._waiting.clear()
        return _find_near_duplicate(self._shingles_of(memory), self._shingles)

    def group_duplicates(self, memories: Sequence[Memory]) -> list[list[Memory]]:
        """Return near-duplicates grouped, the one changed last first, in the order of the first of each group."""
        groups: dict[str, list[Memory]] = {}
        shingles: dict[_Bucket, list[tuple[Shingles, Memory]]] = {}
        for memory in memories:
            own = self._shingles_of(memory)
            duplicate = _find_near_duplicate(own, shingles)
            if duplicate is None:
                shingles.setdefault(own.bucket, []).append((own, memory))
            groups.setdefault((duplicate or memory).id, []).append(memory)
        return [sorted(group, key=lambda one: (one.update_time, one.row), reverse=True) for group in groups.values()]

    def _shingles_of(self, memory: Memory) -> Shingles:
        key = content_identity(memory)
        own = self._cache.get(key)
        if own is None:
            own = _compute_shingles(memory)
            self._cache.put(key, own)
        return own


def _find_near_duplicate(own: Shingles, shingles: Mapping[_Bucket, Sequence[tuple[Shingles, Memory]]]) -> Memory | None:
    others = shingles.get(own.bucket, ())
    return next((memory for other, memory in others if is_near_duplicate(own, other, THRESHOLD)), None)


def _compute_shingles(memory: Memory) -> Shingles:
    beyond = memory.content_hash if len(memory.content) > COMPARED_CHARS else ""
    happened_on = "" if memory.event_time is None else day_text(memory.event_time)
    content, title = memory.content[:COMPARED_CHARS], memory.title
    # A title that repeats the beginning of the content adds nothing.
    text = content if content.lstrip().startswith(title) else f"{title} {content}"
    return Shingles.of(text, beyond=beyond, marks=(memory.speaker, happened_on))


@dataclass(slots=True)
class Ledger:
    """The record of one context: its memories, token counts and omissions.

    Attributes:
        counts: The number of items of each section and of their tokens.
        texts: The texts of all events, in order.
    """

    holds: dict[str, ContextHolding] = field(default_factory=dict)
    counts: dict[Section, list[int]] = field(default_factory=dict)
    left_out: dict[tuple[Section, OmissionReason], list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def leave_out(self, section: Section, reason: OmissionReason, ids: Iterable[str]) -> None:
        """Record omitted memories."""
        if ids := list(ids):
            self.left_out.setdefault((section, reason), []).extend(ids)
