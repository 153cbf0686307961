"""A blocking generator, read from the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import aclosing

import pytest

from memsvc.server.executors import iterate_in_thread

NEVER = 3600.0


def test_every_step_arrives_in_order() -> None:
    """To the end."""

    async def read() -> list[int]:
        return [
            step async for step in iterate_in_thread((step for step in range(5)), name="pump", at_least_every=NEVER)
        ]

    assert asyncio.run(read()) == [0, 1, 2, 3, 4]


def test_a_slow_step_repeats_the_one_before() -> None:
    """So that a client hears something."""
    slow = threading.Event()

    def steps() -> Generator[str, None, None]:
        yield "first"
        slow.wait()
        yield "second"

    async def read() -> list[str]:
        seen: list[str] = []
        async for step in iterate_in_thread(steps(), name="pump", at_least_every=0.001):
            seen.append(step)
            if len(seen) == 3:
                slow.set()
        return seen

    seen = asyncio.run(read())

    assert seen[:3] == ["first", "first", "first"]
    assert seen[-1] == "second"


def test_reading_less_closes_the_generator_in_its_own_thread() -> None:
    """Which is the one that all of it ran in."""
    threads: list[threading.Thread] = []

    def steps() -> Generator[int, None, None]:
        threads.append(threading.current_thread())
        try:
            yield 1
            yield 2
        finally:
            threads.append(threading.current_thread())

    async def read() -> None:
        async with aclosing(iterate_in_thread(steps(), name="pump", at_least_every=NEVER)) as pump:
            async for _ in pump:
                break

    asyncio.run(read())

    assert threads[0] is threads[1]
    assert threads[0] is not threading.main_thread()


def test_an_error_of_the_generator_arrives() -> None:
    """After the steps before it."""

    def steps() -> Generator[int, None, None]:
        yield 1
        message = "broken"
        raise ValueError(message)

    async def read() -> list[int]:
        return [step async for step in iterate_in_thread(steps(), name="pump", at_least_every=NEVER)]

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(read())


def test_cancelling_waits_for_the_step_under_way() -> None:
    """Nothing runs on behind the caller's back."""
    begun, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def steps() -> Generator[int, None, None]:
        try:
            begun.set()
            go_on.wait()
            yield 1
        finally:
            seen.append("closed")

    async def read() -> None:
        async for _ in iterate_in_thread(steps(), name="pump", at_least_every=NEVER):
            pytest.fail("there was no step")

    async def cancel() -> None:
        task = asyncio.create_task(read())
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait({task})

    asyncio.run(cancel())

    assert seen == ["closed"]
