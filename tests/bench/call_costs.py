"""Processor time of the server per call, as a multiple of an empty `grpc.aio` call; throughput beside another version."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.echo_server import ECHO, echo_server
from tests.bench.load_generators import Load, concurrent_load
from tests.bench.results import Row, Sample, Target, at_least, at_most
from tests.bench.seed import fill, searchable, settled, vector_dimension
from tests.bench.server import ROOT, SEARCH_SERVICE, Server, running_server, usage
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Cost of calls"
USERS = 10
ROUNDS = 3
_SEARCH = f"/{SEARCH_SERVICE}/Search"
_CREATE = "/memsvc.v1.MemoryService/CreateMemory"
_GET = "/memsvc.v1.MemoryService/GetMemory"
_HYBRID, _STORED = "Search hybrid, vector given", "CreateMemory STORED, vector given"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of call.

    Attributes:
        clients: The number of concurrent clients.
        most: The bound of its processor time in empty calls; None: no bound.
        least_gain: The bound of its rate as a multiple of the other version's; None: no bound.
        tail: The bound of its 99th percentile as a multiple of its median; None: no bound.
    """

    name: str
    method: str
    clients: int
    most: float | None = None
    least_gain: float | None = None
    tail: float | None = None

    @property
    def title(self) -> str:
        """Return the name of its rows."""
        return f"{self.name}, clients: {self.clients}"


KINDS = (
    _Kind("GetMemory", _GET, 1, most=2.5),
    _Kind("GetMemory", _GET, 16, most=2.5),
    _Kind(_HYBRID, _SEARCH, 1, most=8.0),
    _Kind(_HYBRID, _SEARCH, 16, most=8.0, least_gain=1.8, tail=4.0),
    _Kind("Search keyword", _SEARCH, 1, most=9.0),
    _Kind("Search keyword", _SEARCH, 16, most=9.0),
    _Kind("Search hybrid, text alone", _SEARCH, 1),
    _Kind(_STORED, _CREATE, 1),
    _Kind(_STORED, _CREATE, 16, most=7.0, least_gain=1.6),
)


@dataclass(slots=True)
class _Service:
    """A running server, its data, and what was measured of it: loads and processor milliseconds by kind."""

    server: Server
    corpus: Corpus
    ids: list[tuple[str, str]]
    loads: dict[_Kind, list[tuple[Load, float]]]


async def measure_call_costs(plan: Plan, told: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Call an empty server, ours and, if the plan names one, ours of another checkout in turn, in several rounds."""
    roots = [ROOT, *([plan.beside] if plan.beside else [])]
    step = told(f"{plan.sizes[0]}: cost of calls", ROUNDS * len(roots) * len(KINDS))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="memsvc-bench-")))
        empty = await stack.enter_async_context(echo_server(folder))
        services = [
            await stack.enter_async_context(_service(folder / str(number), root, plan))
            for number, root in enumerate(roots)
        ]
        floors: list[float] = []
        for number in range(ROUNDS):
            for service in services if number else ():
                # What was written in the round before is linked and compared in the background.
                await settled(service.server)
            floors.append(await _floor(empty, plan))
            for kind in KINDS:
                for service in services:
                    await _measure(service, kind, number, plan.searches)
                    step()
    return _rows(services, statistics.median(floors), f"{plan.sizes[0]:,}".replace(",", " "))


@asynccontextmanager
async def _service(directory: Path, root: Path, plan: Plan) -> AsyncIterator[_Service]:
    """Start a server of the checkout and fill it."""
    async with running_server(directory, plan.server, root=root) as server:
        corpus = Corpus(users=USERS, lines=plan.sizes[0] // USERS, dimension=await vector_dimension(server))
        await fill(server, [asking.import_messages(user, corpus.lines(user)) for user in corpus.users])
        await settled(server)
        ids = []
        for user in corpus.users:
            listed = await server.memories.ListMemories(
                memory_pb.ListMemoriesRequest(scope=asking.scope(user), page_size=50)
            )
            ids += [(user, one.id) for one in listed.memories]
        yield _Service(server, corpus, ids, {kind: [] for kind in KINDS})


async def _floor(empty: tuple[str, int], plan: Plan) -> float:
    """Return the milliseconds of processor time of an empty call, by one client and by many together."""
    address, pid = empty
    spent = []
    for clients in (1, 16):
        before = usage(pid).cpu_seconds
        calls = 8 * plan.searches
        await concurrent_load(address, ECHO, [b"x" * 100] * calls, clients=clients)
        spent.append((usage(pid).cpu_seconds - before) / calls * 1000.0)
    return statistics.mean(spent)


async def _measure(service: _Service, kind: _Kind, number: int, calls: int) -> None:
    requests = _requests(service, kind, f"{kind.title} {number}", calls)
    await searchable(service.server)
    before = usage(service.server.process.pid).cpu_seconds
    load = await concurrent_load(service.server.address, kind.method, requests, clients=kind.clients)
    spent = (usage(service.server.process.pid).cpu_seconds - before) / len(requests) * 1000.0
    service.loads[kind].append((load, spent))


def _requests(service: _Service, kind: _Kind, purpose: str, calls: int) -> Sequence[bytes]:
    """Return encoded requests of a kind; questions and memories are new for each *purpose*, so no cache has them."""
    corpus = service.corpus
    if kind.method == _GET:
        wanted = [service.ids[number % len(service.ids)] for number in range(4 * calls)]
        return [
            memory_pb.GetMemoryRequest(scope=asking.scope(user), id=one).SerializeToString() for user, one in wanted
        ]
    if kind.method == _CREATE:
        written = Corpus(
            users=USERS, lines=calls // USERS, dimension=corpus.dimension, prefix=purpose.replace(" ", "-")
        )
        return [
            asking.create(user, line, types_pb.WAIT_FOR_STORED).SerializeToString()
            for user in written.users
            for line in written.lines(user)
        ]
    make = {_HYBRID: asking.hybrid, "Search keyword": asking.keyword}.get(kind.name, asking.by_text)
    return [make(one).SerializeToString() for one in corpus.questions(calls, purpose=purpose)]


def _rows(services: Sequence[_Service], floor: float, size: str) -> list[Row]:
    rows = [Row(PART, f"{size}: empty grpc.aio call, processor time", floor, "ms")]
    ours, *others = services
    for kind in KINDS:
        spent = statistics.median(one for _, one in ours.loads[kind])
        bounds = [at_most(spent, kind.most * floor, f"{kind.most:g} empty calls")] if kind.most else []
        rows.append(Row(PART, f"{size}: {kind.title}, processor time", spent, "ms", floor=floor, targets=tuple(bounds)))
        rows.append(_rate(ours, others, kind, size))
        if kind.tail:
            sample = Sample.of([one for load, _ in ours.loads[kind] for one in load.seconds])
            rows.append(
                Row(
                    PART, f"{size}: {kind.title}, p99 / p50", sample.p99 / sample.p50, "×", sample,
                    targets=(at_most(sample.p99 / sample.p50, kind.tail, f"{kind.tail:g}"),),
                )
            )  # fmt: skip
    return rows


def _rate(ours: _Service, others: Sequence[_Service], kind: _Kind, size: str) -> Row:
    rate, name = _median_rate(ours, kind), f"{size}: {kind.title}, rate"
    if not others:
        return Row(PART, name, rate, "calls/s")
    other = _median_rate(others[0], kind)
    gain = rate / other
    bounds: tuple[Target, ...] = ()
    if kind.least_gain:
        bounds = (at_least(gain, kind.least_gain, f"{kind.least_gain:g} × the other version"),)
    return Row(PART, f"{name} beside the other version", rate, "calls/s", floor=other, targets=bounds)


def _median_rate(service: _Service, kind: _Kind) -> float:
    return statistics.median(load.per_second for load, _ in service.loads[kind])
