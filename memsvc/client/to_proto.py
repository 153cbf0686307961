"""Plain values to the messages of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, Protocol, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.client.request_types import (
    AsOf,
    ContextOptions,
    DocumentFields,
    Draft,
    Filters,
    MemoryFields,
    Message,
    ReminderFields,
    SearchOptions,
    TimeRange,
    ToolCall,
)
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

SCOPE_FIELDS = ("project_id", "agent_id", "session_id")


class _Enum(Protocol):
    def keys(self) -> Iterable[str]: ...


def enum_to_proto(field: str, kind: _Enum, prefix: str, name: str) -> Any:
    """Return the value of an enum from its name without *prefix*.

    Raises:
        ValueError: The enum has no such name; the message says which it has.
    """
    known = [key.removeprefix(prefix) for key in kind.keys() if not key.endswith("_UNSPECIFIED")]  # noqa: SIM118
    if name not in known:
        message = f"{field}: {name!r} is none of {', '.join(known)}."
        raise ValueError(message)
    return getattr(kind, "Value")(prefix + name)  # noqa: B009 - the stubs type it per enum


_ENUMS: Mapping[str, tuple[_Enum, str]] = {
    "layer": (types_pb.MemoryLayer, "MEMORY_LAYER_"),
    "kind": (types_pb.MemoryKind, "MEMORY_KIND_"),
    "tier": (types_pb.MemoryTier, "MEMORY_TIER_"),
    "status": (types_pb.MemoryStatus, "MEMORY_STATUS_"),
    "origin": (types_pb.MemoryOrigin, "MEMORY_ORIGIN_"),
    "project_visibility": (filters_pb.ProjectVisibility, "PROJECT_VISIBILITY_"),
    "session_visibility": (filters_pb.SessionVisibility, "SESSION_VISIBILITY_"),
    "last_days_field": (filters_pb.TimeField, "TIME_FIELD_"),
    "mode": (search_pb.SearchMode, "SEARCH_MODE_"),
    "word_match": (search_pb.WordMatch, "WORD_MATCH_"),
    "wait_for": (types_pb.WaitFor, "WAIT_FOR_"),
    "on_duplicate": (types_pb.OnDuplicate, "ON_DUPLICATE_"),
    "conflict_policy": (types_pb.ConflictPolicy, "CONFLICT_POLICY_"),
    "states": (types_pb.ConflictState, "CONFLICT_STATE_"),
    "resolution": (memory_pb.ConflictResolution, "CONFLICT_RESOLUTION_"),
    "slot": (types_pb.ReminderSlot, "REMINDER_SLOT_"),
    "recurrence": (types_pb.ReminderRecurrence, "REMINDER_RECURRENCE_"),
    "role": (types_pb.MessageRole, "MESSAGE_ROLE_"),
    "outcome": (search_pb.UseOutcome, "USE_OUTCOME_"),
}
_UUID_CHARS = 36
_SEARCH_ENUMS = frozenset({"mode", "word_match"})
_ENUM_LISTS = {"layers": "layer", "kinds": "kind", "tiers": "tier", "statuses": "status", "origins": "origin"}
_TIME_RANGES = frozenset({"create_time", "update_time", "access_time", "event_time", "valid_from", "valid_to"})


def named(field: str, name: str | None) -> Any:
    """Return the enum value for a field that is named like its enum; None is UNSPECIFIED."""
    kind, prefix = _ENUMS[field]
    if field == "role" and isinstance(name, str):
        name = name.upper()  # messages of language models have lower case
    return 0 if name is None else enum_to_proto(field, kind, prefix, name)


def timestamp_to_proto(field: str, time: datetime) -> Timestamp:
    """Return a moment.

    Raises:
        ValueError: *time* has no time zone, so the moment is ambiguous, or it is not in the years 1 to 9999 in UTC.
    """
    if time.tzinfo is None:
        message = f"{field}: {time.isoformat()} needs a time zone."
        raise ValueError(message)
    moment = Timestamp()
    try:
        moment.FromDatetime(time)
    except OverflowError as error:
        message = f"{field}: {time.isoformat()} is not in the years 1 to 9999 in UTC."
        raise ValueError(message) from error
    return moment


def time_range_to_proto(field: str, bounds: TimeRange) -> types_pb.TimeRange:
    """Return a span of time; None leaves a side open."""
    start, end = bounds
    return types_pb.TimeRange(
        start=None if start is None else timestamp_to_proto(field, start),
        end=None if end is None else timestamp_to_proto(field, end),
    )


def as_of_to_proto(as_of: AsOf | None) -> types_pb.AsOf | None:
    """Return a moment to look at; None is now."""
    if as_of is None:
        return None
    valid, known = as_of.get("valid_time"), as_of.get("known_time")
    return types_pb.AsOf(
        valid_time=None if valid is None else timestamp_to_proto("valid_time", valid),
        known_time=None if known is None else timestamp_to_proto("known_time", known),
    )


def memory_name(memory_id: str, key: str) -> dict[str, Any]:
    """Return the field that names a memory: its id, or without one its key."""
    if key and not memory_id:
        return {"key": key}
    return {"id": memory_id}


def use_report(name: str, outcome: str) -> search_pb.UseReport:
    """Return the report about a memory that is named by its id, by "[mem:ID]", or by a handle such as "[m3]".

    Raises:
        ValueError: The name of the outcome is unknown.
    """
    bare = name.strip().strip("[]").removeprefix("mem:").strip()
    if len(bare) >= _UUID_CHARS:
        return search_pb.UseReport(memory_id=bare, outcome=named("outcome", outcome))
    return search_pb.UseReport(citation=name, outcome=named("outcome", outcome))


def memory_to_proto(fields: MemoryFields, **more: Any) -> types_pb.Memory:
    """Return a memory with *fields*, and *more* that is in no MemoryFields.

    Raises:
        ValueError: A name of an enum is unknown, a time has no zone, or the metadata are no JSON.
    """
    given: dict[str, Any] = {**fields, **more}
    scope = {name: given.pop(name) for name in SCOPE_FIELDS if name in given}
    _require_lists(given, types_pb.Memory.DESCRIPTOR)
    values = {name: _value_of_memory(name, value) for name, value in given.items()}
    return types_pb.Memory(scope=types_pb.Scope(**scope) if scope else None, **values)


def _require_lists(given: Mapping[str, Any], described: Descriptor) -> None:
    """Refuse a text for a field with several values: it would become a value for each character.

    Raises:
        TypeError: There is one.
    """
    for name, value in given.items():
        if isinstance(value, str) and name in described.fields_by_name and described.fields_by_name[name].is_repeated:
            message = f"{name} must be a list, not str."
            raise TypeError(message)


def duration_to_proto(span: timedelta) -> Duration:
    """Return a duration as a message."""
    duration = Duration()
    duration.FromTimedelta(span)
    return duration


def _value_of_memory(name: str, value: Any) -> Any:
    if name in _ENUMS:
        return named(name, value)
    if isinstance(value, datetime):
        return timestamp_to_proto(name, value)
    if isinstance(value, timedelta):
        return duration_to_proto(value)
    return _SPECIAL[name](value) if name in _SPECIAL else value


def _keywords(value: Mapping[str, float] | Iterable[str]) -> list[types_pb.Keyword]:
    weights = value if isinstance(value, Mapping) else dict.fromkeys(value, 1.0)
    return [types_pb.Keyword(term=term, weight=weight) for term, weight in weights.items()]


def file_refs_to_proto(value: Iterable[tuple[str, str]]) -> list[types_pb.FileRef]:
    """Return references from pairs of category and id, such as ("chart", "c1").

    Raises:
        ValueError: A category is unknown.
    """
    return [
        types_pb.FileRef(
            category=enum_to_proto("category", types_pb.FileCategory, "FILE_CATEGORY_", name.upper()), id=ref_id
        )
        for name, ref_id in value
    ]


def struct_to_proto(value: Mapping[str, Any]) -> Struct:
    """Return free JSON."""
    struct = Struct()
    struct.update(dict(value))
    return struct


def date_to_proto(day: date | tuple[int, int]) -> types_pb.CalendarDate:
    """Return a day, or a month and a day of every year."""
    if isinstance(day, date):
        return types_pb.CalendarDate(year=day.year, month=day.month, day=day.day)
    return types_pb.CalendarDate(month=day[0], day=day[1])


def _reminder(fields: ReminderFields | None) -> types_pb.Reminder | None:
    if fields is None:
        return None
    time = fields.get("time")
    return types_pb.Reminder(
        date=date_to_proto(fields["date"]),
        time=None if time is None else types_pb.TimeOfDay(hours=time.hour, minutes=time.minute),
        recurrence=named("recurrence", fields.get("recurrence")),
        time_zone=fields.get("time_zone", ""),
        slot=named("slot", fields.get("slot")),
        lunar=fields.get("lunar", False),
    )


_SPECIAL: Mapping[str, Callable[[Any], Any]] = {
    "reminder": _reminder,
    "keywords": _keywords,
    "file_refs": file_refs_to_proto,
    "metadata": struct_to_proto,
}


def batch_memory_to_proto(draft: Draft | types_pb.Memory | memory_pb.BatchMemory) -> memory_pb.BatchMemory:
    """Return one memory of a batch; messages are taken as they are."""
    if isinstance(draft, memory_pb.BatchMemory):
        return draft
    if isinstance(draft, types_pb.Memory):
        return memory_pb.BatchMemory(memory=draft)
    fields = dict(draft)
    vector = fields.pop("vector", ())
    return memory_pb.BatchMemory(memory=memory_to_proto(MemoryFields(), **fields), vector=vector)  # type: ignore[arg-type]  # popped from a dict of many types


def filter_to_proto(filters: Filters) -> filters_pb.Filter:
    """Return a filter.

    Raises:
        ValueError: A name of an enum is unknown, or a time has no zone.
    """
    given: dict[str, Any] = dict(filters)
    _require_lists(given, filters_pb.Filter.DESCRIPTOR)
    return filters_pb.Filter(**{name: _value_of_filter(name, value) for name, value in given.items()})


def _value_of_filter(name: str, value: Any) -> Any:
    if name in _ENUM_LISTS:
        return [named(_ENUM_LISTS[name], each) for each in value]
    if name in _ENUMS:
        return named(name, value)
    if name in _TIME_RANGES:
        return time_range_to_proto(name, value)
    if name == "metadata":
        return [_metadata_equals(path, each) for path, each in value.items()]
    if name == "metadata_ranges":
        return [filters_pb.MetadataRange(path=path, **bounds) for path, bounds in value.items()]
    return value


def _metadata_equals(path: str, value: str | float | bool | None) -> filters_pb.MetadataEquals:  # noqa: FBT001 - JSON
    if value is None:
        return filters_pb.MetadataEquals(path=path, value=Value(null_value=NULL_VALUE))
    if isinstance(value, bool):
        return filters_pb.MetadataEquals(path=path, value=Value(bool_value=value))
    if isinstance(value, str):
        return filters_pb.MetadataEquals(path=path, value=Value(string_value=value))
    return filters_pb.MetadataEquals(path=path, value=Value(number_value=value))


def search_to_proto(scope: types_pb.Scope, query: str, options: SearchOptions) -> search_pb.SearchRequest:
    """Return a search in *scope*.

    Raises:
        ValueError: A name of an enum is unknown, or a time has no zone.
    """
    values: dict[str, Any] = dict(options)
    for name in _SEARCH_ENUMS & values.keys():
        values[name] = named(name, values[name])
    if "filters" in values:
        values["filter"] = filter_to_proto(values.pop("filters"))
    if "time_range" in values:
        values["time_range"] = time_range_to_proto("time_range", values["time_range"])
    if "as_of" in values:
        values["as_of"] = as_of_to_proto(values["as_of"])
    if "fields" in values:
        values["read_mask"] = FieldMask(paths=values.pop("fields"))
    return search_pb.SearchRequest(scope=scope, query=query, **values)


def message_to_proto(message: Message | types_pb.ChatMessage) -> types_pb.ChatMessage:
    """Return one message of a conversation, of the user if it has no role; messages of the API are taken as they are.

    Raises:
        ValueError: The name of the role is unknown, or the time has no zone.
    """
    if isinstance(message, types_pb.ChatMessage):
        return message
    given: dict[str, Any] = dict(message)
    role = given.get("role")
    given["role"] = named("role", "USER" if role is None else role)
    if "event_time" in given:
        given["event_time"] = timestamp_to_proto("event_time", given["event_time"])
    if "metadata" in given:
        given["metadata"] = struct_to_proto(given["metadata"])
    given["tool_calls"] = [_tool_call(call) for call in given.get("tool_calls", ())]
    return types_pb.ChatMessage(**given)


def _tool_call(call: ToolCall) -> types_pb.ToolCall:
    return types_pb.ToolCall(
        id=call.get("id", ""),
        name=call["name"],
        arguments=struct_to_proto(call.get("arguments", {})),
        file_refs=file_refs_to_proto(call.get("file_refs", ())),
    )


def header_to_proto(fields: DocumentFields, **more: Any) -> memory_pb.DocumentHeader:
    """Return the header of a document; *more* are fields as the API has them.

    Raises:
        ValueError: A name of an enum is unknown.
    """
    given: dict[str, Any] = dict(fields)
    name = given.pop("name", "")
    return memory_pb.DocumentHeader(name=name, memory=memory_to_proto(cast("MemoryFields", given)), **more)


def context_fields(query: str, options: ContextOptions) -> dict[str, Any]:
    """Return the fields of a request for a context, but for its scope.

    Raises:
        ValueError: A name of an enum is unknown, or a time has no zone.
    """
    values: dict[str, Any] = dict(options)
    apart = ("vector", "consistency_token", "earlier_cursor")
    fields: dict[str, Any] = {name: values.pop(name) for name in apart if name in values}
    if "filters" in values:
        values["filter"] = filter_to_proto(values.pop("filters"))
    if "as_of" in values:
        values["as_of"] = as_of_to_proto(values["as_of"])
    if "shares" in values:
        values["shares"] = search_pb.ContextShares(**values["shares"])
    if "citation_style" in values:
        style = enum_to_proto("citation_style", search_pb.CitationStyle, "CITATION_STYLE_", values["citation_style"])
        values["citation_style"] = style
    if "sections" in values:
        values["sections"] = [
            enum_to_proto("sections", search_pb.ContextSection, "CONTEXT_SECTION_", name) for name in values["sections"]
        ]
    return {"query": query, "options": search_pb.ContextOptions(**values), **fields}
