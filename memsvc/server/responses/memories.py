"""Memories in responses, and the values that many responses contain: times, durations, JSON, conflicts, redactions.

Messages are filled in place: one that is built by itself and then put into another is copied, which takes as long
again as the building.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.clock import EPOCH
from memsvc.domain.conflicts import Contradiction
from memsvc.domain.memory import FileRef, Json, Memory, Reminder
from memsvc.domain.reminders import DueReminder
from memsvc.domain.scope import Scope
from memsvc.domain.use_feedback import UseCounts
from memsvc.domain.write_requests import Redaction
from memsvc.server.enums import (
    CATEGORY_NUMBERS,
    CONFLICT_RULE,
    CONFLICT_STATE,
    KIND,
    LAYER,
    ORIGIN,
    REMINDER_RECURRENCE,
    REMINDER_SLOT,
    REVIEWS,
    STATUS,
    TIER,
)
from memsvc.text.facts.labels import conflict_question
from memsvc.v1 import types_pb2 as types_pb

_NANOS = 1_000_000_000
_DAY_SECONDS = 86_400
_MINUTES = 60


def memory_to_proto(memory: Memory) -> types_pb.Memory:
    """Return a memory as a message."""
    message = types_pb.Memory()
    fill_memory(message, memory)
    return message


def fill_memory(message: types_pb.Memory, memory: Memory) -> None:
    """Fill an empty message with a memory."""
    message.id = memory.id
    fill_scope(message.scope, memory.scope)
    message.layer = LAYER.to_proto[memory.layer]
    message.kind = KIND.to_proto[memory.kind]
    message.content = memory.content
    message.importance = memory.importance
    message.tier = TIER.to_proto[memory.tier]
    message.confidence = memory.confidence
    message.status = STATUS.to_proto[memory.status]
    fill_time(message.create_time, memory.create_time)
    fill_time(message.update_time, memory.update_time)
    message.content_hash = memory.content_hash
    message.revision = memory.revision
    message.origin = ORIGIN.to_proto[memory.origin]
    message.trust = memory.trust
    _fill_texts(message, memory)
    _fill_lists(message, memory)
    _fill_optional(message, memory)


def apply_read_mask(memories: Iterable[types_pb.Memory], mask: FieldMask) -> None:
    """Clear the fields of filled messages that a mask does not name; an empty mask names all."""
    if not mask.paths:
        return
    omitted: set[Any] = {field.name for field in types_pb.Memory.DESCRIPTOR.fields}.difference(mask.paths)
    for memory in memories:
        for name in omitted:
            memory.ClearField(name)


def fill_scope(message: types_pb.Scope, scope: Scope) -> None:
    """Fill in the scope of a memory, without the tenant, which is the caller's own."""
    message.user_id = scope.user_id
    if scope.project_id:
        message.project_id = scope.project_id
    if scope.agent_id:
        message.agent_id = scope.agent_id
    if scope.session_id:
        message.session_id = scope.session_id


def _fill_texts(message: types_pb.Memory, memory: Memory) -> None:
    """Fill in the texts that are often empty: testing one costs less than setting it."""
    if memory.key:
        message.key = memory.key
    if memory.category:
        message.category = memory.category
    if memory.speaker:
        message.speaker = memory.speaker
    if memory.title:
        message.title = memory.title
    if memory.summary:
        message.summary = memory.summary
    if memory.source:
        message.source = memory.source
    if memory.supersedes_id:
        message.supersedes_id = memory.supersedes_id
    if memory.superseded_by_id:
        message.superseded_by_id = memory.superseded_by_id


def _fill_lists(message: types_pb.Memory, memory: Memory) -> None:
    if memory.tags:
        message.tags.extend(memory.tags)
    if memory.keywords:
        add = message.keywords.add
        for word in memory.keywords:
            add(term=word.term, weight=word.weight)
    if memory.related_ids:
        message.related_ids.extend(memory.related_ids)
    if memory.derived_from_ids:
        message.derived_from_ids.extend(memory.derived_from_ids)
    for ref in memory.file_refs:
        message.file_refs.add(category=CATEGORY_NUMBERS[ref.category], id=ref.id)
    if memory.reminder is not None:
        fill_reminder(message.reminder, memory.reminder)


def _fill_optional(message: types_pb.Memory, memory: Memory) -> None:
    if memory.access_count:
        message.access_count = memory.access_count
    if memory.access_time is not None:
        fill_time(message.access_time, memory.access_time)
    if memory.event_time is not None:
        fill_time(message.event_time, memory.event_time)
    if memory.expire_time is not None:
        fill_time(message.expire_time, memory.expire_time)
    if memory.review:
        message.review = REVIEWS[memory.review]
    if memory.valid_from is not None:
        fill_time(message.valid_from, memory.valid_from)
    if memory.valid_to is not None:
        fill_time(message.valid_to, memory.valid_to)
    if memory.work_in_progress:
        message.work_in_progress = True
    if memory.metadata:
        message.metadata.CopyFrom(struct_to_proto(memory.metadata))


def fill_reminder(message: types_pb.Reminder, reminder: Reminder) -> None:
    """Fill an empty message with a reminder."""
    message.date.month, message.date.day, message.date.year = reminder.month, reminder.day, reminder.year
    message.recurrence = REMINDER_RECURRENCE.to_proto[reminder.recurrence]
    if reminder.minute is not None:
        message.time.SetInParent()
        message.time.hours, message.time.minutes = divmod(reminder.minute, _MINUTES)
    message.time_zone = reminder.time_zone
    if reminder.slot is not None:
        message.slot = REMINDER_SLOT.to_proto[reminder.slot]
    message.phrase = reminder.phrase
    message.lunar = reminder.is_lunar


def fill_occurrence(message: types_pb.ReminderOccurrence, due: DueReminder) -> None:
    """Fill an empty message with an occurrence of a reminder."""
    occurrence = due.occurrence
    message.memory_id = due.memory.id
    message.date.year, message.date.month, message.date.day = occurrence.day.timetuple()[:3]
    message.slot = REMINDER_SLOT.to_proto[occurrence.slot]
    message.overdue = occurrence.is_overdue
    fill_time(message.due_time, occurrence.due_time)


class Conflicts(Protocol):
    """A repeated field of conflicts."""

    def add(self) -> types_pb.Conflict:
        """Add an empty conflict and return it."""
        ...


def fill_conflicts(messages: Conflicts, contradictions: Sequence[Contradiction]) -> None:
    """Add conflicts to a repeated field."""
    for contradiction in contradictions:
        fill_conflict(messages.add(), contradiction)


def fill_conflict(message: types_pb.Conflict, contradiction: Contradiction) -> None:
    """Fill an empty message with a conflict."""
    conflict = contradiction.conflict
    message.id = conflict.id
    message.rule = CONFLICT_RULE.to_proto[conflict.rule]
    message.topic = conflict.topic
    message.older_value = conflict.older_value
    message.newer_value = conflict.newer_value
    message.state = CONFLICT_STATE.to_proto[conflict.state]
    message.older_memory_id = conflict.older_id
    message.newer_memory_id = conflict.newer_id
    if contradiction.older is not None:
        fill_memory(message.older_memory, contradiction.older)
    if contradiction.newer is not None:
        fill_memory(message.newer_memory, contradiction.newer)
    message.question = conflict_question(contradiction)
    fill_time(message.create_time, conflict.create_time)
    if conflict.resolve_time is not None:
        fill_time(message.resolve_time, conflict.resolve_time)


def redactions_to_proto(redactions: Iterable[Redaction]) -> list[types_pb.Redaction]:
    """Return the kinds of secrets that were replaced, and how many of each."""
    return [types_pb.Redaction(kind=redaction.kind, match_count=redaction.count) for redaction in redactions]


def use_counts(counts: UseCounts) -> types_pb.UseCounts:
    """Return numbers of reports of use."""
    return types_pb.UseCounts(used_count=counts.used, ignored_count=counts.ignored, wrong_count=counts.wrong)


def time_to_proto(moment: datetime) -> Timestamp:
    """Return a moment, exactly."""
    stamp = Timestamp()
    fill_time(stamp, moment)
    return stamp


def fill_time(stamp: Timestamp, moment: datetime) -> None:
    """Fill an empty stamp with a moment, exactly. It is set even at the epoch, where both its numbers are 0."""
    since = moment - EPOCH
    # A timedelta counts as a Timestamp does: its microseconds are never negative.
    stamp.seconds = since.days * _DAY_SECONDS + since.seconds
    stamp.nanos = since.microseconds * 1000


def seconds_to_proto(seconds: float) -> Duration:
    """Return a measured time, to the nanosecond."""
    whole, nanos = divmod(round(seconds * 1e9), _NANOS)
    return Duration(seconds=whole, nanos=nanos)


def struct_to_proto(members: Mapping[str, Json]) -> Struct:
    """Return free JSON as a Struct; numbers become doubles."""
    return Struct(fields={name: _json_to_proto(value) for name, value in members.items()})


def _json_to_proto(value: Json) -> Value:
    if value is None:
        return Value(null_value=NULL_VALUE)
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, str):
        return Value(string_value=value)
    if isinstance(value, int | float):
        return Value(number_value=_double(value))
    if isinstance(value, dict):
        return Value(struct_value=struct_to_proto(value))
    return Value(list_value=ListValue(values=[_json_to_proto(child) for child in value]))


def _double(number: float) -> float:
    """Return the nearest double; the largest one for a whole number beyond all doubles."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


def file_ref_to_proto(ref: FileRef) -> types_pb.FileRef:
    """Return a reference to a file."""
    return types_pb.FileRef(category=CATEGORY_NUMBERS[ref.category], id=ref.id)
