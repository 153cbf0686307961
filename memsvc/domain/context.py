"""Contexts: the query for what an agent should know for its next step, and the events of the reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias
from zoneinfo import ZoneInfo

from memsvc.domain.clock import to_micros
from memsvc.domain.conflicts import CURRENT, CurrencyMark
from memsvc.domain.filters import And, AnyOf, Field, Filter, Or, Range
from memsvc.domain.history import AsOf, is_valid_now
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.reminders import DueReminder
from memsvc.domain.scope import Scope
from memsvc.domain.search import FoundPassage, Selection

RECENT_DAYS = 7
"""SHORT_TERM memories changed in so many days belong to the context of their project."""
CORE_COUNT = 10
ACTIVE_COUNT = 20
"""How many memories the tiers are meant for."""
SHORT_TERM = And((AnyOf(Field.STATUS, (Status.ACTIVE.value,)), AnyOf(Field.LAYER, (Layer.SHORT_TERM.value,))))
"""The memories that the limit of short-term memories counts."""
NEARLY = 0.9
NEARLY_FULL = 0.70
ALMOST_FULL = 0.85
"""Shares of its limit above which a session is warned of, the second time urgently."""
REMINDER_TAGS = ("reminder", "提醒")
_REMINDERS = frozenset(REMINDER_TAGS)
REMINDER_SPAN = timedelta(hours=24)
"""Window before and after the current time in which a memory is due."""


class Section(StrEnum):
    """The parts of a context, in their order."""

    GLOBAL_CORE = "GLOBAL_CORE"
    PROJECT_CORE = "PROJECT_CORE"
    SESSION = "SESSION"
    LONG_TERM = "LONG_TERM"
    SHORT_TERM = "SHORT_TERM"
    GLOBAL = "GLOBAL"
    EVIDENCE = "EVIDENCE"
    FILES = "FILES"


RETRIEVED = frozenset({Section.LONG_TERM, Section.GLOBAL, Section.EVIDENCE, Section.FILES})
"""What these hold depends on a search."""


class Locale(StrEnum):
    """The languages of headings, ages and notes."""

    EN = "en"
    ZH = "zh"


class CitationStyle(StrEnum):
    """Form of the citations in a context: "[m3]", valid within it, or "[mem:ID]"."""

    HANDLE = "HANDLE"
    MEMORY_ID = "MEMORY_ID"


class NoticeSeverity(StrEnum):
    """Urgency of a warning."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class OmissionReason(StrEnum):
    """Why something was left out."""

    BUDGET = "BUDGET"
    DUPLICATE = "DUPLICATE"
    UNCHANGED = "UNCHANGED"
    UNCERTAIN = "UNCERTAIN"
    LIMIT = "LIMIT"
    UNTRUSTED = "UNTRUSTED"
    OUTDATED = "OUTDATED"


@dataclass(frozen=True, slots=True)
class SectionShares:
    """Shares of the sections in a budget; together 1."""

    core: float = 0.1
    session: float = 0.5
    short_term: float = 0.1
    long_term: float = 0.3


@dataclass(frozen=True, slots=True)
class ContextQuery:
    """A context as asked for, checked and with its defaults filled in.

    Attributes:
        selection: What the caller's filter says of retrieved memories, the default conditions included.
        position: The outbox position that the indexes must have reached; 0 asks for nothing.
        earlier: The run of the earlier context and the number of its last event that arrived, where only what changed
            since is wanted.
        as_of: The moment that the context is of; None: now.
        in_force: The default conditions on memories at that moment; of no use without *as_of*.
        first_handle: The number of the first handle; a delta goes on with those of the earlier context instead.
        use_feedback: As in `SearchQuery`.
    """

    scope: Scope
    text: str = ""
    vector: Sequence[float] | None = None
    total_tokens: int = 128_000
    shares: SectionShares = SectionShares()
    sections: frozenset[Section] = frozenset(Section)
    selection: Selection = field(default_factory=Selection)
    relevant_limit: int = 50
    min_score: float = 0.0
    locale: Locale = Locale.EN
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    position: int = 0
    earlier: tuple[bytes, int] | None = None
    as_of: AsOf | None = None
    in_force: Filter | None = None
    citation_style: CitationStyle = CitationStyle.HANDLE
    first_handle: int = 1
    use_feedback: bool = False

    @property
    def moment(self) -> datetime | None:
        """Return the moment that ages and the last days are counted from, where it is not now."""
        return None if self.as_of is None else self.as_of.valid_time or self.as_of.known_time

    @property
    def retrieves(self) -> bool:
        """Return whether there is anything to look for."""
        return bool(self.text or self.vector is not None) and bool(self.sections & RETRIEVED)

    @property
    def reads_files(self) -> bool:
        """Return whether passages of files are looked for: by words, in their present text."""
        return Section.FILES in self.sections and bool(self.text) and self.as_of is None


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """Plan of a context. *sections* are those that will be built, each with its own share of the budget."""

    text: str
    token_count: int
    total_tokens: int
    tokenizer: str
    sections: tuple[tuple[Section, int], ...]
    is_delta: bool = False


@dataclass(frozen=True, slots=True)
class ContextHolding:
    """A memory in a context: its revision and its section.

    Attributes:
        excerpt: What of it is shown; empty: all.
        citation: How the context cites it, such as "[m3]".
        mark: What the context says of its currency.
    """

    section: Section
    revision: int
    excerpt: str = ""
    citation: str = ""
    mark: CurrencyMark = CURRENT

    def covers(self, other: ContextHolding) -> bool:
        """Return whether who has this has the other one too."""
        is_equal = self.revision == other.revision and self.mark == other.mark
        return is_equal and self.excerpt in {"", other.excerpt}


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One memory; the first of a section brings the section's heading along, in *heading_chars* of its text.

    Attributes:
        passage: The passage of a file that takes the place of a memory; *memory_id* is then its `passage_id`.
        held: The part of the memory that the receiver holds afterwards.
    """

    section: Section
    memory_id: str
    revision: int
    text: str
    token_count: int
    score: float = 0.0
    is_excerpt: bool = False
    heading_chars: int = 0
    held: ContextHolding | None = None
    passage: FoundPassage | None = None


@dataclass(frozen=True, slots=True)
class ContextNotice:
    """A warning of a context; it adds no text."""

    severity: NoticeSeverity
    code: str
    message: str
    value: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Omission:
    """Memories that a section left out for one reason. *count* may be larger than the number of ids."""

    section: Section
    reason: OmissionReason
    count: int
    memory_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """Summary of a context: *sections* are number of items and tokens by section."""

    text: str
    text_token_count: int
    token_count: int
    total_tokens: int
    sections: Mapping[Section, tuple[int, int]]
    left_out: tuple[Omission, ...] = ()
    removed_ids: tuple[str, ...] = ()


Event: TypeAlias = ContextPlan | ContextItem | ContextNotice | ContextSummary


# Core memories: the memories that an agent loads at its start.


class Essential(StrEnum):
    """Why a memory is loaded at the start: it is of layer or tier CORE, of tier ACTIVE, of kind PREFERENCE."""

    CORE = "CORE"
    ACTIVE = "ACTIVE"
    PREFERENCE = "PREFERENCE"


@dataclass(frozen=True, slots=True)
class CoreContext:
    """The memories to load at the start; each is in one list, the first that it fits.

    Attributes:
        is_incomplete: Whether there are more than the lists hold.
        due: When those come due that have a reminder, whichever list they are in.
    """

    core: Sequence[Memory] = ()
    active: Sequence[Memory] = ()
    preferences: Sequence[Memory] = ()
    reminders: Sequence[Memory] = ()
    is_incomplete: bool = False
    due: Sequence[DueReminder] = ()


def may_remind(first: datetime, last: datetime) -> Filter:
    """Return the test that a memory is meant to remind of something, and of something from *first* to *last*."""
    return And(
        (
            Range(Field.EVENT_TIME, at_least=to_micros(first), at_most=to_micros(last)),
            Or((AnyOf(Field.KIND, (Kind.TASK.value,)), AnyOf(Field.TAGS, REMINDER_TAGS))),
        )
    )


def may_be_loaded(memory: Memory) -> bool:
    """Return whether a memory, as it is now, may be in one of the lists."""
    return (
        memory.layer is Layer.CORE
        or memory.tier in {Tier.CORE, Tier.ACTIVE}
        or memory.kind in {Kind.PREFERENCE, Kind.TASK}
        or not _REMINDERS.isdisjoint(memory.tags)
    )


def is_due(memory: Memory, now: datetime) -> bool:
    """Return whether it is time to remind of a memory without a reminder, which is due about when it happens."""
    return memory.reminder is None and memory.event_time is not None and abs(memory.event_time - now) <= REMINDER_SPAN


def is_in_use(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is ACTIVE in status, of a tier that is loaded, and current."""
    return memory.status is Status.ACTIVE and memory.tier is not Tier.ARCHIVED and is_current(memory, now)


def is_current(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is neither expired nor outside of the time in which it holds."""
    return not memory.is_expired(now) and is_valid_now(memory, now)
