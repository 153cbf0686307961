"""Plain values and the messages that they become."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from google.protobuf.json_format import MessageToDict

from memsvc.client import Changes, Filters, MemoryFields, SearchOptions, request_types, to_proto
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

OUTPUT_ONLY = {
    "review",
    "id",
    "access_count",
    "create_time",
    "update_time",
    "access_time",
    "content_hash",
    "supersedes_id",
    "superseded_by_id",
    "revision",
}


@pytest.mark.parametrize(
    ("literal", "enum", "prefix"),
    [
        (request_types.Layer, types_pb.MemoryLayer, "MEMORY_LAYER_"),
        (request_types.Kind, types_pb.MemoryKind, "MEMORY_KIND_"),
        (request_types.Tier, types_pb.MemoryTier, "MEMORY_TIER_"),
        (request_types.Status, types_pb.MemoryStatus, "MEMORY_STATUS_"),
        (request_types.WaitFor, types_pb.WaitFor, "WAIT_FOR_"),
        (request_types.OnDuplicate, types_pb.OnDuplicate, "ON_DUPLICATE_"),
        (request_types.Visibility, filters_pb.ProjectVisibility, "PROJECT_VISIBILITY_"),
        (request_types.TimeField, filters_pb.TimeField, "TIME_FIELD_"),
        (request_types.SearchMode, search_pb.SearchMode, "SEARCH_MODE_"),
        (request_types.Index, admin_pb.IndexKind, "INDEX_KIND_"),
        (request_types.ReindexMode, admin_pb.ReindexMode, "REINDEX_MODE_"),
    ],
)
def test_names_are_those_of_the_api(literal: Any, enum: Any, prefix: str) -> None:
    """Every value of an enum can be named, and nothing else."""
    named = [f"{prefix}{name}" for name in get_args(literal)]

    assert named == [name for name in enum.DESCRIPTOR.values_by_name if not name.endswith("_UNSPECIFIED")]


def test_every_field_of_a_memory_can_be_given() -> None:
    """What the API takes, the client takes; the scope's parts stand for themselves."""
    given = set(MemoryFields.__annotations__) - set(to_proto.SCOPE_FIELDS) | {"content", "status", "scope"}

    assert given == field_names(types_pb.Memory) - OUTPUT_ONLY
    assert set(Changes.__annotations__) - set(MemoryFields.__annotations__) == {"content", "status", "vector"}


def test_every_field_of_a_filter_can_be_given() -> None:
    """What the API can filter by, the client can."""
    assert set(Filters.__annotations__) == field_names(filters_pb.Filter)


def test_every_field_of_a_search_can_be_given() -> None:
    """What the API can search by, the client can."""
    given = set(SearchOptions.__annotations__) - {"filters", "fields"} | {"filter", "read_mask", "scope", "query"}

    assert given == field_names(search_pb.SearchRequest)


def field_names(message: Any) -> set[str]:
    return {field.name for field in message.DESCRIPTOR.fields}


def test_memory_is_converted_field_by_field() -> None:
    """Plain values become the messages of the API."""
    memory = to_proto.memory_to_proto(
        {
            "layer": "CORE",
            "tags": ["a"],
            "keywords": {"tea": 0.5},
            "file_refs": [("report", "r1")],
            "event_time": datetime(2026, 1, 2, tzinfo=UTC),
            "ttl": timedelta(hours=1),
            "metadata": {"n": 1, "deep": {"list": [True, None]}},
            "session_id": "s",
        },
        content="text",
    )

    assert MessageToDict(memory) == {
        "scope": {"sessionId": "s"},
        "layer": "MEMORY_LAYER_CORE",
        "content": "text",
        "tags": ["a"],
        "keywords": [{"term": "tea", "weight": 0.5}],
        "fileRefs": [{"category": "FILE_CATEGORY_REPORT", "id": "r1"}],
        "eventTime": "2026-01-02T00:00:00Z",
        "ttl": "3600s",
        "metadata": {"n": 1.0, "deep": {"list": [True, None]}},
    }


def test_keywords_without_weights_weigh_one() -> None:
    """A list of words is enough."""
    memory = to_proto.memory_to_proto({"keywords": ["tea", "cup"]})

    assert [(keyword.term, keyword.weight) for keyword in memory.keywords] == [("tea", 1.0), ("cup", 1.0)]


def test_filter_is_converted_field_by_field() -> None:
    """Ranges, enums and metadata become the messages of the API."""
    wanted = to_proto.filter_to_proto(
        {
            "kinds": ["NOTE", "TASK"],
            "create_time": (None, datetime(2026, 1, 2, tzinfo=UTC)),
            "last_days_field": "EVENT_TIME",
            "min_confidence": 0.0,
            "metadata": {"a.b": True, "n": None, "s": "x", "i": 2},
        }
    )

    assert MessageToDict(wanted) == {
        "kinds": ["MEMORY_KIND_NOTE", "MEMORY_KIND_TASK"],
        "createTime": {"end": "2026-01-02T00:00:00Z"},
        "lastDaysField": "TIME_FIELD_EVENT_TIME",
        "minConfidence": 0.0,
        "metadata": [
            {"path": "a.b", "value": True},
            {"path": "n", "value": None},
            {"path": "s", "value": "x"},
            {"path": "i", "value": 2.0},
        ],
    }


def test_moment_without_a_zone_is_refused() -> None:
    """Nobody can say which moment it is."""
    with pytest.raises(ValueError, match="event_time: 2026-01-02T00:00:00 needs a time zone"):
        to_proto.memory_to_proto({"event_time": datetime(2026, 1, 2)})  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_moment_that_utc_has_not_is_refused(moment: str) -> None:
    """Its zone leads out of the calendar."""
    with pytest.raises(ValueError, match=rf"event_time: {re.escape(moment)} is not in the years 1 to 9999 in UTC"):
        to_proto.memory_to_proto({"event_time": datetime.fromisoformat(moment)})


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    """A typing error is told with what would be right."""
    with pytest.raises(ValueError, match="mode: 'FUZZY' is none of HYBRID, SEMANTIC, KEYWORD"):
        to_proto.named("mode", "FUZZY")


@pytest.mark.parametrize("role", ["ASSISTANT", "assistant"])
def test_the_role_of_a_message_may_be_in_lower_case(role: Any) -> None:
    """Messages for language models have it so."""
    message = to_proto.message_to_proto({"role": role, "content": "a"})

    assert message.role == types_pb.MESSAGE_ROLE_ASSISTANT


@pytest.mark.parametrize("given", [{"content": "我住在杭州。"}, {"content": "I live in Rome.", "role": None}])
def test_a_message_without_a_role_is_the_users(given: Any) -> None:
    """A message of the API stays as it is, and so do other roles."""
    unset = types_pb.ChatMessage(content="a")

    assert to_proto.message_to_proto(given).role == types_pb.MESSAGE_ROLE_USER
    assert to_proto.message_to_proto({"role": "TOOL", "content": "a"}).role == types_pb.MESSAGE_ROLE_TOOL
    assert to_proto.message_to_proto(unset) == types_pb.ChatMessage(content="a")
    with pytest.raises(ValueError, match="role: '' is none of"):
        to_proto.message_to_proto({"role": "", "content": "a"})  # type: ignore[arg-type]  # refused


def test_messages_pass_through_batches() -> None:
    """A batch takes messages as well as plain values."""
    drafts: Iterable[Any] = [{"content": "a", "vector": [1.0]}, types_pb.Memory(content="b")]

    items = [to_proto.batch_memory_to_proto(draft) for draft in drafts]

    assert [(item.memory.content, list(item.vector)) for item in items] == [("a", [1.0]), ("b", [])]
