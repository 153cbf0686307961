"""Generated requests at every RPC: whatever comes, the service is never at fault."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.descriptors import METHODS, Method
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, Refusal, create_all
from tests.support.server_process import Stubs

MORE = "MEMSVC_TEST_EXAMPLES"
EXAMPLES = int(os.environ.get(MORE, "20"))
"""Requests for each RPC; those of a run with more are new every time."""
SECONDS = 10.0
CLIENT_FAULTS = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ABORTED,
    grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNIMPLEMENTED,
}  # fmt: skip
SERVER_FAULTS = {grpc.StatusCode.INTERNAL.value[0], grpc.StatusCode.UNKNOWN.value[0]}
STREAMED_OR_SLOW = {
    "Reindex": 3, "CheckIntegrity": 6, "RunMaintenance": 20, "ConsolidateMemories": 20, "SummarizePeriod": 20,
    "DetectConflicts": 20,
    "CreateBackup": 3, "MigrateBackend": 20, "ExportUser": 20, "EraseUser": 20,
}  # fmt: skip
"""RPCs that get fewer requests, since each works through all memories."""
DEPTH = 12
USER = f"generated-{uuid.uuid4()}"
SCOPES = [
    types_pb.Scope(user_id=USER),
    types_pb.Scope(user_id=USER, project_id="p"),
    types_pb.Scope(user_id=USER, project_id="p", agent_id="a", session_id="s"),
]
KNOWN_IDS: list[str] = []
TOKENS: list[str] = ["AQAAAAAAAAAB"]
TEXTS = [
    "", " ", "x", "k", "walrus", "The walrus swims.", "海象在游泳。", "🦭", "a\x00b", "\n", "‮abc", "é" * 64, "ﬀ",
    "create_time desc", "importance", "LONG_TERM", "ACTIVE", "2026-02-06T08:00:00Z", "0000-00-00T00:00:00Z", "a.b",
    "temp", "report", "x" * 65, "y" * 129, "z" * 257, "w " * 300, "long " * 20_000, "%", "' or 1=1 --", "{{x}}",
    "# a\n\n## b\n\n```\n" * 40, "İ" * 64, "\U0010ffff", "ẞß", "a" * 512 + "汉" * 512,
]  # fmt: skip
NUMBERS = [0.0, 0.5, 1.0, -0.0, 2.0, -1.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf"), 0.1 + 0.2]
INTEGERS = [0, 1, 2, 3, 5, 10, 100, 101, 1_000, 1_001, 36_500, -1, 2**31 - 1, -(2**31)]
LONGS = [*INTEGERS, 2**63 - 1, -(2**63), 253_402_300_799, 253_402_300_800, -62_135_596_801]
Field = FieldDescriptor


def texts(name: str) -> st.SearchStrategy[str]:
    """Return texts for a field of this name: mostly such as it takes."""
    if name in {"id", "ids", "memory_id", "related_ids", "derived_from_ids"}:
        known = st.deferred(lambda: st.sampled_from(KNOWN_IDS))
        return st.one_of(known, known, known, st.uuids().map(str), st.sampled_from(TEXTS))
    if name in {"page_token", "consistency_token", "cursor", "earlier_cursor"}:
        tokens = st.deferred(lambda: st.sampled_from(TOKENS))
        return st.one_of(st.just(""), tokens, tokens.map(lambda token: token[::-1]), st.sampled_from(TEXTS))
    if name in {"checkpoint", "name"}:
        return st.sampled_from(["c1", "c2", "c3", *TEXTS[:9]])
    if name in {"request_id", "user_id"}:
        return st.sampled_from(["", "r1", "r2", "r3", *TEXTS[:9], "y" * 129])
    return st.one_of(st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.text(max_size=80))


def scalars(field: Field) -> st.SearchStrategy[Any]:
    """Return values of a field that is no message."""
    if field.type == Field.TYPE_ENUM:
        known = [value.number for value in field.enum_type.values]
        return st.sampled_from([*known, *known, 77, -1])
    if field.type == Field.TYPE_BYTES:
        return st.one_of(st.binary(max_size=40), st.sampled_from(TEXTS).map(str.encode))
    if field.type == Field.TYPE_STRING:
        return texts(field.name)
    if field.type == Field.TYPE_BOOL:
        return st.booleans()
    if field.type in {Field.TYPE_FLOAT, Field.TYPE_DOUBLE}:
        return st.one_of(st.floats(0, 1), st.sampled_from(NUMBERS))
    if field.type == Field.TYPE_UINT32:
        return st.sampled_from([0, 1, 60, 10_000, 10_001, 2**32 - 1])
    if field.type == Field.TYPE_INT32:
        return st.one_of(st.integers(0, 5), st.sampled_from(INTEGERS))
    return st.one_of(st.integers(0, 5), st.sampled_from(LONGS))


def vectors() -> st.SearchStrategy[list[float]]:
    """Return vectors: none, of the right length, of another, with numbers that are none."""
    good = st.integers(0, 255).map(lambda axis: [float(number == axis) for number in range(256)])
    wrong = st.lists(st.sampled_from(NUMBERS[:-5]), max_size=3)
    return st.one_of(st.just([]), good, wrong, good.map(lambda vector: [*vector[1:], float("nan")]))


def structs(depth: int) -> st.SearchStrategy[Struct]:
    """Return free JSON, sometimes too deep, with numbers that are none, with NULs."""
    leaves = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS[:20]))
    names = st.sampled_from(["a", "b", "a.b", "", "名", "\x00"])

    def grown(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(children, max_size=2) | st.dictionaries(names, children, max_size=2)

    values = st.recursive(leaves, grown, max_leaves=depth)

    def struct(members: dict[str, Any]) -> Struct:
        message = Struct()
        message.update(members)
        return message

    return st.dictionaries(names, values, max_size=3).map(struct)


@cache
def messages(descriptor: Descriptor, depth: int = 0) -> st.SearchStrategy[Any]:
    """Return messages of any type, built from its descriptor: most fields absent, most of the rest sensible."""
    name = descriptor.full_name
    if name == "google.protobuf.Struct":
        return structs(8)
    if name == "memsvc.v1.Scope" and depth <= 1:
        return st.one_of(*([st.sampled_from(SCOPES)] * 9), fields_of(descriptor, depth))
    return fields_of(descriptor, depth)


def fields_of(descriptor: Descriptor, depth: int) -> st.SearchStrategy[Any]:
    """Return messages whose every field may be there."""
    made: type[Message] = message_factory.GetMessageClass(descriptor)
    fields = [field for field in descriptor.fields if depth < DEPTH or field.message_type is None]
    wanted = {"query", "content", "user_id", "path", "values"}

    @st.composite
    def build(draw: st.DrawFn) -> Message:
        message = made()
        for field in fields:
            share = 9 if depth == 0 and field.message_type is not None and field.name != "filter" else 3
            share = 9 if field.name in wanted else share
            if draw(st.integers(0, 9)) < share:
                fill(draw, message, field, depth)
        return message

    return build()


def fill(draw: Callable[..., Any], message: Any, field: Field, depth: int) -> None:
    """Give a field of a message some value."""
    if field.name == "vector":
        message.vector.extend(draw(vectors()))
    elif field.is_repeated:
        count = draw(st.sampled_from([0, 1, 1, 2, 3] if depth > 1 else [*[1, 1, 1, 2, 3] * 8, 40]))
        values = getattr(message, field.name)
        for _ in range(count):
            if field.message_type is None:
                values.append(draw(scalars(field)))
            else:
                values.append(draw(messages(field.message_type, depth + 1)))
    elif field.message_type is None:
        setattr(message, field.name, draw(scalars(field)))
    else:
        getattr(message, field.name).CopyFrom(draw(messages(field.message_type, depth + 1)))


def imports() -> st.SearchStrategy[list[Any]]:
    """Return the messages of an import: mostly a header and batches, in any order."""
    any_message = messages(METHODS["ImportMemories"].descriptor.input_type)
    headers = messages(memory_pb.ImportHeader.DESCRIPTOR, 0).map(
        lambda header: memory_pb.ImportMemoriesRequest(header=header)
    )
    batches = messages(memory_pb.ImportBatch.DESCRIPTOR, 0).map(
        lambda batch: memory_pb.ImportMemoriesRequest(batch=batch)
    )
    sound = st.tuples(headers, st.lists(batches, max_size=3)).map(lambda parts: [parts[0], *parts[1]])
    return st.one_of(sound, sound, st.lists(any_message, max_size=3))


def uploads() -> st.SearchStrategy[list[Any]]:
    """Return the messages of an upload: mostly a header and some bytes, in any order."""
    any_message = messages(METHODS["UploadFile"].descriptor.input_type)
    headers = messages(file_pb.UploadFileHeader.DESCRIPTOR, 0).map(lambda one: file_pb.UploadFileRequest(header=one))
    parts = st.lists(st.binary(max_size=40).map(lambda data: file_pb.UploadFileRequest(data=data)), max_size=3)
    sound = st.tuples(headers, parts).map(lambda both: [both[0], *both[1]])
    return st.one_of(sound, sound, st.lists(any_message, max_size=3))


def documents() -> st.SearchStrategy[list[Any]]:
    """Return the messages of a document: mostly a header and some bytes, in any order."""
    any_message = messages(METHODS["IngestDocument"].descriptor.input_type)
    headers = messages(memory_pb.DocumentHeader.DESCRIPTOR, 0)
    sound = st.tuples(headers, st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(TEXTS).map(str.encode))))
    return st.one_of(
        sound.map(
            lambda parts: [
                memory_pb.IngestDocumentRequest(header=parts[0]),
                *(memory_pb.IngestDocumentRequest(data=data) for data in parts[1]),
            ]
        ),
        st.lists(any_message, max_size=3),
    )


def user_files() -> st.SearchStrategy[list[Any]]:
    """Return the messages of an import of a user: mostly a header, and lines that are nearly right."""
    any_message = messages(METHODS["ImportUser"].descriptor.input_type)
    time = "2026-02-06T00:00:00Z"
    head = {"record": "header", "format": "memsvc-user", "version": 1, "create_time": time}
    memory = {
        "record": "memory", "id": "0190163d-8694-739b-aea5-966c26f8ad91", "content": "x", "layer": "CORE",
        "kind": "FACT", "tier": "CORE", "status": "ACTIVE", "origin": "USER", "importance": 3, "confidence": 1,
        "trust": 1, "revision": 1, "create_time": time, "update_time": time, "action": "CREATED",
    }  # fmt: skip
    values = st.one_of(st.sampled_from(TEXTS), st.sampled_from(NUMBERS), st.sampled_from(LONGS), st.none(), st.just([]))
    odd = st.dictionaries(st.sampled_from([*memory, "tags", "metadata", "message", "vectors", "x"]), values, max_size=2)
    lines = st.lists(odd.map(lambda fields: json.dumps(memory | fields)), max_size=3)
    texts = lines.map(lambda some: "\n".join([json.dumps(head), *some, ""]).encode())
    header = lifecycle_pb.ImportUserRequest(
        header=lifecycle_pb.ImportUserHeader(scope=types_pb.Scope(user_id=f"{USER}-file"))
    )
    sound = texts.map(lambda data: [header, lifecycle_pb.ImportUserRequest(data=data)])
    return st.one_of(sound, sound, st.lists(any_message, max_size=3))


def erasures() -> st.SearchStrategy[list[Any]]:
    """Return requests for an erasure that is only looked at: the other tests need the user."""
    return messages(METHODS["EraseUser"].descriptor.input_type).map(_unconfirmed)


def _unconfirmed(request: Any) -> list[Any]:
    request.confirm = False
    return [request]


def checks() -> st.SearchStrategy[list[Any]]:
    """Return requests for checks that remove files of the generated user alone: other tests need theirs."""
    return messages(METHODS["CheckIntegrity"].descriptor.input_type).map(_of_one_user)


def _of_one_user(request: Any) -> list[Any]:
    if request.all:
        request.remove_broken_refs = request.remove_orphan_files = False
    return [request]


STREAMS = {
    "ImportMemories": imports,
    "IngestDocument": documents,
    "ImportUser": user_files,
    "EraseUser": erasures,
    "UploadFile": uploads,
    "CheckIntegrity": checks,
}


@pytest.fixture(scope="module")
def stocked(stubs: Stubs) -> Stubs:
    """The stubs, once the generated user has memories and tokens of every sort."""
    memories = create_all(
        stubs, SCOPES[1], [types_pb.Memory(content="The walrus swims.", key="k", tags=["x"]), "walrus"]
    )
    private = types_pb.Memory(content="a private walrus", layer=types_pb.MEMORY_LAYER_SESSION)
    memories += create_all(stubs, SCOPES[2], [private, *(f"walrus {number}" for number in range(20))])
    talk = session_pb.CreateSessionRequest(scope=SCOPES[2], auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
    stubs.session.CreateSession(talk, timeout=TIMEOUT)
    KNOWN_IDS.extend(memory.id for memory in memories)
    KNOWN_IDS.extend(upload(stubs, scope, b"walrus", name=f"walrus {n}.txt").id for n, scope in enumerate(SCOPES * 4))
    for scope in SCOPES:
        listed = stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=scope, page_size=1), timeout=TIMEOUT)
        hits = stubs.search.Search(search_pb.SearchRequest(scope=scope, query="walrus", limit=1), timeout=TIMEOUT)
        context = stubs.search.RenderContext(
            search_pb.RenderContextRequest(scope=scope, query="walrus"), timeout=TIMEOUT
        )
        TOKENS.extend(filter(None, (listed.next_page_token, hits.next_page_token, context.summary.context_cursor)))
    return stubs


def counts(stubs: Stubs) -> tuple[Any, ...]:
    """Return what every change of a memory changes."""
    stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=SCOPES[1]), timeout=TIMEOUT)
    return (
        dict(stats.count_by_status), dict(stats.count_by_layer), dict(stats.count_by_kind), dict(stats.count_by_tier),
        stats.content_bytes, stats.chunk_count,
    )  # fmt: skip


def check(stubs: Stubs, method: Method, requests: Sequence[Any]) -> None:
    """Make one call, and look at what it says."""
    changes = any(word in method.name.lower() for word in ("memories", "memory", "session", "messages"))
    before = counts(stubs) if changes and not method.descriptor.client_streaming else None
    try:
        responses = method.responses(stubs, *requests, timeout=SECONDS)
    except grpc.RpcError as error:
        refusal = Refusal.from_error(error)
        assert refusal.code in CLIENT_FAULTS, (refusal, requests)
        assert refusal.reason or refusal.code is grpc.StatusCode.DEADLINE_EXCEEDED, (refusal, requests)
        if refusal.code is grpc.StatusCode.INVALID_ARGUMENT:
            assert refusal.fields, (refusal, requests)
            known = {field.name for field in method.descriptor.input_type.fields}
            assert {path.partition(".")[0].partition("[")[0] for path in refusal.fields} <= known, refusal
        if before is not None and refusal.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
            assert before == counts(stubs), (refusal, requests)
        return
    for response in responses:
        for result in (*getattr(response, "results", ()), *getattr(response, "failures", ())):
            # A flush has results of what it stored alone.
            if "status" in result.DESCRIPTOR.fields_by_name:
                assert result.status.code not in SERVER_FAULTS, (result, requests)
        assert not [
            lost for lost in getattr(response, "degraded", ()) if lost.reason == search_pb.DEGRADATION_REASON_FAILED
        ]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_request_makes_the_service_fail(stocked: Stubs, name: str) -> None:
    """The answer is OK or one of the client's own faults, with a reason; what is refused changes nothing."""
    method = METHODS[name]
    one = messages(method.descriptor.input_type).map(lambda request: [request])

    @settings(
        max_examples=min(EXAMPLES, STREAMED_OR_SLOW.get(name, EXAMPLES)),
        derandomize=MORE not in os.environ,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if MORE in os.environ else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests=STREAMS[name]() if name in STREAMS else one)
    def holds(requests: list[Any]) -> None:
        check(stocked, method, requests)

    holds()
