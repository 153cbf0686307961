"""Named executors: admission, context, cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError, LimitExceededError
from memsvc.ports.thread_wait import ThreadWait
from memsvc.server import call_context
from memsvc.server.call_context import Call, Principal
from memsvc.server.executors import (
    BULK_DELAY_SECONDS,
    HEAVY_DELAY_SECONDS,
    LONG_FACTOR,
    LONGEST_DELAY_SECONDS,
    RELIEF_SECONDS,
    NamedExecutor,
    _Job,
    _WorkerPool,
)
from tests.support.until import PATIENCE_SECONDS, until

WHO: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture
def executor() -> Iterator[NamedExecutor]:
    """Return an executor of one thread in which two more calls may wait."""
    made = NamedExecutor("search", threads=1, queue_factor=2)
    yield made
    made.close()


def test_a_call_returns_what_it_returns(executor: NamedExecutor) -> None:
    """Arguments go in by place and by name."""
    assert asyncio.run(executor.run(int, "11", base=2)) == 3


def test_a_call_raises_what_it_raises(executor: NamedExecutor) -> None:
    """The error is the call's own."""
    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(executor.run(int, "x"))


def test_a_call_sees_the_context_of_its_caller(executor: NamedExecutor) -> None:
    """So that log lines in the engine bear the request's id."""

    async def ask() -> str:
        WHO.set("ada")
        return await executor.run(WHO.get)

    assert asyncio.run(ask()) == "ada"


def test_calls_beyond_the_queue_are_refused(executor: NamedExecutor) -> None:
    """The error says when to come again, and a part of an admitted call is never refused."""

    async def fill() -> tuple[list[object], int]:
        open_ = threading.Event()
        waiting = [asyncio.create_task(executor.run(open_.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        refused = await asyncio.gather(executor.run(open_.wait), return_exceptions=True)
        part = asyncio.create_task(executor.proceed(open_.wait))
        await asyncio.sleep(0)
        admitted = executor.admitted
        open_.set()
        await asyncio.gather(*waiting, part)
        return list(refused), admitted

    (error,), admitted = asyncio.run(fill())

    assert isinstance(error, LimitExceededError)
    assert error.retry_seconds > 0
    assert "'search'" in error.metadata["limit"]
    assert (admitted, executor.admitted) == (4, 0)


def test_a_call_waits_while_no_thread_can_be_started(executor: NamedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs as soon as one can, and later calls as before."""
    failures: list[int] = []
    start = threading.Thread.start

    def refuse_twice(thread: threading.Thread) -> None:
        if thread.name.startswith("search") and len(failures) < 2:
            failures.append(1)
            message = "can't start new thread"
            raise RuntimeError(message)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_twice)

    found = asyncio.run(executor.run(int, "11", base=2)), asyncio.run(executor.run(int, "12", base=3))

    assert found == (3, 5)
    assert executor.admitted == 0
    assert len(failures) == 2


def test_a_cancelled_call_that_has_not_begun_never_runs(executor: NamedExecutor) -> None:
    """Its place in the queue is free again."""
    ran: list[str] = []

    async def cancel() -> int:
        open_ = threading.Event()
        first = asyncio.create_task(executor.run(open_.wait))
        second = asyncio.create_task(executor.run(ran.append, "second"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait({second})
        admitted = executor.admitted
        open_.set()
        await first
        await executor.run(ran.append, "third")
        return admitted

    assert asyncio.run(cancel()) == 1
    assert ran == ["third"]


def test_a_call_whose_time_is_over_is_not_begun(executor: NamedExecutor) -> None:
    """It waited in the queue for too long."""

    async def late() -> None:
        call_context.deadline.set(Deadline(at=0.0))
        await executor.run(pytest.fail, "it ran")

    with pytest.raises(DeadlineExceededError):
        asyncio.run(late())


def test_after_closing_nothing_runs(executor: NamedExecutor) -> None:
    """And nothing is counted."""
    executor.close()

    with pytest.raises(RuntimeError):
        asyncio.run(executor.run(int))
    assert executor.admitted == 0


@pytest.fixture
def narrow() -> Iterator[NamedExecutor]:
    """Return an executor of three threads, of which one computes at a time."""
    made = NamedExecutor("search", threads=3, queue_factor=2, active=1)
    yield made
    made.close()


def test_one_call_computes_while_others_wait_for_their_turn(
    narrow: NamedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it is short: here nothing counts as long."""
    monkeypatch.setattr("memsvc.server.executors.RELIEF_SECONDS", 3_600.0)
    begun, release = threading.Event(), threading.Event()
    order: list[str] = []

    def compute() -> None:
        begun.set()
        assert release.wait(PATIENCE_SECONDS)
        order.append("first")

    async def run() -> None:
        first = asyncio.create_task(narrow.run(compute))
        await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        others = [asyncio.create_task(narrow.run(order.append, f"other {number}")) for number in range(2)]
        for _ in range(1_000):
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(first, *others)

    asyncio.run(run())

    assert order == ["first", "other 0", "other 1"]


def test_a_call_that_waits_lets_others_compute(narrow: NamedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and goes on at once when that is over."""
    monkeypatch.setattr("memsvc.server.executors.RELIEF_SECONDS", 3_600.0)
    done = threading.Event()

    def wait() -> None:
        with ThreadWait():
            assert done.wait(PATIENCE_SECONDS)

    async def run() -> list[str]:
        others: list[str] = []
        long = asyncio.create_task(narrow.run(wait))
        await narrow.run(others.append, "other")
        done.set()
        await long
        return others

    assert asyncio.run(run()) == ["other"]


def test_a_call_that_computes_for_long_lets_others_begin(narrow: NamedExecutor) -> None:
    """It does not say that it waits, as a dependency that hangs does not."""
    done = threading.Event()

    async def run() -> list[str]:
        others: list[str] = []
        long = asyncio.create_task(narrow.run(done.wait, PATIENCE_SECONDS))
        await narrow.run(others.append, "other")
        done.set()
        assert await long
        return others

    assert asyncio.run(run()) == ["other"]


def test_the_more_a_tenant_computes_the_later_its_next_call_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of other tenants, and without keys, begin when one thread has computed for long."""
    clock = [100.0]
    pool = _WorkerPool("write", threads=8, active=1, clock=lambda: clock[0])
    release = threading.Event()
    begun: list[str] = []

    def after(seconds: float) -> list[str]:
        clock[0] += seconds
        pool.relieve(RELIEF_SECONDS)
        return begun

    async def run() -> None:
        jobs = []

        def submit(name: str, tenant_id: str, key_id: str = "k") -> None:
            def compute() -> None:
                begun.append(name)
                release.wait(PATIENCE_SECONDS)

            call_context.principal.set(Principal(key_id=key_id, tenant_id=tenant_id))
            jobs.append(_Job(compute, asyncio.get_running_loop()))
            pool.submit(jobs[-1])

        for name in ("first", "second", "third"):
            submit(name, "evil")
        until(lambda: begun == ["first"])
        assert after(1.1 * RELIEF_SECONDS) == ["first"]
        submit("other", "acme")
        until(lambda: after(0) == ["first", "other"])
        after(2 * RELIEF_SECONDS)
        submit("nobody", "", "")
        until(lambda: after(0) == ["first", "other", "nobody"])
        assert len(after((LONG_FACTOR - 3.2) * RELIEF_SECONDS)) == 3
        after(0.2 * RELIEF_SECONDS)
        until(lambda: after(0)[3:] == ["second"])
        after((LONG_FACTOR**2 - 1) * RELIEF_SECONDS)
        assert len(begun) == 4
        after(1.1 * RELIEF_SECONDS)
        until(lambda: after(0)[4:] == ["third"])
        for name in ("fourth", "fifth"):
            submit(name, "evil")
        after(LONGEST_DELAY_SECONDS - RELIEF_SECONDS)
        assert len(begun) == 5
        after(1.1 * RELIEF_SECONDS)
        until(lambda: after(0)[5:] == ["fourth"])
        after(1.1 * LONGEST_DELAY_SECONDS)
        until(lambda: after(0)[6:] == ["fifth"])
        release.set()
        await asyncio.gather(*(job.future for job in jobs))

    asyncio.run(run())
    pool.close()


@pytest.mark.parametrize("tenant_id", ["", "acme"])
def test_bulk_calls_compute_one_after_another(tenant_id: str) -> None:
    """The next one begins when the one before it ends, waits or has computed for long; other calls begin at once."""
    clock = [100.0]
    pool = _WorkerPool("write", threads=8, active=8, clock=lambda: clock[0])
    ends = {name: threading.Event() for name in ("first", "second", "third", "fourth", "single")}
    waits, begun = threading.Event(), list[str]()

    def after(seconds: float) -> list[str]:
        clock[0] += seconds
        pool.relieve(RELIEF_SECONDS)
        return begun

    async def run() -> None:
        jobs = []

        def submit(name: str, method: str) -> None:
            def compute() -> None:
                begun.append(name)
                assert ends[name].wait(PATIENCE_SECONDS)
                if name == "second":
                    with ThreadWait():
                        assert waits.wait(PATIENCE_SECONDS)

            call_context.principal.set(Principal(key_id="k" if tenant_id else "", tenant_id=tenant_id))
            call_context.current.set(Call(method, b"", None))  # type: ignore[arg-type]
            jobs.append(_Job(compute, asyncio.get_running_loop()))
            pool.submit(jobs[-1])

        for name in ("first", "second", "third", "fourth"):
            submit(name, "BatchCreateMemories")
        until(lambda: begun == ["first"])
        assert after(0.5 * BULK_DELAY_SECONDS) == ["first"]
        submit("single", "CreateMemory")
        until(lambda: after(0) == ["first", "single"])
        ends["single"].set()
        ends["first"].set()
        until(lambda: after(0)[2:] == ["second"])
        assert len(after(0.5 * BULK_DELAY_SECONDS)) == 3
        ends["second"].set()
        until(lambda: after(0)[3:] == ["third"])
        waits.set()
        assert len(after(0.9 * BULK_DELAY_SECONDS)) == 4
        after(0.2 * BULK_DELAY_SECONDS)
        until(lambda: after(0)[4:] == ["fourth"])
        for end in ends.values():
            end.set()
        await asyncio.gather(*(job.future for job in jobs))

    asyncio.run(run())
    pool.close()


def test_one_large_request_of_a_tenant_computes_at_a_time() -> None:
    """Small ones begin beside it, and large ones when it waits or has computed for very long."""
    clock = [100.0]
    pool = _WorkerPool("write", threads=8, active=1, clock=lambda: clock[0])
    release, waits, is_waiting = threading.Event(), threading.Event(), threading.Event()
    begun: list[str] = []

    def after(seconds: float) -> list[str]:
        clock[0] += seconds
        pool.relieve(RELIEF_SECONDS)
        return begun

    async def run() -> None:
        jobs = []

        def submit(name: str, tenant_id: str = "evil", *, is_heavy: bool = True) -> None:
            def compute() -> None:
                begun.append(name)
                if name == "waits":
                    waits.wait(PATIENCE_SECONDS)
                    with ThreadWait():
                        is_waiting.set()
                        release.wait(PATIENCE_SECONDS)
                release.wait(PATIENCE_SECONDS)

            call_context.principal.set(Principal(key_id="k", tenant_id=tenant_id))
            call_context.current.set(Call("CreateMemory", b"", None, is_heavy=is_heavy))  # type: ignore[arg-type]
            jobs.append(_Job(compute, asyncio.get_running_loop()))
            pool.submit(jobs[-1])

        for name in ("waits", "second", "third"):
            submit(name)
        until(lambda: begun == ["waits"])
        after(LONGEST_DELAY_SECONDS)
        assert begun == ["waits"]
        submit("other", "acme")
        until(lambda: after(0) == ["waits", "other"])
        after(LONGEST_DELAY_SECONDS)
        submit("small", is_heavy=False)
        until(lambda: after(0) == ["waits", "other", "small"])
        waits.set()
        assert is_waiting.wait(PATIENCE_SECONDS)
        until(lambda: after(LONGEST_DELAY_SECONDS)[3:] == ["second"])
        after(LONGEST_DELAY_SECONDS)
        assert len(begun) == 4
        until(lambda: after(HEAVY_DELAY_SECONDS)[4:] == ["third"])
        release.set()
        await asyncio.gather(*(job.future for job in jobs))

    asyncio.run(run())
    pool.close()
