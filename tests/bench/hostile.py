"""A well-behaved user beside a caller of another tenant who sends the worst that the limits allow.

`python -m tests.bench.hostile ADDRESS ATTACK KEY ...` is the process of that caller: it attacks until it is killed.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from google.protobuf.message import Message
from grpc import StatusCode, aio

from memsvc.bootstrap.offline import offline_keys
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.settings import load_settings
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.results import Row, Sample, at_most
from tests.bench.server import running_server, usage
from tests.bench.settings import Plan

Reply = TypeVar("Reply", bound=Message)

PART = "Hostile"
CALLERS, UPLOADS, WATCHES, BODIES, DOCUMENTS, FORGED = 8, 64, 1_000, 3, 8, 200
BODY_BYTES = 13_000_000
ITEMS = 1_000_000
BATCH = 1_000
SHARE = 4.0
"""How many times its usual p95 a call of the well-behaved user may take."""
MEMORY_MB = 150.0
MEMORIES = 400
PAUSE_SECONDS = 0.02
REST_SECONDS = 60.0
OURS, THEIRS = "acme", "evil"
PLACE = types_pb.Scope(user_id="ada")
FILE_BYTES = bytes(range(256)) * 256
NOTES = (
    "Anna moved to Lisbon in spring {0} and works at the harbour.",
    "The backup number {0} of the database ran at midnight.",
    "小明在第 {0} 周去了杭州，喝了龙井茶。",
    "办公椅第 {0} 号的发票三月份已经付款了。",
)
QUESTIONS = ("Where does Anna work?", "When do backups run?", "小明喝了什么茶？", "椅子的发票付了吗？")


# The well-behaved user.


@dataclass(slots=True)
class Neighbour:
    """Calls of one user, one after another; how long each took, and which failed."""

    channel: aio.Channel
    metadata: aio.Metadata
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    number: int = 0

    async def behave(self, seconds: float) -> None:
        """Make calls of every sort in turn for so long."""
        until = time.perf_counter() + seconds
        for name, call in cycle(self._calls().items()):
            if time.perf_counter() > until:
                return
            self.number += 1
            began = time.perf_counter()
            try:
                await asyncio.wait_for(call(), 60)
            except (aio.AioRpcError, TimeoutError) as error:
                self.failures.append(f"{name}: {error.code() if isinstance(error, aio.AioRpcError) else error!r}")
            else:
                self.seconds[name].append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)

    def _calls(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        return {
            "search": lambda: self._search(search_pb.SEARCH_MODE_HYBRID),
            "keyword search": lambda: self._search(search_pb.SEARCH_MODE_KEYWORD),
            "create": self.create,
            "list": self._list,
            "upload and download": self._file,
            "watch": self._watch,
        }

    async def create(self) -> object:
        """Write a memory and wait until it is searchable."""
        content = NOTES[self.number % len(NOTES)].format(f"{self.number}-{time.time_ns()}")
        request = memory_pb.CreateMemoryRequest(scope=PLACE, memory=types_pb.Memory(content=content))
        return await self._unary("Memory", "CreateMemory", request, memory_pb.CreateMemoryResponse)

    async def _search(self, mode: search_pb.SearchMode.ValueType) -> object:
        query = f"{QUESTIONS[self.number % len(QUESTIONS)]} {self.number}"
        request = search_pb.SearchRequest(scope=PLACE, query=query, mode=mode)
        found = await self._unary("Search", "Search", request, search_pb.SearchResponse)
        if found.degraded or not found.hits:
            self.failures.append(f"search: degraded {found.degraded}" if found.degraded else "search: no hits")
        return found

    async def _list(self) -> object:
        request = memory_pb.ListMemoriesRequest(scope=PLACE, page_size=20)
        return await self._unary("Memory", "ListMemories", request, memory_pb.ListMemoriesResponse)

    async def _file(self) -> object:
        call = self.channel.stream_unary(
            "/memsvc.v1.FileService/UploadFile",
            file_pb.UploadFileRequest.SerializeToString,
            file_pb.UploadFileResponse.FromString,
        )
        stored = await call(iter(_upload(PLACE, f"note-{self.number}.txt")), metadata=self.metadata)
        request = file_pb.DownloadFileRequest(scope=PLACE, id=stored.file.id)
        download = self.channel.unary_stream(
            "/memsvc.v1.FileService/DownloadFile",
            file_pb.DownloadFileRequest.SerializeToString,
            file_pb.DownloadFileResponse.FromString,
        )
        return [message async for message in download(request, metadata=self.metadata)]

    async def _watch(self) -> object:
        watch = self.channel.unary_stream(
            "/memsvc.v1.MemoryService/WatchMemories",
            memory_pb.WatchMemoriesRequest.SerializeToString,
            memory_pb.WatchMemoriesResponse.FromString,
        )(memory_pb.WatchMemoriesRequest(scope=PLACE), metadata=self.metadata)
        message = await watch.read()
        watch.cancel()
        return message

    async def _unary(self, service: str, method: str, request: Message, reply: type[Reply]) -> Reply:
        call = _unary(self.channel, f"/memsvc.v1.{service}Service/{method}", reply)
        return await call(request.SerializeToString(), metadata=self.metadata)


def _unary(channel: aio.Channel, path: str, reply: type[Reply]) -> aio.UnaryUnaryMultiCallable[bytes, Reply]:
    """Return a method of requests that are encoded already."""
    return channel.unary_unary(path, None, reply.FromString)


def _metadata(key: str) -> aio.Metadata:
    return aio.Metadata(("authorization", f"Bearer {key}"))


def _upload(place: types_pb.Scope, name: str) -> Iterator[file_pb.UploadFileRequest]:
    header = file_pb.UploadFileHeader(scope=place, name=name)
    yield file_pb.UploadFileRequest(header=header)
    yield file_pb.UploadFileRequest(data=FILE_BYTES)


# What is measured.


async def measure_hostile(plan: Plan, told: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Measure the usual calls of a user, then the same calls during each attack, and the memory before and after."""
    seconds = 5.0 if plan.is_quick else 20.0
    step = told("hostile neighbour", len(ATTACKS) + 2)
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        directory = Path(folder) / "data"
        keys = _make_keys(directory)
        async with running_server(directory, {"access.keys": "required", **plan.server}) as server:
            async with _calling(server.address, keys[0]) as neighbour:
                await asyncio.gather(*(_prepare(neighbour, number) for number in range(4)))
                await neighbour.behave(seconds / 2)
                neighbour.seconds.clear()
                await neighbour.behave(2 * seconds)
                usual = {name: Sample.of(found) for name, found in neighbour.seconds.items()}
                rows = [_usual_row(name, sample) for name, sample in usual.items()]
                before = usage(server.process.pid).resident_bytes
                step()
                for attack in ATTACKS:
                    rows += await _during(attack, server.address, keys, neighbour, usual, seconds)
                    step()
                largest = usage(server.process.pid).resident_bytes
                after = await _rested(server.process.pid, before, REST_SECONDS / (4 if plan.is_quick else 1))
                step()
    kept = (after - before) / 2**20
    return [
        *rows,
        Row(PART, "resident memory before", before / 2**20, "MiB"),
        Row(PART, "resident memory at the end of the attacks", largest / 2**20, "MiB"),
        Row(PART, "memory not given back", kept, "MiB", targets=(at_most(kept, MEMORY_MB, f"{MEMORY_MB:g} MiB"),)),
    ]


def _make_keys(directory: Path) -> list[str]:
    """Return the texts of the keys: that of the well-behaved user, then those of the other tenant."""
    directory.mkdir(parents=True)
    with offline_keys(load_settings(data_dir=directory)) as keys:
        new = [NewApiKey(name=OURS, role=ApiKeyRole.READ_WRITE, tenant_id=OURS)]
        new += [NewApiKey(name=f"{THEIRS} {n}", role=ApiKeyRole.READ_WRITE, tenant_id=THEIRS) for n in range(CALLERS)]
        return [keys.create(one).text for one in new]


async def _prepare(neighbour: Neighbour, number: int) -> None:
    for one in range(MEMORIES // 4):
        content = NOTES[number].format(one)
        request = memory_pb.CreateMemoryRequest(scope=PLACE, memory=types_pb.Memory(content=content))
        await neighbour._unary("Memory", "CreateMemory", request, memory_pb.CreateMemoryResponse)


def _usual_row(name: str, sample: Sample) -> Row:
    return Row(PART, f"{name}, usual", sample.p50, "ms", sample)


async def _during(
    attack: str,
    address: str,
    keys: Sequence[str],
    neighbour: Neighbour,
    usual: Mapping[str, Sample],
    seconds: float,
) -> list[Row]:
    """Behave while an attack is under way; return a row for each sort of call, and one of the failures."""
    neighbour.seconds.clear()
    neighbour.failures.clear()
    async with _attacking(attack, address, keys[1:]):
        await neighbour.behave(seconds)
    rows = []
    for name, found in neighbour.seconds.items():
        sample = Sample.of(found)
        bound = SHARE * usual[name].p95
        target = at_most(sample.p95, bound, f"{SHARE:g} × its usual p95")
        rows.append(Row(PART, f"{name} p95 during {attack}", sample.p95, "ms", sample, usual[name].p95, (target,)))
    failed = float(len(neighbour.failures))
    name = f"failures during {attack}" + (f" ({neighbour.failures[0]})" if failed else "")
    return [*rows, Row(PART, name, failed, "", targets=(at_most(failed, 0.0, "0"),))]


async def _rested(pid: int, before: int, seconds: float) -> int:
    """Return the resident memory after a rest, which ends when it is as small as wanted."""
    found = before
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        found = usage(pid).resident_bytes
        if found - before <= MEMORY_MB * 2**20:
            break
    return found


@asynccontextmanager
async def _calling(address: str, key: str) -> AsyncIterator[Neighbour]:
    async with aio.insecure_channel(address, options=_OPTIONS) as channel:
        yield Neighbour(channel, _metadata(key))


# The other caller, in a process of its own.


_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


@asynccontextmanager
async def _attacking(attack: str, address: str, keys: Sequence[str]) -> AsyncIterator[Process]:
    """Run an attack while the context is open; return when it has begun."""
    command = [sys.executable, "-m", "tests.bench.hostile", address, attack, *keys]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert process.stdout
        await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _repeat(call: Callable[[], Awaitable[object]]) -> None:
    """Call again and again, whatever is answered."""
    while True:
        try:
            await call()
        except aio.AioRpcError as error:
            # A slot that another call of ours holds is not free at once.
            await asyncio.sleep(1 if error.code() is StatusCode.RESOURCE_EXHAUSTED else 0.01)


def _evil(number: int) -> types_pb.Scope:
    return types_pb.Scope(user_id=f"eve-{number}")


def _queries(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return searches for the longest texts that have the most tokens, none of them twice."""
    chance = random.Random(number)
    texts: tuple[Callable[[], str], ...] = (
        lambda: "".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(8_192)),
        lambda: chance.choice("abcdef") + "a." * 4_095,
        lambda: " ".join(f"{chance.getrandbits(16):x}" for _ in range(1_600)),
        lambda: "".join(chr(chance.randrange(0x1F600, 0x1F640)) for _ in range(8_192)),
    )
    modes = (search_pb.SEARCH_MODE_HYBRID, search_pb.SEARCH_MODE_SEMANTIC, search_pb.SEARCH_MODE_KEYWORD)
    search = _unary(channel, "/memsvc.v1.SearchService/Search", search_pb.SearchResponse)

    def ask() -> Awaitable[object]:
        query = chance.choice(texts)()[:8_192]
        request = search_pb.SearchRequest(scope=_evil(number), query=query, mode=chance.choice(modes))
        return search(request.SerializeToString(), metadata=_metadata(key))

    return [ask]


def _silent_uploads(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return uploads that send nothing."""

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.sleep(3_600)
        yield b""

    upload: aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(
        "/memsvc.v1.FileService/UploadFile", None, None
    )
    return [lambda: upload(nothing(), metadata=_metadata(key))] * (UPLOADS // CALLERS)


def _watches(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return watches that are read."""
    request = memory_pb.WatchMemoriesRequest(scope=_evil(number)).SerializeToString()
    watch: aio.UnaryStreamMultiCallable[bytes, bytes]
    watch = channel.unary_stream("/memsvc.v1.MemoryService/WatchMemories", None, None)

    async def read() -> object:
        return [message async for message in watch(request, metadata=_metadata(key))]

    return [read] * (WATCHES // CALLERS)


def _bodies(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return writes of metadata that is far too large, by three of the callers."""
    if number >= BODIES:
        return []
    memory = types_pb.Memory(content="x")
    memory.metadata.update({"list": [float(one) for one in range(BODY_BYTES // 13)]})
    body = memory_pb.CreateMemoryRequest(scope=_evil(number), memory=memory).SerializeToString()
    create = _unary(channel, "/memsvc.v1.MemoryService/CreateMemory", memory_pb.CreateMemoryResponse)
    return [lambda: create(body, metadata=_metadata(key))]


def _tags(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return writes of a million tags, all empty."""
    memory = types_pb.Memory(content="x", tags=[""] * ITEMS)
    body = memory_pb.CreateMemoryRequest(scope=_evil(number), memory=memory).SerializeToString()
    create = _unary(channel, "/memsvc.v1.MemoryService/CreateMemory", memory_pb.CreateMemoryResponse)
    return [lambda: create(body, metadata=_metadata(key))]


def _documents(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return ingestion of a document of a million list items, each with a title of its own."""
    data = b"- a\n" * ITEMS
    ingest = channel.stream_unary(
        "/memsvc.v1.MemoryService/IngestDocument",
        memory_pb.IngestDocumentRequest.SerializeToString,
        memory_pb.IngestDocumentResponse.FromString,
    )

    async def send() -> object:
        header = memory_pb.DocumentHeader(scope=_evil(number), name=f"{time.time_ns()}.md")
        parts = [memory_pb.IngestDocumentRequest(header=header)]
        parts += [memory_pb.IngestDocumentRequest(data=data[at : at + 1_000_000]) for at in range(0, len(data), 10**6)]
        return await ingest(iter(parts), metadata=_metadata(key))

    return [send]


def _batches(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return batches of the largest size, of texts that are new, each waiting until it is searchable."""
    create = _unary(channel, "/memsvc.v1.MemoryService/BatchCreateMemories", memory_pb.BatchCreateMemoriesResponse)

    def write() -> Awaitable[object]:
        moment = time.time_ns()
        texts = [f"{NOTES[one % len(NOTES)].format(one)} {number} {moment}" for one in range(BATCH)]
        memories = [memory_pb.BatchMemory(memory=types_pb.Memory(content=text)) for text in texts]
        request = memory_pb.BatchCreateMemoriesRequest(scope=_evil(number), memories=memories)
        return create(request.SerializeToString(), metadata=_metadata(key))

    return [write]


def _forged_keys(channel: aio.Channel, number: int, key: str) -> list[Callable[[], Awaitable[object]]]:
    """Return calls with keys that nobody made."""
    request = search_pb.SearchRequest(scope=_evil(number), query="x").SerializeToString()
    search = _unary(channel, "/memsvc.v1.SearchService/Search", search_pb.SearchResponse)

    def forge() -> Awaitable[object]:
        return search(request, metadata=_metadata(f"{key[:-12]}{random.getrandbits(48):012x}"))

    return [forge] * (FORGED // CALLERS)


ATTACKS: Mapping[str, Callable[[aio.Channel, int, str], list[Callable[[], Awaitable[object]]]]] = {
    f"{CALLERS} callers with the longest queries": _queries,
    f"{UPLOADS} silent uploads": _silent_uploads,
    f"{WATCHES} watches": _watches,
    f"{BODIES} bodies of 13 MB": _bodies,
    f"{CALLERS} bodies of a million empty tags": _tags,
    f"{FORGED} forged keys": _forged_keys,
    f"{DOCUMENTS} documents of a million list items": _documents,
    f"{CALLERS} callers with batches of 1 000 memories": _batches,
}


async def attack(address: str, name: str, keys: Sequence[str]) -> None:
    """Attack until the process is killed; say so once it has begun."""
    channels = [aio.insecure_channel(address, options=(*_OPTIONS, ("grpc.use_local_subchannel_pool", 1))) for _ in keys]
    calls = [
        call
        for n, (channel, key) in enumerate(zip(channels, keys, strict=True))
        for call in ATTACKS[name](channel, n, key)
    ]
    tasks = [asyncio.create_task(_repeat(call)) for call in calls]
    await asyncio.sleep(1)
    print("begun", flush=True)  # noqa: T201 - the reader waits for it
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(attack(sys.argv[1], sys.argv[2], sys.argv[3:]))
