"""The one table from the domain's errors to what gRPC tells a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from memsvc.domain import errors, limits
from memsvc.domain.errors import MemsvcError, Violation
from memsvc.domain.write_requests import Rejected
from memsvc.v1 import types_pb2 as types

DOMAIN = "memsvc"
REASON_PREFIX = "ERROR_REASON_"
INTERNAL_MESSAGE = "internal error"
BAD_REQUEST_BYTES = 3_600
"""How much a BadRequest may take up: all trailers together must stay below 8 KiB, or the client loses them."""
MESSAGE_BYTES = 600
"""Where a message is cut: gRPC writes each byte that is not ASCII as three."""
_NANOS = 1_000_000_000


class Severity(Enum):
    """How a failure is logged: as the client's affair, as a sick backend, or as a fault of ours."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Row:
    """What one class of error becomes."""

    code: grpc.StatusCode
    details: Callable[[MemsvcError], Sequence[Message]] = lambda _: ()
    severity: Severity = Severity.INFO


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as gRPC tells it."""

    code: grpc.StatusCode
    message: str
    severity: Severity
    details: bytes


def _bad_request(error: MemsvcError) -> Sequence[Message]:
    reply = details.BadRequest()
    size = 0
    for violation in getattr(error, "violations", ())[: limits.VIOLATIONS]:
        one = details.BadRequest.FieldViolation(field=violation.field, description=violation.description)
        size += one.ByteSize() + 3
        if size > BAD_REQUEST_BYTES:
            break
        reply.field_violations.append(one)
    return (reply,)


_RESOURCES = {
    "checkpoint": "checkpoint",
    "session_id": "session",
    "memory": "memory",
    "memory_id": "memory",
    "file_id": "file",
}


def _resource(error: MemsvcError) -> Sequence[Message]:
    named = error.metadata
    key = next((key for key in _RESOURCES if key in named), "memory")
    resource = details.ResourceInfo(
        resource_type=_RESOURCES[key], resource_name=named.get(key, ""), description=cut(error.message)
    )
    return (resource,)


def _conflict(error: MemsvcError) -> Sequence[Message]:
    name = error.metadata.get("conflict_id", "")
    return (details.ResourceInfo(resource_type="conflict", resource_name=name, description=cut(error.message)),)


def _api_key(error: MemsvcError) -> Sequence[Message]:
    name = error.metadata.get("key_id", "")
    return (details.ResourceInfo(resource_type="api_key", resource_name=name, description=cut(error.message)),)


def _precondition(error: MemsvcError) -> Sequence[Message]:
    violation = details.PreconditionFailure.Violation(
        type=error.reason, subject=next(iter(error.metadata.values()), ""), description=cut(error.message)
    )
    return (details.PreconditionFailure(violations=[violation]),)


def _retry(error: MemsvcError) -> Sequence[Message]:
    seconds, nanos = divmod(round(getattr(error, "retry_seconds", 1.0) * _NANOS), _NANOS)
    return (details.RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos)),)


def _quota(error: MemsvcError) -> Sequence[Message]:
    violation = details.QuotaFailure.Violation(subject=error.metadata.get("limit", ""), description=cut(error.message))
    return (details.QuotaFailure(violations=[violation]), *_retry(error))


_CODE = grpc.StatusCode
INTERNAL = Row(_CODE.INTERNAL, severity=Severity.ERROR)

TABLE: Mapping[type[MemsvcError], Row] = {
    errors.InvalidRequestError: Row(_CODE.INVALID_ARGUMENT, _bad_request),
    errors.MemoryNotFoundError: Row(_CODE.NOT_FOUND, _resource),
    errors.MemoryExistsError: Row(_CODE.ALREADY_EXISTS, _resource),
    errors.RevisionConflictError: Row(_CODE.ABORTED),
    errors.MemorySupersededError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.SupersedeCycleError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.ConflictNotFoundError: Row(_CODE.NOT_FOUND, _conflict),
    errors.ConflictSettledError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.RevisionNotFoundError: Row(_CODE.NOT_FOUND, _resource),
    errors.CheckpointNotFoundError: Row(_CODE.NOT_FOUND, _resource),
    errors.CheckpointExistsError: Row(_CODE.ALREADY_EXISTS, _resource),
    errors.RequestIdReusedError: Row(_CODE.ALREADY_EXISTS),
    errors.DimensionMismatchError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.CapabilityMissingError: Row(_CODE.UNIMPLEMENTED),
    errors.LimitExceededError: Row(_CODE.RESOURCE_EXHAUSTED, _quota),
    errors.BackendUnavailableError: Row(_CODE.UNAVAILABLE, _retry, Severity.WARNING),
    errors.DeadlineExceededError: Row(_CODE.DEADLINE_EXCEEDED),
    errors.NotReadyError: Row(_CODE.UNAVAILABLE, _retry),
    errors.DataDirectoryLockedError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.ReindexRunningError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.NothingToSummarizeError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.MaintenanceRunningError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.SessionNotFoundError: Row(_CODE.NOT_FOUND, _resource),
    errors.SessionExistsError: Row(_CODE.ALREADY_EXISTS, _resource),
    errors.SessionNotActiveError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.NotQuarantinedError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.CursorExpiredError: Row(_CODE.OUT_OF_RANGE),
    errors.WatchTooSlowError: Row(_CODE.RESOURCE_EXHAUSTED, _quota),
    errors.ServerStoppingError: Row(_CODE.UNAVAILABLE, _retry),
    errors.ErasureRunningError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.BackupExistsError: Row(_CODE.ALREADY_EXISTS),
    errors.BackupRunningError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.ApiKeyRequiredError: Row(_CODE.UNAUTHENTICATED),
    errors.ApiKeyInvalidError: Row(_CODE.UNAUTHENTICATED),
    errors.ApiKeyExpiredError: Row(_CODE.UNAUTHENTICATED),
    errors.PermissionDeniedError: Row(_CODE.PERMISSION_DENIED),
    errors.ApiKeyNotFoundError: Row(_CODE.NOT_FOUND, _api_key),
    errors.StoredFileNotFoundError: Row(_CODE.NOT_FOUND, _resource),
    errors.FileContentMissingError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.VaultOffError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.StoreMovedError: Row(_CODE.UNAVAILABLE, _retry),
    errors.MoveRefusedError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.MoveRunningError: Row(_CODE.FAILED_PRECONDITION, _precondition),
    errors.BackendClosedError: INTERNAL,
}
"""Every error that a caller can be told about. What is not here is INTERNAL."""

CODES_BY_REASON: Mapping[str, grpc.StatusCode] = {error.reason: row.code for error, row in TABLE.items()}


def row_of(error: BaseException) -> Row:
    """Return the row of an error's class, or of the nearest of its bases that has one."""
    for base in type(error).__mro__:
        if row := TABLE.get(base):
            return row
    return INTERNAL


def failure_from_error(error: BaseException, *, request_id: str) -> Failure:
    """Return what a client is told of *error*. Of a fault of ours it learns no more than the id to look it up by."""
    row = row_of(error)
    if row is INTERNAL or not isinstance(error, MemsvcError):
        info = details.ErrorInfo(reason=f"{REASON_PREFIX}INTERNAL", domain=DOMAIN, metadata={"request_id": request_id})
        return _failure(INTERNAL, INTERNAL_MESSAGE, [info])
    info = details.ErrorInfo(reason=REASON_PREFIX + error.reason, domain=DOMAIN, metadata=error.metadata)
    return _failure(row, cut(error.message), [info, *row.details(error)])


def item_status_from_error(error: BaseException) -> types.ItemStatus:
    """Return the status of one item of a batch that failed with *error*."""
    row = row_of(error)
    if row is INTERNAL or not isinstance(error, MemsvcError):
        return types.ItemStatus(
            code=_number(INTERNAL.code), message=INTERNAL_MESSAGE, reason=f"{REASON_PREFIX}INTERNAL"
        )
    violations = error.violations if isinstance(error, errors.InvalidRequestError) else ()
    return _item_status(row.code, error.message, error.reason, violations)


def item_status_from_rejected(rejected: Rejected) -> types.ItemStatus:
    """Return the status of one memory of a batch that was not stored."""
    code = CODES_BY_REASON.get(rejected.reason, INTERNAL.code)
    return _item_status(code, rejected.message, rejected.reason, rejected.violations)


def rejected_from_error(error: MemsvcError) -> Rejected:
    """Return an item that broke a rule, as a batch carries it along."""
    violations = error.violations if isinstance(error, errors.InvalidRequestError) else ()
    return Rejected(error.reason, error.message, violations)


def cut(message: str) -> str:
    """Return as much of a message as trailers have room for."""
    return message.encode()[:MESSAGE_BYTES].decode(errors="ignore")


def _item_status(code: grpc.StatusCode, message: str, reason: str, violations: Sequence[Violation]) -> types.ItemStatus:
    return types.ItemStatus(
        code=_number(code),
        message=message,
        reason=REASON_PREFIX + reason,
        field_violations=[
            types.FieldViolation(field=violation.field, description=violation.description)
            for violation in violations[: limits.VIOLATIONS]
        ],
    )


def _number(code: grpc.StatusCode) -> int:
    number: int = code.value[0]
    return number


def _failure(row: Row, message: str, parts: Sequence[Message]) -> Failure:
    packed = []
    for part in parts:
        packed.append(AnyMessage())
        packed[-1].Pack(part)
    status = Status(code=_number(row.code), message=message, details=packed)
    return Failure(row.code, message, row.severity, status.SerializeToString())
