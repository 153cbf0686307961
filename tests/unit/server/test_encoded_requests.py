"""Large requests: refused for long metadata before they are parsed, and parsed in turns."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from google.protobuf.message import Message

from memsvc.domain.errors import InvalidRequestError, LimitExceededError, Violation
from memsvc.server.interceptors import encoded_requests
from memsvc.server.interceptors.encoded_requests import MAX_WAITING, ParseTurns, refuse_long_metadata
from memsvc.server.requests.decoder import STRUCT_BYTES
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb

LONG = {"k": "x" * STRUCT_BYTES}
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
    body = request_.SerializeToString()
    with pytest.raises(InvalidRequestError, match=f"^{re.escape(field)}: must take at most") as refused:
        refuse_long_metadata(body, type(request_).FromString)
    assert [one.field for one in refused.value.violations] == [field]


def test_metadata_in_pieces_is_one() -> None:
    """A parser merges fields that come twice."""
    pieces = [memory_pb.CreateMemoryRequest(memory=_memory(**{key: "x" * (STRUCT_BYTES // 2)})) for key in "ab"]
    decode = memory_pb.CreateMemoryRequest.FromString
    first, second = (types_pb.Memory(metadata=one.memory.metadata).SerializeToString() for one in pieces)
    refuse_long_metadata(pieces[0].SerializeToString(), decode)
    body = memory_pb.CreateMemoryRequest(memory=types_pb.Memory.FromString(first)).SerializeToString()
    tag, size = body[:1], len(first) + len(second)
    merged = tag + _varint(size) + first + second
    assert decode(merged).memory.metadata.ByteSize() > STRUCT_BYTES
    with pytest.raises(InvalidRequestError, match=r"memory\.metadata: "):
        refuse_long_metadata(merged, decode)


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
    refuse_long_metadata(one, memory_pb.CreateMemoryRequest.FromString)
    item = memory_pb.BatchMemory(memory=_memory(**LONG))
    several = memory_pb.BatchCreateMemoriesRequest(memories=[item]).SerializeToString()
    refuse_long_metadata(several, memory_pb.BatchCreateMemoriesRequest.FromString)


@pytest.mark.parametrize(
    "body",
    [
        b"\x12", b"\x12\xff\xff\xff\xff\x0f", b"\x08\x01", b"\xff" * 20, bytes(9), b"\x0b\x0c", b"\x12\x03\xea\x01",
        b"\x12\x02" * 500_000, b"\x08\x01" * 500_000, b"\x12\x00" * 500_000,
    ],
)  # fmt: skip
def test_bytes_that_are_no_message_pass(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused when they are parsed. Only so many fields are looked at."""
    read = encoded_requests._varint
    reads = []

    def counted(body: bytes, at: int) -> tuple[int, int]:
        reads.append(at)
        return read(body, at)

    monkeypatch.setattr(encoded_requests, "_varint", counted)
    refuse_long_metadata(body, memory_pb.CreateMemoryRequest.FromString)
    assert len(reads) <= 2 * encoded_requests._WALKED_FIELDS


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
