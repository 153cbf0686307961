"""Searches over HTTP beside the same ones over gRPC: by JSON, as curl sends it, and by binary messages of Connect."""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyqwest
from google.protobuf import json_format

from tests.bench import requests as asking
from tests.bench.load_generators import side_by_side, undisturbed
from tests.bench.results import Row, Sample, at_least, at_most
from tests.bench.seed import fill, settled, vector_dimension
from tests.bench.server import SEARCH_SERVICE, running_server, usage
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus, Question

PART = "HTTP"
USERS, CALLERS, ROUNDS = 10, 16, 3
GRPC, JSON, BINARY = "gRPC", "JSON over HTTP", "Connect, binary"
MOST_MORE_MS, LEAST_SHARE = 1.5, 0.5
Call = Callable[[Question], Awaitable[object]]


async def measure_http(plan: Plan, told: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Ask one question after the other by each transport in turn, then by many callers at once."""
    size = plan.sizes[0]
    step = told(f"{size}: HTTP", plan.searches + ROUNDS * 3)
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        address = f"127.0.0.1:{free_port()}"
        async with running_server(Path(folder) / "data", {**plan.server, "http.address": address}) as server:
            corpus = Corpus(users=USERS, lines=size // USERS, dimension=await vector_dimension(server))
            await fill(server, [asking.import_messages(user, corpus.lines(user)) for user in corpus.users])
            await settled(server)
            client = pyqwest.Client()
            url = f"http://{address}/{SEARCH_SERVICE}/Search"

            async def by_grpc(question: Question) -> object:
                return await server.searches.Search(asking.by_text(question))

            # Written before: how long a client takes for its own JSON is no part of the transport.
            asked = corpus.questions(plan.searches, purpose="http")
            bodies = {one.text: json_format.MessageToJson(asking.by_text(one)).encode() for one in asked}

            async def by_json(question: Question) -> object:
                content = bodies[question.text]
                return await client.post(url, headers={"content-type": "application/json"}, content=content)

            async def by_binary(question: Question) -> object:
                body = asking.by_text(question).SerializeToString()
                return await client.post(url, headers={"content-type": "application/proto"}, content=body)

            calls: dict[str, Call] = {GRPC: by_grpc, JSON: by_json, BINARY: by_binary}
            rows = _latency_rows(await _in_turn(calls, asked, step), size)
            rates: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    # The vectors of questions that were asked before are cached: what is compared is the transport.
                    before = usage(server.process.pid).cpu_seconds
                    _, seconds = await side_by_side(call, asked, callers=CALLERS)
                    spent = usage(server.process.pid).cpu_seconds - before
                    rates[name].append((len(asked) / seconds, spent / len(asked) * 1000.0))
                    step()
    return rows + _rate_rows(rates, size)


def free_port() -> int:
    """Return a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def _in_turn(
    calls: dict[str, Call], questions: list[Question], step: Callable[[], None]
) -> dict[str, list[float]]:
    """Return the seconds of each call; the first transport asks each question twice, so that its vector is cached."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with undisturbed():
        for question in questions:
            await calls[GRPC](question)
            for name, call in calls.items():
                started = time.perf_counter()
                await call(question)
                seconds[name].append(time.perf_counter() - started)
            step()
    return seconds


def _latency_rows(seconds: dict[str, list[float]], size: int) -> list[Row]:
    sizes = f"{size:,}".replace(",", " ")
    samples = {name: Sample.of(each) for name, each in seconds.items()}
    floor = samples[GRPC].p50
    rows = []
    for name, sample in samples.items():
        p50 = sample.p50
        bounds = () if name == GRPC else (at_most(p50 - floor, MOST_MORE_MS, f"{MOST_MORE_MS} ms above gRPC"),)
        rows.append(
            Row(
                PART,
                f"{sizes}: search by text, its vector cached, {name}",
                p50,
                "ms",
                sample,
                floor=floor,
                targets=bounds,
            )
        )
    return rows


def _rate_rows(rates: dict[str, list[tuple[float, float]]], size: int) -> list[Row]:
    sizes = f"{size:,}".replace(",", " ")
    median = {name: statistics.median(rate for rate, _ in each) for name, each in rates.items()}
    spent = {name: statistics.median(cost for _, cost in each) for name, each in rates.items()}
    rows = []
    for name, rate in median.items():
        share = rate / median[GRPC]
        bounds = () if name == GRPC else (at_least(share, LEAST_SHARE, f"{LEAST_SHARE} of gRPC"),)
        title = f"{sizes}: search by text, {name}, clients: {CALLERS}"
        rows.append(Row(PART, f"{title}, rate", rate, "calls/s", floor=median[GRPC], targets=bounds))
        rows.append(Row(PART, f"{title}, processor time", spent[name], "ms", floor=spent[GRPC]))
    return rows
