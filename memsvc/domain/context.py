"""A context: what an agent should know for its next step, as asked for and as it is told, event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias
from zoneinfo import ZoneInfo

from memsvc.domain.filters import Filter
from memsvc.domain.history import AsOf
from memsvc.domain.scope import Scope
from memsvc.domain.search import Selection

RECENT_DAYS = 7
"""SHORT_TERM memories changed in so many days belong to the context of their project."""
CORE_COUNT = 10
ACTIVE_COUNT = 20
"""How many memories the tiers are meant for."""
NEARLY = 0.9
NEARLY_FULL = 0.70
ALMOST_FULL = 0.85
"""Shares of its limit above which a session is warned of, the second time urgently."""


class Section(StrEnum):
    """The parts of a context, in their order."""

    GLOBAL_CORE = "GLOBAL_CORE"
    PROJECT_CORE = "PROJECT_CORE"
    SESSION = "SESSION"
    LONG_TERM = "LONG_TERM"
    SHORT_TERM = "SHORT_TERM"
    GLOBAL = "GLOBAL"


RETRIEVED = frozenset({Section.LONG_TERM, Section.GLOBAL})
"""What these hold depends on a search."""


class Locale(StrEnum):
    """The languages of headings, ages and notes."""

    EN = "en"
    ZH = "zh"


class Severity(StrEnum):
    """How urgent a warning is."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class Reason(StrEnum):
    """Why something was left out."""

    BUDGET = "BUDGET"
    DUPLICATE = "DUPLICATE"
    UNCHANGED = "UNCHANGED"
    UNCERTAIN = "UNCERTAIN"
    LIMIT = "LIMIT"
    UNTRUSTED = "UNTRUSTED"


@dataclass(frozen=True, slots=True)
class Shares:
    """How a budget is shared out; together 1."""

    core: float = 0.1
    session: float = 0.5
    short_term: float = 0.2
    long_term: float = 0.2


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
    """

    scope: Scope
    text: str = ""
    vector: Sequence[float] | None = None
    total_tokens: int = 128_000
    shares: Shares = Shares()
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

    @property
    def moment(self) -> datetime | None:
        """Return the moment that ages and the last days are counted from, where it is not now."""
        return None if self.as_of is None else self.as_of.valid_time or self.as_of.known_time

    @property
    def retrieves(self) -> bool:
        """Return whether there is anything to look for."""
        return bool(self.text or self.vector is not None) and bool(self.sections & RETRIEVED)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is going to come. *sections* are those that will be built, each with its own share of the budget."""

    text: str
    token_count: int
    total_tokens: int
    tokenizer: str
    sections: tuple[tuple[Section, int], ...]
    is_delta: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What a context holds of a memory: at which revision, and in which section.

    Attributes:
        excerpt: What of it is shown; empty: all.
    """

    section: Section
    revision: int
    excerpt: str = ""

    def covers(self, other: Held) -> bool:
        """Return whether who has this has the other one too."""
        return self.revision == other.revision and self.excerpt in {"", other.excerpt}


@dataclass(frozen=True, slots=True)
class Item:
    """One memory; the first of a section brings the section's heading along, in *heading_chars* of its text.

    Attributes:
        held: What whoever gets the item holds of the memory.
    """

    section: Section
    memory_id: str
    revision: int
    text: str
    token_count: int
    score: float = 0.0
    is_excerpt: bool = False
    heading_chars: int = 0
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that deserves attention; it adds no text."""

    severity: Severity
    code: str
    message: str
    value: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a section left out for one reason. *count* may be larger than the number of ids."""

    section: Section
    reason: Reason
    count: int
    memory_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of a context: *sections* are number of items and tokens by section."""

    text: str
    text_token_count: int
    token_count: int
    total_tokens: int
    sections: Mapping[Section, tuple[int, int]]
    left_out: tuple[LeftOut, ...] = ()
    removed_ids: tuple[str, ...] = ()


Event: TypeAlias = Plan | Item | Notice | Summary
