"""Fields of memories that are written: drafts, patches, reminders and references to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.memory import FileRef, Keyword, Layer, Origin, Recurrence, Reminder, Status, Tier, normal_keywords
from memsvc.domain.memory_keys import fault_of
from memsvc.domain.provenance import DIGITS
from memsvc.domain.reminders import LUNAR_YEARS, YEARS, is_day, slot_of
from memsvc.domain.write_requests import PATCHABLE, Draft, OnDuplicate, Patch, PatchValue, WriteOptions
from memsvc.engine.memories.lookup import MemoryName
from memsvc.server.enums import (
    CONFLICT_POLICY,
    FILE_CATEGORY,
    KIND,
    LAYER,
    ON_DUPLICATE,
    ORIGIN,
    REMINDER_RECURRENCE,
    REMINDER_SLOT,
    STATUS,
    TIER,
)
from memsvc.server.requests.decoder import RequestDecoder, WithVector, time_from_proto, unique
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

DEFAULT_IMPORTANCE = 3
DOCUMENT_KINDS = frozenset(
    {types_pb.MEMORY_KIND_UNSPECIFIED, types_pb.MEMORY_KIND_DOCUMENT, types_pb.MEMORY_KIND_SKILL}
)
_NEW_STATUSES = frozenset(
    {types_pb.MEMORY_STATUS_UNSPECIFIED, types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_QUARANTINED}
)
UPDATABLE_STATUSES = frozenset(
    {types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_ARCHIVED, types_pb.MEMORY_STATUS_QUARANTINED}
)
_MONTHS, _DAYS, _HOURS, _MINUTES = 12, 31, 23, 59

FieldDecoder: TypeAlias = Callable[[RequestDecoder, str, types_pb.Memory], Any]
"""Decodes one field of a memory, which is at the given path; a field without a value gives its default."""


def decode_draft(
    decoder: RequestDecoder, memory: types_pb.Memory, scope: types_pb.Scope, message: WithVector, *, dimension: int
) -> Draft:
    """Return a memory to create in *scope*, with the vector of *message*. Output-only fields are ignored."""
    draft = _draft(decoder, memory, scope, frozenset({"content"}))
    return replace(draft, vector=decoder.vector(message, dimension))


def decode_document_draft(decoder: RequestDecoder, memory: types_pb.Memory, scope: types_pb.Scope) -> Draft:
    """Return the fields of the memory of a document, whose content follows."""
    if memory.content:
        decoder.add("memory.content", "must be empty: it is the text of the document that follows")
    if memory.kind not in DOCUMENT_KINDS:
        decoder.add("memory.kind", "must be DOCUMENT or SKILL, or left out")
    return replace(_draft(decoder, memory, scope, frozenset()), content="")


def _draft(decoder: RequestDecoder, memory: types_pb.Memory, scope: types_pb.Scope, required: frozenset[str]) -> Draft:
    if memory.HasField("scope"):
        decoder.inner_scope(memory.scope, "memory.scope")
        if memory.scope.user_id and memory.scope.user_id != scope.user_id:
            decoder.add("memory.scope.user_id", "must be empty or the request's user")
    own = memory.scope
    if memory.layer == types_pb.MEMORY_LAYER_SESSION and not (own.session_id or scope.session_id):
        decoder.add("memory.layer", "can be SESSION only with a session_id in the scope")
    # Only fields with a value are decoded: most memories have few, and imports have many memories.
    given = {*required, *(descriptor.name for descriptor, _ in memory.ListFields())}
    values = {name: decode(decoder, path, memory) for name, path, decode in _DRAFT_FIELDS if name in given}
    return Draft(
        project_id=decoder.project(own.project_id),
        agent_id=own.agent_id or None,
        session_id=own.session_id or None,
        **({"content": ""} | values),
    )


_INDIVIDUAL = ("id", "key", "content")


def masked_fields(request: memory_pb.UpdateMemoryRequest) -> list[str]:
    """Return the names of the fields to change: those of the mask, or without one all that are given.

    A key given without an id names the memory; it is then no change.
    """
    if request.update_mask.paths:
        return list(dict.fromkeys(request.update_mask.paths))
    given = {descriptor.name for descriptor, _ in request.memory.ListFields()} & PATCHABLE
    if not request.memory.id:
        given.discard("key")
    if not request.memory.metadata.fields:
        given.discard("metadata")
    return sorted(given)


def decode_patch(decoder: RequestDecoder, request: memory_pb.UpdateMemoryRequest, *, dimension: int) -> Patch:
    """Return the changes of an update. A kind without a value is None: the default, FACT."""
    memory, names = request.memory, masked_fields(request)
    for index, path in enumerate(request.update_mask.paths):
        if path not in PATCHABLE:
            decoder.add(f"update_mask.paths[{index}]", "must be the name of a field of Memory that can be changed")
    checked = frozenset(names) if memory.id else frozenset(names) - {"key"}
    decoded: dict[str, PatchValue] = {
        name: decode(decoder, path, memory) for name, path, decode in _PATCH_FIELDS if name in checked
    }
    if {"ttl", "expire_time"} <= checked and memory.HasField("ttl") and memory.HasField("expire_time"):
        decoder.add("memory.ttl", "must not be given together with expire_time")
    if "key" in names and "key" not in decoded:
        decoded["key"] = memory.key
    values = {name: decoded[name] for name in names if name in decoded}
    return Patch(values=values, vector=decoder.vector(request, dimension))


def decode_common_patch(decoder: RequestDecoder, request: memory_pb.UpdateMemoriesRequest) -> Patch:
    """Return the changes that many memories get: not those of fields that differ between them."""
    for name in _INDIVIDUAL:
        if getattr(request.memory, name):
            decoder.add(f"memory.{name}", "must be empty: the filter selects the memories, and each keeps its own")
    for index, path in enumerate(request.update_mask.paths):
        if path in _INDIVIDUAL:
            decoder.add(f"update_mask.paths[{index}]", "must not be a field that differs between memories")
    one = memory_pb.UpdateMemoryRequest(memory=request.memory, update_mask=request.update_mask)
    return decode_patch(decoder, one, dimension=0)


def decode_key(decoder: RequestDecoder, field: str, key: str, *, least: int = 0) -> str:
    """Return the key of a memory; one that begins as those of daily logs and such do must be one of them."""
    decoder.name(field, key, most=limits.KEY, least=least)
    if fault := fault_of(key):
        decoder.add(field, fault)
    return key


def decode_memory_name(decoder: RequestDecoder, message: Any) -> MemoryName:
    """Return the id or the key by which a request names its memory."""
    by = message.WhichOneof("by")
    if by == "id":
        return MemoryName(id=decoder.uuid("id", message.id))
    if by == "key":
        return MemoryName(key=decoder.name("key", message.key, most=limits.KEY, least=1))
    decoder.add("id", "must be set, or key")
    return MemoryName()


def decode_file_refs(decoder: RequestDecoder, field: str, refs: Sequence[types_pb.FileRef]) -> tuple[FileRef, ...]:
    """Return references to files, each once, in order."""
    for index, ref in enumerate(refs):
        if ref.category not in FILE_CATEGORY.from_proto:
            decoder.add(f"{field}[{index}].category", f"must be one of {', '.join(sorted(FILE_CATEGORY.names))}")
        decoder.name(f"{field}[{index}].id", ref.id, most=limits.FILE_REF_ID, least=1)
    return unique(file_ref_from_proto(ref) for ref in refs if ref.category in FILE_CATEGORY.from_proto)


def file_ref_from_proto(ref: types_pb.FileRef) -> FileRef:
    """Return a reference whose category is known."""
    return FileRef(FILE_CATEGORY.from_proto[ref.category].value, ref.id)


def decode_write_options(
    decoder: RequestDecoder,
    request: memory_pb.CreateMemoryRequest | memory_pb.BatchCreateMemoriesRequest,
) -> WriteOptions:
    """Return how to write new memories."""
    return WriteOptions(
        request_id=decoder.request_id(request.request_id),
        on_duplicate=decoder.enum("on_duplicate", request.on_duplicate, ON_DUPLICATE, OnDuplicate.RETURN_EXISTING),
        wait_for=decoder.wait_for(request.wait_for),
        on_conflict=decoder.enum("conflict_policy", request.conflict_policy, CONFLICT_POLICY, ConflictPolicy.MARK),
    )


def decode_reminder(decoder: RequestDecoder, field: str, reminder: types_pb.Reminder) -> Reminder:
    """Return the reminder that a memory is to have."""
    recurrence, day = reminder.recurrence, reminder.date
    default = Recurrence.NONE if day.year else Recurrence.YEARLY
    known = decoder.enum(f"{field}.recurrence", recurrence, REMINDER_RECURRENCE, default)
    if not reminder.HasField("date"):
        decoder.add(f"{field}.date", "must be set; to take a reminder away, leave it out as a whole")
    else:
        check_date(
            decoder,
            f"{field}.date",
            day,
            needs_year=known is not Recurrence.YEARLY,
            is_yearly=recurrence == types_pb.REMINDER_RECURRENCE_YEARLY,
        )
        if reminder.lunar and known is not Recurrence.YEARLY:
            decoder.add(f"{field}.lunar", "must be false unless recurrence is YEARLY")
        elif reminder.lunar and not LUNAR_YEARS[0] < day.year < LUNAR_YEARS[1]:
            decoder.add(
                f"{field}.date.year", f"must be {LUNAR_YEARS[0] + 1} to {LUNAR_YEARS[1] - 1} when lunar is true"
            )
    slot = decoder.enum(f"{field}.slot", reminder.slot, REMINDER_SLOT, None)
    minute = _minute_of_day(decoder, field, reminder) if reminder.HasField("time") else None
    decoder.zone(f"{field}.time_zone", reminder.time_zone)
    return Reminder(
        month=day.month,
        day=day.day,
        year=day.year,
        recurrence=known,
        minute=minute,
        time_zone=reminder.time_zone,
        slot=slot,
        is_lunar=reminder.lunar,
    )


def check_date(
    decoder: RequestDecoder, field: str, day: types_pb.CalendarDate, *, needs_year: bool, is_yearly: bool = False
) -> bool:
    """Check a day of the calendar, and return whether it is valid. A yearly one may be 29 February of any year."""
    valid = in_range = True
    if day.year and not YEARS[0] <= day.year <= YEARS[1]:
        decoder.add(f"{field}.year", f"must be {YEARS[0]} to {YEARS[1]}, or 0 for every year")
        valid = in_range = False
    elif needs_year and not day.year:
        decoder.add(f"{field}.year", f"must be {YEARS[0]} to {YEARS[1]}")
        valid = False
    if not 1 <= day.month <= _MONTHS:
        decoder.add(f"{field}.month", f"must be 1 to {_MONTHS}")
        valid = in_range = False
    if not 1 <= day.day <= _DAYS:
        decoder.add(f"{field}.day", f"must be 1 to {_DAYS}")
        return False
    if in_range and not is_day(0 if is_yearly else day.year, day.month, day.day):
        decoder.add(f"{field}.day", "must be a day of that month" + (" in that year" if day.year else ""))
        return False
    return valid


def _minute_of_day(decoder: RequestDecoder, field: str, reminder: types_pb.Reminder) -> int:
    time = reminder.time
    if not 0 <= time.hours <= _HOURS:
        decoder.add(f"{field}.time.hours", f"must be 0 to {_HOURS}")
    elif (slot := REMINDER_SLOT.from_proto.get(reminder.slot)) and slot is not slot_of(time.hours):
        decoder.add(f"{field}.slot", "must be the slot of time, or unspecified")
    if not 0 <= time.minutes <= _MINUTES:
        decoder.add(f"{field}.time.minutes", f"must be 0 to {_MINUTES}")
    return time.hours * (_MINUTES + 1) + time.minutes


def _keywords(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> tuple[Keyword, ...]:
    keywords = memory.keywords
    decoder.count(field, keywords, most=limits.KEYWORDS)
    for index, keyword in enumerate(keywords[: limits.KEYWORDS]):
        decoder.text(f"{field}[{index}].term", keyword.term.lower(), most=limits.KEYWORD, least=1)
        decoder.number(f"{field}[{index}].weight", keyword.weight, most=1.0)
    return normal_keywords(Keyword(keyword.term, keyword.weight or 1.0) for keyword in keywords)


def _file_refs(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> tuple[FileRef, ...]:
    decoder.count(field, memory.file_refs, most=limits.FILE_REFS)
    return decode_file_refs(decoder, field, memory.file_refs[: limits.FILE_REFS])


def _status(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> Status:
    if not memory.status:
        return Status.ACTIVE
    if memory.status not in UPDATABLE_STATUSES:
        decoder.add(field, "can only be set to ACTIVE, ARCHIVED or QUARANTINED")
        return Status.ACTIVE
    return STATUS.from_proto[memory.status]


def _new_status(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> Status | None:
    if memory.status not in _NEW_STATUSES:
        decoder.add(field, "can only be QUARANTINED, ACTIVE or left out in a new memory")
    return Status.QUARANTINED if memory.status == types_pb.MEMORY_STATUS_QUARANTINED else None


def _valid_to(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> datetime | None:
    if not memory.HasField("valid_to") or not decoder.is_time(field, memory.valid_to):
        return None
    start, end = memory.valid_from, memory.valid_to
    if memory.HasField("valid_from") and (end.seconds, end.nanos) <= (start.seconds, start.nanos):
        decoder.add(field, "must be later than valid_from")
    return time_from_proto(end)


def _new_ttl(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> Any:
    ttl = decoder.ttl(field, memory.ttl)
    if memory.HasField("expire_time"):
        decoder.add(field, "must not be given together with expire_time")
    return ttl


def _text(name: str, most: int, least: int = 0) -> FieldDecoder:
    return lambda decoder, field, memory: decoder.text(field, getattr(memory, name), most=most, least=least)


def _time(name: str) -> FieldDecoder:
    return lambda decoder, field, memory: decoder.optional_time(field, memory, name)


def _share(name: str, default: float | None, digits: int | None = None) -> FieldDecoder:
    def decode(decoder: RequestDecoder, field: str, memory: types_pb.Memory) -> float | None:
        if not memory.HasField(name):  # type: ignore[arg-type] # the name of an optional number
            return default
        value = decoder.number(field, getattr(memory, name), most=1.0)
        return value if digits is None else round(value, digits)

    return decode


_DECODERS: Mapping[str, FieldDecoder] = {
    "key": lambda decoder, field, memory: decode_key(decoder, field, memory.key),
    "layer": lambda decoder, field, memory: decoder.enum(field, memory.layer, LAYER, Layer.LONG_TERM),
    "kind": lambda decoder, field, memory: decoder.enum(field, memory.kind, KIND, None),
    "category": _text("category", limits.CATEGORY),
    "speaker": _text("speaker", limits.SPEAKER),
    "title": _text("title", limits.TITLE),
    "content": lambda decoder, field, memory: decoder.content(field, memory.content),
    "summary": _text("summary", limits.SUMMARY),
    "tags": lambda decoder, field, memory: decoder.texts(
        field, memory.tags, count=limits.TAGS, most=limits.TAG, least=1
    ),
    "keywords": _keywords,
    "related_ids": lambda decoder, field, memory: decoder.uuids(field, memory.related_ids, count=limits.RELATED_IDS),
    "file_refs": _file_refs,
    "importance": lambda decoder, field, memory: decoder.integer(
        field,
        memory.importance,
        least=limits.IMPORTANCE_MIN,
        most=limits.IMPORTANCE_MAX,
        default=DEFAULT_IMPORTANCE,
    ),
    "tier": lambda decoder, field, memory: decoder.enum(field, memory.tier, TIER, Tier.CONTEXTUAL),
    "confidence": _share("confidence", 1.0),
    "status": _status,
    "event_time": _time("event_time"),
    "expire_time": _time("expire_time"),
    "valid_from": _time("valid_from"),
    "valid_to": _valid_to,
    "ttl": lambda decoder, field, memory: decoder.ttl(field, memory.ttl) if memory.HasField("ttl") else None,
    "origin": lambda decoder, field, memory: decoder.enum(field, memory.origin, ORIGIN, Origin.AGENT),
    "trust": _share("trust", None, DIGITS),
    "derived_from_ids": lambda decoder, field, memory: decoder.uuids(
        field, memory.derived_from_ids, count=limits.DERIVED_FROM
    ),
    "reminder": lambda decoder, field, memory: (
        decode_reminder(decoder, field, memory.reminder) if memory.HasField("reminder") else None
    ),
    "source": _text("source", limits.SOURCE),
    "metadata": lambda decoder, field, memory: decoder.metadata(field, memory.metadata),
    "work_in_progress": lambda _, __, memory: memory.work_in_progress,
}
"""The decoder of each field that a client may set."""

_NEW_DECODERS: Mapping[str, FieldDecoder] = {
    **_DECODERS,
    "status": _new_status,
    "ttl": _new_ttl,
    "metadata": lambda decoder, field, memory: decoder.metadata(field, memory.metadata) or None,
}
_PATCH_FIELDS = [(name, f"memory.{name}", decode) for name, decode in _DECODERS.items()]
_DRAFT_FIELDS = [(name, f"memory.{name}", decode) for name, decode in _NEW_DECODERS.items()]
