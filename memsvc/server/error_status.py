"""Table from the domain's errors to gRPC statuses."""

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
from memsvc.domain.write_requests import RejectedItem
from memsvc.v1 import errors_pb2 as errors_pb

DOMAIN = "memsvc"
REASON_PREFIX = "ERROR_REASON_"
INTERNAL_MESSAGE = "internal error"
BAD_REQUEST_BYTES = 3_600
"""The size of a BadRequest: all trailers together must stay below 8 KiB, or the client loses them."""
MESSAGE_BYTES = 600
"""The length at which a message is truncated: gRPC writes each byte that is not ASCII as three."""
_NANOS = 1_000_000_000


class Severity(Enum):
    """Log level of a failure: an error of the client, of a backend, or of this service."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """Status of one class of errors."""

    code: grpc.StatusCode
    details: Callable[[MemsvcError], Sequence[Message]] = lambda _: ()
    severity: Severity = Severity.INFO


@dataclass(frozen=True, slots=True)
class Failure:
    """Error as a gRPC status."""

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
        resource_type=_RESOURCES[key], resource_name=named.get(key, ""), description=truncated(error.message)
    )
    return (resource,)


def _conflict(error: MemsvcError) -> Sequence[Message]:
    name = error.metadata.get("conflict_id", "")
    return (details.ResourceInfo(resource_type="conflict", resource_name=name, description=truncated(error.message)),)


def _api_key(error: MemsvcError) -> Sequence[Message]:
    name = error.metadata.get("key_id", "")
    return (details.ResourceInfo(resource_type="api_key", resource_name=name, description=truncated(error.message)),)


def _precondition(error: MemsvcError) -> Sequence[Message]:
    violation = details.PreconditionFailure.Violation(
        type=error.reason, subject=next(iter(error.metadata.values()), ""), description=truncated(error.message)
    )
    return (details.PreconditionFailure(violations=[violation]),)


def _retry(error: MemsvcError) -> Sequence[Message]:
    seconds, nanos = divmod(round(getattr(error, "retry_seconds", 1.0) * _NANOS), _NANOS)
    return (details.RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos)),)


def _quota(error: MemsvcError) -> Sequence[Message]:
    subject, description = error.metadata.get("limit", ""), truncated(error.message)
    violation = details.QuotaFailure.Violation(subject=subject, description=description)
    return (details.QuotaFailure(violations=[violation]), *_retry(error))


def _stored_quota(error: MemsvcError) -> Sequence[Message]:
    named = error.metadata
    violation = details.QuotaFailure.Violation(
        subject=f"{named['holder']}:{named['name']}",
        description=truncated(error.message),
        quota_metric=named["quota"],
        quota_value=int(named["limit"]),
    )
    return (details.QuotaFailure(violations=[violation]),)


_CODE = grpc.StatusCode
INTERNAL = ErrorRule(_CODE.INTERNAL, severity=Severity.ERROR)

TABLE: Mapping[type[MemsvcError], ErrorRule] = {
    errors.InvalidRequestError: ErrorRule(_CODE.INVALID_ARGUMENT, _bad_request),
    errors.MemoryNotFoundError: ErrorRule(_CODE.NOT_FOUND, _resource),
    errors.MemoryExistsError: ErrorRule(_CODE.ALREADY_EXISTS, _resource),
    errors.RevisionConflictError: ErrorRule(_CODE.ABORTED),
    errors.SelectionChangedError: ErrorRule(_CODE.ABORTED),
    errors.MemorySupersededError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.SupersedeCycleError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.ConflictNotFoundError: ErrorRule(_CODE.NOT_FOUND, _conflict),
    errors.ConflictSettledError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.RevisionNotFoundError: ErrorRule(_CODE.NOT_FOUND, _resource),
    errors.CheckpointNotFoundError: ErrorRule(_CODE.NOT_FOUND, _resource),
    errors.CheckpointExistsError: ErrorRule(_CODE.ALREADY_EXISTS, _resource),
    errors.RequestIdReusedError: ErrorRule(_CODE.ALREADY_EXISTS),
    errors.DimensionMismatchError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.CapabilityMissingError: ErrorRule(_CODE.UNIMPLEMENTED),
    errors.LimitExceededError: ErrorRule(_CODE.RESOURCE_EXHAUSTED, _quota),
    errors.QuotaExceededError: ErrorRule(_CODE.RESOURCE_EXHAUSTED, _stored_quota),
    errors.ResponseTooLargeError: ErrorRule(_CODE.RESOURCE_EXHAUSTED),
    errors.WriteConflictError: ErrorRule(_CODE.ABORTED, _retry),
    errors.BackendUnavailableError: ErrorRule(_CODE.UNAVAILABLE, _retry, Severity.WARNING),
    errors.DeadlineExceededError: ErrorRule(_CODE.DEADLINE_EXCEEDED),
    errors.NotReadyError: ErrorRule(_CODE.UNAVAILABLE, _retry),
    errors.DataDirectoryLockedError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.ReindexRunningError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.NothingToSummarizeError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.MaintenanceRunningError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.SessionNotFoundError: ErrorRule(_CODE.NOT_FOUND, _resource),
    errors.SessionExistsError: ErrorRule(_CODE.ALREADY_EXISTS, _resource),
    errors.SessionNotActiveError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.NotQuarantinedError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.CursorExpiredError: ErrorRule(_CODE.OUT_OF_RANGE),
    errors.WatchTooSlowError: ErrorRule(_CODE.RESOURCE_EXHAUSTED, _quota),
    errors.ServerStoppingError: ErrorRule(_CODE.UNAVAILABLE, _retry),
    errors.ErasureRunningError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.BackupExistsError: ErrorRule(_CODE.ALREADY_EXISTS),
    errors.BackupRunningError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.ApiKeyRequiredError: ErrorRule(_CODE.UNAUTHENTICATED),
    errors.ApiKeyInvalidError: ErrorRule(_CODE.UNAUTHENTICATED),
    errors.ApiKeyExpiredError: ErrorRule(_CODE.UNAUTHENTICATED),
    errors.PermissionDeniedError: ErrorRule(_CODE.PERMISSION_DENIED),
    errors.ApiKeyNotFoundError: ErrorRule(_CODE.NOT_FOUND, _api_key),
    errors.StoredFileNotFoundError: ErrorRule(_CODE.NOT_FOUND, _resource),
    errors.FileContentMissingError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.VaultOffError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.StoreMovedError: ErrorRule(_CODE.UNAVAILABLE, _retry),
    errors.MoveRefusedError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.MoveRunningError: ErrorRule(_CODE.FAILED_PRECONDITION, _precondition),
    errors.BackendClosedError: INTERNAL,
}
"""The status of every error that a caller can get. Any other error is INTERNAL."""

CODES_BY_REASON: Mapping[str, grpc.StatusCode] = {error.reason: rule.code for error, rule in TABLE.items()}


def error_rule(error: BaseException) -> ErrorRule:
    """Return the rule of an error's class, or of the nearest of its bases that has one."""
    for base in type(error).__mro__:
        if rule := TABLE.get(base):
            return rule
    return INTERNAL


def failure_from_error(error: BaseException, *, request_id: str) -> Failure:
    """Return the status of *error*. An internal error shows the client no more than the id of its log entry."""
    rule = error_rule(error)
    if rule is INTERNAL or not isinstance(error, MemsvcError):
        info = details.ErrorInfo(reason=f"{REASON_PREFIX}INTERNAL", domain=DOMAIN, metadata={"request_id": request_id})
        return _failure(INTERNAL, INTERNAL_MESSAGE, [info])
    info = details.ErrorInfo(reason=REASON_PREFIX + error.reason, domain=DOMAIN, metadata=error.metadata)
    return _failure(rule, truncated(error.message), [info, *rule.details(error)])


def item_status_from_error(error: BaseException) -> errors_pb.ItemStatus:
    """Return the status of one item of a batch that failed with *error*."""
    rule = error_rule(error)
    if rule is INTERNAL or not isinstance(error, MemsvcError):
        return errors_pb.ItemStatus(
            code=_number(INTERNAL.code), message=INTERNAL_MESSAGE, reason=errors_pb.ERROR_REASON_INTERNAL
        )
    violations = error.violations if isinstance(error, errors.InvalidRequestError) else ()
    return _item_status(rule.code, error.message, error.reason, violations)


def item_status_from_rejected(rejected: RejectedItem) -> errors_pb.ItemStatus:
    """Return the status of one memory of a batch that was not stored."""
    code = CODES_BY_REASON.get(rejected.reason, INTERNAL.code)
    return _item_status(code, rejected.message, rejected.reason, rejected.violations)


def rejected_from_error(error: MemsvcError) -> RejectedItem:
    """Return an item of a batch with violations as a rejected one."""
    violations = error.violations if isinstance(error, errors.InvalidRequestError) else ()
    return RejectedItem(error.reason, error.message, violations)


def truncated(message: str) -> str:
    """Return as much of a message as trailers have room for."""
    return message.encode()[:MESSAGE_BYTES].decode(errors="ignore")


def _item_status(
    code: grpc.StatusCode, message: str, reason: str, violations: Sequence[Violation]
) -> errors_pb.ItemStatus:
    return errors_pb.ItemStatus(
        code=_number(code),
        message=message,
        reason=errors_pb.ErrorReason.Value(REASON_PREFIX + reason),
        field_violations=[
            errors_pb.FieldViolation(field=violation.field, description=violation.description)
            for violation in violations[: limits.VIOLATIONS]
        ],
    )


def _number(code: grpc.StatusCode) -> int:
    number: int = code.value[0]
    return number


def _failure(rule: ErrorRule, message: str, parts: Sequence[Message]) -> Failure:
    packed = []
    for part in parts:
        packed.append(AnyMessage())
        packed[-1].Pack(part)
    status = Status(code=_number(rule.code), message=message, details=packed)
    return Failure(rule.code, message, rule.severity, status.SerializeToString())
