"""Concurrent clients, which are in processes of their own: rates and percentiles of searches and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.load_generators import Load, concurrent_load, one_by_one
from tests.bench.results import Row, Sample
from tests.bench.seed import fill, searchable, settled, vector_dimension
from tests.bench.server import SEARCH_SERVICE, running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Concurrency"
CLIENTS = (1, 4, 16, 64)
STEPS = 3 * len(CLIENTS)
USERS = 50
_SEARCH = f"/{SEARCH_SERVICE}/Search"
_CREATE = "/memsvc.v1.MemoryService/CreateMemory"
_WRITERS = 20
"""Users to whom the memories of one measurement are written."""
_VECTOR_FACTOR, _OTHER_FACTOR = 4, 2
"""Calls of a measurement, as multiples of the searches of the plan."""


async def measure_concurrency(plan: Plan, told: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Search and write with each number of clients, at the smallest size of the plan; writes come last."""
    size = plan.sizes[0]
    at = f"{size:,}".replace(",", " ")
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with running_server(Path(folder) / "data", plan.server) as server:
            corpus = Corpus(users=USERS, lines=size // USERS, dimension=await vector_dimension(server))
            step = told(f"{size}: import for concurrent clients", USERS)
            await fill(server, [asking.import_messages(user, corpus.lines(user)) for user in corpus.users], told=step)
            await settled(server)
            await one_by_one(server.searches.Search, [asking.by_text(one) for one in corpus.questions(30, purpose="c")])
            step = told(f"{size}: concurrent clients", STEPS)
            rows = []
            for name, method, clients, requests in _measurements(corpus, plan.searches):
                await searchable(server)
                load = await concurrent_load(server.address, method, requests, clients=clients)
                rows += _rows(f"{at}: {name}, clients: {clients}", load)
                step()
    return rows


def _measurements(corpus: Corpus, searches: int) -> Iterator[tuple[str, str, int, Sequence[bytes]]]:
    """Yield the name, the method, the number of clients and the encoded requests of each measurement.

    Every measurement has questions or memories of its own, so that no cache knows them.
    """
    for clients in CLIENTS:
        asked = corpus.questions(_VECTOR_FACTOR * searches, purpose=f"vector {clients}")
        yield "Search hybrid, vector given", _SEARCH, clients, [asking.hybrid(one).SerializeToString() for one in asked]
    for clients in CLIENTS:
        asked = corpus.questions(_OTHER_FACTOR * searches, purpose=f"text {clients}")
        yield "Search hybrid, text alone", _SEARCH, clients, [asking.by_text(one).SerializeToString() for one in asked]
    for clients in CLIENTS:
        written = Corpus(
            users=_WRITERS,
            lines=_OTHER_FACTOR * searches // _WRITERS,
            dimension=corpus.dimension,
            prefix=f"clients-{clients}",
        )
        lines = {user: written.lines(user) for user in written.users}
        creates = [
            asking.create(user, lines[user][number], types_pb.WAIT_FOR_STORED).SerializeToString()
            for number in range(written.lines_per_user)
            for user in written.users
        ]
        yield "CreateMemory STORED, vector given", _CREATE, clients, creates


def _rows(name: str, load: Load) -> list[Row]:
    sample = Sample.of(load.seconds)
    values = {
        "QPS": load.per_second,
        "p50 ms": sample.p50,
        "p95 ms": sample.p95,
        "p99 ms": sample.p99,
        "refused": load.refused,
    }
    return [Row(PART, name, value, unit) for unit, value in values.items()]
