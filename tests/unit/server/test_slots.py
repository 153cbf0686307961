"""Slots of tenants and keys, and turns of searches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from memsvc.domain.errors import LimitExceededError
from memsvc.server import call_context
from memsvc.server.call_context import ANONYMOUS, Principal
from memsvc.server.slots import Admission, AdmissionCounts, CallClass, SlotOptions, Slots, Turns, WaitBounds

OPTIONS = SlotOptions(tenant_share=0.75, key_share=0.5)


def admission() -> Admission:
    return Admission(OPTIONS, WaitBounds(), AdmissionCounts())


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


def test_without_keys_the_number_alone_counts() -> None:
    """All callers are one without authentication, and may have every slot; a single slot is one for everybody."""
    with ExitStack() as stack:
        assert held(Slots(8, OPTIONS, name="watches"), ANONYMOUS, stack) == 8
        assert held(Slots(1, OPTIONS, name="watches"), caller("one"), stack) == 1


class Calls:
    """Searches of several keys that hold a thread until they are told to end."""

    def __init__(self, threads: int, queued: int) -> None:
        self.turns = Turns(CallClass.SEARCH, threads, queued, admission(), name="searches")
        self.running: list[str] = []
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, principal: Principal) -> asyncio.Task[None]:
        """Begin a search, and let it come as far as it can."""
        self._ends[name] = asyncio.Event()
        with calling(principal):
            self.tasks[name] = asyncio.create_task(self._search(name))
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
            self.running.append(name)
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
