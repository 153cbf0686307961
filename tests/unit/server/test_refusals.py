"""Refused calls: one line for many in the logs, and a delay for callers with forged keys."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import grpc
import pytest

from memsvc.domain import limits
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.domain.errors import InvalidRequestError
from memsvc.server import call_context
from memsvc.server.call_context import Call, Principal
from memsvc.server.interceptors import rules
from memsvc.server.interceptors.audit import Audit
from memsvc.server.interceptors.authentication import (
    LONGEST_REFUSAL_SECONDS,
    MAX_DELAYED_BYTES,
    REFUSAL_BURST,
    REFUSAL_SECONDS,
    REFUSALS_PER_SECOND,
    RefusalBrake,
)
from memsvc.server.interceptors.encoded_requests import count_fields
from memsvc.server.interceptors.rules import MOST_FIELDS, REFUSED_LINES, RefusalSummary, ServerRules
from memsvc.server.server import utc_now
from memsvc.v1 import search_service_pb2 as search_pb
from tests.support.until import PATIENCE_SECONDS

FORGED, DENIED, OK = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.OK
SECONDS = 0.05


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "REFUSED_SECONDS", SECONDS)


def test_many_refusals_share_a_line() -> None:
    """The first of an interval have lines of their own; the rest are counted, by code and address."""
    sums: list[dict[str, Any]] = []

    async def run() -> tuple[int, int]:
        written = asyncio.Event()

        def write(**line: Any) -> None:
            sums.append(line)
            written.set()

        summary = RefusalSummary(write)
        first = sum(summary.has_own_line(FORGED, f"ipv4:192.0.2.7:{port}") for port in range(500))
        summary.has_own_line(grpc.StatusCode.RESOURCE_EXHAUSTED, "unix:")
        await asyncio.wait_for(written.wait(), PATIENCE_SECONDS)
        return first, sum(summary.has_own_line(FORGED, "ipv4:192.0.2.7:1") for _ in range(3))

    assert asyncio.run(run()) == (REFUSED_LINES, 3)
    [line] = sums
    assert line["count"] == 500 - REFUSED_LINES + 1
    assert line["codes"] == {"UNAUTHENTICATED": 500 - REFUSED_LINES, "RESOURCE_EXHAUSTED": 1}
    assert line["peers"]["ipv4:192.0.2.7"] == 500 - REFUSED_LINES


@pytest.mark.parametrize("code", [OK, DENIED, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL])
def test_other_calls_keep_their_lines(code: grpc.StatusCode) -> None:
    """Whatever else a call ends with is logged one by one, and an interval without refusals has no line."""
    sums: list[dict[str, Any]] = []

    async def run() -> bool:
        summary = RefusalSummary(lambda **line: sums.append(line))
        found = [summary.has_own_line(code, "unix:") for _ in range(500)]
        summary.flush()
        return all(found)

    assert asyncio.run(run())
    assert not sums


@pytest.mark.parametrize("searches", [0, 1, 32, 33, 100_000])
def test_searches_of_a_batch_are_counted_before_they_are_parsed(searches: int) -> None:
    """Up to twice the limit; the rest is not looked at."""
    body = search_pb.BatchSearchRequest(searches=[search_pb.SearchRequest(query="q")] * searches).SerializeToString()
    assert count_fields(body, MOST_FIELDS) == min(searches, MOST_FIELDS)


@pytest.mark.parametrize("body", [b"\x12", b"\x12\xff\xff\xff\xff\x0f", b"\x08\x01", b"\xff" * 20, bytes(9)])
def test_bytes_that_are_no_message_are_counted_too(body: bytes) -> None:
    """They are refused when they are parsed."""
    assert count_fields(body, MOST_FIELDS) <= 1


@pytest.mark.parametrize(
    ("method", "size"),
    [("Search", limits.BODY), ("ListMemories", limits.BODY), ("BatchSearch", limits.SEARCHES_BODY)],
)
def test_requests_without_content_are_small(method: str, size: int) -> None:
    """Larger ones are refused by their size, before anything is done with them; those with content are not."""
    for name, body, is_refused in ((method, bytes(size), False), (method, bytes(size + 1), True)):
        call = Call(name, body, Caller())  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match=r"request: has .* bytes") if is_refused else nullcontext():
            asyncio.run(ServerRules(Recorder(), now=utc_now, default_seconds=1).admit(call))
    call = Call("CreateMemory", bytes(size + 1), Caller())  # type: ignore[arg-type]
    asyncio.run(ServerRules(Recorder(), now=utc_now, default_seconds=1).admit(call))


class Recorder:
    """A recorder of latencies that keeps none."""

    def record(self, *_: object, **__: object) -> None:
        pass


class Caller:
    """What the audit log asks of a call's context."""

    def peer(self) -> str:
        return "ipv4:192.0.2.7:1"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}


class Lines:
    """A sink that keeps what is noted."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.summed = asyncio.Event()

    def note(self, **line: object) -> None:
        self.lines.append(line)
        if "count" in line:
            self.summed.set()


def test_the_audit_log_is_complete_for_callers_with_a_key() -> None:
    """Every refusal of a key that exists has a line; those without a valid key share one."""
    sink = Lines()

    async def run() -> None:
        audit = Audit(sink)

        async def end(call: Call) -> None:
            call.code = FORGED if not call_context.principal.get().key_id else DENIED

        for principal in (Principal(), Principal("acme", "key", ApiKeyRole.READ_ONLY)):
            call_context.principal.set(principal)
            for _ in range(100):
                call = Call("CreateMemory", search_pb.SearchRequest(), Caller())  # type: ignore[arg-type]
                await audit.intercept(call, end)
        await asyncio.wait_for(sink.summed.wait(), PATIENCE_SECONDS)

    asyncio.run(run())
    assert [line["key_id"] for line in sink.lines if "count" not in line] == [""] * REFUSED_LINES + ["key"] * 100
    assert [line["count"] for line in sink.lines if "count" in line] == [100 - REFUSED_LINES]


def test_few_refusals_are_not_delayed_and_many_are() -> None:
    """Beyond the burst each waits; after a pause they are answered at once again."""
    slept: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def refuse(brake: RefusalBrake, count: int) -> int:
        slept.clear()
        for _ in range(count):
            await brake.slow_down()
        return len(slept)

    async def run() -> list[int]:
        nonlocal now
        brake = RefusalBrake(lambda: now, sleep)
        found = [await refuse(brake, int(REFUSAL_BURST)), await refuse(brake, 20)]
        now += 2 * REFUSAL_BURST / REFUSALS_PER_SECOND
        return [*found, await refuse(brake, int(REFUSAL_BURST))]

    assert asyncio.run(run()) == [0, 20, 0]


def test_the_more_are_delayed_the_longer() -> None:
    """Of one caller, so that refusals take no more of the processor; another caller does not wait for them."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.Event().wait()

    async def run() -> None:
        brake = RefusalBrake(lambda: 0.0, sleep)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(brake.slow_down("evil")) for _ in range(int(REFUSAL_BURST) + 900)]
            await asyncio.sleep(0)
            await brake.slow_down("acme")
            for task in tasks:
                task.cancel()

    asyncio.run(run())
    assert len(slept) == 900
    assert max(slept[:20]) <= 1.5 * REFUSAL_SECONDS
    assert min(slept[-100:]) >= LONGEST_REFUSAL_SECONDS / 2


def test_only_so_many_bytes_are_delayed() -> None:
    """gRPC keeps a request until it is answered: large ones are refused at once then, and small ones are delayed."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.Event().wait()

    async def run() -> int:
        brake = RefusalBrake(lambda: 0.0, sleep)
        for _ in range(int(REFUSAL_BURST)):
            await brake.slow_down()
        size = MAX_DELAYED_BYTES // 4
        tasks = [
            asyncio.create_task(brake.slow_down(str(n % 2), size=size)) for n in range(2 * int(REFUSAL_BURST) + 20)
        ]
        tasks += [asyncio.create_task(brake.slow_down()) for _ in range(5)]
        await asyncio.sleep(0)
        done = sum(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert not brake._delayed_bytes
        return done

    assert asyncio.run(run()) == 2 * int(REFUSAL_BURST) + 16
    assert len(slept) == 4 + 5


def test_delays_differ() -> None:
    """Calls that were refused at the same moment come back at different ones."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def run() -> None:
        brake = RefusalBrake(lambda: 0.0, sleep)
        for _ in range(int(REFUSAL_BURST) + 50):
            await brake.slow_down()

    asyncio.run(run())
    assert len(set(slept)) == len(slept) == 50
    assert all(REFUSAL_SECONDS / 2 <= seconds <= REFUSAL_SECONDS * 1.5 for seconds in slept)
