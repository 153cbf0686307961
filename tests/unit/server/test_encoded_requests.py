"""Large requests: refused for what is too long before it is parsed, parsed in parts, and in turns."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.struct_pb2 import Struct

from memsvc.domain.errors import InvalidRequestError, LimitExceededError, Violation
from memsvc.domain.field_rules import JSON_TOO_LONG
from memsvc.domain.limits import METADATA_BYTES
from memsvc.server.call_context import Call
from memsvc.server.http.messages import JsonForm
from memsvc.server.interceptors import chain, encoded_requests
from memsvc.server.interceptors.chain import STEP_BYTES
from memsvc.server.interceptors.encoded_requests import (
    BURST_SECONDS,
    BYTES_PER_SECOND,
    MAX_WAITING,
    MOST_FIELDS,
    MOST_VALUES,
    PACED_SECONDS,
    PART_BYTES,
    ParseTurns,
    is_chunk,
    parse,
)
from memsvc.server.requests.decoder import STRUCT_BYTES, RequestDecoder
from memsvc.server.slots import SlotOptions
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb

LONG = {"k": "x" * STRUCT_BYTES}
LARGE = b"\xc2\x3e" + b"\xff\xff\x7f" + bytes(0x1FFFFF)
"""A field that no message has, which makes a request large."""
MiB = 1024 * 1024


def _memory(**metadata: str) -> types_pb.Memory:
    memory = types_pb.Memory(content="c" * 1000, tags=["t"] * 9, importance=3)
    memory.metadata.update(metadata)
    return memory


def _with_metadata(message: Message) -> Message:
    message.metadata.update(LONG)  # type: ignore[attr-defined]  # it has metadata
    return message


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (memory_pb.CreateMemoryRequest(scope=types_pb.Scope(user_id="a"), memory=_memory(**LONG)), "memory.metadata"),
        (_with_metadata(session_pb.CreateSessionRequest()), "metadata"),
        (
            file_pb.UploadFileRequest(header=_with_metadata(file_pb.UploadFileHeader())),  # type: ignore[arg-type]
            "header.metadata",
        ),
    ],
)
def test_long_metadata_is_found_without_parsing(request_: Message, field: str) -> None:
    """Wherever a message has it; the error names the field."""
    body = LARGE + request_.SerializeToString()
    with pytest.raises(InvalidRequestError, match=f"^{re.escape(field)}: must take at most") as refused:
        parse(body, type(request_).FromString)
    assert [one.field for one in refused.value.violations] == [field]


def test_metadata_in_pieces_is_one() -> None:
    """A parser merges fields that come twice."""
    pieces = [memory_pb.CreateMemoryRequest(memory=_memory(**{key: "x" * (STRUCT_BYTES // 2)})) for key in "ab"]
    decode = memory_pb.CreateMemoryRequest.FromString
    first, second = (types_pb.Memory(metadata=one.memory.metadata).SerializeToString() for one in pieces)
    parse(LARGE + pieces[0].SerializeToString(), decode)
    body = memory_pb.CreateMemoryRequest(memory=types_pb.Memory.FromString(first)).SerializeToString()
    tag, size = body[:1], len(first) + len(second)
    merged = tag + _varint(size) + first + second
    assert decode(merged).memory.metadata.ByteSize() > STRUCT_BYTES
    with pytest.raises(InvalidRequestError, match=r"memory\.metadata: "):
        parse(LARGE + merged, decode)


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def test_what_is_accepted_passes() -> None:
    """Long contents, metadata within its limit, and items of lists, each of which has a result of its own."""
    large = types_pb.Memory(content="文" * 900_000)
    large.metadata.update({"k": "x" * 10_000})
    one = memory_pb.CreateMemoryRequest(memory=large, vector=[0.5] * 384).SerializeToString()
    parse(LARGE + one, memory_pb.CreateMemoryRequest.FromString)
    item = memory_pb.BatchMemory(memory=_memory(**LONG))
    several = memory_pb.BatchCreateMemoriesRequest(memories=[item]).SerializeToString()
    parse(LARGE + several, memory_pb.BatchCreateMemoriesRequest.FromString)


def test_long_metadata_of_a_shorter_request_is_reported_with_its_other_problems() -> None:
    """It is replaced by a text that the decoder refuses as well."""
    body = memory_pb.CreateMemoryRequest(memory=_memory(**LONG)).SerializeToString()
    parsed = parse(body, memory_pb.CreateMemoryRequest.FromString)
    assert list(parsed.memory.metadata.fields) == [""]


@pytest.mark.parametrize(
    "body",
    [
        b"\x12", b"\x12\xff\xff\xff\xff\x0f", b"\x08\x01", b"\xff" * 20, bytes(9), b"\x0b\x0c", b"\x12\x03\xea\x01",
        b"\x12\x02" * 500_000, b"\x08\x01" * 500_000, b"\x12\x00" * 500_000,
    ],
)  # fmt: skip
def test_large_bytes_that_are_no_message_are_refused(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As shorter ones are. Only so many fields are looked at."""
    read = encoded_requests._varint
    reads = []

    def counted(body: bytes, at: int) -> tuple[int, int]:
        reads.append(at)
        return read(body, at)

    monkeypatch.setattr(encoded_requests, "_varint", counted)
    decode = memory_pb.CreateMemoryRequest.FromString
    is_message = body == b"\x08\x01"
    with nullcontext() if is_message else pytest.raises((DecodeError, InvalidRequestError)):
        parse(LARGE + body, decode)
    assert len(reads) <= 2 * MOST_FIELDS + 2


def _filtered() -> memory_pb.UpdateMemoriesRequest:
    request = memory_pb.UpdateMemoriesRequest(scope=types_pb.Scope(user_id="a"), dry_run=True)
    group = request.filter.where.negated.any_of
    for number in range(200):
        condition = group.expressions.add().condition
        condition.field, condition.metadata_path = filters_pb.FILTER_FIELD_METADATA, "a.b" * 300
        condition.values.add().number_value = number
    return request


def _batch() -> memory_pb.BatchCreateMemoriesRequest:
    items = [memory_pb.BatchMemory(memory=_memory(n="v" * (n % 2_000)), vector=[0.5] * 300) for n in range(300)]
    items[7].memory.content = "文" * 50_000
    items[8].memory.metadata.update({"list": [1.5] * 7_000})
    return memory_pb.BatchCreateMemoriesRequest(memories=items, request_id="r")


def _conversation() -> session_pb.AppendMessagesRequest:
    request = session_pb.AppendMessagesRequest(scope=types_pb.Scope(user_id="a", session_id="s"))
    for _ in range(4):
        message = request.messages.add(content="c" * 70_000)
        message.tool_calls.add(name="t").arguments.update({"k": ["v" * 20] * 5_000})
        message.event_time.FromMilliseconds(-1)
    return request


@pytest.mark.parametrize(
    "request_",
    [
        _filtered(),
        _batch(),
        _conversation(),
        memory_pb.CreateMemoryRequest(memory=types_pb.Memory(content="文" * 900_000), request_id="r"),
        file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(name="n" * PART_BYTES * 2)),
        file_pb.UploadFileRequest(data=bytes(PART_BYTES * 3)),
    ],
)
def test_parts_make_the_same_message(request_: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, messages in messages, and members of a oneof; no part is much longer than wanted."""
    body = request_.SerializeToString()
    assert len(body) > PART_BYTES
    assert parse(body, type(request_).FromString) == request_
    monkeypatch.setattr(encoded_requests, "PART_BYTES", 1_000)
    assert parse(body, type(request_).FromString) == request_


def test_a_part_may_replace_or_merge_an_earlier_one() -> None:
    """As in any parser: the last member of a oneof counts, and a message that comes twice is merged."""
    header = file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(name="n" * PART_BYTES * 2)).SerializeToString()
    data = file_pb.UploadFileRequest(data=b"d").SerializeToString()
    more = file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(media_type="m" * PART_BYTES * 2))
    for body in (header + data, data + header, header + more.SerializeToString(), header + data + header):
        assert parse(body, file_pb.UploadFileRequest.FromString) == file_pb.UploadFileRequest.FromString(body)


@pytest.mark.parametrize(
    ("body", "message", "problem"),
    [
        (b"\x12\x00" * 500_000, memory_pb.BatchCreateMemoriesRequest, "memories: has more than 1000 values"),
        (b"\x12\xc0\x84\x3d" + b"\x5a\x00" * 500_000, memory_pb.CreateMemoryRequest, "memory.tags: has more than"),
        (
            b"\x12\x00\x12\xc2\x84\x3d\x08\x02" + b"\x2a\x00" * 500_000,
            session_pb.AppendMessagesRequest,
            "messages[1].tool_calls: has more than",
        ),
        (b"\xc2\x3e\x00" * 300_000, memory_pb.CreateMemoryRequest, f"request: must have at most {MOST_FIELDS} fields"),
        (b"\x28\x01" * 500_000, memory_pb.CreateMemoryRequest, f"request: must have at most {MOST_FIELDS} fields"),
    ],
)
def test_too_many_values_are_refused_before_they_are_parsed(
    body: bytes, message: type[Message], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the list; no more of it is looked at than tells that."""
    read = encoded_requests._varint
    reads: list[int] = []

    def counted(body: bytes, at: int) -> tuple[int, int]:
        reads.append(at)
        return read(body, at)

    monkeypatch.setattr(encoded_requests, "_varint", counted)
    with pytest.raises(InvalidRequestError, match=f"^{re.escape(problem)}"):
        parse(body, message.FromString)
    assert len(reads) <= 2 * (MOST_FIELDS if "fields" in problem else MOST_VALUES) + 10


def test_long_metadata_of_an_item_is_not_parsed() -> None:
    """Only the item fails, for the length of its metadata."""
    items = [memory_pb.BatchMemory(memory=_memory(**LONG)), memory_pb.BatchMemory(memory=_memory(k="v"))]
    request = memory_pb.BatchCreateMemoriesRequest(memories=items)
    request.memories[0].memory.metadata.update({"list": [1.0] * 20_000})

    parsed = parse(request.SerializeToString(), memory_pb.BatchCreateMemoriesRequest.FromString)

    assert list(parsed.memories[0].memory.metadata.fields) == [""]
    assert parsed.memories[1] == request.memories[1]
    decoder = RequestDecoder()
    decoder.metadata("memory.metadata", parsed.memories[0].memory.metadata)
    assert "must take at most" in str(decoder.error())


@pytest.mark.parametrize(
    "end", [b"\x12", b"\x12\x05abc", b"\x0b\x0c", b"\x0f", b"\x12\x03\xea\x01", b"\x12\xff\xff\x03"]
)
def test_long_bytes_that_are_no_message_are_refused(end: bytes) -> None:
    """As shorter ones."""
    body = memory_pb.CreateMemoryRequest(request_id="r" * PART_BYTES).SerializeToString() + end
    with pytest.raises(DecodeError):
        parse(body, memory_pb.CreateMemoryRequest.FromString)


def test_messages_are_nested_only_so_deep() -> None:
    """A million levels of a filter would exhaust the stack."""
    body = b""
    for _ in range(20_000):
        body = b"\x1a" + _varint(len(body)) + body
    body = b"\xf2\x01" + _varint(len(body) + PART_BYTES + 4) + b"\x1a" + _varint(PART_BYTES) + body
    body = b"\x12" + _varint(len(body)) + body
    with pytest.raises(DecodeError):
        parse(body[: len(body) + 1], memory_pb.UpdateMemoriesRequest.FromString)


def test_chunks_of_uploads_are_known() -> None:
    """One field of bytes is nothing to parse."""
    decode = file_pb.UploadFileRequest.FromString
    assert is_chunk(file_pb.UploadFileRequest(data=b"x" * 1_000).SerializeToString(), decode)
    assert not is_chunk(file_pb.UploadFileRequest(data=b"x").SerializeToString() * 2, decode)
    assert not is_chunk(
        file_pb.UploadFileRequest(header=file_pb.UploadFileHeader(name="n")).SerializeToString(), decode
    )
    assert not is_chunk(b"", decode)
    assert not is_chunk(
        memory_pb.CreateMemoryRequest(request_id="r").SerializeToString(), memory_pb.CreateMemoryRequest.FromString
    )


class Parses:
    """Work of parsing, with the times at which it began."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.running = self.most = 0

    def of(self, seconds: float = 0.0) -> Callable[[], float]:
        """Return work that takes so long on the processor."""

        def run() -> float:
            self.running += 1
            self.most = max(self.most, self.running)
            self.times.append(time.monotonic())
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                pass
            self.running -= 1
            return seconds

        return run

    @property
    def gaps(self) -> Iterator[float]:
        return (later - earlier for earlier, later in pairwise(self.times))


def test_large_requests_of_a_tenant_are_parsed_one_after_another() -> None:
    """With pauses that depend on the time and on the size; those of other tenants do not wait for them."""

    async def run() -> Parses:
        turns, mine, other = ParseTurns(), Parses(), Parses()
        pending = [asyncio.create_task(turns.run("a", 1, mine.of(0.02))) for _ in range(4)]
        await turns.run("b", MiB * 16, other.of())
        assert len(mine.times) < 4
        assert await asyncio.gather(*pending) == [0.02] * 4
        await turns.run("b", 1, other.of())
        assert min(other.gaps) >= 0.5
        return mine

    parses = asyncio.run(run())
    assert parses.most == 1
    assert min(parses.gaps) >= 0.02 * (1 + encoded_requests.PAUSE_SHARE)


def test_only_so_many_wait_and_an_error_ends_a_turn() -> None:
    """What waits is held in memory. A request that cannot be parsed counts as any other."""

    async def run() -> list[BaseException | float]:
        turns, parses = ParseTurns(), Parses()

        def fail() -> float:
            raise InvalidRequestError([Violation("request", "")])

        work = [fail, *[parses.of(0.001)] * (MAX_WAITING + 3)]
        return await asyncio.gather(*(turns.run("a", 1, one) for one in work), return_exceptions=True)

    results = asyncio.run(run())
    assert isinstance(results[0], InvalidRequestError)
    assert results[1:MAX_WAITING] == [0.001] * (MAX_WAITING - 1)
    assert all(isinstance(one, LimitExceededError) for one in results[MAX_WAITING:])
    assert len(results[MAX_WAITING:]) == 4


def test_a_stream_alone_does_not_wait() -> None:
    """Several of a tenant share a rate; those of another tenant have their own."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    async def run() -> None:
        turns = ParseTurns(sleep)
        for _ in range(9):
            await turns.step("a", MiB)
        await asyncio.gather(*(turns.step(tenant, MiB) for tenant in ["a"] * 3 + ["b"]))

    asyncio.run(run())
    assert sorted(waits[:9]) == [0.0] * 9
    assert sorted(waits[9:]) == [0.0, 0.0, 0.0, 1 / 64]


def test_requests_of_medium_size_share_a_rate() -> None:
    """A burst passes at once, then a tenant waits for its rate; what would wait for too long is refused."""
    waits: list[float] = []
    now = [100.0]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        turns = ParseTurns(sleep, lambda: now[0])
        for _ in range(12):
            await turns.pace("a", BYTES_PER_SECOND // 8)
        assert waits == pytest.approx([(n + 1) / 8 for n in range(10)])
        await turns.pace("b", MiB)
        for _ in range(6):
            await turns.pace("a", BYTES_PER_SECOND // 8)
        with pytest.raises(LimitExceededError) as refused:
            await turns.pace("a", BYTES_PER_SECOND // 8)
        assert refused.value.retry_seconds == pytest.approx(1 / 8)
        now[0] += PACED_SECONDS + 1
        del waits[:]
        await turns.pace("a", BYTES_PER_SECOND // 8)
        assert waits == []

    asyncio.run(run())


def test_json_weighs_by_its_values() -> None:
    """A value takes as long to decode as hundreds of bytes; commas in texts count too."""
    form = JsonForm(memory_pb.CreateMemoryRequest, MiB)
    assert form.weight(b'{"memory":{"content":"' + b"x" * 1_000_000 + b'"}}') < 2**24
    assert form.weight(b"[" + b"0," * 5_500) > encoded_requests.LARGE_BYTES
    assert form.weight(b"{}" * 200) > PART_BYTES


def test_json_counts_in_the_rate_by_its_weight() -> None:
    """Requests just below 256 KiB held up other calls 50 times as long as usual."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    form = JsonForm(memory_pb.CreateMemoryRequest, MiB)
    body = b'{"memory":{"content":"' + b"x" * 200_000 + b'"}}'
    seconds = form.weight(body) / BYTES_PER_SECOND
    burst = int(BURST_SECONDS / seconds)

    async def run() -> None:
        turns = ParseTurns(sleep, lambda: 100.0)
        for _ in range(burst + 2):
            call = Call("CreateMemory", body, None, form=form)  # type: ignore[arg-type]
            await chain._received(turns, lambda call: call, call)
            assert call.is_heavy

    asyncio.run(run())
    assert waits == pytest.approx([(burst + n) * seconds - BURST_SECONDS for n in (1, 2)])


@pytest.mark.parametrize("values", [b"\x0a\x00" * 60_000, b"\x0a\x04\x32\x02\x0a\x00" * 20_000])
def test_only_so_many_values_of_metadata_are_read(values: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the longest JSON text has; empty ones take two bytes of a request."""
    struct = Struct()
    struct.fields["k"].list_value.MergeFromString(values)
    assert struct.ByteSize() <= STRUCT_BYTES
    read: list[object] = []
    monkeypatch.setattr("memsvc.server.requests.decoder.scalar_from_proto", read.append)
    decoder = RequestDecoder()

    assert decoder.metadata("metadata", struct) == {}

    assert str(decoder.error()) == f"metadata: {JSON_TOO_LONG}"
    assert len(read) <= METADATA_BYTES // 2


def test_no_more_values_of_a_list_are_read_than_it_may_hold() -> None:
    """The rest is counted."""

    class Texts(list[str]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError

    decoder = RequestDecoder()
    texts = Texts(["a", "b", "a"] * 100_000)
    assert decoder.texts("tags", texts, count=3, most=9) == ("a", "b")
    assert len(decoder.uuids("ids", texts, count=2)) == 2
    assert "must hold at most 3 values, not 300000" in str(decoder.error())


def test_short_messages_of_streams_count_for_more_than_their_size() -> None:
    """Millions of single bytes would take the event loop as long as gigabytes."""
    bodies = [file_pb.UploadFileRequest(data=b"x" * size).SerializeToString() for size in (1, 1, STEP_BYTES * 2)]
    sizes: list[int] = []

    class Turns(ParseTurns):
        async def step(self, tenant_id: str, size: int) -> None:
            sizes.append(size)

    async def arriving() -> AsyncIterator[bytes]:
        for body in bodies:
            yield body

    async def run() -> list[Message]:
        context: Any = None
        call = Call("UploadFile", arriving(), context, True)
        decode = file_pb.UploadFileRequest.FromString
        return [message async for message in chain._readable(SlotOptions(), Turns(), decode, call)]

    assert [len(message.data) for message in asyncio.run(run())] == [1, 1, STEP_BYTES * 2]  # type: ignore[attr-defined]
    assert sizes == [STEP_BYTES, STEP_BYTES, len(bodies[2])]
