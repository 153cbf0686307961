"""Every wrong request."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.wrong_input.file_refs import file_refs
from tests.e2e.wrong_input.memories import CAPTURES, FILTERS, MEMORIES, NEW_MEMORIES, OPTIONS, UPDATES
from tests.e2e.wrong_input.requests import (
    EQUALS,
    ID,
    LATE,
    LESS,
    NAN,
    SCOPED,
    SCOPES,
    Filter,
    Memory,
    Scope,
    Wrong,
    condition,
    span,
    text,
    where,
)
from tests.e2e.wrong_input.searches import (
    CONTEXTS,
    MESSAGES,
    NAMED_SESSIONS,
    PROMOTIONS,
    SEARCHES,
    SESSIONS,
    USE_LISTS,
    USE_REPORTS,
    Options,
)


def table() -> Iterator[Wrong]:
    """Return every wrong request."""
    for method in SCOPED:
        for path, scopes in SCOPES.items():
            for scope in scopes:
                yield Wrong(method, {"scope": scope}, (path,))
    yield from _memories()
    yield from _parts()
    yield from file_refs()


def _memories() -> Iterator[Wrong]:
    for memory, paths in (*MEMORIES, *NEW_MEMORIES):
        new = Memory(content="x") if (memory, paths) in MEMORIES else Memory()
        new.MergeFrom(memory)
        yield Wrong("CreateMemory", {"memory": new}, paths)
        # Whether its sources are there matters only once the memory to be superseded is.
        if "memory.derived_from_ids[1]" not in paths:
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
        for method in ("ListMemories", "Search", "DeleteMemories", *(() if timed else ("WatchMemories",))):
            yield Wrong(method, {"filter": chosen}, paths)


def _parts() -> Iterator[Wrong]:
    for method, rows in (
        ("Search", SEARCHES), ("UpdateMemory", UPDATES), ("BuildContext", CONTEXTS), ("RenderContext", CONTEXTS),
        ("ReportUse", USE_REPORTS), ("ListUseReports", USE_LISTS),
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
    yield Wrong("ResolveConflict", {"id": "x", "resolution": 0}, ("id", "resolution"))
    yield Wrong("ResolveConflict", {"resolution": 4}, ("resolution",))


def _others() -> Iterator[Wrong]:
    yield Wrong("CreateMemory", {"memory": None}, ("memory.content",))
    yield Wrong("CreateMemory", {"on_duplicate": 4}, ("on_duplicate",))
    for vector in ([1.0], [0.0] * 256, [NAN] * 256):
        yield Wrong("CreateMemory", {"vector": vector}, ("vector",))
    long = Memory(content="many words " * 400)
    yield Wrong("CreateMemory", {"memory": long, "vector": [1.0] * 256}, ("vector",))
    yield Wrong("BatchCreateMemories", {"memories": []}, ("memories",))
    yield Wrong("BatchCreateMemories", {"memories": [memory_pb.BatchMemory()] * 1_001}, ("memories",))
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
        types_pb.AsOf(valid_time=LATE, known_time=LATE),
        types_pb.AsOf(known_time=Timestamp(seconds=32_503_680_000)),
    )
    for method in ("GetMemory", "ListMemories", "Search"):
        yield Wrong(method, {"as_of": late}, ("as_of.known_time", "as_of.valid_time"))
        yield Wrong(method, {"as_of": future}, ("as_of.known_time",))
    yield Wrong("GetMemory", {"revision": -1}, ("revision",))
    yield Wrong("GetMemory", {"revision": 1, "as_of": types_pb.AsOf()}, ("as_of",))
    for fields, paths in OPTIONS:
        for method in ("RollbackMemory", "RollbackToCheckpoint"):
            yield Wrong(method, fields, paths)
    for method in ("CreateCheckpoint", "DeleteCheckpoint"):
        yield Wrong(method, {"request_id": "x" * 129}, ("request_id",))
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
        for method in ("DiffCheckpoint", "DeleteCheckpoint", "RollbackToCheckpoint"):
            yield Wrong(method, {"checkpoint": name}, ("checkpoint",))
    yield Wrong("CreateCheckpoint", {"note": "x" * 513, "known_time": LATE}, ("known_time", "note"))
    yield Wrong("CreateCheckpoint", {"known_time": future.known_time}, ("known_time",))
