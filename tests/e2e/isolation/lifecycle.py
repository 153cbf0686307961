"""What the methods of LifecycleService do to strangers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.isolation.fixtures import BEGINNING, Stranger
from tests.e2e.isolation.registry import INVALID, NOT_FOUND, OK, case


@case
def CreateCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's names are free elsewhere; within the same project its checkpoints are everybody's."""
    yield [lifecycle_pb.CreateCheckpointRequest(scope=stranger.scope, name=str(uuid.uuid4()))], OK


@case
def ListCheckpoints(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Those of the own place."""
    yield [lifecycle_pb.ListCheckpointsRequest(scope=stranger.scope)], OK


def checkpoint(stranger: Stranger) -> grpc.StatusCode:
    """Return what becomes of a request for the owner's checkpoint: whoever stands in the project has it, too."""
    scope, home = stranger.scope, stranger.owner.home
    return OK if (scope.user_id, scope.project_id) == (home.user_id, home.project_id) else NOT_FOUND


@case
def DiffCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's is not there; within the project other sessions' private memories are in no difference."""
    request = lifecycle_pb.DiffCheckpointRequest(scope=stranger.scope, checkpoint=BEGINNING, page_size=100)
    yield [request], checkpoint(stranger)


@case
def DeleteCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's is not there; within the project it would be deleted, so that another name stands for it."""
    name = BEGINNING if checkpoint(stranger) is NOT_FOUND else str(uuid.uuid4())
    yield [lifecycle_pb.DeleteCheckpointRequest(scope=stranger.scope, checkpoint=name)], NOT_FOUND


@case
def RollbackToCheckpoint(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The owner's is not there; within the project a rollback would leave other sessions' private memories alone."""
    request = lifecycle_pb.RollbackToCheckpointRequest(scope=stranger.scope, checkpoint=BEGINNING, dry_run=True)
    yield [request], checkpoint(stranger)
    if checkpoint(stranger) is NOT_FOUND:
        request.dry_run = False
        yield [request], NOT_FOUND


@case
def PromoteMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger cannot be promoted."""
    for memory_id in stranger.ids:
        yield [lifecycle_pb.PromoteMemoryRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def ListDueReminders(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is due is the owner's own; tests/e2e/test_reminders.py has some that is."""
    yield [lifecycle_pb.ListDueRemindersRequest(scope=stranger.scope)], OK


@case
def AcknowledgeReminder(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger was not given by them."""
    for memory_id in stranger.ids:
        day = {"year": 2026, "month": 3, "day": 5}
        yield (
            [
                lifecycle_pb.AcknowledgeReminderRequest(scope=stranger.scope, id=memory_id, date=day)  # type: ignore[arg-type] # a message as its fields
            ],
            NOT_FOUND,
        )


@case
def ConsolidateMemories(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Only the stranger's own project is looked at; what is private to a session is merged by nobody."""
    for dry_run in (True, False):
        yield [lifecycle_pb.ConsolidateMemoriesRequest(scope=stranger.scope, threshold=0, dry_run=dry_run)], OK


@case
def UndoConsolidation(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger cannot be taken apart."""
    for memory_id in stranger.ids:
        yield [lifecycle_pb.UndoConsolidationRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def SummarizePeriod(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nobody sums up what is private; what is the owner's is not there for others."""
    request = lifecycle_pb.SummarizePeriodRequest(scope=stranger.scope, topic="secretprivate")
    yield [request], grpc.StatusCode.FAILED_PRECONDITION


@case
def ArchiveMemory(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """What is not there for the stranger cannot be archived."""
    for memory_id in stranger.ids:
        yield [lifecycle_pb.ArchiveMemoryRequest(scope=stranger.scope, id=memory_id)], NOT_FOUND


@case
def RunMaintenance(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It looks after the stranger's own; nobody looks after what is private to a session."""
    scope = types_pb.Scope(user_id=stranger.scope.user_id, project_id=stranger.scope.project_id)
    for dry_run in (True, False):
        yield [lifecycle_pb.RunMaintenanceRequest(scope=scope, dry_run=dry_run)], OK
    if stranger.scope.session_id:
        yield [lifecycle_pb.RunMaintenanceRequest(scope=stranger.scope)], INVALID


@case
def DetectConflicts(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It compares the stranger's own memories; nobody compares what is private to a session."""
    scope = types_pb.Scope(user_id=stranger.scope.user_id, project_id=stranger.scope.project_id)
    yield [lifecycle_pb.DetectConflictsRequest(scope=scope, dry_run=True)], OK
    if stranger.scope.session_id:
        yield [lifecycle_pb.DetectConflictsRequest(scope=stranger.scope, dry_run=True)], INVALID


@case
def GetStats(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The counts are checked apart."""
    yield [admin_pb.GetStatsRequest(scope=stranger.scope)], OK


@case
def Diagnose(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It speaks of the whole service, and of nobody."""
    yield [admin_pb.DiagnoseRequest()], OK


@case
def Reindex(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As Diagnose. Begun only: a whole one has tests of its own."""
    yield [admin_pb.ReindexRequest(mode=99)], INVALID  # type: ignore[arg-type] # no value of the enum


@case
def CheckIntegrity(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nothing of the owner's is told, and a repair leaves it as it is."""
    for repair in (False, True):
        yield [admin_pb.CheckIntegrityRequest(scope=stranger.scope, repair=repair)], OK


@case
def ExportUser(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """A user is told whole to the user alone; no project or session of one is."""
    yield [lifecycle_pb.ExportUserRequest(scope=stranger.scope)], INVALID
    if stranger.scope.user_id != stranger.owner.user:
        whole = types_pb.Scope(user_id=stranger.scope.user_id)
        yield [lifecycle_pb.ExportUserRequest(scope=whole, include_vectors=True)], OK


@case
def ImportUser(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """A file that names the ids of others is taken in under other ids; see test_transfer.py."""
    header = lifecycle_pb.ImportUserRequest(header=lifecycle_pb.ImportUserHeader(scope=stranger.scope))
    yield [header], INVALID


@case
def EraseUser(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """No project or session can be erased as if it were the user; what others have is not counted."""
    yield [lifecycle_pb.EraseUserRequest(scope=stranger.scope, confirm=True)], INVALID
    if stranger.scope.user_id != stranger.owner.user:
        yield [lifecycle_pb.EraseUserRequest(scope=types_pb.Scope(user_id=stranger.scope.user_id))], OK


@case
def CreateBackup(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It tells numbers of the whole service. Begun only: a whole one has tests of its own."""
    yield [admin_pb.CreateBackupRequest(name="../acme")], INVALID


@case
def MigrateBackend(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """It is about everybody; nobody's words are in what it tells. Refused here: it has tests of its own."""
    target = admin_pb.MigrationTarget(embedded=admin_pb.EmbeddedStore())
    yield [admin_pb.MigrateBackendRequest(target=target)], grpc.StatusCode.FAILED_PRECONDITION


@case
def CreateApiKey(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Keys are the whole service's; who may make one is told in tests/e2e/access."""
    yield [admin_pb.CreateApiKeyRequest(role=99)], INVALID  # type: ignore[arg-type] # no value of the enum


@case
def ListApiKeys(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As CreateApiKey. Keys tell nothing of memories."""
    yield [admin_pb.ListApiKeysRequest()], OK


@case
def RevokeApiKey(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As CreateApiKey."""
    yield [admin_pb.RevokeApiKeyRequest(id="f" * 20)], NOT_FOUND


@case
def SetQuota(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As CreateApiKey."""
    yield [admin_pb.SetQuotaRequest(quota=admin_pb.Quota(api_key_id="f" * 20, memory_count=1))], NOT_FOUND


@case
def GetQuota(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As CreateApiKey: numbers of a tenant, of no user."""
    yield [admin_pb.GetQuotaRequest(api_key_id="f" * 20)], NOT_FOUND


@case
def ListQuotas(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As GetQuota."""
    yield [admin_pb.ListQuotasRequest()], OK


@case
def ListDeadLetters(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """For administrators: ids of events, of an endpoint that this service has none of."""
    yield [admin_pb.ListDeadLettersRequest(endpoint="nothing")], OK


@case
def RetryDeadLetters(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As ListDeadLetters."""
    yield [admin_pb.RetryDeadLettersRequest(endpoint="nothing")], INVALID


@case
def DropDeadLetters(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As ListDeadLetters."""
    yield [admin_pb.DropDeadLettersRequest(endpoint="nothing")], INVALID


@case
def GetPerformance(_: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As Diagnose."""
    yield [admin_pb.GetPerformanceRequest()], OK


@case
def ListUsers(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """For administrators: ids and counts alone, of the own tenant."""
    yield [admin_pb.ListUsersRequest(id_prefix=stranger.scope.user_id)], OK


@case
def ListProjects(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Those of the own user."""
    yield [admin_pb.ListProjectsRequest(user_id=stranger.scope.user_id)], OK


@case
def ListAgents(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Those of the own user."""
    yield [admin_pb.ListAgentsRequest(user_id=stranger.scope.user_id)], OK
