"""Requests that are right, and the parts that wrong ones are made of."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

ID = "0190163d-8694-739b-aea5-966c26f8ad91"

NAN, INFINITY = float("nan"), float("inf")

LATE = Timestamp(seconds=253_402_300_800)

Memory, Filter, Scope = types_pb.Memory, filters_pb.Filter, types_pb.Scope


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request with something wrong.

    Attributes:
        fields: What is wrong, over a request that is right.
        paths: The violations that must be named.
    """

    method: str
    fields: dict[str, Any]
    paths: tuple[str, ...]


def right(method: str, scope: types_pb.Scope) -> dict[str, Any]:
    """Return the fields of a request that is right."""
    return requests(scope)[method]


def requests(scope: types_pb.Scope) -> dict[str, dict[str, Any]]:
    """Return the fields of right requests, by method."""
    return {**_writing(scope), **_history(scope), **_talking(scope), **_finding(scope)}


def _writing(scope: types_pb.Scope) -> dict[str, dict[str, Any]]:
    """About memories as they are."""
    memory = {"scope": scope, "memory": Memory(content="x")}
    one = {"scope": scope, "id": ID}
    return {
        "CreateMemory": memory,
        "BatchCreateMemories": {"scope": scope, "memories": [memory_pb.BatchMemory(memory=Memory(content="x"))]},
        "GetMemory": one,
        "BatchGetMemories": {"scope": scope, "ids": [ID]},
        "ListMemories": {"scope": scope},
        "UpdateMemory": {"scope": scope, "memory": Memory(id=ID, title="x")},
        "DeleteMemory": one,
        "RestoreMemory": one,
        "DeleteMemories": {"scope": scope, "dry_run": True},
        "UpdateMemories": {"scope": scope, "dry_run": True, "add_tags": ["x"]},
        "SupersedeMemory": one | memory,
        "ListConflicts": {"scope": scope},
        "ResolveConflict": {"scope": scope, "id": ID, "resolution": 1},
        "CaptureMemory": {"scope": scope, "message": types_pb.ChatMessage(content="x"), "dry_run": True},
        "FlushMessages": {"scope": scope, "messages": [types_pb.ChatMessage(content="x")]},
        "AppendMemory": {"scope": scope, "key": "a key", "content": "x"},
        "WatchMemories": {"scope": scope},
    }


def _history(scope: types_pb.Scope) -> dict[str, dict[str, Any]]:
    """About what becomes of memories."""
    one = {"scope": scope, "id": ID}
    return {
        "ListQuarantined": {"scope": scope},
        "ReviewMemory": one | {"verdict": memory_pb.REVIEW_VERDICT_APPROVE},
        "ListRevisions": one,
        "RollbackMemory": one | {"revision": 1},
        "CreateCheckpoint": {"scope": scope, "name": str(uuid.uuid4())},
        "ListCheckpoints": {"scope": scope},
        "DiffCheckpoint": {"scope": scope, "checkpoint": "x"},
        "DeleteCheckpoint": {"scope": scope, "checkpoint": "x"},
        "RollbackToCheckpoint": {"scope": scope, "checkpoint": "x"},
        "PromoteMemory": one,
        "ListDueReminders": {"scope": scope},
        "AcknowledgeReminder": {"scope": scope, "id": ID, "date": {"year": 2026, "month": 3, "day": 5}},
    }


def _talking(scope: types_pb.Scope) -> dict[str, dict[str, Any]]:
    """About sessions."""
    session = {"scope": Scope(user_id=scope.user_id, session_id="s")}
    return {
        "CreateSession": {"scope": scope},
        "AppendMessages": session | {"messages": [types_pb.ChatMessage(role=2, content="x")]},
        "GetSession": session,
        "ListSessions": {"scope": scope},
        "ListMessages": session,
        "PopMessages": session,
        "ClearMessages": session,
        "TrimSession": session,
        "CloseSession": session,
        "ReopenSession": session,
    }


def _finding(scope: types_pb.Scope) -> dict[str, dict[str, Any]]:
    """About searches, contexts, files and the service."""
    one = {"scope": scope, "id": ID}
    return {
        "Search": {"scope": scope, "query": "x"},
        "SearchAll": {"scope": scope, "query": "x"},
        "ResolveFileRefs": {"scope": scope, "refs": [types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id="x")]},
        "BatchSearch": {"searches": [search_pb.SearchRequest(scope=scope, query="x")]},
        "StreamSearch": {"search": search_pb.SearchRequest(scope=scope, query="x")},
        "BuildContext": {"scope": scope, "query": "x"},
        "RenderContext": {"scope": scope, "query": "x"},
        "LoadCore": {"scope": scope},
        "ReportUse": {"scope": scope, "query": "x", "reports": [search_pb.UseReport(memory_id=ID, outcome=1)]},  # type: ignore[arg-type]
        "ListUseReports": {"scope": scope},
        "GetUseFeedback": {"scope": scope},
        "GetStats": {"scope": scope},
        "GetFile": one,
        "DownloadFile": one,
        "DeleteFile": one,
        "ListFiles": {"scope": scope},
        "Reindex": {"mode": admin_pb.REINDEX_MODE_REPAIR},
        "CheckIntegrity": {"scope": scope},
        "GetPerformance": {},
    }


SCOPES = {
    "scope.user_id": [Scope(), Scope(user_id="x" * 129), Scope(user_id="a\x00b"), Scope(user_id="a\n")],
    "scope.project_id": [Scope(user_id="u", project_id="x" * 129), Scope(user_id="u", project_id="\x7f")],
    "scope.agent_id": [Scope(user_id="u", agent_id="x" * 129), Scope(user_id="u", agent_id="\x00")],
    "scope.session_id": [Scope(user_id="u", session_id="x" * 129), Scope(user_id="u", session_id="\t")],
}

SCOPED = (
    "CreateMemory", "BatchCreateMemories", "GetMemory", "BatchGetMemories", "ListMemories", "UpdateMemory",
    "SupersedeMemory", "ListConflicts", "ResolveConflict",
    "CaptureMemory", "FlushMessages", "AppendMemory", "CreateSession", "ListSessions",
    "DeleteMemory", "RestoreMemory", "DeleteMemories", "UpdateMemories", "Search", "GetStats", "WatchMemories", "ListQuarantined", "ReviewMemory",
    "ListRevisions", "RollbackMemory", "CreateCheckpoint",
    "ListCheckpoints", "DiffCheckpoint", "DeleteCheckpoint", "RollbackToCheckpoint", "PromoteMemory",
    "ListDueReminders", "AcknowledgeReminder",
    "BuildContext", "RenderContext", "LoadCore", "CheckIntegrity", "ReportUse", "ListUseReports", "GetUseFeedback",
    "SearchAll", "ResolveFileRefs",
    "GetFile", "DownloadFile", "DeleteFile", "ListFiles",
)  # fmt: skip


def deep(levels: int) -> Struct:
    """Return metadata nested so deep."""
    struct = Struct()
    struct.update({"a": 1})
    for _ in range(levels - 1):
        struct = Struct(fields={"a": Value(struct_value=struct)})
    return struct


def numbers(*values: float) -> Struct:
    """Return metadata of these numbers."""
    return Struct(fields={"a": Value(list_value=ListValue(values=[Value(number_value=one) for one in values]))})


def condition(field: int = 3, operator: int = 1, *values: Value, path: str = "") -> filters_pb.FilterExpression:
    """Return the test of one field."""
    return filters_pb.FilterExpression(
        condition=filters_pb.FilterCondition(field=field, operator=operator, metadata_path=path, values=values)  # type: ignore[arg-type]
    )


def text(value: str) -> Value:
    """Return a JSON string."""
    return Value(string_value=value)


def nested(levels: int) -> filters_pb.FilterExpression:
    """Return an expression so deep."""
    expression = condition(3, 1, text("x"))
    for level in range(levels - 1):
        if level % 2:
            expression = filters_pb.FilterExpression(negated=expression)
        else:
            expression = filters_pb.FilterExpression(all_of=filters_pb.FilterGroup(expressions=[expression]))
    return expression


def span(start: int, end: int) -> types_pb.TimeRange:
    """Return a span of seconds."""
    return types_pb.TimeRange(start=Timestamp(seconds=start), end=Timestamp(seconds=end))


def where(expression: filters_pb.FilterExpression) -> filters_pb.Filter:
    """Return a filter with an expression."""
    return Filter(where=expression)


EQUALS, IN, LESS = filters_pb.FILTER_OPERATOR_EQUALS, filters_pb.FILTER_OPERATOR_IN, filters_pb.FILTER_OPERATOR_LESS

BETWEEN, STARTS_WITH = filters_pb.FILTER_OPERATOR_BETWEEN, filters_pb.FILTER_OPERATOR_STARTS_WITH
