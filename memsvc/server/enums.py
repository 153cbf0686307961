"""Tables between the enums of the API and those of the domain, which differ by a prefix only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from memsvc.domain import maintenance
from memsvc.domain.api_keys import ApiKeyRole, KeyState
from memsvc.domain.capture import CaptureReason, Decider
from memsvc.domain.conflicts import ConflictPolicy, ConflictState, Currency, Resolution, Rule
from memsvc.domain.context import CitationStyle, NoticeSeverity, OmissionReason, Section
from memsvc.domain.diagnostics import Fault, IndexKind, ReindexMode, ReindexPhase
from memsvc.domain.file_text import TextState
from memsvc.domain.files import FileCategory
from memsvc.domain.filters import Field
from memsvc.domain.history import DifferenceKind, RollbackObstacle
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Layer, Origin, Recurrence, Review, Slot, Status, Tier
from memsvc.domain.provenance import ReviewVerdict
from memsvc.domain.scope import SessionVisibility, Visibility
from memsvc.domain.search import FusionMethod, Mode, Normalization, ResultGroup, Retriever, WordMatch
from memsvc.domain.sessions import AutoTrim, OnOpen, Role, SessionState
from memsvc.domain.use_feedback import FeedbackState, UseOutcome
from memsvc.domain.user_data import ImportIssueReason
from memsvc.domain.vault import VaultAction
from memsvc.domain.watch import Effect, Start
from memsvc.domain.write_requests import OnDuplicate, Outcome, WaitFor
from memsvc.engine.admin.backup import BackupPhase
from memsvc.engine.admin.store_migration import MoveAction
from memsvc.engine.vault.sync import QUIET
from memsvc.ports.operations import MovePhase
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V", bound=int)
V_co = TypeVar("V_co", bound=int, covariant=True)


class ProtoEnum(Protocol[V_co]):
    """The part of a generated enum that the tables use."""

    def Value(self, name: str) -> V_co:  # noqa: N802 - protobuf's name
        """Return the number of a name."""
        ...

    def items(self) -> Sequence[tuple[str, V_co]]:
        """Return all names with their numbers."""
        ...


def member_numbers(proto: ProtoEnum[V], prefix: str) -> Mapping[str, V]:
    """Return the numbers of an enum's values by their names without the prefix, UNSPECIFIED left out."""
    return {name.removeprefix(f"{prefix}_"): number for name, number in proto.items() if number}


class EnumTable(Generic[E, V]):
    """The numbers of one enum's values, in both directions. Zero (UNSPECIFIED) has no value."""

    def __init__(self, enum: type[E], proto: ProtoEnum[V], prefix: str) -> None:
        self.to_proto: Mapping[E, V] = {value: proto.Value(f"{prefix}_{value.name}") for value in enum}
        self.from_proto: Mapping[int, E] = {number: value for value, number in self.to_proto.items()}
        self.names = frozenset(value.name for value in enum)


LAYER = EnumTable(Layer, types_pb.MemoryLayer, "MEMORY_LAYER")
KIND = EnumTable(Kind, types_pb.MemoryKind, "MEMORY_KIND")
TIER = EnumTable(Tier, types_pb.MemoryTier, "MEMORY_TIER")
STATUS = EnumTable(Status, types_pb.MemoryStatus, "MEMORY_STATUS")
ORIGIN = EnumTable(Origin, types_pb.MemoryOrigin, "MEMORY_ORIGIN")
REVIEWS = {
    Review.PENDING: types_pb.MEMORY_REVIEW_PENDING,
    Review.APPROVED: types_pb.MEMORY_REVIEW_APPROVED,
    Review.REJECTED: types_pb.MEMORY_REVIEW_REJECTED,
}
VERDICT = EnumTable(ReviewVerdict, memory_pb.ReviewVerdict, "REVIEW_VERDICT")
WATCH_START = EnumTable(Start, memory_pb.WatchStart, "WATCH_START")
WATCH_EFFECT = EnumTable(Effect, memory_pb.WatchEffect, "WATCH_EFFECT")
CHANGE_ACTION = EnumTable(ChangeAction, memory_pb.MemoryChangeAction, "MEMORY_CHANGE_ACTION")
OUTCOME = EnumTable(Outcome, types_pb.WriteOutcome, "WRITE_OUTCOME")
WAIT_FOR = EnumTable(WaitFor, types_pb.WaitFor, "WAIT_FOR")
ON_DUPLICATE = EnumTable(OnDuplicate, types_pb.OnDuplicate, "ON_DUPLICATE")
CONFLICT_POLICY = EnumTable(ConflictPolicy, types_pb.ConflictPolicy, "CONFLICT_POLICY")
CONFLICT_RULE = EnumTable(Rule, types_pb.ConflictRule, "CONFLICT_RULE")
CONFLICT_STATE = EnumTable(ConflictState, types_pb.ConflictState, "CONFLICT_STATE")
RESOLUTION = EnumTable(Resolution, memory_pb.ConflictResolution, "CONFLICT_RESOLUTION")
VISIBILITY = EnumTable(Visibility, filters_pb.ProjectVisibility, "PROJECT_VISIBILITY")
SESSION_VISIBILITY = EnumTable(SessionVisibility, filters_pb.SessionVisibility, "SESSION_VISIBILITY")
ROLE = EnumTable(Role, types_pb.MessageRole, "MESSAGE_ROLE")
SESSION_STATE = EnumTable(SessionState, session_pb.SessionState, "SESSION_STATE")
ON_OPEN = EnumTable(OnOpen, session_pb.SessionOnOpen, "SESSION_ON_OPEN")
FILE_CATEGORY = EnumTable(FileCategory, types_pb.FileCategory, "FILE_CATEGORY")
TEXT_STATE = EnumTable(TextState, file_pb.FileTextState, "FILE_TEXT_STATE")
TEXT_REASONS = member_numbers(file_pb.FileTextReason, "FILE_TEXT_REASON")
CATEGORY_NUMBERS = {category.value: number for category, number in FILE_CATEGORY.to_proto.items()}
"""The numbers of file categories by their names in references, such as `artifact`."""
AUTO_TRIM = EnumTable(AutoTrim, session_pb.SessionAutoTrim, "SESSION_AUTO_TRIM")
MODE = EnumTable(Mode, search_pb.SearchMode, "SEARCH_MODE")
USE_OUTCOME = EnumTable(UseOutcome, search_pb.UseOutcome, "USE_OUTCOME")
FEEDBACK_STATE = EnumTable(FeedbackState, search_pb.UseFeedbackState, "USE_FEEDBACK_STATE")
WORD_MATCH = EnumTable(WordMatch, search_pb.WordMatch, "WORD_MATCH")
RETRIEVER = EnumTable(Retriever, search_pb.Retriever, "RETRIEVER")
FUSION_METHOD = EnumTable(FusionMethod, search_pb.FusionMethod, "FUSION_METHOD")
NORMALIZATION = EnumTable(Normalization, search_pb.FusionNormalization, "FUSION_NORMALIZATION")
SECTION = EnumTable(Section, search_pb.ContextSection, "CONTEXT_SECTION")
CURRENCY = EnumTable(Currency, types_pb.Currency, "CURRENCY")
CITATION_STYLE = EnumTable(CitationStyle, search_pb.CitationStyle, "CITATION_STYLE")
SEVERITY = EnumTable(NoticeSeverity, types_pb.Severity, "SEVERITY")
WARNING_CODES = member_numbers(types_pb.WarningCode, "WARNING_CODE")
DEGRADATION_REASONS = member_numbers(search_pb.DegradationReason, "DEGRADATION_REASON")
REFINEMENT_STAGES = member_numbers(search_pb.RefinementStage, "REFINEMENT_STAGE")
OMISSION_REASON = EnumTable(OmissionReason, search_pb.OmissionReason, "OMISSION_REASON")
UNRESTORED_REASON = EnumTable(RollbackObstacle, lifecycle_pb.UnrestoredReason, "UNRESTORED_REASON")
MEASUREMENT_POINTS = member_numbers(admin_pb.MeasurementPoint, "MEASUREMENT_POINT")
SEARCH_GROUP = EnumTable(ResultGroup, search_pb.SearchGroup, "SEARCH_GROUP")
CAPTURE_REASON = EnumTable(CaptureReason, memory_pb.CaptureReason, "CAPTURE_REASON")
DECIDER = EnumTable(Decider, memory_pb.CaptureDecider, "CAPTURE_DECIDER")
DIFFERENCE_KIND = EnumTable(DifferenceKind, lifecycle_pb.DifferenceKind, "DIFFERENCE_KIND")
REVISION_ACTIONS: Mapping[ChangeAction, memory_pb.RevisionAction.ValueType] = {
    ChangeAction.CREATED: memory_pb.REVISION_ACTION_CREATED,
    ChangeAction.UPDATED: memory_pb.REVISION_ACTION_UPDATED,
    ChangeAction.DELETED: memory_pb.REVISION_ACTION_DELETED,
    ChangeAction.RESTORED: memory_pb.REVISION_ACTION_RESTORED,
}
INTEGRITY_FAULT = EnumTable(Fault, admin_pb.IntegrityFault, "INTEGRITY_FAULT")
MAINTENANCE_STEP = EnumTable(maintenance.UpkeepStep, lifecycle_pb.MaintenanceStep, "MAINTENANCE_STEP")
MAINTENANCE_REASON = EnumTable(maintenance.MaintenanceReason, lifecycle_pb.MaintenanceReason, "MAINTENANCE_REASON")
MIGRATION_ACTION = EnumTable(MoveAction, admin_pb.MigrationAction, "MIGRATION_ACTION")
MIGRATION_PHASE = EnumTable(MovePhase, admin_pb.MigrationPhase, "MIGRATION_PHASE")
API_KEY_ROLE = EnumTable(ApiKeyRole, admin_pb.ApiKeyRole, "API_KEY_ROLE")
API_KEY_STATE = EnumTable(KeyState, admin_pb.ApiKeyState, "API_KEY_STATE")
VAULT_ACTIONS = {
    action: admin_pb.VaultAction.Value(f"VAULT_ACTION_{action.value}") for action in VaultAction if action not in QUIET
}
INDEX_KIND = EnumTable(IndexKind, admin_pb.IndexKind, "INDEX_KIND")
REINDEX_MODE = EnumTable(ReindexMode, admin_pb.ReindexMode, "REINDEX_MODE")
REMINDER_SLOT = EnumTable(Slot, types_pb.ReminderSlot, "REMINDER_SLOT")
REMINDER_RECURRENCE = EnumTable(Recurrence, types_pb.ReminderRecurrence, "REMINDER_RECURRENCE")
IMPORT_ISSUE_REASON = EnumTable(ImportIssueReason, lifecycle_pb.ImportIssueReason, "IMPORT_ISSUE_REASON")
BACKUP_PHASE = EnumTable(BackupPhase, admin_pb.BackupPhase, "BACKUP_PHASE")
REINDEX_PHASE = EnumTable(ReindexPhase, admin_pb.ReindexPhase, "REINDEX_PHASE")

TIME_FIELDS: Mapping[int, Field] = {
    filters_pb.TIME_FIELD_CREATE_TIME: Field.CREATE_TIME,
    filters_pb.TIME_FIELD_UPDATE_TIME: Field.UPDATE_TIME,
    filters_pb.TIME_FIELD_ACCESS_TIME: Field.ACCESS_TIME,
    filters_pb.TIME_FIELD_EVENT_TIME: Field.EVENT_TIME,
}

FILTER_FIELDS: Mapping[int, Field] = {
    filters_pb.FILTER_FIELD_LAYER: Field.LAYER,
    filters_pb.FILTER_FIELD_KIND: Field.KIND,
    filters_pb.FILTER_FIELD_CATEGORY: Field.CATEGORY,
    filters_pb.FILTER_FIELD_TIER: Field.TIER,
    filters_pb.FILTER_FIELD_STATUS: Field.STATUS,
    filters_pb.FILTER_FIELD_TAG: Field.TAGS,
    filters_pb.FILTER_FIELD_SPEAKER: Field.SPEAKER,
    filters_pb.FILTER_FIELD_AGENT_ID: Field.AGENT_ID,
    filters_pb.FILTER_FIELD_SESSION_ID: Field.SESSION_ID,
    filters_pb.FILTER_FIELD_IMPORTANCE: Field.IMPORTANCE,
    filters_pb.FILTER_FIELD_CONFIDENCE: Field.CONFIDENCE,
    filters_pb.FILTER_FIELD_CREATE_TIME: Field.CREATE_TIME,
    filters_pb.FILTER_FIELD_UPDATE_TIME: Field.UPDATE_TIME,
    filters_pb.FILTER_FIELD_ACCESS_TIME: Field.ACCESS_TIME,
    filters_pb.FILTER_FIELD_EVENT_TIME: Field.EVENT_TIME,
    filters_pb.FILTER_FIELD_METADATA: Field.METADATA,
    filters_pb.FILTER_FIELD_ORIGIN: Field.ORIGIN,
    filters_pb.FILTER_FIELD_TRUST: Field.TRUST,
    filters_pb.FILTER_FIELD_VALID_FROM: Field.VALID_FROM,
    filters_pb.FILTER_FIELD_VALID_TO: Field.VALID_TO,
    filters_pb.FILTER_FIELD_KEY: Field.KEY,
}

ENUM_FIELDS: Mapping[Field, frozenset[str]] = {
    Field.LAYER: LAYER.names,
    Field.KIND: KIND.names,
    Field.TIER: TIER.names,
    Field.STATUS: STATUS.names,
    Field.ORIGIN: ORIGIN.names,
}
"""The names that a condition may compare these fields with."""
