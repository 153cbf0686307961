"""Errors as the client tells them."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from memsvc.client import MemsvcCallError, Violation

CODE = grpc.StatusCode.INVALID_ARGUMENT


def packed(*parts: Message) -> bytes:
    status = Status(code=3, message="bad")
    for part in parts:
        one = AnyMessage()
        one.Pack(part)
        status.details.append(one)
    return bytes(status.SerializeToString())


def test_details_are_decoded() -> None:
    """Reason, metadata, violations and the pause come out of the status details."""
    sent = packed(
        details.ErrorInfo(domain="memsvc", reason="ERROR_REASON_INVALID_REQUEST", metadata={"a": "b"}),
        details.BadRequest(field_violations=[details.BadRequest.FieldViolation(field="limit", description="too big")]),
        details.RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000)),
    )

    error = MemsvcCallError.from_status(CODE, "bad", sent)

    assert error.reason == "INVALID_REQUEST"
    assert error.metadata == {"a": "b"}
    assert error.violations == (Violation("limit", "too big"),)
    assert error.retry_seconds == 1.5
    assert str(error) == "INVALID_REQUEST: limit: too big"


def test_details_of_somebody_else_are_no_reason() -> None:
    """A proxy's own ErrorInfo does not pass for the service's."""
    sent = packed(details.ErrorInfo(domain="proxy.example", reason="QUOTA"))

    error = MemsvcCallError.from_status(CODE, "bad", sent)

    assert error.reason == ""
    assert error.metadata == {}


def test_unreadable_details_count_as_none() -> None:
    """Garbage in the trailers hides neither code nor message."""
    error = MemsvcCallError.from_status(CODE, "bad", b"\xff\xff\xff")

    assert (error.code, error.message, error.violations, error.retry_seconds) == (CODE, "bad", (), None)


@pytest.mark.parametrize(("number", "code"), [(3, grpc.StatusCode.INVALID_ARGUMENT), (99, grpc.StatusCode.UNKNOWN)])
def test_the_status_of_an_item_is_an_error_like_that_of_a_call(number: int, code: grpc.StatusCode) -> None:
    """With its violations; a code that is unknown is one, too."""
    status = Status(code=number, message="bad")
    broken = details.BadRequest(field_violations=[{"field": "content", "description": "must not be empty"}])
    status.details.add().Pack(broken)

    error = MemsvcCallError.from_item(status)

    assert (code, "bad") == (error.code, error.message)
    assert (Violation("content", "must not be empty"),) == error.violations
