"""Front matter in the terms of the Open Knowledge Format (OKF) 0.2, a specification for folders of Markdown notes.

OKF names `type`, `description`, `sources`, `generated`, `status` (draft, stable, deprecated) and `stale_after`, and
lets a producer add names of its own: all other fields of a memory keep theirs. What OKF's terms say less exactly than
a memory is said by both, and the exact one counts while the two agree, so that a file is read as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from memsvc.domain.memory import Kind, Memory, Origin, Status

_KINDS = {kind.value.replace("_", " ").capitalize(): kind for kind in Kind}
_STATUSES = {status.value.lower(): status for status in Status}
_OURS = frozenset(
    {
        "id", "key", "layer", "kind", "category", "title", "tags", "importance", "tier", "status", "confidence",
        "speaker", "source", "agent", "session", "create_time", "event_time", "expire_time", "valid_from", "valid_to",
        "work_in_progress", "summary", "keywords", "related_ids", "file_refs", "supersedes", "superseded_by",
        "reminder", "metadata",
    }
)  # fmt: skip
_OKF = frozenset({"type", "description", "sources", "generated", "status", "state", "stale_after"})
_MEMORY = "memory:"
"""The beginning of a source that is a memory, before its id."""


def okf_front(front: Mapping[str, Any], memory: Memory) -> dict[str, Any]:
    """Return the front matter of a memory in OKF's terms; metadata are names of their own where they can be."""
    rest = dict(front)
    metadata = dict(rest.pop("metadata", {}))
    shown: dict[str, Any] = {"type": _type(memory.kind, metadata, rest)}
    for name, ours in (("title", "title"), ("description", "summary"), ("tags", "tags")):
        if ours in rest:
            shown[name] = rest.pop(ours)
    if sources := _sources(memory, metadata, rest):
        shown["sources"] = sources
    shown["generated"] = {"by": _actor(memory), "at": memory.update_time}
    if memory.status is not Status.ACTIVE:
        shown["status"] = _lifecycle_of(memory.status)
        shown["state"] = rest.pop("status")
    elif isinstance(metadata.get("status"), str) and metadata["status"] in {"draft", "stable"}:
        shown["status"] = metadata.pop("status")
    if memory.expire_time is not None:
        shown["stale_after"] = _first_day(memory.expire_time)
        if _midnight(shown["stale_after"]) == memory.expire_time:
            rest.pop("expire_time", None)
    free = {name: value for name, value in metadata.items() if name not in _OURS | _OKF}
    kept = {name: value for name, value in metadata.items() if name not in free}
    return {**shown, **free, **rest, **({"metadata": kept} if kept else {})}


def plain_front(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return front matter in OKF's terms as the front matter of a memory; names that are in neither are left alone."""
    found = {name: value for name, value in given.items() if name not in _OKF}
    metadata = dict(found.get("metadata") or {}) if isinstance(found.get("metadata"), Mapping) else {}
    if named := _text(given.get("type")):
        kind = _KINDS.get(named.replace("_", " ").capitalize())
        if kind is None:
            metadata["type"] = named
        found.setdefault("kind", (kind or Kind.DOCUMENT).value.lower())
    if "description" in given:
        found["summary"] = given["description"]
    _read_sources(given, found, metadata)
    _read_lifecycle(given, found, metadata)
    if metadata or "metadata" in given:
        found["metadata"] = metadata
    return found


def _type(kind: Kind, metadata: dict[str, Any], rest: dict[str, Any]) -> str:
    named = metadata.get("type")
    if isinstance(named, str) and named.strip() == named and named and named.capitalize() not in _KINDS:
        metadata.pop("type")
        if kind is Kind.DOCUMENT:
            rest.pop("kind")
        return named
    rest.pop("kind")
    return kind.value.replace("_", " ").capitalize()


def _sources(memory: Memory, metadata: dict[str, Any], rest: dict[str, Any]) -> list[Any]:
    """Return what a memory derives from: its source or the sources of its metadata, and the memories it is made of."""
    found: list[Any] = []
    given = metadata.get("sources")
    if memory.source and not memory.source.startswith(_MEMORY):
        found = [{"resource": rest.pop("source")}]
    elif not memory.source and isinstance(given, (list, tuple)) and given and _is_foreign(given):
        found = list(metadata.pop("sources"))
    return found + [{"resource": f"{_MEMORY}{one}"} for one in memory.derived_from_ids]


def _is_foreign(sources: Sequence[Any]) -> bool:
    """Return whether sources are read as metadata, being more than a name."""
    if any(map(_is_memory, sources)):
        return False
    return len(sources) > 1 or not (isinstance(sources[0], Mapping) and set(sources[0]) == {"resource"})


def _read_sources(given: Mapping[str, Any], found: dict[str, Any], metadata: dict[str, Any]) -> None:
    sources = given.get("sources")
    listed = sources if isinstance(sources, list) else [sources] if sources else []
    foreign = [one for one in listed if not _is_memory(one)]
    if not foreign:
        return
    if _is_foreign(foreign):
        metadata["sources"] = foreign
    else:
        found["source"] = foreign[0]["resource"]


def _is_memory(source: Any) -> bool:
    return isinstance(source, Mapping) and str(source.get("resource", "")).startswith(_MEMORY)


def _read_lifecycle(given: Mapping[str, Any], found: dict[str, Any], metadata: dict[str, Any]) -> None:
    status, state = _text(given.get("status")), _text(given.get("state"))
    if state and state not in _STATUSES:
        metadata["state"], state = given["state"], ""
    if state and _lifecycle_of(_STATUSES[state]) == status:
        found["status"] = state
    elif status == "deprecated":
        found["status"] = Status.ARCHIVED.value.lower()
    elif status:
        metadata["status"] = given["status"]
    made = given.get("generated")
    if "id" not in given and isinstance(made, Mapping):
        # A note of another producer: who made it and when is the best that is known.
        found.setdefault("event_time", made.get("at"))
        if "source" not in found and made.get("by"):
            found["source"] = str(made["by"])
    if (day := given.get("stale_after")) is not None and not _agree(day, found.get("expire_time")):
        found["expire_time"] = day


def _lifecycle_of(status: Status) -> str:
    """Return OKF's word for a status other than ACTIVE."""
    return "draft" if status is Status.QUARANTINED else "deprecated"


def _agree(day: Any, moment: Any) -> bool:
    """Return whether a time of expiry is within the day before the one from which on a note is stale."""
    if not isinstance(moment, datetime):
        return False
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return str(_first_day(moment)) == str(day)


def _first_day(moment: datetime) -> date:
    """Return the first day in UTC that begins at a moment or after it; without one the last day of the calendar."""
    moment = moment.astimezone(UTC)
    try:
        return moment.date() if _midnight(moment.date()) == moment else moment.date() + timedelta(days=1)
    except OverflowError:
        return date.max


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _actor(memory: Memory) -> str:
    """Return who wrote a memory, by OKF's convention: "human:ID", or the producer and, for its version, the origin."""
    if memory.origin is Origin.USER:
        return f"human:{memory.scope.user_id}"
    return f"{memory.scope.agent_id or 'memsvc'}/{memory.origin.value.lower()}"


def _text(value: Any) -> str:
    return str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
