"""Rules for consolidations and summaries of periods."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.domain.scope import Scope
from memsvc.domain.summaries import Period, normal_topic, summary_key
from memsvc.engine.summaries.periods import PeriodRequest
from memsvc.server.convert.enums import WAIT_FOR
from memsvc.server.convert.times import time_from_proto
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import (
    check_enum,
    check_integer,
    check_name,
    check_number,
    check_revision,
    check_time_range,
    check_uuid,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import consolidation_pb2 as pb
from memsvc.v1 import summaries_pb2 as summaries_pb
from memsvc.v1 import types_pb2 as types

_ALL_TIME = Period.between(None, None)


def check_consolidate(request: pb.ConsolidateMemoriesRequest) -> None:
    """Check a request to merge memories."""
    found = Violations()
    check_scope(found, request.scope)
    if request.HasField("threshold"):
        check_number(found, "threshold", request.threshold, most=1.0)
    check_integer(found, "max_groups", request.max_groups, least=1, most=limits.GROUPS)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def check_undo(request: pb.UndoConsolidationRequest) -> None:
    """Check a request to take a merged memory apart."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def wish_of(request: summaries_pb.SummarizePeriodRequest, scope: Scope) -> PeriodRequest:
    """Check a request for a summary, and return what it asks for.

    Raises:
        InvalidRequestError: Something is wrong with it.
    """
    found = Violations()
    check_scope(found, request.scope)
    check_name(found, "topic", request.topic, most=limits.TOPIC)
    check_integer(found, "max_tokens", request.max_tokens, least=limits.SUMMARY_TOKENS_MIN, most=limits.SUMMARY_TOKENS)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    period = _period(found, request)
    topic = normal_topic(request.topic)
    if period == _ALL_TIME and not topic:
        found.add("month", "must be given, or time_range, or a topic")
    if period is not None and len(summary_key(period, topic)) > limits.KEY:
        found.add("topic", f"makes a key of more than {limits.KEY} characters")
    found.finish()
    return PeriodRequest(scope, period or _ALL_TIME, topic, request.max_tokens or None)


def _period(found: Violations, request: summaries_pb.SummarizePeriodRequest) -> Period | None:
    which = request.WhichOneof("period")
    if which is None:
        return _ALL_TIME
    if which == "month":
        month = Period.month(request.month)
        if month is None:
            found.add("month", "must be a year and a month such as '2026-02'")
        return month
    return _span(found, request.time_range)


def _span(found: Violations, span: types.TimeRange) -> Period | None:
    wrong = Violations()
    check_time_range(wrong, "time_range", span)
    if error := wrong.error():
        for violation in error.violations:
            found.add(violation.field, violation.description)
        return None
    start = time_from_proto(span.start) if span.HasField("start") else None
    end = time_from_proto(span.end) if span.HasField("end") else None
    return Period.between(start, end)
