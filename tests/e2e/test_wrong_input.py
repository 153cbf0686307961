"""Wrong input over the wire: refused with the path of everything that is wrong, and nothing is changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import capture_pb2 as capture_pb
from memsvc.v1 import context_pb2 as context_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import review_pb2 as review_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types
from tests.e2e.calls import TIMEOUT, Refusal, create, list_all, refused
from tests.e2e.methods import METHODS
from tests.e2e.running import ServerProcess, Stubs

ID = "0190163d-8694-739b-aea5-966c26f8ad91"
NAN, INFINITY = float("nan"), float("inf")
LATE = Timestamp(seconds=253_402_300_800)
Memory, Filter, Scope = types.Memory, types.Filter, types.Scope


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


def right(method: str, scope: types.Scope) -> dict[str, Any]:
    """Return the fields of a request that is right."""
    memory = {"scope": scope, "memory": Memory(content="x")}
    one = {"scope": scope, "id": ID}
    session = {"scope": Scope(user_id=scope.user_id, session_id="s")}
    return {
        "CreateMemory": memory,
        "BatchCreateMemories": {"scope": scope, "memories": [pb.BatchMemory(memory=Memory(content="x"))]},
        "GetMemory": one,
        "BatchGetMemories": {"scope": scope, "ids": [ID]},
        "ListMemories": {"scope": scope},
        "UpdateMemory": {"scope": scope, "memory": Memory(id=ID, title="x")},
        "DeleteMemory": one,
        "RestoreMemory": one,
        "SupersedeMemory": one | memory,
        "ListConflicts": {"scope": scope},
        "ResolveConflict": {"scope": scope, "conflict_id": ID, "resolution": 1},
        "CaptureMemory": {"scope": scope, "text": "x", "dry_run": True},
        "FlushMessages": {"scope": scope, "messages": [capture_pb.ChatMessage(content="x")]},
        "AppendMemory": {"scope": scope, "key": "a key", "content": "x"},
        "WatchMemories": {"scope": scope},
        "ListQuarantined": {"scope": scope},
        "ReviewMemory": one | {"verdict": review_pb.REVIEW_VERDICT_APPROVE},
        "ListRevisions": one,
        "RollbackMemory": one | {"revision": 1},
        "CreateCheckpoint": {"scope": scope, "name": str(uuid.uuid4())},
        "ListCheckpoints": {"scope": scope},
        "DiffCheckpoint": {"scope": scope, "checkpoint": "x"},
        "RollbackToCheckpoint": {"scope": scope, "checkpoint": "x"},
        "PromoteMemory": one,
        "ListDueReminders": {"scope": scope},
        "AcknowledgeReminder": {"scope": scope, "memory_id": ID, "date": {"year": 2026, "month": 3, "day": 5}},
        "Search": {"scope": scope, "query": "x"},
        "BatchSearch": {"searches": [search_pb.SearchRequest(scope=scope, query="x")]},
        "CreateSession": {"scope": scope},
        "AppendMessages": session | {"messages": [session_pb.NewMessage(role=2, content="x")]},
        "GetSession": session,
        "ListSessions": {"scope": scope},
        "ListMessages": session,
        "TrimSession": session,
        "CloseSession": session,
        "ReopenSession": session,
        "StreamSearch": {"search": search_pb.SearchRequest(scope=scope, query="x")},
        "BuildContext": {"scope": scope, "query": "x"},
        "RenderContext": {"scope": scope, "query": "x"},
        "LoadCore": {"scope": scope},
        "GetStats": {"scope": scope},
        "Reindex": {"mode": lifecycle_pb.REINDEX_MODE_REPAIR},
        "CheckIntegrity": {"scope": scope},
        "GetPerformance": {},
    }[method]


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
    "DeleteMemory", "RestoreMemory", "Search", "GetStats", "WatchMemories", "ListQuarantined", "ReviewMemory",
    "ListRevisions", "RollbackMemory", "CreateCheckpoint",
    "ListCheckpoints", "DiffCheckpoint", "RollbackToCheckpoint", "PromoteMemory",
    "ListDueReminders", "AcknowledgeReminder",
    "BuildContext", "RenderContext", "LoadCore", "CheckIntegrity",
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


MEMORIES: list[tuple[types.Memory, tuple[str, ...]]] = [
    (Memory(key="x" * 257), ("memory.key",)),
    (Memory(key="a\x01"), ("memory.key",)),
    (Memory(key="daily/x"), ("memory.key",)),
    (Memory(key="daily/2026-13-01"), ("memory.key",)),
    (Memory(key="context/"), ("memory.key",)),
    (Memory(key="knowledge/foo/x"), ("memory.key",)),
    (Memory(layer=5), ("memory.layer",)),  # type: ignore[arg-type] # no value of the enum
    (Memory(kind=-1), ("memory.kind",)),  # type: ignore[arg-type] # as above
    (Memory(tier=99), ("memory.tier",)),  # type: ignore[arg-type] # as above
    (Memory(category="x" * 65), ("memory.category",)),
    (Memory(category="\x00"), ("memory.category",)),
    (Memory(speaker="x" * 129), ("memory.speaker",)),
    (Memory(title="x" * 513), ("memory.title",)),
    (Memory(title="\x00"), ("memory.title",)),
    (Memory(summary="x" * 16_385), ("memory.summary",)),
    (Memory(source="x" * 257), ("memory.source",)),
    (Memory(tags=["a"] * 33), ("memory.tags",)),
    (Memory(tags=["a", "", "x" * 65, "\x00"]), ("memory.tags[1]", "memory.tags[2]", "memory.tags[3]")),
    (Memory(keywords=[types.Keyword(term="a")] * 33), ("memory.keywords",)),
    (Memory(keywords=[types.Keyword(term="")]), ("memory.keywords[0].term",)),
    (Memory(keywords=[types.Keyword(term="x" * 65)]), ("memory.keywords[0].term",)),
    (Memory(keywords=[types.Keyword(term="a", weight=1.1)]), ("memory.keywords[0].weight",)),
    (Memory(keywords=[types.Keyword(term="a", weight=NAN)]), ("memory.keywords[0].weight",)),
    (Memory(keywords=[types.Keyword(term="a", weight=-0.1)]), ("memory.keywords[0].weight",)),
    (Memory(related_ids=[ID] * 65), ("memory.related_ids",)),
    (Memory(related_ids=[ID, "x"]), ("memory.related_ids[1]",)),
    (Memory(file_refs=[types.FileRef(category="temp", id="a")] * 65), ("memory.file_refs",)),
    (Memory(file_refs=[types.FileRef()]), ("memory.file_refs[0].category", "memory.file_refs[0].id")),
    (Memory(file_refs=[types.FileRef(category="Temp", id="\n")]), (
        "memory.file_refs[0].category", "memory.file_refs[0].id",
    )),
    (Memory(importance=6), ("memory.importance",)),
    (Memory(importance=-1), ("memory.importance",)),
    (Memory(confidence=1.01), ("memory.confidence",)),
    (Memory(confidence=NAN), ("memory.confidence",)),
    (Memory(confidence=-INFINITY), ("memory.confidence",)),
    (Memory(origin=6), ("memory.origin",)),  # type: ignore[arg-type] # no value of the enum
    (Memory(trust=1.01), ("memory.trust",)),
    (Memory(trust=-0.01), ("memory.trust",)),
    (Memory(trust=NAN), ("memory.trust",)),
    (Memory(derived_from=["x"]), ("memory.derived_from[0]",)),
    (Memory(derived_from=[ID] * 65), ("memory.derived_from",)),
    (Memory(event_time=LATE), ("memory.event_time",)),
    (Memory(event_time=Timestamp(seconds=-62_135_596_801)), ("memory.event_time",)),
    (Memory(event_time=Timestamp(nanos=-1)), ("memory.event_time",)),
    (Memory(event_time=Timestamp(nanos=1_000_000_000)), ("memory.event_time",)),
    (Memory(expire_time=LATE), ("memory.expire_time",)),
    (Memory(valid_from=LATE), ("memory.valid_from",)),
    (Memory(valid_to=LATE), ("memory.valid_to",)),
    (Memory(valid_from=Timestamp(seconds=5), valid_to=Timestamp(seconds=5)), ("memory.valid_to",)),
    (Memory(ttl=Duration()), ("memory.ttl",)),
    (Memory(ttl=Duration(seconds=-1)), ("memory.ttl",)),
    (Memory(ttl=Duration(seconds=36_501 * 86_400)), ("memory.ttl",)),
    (Memory(ttl=Duration(seconds=1, nanos=-1)), ("memory.ttl",)),
    (Memory(ttl=Duration(seconds=1), expire_time=Timestamp(seconds=1)), ("memory.ttl",)),
    (Memory(metadata=deep(9)), ("memory.metadata",)),
    (Memory(metadata=numbers(NAN)), ("memory.metadata",)),
    (Memory(metadata=numbers(INFINITY)), ("memory.metadata",)),
    (Memory(metadata=Struct(fields={"a\x00": Value(string_value="x")})), ("memory.metadata",)),
    (Memory(metadata=Struct(fields={"a": Value(string_value="\x00")})), ("memory.metadata",)),
    (Memory(metadata=Struct(fields={"a": Value(string_value="x" * 16_384)})), ("memory.metadata",)),
]  # fmt: skip
NEW_MEMORIES: list[tuple[types.Memory, tuple[str, ...]]] = [
    (Memory(), ("memory.content",)),
    (Memory(content="x" * 1_000_001), ("memory.content",)),
    (Memory(content="a\x00b"), ("memory.content",)),
    (Memory(content="x", layer=types.MEMORY_LAYER_SESSION), ("memory.layer",)),
    (Memory(content="x", derived_from=[ID, ID.replace("9", "8")]), ("memory.derived_from[0]", "memory.derived_from[1]")),
    (Memory(content="x", scope=Scope(user_id="another")), ("memory.scope.user_id",)),
    (Memory(content="x", scope=Scope(project_id="x" * 129, session_id="\x00")), (
        "memory.scope.project_id", "memory.scope.session_id",
    )),
    (Memory(importance=9, tags=[""], key="\x00"), ("memory.content", "memory.importance", "memory.key", "memory.tags[0]")),
]  # fmt: skip


def condition(field: int = 3, operator: int = 1, *values: Value, path: str = "") -> types.FilterExpression:
    """Return the test of one field."""
    return types.FilterExpression(
        condition=types.FilterCondition(field=field, operator=operator, metadata_path=path, values=values)  # type: ignore[arg-type]
    )


def text(value: str) -> Value:
    """Return a JSON string."""
    return Value(string_value=value)


def nested(levels: int) -> types.FilterExpression:
    """Return an expression so deep."""
    expression = condition(3, 1, text("x"))
    for level in range(levels - 1):
        if level % 2:
            expression = types.FilterExpression(negated=expression)
        else:
            expression = types.FilterExpression(all_of=types.FilterGroup(expressions=[expression]))
    return expression


def span(start: int, end: int) -> types.TimeRange:
    """Return a span of seconds."""
    return types.TimeRange(start=Timestamp(seconds=start), end=Timestamp(seconds=end))


def where(expression: types.FilterExpression) -> types.Filter:
    """Return a filter with an expression."""
    return Filter(where=expression)


EQUALS, IN, LESS = types.FILTER_OPERATOR_EQUALS, types.FILTER_OPERATOR_IN, types.FILTER_OPERATOR_LESS
FILTERS: list[tuple[types.Filter, tuple[str, ...]]] = [
    (Filter(layers=[0]), ("filter.layers[0]",)),  # type: ignore[list-item] # UNSPECIFIED
    (Filter(layers=[1, 77]), ("filter.layers[1]",)),  # type: ignore[list-item] # no value of the enum
    (Filter(kinds=[-5]), ("filter.kinds[0]",)),  # type: ignore[list-item] # as above
    (Filter(tiers=[5]), ("filter.tiers[0]",)),  # type: ignore[list-item] # as above
    (Filter(origins=[0, 9]), ("filter.origins[0]", "filter.origins[1]")),  # type: ignore[list-item] # as above
    (Filter(min_trust=1.5), ("filter.min_trust",)),
    (Filter(min_trust=NAN), ("filter.min_trust",)),
    (Filter(statuses=[0, 8]), ("filter.statuses[0]", "filter.statuses[1]")),  # type: ignore[list-item] # as above
    (Filter(categories=["x"] * 257), ("filter.categories",)),
    (Filter(tags_any=["a\x00"]), ("filter.tags_any[0]",)),
    (Filter(ids=["1"]), ("filter.ids[0]",)),
    (Filter(ids=[ID] * 257), ("filter.ids",)),
    (Filter(last_days=-1), ("filter.last_days",)),
    (Filter(last_days=36_501), ("filter.last_days",)),
    (Filter(last_days_field=9), ("filter.last_days_field",)),  # type: ignore[arg-type] # no value of the enum
    (Filter(min_importance=6), ("filter.min_importance",)),
    (Filter(min_importance=4, max_importance=3), ("filter.max_importance",)),
    (Filter(min_confidence=NAN), ("filter.min_confidence",)),
    (Filter(min_confidence=0.5, max_confidence=0.4), ("filter.max_confidence",)),
    (Filter(sessions=3), ("filter.sessions",)),
    (Filter(visibility=4), ("filter.visibility",)),  # type: ignore[arg-type] # no value of the enum
    (Filter(create_time=span(2, 2)), ("filter.create_time.end",)),
    (Filter(event_time=span(3, 2)), ("filter.event_time.end",)),
    (Filter(valid_from=span(3, 2), valid_to=span(1, 1)), ("filter.valid_from.end", "filter.valid_to.end")),
    (Filter(access_time=types.TimeRange(start=LATE)), ("filter.access_time.start",)),
    (Filter(metadata=[types.MetadataEquals()]), ("filter.metadata[0].path", "filter.metadata[0].value")),
    (Filter(metadata=[types.MetadataEquals(path="a", value=Value(list_value=ListValue()))]), (
        "filter.metadata[0].value",
    )),
    (Filter(metadata=[types.MetadataEquals(path="a", value=Value(number_value=NAN))]), ("filter.metadata[0].value",)),
    (where(types.FilterExpression()), ("filter.where",)),
    (where(types.FilterExpression(all_of=types.FilterGroup())), ("filter.where.all_of.expressions",)),
    (where(condition(0, 0)), ("filter.where.condition.field", "filter.where.condition.operator")),
    (where(condition(99, 99)), ("filter.where.condition.field", "filter.where.condition.operator")),
    (where(condition(3, EQUALS)), ("filter.where.condition.values",)),
    (where(condition(3, IN)), ("filter.where.condition.values",)),
    (where(condition(3, EQUALS, text("a"), text("b"))), ("filter.where.condition.values",)),
    (where(condition(3, LESS, text("a"))), ("filter.where.condition.operator",)),
    (where(condition(1, EQUALS, text("LONGTERM"))), ("filter.where.condition.values[0]",)),
    (where(condition(3, EQUALS, Value(number_value=1))), ("filter.where.condition.values[0]",)),
    (where(condition(10, EQUALS, text("1"))), ("filter.where.condition.values[0]",)),
    (where(condition(11, LESS, Value(number_value=INFINITY))), ("filter.where.condition.values[0]",)),
    (where(condition(40, EQUALS, text("ROBOT"))), ("filter.where.condition.values[0]",)),
    (where(condition(41, LESS, text("0.5"))), ("filter.where.condition.values[0]",)),
    (where(condition(12, LESS, text("yesterday"))), ("filter.where.condition.values[0]",)),
    (where(condition(15, LESS, text("2026-02-30T00:00:00Z"))), ("filter.where.condition.values[0]",)),
    (where(condition(16, EQUALS, text("x"))), ("filter.where.condition.metadata_path",)),
    (where(condition(3, EQUALS, text("x"), path="a")), ("filter.where.condition.metadata_path",)),
    (where(condition(3, IN, *([text("x")] * 257))), ("filter.where.condition.values",)),
    (where(nested(9)), ("filter.where" + ".negated.all_of.expressions[0]" * 4,)),
]  # fmt: skip
OPTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"request_id": "x" * 129}, ("request_id",)),
    ({"wait_for": 3}, ("wait_for",)),
]
SEARCHES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"query": ""}, ("query",)),
    ({"query": " \n　"}, ("query",)),
    ({"query": "x" * 8_193}, ("query",)),
    ({"query": "a\x00"}, ("query",)),
    ({"query": "", "keywords": ["a"], "mode": search_pb.SEARCH_MODE_SEMANTIC}, ("query",)),
    ({"query": "", "vector": [1.0] * 256, "mode": search_pb.SEARCH_MODE_KEYWORD}, ("query",)),
    ({"vector": [1.0] * 255}, ("vector",)),
    ({"vector": [NAN] * 256}, ("vector",)),
    ({"vector": [0.0] * 256}, ("vector",)),
    ({"vector": [INFINITY, *[1.0] * 255]}, ("vector",)),
    ({"keywords": ["a"] * 33}, ("keywords",)),
    ({"keywords": ["", "x" * 65]}, ("keywords[0]", "keywords[1]")),
    ({"mode": 4}, ("mode",)),
    ({"min_score": 1.1}, ("min_score",)),
    ({"min_score": -0.1}, ("min_score",)),
    ({"min_score": NAN}, ("min_score",)),
    ({"limit": 101}, ("limit",)),
    ({"limit": -1}, ("limit",)),
    ({"snippet_chars": 39}, ("snippet_chars",)),
    ({"snippet_chars": 2_001}, ("snippet_chars",)),
    ({"page_token": "x"}, ("page_token",)),
    ({"page_token": "é" * 9_000}, ("page_token",)),
    ({"consistency_token": "x"}, ("consistency_token",)),
    ({"time_range": span(5, 4)}, ("time_range.end",)),
    ({"fusion": search_pb.Fusion(method=9)}, ("fusion.method",)),  # type: ignore[arg-type] # no value of the enum
    ({"fusion": search_pb.Fusion(preset=9)}, ("fusion.preset",)),  # type: ignore[arg-type] # as above
    ({"fusion": search_pb.Fusion(method=2, normalization=9)}, ("fusion.normalization",)),  # type: ignore[arg-type]
    ({"fusion": search_pb.Fusion(method=2, rank_constant=10_001)}, ("fusion.rank_constant",)),
    ({"fusion": search_pb.Fusion(method=3, single_retriever_factor=1.5)}, ("fusion.single_retriever_factor",)),
    ({"fusion": search_pb.Fusion(method=1, rank_constant=5)}, ("fusion.rank_constant",)),
    ({"fusion": search_pb.Fusion(method=2, preset=1)}, ("fusion.preset",)),
    ({"fusion": search_pb.Fusion(preset=1, weights=search_pb.FusionWeights(dense=1))}, ("fusion.weights",)),
    ({"fusion": search_pb.Fusion(weights=search_pb.FusionWeights(dense=0, bm25=0))}, ("fusion.weights",)),
    ({"fusion": search_pb.Fusion(weights=search_pb.FusionWeights(dense=-1, bm25=NAN))}, (
        "fusion.weights.bm25", "fusion.weights.dense",
    )),
    ({"diversity": search_pb.Diversity(enabled=True, mmr_lambda=1.1)}, ("diversity.mmr_lambda",)),
    ({"collapsing": search_pb.Collapsing(enabled=True, threshold=NAN)}, ("collapsing.threshold",)),
    ({"reranking": search_pb.Reranking(enabled=True, depth=51)}, ("reranking.depth",)),
    ({"query": "", "vector": [1.0] * 256, "reranking": search_pb.Reranking(enabled=True)}, ("reranking",)),
    ({"weighting": search_pb.Weighting(enabled=True, decay_factor=1.5)}, ("weighting.decay_factor",)),
    ({"weighting": search_pb.Weighting(enabled=True, core_boost=2.1, long_term_boost=NAN)}, (
        "weighting.core_boost", "weighting.long_term_boost",
    )),
]  # fmt: skip
PROMOTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"id": "1"}, ("id",)),
    ({"content": " \n", "title": "x" * 513}, ("content", "title")),
    ({"content": "a\x00", "expected_revision": -1}, ("content", "expected_revision")),
    ({"request_id": "x" * 129, "wait_for": 9}, ("request_id", "wait_for")),
]
Said = session_pb.NewMessage
Call = session_pb.ToolCall
MESSAGES: list[tuple[session_pb.NewMessage, tuple[str, ...]]] = [
    (Said(content="x"), ("messages[0].role",)),
    (Said(role=5, content="x"), ("messages[0].role",)),
    (Said(role=-1, content="x"), ("messages[0].role",)),
    (Said(role=2), ("messages[0].content",)),
    (Said(role=2, content="x" * 100_001), ("messages[0].content",)),
    (Said(role=2, content="a\x00b"), ("messages[0].content",)),
    (Said(role=2, content="x", name="x" * 129), ("messages[0].name",)),
    (Said(role=2, content="x", name="\n"), ("messages[0].name",)),
    (Said(role=2, content="x", token_count=-1), ("messages[0].token_count",)),
    (Said(role=2, content="x", token_count=10_000_001), ("messages[0].token_count",)),
    (Said(role=2, content="x", time=LATE), ("messages[0].time",)),
    (Said(role=2, content="x", metadata=deep(9)), ("messages[0].metadata",)),
    (Said(role=2, content="x", tool_calls=[Call(name="f")]), ("messages[0].tool_calls",)),
    (Said(role=3, tool_calls=[Call(name="f")] * 65), ("messages[0].tool_calls",)),
    (Said(role=3, tool_calls=[Call(), Call(name="f", id="\x00")]), (
        "messages[0].tool_calls[0].name", "messages[0].tool_calls[1].id",
    )),
    (Said(role=3, tool_calls=[Call(name="f", arguments=numbers(NAN))]), ("messages[0].tool_calls[0].arguments",)),
    (Said(role=2, content="x", tool_call_id="c"), ("messages[0].tool_call_id",)),
    (Said(role=4, content="x", tool_call_id="c" * 129), ("messages[0].tool_call_id",)),
]  # fmt: skip
SESSIONS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("CreateSession", {"title": "x" * 513}, ("title",)),
    ("CreateSession", {"token_limit": 99}, ("token_limit",)),
    ("CreateSession", {"token_limit": -1}, ("token_limit",)),
    ("CreateSession", {"token_limit": 10_000_001}, ("token_limit",)),
    ("CreateSession", {"auto_trim": 3, "on_open": -1}, ("auto_trim", "on_open")),
    ("CreateSession", {"metadata": deep(9), "request_id": "x" * 129}, ("metadata", "request_id")),
    ("AppendMessages", {"messages": []}, ("messages",)),
    ("AppendMessages", {"messages": [Said(role=2, content="x")] * 101}, ("messages",)),
    ("AppendMessages", {"wait_for": 3, "request_id": "x" * 129}, ("request_id", "wait_for")),
    ("ListSessions", {"states": [0, 9]}, ("states[0]", "states[1]")),
    ("ListSessions", {"page_size": 1_001}, ("page_size",)),
    ("ListSessions", {"page_token": "x"}, ("page_token",)),
    ("ListMessages", {"page_size": -1}, ("page_size",)),
    ("ListMessages", {"page_token": "AQAAAAAAAAAE"}, ("page_token",)),
    ("TrimSession", {"target_tokens": -1, "keep_rounds": 101}, ("keep_rounds", "target_tokens")),
    ("TrimSession", {"wait_for": 3, "request_id": "x" * 129}, ("request_id", "wait_for")),
    ("CloseSession", {"request_id": "x" * 129}, ("request_id",)),
    ("ReopenSession", {"on_open": 3}, ("on_open",)),
]
NAMED_SESSIONS = ("AppendMessages", "GetSession", "ListMessages", "TrimSession", "CloseSession", "ReopenSession")
Options, Shares = context_pb.ContextOptions, context_pb.ContextShares
CONTEXTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"query": "x" * 8_193}, ("query",)),
    ({"query": "a\x00"}, ("query",)),
    ({"vector": [1.0] * 255}, ("vector",)),
    ({"consistency_token": "x"}, ("consistency_token",)),
    ({"earlier_cursor": "x"}, ("earlier_cursor",)),
    ({"earlier_cursor": "BgAAAAAAAAAAAAAAAAAAAAA"}, ("earlier_cursor",)),
    ({"options": Options(total_tokens=0)}, ("options.total_tokens",)),
    ({"options": Options(total_tokens=-1)}, ("options.total_tokens",)),
    ({"options": Options(total_tokens=10_000_001)}, ("options.total_tokens",)),
    ({"options": Options(shares=Shares())}, ("options.shares",)),
    ({"options": Options(shares=Shares(core=0.5, session=0.6))}, ("options.shares",)),
    ({"options": Options(shares=Shares(core=0.1, session=0.5, short_term=0.2, long_term=0.1))}, ("options.shares",)),
    ({"options": Options(shares=Shares(core=NAN, session=-1, short_term=2, long_term=INFINITY))}, (
        "options.shares.core", "options.shares.long_term", "options.shares.session", "options.shares.short_term",
    )),
    ({"options": Options(sections=[1, 0, 9])}, ("options.sections[1]", "options.sections[2]")),  # type: ignore[list-item]
    ({"options": Options(sections=[1] * 65)}, ("options.sections",)),
    ({"options": Options(relevant_limit=101)}, ("options.relevant_limit",)),
    ({"options": Options(min_score=1.5)}, ("options.min_score",)),
    ({"options": Options(locale="fr")}, ("options.locale",)),
    ({"options": Options(locale="en" * 20)}, ("options.locale",)),
    ({"options": Options(time_zone="Mars/Olympus")}, ("options.time_zone",)),
    ({"options": Options(time_zone="../../etc/passwd")}, ("options.time_zone",)),
    ({"options": Options(time_zone="x\x00")}, ("options.time_zone",)),
]  # fmt: skip
UPDATES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"memory": Memory(title="x")}, ("memory.id",)),
    ({"memory": Memory(id="1", title="x")}, ("memory.id",)),
    ({"memory": Memory(key="\x00", title="x")}, ("memory.key",)),
    ({"memory": Memory(id=ID, key="daily/x")}, ("memory.key",)),
    ({"memory": Memory(id=ID, key="knowledge/x"), "update_mask": FieldMask(paths=["key"])}, ("memory.key",)),
    ({"memory": Memory(id=ID), "update_mask": FieldMask(paths=["content"])}, ("memory.content",)),
    ({"update_mask": FieldMask(paths=["title", "nothing"])}, ("update_mask.paths[1]",)),
    ({"update_mask": FieldMask(paths=["metadata.a", "scope", "revision"])}, (
        "update_mask.paths[0]", "update_mask.paths[1]", "update_mask.paths[2]",
    )),
    ({"memory": Memory(id=ID, status=types.MEMORY_STATUS_DELETED)}, ("memory.status",)),
    ({"expected_revision": -1}, ("expected_revision",)),
    ({"vector": [1.0]}, ("vector",)),
]  # fmt: skip


def message(**fields: Any) -> dict[str, Any]:
    """Return a conversation of one message."""
    return {"messages": [capture_pb.ChatMessage(**fields)]}


def call(**fields: Any) -> dict[str, Any]:
    """Return a conversation of one call of a tool."""
    return message(tool_calls=[capture_pb.ChatToolCall(**fields)])


CAPTURES: dict[str, list[tuple[dict[str, Any], tuple[str, ...]]]] = {
    "CaptureMemory": [
        ({"text": ""}, ("text",)),
        ({"text": "x" * 100_001}, ("text",)),
        ({"text": "a\x00"}, ("text",)),
        ({"role": 5}, ("role",)),
    ],
    "FlushMessages": [
        ({"messages": []}, ("messages",)),
        ({"messages": [capture_pb.ChatMessage(content="x")] * 1_001}, ("messages",)),
        ({"messages": [capture_pb.ChatMessage(content="x" * 100_000)] * 11}, ("messages",)),
        (message(content="x" * 100_001), ("messages[0].content",)),
        (message(content="\x00", role=9, speaker="x" * 129), (
            "messages[0].content", "messages[0].role", "messages[0].speaker",
        )),
        (message(event_time=LATE), ("messages[0].event_time",)),
        (message(tool_calls=[capture_pb.ChatToolCall()] * 65), ("messages[0].tool_calls",)),
        (call(response_format="file_ref"), ("messages[0].tool_calls[0].category", "messages[0].tool_calls[0].file_id")),
        (call(response_format="file_ref", file_id="a", category="http"), ("messages[0].tool_calls[0].category",)),
        (call(id="x" * 257, name="x" * 257, response_format="x" * 65), (
            "messages[0].tool_calls[0].id", "messages[0].tool_calls[0].name", "messages[0].tool_calls[0].response_format",
        )),
        (call(arguments=deep(9)), ("messages[0].tool_calls[0].arguments",)),
        ({"artifact_ids": ["a"] * 65}, ("artifact_ids",)),
        ({"artifact_ids": ["a", "", "\n"]}, ("artifact_ids[1]", "artifact_ids[2]")),
    ],
    "AppendMemory": [
        ({"key": ""}, ("key",)),
        ({"key": "x" * 257}, ("key",)),
        ({"key": "a\n"}, ("key",)),
        ({"key": "daily/2026-02-30"}, ("key",)),
        ({"key": "daily/today"}, ("key",)),
        ({"key": "context/"}, ("key",)),
        ({"key": "knowledge/rumours/x"}, ("key",)),
        ({"content": ""}, ("content",)),
        ({"content": "x" * 1_000_001}, ("content",)),
        ({"content": "a\x00", "separator": "\x00"}, ("content", "separator")),
        ({"separator": "x" * 257}, ("separator",)),
        ({"key": "k", "content": "x" * 999_999}, ("content",)),
    ],
}  # fmt: skip


def table() -> Iterator[Wrong]:
    """Return every wrong request."""
    for method in SCOPED:
        for path, scopes in SCOPES.items():
            for scope in scopes:
                yield Wrong(method, {"scope": scope}, (path,))
    for memory, paths in (*MEMORIES, *NEW_MEMORIES):
        new = Memory(content="x") if (memory, paths) in MEMORIES else Memory()
        new.MergeFrom(memory)
        yield Wrong("CreateMemory", {"memory": new}, paths)
        # Whether its sources are there matters only once the memory to be superseded is.
        if "memory.derived_from[1]" not in paths:
            yield Wrong("SupersedeMemory", {"memory": new}, paths)
    for memory, paths in MEMORIES:
        changed = Memory(id=ID)
        changed.MergeFrom(memory)
        yield Wrong("UpdateMemory", {"memory": changed}, paths)
    for method in (
        "CreateMemory", "BatchCreateMemories", "UpdateMemory", "DeleteMemory", "RestoreMemory", "CaptureMemory",
        "FlushMessages", "AppendMemory", "ReviewMemory", "SupersedeMemory", "ResolveConflict",
    ):  # fmt: skip
        for fields, paths in OPTIONS:
            yield Wrong(method, fields, paths)
    for method in ("DeleteMemory", "RestoreMemory", "ReviewMemory"):
        yield Wrong(method, {"id": "x", "expected_revision": -9}, ("expected_revision", "id"))
        yield Wrong(method, {"id": ""}, ("id",))
    for chosen, paths in FILTERS:
        # What a watch does not take at all has a table of its own.
        timed = chosen.last_days or chosen.HasField("access_time")
        for method in ("ListMemories", "Search", *(() if timed else ("WatchMemories",))):
            yield Wrong(method, {"filter": chosen}, paths)
    for method, rows in (
        ("Search", SEARCHES), ("UpdateMemory", UPDATES), ("BuildContext", CONTEXTS), ("RenderContext", CONTEXTS),
    ):  # fmt: skip
        for fields, paths in rows:
            yield Wrong(method, fields, paths)
    yield from _conflicts()
    for message, paths in MESSAGES:
        yield Wrong("AppendMessages", {"messages": [message]}, paths)
    for fields, paths in PROMOTIONS:
        yield Wrong("PromoteMemory", fields, paths)
    for method, fields, paths in SESSIONS:
        yield Wrong(method, fields, paths)
    for method in NAMED_SESSIONS:
        yield Wrong(method, {"scope": Scope(user_id="u")}, ("scope.session_id",))
        yield Wrong(method, {"scope": Scope(session_id="s")}, ("scope.user_id",))
        yield Wrong(method, {"scope": Scope(user_id="u", session_id="x" * 129)}, ("scope.session_id",))
    for method, rows in CAPTURES.items():
        for fields, paths in rows:
            yield Wrong(method, fields, paths)
    yield from _watches()
    yield from _others()
    yield from _looking_back()


def _watches() -> Iterator[Wrong]:
    for chosen, path in (
        (Filter(last_days=3), "filter.last_days"),
        (Filter(access_time=span(1, 2)), "filter.access_time"),
        (where(condition(14, LESS, text("2026-02-06T08:00:00Z"))), "filter.where"),
    ):
        yield Wrong("WatchMemories", {"filter": chosen}, (path,))
    for seconds, nanos in ((0, 999_999_999), (300, 1), (-5, 0), (2**40, 0), (2, -1), (2, 2**31 - 1)):
        yield Wrong(
            "WatchMemories", {"heartbeat_interval": Duration(seconds=seconds, nanos=nanos)}, ("heartbeat_interval",)
        )
    yield Wrong("WatchMemories", {"start": 3}, ("start",))
    yield Wrong("WatchMemories", {"cursor": "x"}, ("cursor",))
    yield Wrong("ListQuarantined", {"filter": Filter(statuses=[1])}, ("filter.statuses",))
    yield Wrong("ListQuarantined", {"filter": where(condition(5, EQUALS, text("ACTIVE")))}, ("filter.where",))
    yield Wrong("ListQuarantined", {"page_size": 1_001}, ("page_size",))
    yield Wrong("ListQuarantined", {"page_token": "x"}, ("page_token",))
    yield Wrong("ReviewMemory", {"verdict": 0}, ("verdict",))
    yield Wrong("ReviewMemory", {"verdict": 9}, ("verdict",))


def _conflicts() -> Iterator[Wrong]:
    for method in ("CreateMemory", "BatchCreateMemories", "UpdateMemory", "SupersedeMemory"):
        yield Wrong(method, {"conflict_policy": 4}, ("conflict_policy",))
    yield Wrong("SupersedeMemory", {"id": "", "expected_revision": -1}, ("expected_revision", "id"))
    yield Wrong("SupersedeMemory", {"memory": None}, ("memory.content",))
    yield Wrong("SupersedeMemory", {"memory": Memory(id="x")}, ("memory.id",))
    yield Wrong("SupersedeMemory", {"memory": Memory(id=ID, content="x")}, ("memory",))
    yield Wrong("SupersedeMemory", {"memory": Memory(id=ID), "vector": [1.0]}, ("vector",))
    yield Wrong("SupersedeMemory", {"vector": [1.0]}, ("vector",))
    yield Wrong("ListConflicts", {"states": [0, 6], "memory_id": "x"}, ("memory_id", "states[0]", "states[1]"))
    yield Wrong("ListConflicts", {"states": [1] * 17}, ("states",))
    yield Wrong("ListConflicts", {"page_size": -1}, ("page_size",))
    for token in ("x", "=" * 40, "A" * 100_000, "AQAAAAAAAAAE", "\x00"):
        yield Wrong("ListConflicts", {"page_token": token}, ("page_token",))
    yield Wrong("ResolveConflict", {"conflict_id": "x", "resolution": 0}, ("conflict_id", "resolution"))
    yield Wrong("ResolveConflict", {"resolution": 4}, ("resolution",))


def _others() -> Iterator[Wrong]:
    yield Wrong("CreateMemory", {"memory": None}, ("memory.content",))
    yield Wrong("CreateMemory", {"on_duplicate": 4}, ("on_duplicate",))
    for vector in ([1.0], [0.0] * 256, [NAN] * 256):
        yield Wrong("CreateMemory", {"vector": vector}, ("vector",))
    long = Memory(content="many words " * 400)
    yield Wrong("CreateMemory", {"memory": long, "vector": [1.0] * 256}, ("vector",))
    yield Wrong("BatchCreateMemories", {"memories": []}, ("memories",))
    yield Wrong("BatchCreateMemories", {"memories": [pb.BatchMemory()] * 1_001}, ("memories",))
    yield Wrong("GetMemory", {"id": "x"}, ("id",))
    yield Wrong("GetMemory", {"id": "../" * 12}, ("id",))
    yield Wrong("GetMemory", {"id": None}, ("id",))
    yield Wrong("GetMemory", {"id": None, "key": ""}, ("key",))
    yield Wrong("GetMemory", {"id": None, "key": "x" * 257}, ("key",))
    yield Wrong("BatchGetMemories", {"ids": []}, ("ids",))
    yield Wrong("BatchGetMemories", {"ids": [ID] * 1_001}, ("ids",))
    yield Wrong("BatchGetMemories", {"ids": [ID, "", "y"]}, ("ids[1]", "ids[2]"))
    for order in ("name", "create_time down", "create_time asc desc", " ", "create_time,id", "x" * 10_000):
        yield Wrong("ListMemories", {"order_by": order}, ("order_by",))
    for size in (-1, 1_001, 2**31 - 1):
        yield Wrong("ListMemories", {"page_size": size}, ("page_size",))
    for token in ("x", "=" * 40, "A" * 100_000, "AQAAAAAAAAAE", "\x00"):
        yield Wrong("ListMemories", {"page_token": token}, ("page_token",))
    for fields, paths in SEARCHES:
        search = search_pb.SearchRequest(scope=Scope(user_id="u"), **({"query": "x"} | fields))
        yield Wrong("StreamSearch", {"search": search}, tuple(f"search.{path}" for path in paths))
    yield Wrong("StreamSearch", {"search": None}, ("search.query", "search.scope.user_id"))
    for chosen, paths in FILTERS:
        options = Options(filter=chosen)
        yield Wrong("BuildContext", {"options": options}, tuple(f"options.{path}" for path in paths))
    yield Wrong("BuildContext", {"cursor": "x"}, ("cursor",))
    yield Wrong("BuildContext", {"cursor": "BgAAAAAAAAAAAAAAAAAAAAA"}, ("cursor",))
    yield Wrong("BuildContext", {"cursor": "é" * 9_000}, ("cursor",))
    yield Wrong("BuildContext", {"cursor": "x", "earlier_cursor": "y"}, ("earlier_cursor",))
    yield Wrong("LoadCore", {"limit": 101}, ("limit",))
    yield Wrong("LoadCore", {"limit": -1}, ("limit",))
    yield Wrong("BatchSearch", {"searches": []}, ("searches",))
    yield Wrong("BatchSearch", {"searches": [search_pb.SearchRequest()] * 33}, ("searches",))
    yield Wrong("Reindex", {"mode": 3}, ("mode",))
    yield Wrong("Reindex", {"indexes": [1, 0, 8]}, ("indexes[1]", "indexes[2]"))
    yield Wrong("GetPerformance", {"operation": "x" * 129}, ("operation",))


def _looking_back() -> Iterator[Wrong]:
    late, future = (
        types.AsOf(valid_time=LATE, known_time=LATE),
        types.AsOf(known_time=Timestamp(seconds=32_503_680_000)),
    )
    for method in ("GetMemory", "ListMemories", "Search"):
        yield Wrong(method, {"as_of": late}, ("as_of.known_time", "as_of.valid_time"))
        yield Wrong(method, {"as_of": future}, ("as_of.known_time",))
    yield Wrong("GetMemory", {"revision": -1}, ("revision",))
    yield Wrong("GetMemory", {"revision": 1, "as_of": types.AsOf()}, ("as_of",))
    yield Wrong("GetMemory", {"id": None, "key": "k", "revision": 1}, ("revision",))
    for fields, paths in OPTIONS:
        for method in ("RollbackMemory", "RollbackToCheckpoint"):
            yield Wrong(method, fields, paths)
    yield Wrong("CreateCheckpoint", {"request_id": "x" * 129}, ("request_id",))
    yield Wrong("RollbackMemory", {"id": "x", "revision": 0, "expected_revision": -1}, (
        "expected_revision", "id", "revision",
    ))  # fmt: skip
    yield Wrong("RollbackMemory", {"revision": -(2**63)}, ("revision",))
    yield Wrong("ListRevisions", {"id": "x"}, ("id",))
    for method, most in {
        "ListRevisions": 100, "DiffCheckpoint": 100, "ListCheckpoints": 1_000,
    }.items():  # fmt: skip
        for size in (-1, most + 1):
            yield Wrong(method, {"page_size": size}, ("page_size",))
    for token in ("x", "=" * 40, "A" * 100_000, "AQAAAAAAAAAE", "é"):
        for method in ("ListRevisions", "ListCheckpoints", "DiffCheckpoint"):
            yield Wrong(method, {"page_token": token}, ("page_token",))
    for name in ("", "x" * 129, "a\nb"):
        yield Wrong("CreateCheckpoint", {"name": name}, ("name",))
        for method in ("DiffCheckpoint", "RollbackToCheckpoint"):
            yield Wrong(method, {"checkpoint": name}, ("checkpoint",))
    yield Wrong("CreateCheckpoint", {"note": "x" * 513, "known_time": LATE}, ("known_time", "note"))
    yield Wrong("CreateCheckpoint", {"known_time": future.known_time}, ("known_time",))


@pytest.fixture(scope="module")
def stocked(stubs: Stubs) -> types.Scope:
    """The scope of a user who has something that could be changed."""
    scope = Scope(user_id=f"wrong-{uuid.uuid4()}")
    create(stubs, scope, "a", key="k")
    return scope


@pytest.mark.parametrize("wrong", list(table()), ids=lambda wrong: f"{wrong.method} {','.join(wrong.paths)[:60]}")
def test_wrong_input_is_refused_by_its_path(stubs: Stubs, stocked: types.Scope, wrong: Wrong) -> None:
    """INVALID_ARGUMENT names everything that is wrong, and nothing else; nothing is changed."""
    method = METHODS[wrong.method]
    fields = {name: value for name, value in (right(wrong.method, stocked) | wrong.fields).items() if value is not None}
    before = list_all(stubs, stocked)
    refusal = refused(method.call(stubs), method.request(**fields))

    assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason), refusal
    assert sorted(wrong.paths) == sorted(refusal.fields)
    assert before == list_all(stubs, stocked)


def test_what_is_right_is_taken(stubs: Stubs, stocked: types.Scope) -> None:
    """The requests that the wrong ones are made of do not fail for their form."""
    for wrong in table():
        method = METHODS[wrong.method]
        try:
            method.responses(stubs, method.request(**right(wrong.method, stocked)), timeout=TIMEOUT)
        except grpc.RpcError as error:
            assert error.code() in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION}, wrong.method


def test_no_more_than_50_violations_are_told(stubs: Stubs, stocked: types.Scope) -> None:
    """All at once, but never more than the trailers hold."""
    tags = [""] * 32
    keywords = [types.Keyword(weight=2)] * 32
    request = pb.CreateMemoryRequest(scope=stocked, memory=Memory(tags=tags, keywords=keywords))
    refusal = refused(stubs.memory.CreateMemory, request)

    assert grpc.StatusCode.INVALID_ARGUMENT == refusal.code
    assert 30 <= len(refusal.fields) <= 50


@pytest.mark.parametrize("length", [1_000_000, 999_999])
def test_the_longest_content_is_taken_whole(stubs: Stubs, scope: types.Scope, length: int) -> None:
    """A million characters, stored, read, found."""
    content = ("汉字 and words, " * 80_000)[: length - 7] + " walrus"
    memory = create(stubs, scope, content)

    assert content == memory.content
    hits = stubs.search.Search(search_pb.SearchRequest(scope=scope, query="walrus"), timeout=TIMEOUT).hits
    assert ["walrus"] == [hits[0].snippet[span.start : span.end] for span in hits[0].spans]


NO_MESSAGE, NO_UNICODE = b"\xff\xff\xff", b"\x0a\x03\x0a\x01\xff"


@pytest.mark.parametrize(
    ("method", "garbage"),
    [*((method, NO_MESSAGE) for method in sorted(METHODS)), *((method, NO_UNICODE) for method in SCOPED)],
)
def test_bytes_that_are_no_request_are_refused(server: ServerProcess, method: str, garbage: bytes) -> None:
    """They reach no handler, and are the client's fault, not the service's."""
    service = METHODS[method].descriptor.containing_service.full_name
    with server.channel() as channel:
        call = channel.stream_stream(f"/{service}/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([garbage]), timeout=TIMEOUT))
    refusal = Refusal.from_error(caught.value)

    assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason)
    assert "google" not in refusal.message


def test_everything_said_to_be_a_limit_is_allowed(stubs: Stubs, user: str) -> None:
    """A memory with every field at its limit, an expression as deep and wide as allowed."""
    scope = Scope(
        user_id=user + "u" * (128 - len(user)), project_id="p" * 128, agent_id="a" * 128, session_id="s" * 128
    )
    create(
        stubs, scope, "x", key="k" * 256, category="c" * 64, speaker="s" * 128, title="t" * 512, summary="s" * 16_384,
        tags=[f"{number:064}" for number in range(32)], source="s" * 256, importance=5, confidence=1.0,
        keywords=[types.Keyword(term=f"{number:064}", weight=1) for number in range(32)],
        related_ids=[str(uuid.uuid4()) for _ in range(64)], ttl=Duration(seconds=36_500 * 86_400),
        file_refs=[types.FileRef(category="temp", id=f"{number:0256}") for number in range(64)],
        event_time=Timestamp(seconds=253_402_300_799, nanos=999_999_999), metadata=deep(8),
    )  # fmt: skip
    group = types.FilterGroup(expressions=[condition(6, 2, text(f"{number}")) for number in range(256)])
    for chosen in (where(nested(8)), where(types.FilterExpression(all_of=group)), Filter(ids=[ID] * 256)):
        stubs.memory.ListMemories(pb.ListMemoriesRequest(scope=scope, filter=chosen, page_size=1_000), timeout=TIMEOUT)
        stubs.search.Search(
            search_pb.SearchRequest(
                scope=scope, query="x " * 4_096, keywords=["k" * 64] * 32, limit=100, filter=chosen
            ),
            timeout=TIMEOUT,
        )
