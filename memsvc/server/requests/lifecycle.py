"""Requests of LifecycleService, decoded and checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from memsvc.domain import limits
from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.maintenance import MaintenancePlan, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Layer, Slot
from memsvc.domain.reminders import OVERDUE_DAYS, YEARS, Moment
from memsvc.domain.scope import Scope
from memsvc.domain.search import PageCursor, Selection
from memsvc.domain.summaries import Period, normal_topic, summary_key
from memsvc.domain.write_requests import WaitFor, WriteOptions
from memsvc.engine.conflicts.sweep import SweepSelection
from memsvc.engine.consolidation.service import ConsolidationRequest
from memsvc.engine.memories.lookup import MemoryName
from memsvc.engine.summaries.periods import PeriodRequest
from memsvc.ports.features import ReminderPlace
from memsvc.server import tokens
from memsvc.server.enums import CONFLICT_POLICY, LAYER, MAINTENANCE_STEP, REMINDER_SLOT, WAIT_FOR
from memsvc.server.requests.decoder import RequestDecoder, time_from_proto
from memsvc.server.requests.filters import decode_selection
from memsvc.server.requests.memory import MemoryWrite, memory_write, plain_options
from memsvc.server.requests.memory_fields import check_date, decode_memory_name
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb

CONSOLIDATION_PAGED_FIELDS = ("page_token", "request_id", "wait_for", "page_size")
"""The fields that may differ between the pages of one consolidation."""
_ALL_TIME = Period.between(None, None)
_SCOPE_PARTS = ("project_id", "agent_id", "session_id")

# Checkpoints.


@dataclass(frozen=True, slots=True)
class CreateCheckpoint:
    """A moment to name; None is now."""

    scope: Scope
    name: str
    note: str
    known_time: datetime | None
    request_id: str


def create_checkpoint_request(message: lifecycle_pb.CreateCheckpointRequest) -> CreateCheckpoint:
    """Return the moment to name; the engine refuses one in the future."""
    decoder = RequestDecoder()
    request = CreateCheckpoint(
        scope=decoder.scope(message.scope),
        name=decoder.name("name", message.name, most=limits.CHECKPOINT, least=1),
        note=decoder.text("note", message.note, most=limits.CHECKPOINT_NOTE),
        known_time=decoder.optional_time("known_time", message, "known_time"),
        request_id=decoder.request_id(message.request_id),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ListCheckpoints:
    """One page of checkpoints; *after* is the create_time and name of the last one of the page before."""

    scope: Scope
    after: tuple[datetime, str] | None
    limit: int


def list_checkpoints_request(message: lifecycle_pb.ListCheckpointsRequest) -> ListCheckpoints:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    limit = decoder.page_size(message.page_size)
    after = None
    if message.page_token:
        after = decoder.token(tokens.checkpoint_cursor, message.page_token, tokens.digest(message), default=None)
    decoder.finish()
    return ListCheckpoints(scope, after, limit)


@dataclass(frozen=True, slots=True)
class DiffCheckpoint:
    """One page of the differences between a checkpoint and now."""

    scope: Scope
    checkpoint: str
    after: PageCursor | None
    limit: int


def diff_checkpoint_request(message: lifecycle_pb.DiffCheckpointRequest) -> DiffCheckpoint:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    checkpoint = decoder.name("checkpoint", message.checkpoint, most=limits.CHECKPOINT, least=1)
    limit = decoder.page_size(message.page_size, most=limits.HISTORY_PAGE, default=limits.HISTORY_PAGE_DEFAULT)
    after = decoder.list_cursor(message)
    decoder.finish()
    return DiffCheckpoint(scope, checkpoint, after, limit)


@dataclass(frozen=True, slots=True)
class DeleteCheckpoint:
    """A checkpoint to delete."""

    scope: Scope
    checkpoint: str
    request_id: str


def delete_checkpoint_request(message: lifecycle_pb.DeleteCheckpointRequest) -> DeleteCheckpoint:
    """Return the checkpoint to delete."""
    decoder = RequestDecoder()
    request = DeleteCheckpoint(
        scope=decoder.scope(message.scope),
        checkpoint=decoder.name("checkpoint", message.checkpoint, most=limits.CHECKPOINT, least=1),
        request_id=decoder.request_id(message.request_id),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class RollbackToCheckpoint:
    """A project to return to a checkpoint."""

    scope: Scope
    checkpoint: str
    options: WriteOptions


def rollback_to_checkpoint_request(message: lifecycle_pb.RollbackToCheckpointRequest) -> RollbackToCheckpoint:
    """Return the checkpoint to return to."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    checkpoint = decoder.name("checkpoint", message.checkpoint, most=limits.CHECKPOINT, least=1)
    options = plain_options(decoder, message.request_id, message.wait_for)
    decoder.finish()
    return RollbackToCheckpoint(scope, checkpoint, options)


# Promotion, reminders, consolidation, summaries, maintenance.


@dataclass(frozen=True, slots=True)
class PromoteMemory:
    """A short-term memory of which a long-term one is made; an empty *content* is that of the source."""

    scope: Scope
    memory: MemoryName
    content: str
    title: str
    expected_revision: int
    options: WriteOptions


def promote_memory_request(message: lifecycle_pb.PromoteMemoryRequest) -> PromoteMemory:
    """Return the memory to promote."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    content = decoder.text("content", message.content, most=limits.CONTENT)
    if content and not content.strip():
        decoder.add("content", "must not be blank; leave it empty for the content of the source")
    request = PromoteMemory(
        scope,
        memory,
        content,
        title=decoder.text("title", message.title, most=limits.TITLE),
        expected_revision=decoder.revision(message.expected_revision),
        options=plain_options(decoder, message.request_id, message.wait_for),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ListDueReminders:
    """One page of the reminders that are due at a moment. *selection* is of what they are compared with."""

    scope: Scope
    moment: Moment
    selection: Selection
    after: ReminderPlace | None
    limit: int


def list_due_reminders_request(
    message: lifecycle_pb.ListDueRemindersRequest, *, now: datetime, zone: tzinfo
) -> ListDueReminders:
    """Return the page to list. *now* and *zone* hold where the request names no time and no time zone."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    selection = decode_selection(decoder, filters_pb.Filter(), now=now)
    if message.HasField("time"):
        now = decoder.time("time", message.time)
        if not YEARS[0] <= now.year <= YEARS[1]:
            decoder.add("time", f"must be in the years {YEARS[0]} to {YEARS[1]}")
    zone = decoder.zone("time_zone", message.time_zone) or zone
    slot = decoder.enum("slot", message.slot, REMINDER_SLOT, None)
    overdue_days = message.overdue_days if message.HasField("overdue_days") else OVERDUE_DAYS
    if message.HasField("overdue_days") and not 0 <= overdue_days <= limits.OVERDUE_DAYS:
        decoder.add("overdue_days", f"must be 0 to {limits.OVERDUE_DAYS}, or absent for the default")
    if not 0 <= message.days_ahead <= limits.DAYS_AHEAD:
        decoder.add("days_ahead", f"must be 0 to {limits.DAYS_AHEAD}")
    limit = decoder.page_size(message.page_size)
    after = None
    if message.page_token:
        cursor = decoder.token(tokens.reminders_cursor, message.page_token, tokens.digest(message), default=None)
        if cursor is not None:
            now, after = cursor[0], ReminderPlace(*cursor[1:])
    decoder.finish()
    moment = Moment(now=now, zone=zone, slot=slot, overdue_days=overdue_days, days_ahead=message.days_ahead)
    return ListDueReminders(scope, moment, selection, after, limit)


@dataclass(frozen=True, slots=True)
class AcknowledgeReminder:
    """The occurrence of a reminder that was given."""

    scope: Scope
    memory: MemoryName
    day: date
    slot: Slot | None
    request_id: str


def acknowledge_reminder_request(message: lifecycle_pb.AcknowledgeReminderRequest) -> AcknowledgeReminder:
    """Return the occurrence to acknowledge."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory = decode_memory_name(decoder, message)
    day = date.min
    if not message.HasField("date"):
        decoder.add("date", "must be set")
    elif check_date(decoder, "date", message.date, needs_year=True):
        day = date(message.date.year, message.date.month, message.date.day)
    slot = decoder.enum("slot", message.slot, REMINDER_SLOT, None)
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return AcknowledgeReminder(scope, memory, day, slot, request_id)


def consolidate_memories_request(
    message: lifecycle_pb.ConsolidateMemoriesRequest,
) -> tuple[ConsolidationRequest, WaitFor]:
    """Return the memories to consolidate."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    threshold = None
    if message.HasField("threshold"):
        threshold = decoder.number("threshold", message.threshold, most=1.0)
    most_groups = decoder.integer(
        "page_size", message.page_size, least=1, most=limits.GROUPS, default=limits.GROUPS_DEFAULT
    )
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for)
    after = decoder.list_cursor(message, consolidation_digest)
    decoder.finish()
    request = ConsolidationRequest(
        scope, threshold=threshold, most_groups=most_groups, after=after, request_id=request_id
    )
    return request, wait_for


def consolidation_digest(message: lifecycle_pb.ConsolidateMemoriesRequest) -> bytes:
    """Return the digest that the page tokens of one consolidation are bound to."""
    return tokens.digest(message, without=CONSOLIDATION_PAGED_FIELDS)


def undo_consolidation_request(message: lifecycle_pb.UndoConsolidationRequest) -> MemoryWrite:
    """Return the merged memory to take apart."""
    return memory_write(message)


def summarize_period_request(message: lifecycle_pb.SummarizePeriodRequest) -> tuple[PeriodRequest, WriteOptions]:
    """Return the period or topic to summarise."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    decoder.name("topic", message.topic, most=limits.TOPIC)
    max_tokens = decoder.integer(
        "max_tokens", message.max_tokens, least=limits.SUMMARY_TOKENS_MIN, most=limits.SUMMARY_TOKENS
    )
    options = plain_options(decoder, message.request_id, message.wait_for)
    period, topic = _period(decoder, message), normal_topic(message.topic)
    if period == _ALL_TIME and not topic:
        decoder.add("month", "must be given, or time_range, or a topic")
    if period is not None and len(summary_key(period, topic)) > limits.KEY:
        decoder.add("topic", f"makes a key of more than {limits.KEY} characters")
    decoder.finish()
    return PeriodRequest(scope, period or _ALL_TIME, topic, max_tokens or None), options


@dataclass(frozen=True, slots=True)
class RunMaintenance:
    """Maintenance of an area: all memories, those of a user, or those of a project."""

    area: MaintenanceScope
    steps: list[UpkeepStep]
    plan: MaintenancePlan


def run_maintenance_request(message: lifecycle_pb.RunMaintenanceRequest) -> RunMaintenance:
    """Return the maintenance to run."""
    decoder = RequestDecoder()
    reason = "maintenance is by user and project"
    scope = decoder.scope_unless_all(
        message, lambda scope: decoder.scope_of_user(scope, "agent_id", "session_id", reason=reason)
    )
    steps = decoder.enums("steps", message.steps, MAINTENANCE_STEP.from_proto, count=limits.MAINTENANCE_STEPS)
    decoder.finish()
    plan = MaintenancePlan.DRY_RUN if message.dry_run else MaintenancePlan.PERFORM
    return RunMaintenance(MaintenanceScope.of(scope), steps, plan)


@dataclass(frozen=True, slots=True)
class DetectConflicts:
    """Memories to compare, and the treatment of the older ones."""

    area: MaintenanceScope
    selection: SweepSelection
    policy: ConflictPolicy
    is_dry: bool
    wait_for: WaitFor


def detect_conflicts_request(message: lifecycle_pb.DetectConflictsRequest) -> DetectConflicts:
    """Return the memories to compare."""
    decoder = RequestDecoder()
    scope = decoder.scope_of_user(
        message.scope, "agent_id", "session_id", reason="stored memories are compared by user and project"
    )
    layers = decoder.enums("layers", message.layers, LAYER.from_proto, count=len(Layer))
    request = DetectConflicts(
        area=MaintenanceScope.of(scope),
        selection=SweepSelection(tuple(layers), decoder.optional_time("since", message, "since")),
        policy=decoder.enum("conflict_policy", message.conflict_policy, CONFLICT_POLICY, ConflictPolicy.MARK),
        is_dry=message.dry_run,
        wait_for=decoder.enum("wait_for", message.wait_for, WAIT_FOR, WaitFor.INDEXED),
    )
    decoder.finish()
    return request


def archive_memory_request(message: lifecycle_pb.ArchiveMemoryRequest) -> MemoryWrite:
    """Return the memory to archive."""
    return memory_write(message)


def _period(decoder: RequestDecoder, message: lifecycle_pb.SummarizePeriodRequest) -> Period | None:
    """Return the period of a summary, None for one that is wrong."""
    kind = message.WhichOneof("period")
    if kind is None:
        return _ALL_TIME
    if kind == "month":
        month = Period.month(message.month)
        if month is None:
            decoder.add("month", "must be a year and a month such as '2026-02'")
        return month
    span = message.time_range
    if not decoder.is_time_range("time_range", span):
        return None
    start = time_from_proto(span.start) if span.HasField("start") else None
    end = time_from_proto(span.end) if span.HasField("end") else None
    return Period.between(start, end)


# User data.


def export_user_request(message: lifecycle_pb.ExportUserRequest) -> Scope:
    """Return the scope of the user to export."""
    decoder = RequestDecoder()
    scope = _user_scope(decoder, message)
    decoder.finish()
    return scope


def import_user_header(header: lifecycle_pb.ImportUserHeader) -> tuple[Scope, WaitFor]:
    """Return the scope of the user to import into."""
    decoder = RequestDecoder("header.")
    scope = _user_scope(decoder, header)
    wait_for = decoder.wait_for(header.wait_for, WaitFor.STORED)
    decoder.finish()
    return scope, wait_for


def erase_user_request(message: lifecycle_pb.EraseUserRequest) -> tuple[Scope, str]:
    """Return the scope of the user to erase, and the request id."""
    decoder = RequestDecoder()
    scope = _user_scope(decoder, message)
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return scope, request_id


def _user_scope(
    decoder: RequestDecoder,
    message: lifecycle_pb.ExportUserRequest | lifecycle_pb.ImportUserHeader | lifecycle_pb.EraseUserRequest,
) -> Scope:
    return decoder.scope_of_user(message.scope, *_SCOPE_PARTS, reason="this is about all that the user has")
