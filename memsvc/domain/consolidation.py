"""Consolidation: several memories that say the same become one, which names them all and can be taken apart again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from memsvc.domain import limits
from memsvc.domain.filters import AnyOf, Field, Filter, Not, conjunction
from memsvc.domain.memory import FileRef, Json, Keyword, Kind, Layer, Memory, Reminder, Status, Tier, normal_keywords
from memsvc.domain.write_requests import Draft

SOURCE = "consolidation"
"""What `Memory.source` says of a memory that a consolidation made."""
MOST_MEMBERS = 32
"""How many memories one merger takes at most."""
LASTING = frozenset({Kind.PREFERENCE, Kind.OPINION, Kind.KNOWLEDGE, Kind.SKILL})
"""What such memories say does not happen on a day."""
_KINDS = (
    Kind.FACT, Kind.PREFERENCE, Kind.EXPERIENCE, Kind.OPINION, Kind.KNOWLEDGE, Kind.DECISION, Kind.NOTE, Kind.SKILL,
)  # fmt: skip
"""Messages, documents, summaries and tasks are never merged."""
_LAYERS = (Layer.SHORT_TERM, Layer.LONG_TERM)
_TIERS = (Tier.ACTIVE, Tier.CONTEXTUAL)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """Memories that say the same.

    Attributes:
        members: The newest first; at least two.
        similarity: The least cosine similarity of a member to the one that the others were found by.
    """

    members: tuple[Memory, ...]
    similarity: float

    @property
    def newest(self) -> Memory:
        """Return the member whose words come first."""
        return self.members[0]


@dataclass(frozen=True, slots=True)
class ConsolidatedText:
    """The text of a merged memory, and why a language model did not write it, if it should have."""

    content: str
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """One group that was merged, or would be.

    Attributes:
        merged: What the group became; in a dry run without an id and at revision 0.
        originals: Their current states: ARCHIVED, or unchanged in a dry run. Purged ones are omitted.
    """

    merged: Memory
    originals: tuple[Memory, ...]
    similarity: float
    notice: str = ""


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """Result of a search for groups.

    Attributes:
        examined: How many memories were looked at.
        skipped: How many groups could not be merged, because a member changed concurrently.
        next: Where to go on; empty when all memories were looked at.
        position: The outbox position of the last change.
    """

    groups: tuple[Consolidation, ...]
    examined: int = 0
    skipped: int = 0
    next: str = ""
    position: int = 0


def may_be_merged(memory: Memory) -> bool:
    """Return whether a memory takes part in consolidation at all."""
    return (
        memory.status is Status.ACTIVE
        and memory.kind in _KINDS
        and memory.layer in _LAYERS
        and memory.tier in _TIERS
        and not memory.work_in_progress
        and not memory.key.startswith(("daily/", "context/", "summary/"))
    )


def mergeable() -> Filter:
    """Return the rule of `may_be_merged` as a filter, as far as one can say it."""
    wanted = conjunction(
        AnyOf(Field.STATUS, (Status.ACTIVE.value,)),
        AnyOf(Field.KIND, tuple(kind.value for kind in _KINDS)),
        AnyOf(Field.LAYER, tuple(layer.value for layer in _LAYERS)),
        Not(AnyOf(Field.TIER, tuple(tier.value for tier in Tier if tier not in _TIERS))),
    )
    assert wanted is not None  # noqa: S101 - of four filters none is absent
    return wanted


def agree(one: Memory, other: Memory) -> bool:
    """Return whether two memories agree in all that is not their text, as far as both say it.

    Whose they are, who said it, what sort they are of, when it is true, their files, metadata and reminders.
    """
    if (one.scope.owner, one.scope.project_id) != (other.scope.owner, other.scope.project_id):
        return False
    same = all(getattr(one, name) == getattr(other, name) for name in ("kind", "layer", "valid_from", "valid_to"))
    return (
        same
        and one.speaker.casefold() == other.speaker.casefold()
        and (not one.category or not other.category or one.category == other.category)
        and (not one.key or not other.key)
        and (not one.file_refs or not other.file_refs or set(one.file_refs) == set(other.file_refs))
        and _metadata_agrees(one.metadata, other.metadata)
        and _reminders_agree(one.reminder, other.reminder)
    )


def _reminders_agree(one: Reminder | None, other: Reminder | None) -> bool:
    return one is None or other is None or replace(one, phrase="") == replace(other, phrase="")


def same_day(one: Memory, other: Memory) -> bool:
    """Return whether what two memories tell happened on the same day, as far as both say when it did."""
    return one.event_time == other.event_time or (
        one.event_time is not None and other.event_time is not None and one.event_time.date() == other.event_time.date()
    )


def same_day_of_writing(one: Memory, other: Memory) -> bool:
    """Return whether "today" means the same day in both."""
    return one.moment.date() == other.moment.date()


def newest_first(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return *memories*, those that were written last first."""
    return tuple(sorted(memories, key=attrgetter("create_time", "row"), reverse=True))


def draft_of(members: Sequence[Memory], content: str) -> Draft:
    """Return the memory that *members*, the newest first, become when it says *content*.

    Where they differ, the most important, the most confident and the least trusted counts, and lists are put together.
    """
    newest = members[0]
    is_as_newest = content == newest.content
    ids = {member.id for member in members}
    agents = {member.scope.agent_id for member in members}
    least_trusted = min(members, key=attrgetter("trust"))
    return Draft(
        content,
        project_id=newest.scope.project_id,
        agent_id=agents.pop() if len(agents) == 1 else "",
        session_id="",
        layer=newest.layer,
        kind=newest.kind,
        category=_first(member.category for member in members),
        speaker=newest.speaker,
        title=_first(member.title for member in members),
        summary=newest.summary if is_as_newest else "",
        tags=_union((member.tags for member in members), limits.TAGS),
        keywords=_keywords(members) if is_as_newest else None,
        related_ids=_related_ids(members, ids),
        file_refs=_files(members),
        importance=max(member.importance for member in members),
        tier=Tier.ACTIVE if any(member.tier is Tier.ACTIVE for member in members) else Tier.CONTEXTUAL,
        confidence=max(member.confidence for member in members),
        event_time=max((member.event_time for member in members if member.event_time is not None), default=None),
        expire_time=_expiry(members),
        valid_from=newest.valid_from,
        valid_to=newest.valid_to,
        source=SOURCE,
        metadata=_metadata(members),
        origin=least_trusted.origin,
        trust=least_trusted.trust,
        derived_from_ids=tuple(member.id for member in members),
    )


def with_inherited_fields(merged: Memory, members: Sequence[Memory]) -> Memory:
    """Return *merged* with what no draft holds: the one key, how often its members were read, and its predecessor.

    And the reminder, which is not detected again: "tomorrow" was said on another day, and some were removed.
    """
    return replace(
        merged,
        reminder=next((member.reminder for member in members if member.reminder is not None), None),
        key=_first(member.key for member in members),
        access_count=sum(member.access_count for member in members),
        access_time=max((member.access_time for member in members if member.access_time is not None), default=None),
        supersedes_id=members[0].id,
    )


def archive_original(original: Memory, merged_id: str, now: datetime) -> Memory:
    """Return the next revision of a memory whose place the merged one takes."""
    return replace(
        original,
        status=Status.ARCHIVED,
        key="",
        superseded_by_id=merged_id,
        update_time=now,
        revision=original.revision + 1,
    )


def restore_original(original: Memory, past: Memory, now: datetime) -> Memory:
    """Return the next revision of an archived *original*, active again as it was in *past*.

    If it was deleted since, it stays deleted, unless that was with the merged memory; other changes made since are
    kept.
    """
    return replace(
        original,
        status=Status.DELETED if original.status is Status.DELETED else past.status,
        key=past.key,
        superseded_by_id=past.superseded_by_id,
        update_time=now,
        revision=original.revision + 1,
    )


def _metadata_agrees(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    # As JSON, because to Python True equals 1.
    return all(_json(one[name]) == _json(other[name]) for name in one.keys() & other.keys())


def _metadata(members: Sequence[Memory]) -> dict[str, Json]:
    whole: dict[str, Json] = {}
    for member in reversed(members):
        whole |= member.metadata
    return whole if len(_json(whole).encode()) <= limits.METADATA_BYTES else dict(members[0].metadata)


def _json(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _union(several: Iterable[Iterable[T]], most: int) -> tuple[T, ...]:
    return tuple(dict.fromkeys(one for values in several for one in values))[:most]


def _related_ids(members: Sequence[Memory], ids: set[str]) -> tuple[str, ...]:
    several = ([one for one in member.related_ids if one not in ids] for member in members)
    return _union(several, limits.RELATED_IDS)


def _files(members: Sequence[Memory]) -> tuple[FileRef, ...]:
    return _union((member.file_refs for member in members), limits.FILE_REFS)


def _keywords(members: Sequence[Memory]) -> tuple[Keyword, ...]:
    return normal_keywords(keyword for member in members for keyword in member.keywords)[: limits.KEYWORDS]


def _expiry(members: Sequence[Memory]) -> datetime | None:
    times = [member.expire_time for member in members if member.expire_time is not None]
    return max(times) if len(times) == len(members) else None
