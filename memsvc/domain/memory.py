"""The memory itself, and the choices its fields are made of."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeAlias

from memsvc.domain.clock import to_micros
from memsvc.domain.scope import Scope

Json: TypeAlias = "bool | float | int | str | list[Json] | dict[str, Json] | None"
_MILLISECOND_MICROS = 1_000
_FRACTIONS = 4_096
_VERSION_7 = 7 << 76
_VARIANT = 0b10 << 62
_RANDOM_BYTES = 8
_RANDOM_MASK = (1 << 62) - 1


class Layer(StrEnum):
    """Intended lifetime of a memory."""

    CORE = "CORE"
    SESSION = "SESSION"
    SHORT_TERM = "SHORT_TERM"
    LONG_TERM = "LONG_TERM"


class Kind(StrEnum):
    """Sort of statement that a memory is."""

    FACT = "FACT"
    PREFERENCE = "PREFERENCE"
    EXPERIENCE = "EXPERIENCE"
    OPINION = "OPINION"
    KNOWLEDGE = "KNOWLEDGE"
    DECISION = "DECISION"
    TASK = "TASK"
    NOTE = "NOTE"
    SUMMARY = "SUMMARY"
    DOCUMENT = "DOCUMENT"
    SKILL = "SKILL"
    MESSAGE = "MESSAGE"


class Tier(StrEnum):
    """Loading tier of a memory in contexts."""

    CORE = "CORE"
    ACTIVE = "ACTIVE"
    CONTEXTUAL = "CONTEXTUAL"
    ARCHIVED = "ARCHIVED"


class Status(StrEnum):
    """Status of a memory in its lifecycle."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"
    EXPIRED = "EXPIRED"
    SUPERSEDED = "SUPERSEDED"
    CONFLICTED = "CONFLICTED"
    DELETED = "DELETED"
    QUARANTINED = "QUARANTINED"


UNNAMED = frozenset({Status.DELETED, Status.QUARANTINED})
"""A memory of such a status holds neither its key nor its content: others may take them."""


UNINDEXED = frozenset({Status.DELETED, Status.EXPIRED})
"""A memory of such a status has no entries in the indexes of vectors and words."""


class Origin(StrEnum):
    """Class of the source of a memory."""

    USER = "USER"
    AGENT = "AGENT"
    TOOL = "TOOL"
    DOCUMENT = "DOCUMENT"
    IMPORT = "IMPORT"


class Review(StrEnum):
    """Review state of a memory. NONE is the empty string."""

    NONE = ""
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"


class Keyword(NamedTuple):
    """A keyword of a memory; weight is in 0..1. A tuple, since an import makes ten for every memory."""

    term: str
    weight: float


_KEYWORD: Callable[[Iterable[object]], Keyword] = partial(tuple.__new__, Keyword)


def keywords_of(pairs: Iterable[Iterable[object]]) -> tuple[Keyword, ...]:
    """Return the keywords of pairs of term and weight, several times as fast as making them one by one."""
    return tuple(map(_KEYWORD, pairs))


def normal_keywords(given: Iterable[Keyword]) -> tuple[Keyword, ...]:
    """Return keywords in lower case, each term once with its largest weight, heaviest first, ties by term."""
    weights: dict[str, float] = {}
    for keyword in given:
        term = keyword.term.lower()
        weights[term] = max(keyword.weight, weights.get(term, 0.0))
    ordered = sorted(weights.items(), key=_by_weight)
    return keywords_of(ordered)


def _by_weight(keyword: tuple[str, float]) -> tuple[float, str]:
    return -keyword[1], keyword[0]


@dataclass(frozen=True, slots=True)
class FileRef:
    """A reference to a file: category and the file's id within it."""

    category: str
    id: str


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory, as of one revision.

    Attributes:
        row: The store's own number for it: unique in the store, growing in the order of writing, never reused.
            It ties index entries to the memory and never leaves the process.
        previous_row: The row of the memory written just before it in the same session; None without session.
        importance: 1 (least) to 5.
        confidence: 0 to 1.
        valid_from: When what it says began to be true; None: it always was.
        valid_to: When it ceased to be true, the first moment after; None: it is still.
        revision: 1 when created, one more with every change; access counts do not change it.
        trust: 0 to 1, at most that of any memory it is derived from was when it was written.
        derived_from_ids: The ids of the memories that it was made of.
        reminder: When it comes due, given or found in its content.
    """

    id: str
    scope: Scope
    content: str
    create_time: datetime
    update_time: datetime
    content_hash: str
    row: int = 0
    previous_row: int | None = None
    key: str = ""
    layer: Layer = Layer.LONG_TERM
    kind: Kind = Kind.FACT
    category: str = ""
    speaker: str = ""
    title: str = ""
    summary: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[Keyword, ...] = ()
    related_ids: tuple[str, ...] = ()
    file_refs: tuple[FileRef, ...] = ()
    importance: int = 3
    tier: Tier = Tier.CONTEXTUAL
    confidence: float = 1.0
    status: Status = Status.ACTIVE
    access_count: int = 0
    access_time: datetime | None = None
    event_time: datetime | None = None
    expire_time: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    work_in_progress: bool = False
    source: str = ""
    metadata: Mapping[str, Json] = field(default_factory=dict)
    supersedes_id: str = ""
    superseded_by_id: str = ""
    revision: int = 1
    origin: Origin = Origin.AGENT
    trust: float = 1.0
    derived_from_ids: tuple[str, ...] = ()
    review: Review = Review.NONE
    reminder: Reminder | None = None

    @property
    def moment(self) -> datetime:
        """Return the time of what it tells: when that happened, or else when it was stored."""
        return self.event_time or self.create_time

    @property
    def expiry(self) -> datetime | None:
        """Return when it expires; None: never.

        Work in progress does not expire: maintenance finishes it after its expire_time.
        """
        return None if self.work_in_progress else self.expire_time

    def is_expired(self, now: datetime) -> bool:
        """Return whether it has expired at *now*, whether or not maintenance has set its status since."""
        return self.expiry is not None and self.expiry <= now

    def has_begun(self, now: datetime) -> bool:
        """Return whether the start of its validity has passed at *now*.

        A start that had passed when the memory was created or changed last stays passed when the clock is set back.
        """
        return self.valid_from is None or self.valid_from <= max(now, self.create_time, self.update_time)

    @property
    def said_time(self) -> datetime:
        """Return when it was said: at its event_time, or when it was stored if that lay ahead or is not known.

        An event_time after the create_time that has passed is that of a change of the content.
        """
        if self.event_time is None or self.event_time > max(self.create_time, self.update_time):
            return self.create_time
        return self.event_time

    @property
    def said_until(self) -> datetime:
        """Return the last moment at which it may have been said.

        An event_time of a whole second means that second, and one of midnight, UTC, that day.
        """
        if self.event_time is None or self.event_time.microsecond:
            return self.said_time
        if self.event_time >= self.create_time:
            return max(self.said_time, self.create_time)
        said = self.event_time.astimezone(UTC)
        span = timedelta(seconds=1) if (said.hour, said.minute, said.second) != (0, 0, 0) else timedelta(days=1)
        # No later than the create_time: the last days of the calendar have no day after them.
        return max(
            self.said_time, self.event_time + min(span - timedelta.resolution, self.create_time - self.event_time)
        )


def content_hash(content: str) -> str:
    """Return the lower-case hex SHA-256 of the UTF-8 bytes of *content*."""
    return hashlib.sha256(content.encode()).hexdigest()


def keep_begun(after: Memory, before: Memory, now: datetime) -> Memory:
    """Return *after*, written at *now* with the valid_from of *before*, so that it has begun if *before* has.

    If the clock was set back to before that start, it starts now.
    """
    is_delayed = after.valid_from == before.valid_from and not after.has_begun(now) and before.has_begun(now)
    return replace(after, valid_from=now) if is_delayed else after


def with_status(memory: Memory, status: Status, now: datetime) -> Memory:
    """Return the next revision of *memory*, which has another status and nothing else."""
    return replace(memory, status=status, update_time=now, revision=memory.revision + 1)


def fingerprint(memory: Memory) -> int:
    """Return a positive 63-bit number that differs when the memory's indexed form may differ.

    An index entry carries it; an entry whose number is not the store's is stale.
    """
    digest = hashlib.sha256(f"{memory.id}:{memory.revision}:{memory.content_hash}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


# Ids of memories: UUIDs of version 7, which sort by their time.


def uuid7(now: datetime, random: Callable[[int], bytes] = os.urandom) -> str:
    """Return a new UUID of version 7: ids of different microseconds sort as their times do.

    The 12 bits after the version hold the fraction of the millisecond (RFC 9562, method 3); 62 bits are random.
    """
    millis, micros = divmod(to_micros(now), _MILLISECOND_MICROS)
    fraction = micros * _FRACTIONS // _MILLISECOND_MICROS
    chance = int.from_bytes(random(_RANDOM_BYTES), "big") & _RANDOM_MASK
    digits = f"{millis << 80 | _VERSION_7 | fraction << 64 | _VARIANT | chance:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


# A reminder as a memory holds it. What it means in time is said in `memsvc.domain.reminders`.


class Slot(StrEnum):
    """A part of a day, in which what is due is given once."""

    MORNING = "MORNING"
    AFTERNOON = "AFTERNOON"


class Recurrence(StrEnum):
    """Recurrence of a reminder: once, or every year, month or week."""

    NONE = "NONE"
    YEARLY = "YEARLY"
    MONTHLY = "MONTHLY"
    WEEKLY = "WEEKLY"


@dataclass(frozen=True, slots=True)
class Reminder:
    """A day on which a memory comes due.

    Stores keep the fields by their order: a new one comes last and has a default.

    Attributes:
        year: That of the day; for a yearly one the first in which it is due, 0: it always was. The day of a monthly or
            a weekly one is the first on which it can be due, and gives its day of the month or of the week.
        minute: The time of day in minutes since midnight; None: the whole day.
        time_zone: An IANA name; empty: the zone of the caller.
        slot: None: every slot that begins before the time of day.
        phrase: The words of the content that it was found in; empty: it was given.
        is_lunar: Whether a yearly one recurs on the day of the Chinese lunisolar calendar that its first day, which has
            a year, is.
    """

    month: int
    day: int
    year: int = 0
    recurrence: Recurrence = Recurrence.YEARLY
    minute: int | None = None
    time_zone: str = ""
    slot: Slot | None = None
    phrase: str = ""
    is_lunar: bool = False


# Comparison of titles with texts.


_BEFORE_TEXT = " …-*#>"
_AFTER_TITLE = " .,;:!?…。，；：！？、"
_SENTENCE_CHARS, _SENTENCE_HAN = 20, 8
"""The least length of a title that is looked for within a text, in ASCII and in other characters."""
_CUT = ("…", "...")
_COMPARED_CHARS = 20_000
"""Characters of a text in which its title is looked for."""
_LETTER = re.compile(r"[^\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""A letter or digit of a script with spaces between words."""


def repeats_title(title: str, text: str) -> bool:
    """Return whether a title is empty or repeats the beginning of a text, or if it is a sentence, another part of it.

    Case, the amount of white space, marks of lists and headings, and punctuation at the end of the title do not count.
    Only a title that ends in "…" may end within a word.
    """
    plain, said = (" ".join(part.split()).casefold() for part in (title, text[:_COMPARED_CHARS]))
    bare = plain.rstrip(_AFTER_TITLE)
    if not bare:
        return not plain
    is_within_word = plain.endswith(_CUT) or not _LETTER.match(bare[-1])

    def ends_at(end: int) -> bool:
        return is_within_word or not _LETTER.match(said, end)

    start = len(said) - len(said.lstrip(_BEFORE_TEXT))
    if said.startswith(bare, start) and ends_at(start + len(bare)):
        return True
    at = said.find(bare) if len(bare) >= (_SENTENCE_CHARS if bare.isascii() else _SENTENCE_HAN) else -1
    while at >= 0 and not ends_at(at + len(bare)):
        at = said.find(bare, at + 1)
    return at >= 0
