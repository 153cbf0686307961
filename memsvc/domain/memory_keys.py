"""Keys of memories and the defaults they imply: daily logs, context documents, knowledge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from memsvc.domain.memory import Kind, Layer, Tier
from memsvc.domain.write_requests import Draft

DAILY, CONTEXT, KNOWLEDGE = "daily/", "context/", "knowledge/"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_KNOWLEDGE_KINDS: Mapping[str, Kind] = {
    "world": Kind.FACT,
    "experience": Kind.EXPERIENCE,
    "opinions": Kind.OPINION,
}


@dataclass(frozen=True, slots=True)
class Convention:
    """Default fields of a memory under a key."""

    layer: Layer
    kind: Kind
    category: str
    title: str
    tier: Tier = Tier.CONTEXTUAL
    event_time: datetime | None = None


def convention_of(key: str) -> Convention | None:
    """Return what *key* says, or None when it has none of the forms that say something."""
    if key.startswith(DAILY):
        return _daily(key.removeprefix(DAILY))
    if key.startswith(CONTEXT) and key != CONTEXT:
        name = key.removeprefix(CONTEXT)
        return Convention(Layer.CORE, Kind.DOCUMENT, "context", name, tier=Tier.CORE)
    if key.startswith(KNOWLEDGE):
        category, slash, name = key.removeprefix(KNOWLEDGE).partition("/")
        if slash and name and category in _KNOWLEDGE_KINDS:
            return Convention(Layer.LONG_TERM, _KNOWLEDGE_KINDS[category], category, name)
    return None


def fault_of(key: str) -> str:
    """Return what is wrong with a key that begins as those that say something do; empty when nothing is."""
    if convention_of(key) is not None:
        return ""
    if key.startswith(DAILY):
        return "must be 'daily/' and a day of the calendar, such as 'daily/2026-02-06'"
    if key.startswith(CONTEXT):
        return "must have a name after 'context/', such as 'context/USER'"
    if key.startswith(KNOWLEDGE):
        return "must be 'knowledge/world/KEY', 'knowledge/experience/KEY' or 'knowledge/opinions/KEY'"
    return ""


def with_convention(draft: Draft) -> Draft:
    """Return *draft* with what its key says of the fields that it leaves open."""
    convention = convention_of(draft.key) if "/" in draft.key else None
    if convention is None:
        return draft
    return replace(
        draft,
        layer=draft.layer or convention.layer,
        kind=draft.kind or convention.kind,
        category=convention.category if draft.category is None else draft.category,
        title=convention.title if draft.title is None else draft.title,
        tier=draft.tier or convention.tier,
        event_time=draft.event_time or convention.event_time,
    )


def _daily(day: str) -> Convention | None:
    if not _DAY.fullmatch(day):
        return None
    try:
        moment = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return Convention(Layer.SHORT_TERM, Kind.NOTE, "daily", day, event_time=moment)
