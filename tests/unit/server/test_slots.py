"""Slots of tenants, keys and users, and turns of calls on threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context

import pytest

from memsvc.domain.errors import LimitExceededError, LimitKind
from memsvc.server import call_context
from memsvc.server.call_context import ANONYMOUS, Call, Principal
from memsvc.server.slots import (
    Admission,
    AdmissionCounts,
    CallClass,
    SlotOptions,
    Slots,
    Turns,
    WaitBounds,
    user_of_bytes,
)
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.until import PATIENCE_SECONDS

OPTIONS = SlotOptions(tenant_share=0.75, key_share=0.5)


def admission(bounds: WaitBounds | None = None, clock: Callable[[], float] = time.monotonic) -> Admission:
    return Admission(OPTIONS, bounds or WaitBounds(), AdmissionCounts(), clock=clock)


class Ticks:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def caller(key: str, tenant: str = "acme") -> Principal:
    return Principal(tenant, key)


@contextmanager
def calling(principal: Principal) -> Iterator[None]:
    """Be the caller while the context is open."""
    before = call_context.principal.set(principal)
    try:
        yield
    finally:
        call_context.principal.reset(before)


def held(slots: Slots, principal: Principal, stack: ExitStack, most: int = 99) -> int:
    """Take as many slots as the caller can have; return how many."""
    for number in range(most):
        try:
            with calling(principal):
                stack.enter_context(slots.acquired())
        except LimitExceededError:
            return number
    return most


def test_neither_a_key_nor_a_tenant_takes_all() -> None:
    """A key has half of the slots, the keys of a tenant three quarters, and another tenant the rest."""
    slots = Slots(8, OPTIONS, name="watches")
    with ExitStack() as stack:
        assert held(slots, caller("one"), stack) == 4
        assert held(slots, caller("two"), stack) == 2
        assert held(slots, caller("three"), stack) == 0
        assert held(slots, caller("theirs", "other"), stack) == 2

    with ExitStack() as stack:
        assert held(slots, caller("two"), stack) == 4


@pytest.mark.parametrize(("principal", "limit"), [(caller("one"), "server.key_share"), (ANONYMOUS, "8 watches")])
def test_the_limit_is_named(principal: Principal, limit: str) -> None:
    """The refusal says which limit was met, and how to set it."""
    slots = Slots(8, OPTIONS, name="watches")
    with ExitStack() as stack:
        held(slots, principal, stack)
        with calling(principal), pytest.raises(LimitExceededError, match=limit), slots.acquired():
            pass


def test_without_keys_users_have_shares() -> None:
    """A user has three quarters of the slots, rounded up, and others the rest; callers of no user have them all."""
    slots = Slots(8, OPTIONS, name="watches")
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(slots.acquired("eve"))
        with pytest.raises(LimitExceededError, match=r"6 of 8 watches by one user .*server\.tenant_share"):
            stack.enter_context(slots.acquired("eve"))
        for _ in range(2):
            stack.enter_context(slots.acquired("ada"))
    with ExitStack() as stack:
        assert held(Slots(8, OPTIONS, name="watches"), ANONYMOUS, stack) == 8
        assert held(Slots(1, OPTIONS, name="watches"), caller("one"), stack) == 1


class Calls:
    """Searches of several keys that hold a thread until they are told to end."""

    def __init__(self, threads: int, queued: int, rules: Admission | None = None) -> None:
        self.rules = rules or admission()
        self.turns = Turns(CallClass.SEARCH, threads, queued, self.rules, name="searches")
        self.running: list[str] = []
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(
        self, name: str, principal: Principal = ANONYMOUS, *, user: str = "", method: str = "Search"
    ) -> asyncio.Task[None]:
        """Begin a search, and let it come as far as it can."""
        self._ends[name] = asyncio.Event()
        body = search_pb.SearchRequest(scope=types_pb.Scope(user_id=user), query="x").SerializeToString()
        call_context.current.set(Call(method, body, None))  # type: ignore[arg-type]
        with calling(principal):
            self.tasks[name] = asyncio.create_task(self._search(name))
        # Those that are refused are not asked for their error in every test.
        self.tasks[name].add_done_callback(lambda task: task.cancelled() or task.exception())
        await self.settle()
        return self.tasks[name]

    async def end(self, *names: str) -> None:
        """End searches."""
        for name in names:
            self._ends[name].set()
            await self.settle()

    async def settle(self) -> None:
        """Let every task do what it can."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def _search(self, name: str) -> None:
        turn = self.turns.arrive()
        if not turn.taken:
            await self.turns.wait(turn)
        try:
            turn.run(self.running.append, name)
            self.order.append(name)
            await self._ends[name].wait()
            self.running.remove(name)
        finally:
            self.turns.leave(turn)


def test_a_flood_of_one_tenant_leaves_threads_to_another() -> None:
    """Of four threads its two keys have three; a search of another tenant begins at once."""

    async def run() -> list[str]:
        calls = Calls(4, 16)
        for number in range(6):
            await calls.begin(f"a{number}", caller("a", "evil"))
            await calls.begin(f"b{number}", caller("b", "evil"))
        await calls.begin("ours", caller("ours"))
        found = list(calls.running)
        await calls.end(*(name for name in list(calls.tasks)))
        return found

    assert asyncio.run(run()) == ["a0", "b0", "a1", "ours"]


def test_keys_take_turns() -> None:
    """Whoever waits with one search waits for one of each other key, not for all that were asked before."""

    async def run() -> list[str]:
        calls = Calls(2, 16)
        for number in range(5):
            await calls.begin(f"a{number}", caller("a"))
        await calls.begin("b0", caller("b"))
        await calls.end("a0", "a1", "b0")
        await calls.end(*(f"a{number}" for number in range(5)))
        return calls.order

    order = asyncio.run(run())
    assert order.index("b0") <= 2
    assert len(order) == 6


def test_too_many_that_wait_are_refused_and_those_who_leave_make_room() -> None:
    """Only the key that has filled its line is refused; a cancelled search takes no turn."""

    async def run() -> tuple[bool, list[str]]:
        calls = Calls(2, 4)
        for number in range(3):
            await calls.begin(f"a{number}", caller("a"))
        refused = await calls.begin("a3", caller("a"))
        was_refused = isinstance(refused.exception(), LimitExceededError)
        calls.tasks["a1"].cancel()
        await calls.settle()
        await calls.begin("a4", caller("a"))
        await calls.begin("b0", caller("b"))
        await calls.end("a0", "a2", "a4", "b0")
        await calls.begin("last", caller("b"))
        await calls.end("last")
        return was_refused, calls.order

    was_refused, order = asyncio.run(run())
    assert was_refused
    assert "a1" not in order
    assert order[0] == "a0"
    assert {"a2", "a4", "b0", "last"} <= set(order)


def test_a_call_that_is_cancelled_as_it_gets_a_slot_passes_it_on() -> None:
    """The call that has ended just then does not fail, and the next one in the line begins."""

    async def run() -> tuple[BaseException | None, list[str], int]:
        calls = Calls(1, 16)
        for number in range(4):
            await calls.begin(f"a{number}")
        calls._ends["a0"].set()
        calls.tasks["a2"].cancel()
        await calls.settle()
        running = list(calls.running)
        await calls.end("a1", "a3")
        return calls.tasks["a0"].exception(), running, calls.turns._slots.held

    assert asyncio.run(run()) == (None, ["a1", "a3"], 0)


def test_a_call_that_is_cancelled_as_it_makes_room_harms_no_other() -> None:
    """The call that it makes room for takes its place in the line."""

    async def run() -> tuple[bool, list[str]]:
        calls = Calls(1, 4)
        for number in range(6):
            await calls.begin(f"eve{number}", user="eve")
        coming = asyncio.create_task(calls.begin("ada", user="ada"))
        await asyncio.sleep(0)
        calls.tasks["eve5"].cancel()
        task = await coming
        is_waiting = not task.done()
        await calls.end(*calls.tasks)
        return is_waiting, calls.order

    is_waiting, order = asyncio.run(run())
    assert is_waiting
    assert "ada" in order
    assert "eve5" not in order


def test_without_keys_users_take_turns() -> None:
    """A user who waits with one call is next, whatever another has asked for before."""

    async def run() -> list[str]:
        calls = Calls(1, 16)
        for number in range(6):
            await calls.begin(f"eve{number}", user="eve")
        await calls.begin("ada0", user="ada")
        await calls.begin("小明0", user="小明")
        await calls.end("eve0", "eve1", "eve2")
        await calls.end(*calls.tasks)
        return calls.order

    order = asyncio.run(run())
    assert set(order[:5]) == {"eve0", "eve1", "eve2", "ada0", "小明0"}
    assert len(order) == 8


def test_a_full_queue_is_shared_by_users() -> None:
    """The latest call of the user with most of those that wait makes room for that of another."""

    async def run() -> tuple[list[bool], LimitKind]:
        calls = Calls(1, 4)
        for number in range(6):
            await calls.begin(f"eve{number}", user="eve")
        await calls.begin("ada", user="ada")
        await calls.begin("eve6", user="eve")
        refused = [calls.tasks[f"eve{number}"].done() for number in range(7)]
        failure = calls.tasks["eve5"].exception()
        assert isinstance(failure, LimitExceededError)
        await calls.end(*calls.tasks)
        return refused, failure.kind

    refused, kind = asyncio.run(run())
    assert refused == [False, False, False, False, False, True, True]
    assert kind is LimitKind.QUEUE


def test_a_call_that_would_wait_for_too_long_is_refused_at_once() -> None:
    """The calls before it, at the measured rate, take longer than its class may wait; one of a patient class waits."""
    ticks = Ticks()

    async def run() -> tuple[LimitExceededError, bool]:
        calls = Calls(1, 16, admission(WaitBounds(search=3.0, bulk=60.0), ticks))
        for number in range(2):
            await calls.begin(f"first{number}")
        ticks.seconds += 1.0
        await calls.end("first0")
        ticks.seconds += 1.0
        await calls.end("first1")
        for number in range(4):
            await calls.begin(f"a{number}")
        refused = await calls.begin("late")
        patient = await calls.begin("patient", method="BatchSearch")
        failure = refused.exception()
        assert isinstance(failure, LimitExceededError)
        was_waiting = not patient.done()
        await calls.end(*calls.tasks)
        return failure, was_waiting

    failure, was_waiting = asyncio.run(run())
    assert failure.kind is LimitKind.WAIT
    assert "server.wait.search_seconds" in failure.message
    assert 0 < failure.retry_seconds <= 30
    assert was_waiting


def test_a_call_is_refused_when_no_thread_ends_anything() -> None:
    """Without any rate the time since the last end counts."""
    ticks = Ticks()

    async def run() -> BaseException | None:
        calls = Calls(1, 16, admission(clock=ticks))
        await calls.begin("stuck0")
        await calls.begin("stuck1")
        ticks.seconds += 60
        refused = await calls.begin("late")
        failure = refused.exception()
        await calls.end(*calls.tasks)
        return failure

    assert isinstance(asyncio.run(run()), LimitExceededError)


def test_a_call_that_has_waited_for_as_long_as_it_may_is_refused() -> None:
    """What was expected may be wrong; its place is free again."""

    async def run() -> tuple[BaseException | None, int]:
        calls = Calls(1, 16, admission(WaitBounds(search=0.01)))
        await calls.begin("a0")
        await calls.begin("a1")
        late = await calls.begin("late")
        await asyncio.wait({late}, timeout=PATIENCE_SECONDS)
        waiting = calls.turns.waiting
        await calls.end(*calls.tasks)
        return late.exception(), waiting

    failure, waiting = asyncio.run(run())
    assert isinstance(failure, LimitExceededError)
    assert failure.kind is LimitKind.WAIT
    assert waiting == 0


def test_bulk_yields_and_is_not_starved() -> None:
    """It has half of the threads at most, and while other calls wait one; that one it always gets."""

    def bulk_running(calls: Calls) -> int:
        return sum(name.startswith("bulk") for name in calls.running)

    async def run() -> tuple[list[int], list[str]]:
        calls = Calls(4, 32)
        for number in range(6):
            await calls.begin(f"bulk{number}", method="BatchSearch")
        found = [bulk_running(calls)]
        for number in range(12):
            await calls.begin(f"search{number}")
        await calls.end("bulk0")
        found.append(bulk_running(calls))
        await calls.end("bulk1")
        found.append(bulk_running(calls))
        await calls.end(*(f"search{number}" for number in range(12)))
        found.append(bulk_running(calls))
        await calls.end(*calls.tasks)
        return found, calls.order

    found, order = asyncio.run(run())
    assert found == [2, 1, 1, 2]
    assert len(order) == 18


@pytest.mark.parametrize(
    ("kind", "method", "is_brief"),
    [
        (CallClass.READ, "ListMemories", True),
        (CallClass.WRITE, "CreateMemory", True),
        (CallClass.WRITE, "BatchCreateMemories", False),
        (CallClass.READ, "GetStats", False),
        (CallClass.LANGUAGE, "CompactSession", False),
    ],
)
def test_bulk_work_yields_to_reads_and_writes_while_they_run(kind: CallClass, method: str, *, is_brief: bool) -> None:
    """Not to calls that take long."""
    events: list[str] = []

    @contextmanager
    def priority() -> Iterator[None]:
        events.append("begun")
        yield
        events.append("ended")

    turns = Turns(kind, 1, 4, Admission(OPTIONS, WaitBounds(), AdmissionCounts(), priority=priority), name="calls")

    def call() -> None:
        call_context.current.set(Call(method, b"", None))  # type: ignore[arg-type]
        turn = turns.arrive()
        turn.run(events.append, "run")
        turns.leave(turn)

    copy_context().run(call)

    assert events == (["begun", "run", "ended"] if is_brief else ["run"])


def test_waits_are_counted_by_class() -> None:
    """From the arrival of a call to its beginning in a thread."""

    async def run() -> AdmissionCounts:
        calls = Calls(2, 32)
        await calls.begin("a0")
        await calls.begin("bulk0", method="BatchSearch")
        await calls.end(*calls.tasks)
        return calls.rules.counts

    counts = asyncio.run(run())
    assert sum(counts.waits[CallClass.SEARCH]) == sum(counts.waits[CallClass.BULK]) == 1
    assert not sum(counts.waits[CallClass.WRITE])


@pytest.mark.parametrize("user", ["a", "小明", "x" * 128, "明" * 128, ""])
def test_the_user_is_read_from_the_bytes_of_a_request(user: str) -> None:
    """Whatever its length; a request without a scope names none, nor do other bytes."""
    scope = types_pb.Scope(user_id=user, project_id="p" * 128)
    for request in (search_pb.SearchRequest(scope=scope, query="q"), memory_pb.CreateMemoryRequest(scope=scope)):
        assert user_of_bytes(request.SerializeToString()) == user.encode()
    for other in (
        b"",
        b"\n",
        b"\n\n",
        b"\n\xff",
        b"\n\xff\x01\n",
        b"\x12\x01x",
        search_pb.SearchRequest(query="q").SerializeToString(),
    ):
        assert user_of_bytes(other) == b""
