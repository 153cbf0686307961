"""Rules for the requests that watch memories, and for those that review them."""

from __future__ import annotations

from collections.abc import Iterator

from memsvc.domain import limits
from memsvc.domain.filters import Field
from memsvc.server.convert.conditions import tested_fields
from memsvc.server.convert.enums import VERDICT, WAIT_FOR, WATCH_START
from memsvc.server.validate.filters import check_filter
from memsvc.server.validate.scopes import check_request_id, check_scope
from memsvc.server.validate.values import check_enum, check_integer, check_revision, check_uuid
from memsvc.server.validate.violations import Violations
from memsvc.v1 import review_pb2, watch_pb2
from memsvc.v1 import types_pb2 as types

_NANOS = 1_000_000_000


def check_watch(request: watch_pb2.WatchMemoriesRequest) -> None:
    """Check a request to watch, but for its cursor."""
    found = Violations()
    check_scope(found, request.scope)
    if request.HasField("filter"):
        check_filter(found, request.filter)
        _check_timeless(found, request.filter)
    check_enum(found, "start", request.start, WATCH_START.from_proto)
    if request.HasField("heartbeat_interval"):
        interval = request.heartbeat_interval
        nanos = interval.seconds * _NANOS + interval.nanos
        least, most = limits.HEARTBEAT_MIN_SECONDS, limits.HEARTBEAT_MAX_SECONDS
        if not (0 <= interval.nanos < _NANOS and least * _NANOS <= nanos <= most * _NANOS):
            found.add("heartbeat_interval", f"must be {least} to {most} seconds")
    found.finish()


def check_list_quarantined(request: review_pb2.ListQuarantinedRequest) -> None:
    """Check a request for what waits for a review, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    if request.HasField("filter"):
        check_filter(found, request.filter)
        if request.filter.statuses:
            found.add("filter.statuses", "must be empty: only QUARANTINED memories are listed")
        if Field.STATUS in _tested(request.filter):
            found.add("filter.where", "must not test STATUS: only QUARANTINED memories are listed")
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_review(request: review_pb2.ReviewMemoryRequest) -> None:
    """Check a decision about a quarantined memory."""
    found = Violations()
    check_scope(found, request.scope)
    check_uuid(found, "id", request.id)
    if request.verdict not in VERDICT.from_proto:
        found.add("verdict", "must be APPROVE or REJECT")
    check_revision(found, "expected_revision", request.expected_revision)
    check_request_id(found, request.request_id)
    check_enum(found, "wait_for", request.wait_for, WAIT_FOR.from_proto)
    found.finish()


def _check_timeless(found: Violations, chosen: types.Filter) -> None:
    if chosen.last_days:
        found.add("filter.last_days", "must be 0: the passing of time is no change that could be told")
    if chosen.HasField("access_time"):
        found.add("filter.access_time", "must be unset: being read is no change that could be told")
    if Field.ACCESS_TIME in _tested(chosen):
        found.add("filter.where", "must not test ACCESS_TIME: being read is no change that could be told")


def _tested(chosen: types.Filter) -> frozenset[Field]:
    return frozenset(_fields(chosen)) if chosen.HasField("where") else frozenset()


def _fields(chosen: types.Filter) -> Iterator[Field]:
    # An expression that breaks a rule is refused for that; what it tests cannot be told then.
    try:
        yield from tested_fields(chosen.where)
    except KeyError:
        return
