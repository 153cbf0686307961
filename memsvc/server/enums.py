"""Tables between the enums of the API and those of the domain, which differ by a prefix only."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from memsvc.domain import maintenance
from memsvc.domain.api_keys import ApiKeyRole, KeyState
from memsvc.domain.capture import CaptureReason, Decider
from memsvc.domain.conflicts import ConflictPolicy, ConflictState, Resolution, Rule
from memsvc.domain.context import NoticeSeverity, Section
from memsvc.domain.diagnostics import Fault, IndexKind, ReindexMode, ReindexPhase
from memsvc.domain.files import FileCategory
from memsvc.domain.filters import Field
from memsvc.domain.history import DifferenceKind
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Layer, Origin, Recurrence, Review, Slot, Status, Tier
from memsvc.domain.provenance import ReviewVerdict
from memsvc.domain.scope import SessionVisibility, Visibility
from memsvc.domain.search import FusionMethod, Mode, Normalization, ResultGroup, Retriever
from memsvc.domain.sessions import AutoTrim, OnOpen, Role, SessionState
from memsvc.domain.user_data import ImportIssueReason
from memsvc.domain.vault import VaultAction
from memsvc.domain.watch import Effect, Start
from memsvc.domain.write_requests import OnDuplicate, Outcome, WaitFor
from memsvc.engine.admin.backup import BackupPhase
from memsvc.engine.admin.store_migration import MoveAction
from memsvc.engine.vault.sync import QUIET
from memsvc.ports.operations import MovePhase
from memsvc.v1 import (
    backup_pb2,
    capture_pb2,
    context_pb2,
    history_pb2,
    integrity_pb2,
    keys_pb2,
    maintenance_pb2,
    migration_pb2,
    reminder_pb2,
    review_pb2,
    transfer_pb2,
    vault_pb2,
    watch_pb2,
)
from memsvc.v1 import conflicts_pb2 as conflicts
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V", bound=int)
V_co = TypeVar("V_co", bound=int, covariant=True)


class ProtoEnum(Protocol[V_co]):
    """The part of a generated enum that the tables use."""

    def Value(self, name: str) -> V_co:  # noqa: N802 - protobuf's name
        """Return the number of a name."""
        ...


class EnumTable(Generic[E, V]):
    """The numbers of one enum's values, in both directions. Zero (UNSPECIFIED) has no value."""

    def __init__(self, enum: type[E], proto: ProtoEnum[V], prefix: str) -> None:
        self.to_proto: Mapping[E, V] = {value: proto.Value(f"{prefix}_{value.name}") for value in enum}
        self.from_proto: Mapping[int, E] = {number: value for value, number in self.to_proto.items()}
        self.names = frozenset(value.name for value in enum)


LAYER = EnumTable(Layer, types.MemoryLayer, "MEMORY_LAYER")
KIND = EnumTable(Kind, types.MemoryKind, "MEMORY_KIND")
TIER = EnumTable(Tier, types.MemoryTier, "MEMORY_TIER")
STATUS = EnumTable(Status, types.MemoryStatus, "MEMORY_STATUS")
ORIGIN = EnumTable(Origin, types.MemoryOrigin, "MEMORY_ORIGIN")
REVIEWS = {
    Review.PENDING: types.MEMORY_REVIEW_PENDING,
    Review.APPROVED: types.MEMORY_REVIEW_APPROVED,
    Review.REJECTED: types.MEMORY_REVIEW_REJECTED,
}
VERDICT = EnumTable(ReviewVerdict, review_pb2.ReviewVerdict, "REVIEW_VERDICT")
WATCH_START = EnumTable(Start, watch_pb2.WatchStart, "WATCH_START")
WATCH_EFFECT = EnumTable(Effect, watch_pb2.WatchEffect, "WATCH_EFFECT")
CHANGE_ACTION = EnumTable(ChangeAction, watch_pb2.MemoryChangeAction, "MEMORY_CHANGE_ACTION")
OUTCOME = EnumTable(Outcome, types.WriteOutcome, "WRITE_OUTCOME")
WAIT_FOR = EnumTable(WaitFor, types.WaitFor, "WAIT_FOR")
ON_DUPLICATE = EnumTable(OnDuplicate, types.OnDuplicate, "ON_DUPLICATE")
CONFLICT_POLICY = EnumTable(ConflictPolicy, conflicts.ConflictPolicy, "CONFLICT_POLICY")
CONFLICT_RULE = EnumTable(Rule, conflicts.ConflictRule, "CONFLICT_RULE")
CONFLICT_STATE = EnumTable(ConflictState, conflicts.ConflictState, "CONFLICT_STATE")
RESOLUTION = EnumTable(Resolution, conflicts.ConflictResolution, "CONFLICT_RESOLUTION")
VISIBILITY = EnumTable(Visibility, types.ProjectVisibility, "PROJECT_VISIBILITY")
SESSION_VISIBILITY = EnumTable(SessionVisibility, types.SessionVisibility, "SESSION_VISIBILITY")
ROLE = EnumTable(Role, types.MessageRole, "MESSAGE_ROLE")
SESSION_STATE = EnumTable(SessionState, session_pb.SessionState, "SESSION_STATE")
ON_OPEN = EnumTable(OnOpen, session_pb.OnOpen, "ON_OPEN")
FILE_CATEGORY = EnumTable(FileCategory, file_pb.FileCategory, "FILE_CATEGORY")
AUTO_TRIM = EnumTable(AutoTrim, session_pb.AutoTrim, "AUTO_TRIM")
MODE = EnumTable(Mode, search_pb.SearchMode, "SEARCH_MODE")
RETRIEVER = EnumTable(Retriever, search_pb.Retriever, "RETRIEVER")
FUSION_METHOD = EnumTable(FusionMethod, search_pb.FusionMethod, "FUSION_METHOD")
NORMALIZATION = EnumTable(Normalization, search_pb.Normalization, "NORMALIZATION")
SECTION = EnumTable(Section, context_pb2.ContextSection, "CONTEXT_SECTION")
SEVERITY = EnumTable(NoticeSeverity, context_pb2.ContextSeverity, "CONTEXT_SEVERITY")
SEARCH_GROUP = EnumTable(ResultGroup, search_pb.SearchAllScope, "SEARCH_ALL_SCOPE")
CAPTURE_REASON = EnumTable(CaptureReason, capture_pb2.CaptureReason, "CAPTURE_REASON")
DECIDER = EnumTable(Decider, capture_pb2.Decider, "DECIDER")
DIFFERENCE_KIND = EnumTable(DifferenceKind, history_pb2.DifferenceKind, "DIFFERENCE_KIND")
REVISION_ACTIONS: Mapping[ChangeAction, history_pb2.RevisionAction.ValueType] = {
    ChangeAction.CREATED: history_pb2.REVISION_ACTION_CREATED,
    ChangeAction.UPDATED: history_pb2.REVISION_ACTION_UPDATED,
    ChangeAction.DELETED: history_pb2.REVISION_ACTION_DELETED,
    ChangeAction.RESTORED: history_pb2.REVISION_ACTION_RESTORED,
}
WARNING_SEVERITY = EnumTable(NoticeSeverity, lifecycle_pb.WarningSeverity, "WARNING_SEVERITY")
INTEGRITY_FAULT = EnumTable(Fault, integrity_pb2.IntegrityFault, "INTEGRITY_FAULT")
MAINTENANCE_STEP = EnumTable(maintenance.UpkeepStep, maintenance_pb2.MaintenanceStep, "MAINTENANCE_STEP")
MAINTENANCE_REASON = EnumTable(maintenance.MaintenanceReason, maintenance_pb2.MaintenanceReason, "MAINTENANCE_REASON")
MIGRATION_ACTION = EnumTable(MoveAction, migration_pb2.MigrationAction, "MIGRATION_ACTION")
MIGRATION_PHASE = EnumTable(MovePhase, migration_pb2.MigrationPhase, "MIGRATION_PHASE")
API_KEY_ROLE = EnumTable(ApiKeyRole, keys_pb2.ApiKeyRole, "API_KEY_ROLE")
API_KEY_STATE = EnumTable(KeyState, keys_pb2.ApiKeyState, "API_KEY_STATE")
VAULT_ACTIONS = {
    action: vault_pb2.VaultAction.Value(f"VAULT_ACTION_{action.value}") for action in VaultAction if action not in QUIET
}
INDEX_KIND = EnumTable(IndexKind, lifecycle_pb.IndexKind, "INDEX_KIND")
REINDEX_MODE = EnumTable(ReindexMode, lifecycle_pb.ReindexMode, "REINDEX_MODE")
REMINDER_SLOT = EnumTable(Slot, reminder_pb2.ReminderSlot, "REMINDER_SLOT")
REMINDER_RECURRENCE = EnumTable(Recurrence, reminder_pb2.ReminderRecurrence, "REMINDER_RECURRENCE")
IMPORT_ISSUE_REASON = EnumTable(ImportIssueReason, transfer_pb2.ImportIssueReason, "IMPORT_ISSUE_REASON")
BACKUP_PHASE = EnumTable(BackupPhase, backup_pb2.BackupPhase, "BACKUP_PHASE")
REINDEX_PHASE = EnumTable(ReindexPhase, lifecycle_pb.ReindexPhase, "REINDEX_PHASE")

TIME_FIELDS: Mapping[int, Field] = {
    types.TIME_FIELD_CREATE_TIME: Field.CREATE_TIME,
    types.TIME_FIELD_UPDATE_TIME: Field.UPDATE_TIME,
    types.TIME_FIELD_ACCESS_TIME: Field.ACCESS_TIME,
    types.TIME_FIELD_EVENT_TIME: Field.EVENT_TIME,
}

FILTER_FIELDS: Mapping[int, Field] = {
    types.FILTER_FIELD_LAYER: Field.LAYER,
    types.FILTER_FIELD_KIND: Field.KIND,
    types.FILTER_FIELD_CATEGORY: Field.CATEGORY,
    types.FILTER_FIELD_TIER: Field.TIER,
    types.FILTER_FIELD_STATUS: Field.STATUS,
    types.FILTER_FIELD_TAG: Field.TAGS,
    types.FILTER_FIELD_SPEAKER: Field.SPEAKER,
    types.FILTER_FIELD_AGENT_ID: Field.AGENT_ID,
    types.FILTER_FIELD_SESSION_ID: Field.SESSION_ID,
    types.FILTER_FIELD_IMPORTANCE: Field.IMPORTANCE,
    types.FILTER_FIELD_CONFIDENCE: Field.CONFIDENCE,
    types.FILTER_FIELD_CREATE_TIME: Field.CREATE_TIME,
    types.FILTER_FIELD_UPDATE_TIME: Field.UPDATE_TIME,
    types.FILTER_FIELD_ACCESS_TIME: Field.ACCESS_TIME,
    types.FILTER_FIELD_EVENT_TIME: Field.EVENT_TIME,
    types.FILTER_FIELD_METADATA: Field.METADATA,
    types.FILTER_FIELD_ORIGIN: Field.ORIGIN,
    types.FILTER_FIELD_TRUST: Field.TRUST,
    types.FILTER_FIELD_VALID_FROM: Field.VALID_FROM,
    types.FILTER_FIELD_VALID_TO: Field.VALID_TO,
}

ENUM_FIELDS: Mapping[Field, frozenset[str]] = {
    Field.LAYER: LAYER.names,
    Field.KIND: KIND.names,
    Field.TIER: TIER.names,
    Field.STATUS: STATUS.names,
    Field.ORIGIN: ORIGIN.names,
}
"""The names that a condition may compare these fields with."""
