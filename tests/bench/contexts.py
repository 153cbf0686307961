"""Contexts and the quick load over gRPC, of one user with 2 000 memories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.load_generators import WARM_UP, one_by_one, undisturbed
from tests.bench.results import Row, Sample, at_most, timed
from tests.bench.server import Server
from tests.bench.synthetic_corpus import Corpus, Question

PART = "Contexts"
PROJECT = "bench"
SESSION = "now"
_CORE, _ACTIVE, _PREFERENCES, _NOTES, _MESSAGES = 10, 20, 10, 20, 20
_LOAD_MS, _FIRST_MS, _WHOLE_MS = 3.0, 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Streamed:
    """How long a stream took to its first item, and in all."""

    first: float
    whole: float


async def measure_contexts(server: Server, corpus: Corpus, count: int, told: Callable[[], None]) -> list[Row]:
    """Give a user what a context is made of, then load it and build contexts with a given vector."""
    user = corpus.users[0]
    await _settle(server, user)
    scope = types_pb.Scope(user_id=user, project_id=PROJECT, session_id=SESSION)
    loads = [search_pb.LoadCoreRequest(scope=scope)] * (count + WARM_UP)
    loaded = Sample.of(await one_by_one(server.searches.LoadCore, loads))
    told()
    questions = [one for one in corpus.questions(count * len(corpus.users), purpose="context") if one.user == user]
    streamed = await _streams(server, [_request(scope, one) for one in questions[: count + WARM_UP]])
    first, whole = (Sample.of([getattr(one, name) for one in streamed]) for name in ("first", "whole"))
    told()
    at = f"{corpus.size:,}".replace(",", " ")
    return [
        timed(PART, f"{at}: LoadCore", loaded, targets=[at_most(loaded.p50, _LOAD_MS, "3 ms")]),
        timed(PART, f"{at}: BuildContext, first item", first, targets=[at_most(first.p50, _FIRST_MS, "10 ms")]),
        timed(PART, f"{at}: BuildContext, whole", whole, targets=[at_most(whole.p50, _WHOLE_MS, "20 ms")]),
    ]


def _request(scope: types_pb.Scope, question: Question) -> search_pb.BuildContextRequest:
    return search_pb.BuildContextRequest(scope=scope, query=question.text, vector=question.vector.tolist())


async def _streams(server: Server, requests: list[search_pb.BuildContextRequest]) -> list[Streamed]:
    found = []
    with undisturbed():
        for request in requests:
            started = time.perf_counter()
            first = 0.0
            async for event in server.searches.BuildContext(request):
                if not first and event.HasField("items"):
                    first = time.perf_counter() - started
            found.append(Streamed(first, time.perf_counter() - started))
    return found[min(WARM_UP, len(found) - 1) :]


async def _settle(server: Server, user: str) -> None:
    for start in range(0, len(memories := [*_memories()]), 50):
        batch = memory_pb.BatchCreateMemoriesRequest(
            scope=types_pb.Scope(user_id=user),
            memories=[memory_pb.BatchMemory(memory=memory) for memory in memories[start : start + 50]],
        )
        await server.memories.BatchCreateMemories(batch)


def _memories() -> Iterator[types_pb.Memory]:
    project = types_pb.Scope(project_id=PROJECT)
    talk = types_pb.Scope(project_id=PROJECT, session_id=SESSION)
    for number in range(_CORE):
        where = project if number % 2 else None
        yield types_pb.Memory(content=f"Rule {number} says how things are done here.", scope=where, layer=1)  # type: ignore[arg-type]  # an enum
    for number in range(_ACTIVE):
        yield types_pb.Memory(content=f"Work {number} is going on this week.", scope=project, tier=2)  # type: ignore[arg-type]
    for number in range(_PREFERENCES):
        yield types_pb.Memory(content=f"Taste {number} is for something of its own.", kind=2)  # type: ignore[arg-type]
    for number in range(_NOTES):
        yield types_pb.Memory(content=f"Note {number}: what was done on the day.", scope=project, layer=3)  # type: ignore[arg-type]
    for number in range(_MESSAGES):
        yield types_pb.Memory(
            content=f"Message {number} of what is spoken now.",
            scope=talk,
            layer=types_pb.MEMORY_LAYER_SESSION,
            kind=types_pb.MEMORY_KIND_MESSAGE,
            speaker="user",
        )
