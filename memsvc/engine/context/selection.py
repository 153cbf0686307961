"""Choosing what a section shows: as much as it has room for, and nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memsvc.domain.context import Held, Item, Reason, Section, TokenBudget
from memsvc.domain.limits import SNIPPET_MAX
from memsvc.domain.lru_cache import LruCache
from memsvc.domain.memory import Memory
from memsvc.domain.near_duplicates import Shingles, is_near_duplicate
from memsvc.domain.search import SearchHit
from memsvc.engine.context.rendering import (
    CHARS_A_TOKEN,
    NO_LINE,
    Line,
    LineRenderer,
    content_identity,
    least_room,
    most_item_tokens,
)
from memsvc.engine.context.sources import event_order
from memsvc.text.context_phrases import day_text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that a section might show.

    Attributes:
        part: What to show of it when it is too long.
    """

    memory: Memory
    part: str = ""
    score: float = 0.0


_Choice = tuple[Candidate, Line]
_FRONT_TOKENS = 80
"""Citation, date, age and origin take no more."""
_COMPLETE = frozenset({Section.SESSION})
"""A conversation is shown with its repetitions; what repeats a line of it elsewhere is not."""


class SectionSelector:
    """Fills the sections of one context, one after another."""

    def __init__(
        self,
        lines: LineRenderer,
        ledger: Ledger,
        allowance: TokenBudget,
        told: Deduplicator,
        earlier: Mapping[str, Held] | None = None,
        coming: Callable[[Section], Sequence[Memory] | None] = lambda _: None,
    ) -> None:
        """Spend of *allowance*, keep the books in *ledger*, show nothing that was *told*.

        *earlier* is what the receiver holds already, *coming* returns what a later section would show, if known.
        """
        self._coming = coming
        self._lines = lines
        self._ledger = ledger
        self._allowance = allowance
        self._earlier = earlier or {}
        self._told = told

    def in_order(self, section: Section, memories: Sequence[Memory]) -> Iterator[Item]:
        """Choose and show memories in the order given; of those that say the same, the one changed last.

        One that has no room is passed over.
        """
        groups = [[Candidate(memory) for memory in group] for group in self._told.group_duplicates(memories)]
        yield from self._shown(section, self._chosen(section, groups))

    def newest(self, section: Section, memories: Sequence[Memory]) -> Iterator[Item]:
        """Choose the newest that have room, without a gap, and show them in the order given, the newest last."""
        groups = [[Candidate(memory)] for memory in reversed(memories)]
        yield from self._shown(section, self._chosen(section, groups, may_have_gaps=False)[::-1])

    def best(self, section: Section, hits: Sequence[SearchHit]) -> Iterator[Item]:
        """Choose the hits that fit best and have room, and show them by date."""
        chosen = self._chosen(section, [[Candidate(hit.memory, _part(hit), hit.score)] for hit in hits])
        yield from self._shown(section, sorted(chosen, key=lambda pair: event_order(pair[0].memory)))

    def _chosen(
        self, section: Section, groups: Sequence[Sequence[Candidate]], *, may_have_gaps: bool = True
    ) -> list[_Choice]:
        """Return those that have room together, the first ones first, with their lines; of each group at most one."""
        room = self._room(section, groups)
        most = most_item_tokens(room)
        chosen: list[_Choice] = []
        for number, group in enumerate(groups):
            if section not in _COMPLETE and self._told.find_duplicate(group[0].memory) is not None:
                self._leave_out(section, Reason.DUPLICATE, group)
                continue
            choice = self._fitting(section, group, most=min(most, room))
            if choice is not None:
                chosen.append(choice)
                room -= choice[1].tokens
                self._told.add(choice[0].memory)
                self._leave_out(section, Reason.DUPLICATE, [offer for offer in group if offer is not choice[0]])
                continue
            for left in [group] if may_have_gaps else groups[number:]:
                self._leave_out(section, Reason.BUDGET, left)
            if not may_have_gaps:
                break
        return chosen

    def _room(self, section: Section, groups: Sequence[Sequence[Candidate]]) -> int:
        """Return what a section may spend on lines; others are asked what they can spare only when it is short."""
        room = self._allowance.open(section)
        if sum(_most_tokens(group[0].memory) for group in groups) > room:
            room = self._allowance.open(section, self._need)
        return room - (self._lines.heading(section).tokens if groups else 0)

    def _need(self, section: Section, own: int) -> int:
        """Return what a later section needs: at most its own share, and all of it where that is not known."""
        memories = self._coming(section)
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

    def _fitting(self, section: Section, group: Sequence[Candidate], *, most: int) -> _Choice | None:
        for offer in group:
            if line := self._lines.line(section, offer.memory, most=most, part=offer.part):
                return offer, line
        return None

    def _leave_out(self, section: Section, reason: Reason, offers: Sequence[Candidate]) -> None:
        self._ledger.leave_out(section, reason, [offer.memory.id for offer in offers])

    def _shown(self, section: Section, chosen: Sequence[_Choice]) -> Iterator[Item]:
        """Take lines into the books, and yield their items but for those that the earlier context holds."""
        counts = self._ledger.counts.setdefault(section, [0, 0])
        heading = self._lines.heading(section)
        if chosen:
            self._allowance.spend(heading.tokens)
        for offer, line in chosen:
            memory = offer.memory
            # What is unchanged costs its part of the budget of the whole, and no token of the delta.
            self._allowance.spend(line.tokens)
            held = Held(section, memory.revision, line.excerpt)
            self._ledger.holds[memory.id] = held
            before = self._earlier.get(memory.id)
            if before is not None and before.covers(held):
                self._ledger.leave_out(section, Reason.UNCHANGED, [memory.id])
                continue
            above = heading if not counts[0] else NO_LINE
            item = Item(
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


def _most_tokens(memory: Memory) -> int:
    """Return a number of tokens that a memory's line does not exceed: none has less than a byte."""
    text = f"{memory.content}{memory.title}{memory.speaker}"
    return _FRONT_TOKENS + (len(text) if text.isascii() else len(text.encode(errors="replace")))


def _part(hit: SearchHit) -> str:
    """Return what to show of a long memory: the piece that fits the query."""
    return hit.snippet if len(hit.memory.content) > SNIPPET_MAX else ""


# What the chosen memories of a context say, so that nothing is said twice.


THRESHOLD = 0.85
COMPARED_CHARS = 2_000
_Bucket = tuple[str, tuple[str, ...]]


class Deduplicator:
    """The memories that were chosen so far. What they say is worked out when the first one is compared with them."""

    def __init__(self, kept: LruCache[Hashable, Shingles]) -> None:
        """Begin with none; what is in *kept* need not be worked out again."""
        self._kept = kept
        self._waiting: list[Memory] = []
        self._sayings: dict[_Bucket, list[tuple[Shingles, Memory]]] = {}

    def add(self, memory: Memory) -> None:
        """Take in a memory that is going to be shown."""
        self._waiting.append(memory)

    def find_duplicate(self, memory: Memory) -> Memory | None:
        """Return the first chosen memory that says the same as this one, or nearly."""
        for chosen in self._waiting:
            saying = self._saying(chosen)
            self._sayings.setdefault(saying.bucket, []).append((saying, chosen))
        self._waiting.clear()
        return _same(self._saying(memory), self._sayings)

    def group_duplicates(self, memories: Sequence[Memory]) -> list[list[Memory]]:
        """Return memories that say the same together, the one changed last first, in the order of the first of each."""
        groups: dict[str, list[Memory]] = {}
        sayings: dict[_Bucket, list[tuple[Shingles, Memory]]] = {}
        for memory in memories:
            saying = self._saying(memory)
            twin = _same(saying, sayings)
            if twin is None:
                sayings.setdefault(saying.bucket, []).append((saying, memory))
            groups.setdefault((twin or memory).id, []).append(memory)
        return [sorted(group, key=lambda one: (one.update_time, one.row), reverse=True) for group in groups.values()]

    def _saying(self, memory: Memory) -> Shingles:
        key = content_identity(memory)
        saying = self._kept.get(key)
        if saying is None:
            saying = _said(memory)
            self._kept.put(key, saying)
        return saying


def _same(saying: Shingles, sayings: Mapping[_Bucket, Sequence[tuple[Shingles, Memory]]]) -> Memory | None:
    others = sayings.get(saying.bucket, ())
    return next((memory for other, memory in others if is_near_duplicate(saying, other, THRESHOLD)), None)


def _said(memory: Memory) -> Shingles:
    beyond = memory.content_hash if len(memory.content) > COMPARED_CHARS else ""
    happened_on = "" if memory.event_time is None else day_text(memory.event_time)
    content, title = memory.content[:COMPARED_CHARS], memory.title
    # A title that is the beginning of the content says nothing.
    text = content if content.lstrip().startswith(title) else f"{title} {content}"
    return Shingles.of(text, beyond=beyond, marks=(memory.speaker, happened_on))


# The books of one context: what it holds, what it cost, and what it left out.


@dataclass(slots=True)
class Ledger:
    """What came of each section so far.

    Attributes:
        counts: How many items each section has, and how many tokens they cost.
        texts: The texts of all events, in order.
    """

    holds: dict[str, Held] = field(default_factory=dict)
    counts: dict[Section, list[int]] = field(default_factory=dict)
    left_out: dict[tuple[Section, Reason], list[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def leave_out(self, section: Section, reason: Reason, ids: Iterable[str]) -> None:
        """Note memories that were left out."""
        if ids := list(ids):
            self.left_out.setdefault((section, reason), []).extend(ids)
