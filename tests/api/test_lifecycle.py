"""What the service says of itself: counts, health, performance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, TIMEOUT, at_rest, create, create_all, refused, search
from tests.support.server_process import Stubs

EDGE, ENGINE = admin_pb.MEASUREMENT_POINT_EDGE, admin_pb.MEASUREMENT_POINT_ENGINE


def stats(stubs: Stubs, scope: types_pb.Scope) -> admin_pb.GetStatsResponse:
    """Return the counts of a scope."""
    return stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)


def test_a_user_without_memories_has_zeros(stubs: Stubs, scope: types_pb.Scope) -> None:
    """No error, and no names in the maps."""
    counts = stats(stubs, scope)

    assert (0, 0, 0, 0, 0, 0) == (
        counts.memory_count, counts.chunk_count, counts.content_bytes, counts.vector_count, counts.lexical_count,
        counts.core_token_count,
    )  # fmt: skip
    assert not (counts.count_by_layer or counts.count_by_kind or counts.count_by_tier or counts.count_by_status)


def test_memories_are_counted_by_everything(stubs: Stubs, user: str) -> None:
    """Layer, kind, tier and status, by name; deleted ones in the status alone; what has expired is still ACTIVE."""
    scope = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    memories = create_all(
        stubs,
        scope,
        [
            types_pb.Memory(
                content="Core rule number one.", layer=types_pb.MEMORY_LAYER_CORE, tier=types_pb.MEMORY_TIER_CORE
            ),
            types_pb.Memory(
                content="私下说的话。", layer=types_pb.MEMORY_LAYER_SESSION, kind=types_pb.MEMORY_KIND_NOTE
            ),
            types_pb.Memory(content="A message.", kind=types_pb.MEMORY_KIND_MESSAGE, speaker="Ann"),
            types_pb.Memory(content="Over.", expire_time=Timestamp(seconds=9), layer=types_pb.MEMORY_LAYER_SHORT_TERM),
            types_pb.Memory(content="Deleted."),
            types_pb.Memory(content="Archived."),
            types_pb.Memory(content="Elsewhere.", scope=types_pb.Scope(project_id="q")),
        ],
    )
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memories[4].id), timeout=TIMEOUT)
    archived = types_pb.Memory(id=memories[5].id, status=types_pb.MEMORY_STATUS_ARCHIVED)
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=archived), timeout=TIMEOUT)
    counts = stats(stubs, scope)

    assert counts.memory_count == 5
    assert {"CORE": 1, "SESSION": 1, "LONG_TERM": 2, "SHORT_TERM": 1} == counts.count_by_layer
    assert {"FACT": 3, "NOTE": 1, "MESSAGE": 1} == counts.count_by_kind
    assert {"CORE": 1, "CONTEXTUAL": 4} == counts.count_by_tier
    assert {"ACTIVE": 4, "ARCHIVED": 1, "DELETED": 1} == counts.count_by_status
    kept = [memory for number, memory in enumerate(memories) if number not in {4, 6}]
    assert counts.content_bytes == sum(len(memory.content.encode()) for memory in kept)
    assert (5, 5, 5) == (counts.chunk_count, counts.vector_count, counts.lexical_count)
    core, private = (len(memory.content.encode()) for memory in memories[:2])
    assert (-(-core // 4), -(-private // 4)) == (counts.core_token_count, counts.session_token_count)
    assert counts.storage_bytes > 0
    assert 6 == stats(stubs, types_pb.Scope(user_id=user, project_id="q")).memory_count + counts.memory_count


def test_tokens_are_those_of_what_is_in_use(stubs: Stubs, scope: types_pb.Scope) -> None:
    """An archived rule and one that waits for a review are in no context."""
    core = types_pb.MEMORY_LAYER_CORE
    create(stubs, scope, "Answer in short.", layer=core)
    create(stubs, scope, "Wait for the review.", layer=core, status=types_pb.MEMORY_STATUS_QUARANTINED)
    rule = create(stubs, scope, "Answer at length.", layer=core)
    archived = types_pb.Memory(id=rule.id, status=types_pb.MEMORY_STATUS_ARCHIVED)
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=archived), timeout=TIMEOUT)

    assert 4 == stats(stubs, scope).core_token_count


def test_diagnose_says_that_all_is_well(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Every port and index, with names, positions, the model; verified on request."""
    create(stubs, scope, "x")
    at_rest(stubs)
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)

    assert diagnosis.healthy
    # After enough writes of other tests an index is made anew, which is worth a word and no trouble.
    assert {"INDEX_BUILDING"} >= {warning.code for warning in diagnosis.warnings}
    assert {
        "metadata": "sql", "vectors": "qdrant-edge", "lexical": "tantivy", "embedder": "wordllama", "tokenizer": "bpe",
        "blobs": "fsspec",
    } == {backend.port: backend.name for backend in diagnosis.backends}  # fmt: skip
    assert all(backend.HasField("ping") and not backend.message for backend in diagnosis.backends)
    vectors, lexical = diagnosis.indexes
    assert (admin_pb.INDEX_KIND_VECTORS, 256) == (vectors.index, vectors.dimension)
    assert "wordllama" in vectors.model
    assert (admin_pb.INDEX_KIND_LEXICAL, 0, "", False) == (
        lexical.index,
        lexical.dimension,
        lexical.model,
        lexical.hnsw,
    )
    for report in diagnosis.indexes:
        assert report.generation >= 1
        assert report.expected_count == report.present_count
    assert diagnosis.outbox.applied_position <= diagnosis.outbox.head_position
    assert 1 <= len(diagnosis.slowest) <= 10
    took = [one.duration.ToTimedelta() for one in diagnosis.slowest]
    assert sorted(took, reverse=True) == took
    assert diagnosis.version


def test_performance_tells_of_every_operation(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Counts with failures, percentiles in order, the stages of a search; one operation alone on request."""
    create(stubs, scope, "walrus")
    search(stubs, scope, "walrus")
    search(stubs, scope, "walrus", mode=KEYWORD)
    refused(stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=scope, id="x"))
    reply = stubs.admin.GetPerformance(admin_pb.GetPerformanceRequest(), timeout=TIMEOUT)
    alone = stubs.admin.GetPerformance(admin_pb.GetPerformanceRequest(operation="Search"), timeout=TIMEOUT)
    unknown = stubs.admin.GetPerformance(admin_pb.GetPerformanceRequest(operation="Sing"), timeout=TIMEOUT)

    names = [(one.operation, one.point) for one in reply.operations]
    assert sorted(operation for operation, _ in names) == [operation for operation, _ in names]
    assert {("CreateMemory", EDGE), ("GetMemory", EDGE), ("Search", EDGE), ("Search", ENGINE)} <= set(names)
    by_name = {(one.operation, one.point): one for one in reply.operations}
    assert by_name["GetMemory", EDGE].error_count >= 1
    for one in (*reply.operations, *(stage for each in reply.operations for stage in each.stages)):
        times = [getattr(one, name).ToTimedelta() for name in ("p50", "p90", "p95", "p99", "max")]
        assert sorted(times) == times
        assert timedelta() < one.mean.ToTimedelta() <= times[-1]
        assert one.call_count >= 1
    stages = {stage.stage: stage.call_count for stage in by_name["Search", ENGINE].stages}
    assert {"embed", "dense", "bm25", "keyword_table", "fuse", "boost", "hydrate"} <= stages.keys()
    assert {"Search"} == {one.operation for one in alone.operations}
    assert [] == list(unknown.operations)
    assert reply.since.ToDatetime(UTC) <= datetime.now(UTC)
