"""What is wrong with memories, filters and writes, and how it is named."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.wrong_input.requests import (
    BETWEEN,
    EQUALS,
    ID,
    IN,
    INFINITY,
    LATE,
    LESS,
    NAN,
    STARTS_WITH,
    Filter,
    Memory,
    Scope,
    condition,
    deep,
    nested,
    numbers,
    span,
    text,
    where,
)

MEMORIES: list[tuple[types_pb.Memory, tuple[str, ...]]] = [
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
    (Memory(keywords=[types_pb.Keyword(term="a")] * 33), ("memory.keywords",)),
    (Memory(keywords=[types_pb.Keyword(term="")]), ("memory.keywords[0].term",)),
    (Memory(keywords=[types_pb.Keyword(term="x" * 65)]), ("memory.keywords[0].term",)),
    (Memory(keywords=[types_pb.Keyword(term="a", weight=1.1)]), ("memory.keywords[0].weight",)),
    (Memory(keywords=[types_pb.Keyword(term="a", weight=NAN)]), ("memory.keywords[0].weight",)),
    (Memory(keywords=[types_pb.Keyword(term="a", weight=-0.1)]), ("memory.keywords[0].weight",)),
    (Memory(related_ids=[ID] * 65), ("memory.related_ids",)),
    (Memory(related_ids=[ID, "x"]), ("memory.related_ids[1]",)),
    (Memory(file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_TEMP, id="a")] * 65), ("memory.file_refs",)),
    (Memory(file_refs=[types_pb.FileRef()]), ("memory.file_refs[0].category", "memory.file_refs[0].id")),
    (Memory(file_refs=[types_pb.FileRef(category=9, id="\n")]), (
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
    (Memory(derived_from_ids=["x"]), ("memory.derived_from_ids[0]",)),
    (Memory(derived_from_ids=[ID] * 65), ("memory.derived_from_ids",)),
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

NEW_MEMORIES: list[tuple[types_pb.Memory, tuple[str, ...]]] = [
    (Memory(), ("memory.content",)),
    (Memory(content="x" * 1_000_001), ("memory.content",)),
    (Memory(content="a\x00b"), ("memory.content",)),
    (Memory(content="x", layer=types_pb.MEMORY_LAYER_SESSION), ("memory.layer",)),
    (Memory(content="x", derived_from_ids=[ID, ID.replace("9", "8")]), ("memory.derived_from_ids[0]", "memory.derived_from_ids[1]")),
    (Memory(content="x", scope=Scope(user_id="another")), ("memory.scope.user_id",)),
    (Memory(content="x", scope=Scope(project_id="x" * 129, session_id="\x00")), (
        "memory.scope.project_id", "memory.scope.session_id",
    )),
    (Memory(importance=9, tags=[""], key="\x00"), ("memory.content", "memory.importance", "memory.key", "memory.tags[0]")),
]  # fmt: skip

FILTERS: list[tuple[filters_pb.Filter, tuple[str, ...]]] = [
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
    (Filter(session_visibility=3), ("filter.session_visibility",)),
    (Filter(project_visibility=4), ("filter.project_visibility",)),  # type: ignore[arg-type] # no value of the enum
    (Filter(create_time=span(2, 2)), ("filter.create_time.end",)),
    (Filter(event_time=span(3, 2)), ("filter.event_time.end",)),
    (Filter(valid_from=span(3, 2), valid_to=span(1, 1)), ("filter.valid_from.end", "filter.valid_to.end")),
    (Filter(access_time=types_pb.TimeRange(start=LATE)), ("filter.access_time.start",)),
    (Filter(metadata=[filters_pb.MetadataEquals()]), ("filter.metadata[0].path", "filter.metadata[0].value")),
    (Filter(metadata=[filters_pb.MetadataEquals(path="a", value=Value(list_value=ListValue()))]), (
        "filter.metadata[0].value",
    )),
    (Filter(metadata=[filters_pb.MetadataEquals(path="a", value=Value(number_value=NAN))]), ("filter.metadata[0].value",)),
    (where(filters_pb.FilterExpression()), ("filter.where",)),
    (where(filters_pb.FilterExpression(all_of=filters_pb.FilterGroup())), ("filter.where.all_of.expressions",)),
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
    (where(condition(17, EQUALS, text("ROBOT"))), ("filter.where.condition.values[0]",)),
    (where(condition(18, LESS, text("0.5"))), ("filter.where.condition.values[0]",)),
    (where(condition(12, LESS, text("yesterday"))), ("filter.where.condition.values[0]",)),
    (where(condition(15, LESS, text("2026-02-30T00:00:00Z"))), ("filter.where.condition.values[0]",)),
    (where(condition(16, EQUALS, text("x"))), ("filter.where.condition.metadata_path",)),
    (where(condition(3, EQUALS, text("x"), path="a")), ("filter.where.condition.metadata_path",)),
    (where(condition(3, IN, *([text("x")] * 257))), ("filter.where.condition.values",)),
    (Filter(key_prefix="x" * 257), ("filter.key_prefix",)),
    (Filter(key_prefix="a\x00"), ("filter.key_prefix",)),
    (Filter(metadata_ranges=[filters_pb.MetadataRange()]), ("filter.metadata_ranges[0].path", "filter.metadata_ranges[0]")),
    (Filter(metadata_ranges=[filters_pb.MetadataRange(path="n")]), ("filter.metadata_ranges[0]",)),
    (Filter(metadata_ranges=[filters_pb.MetadataRange(path="n", at_least=NAN, at_most=INFINITY)]), (
        "filter.metadata_ranges[0].at_least", "filter.metadata_ranges[0].at_most",
    )),
    (Filter(metadata_ranges=[filters_pb.MetadataRange(path="n", at_least=2, greater_than=1, at_most=1)]), (
        "filter.metadata_ranges[0]",
    )),
    (Filter(metadata_ranges=[filters_pb.MetadataRange(path="n", greater_than=2, less_than=1)]), (
        "filter.metadata_ranges[0]",
    )),
    (Filter(metadata_ranges=[filters_pb.MetadataRange(path="n", at_least=1)] * 257), ("filter.metadata_ranges",)),
    (where(condition(16, LESS, text("3"), path="n")), ("filter.where.condition.values[0]",)),
    (where(condition(16, LESS, Value(bool_value=True), path="n")), ("filter.where.condition.values[0]",)),
    (where(condition(16, LESS, Value(number_value=INFINITY), path="n")), ("filter.where.condition.values[0]",)),
    (where(condition(16, LESS, Value(number_value=1))), ("filter.where.condition.metadata_path",)),
    (where(condition(16, BETWEEN, Value(number_value=1), path="n")), ("filter.where.condition.values",)),
    (where(condition(10, BETWEEN, Value(number_value=4), Value(number_value=2))), ("filter.where.condition.values",)),
    (where(condition(3, BETWEEN, text("a"), text("b"))), ("filter.where.condition.operator",)),
    (where(condition(3, STARTS_WITH, text("a"))), ("filter.where.condition.operator",)),
    (where(condition(21, STARTS_WITH, text(""))), ("filter.where.condition.values[0]",)),
    (where(condition(21, EQUALS, Value(number_value=1))), ("filter.where.condition.values[0]",)),
    (where(condition(21, LESS, text("a"))), ("filter.where.condition.operator",)),
    (where(nested(9)), ("filter.where" + ".negated.all_of.expressions[0]" * 4,)),
]  # fmt: skip

OPTIONS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"request_id": "x" * 129}, ("request_id",)),
    ({"wait_for": 3}, ("wait_for",)),
]

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
    ({"memory": Memory(id=ID, status=types_pb.MEMORY_STATUS_DELETED)}, ("memory.status",)),
    ({"expected_revision": -1}, ("expected_revision",)),
    ({"vector": [1.0]}, ("vector",)),
]  # fmt: skip


def message(**fields: Any) -> dict[str, Any]:
    """Return a conversation of one message."""
    return {"messages": [types_pb.ChatMessage(**fields)]}


def said(**fields: Any) -> dict[str, Any]:
    """Return a message to capture."""
    return {"message": types_pb.ChatMessage(**fields)}


def call(**fields: Any) -> dict[str, Any]:
    """Return a conversation of one call of a tool."""
    return message(tool_calls=[types_pb.ToolCall(**fields)])


CAPTURES: dict[str, list[tuple[dict[str, Any], tuple[str, ...]]]] = {
    "CaptureMemory": [
        ({"message": types_pb.ChatMessage()}, ("message.content",)),
        (said(content="x" * 100_001), ("message.content",)),
        (said(content="a\x00"), ("message.content",)),
        (said(content="x", role=5, speaker="\n"), ("message.role", "message.speaker")),
        (said(content="x", event_time=LATE), ("message.event_time",)),
        (said(content="x", tool_calls=[types_pb.ToolCall(name="f")], pinned=True), (
            "message.pinned", "message.tool_calls",
        )),
        (said(content="x", metadata=deep(1), token_count=1, tool_call_id="c"), (
            "message.metadata", "message.token_count", "message.tool_call_id",
        )),
        ({"tags": [""], "source": "\n", "conflict_policy": 9}, ("conflict_policy", "source", "tags[0]")),
    ],
    "FlushMessages": [
        ({"messages": []}, ("messages",)),
        ({"messages": [types_pb.ChatMessage(content="x")] * 1_001}, ("messages",)),
        ({"messages": [types_pb.ChatMessage(content="x" * 100_000)] * 11}, ("messages",)),
        (message(content="x" * 100_001), ("messages[0].content",)),
        (message(content="\x00", role=9, speaker="x" * 129), (
            "messages[0].content", "messages[0].role", "messages[0].speaker",
        )),
        (message(event_time=LATE), ("messages[0].event_time",)),
        (message(tool_calls=[types_pb.ToolCall(name="f")] * 65), ("messages[0].tool_calls",)),
        (call(name="f", file_refs=[types_pb.FileRef(category=9)]), (
            "messages[0].tool_calls[0].file_refs[0].category", "messages[0].tool_calls[0].file_refs[0].id",
        )),
        (call(name="f", file_refs=[types_pb.FileRef(category=1, id="a")] * 65), (
            "messages[0].tool_calls[0].file_refs",
        )),
        (call(id="x" * 129, name="x" * 129), ("messages[0].tool_calls[0].id", "messages[0].tool_calls[0].name")),
        (call(), ("messages[0].tool_calls[0].name",)),
        (call(name="f", arguments=deep(9)), ("messages[0].tool_calls[0].arguments",)),
        ({"conflict_policy": 9}, ("conflict_policy",)),
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
        ({"content": "\u3000\n"}, ("content",)),
        ({"content": "x" * 1_000_001}, ("content",)),
        ({"content": "a\x00", "separator": "\x00"}, ("content", "separator")),
        ({"separator": "x" * 257, "conflict_policy": -1}, ("conflict_policy", "separator")),
        ({"key": "k", "content": "x" * 999_999}, ("content",)),
    ],
}  # fmt: skip
