"""Wrong input over the wire: refused with the path of everything that is wrong, and nothing is changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import grpc
import pytest
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.wrong_input.requests import (
    ID,
    SCOPED,
    Filter,
    Memory,
    Scope,
    condition,
    deep,
    nested,
    requests,
    right,
    text,
    where,
)
from tests.e2e.wrong_input.table import table
from tests.support.descriptors import METHODS
from tests.support.history import plain
from tests.support.rpc import TIMEOUT, Refusal, create, list_all, refused
from tests.support.server_process import ServerProcess, Stubs


@pytest.fixture(scope="module")
def stocked(stubs: Stubs) -> types_pb.Scope:
    """The scope of a user who has something that could be changed."""
    scope = Scope(user_id=f"wrong-{uuid.uuid4()}")
    create(stubs, scope, "a", key="k")
    return scope


def seen(stubs: Stubs, scope: types_pb.Scope) -> list[types_pb.Memory]:
    """Return what is there, without the traces of reading: what another test of the module read is counted later."""
    return [plain(memory) for memory in list_all(stubs, scope)]


def _required() -> Iterator[tuple[str, str]]:
    """Yield every field of a request that its .proto file marks as required."""
    for name in requests(Scope()):
        for one in METHODS[name].descriptor.input_type.fields:
            if FieldBehavior.REQUIRED in one.GetOptions().Extensions[field_behavior]:
                yield name, one.name


@pytest.mark.parametrize(("name", "field"), list(_required()))
def test_fields_marked_as_required_are(stubs: Stubs, stocked: types_pb.Scope, name: str, field: str) -> None:
    """Without it, a request that is right otherwise is refused, and the field is named."""
    fields = {each: value for each, value in right(name, stocked).items() if each != field and value is not None}
    refusal = refused(METHODS[name].call(stubs), METHODS[name].request(**fields))

    assert grpc.StatusCode.INVALID_ARGUMENT is refusal.code
    assert field in {path.split(".")[0].split("[")[0] for path in refusal.fields}


TABLE = list(table())


@pytest.mark.parametrize("name", sorted({wrong.method for wrong in TABLE}))
@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_wrong_input_is_refused_by_its_path(
    stubs: Stubs, binary_stubs_over_http: Stubs, stocked: types_pb.Scope, name: str, transport: str
) -> None:
    """INVALID_ARGUMENT names everything that is wrong, and nothing else; nothing is changed."""
    asking = stubs if transport == "grpc" else binary_stubs_over_http
    method, right_fields = METHODS[name], right(name, stocked)
    before = seen(stubs, stocked)
    for wrong in (wrong for wrong in TABLE if wrong.method == name):
        fields = {field: value for field, value in (right_fields | wrong.fields).items() if value is not None}
        refusal = refused(method.call(asking), method.request(**fields))

        assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason), (wrong, refusal)
        assert sorted(wrong.paths) == sorted(refusal.fields), wrong
    assert before == seen(stubs, stocked)


def test_what_is_right_is_taken(stubs: Stubs, stocked: types_pb.Scope) -> None:
    """The requests that the wrong ones are made of do not fail for their form."""
    for name in {wrong.method for wrong in TABLE}:
        method = METHODS[name]
        try:
            method.responses(stubs, method.request(**right(name, stocked)), timeout=TIMEOUT)
        except grpc.RpcError as error:
            assert error.code() in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION}, name


def test_no_more_than_50_violations_are_told(stubs: Stubs, stocked: types_pb.Scope) -> None:
    """All at once, but never more than the trailers hold."""
    tags = [""] * 32
    keywords = [types_pb.Keyword(weight=2)] * 32
    request = memory_pb.CreateMemoryRequest(scope=stocked, memory=Memory(tags=tags, keywords=keywords))
    refusal = refused(stubs.memory.CreateMemory, request)

    assert grpc.StatusCode.INVALID_ARGUMENT == refusal.code
    assert 30 <= len(refusal.fields) <= 50


@pytest.mark.parametrize("length", [1_000_000, 999_999])
def test_the_longest_content_is_taken_whole(stubs: Stubs, scope: types_pb.Scope, length: int) -> None:
    """A million characters, stored, read, found."""
    content = ("汉字 and words, " * 80_000)[: length - 7] + " walrus"
    memory = create(stubs, scope, content)

    assert content == memory.content
    hits = stubs.search.Search(search_pb.SearchRequest(scope=scope, query="walrus"), timeout=TIMEOUT).hits
    assert ["walrus"] == [hits[0].snippet[span.start : span.end] for span in hits[0].spans]


NO_MESSAGE, NO_UNICODE = b"\xff\xff\xff", b"\x0a\x03\x0a\x01\xff"


@pytest.mark.parametrize(("garbage", "methods"), [(NO_MESSAGE, sorted(METHODS)), (NO_UNICODE, sorted(SCOPED))])
def test_bytes_that_are_no_request_are_refused(server: ServerProcess, garbage: bytes, methods: list[str]) -> None:
    """They reach no handler, and are the client's fault, not the service's."""
    with server.channel() as channel:
        for method in methods:
            call = channel.stream_stream(f"/{METHODS[method].descriptor.containing_service.full_name}/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                list(call(iter([garbage]), timeout=TIMEOUT))
            refusal = Refusal.from_error(caught.value)

            assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason), method
            assert "google" not in refusal.message


def test_everything_said_to_be_a_limit_is_allowed(stubs: Stubs, user: str) -> None:
    """A memory with every field at its limit, an expression as deep and wide as allowed."""
    scope = Scope(
        user_id=user + "u" * (128 - len(user)), project_id="p" * 128, agent_id="a" * 128, session_id="s" * 128
    )
    create(
        stubs, scope, "x", key="k" * 256, category="c" * 64, speaker="s" * 128, title="t" * 512, summary="s" * 16_384,
        tags=[f"{number:064}" for number in range(32)], source="s" * 256, importance=5, confidence=1.0,
        keywords=[types_pb.Keyword(term=f"{number:064}", weight=1) for number in range(32)],
        related_ids=[str(uuid.uuid4()) for _ in range(64)], ttl=Duration(seconds=36_500 * 86_400),
        file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_TEMP, id=f"{number:0256}") for number in range(64)],
        event_time=Timestamp(seconds=253_402_300_799, nanos=999_999_999), metadata=deep(8),
    )  # fmt: skip
    group = filters_pb.FilterGroup(expressions=[condition(6, 2, text(f"{number}")) for number in range(256)])
    for chosen in (where(nested(8)), where(filters_pb.FilterExpression(all_of=group)), Filter(ids=[ID] * 256)):
        stubs.memory.ListMemories(
            memory_pb.ListMemoriesRequest(scope=scope, filter=chosen, page_size=1_000), timeout=TIMEOUT
        )
        stubs.search.Search(
            search_pb.SearchRequest(
                scope=scope, query="x " * 4_096, keywords=["k" * 64] * 32, limit=100, filter=chosen
            ),
            timeout=TIMEOUT,
        )
