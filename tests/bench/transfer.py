"""Carrying a user from one service to another: the rates of export and import."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.results import Row, at_least
from tests.bench.seed import FillingError, run_import, searchable, settled
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Transfer"
_USER = "carried-000"
_MEMORIES, _QUICK_MEMORIES = 20_000, 2_000
_EXPORTED_PER_SECOND, _IMPORTED_PER_SECOND = 10_000.0, 3_000.0


async def measure_transfer(server: Server, dimension: int, plan: Plan, elsewhere: Path) -> list[Row]:
    """Store a user's memories with vectors, export them without and with vectors, and import them into a new service.

    That one keeps its data in the directory *elsewhere*.
    """
    lines = _QUICK_MEMORIES if plan.is_quick else _MEMORIES
    corpus = Corpus(users=1, lines=lines, dimension=dimension, prefix="carried")
    await run_import(server, asking.import_messages(_USER, corpus.lines(_USER)))
    await searchable(server)
    await settled(server)
    _, plain = await _export(server, include_vectors=False)
    file, full = await _export(server, include_vectors=True)
    async with running_server(elsewhere, plan.server) as other:
        stored, found = await _import(other, file)
    at = f"{corpus.size:,}".replace(",", " ")
    rates = [corpus.size / seconds for seconds in (plain, full, stored, found)]
    exported = at_least(rates[0], _EXPORTED_PER_SECOND, f"{_EXPORTED_PER_SECOND:g}/s")
    imported = at_least(rates[2], _IMPORTED_PER_SECOND, f"{_IMPORTED_PER_SECOND:g}/s")
    return [
        Row(PART, f"{at}: ExportUser", rates[0], "/s", targets=(exported,)),
        Row(PART, f"{at}: ExportUser with vectors", rates[1], "/s"),
        Row(PART, f"{at}: ImportUser with vectors, stored", rates[2], "/s", targets=(imported,)),
        Row(PART, f"{at}: ImportUser with vectors, searchable", rates[3], "/s"),
    ]


async def _export(server: Server, *, include_vectors: bool) -> tuple[list[bytes], float]:
    started = time.perf_counter()
    request = lifecycle_pb.ExportUserRequest(scope=types_pb.Scope(user_id=_USER), include_vectors=include_vectors)
    file = [response.data async for response in server.lifecycle.ExportUser(request)]
    return file, time.perf_counter() - started


async def _import(server: Server, file: list[bytes]) -> tuple[float, float]:
    """Return how long it takes until all is stored, and until searches find it."""

    async def sent() -> AsyncIterator[lifecycle_pb.ImportUserRequest]:
        header = lifecycle_pb.ImportUserHeader(scope=types_pb.Scope(user_id=_USER), wait_for=types_pb.WAIT_FOR_STORED)
        yield lifecycle_pb.ImportUserRequest(header=header)
        for data in file:
            yield lifecycle_pb.ImportUserRequest(data=data)

    started = time.perf_counter()
    last = lifecycle_pb.ImportUserResponse()
    async for response in server.lifecycle.ImportUser(sent()):
        last = response
    stored = time.perf_counter() - started
    if not last.done or last.skipped_count:
        raise FillingError(str(last))
    await searchable(server)
    return stored, time.perf_counter() - started
