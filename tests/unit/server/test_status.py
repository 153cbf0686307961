"""The table from errors to statuses."""

from __future__ import annotations

import inspect

import grpc
import pytest
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from memsvc.domain import errors
from memsvc.domain.errors import InvalidRequestError, MemsvcError, Violation
from memsvc.domain.write_requests import RejectedItem
from memsvc.server import error_status
from memsvc.v1 import errors_pb2 as errors_pb

CLASSES = [
    error
    for module in (errors, errors, errors, errors)
    for _, error in inspect.getmembers(module, inspect.isclass)
    if issubclass(error, MemsvcError) and error is not MemsvcError and error.__module__ == module.__name__
]
EXAMPLES = [
    (InvalidRequestError([Violation("a", "b")]), grpc.StatusCode.INVALID_ARGUMENT, details.BadRequest),
    (errors.MemoryNotFoundError("m"), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.MemoryExistsError("m"), grpc.StatusCode.ALREADY_EXISTS, details.ResourceInfo),
    (errors.RevisionConflictError("m", 1, 2), grpc.StatusCode.ABORTED, None),
    (errors.SelectionChangedError(3, 4), grpc.StatusCode.ABORTED, None),
    (errors.MemorySupersededError("m", "n"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.SupersedeCycleError("m", "n"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.ConflictNotFoundError("c"), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.ConflictSettledError("c", "CLOSED"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.RequestIdReusedError("r"), grpc.StatusCode.ALREADY_EXISTS, None),
    (errors.DimensionMismatchError(3, 4), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.CapabilityMissingError("c"), grpc.StatusCode.UNIMPLEMENTED, None),
    (errors.LimitExceededError("l"), grpc.StatusCode.RESOURCE_EXHAUSTED, details.QuotaFailure),
    (
        errors.QuotaExceededError("tenant", "t", amount="memories", limit=1, used=1, added=1),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        details.QuotaFailure,
    ),
    (errors.ResponseTooLargeError(size=2, limit=1), grpc.StatusCode.RESOURCE_EXHAUSTED, None),
    (errors.BackendUnavailableError("b"), grpc.StatusCode.UNAVAILABLE, details.RetryInfo),
    (errors.WriteConflictError(), grpc.StatusCode.ABORTED, details.RetryInfo),
    (errors.DeadlineExceededError("w"), grpc.StatusCode.DEADLINE_EXCEEDED, None),
    (errors.NotReadyError(5), grpc.StatusCode.UNAVAILABLE, details.RetryInfo),
    (errors.DataDirectoryLockedError("1"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.SessionNotFoundError("s"), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.SessionExistsError("s"), grpc.StatusCode.ALREADY_EXISTS, details.ResourceInfo),
    (errors.SessionNotActiveError("s", "CLOSED"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.NotQuarantinedError("m", "ACTIVE"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.CursorExpiredError("7 days"), grpc.StatusCode.OUT_OF_RANGE, None),
    (errors.WatchTooSlowError(9), grpc.StatusCode.RESOURCE_EXHAUSTED, details.QuotaFailure),
    (errors.ServerStoppingError(), grpc.StatusCode.UNAVAILABLE, details.RetryInfo),
    (errors.RevisionNotFoundError("m", 7), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.CheckpointNotFoundError("c"), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.CheckpointExistsError("c"), grpc.StatusCode.ALREADY_EXISTS, details.ResourceInfo),
    (errors.ReindexRunningError(), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.NothingToSummarizeError("2026-02", ""), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.MaintenanceRunningError(), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.StoredFileNotFoundError("f"), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.FileContentMissingError("f"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.ErasureRunningError(), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.BackupExistsError("b"), grpc.StatusCode.ALREADY_EXISTS, None),
    (errors.ApiKeyRequiredError(), grpc.StatusCode.UNAUTHENTICATED, None),
    (errors.ApiKeyInvalidError(), grpc.StatusCode.UNAUTHENTICATED, None),
    (errors.ApiKeyExpiredError("k", None), grpc.StatusCode.UNAUTHENTICATED, None),
    (errors.PermissionDeniedError("no", key_id="k"), grpc.StatusCode.PERMISSION_DENIED, None),
    (errors.ApiKeyNotFoundError("k"), grpc.StatusCode.NOT_FOUND, details.ResourceInfo),
    (errors.BackupRunningError(), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.StoreMovedError("moved"), grpc.StatusCode.UNAVAILABLE, details.RetryInfo),
    (errors.MoveRefusedError("no"), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.MoveRunningError(), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
    (errors.VaultOffError(), grpc.StatusCode.FAILED_PRECONDITION, details.PreconditionFailure),
]


def sent(error: BaseException) -> Status:
    """Return the status that a client would decode."""
    return Status.FromString(error_status.failure_from_error(error, request_id="r-1").details)


def info_of(error: BaseException) -> details.ErrorInfo:
    """Return the ErrorInfo that a client would read."""
    info = details.ErrorInfo()
    assert sent(error).details[0].Unpack(info)
    return info


def test_the_table_is_closed() -> None:
    """Every error has a row and a reason of the API, and every reason of the API has an error."""
    reasons = {name.removeprefix("ERROR_REASON_") for name, _ in errors_pb.ErrorReason.items()} - {"UNSPECIFIED"}

    assert set(CLASSES) == set(error_status.TABLE)
    assert reasons == {error.reason for error in CLASSES}


def test_every_error_has_an_example_here() -> None:
    """But the one that is a fault of ours."""
    assert set(CLASSES) - {errors.BackendClosedError} == {type(error) for error, _, _ in EXAMPLES}


@pytest.mark.parametrize(("error", "code", "detail"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_becomes_its_code_reason_and_details(
    error: MemsvcError, code: grpc.StatusCode, detail: type[details.BadRequest] | None
) -> None:
    """The reason is the full name of the enum's value, the metadata are the error's."""
    failure = error_status.failure_from_error(error, request_id="r-1")

    assert code is failure.code
    info = info_of(error)
    assert ("memsvc", f"ERROR_REASON_{error.reason}", error.metadata) == (info.domain, info.reason, dict(info.metadata))
    assert errors_pb.ErrorReason.Value(info.reason)
    if detail is not None:
        assert any(part.Is(detail.DESCRIPTOR) for part in sent(error).details)


@pytest.mark.parametrize("error", [ValueError("secret"), errors.BackendClosedError("secret")])
def test_a_fault_of_ours_tells_nothing_but_an_id(error: Exception) -> None:
    """Its text is for the log alone."""
    failure = error_status.failure_from_error(error, request_id="r-1")

    assert (failure.code, failure.message) == (grpc.StatusCode.INTERNAL, "internal error")
    assert dict(info_of(error).metadata) == {"request_id": "r-1"}
    assert b"secret" not in failure.details


def test_an_unknown_subclass_is_told_as_its_base() -> None:
    """The nearest base with a row counts."""

    class Narrower(errors.MemoryNotFoundError):
        """A narrower error."""

    assert error_status.error_rule(Narrower("m")).code is grpc.StatusCode.NOT_FOUND


def bad_request(error: InvalidRequestError) -> details.BadRequest:
    """Return the BadRequest that a client would read."""
    bad = details.BadRequest()
    assert sent(error).details[1].Unpack(bad)
    return bad


def test_no_more_violations_are_told_than_fit() -> None:
    """At most 50, and the message counts the others."""
    error = InvalidRequestError([Violation(f"f[{index}]", "wrong") for index in range(300)])

    assert len(bad_request(error).field_violations) == 50
    assert "299 more" in error_status.failure_from_error(error, request_id="r").message


@pytest.mark.parametrize("text", ["x" * 1000, "\U0001f600" * 250, "记" * 300])
def test_trailers_stay_below_8_kib(text: str) -> None:
    """However long the paths and names are: gRPC would drop a larger reply."""
    worst = [
        InvalidRequestError([Violation(text[:250], text[:100]) for _ in range(100)]),
        errors.MemoryNotFoundError(text[:256]),
        errors.RequestIdReusedError(text[:128]),
    ]

    for error in worst:
        failure = error_status.failure_from_error(error, request_id="r" * 128)
        percent_encoded = sum(3 if byte > 126 else 1 for byte in failure.message.encode())
        assert len(failure.details) * 4 / 3 + percent_encoded + 300 < 8192


def test_a_rejected_item_gets_code_reason_and_violations() -> None:
    """As a call of its own would."""
    rejected = RejectedItem("INVALID_REQUEST", "memory.tags[0]: bad", (Violation("memory.tags[0]", "bad"),))

    item = error_status.item_status_from_rejected(rejected)

    assert (item.code, item.reason) == (3, errors_pb.ERROR_REASON_INVALID_REQUEST)
    assert item.field_violations[0].field == "memory.tags[0]"


def test_an_item_that_failed_unexpectedly_tells_nothing() -> None:
    """Its text is for the log alone."""
    item = error_status.item_status_from_error(ValueError("secret"))

    assert (item.code, item.message, item.reason) == (13, "internal error", errors_pb.ERROR_REASON_INTERNAL)
