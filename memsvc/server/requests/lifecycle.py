"""Requests of LifecycleService, decoded and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from memsvc.domain import limits
from memsvc.domain.api_keys import KEY_ID, ApiKeyRole
from memsvc.domain.diagnostics import ORPHAN_GRACE, FileCleanup, IndexKind, ReindexMode
from memsvc.domain.maintenance import MaintenancePlan, MaintenanceScope, UpkeepStep
from memsvc.domain.memory import Slot
from memsvc.domain.reminders import OVERDUE_DAYS, YEARS, Moment
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import PageCursor
from memsvc.domain.summaries import Period, normal_topic, summary_key
from memsvc.domain.write_requests import WaitFor, WriteOptions
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.engine.admin.backup import NAME, UNFINISHED
from memsvc.engine.admin.store_migration import MoveAction
from memsvc.engine.consolidation.service import ConsolidationRequest
from memsvc.engine.summaries.periods import PeriodRequest
from memsvc.engine.vault.sync import SyncPlan
from memsvc.ports.features import ReminderPlace
from memsvc.ports.operations import MoveChanges, MoveTarget
from memsvc.server import tokens
from memsvc.server.enums import (
    API_KEY_ROLE,
    INDEX_KIND,
    MAINTENANCE_STEP,
    MIGRATION_ACTION,
    REINDEX_MODE,
    REMINDER_SLOT,
)
from memsvc.server.requests.decoder import RequestDecoder, time_from_proto, unique
from memsvc.server.requests.memory import MemoryWrite, memory_write, plain_options
from memsvc.server.requests.memory_fields import check_date
from memsvc.v1 import (
    backup_pb2,
    consolidation_pb2,
    erasure_pb2,
    history_pb2,
    integrity_pb2,
    keys_pb2,
    maintenance_pb2,
    migration_pb2,
    promotion_pb2,
    reminders_pb2,
    summaries_pb2,
    transfer_pb2,
    vault_pb2,
)
from memsvc.v1 import lifecycle_service_pb2 as pb

CONSOLIDATION_PAGED_FIELDS = ("page_token", "request_id", "wait_for", "max_groups")
"""The fields that may differ between the pages of one consolidation."""
_MAX_GRACE_SECONDS = limits.ORPHAN_GRACE_DAYS * 24 * 60 * 60
_NANOS = 1_000_000_000
_URL_SCHEMES = ("postgresql://", "postgres://")
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


def create_checkpoint_request(message: history_pb2.CreateCheckpointRequest) -> CreateCheckpoint:
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


def list_checkpoints_request(message: history_pb2.ListCheckpointsRequest) -> ListCheckpoints:
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


def diff_checkpoint_request(message: history_pb2.DiffCheckpointRequest) -> DiffCheckpoint:
    """Return the page to list."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    checkpoint = decoder.name("checkpoint", message.checkpoint, most=limits.CHECKPOINT, least=1)
    limit = decoder.page_size(message.page_size, most=limits.HISTORY_PAGE, default=limits.HISTORY_PAGE_DEFAULT)
    after = decoder.list_cursor(message)
    decoder.finish()
    return DiffCheckpoint(scope, checkpoint, after, limit)


@dataclass(frozen=True, slots=True)
class RollbackToCheckpoint:
    """A project to return to a checkpoint."""

    scope: Scope
    checkpoint: str
    options: WriteOptions


def rollback_to_checkpoint_request(message: history_pb2.RollbackToCheckpointRequest) -> RollbackToCheckpoint:
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
    memory_id: str
    content: str
    title: str
    expected_revision: int
    options: WriteOptions


def promote_memory_request(message: promotion_pb2.PromoteMemoryRequest) -> PromoteMemory:
    """Return the memory to promote."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory_id = decoder.uuid("id", message.id)
    content = decoder.text("content", message.content, most=limits.CONTENT)
    if content and not content.strip():
        decoder.add("content", "must not be blank; leave it empty for the content of the source")
    request = PromoteMemory(
        scope,
        memory_id,
        content,
        title=decoder.text("title", message.title, most=limits.TITLE),
        expected_revision=decoder.revision(message.expected_revision),
        options=plain_options(decoder, message.request_id, message.wait_for),
    )
    decoder.finish()
    return request


@dataclass(frozen=True, slots=True)
class ListDueReminders:
    """One page of the reminders that are due at a moment."""

    scope: Scope
    moment: Moment
    after: ReminderPlace | None
    limit: int


def list_due_reminders_request(
    message: reminders_pb2.ListDueRemindersRequest, *, now: datetime, zone: tzinfo
) -> ListDueReminders:
    """Return the page to list. *now* and *zone* hold where the request names no time and no time zone."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    if message.HasField("time"):
        now = decoder.time("time", message.time)
        if not YEARS[0] <= now.year <= YEARS[1]:
            decoder.add("time", f"must lie between the years {YEARS[0]} and {YEARS[1]}")
    zone = decoder.zone("time_zone", message.time_zone) or zone
    slot = decoder.enum("slot", message.slot, REMINDER_SLOT, None)
    overdue_days = message.overdue_days if message.HasField("overdue_days") else OVERDUE_DAYS
    if message.HasField("overdue_days") and not 0 <= overdue_days <= limits.OVERDUE_DAYS:
        decoder.add("overdue_days", f"must be 0 to {limits.OVERDUE_DAYS}, or absent for the default")
    limit = decoder.page_size(message.page_size)
    after = None
    if message.page_token:
        cursor = decoder.token(tokens.reminders_cursor, message.page_token, tokens.digest(message), default=None)
        if cursor is not None:
            now, after = cursor[0], ReminderPlace(*cursor[1:])
    decoder.finish()
    return ListDueReminders(scope, Moment(now=now, zone=zone, slot=slot, overdue_days=overdue_days), after, limit)


@dataclass(frozen=True, slots=True)
class AcknowledgeReminder:
    """The occurrence of a reminder that was given."""

    scope: Scope
    memory_id: str
    day: date
    slot: Slot | None
    request_id: str


def acknowledge_reminder_request(message: reminders_pb2.AcknowledgeReminderRequest) -> AcknowledgeReminder:
    """Return the occurrence to acknowledge."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    memory_id = decoder.uuid("memory_id", message.memory_id)
    day = date.min
    if not message.HasField("date"):
        decoder.add("date", "must be set")
    elif check_date(decoder, "date", message.date, needs_year=True):
        day = date(message.date.year, message.date.month, message.date.day)
    slot = decoder.enum("slot", message.slot, REMINDER_SLOT, None)
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return AcknowledgeReminder(scope, memory_id, day, slot, request_id)


def consolidate_memories_request(
    message: consolidation_pb2.ConsolidateMemoriesRequest,
) -> tuple[ConsolidationRequest, WaitFor]:
    """Return the memories to consolidate."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope)
    threshold = None
    if message.HasField("threshold"):
        threshold = decoder.number("threshold", message.threshold, most=1.0)
    most_groups = decoder.integer(
        "max_groups", message.max_groups, least=1, most=limits.GROUPS, default=limits.GROUPS_DEFAULT
    )
    request_id = decoder.request_id(message.request_id)
    wait_for = decoder.wait_for(message.wait_for)
    after = decoder.list_cursor(message, consolidation_digest)
    decoder.finish()
    request = ConsolidationRequest(
        scope, threshold=threshold, most_groups=most_groups, after=after, request_id=request_id
    )
    return request, wait_for


def consolidation_digest(message: consolidation_pb2.ConsolidateMemoriesRequest) -> bytes:
    """Return the digest that the page tokens of one consolidation are bound to."""
    return tokens.digest(message, without=CONSOLIDATION_PAGED_FIELDS)


def undo_consolidation_request(message: consolidation_pb2.UndoConsolidationRequest) -> MemoryWrite:
    """Return the merged memory to take apart."""
    return memory_write(message)


def summarize_period_request(message: summaries_pb2.SummarizePeriodRequest) -> tuple[PeriodRequest, WriteOptions]:
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


def run_maintenance_request(message: maintenance_pb2.RunMaintenanceRequest) -> RunMaintenance:
    """Return the maintenance to run."""
    decoder = RequestDecoder()
    scope = None
    if message.HasField("scope"):
        reason = "memories are looked after by user and project"
        scope = decoder.scope_of_user(message.scope, "agent_id", "session_id", reason=reason)
    steps = decoder.enums("steps", message.steps, MAINTENANCE_STEP.from_proto, count=limits.MAINTENANCE_STEPS)
    decoder.finish()
    plan = MaintenancePlan.DRY_RUN if message.dry_run else MaintenancePlan.PERFORM
    return RunMaintenance(MaintenanceScope.of(scope), steps, plan)


def archive_memory_request(message: maintenance_pb2.ArchiveMemoryRequest) -> MemoryWrite:
    """Return the memory to archive."""
    return memory_write(message)


def _period(decoder: RequestDecoder, message: summaries_pb2.SummarizePeriodRequest) -> Period | None:
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


def export_user_request(message: transfer_pb2.ExportUserRequest) -> Scope:
    """Return the scope of the user to export."""
    decoder = RequestDecoder()
    scope = _user_scope(decoder, message)
    decoder.finish()
    return scope


def import_user_header(header: transfer_pb2.ImportUserHeader) -> tuple[Scope, WaitFor]:
    """Return the scope of the user to import into."""
    decoder = RequestDecoder("header.")
    scope = _user_scope(decoder, header)
    wait_for = decoder.wait_for(header.wait_for, WaitFor.STORED)
    decoder.finish()
    return scope, wait_for


def erase_user_request(message: erasure_pb2.EraseUserRequest) -> tuple[Scope, str]:
    """Return the scope of the user to erase, and the request id."""
    decoder = RequestDecoder()
    scope = _user_scope(decoder, message)
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return scope, request_id


def _user_scope(
    decoder: RequestDecoder,
    message: transfer_pb2.ExportUserRequest | transfer_pb2.ImportUserHeader | erasure_pb2.EraseUserRequest,
) -> Scope:
    return decoder.scope_of_user(message.scope, *_SCOPE_PARTS, reason="this is about all that the user has")


# Operation of the service: statistics, indexes, integrity, backup, migration, API keys, vault.


def get_stats_request(message: pb.GetStatsRequest) -> Scope:
    """Return the scope to count; without a user it is the caller's whole tenant."""
    decoder = RequestDecoder()
    scope = decoder.scope(message.scope, requires_user=message.HasField("scope"))
    decoder.finish()
    return scope


def reindex_request(message: pb.ReindexRequest) -> tuple[Sequence[IndexKind], ReindexMode]:
    """Return the indexes to rebuild or repair, in the order of the enum; all when none is named."""
    decoder = RequestDecoder()
    decoder.enums("indexes", message.indexes, INDEX_KIND.from_proto, count=limits.INDEXES)
    mode = decoder.enum("mode", message.mode, REINDEX_MODE, ReindexMode.REBUILD)
    decoder.finish()
    indexes = [INDEX_KIND.from_proto[number] for number in sorted(set(message.indexes))]
    return indexes or list(IndexKind), mode


def get_performance_request(message: pb.GetPerformanceRequest) -> str:
    """Return the operation to report; empty: all."""
    decoder = RequestDecoder()
    operation = decoder.text("operation", message.operation, most=limits.OPERATION)
    decoder.finish()
    return operation


@dataclass(frozen=True, slots=True)
class CheckIntegrity:
    """A check of an owner's memories, or with *reach* None of all memories."""

    reach: Reach | None
    cleaning: FileCleanup


def check_integrity_request(message: integrity_pb2.CheckIntegrityRequest) -> CheckIntegrity:
    """Return the memories to check, and the files to remove."""
    decoder = RequestDecoder()
    reach = None
    if not message.all:
        reach = Reach.from_scope(decoder.scope(message.scope))
    elif message.HasField("scope"):
        decoder.add("scope", "must be unset when all is set: it would be ignored")
    grace = ORPHAN_GRACE
    if message.HasField("orphan_grace"):
        seconds, nanos = message.orphan_grace.seconds, message.orphan_grace.nanos
        if 0 <= nanos < _NANOS and (0, 0) <= (seconds, nanos) <= (_MAX_GRACE_SECONDS, 0):
            grace = message.orphan_grace.ToTimedelta()
        else:
            decoder.add("orphan_grace", f"must be a Duration of 0 to {limits.ORPHAN_GRACE_DAYS} days")
    if message.ignore_files:
        for name in ("remove_broken_refs", "remove_orphan_files"):
            if getattr(message, name):
                decoder.add(name, "must not be set together with ignore_files")
    decoder.finish()
    cleaning = FileCleanup(
        removes_broken_refs=message.remove_broken_refs,
        removes_orphan_files=message.remove_orphan_files,
        grace=grace,
        is_off=message.ignore_files,
    )
    return CheckIntegrity(reach, cleaning)


def create_backup_request(message: backup_pb2.CreateBackupRequest) -> str:
    """Return the name of the backup; empty: the engine chooses one."""
    decoder = RequestDecoder()
    if message.name and not (NAME.fullmatch(message.name) and not message.name.endswith(UNFINISHED)):
        decoder.add("name", "must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
    decoder.finish()
    return message.name


def migrate_backend_request(message: migration_pb2.MigrateBackendRequest) -> tuple[MoveTarget, MoveAction, MoveChanges]:
    """Return the store to move to, and what becomes of changes that prevent undoing."""
    decoder = RequestDecoder()
    store, url = message.target.WhichOneof("store"), message.target.postgresql_url
    if store is None:
        decoder.add("target.store", "is required: postgresql_url or embedded")
    if store == "postgresql_url":
        # It may hold a password: descriptions of violations do not quote it.
        field = "target.postgresql_url"
        if not url.startswith(_URL_SCHEMES):
            decoder.add(field, "must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
        if len(url) > limits.DATABASE_URL:
            decoder.add(field, f"must have at most {limits.DATABASE_URL} characters")
        if not url.isprintable():
            decoder.add(field, "must not contain control characters")
    action = decoder.enum("action", message.action, MIGRATION_ACTION, MoveAction.RUN)
    if message.discard_changes and action is not MoveAction.UNDO:
        decoder.add("discard_changes", "goes with the action UNDO alone")
    decoder.finish()
    return MoveTarget(url), action, MoveChanges.DISCARD if message.discard_changes else MoveChanges.KEEP


def create_api_key_request(message: keys_pb2.CreateApiKeyRequest) -> tuple[NewApiKey, str]:
    """Return the key to create, and the request id."""
    decoder = RequestDecoder()
    name = decoder.name("name", message.name, most=limits.KEY_NAME)
    role = decoder.enum("role", message.role, API_KEY_ROLE, ApiKeyRole.READ_WRITE)
    key = NewApiKey(
        name=name,
        role=role,
        tenant_id=decoder.name("tenant_id", message.tenant_id, most=limits.SCOPE_ID),
        user_ids=_key_bounds(decoder, "user_ids", message.user_ids, role),
        project_ids=_key_bounds(decoder, "project_ids", message.project_ids, role),
        expire_time=decoder.optional_time("expire_time", message, "expire_time"),
        ttl=decoder.ttl("ttl", message.ttl) if message.HasField("ttl") else None,
        calls_per_second=decoder.number("calls_per_second", message.calls_per_second, most=limits.KEY_RATE),
        concurrent_calls=decoder.integer("concurrent_calls", message.concurrent_calls, least=1, most=limits.KEY_RATE),
    )
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return key, request_id


def list_api_keys_request(message: keys_pb2.ListApiKeysRequest) -> tuple[str, int]:
    """Return the id of the last key of the page before, and the size of the page."""
    decoder = RequestDecoder()
    limit = decoder.page_size(message.page_size)
    after = ""
    if message.page_token:
        after = decoder.token(tokens.keys_after, message.page_token, tokens.digest(message), default="")
    decoder.finish()
    return after, limit


def revoke_api_key_request(message: keys_pb2.RevokeApiKeyRequest) -> tuple[str, str]:
    """Return the id of the key to revoke, and the request id."""
    decoder = RequestDecoder()
    if not KEY_ID.fullmatch(message.id):
        decoder.add("id", "must be the id of a key: 20 hexadecimal digits in lower case, as ListApiKeys tells them")
    request_id = decoder.request_id(message.request_id)
    decoder.finish()
    return message.id, request_id


def sync_vault_request(message: vault_pb2.SyncVaultRequest) -> SyncPlan:
    """Return the vault of a user, or all vaults, to synchronise."""
    decoder = RequestDecoder()
    scope = None
    if message.HasField("scope"):
        reason = "the vault is synchronised by user"
        scope = decoder.scope_of_user(message.scope, *_SCOPE_PARTS, reason=reason)
    decoder.finish()
    return SyncPlan(scope, is_forced=message.force, is_dry=message.dry_run)


def _key_bounds(decoder: RequestDecoder, field: str, values: Sequence[str], role: ApiKeyRole) -> tuple[str, ...]:
    if role is ApiKeyRole.ADMIN and values:
        decoder.add(field, "must be empty for the role ADMIN, which is about everybody")
        return ()
    decoder.count(field, values, most=limits.KEY_BOUNDS)
    for index, value in enumerate(values[: limits.KEY_BOUNDS]):
        decoder.name(f"{field}[{index}]", value, most=limits.SCOPE_ID, least=1)
    return unique(values)
