"""How many calls a key may begin, alone and with those of other servers, and have under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.errors import BackendUnavailableError, LimitExceededError, LimitKind
from memsvc.ports.features import TakenCalls
from memsvc.server.interceptors import key_limits
from memsvc.server.interceptors.key_limits import (
    BUSY_RETRY_SECONDS,
    CREDIT_SECONDS,
    KeyLimiter,
    LimitedCaller,
    LocalRateCounter,
    SharedRateCounter,
)
from memsvc.testing.factories import NOW


def key(name: str = "a", **limits: float) -> ApiKey:
    """Return a key with limits of its own."""
    return ApiKey(name * 20, "", ApiKeyRole.READ_ONLY, b"", NOW, **limits)  # type: ignore[arg-type]  # limits are numbers


class Ticks:
    """A clock that stands."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def ticks() -> Ticks:
    """Return the clock of the limits."""
    return Ticks()


class Store:
    """A store that counts the calls of all servers, as `CallRates` do, and says how often it was asked."""

    def __init__(self, ticks: Ticks) -> None:
        self.is_away = False
        self.asked = 0
        self._counter = LocalRateCounter(ticks)

    async def take(self, caller: str, rate: float, wanted: int) -> TakenCalls:
        await asyncio.sleep(0)
        self.asked += 1
        if self.is_away:
            raise BackendUnavailableError("sql")
        for count in range(wanted):
            try:
                await self._counter.take(LimitedCaller(caller, "", rate))
            except LimitExceededError as refused:
                return TakenCalls(count, refused.retry_seconds)
        return TakenCalls(wanted)


@pytest.fixture
def store(ticks: Ticks) -> Store:
    """Return the store of the servers."""
    return Store(ticks)


@pytest.fixture(params=["alone", "shared"])
def limiter(request: pytest.FixtureRequest, ticks: Ticks, store: Store) -> Callable[..., KeyLimiter]:
    """Return limiters of a server that is alone, and of one that counts in the store."""
    counter = LocalRateCounter(ticks) if request.param == "alone" else SharedRateCounter(store.take, ticks)

    def make(**settings: float) -> KeyLimiter:
        return KeyLimiter(counter, **settings)  # type: ignore[arg-type]  # settings are numbers

    return make


async def begun(limits: KeyLimiter, key: ApiKey, most: int) -> int:
    """Return how many calls can be begun now, of at most so many tries."""
    for number in range(most):
        try:
            release = await limits.acquire(key)
        except LimitExceededError:
            return number
        release()
    return most


async def refusal(limits: KeyLimiter, key: ApiKey) -> LimitExceededError:
    """Return the error of a call that cannot be begun."""
    with pytest.raises(LimitExceededError) as refused:
        await limits.acquire(key)
    return refused.value


@pytest.mark.parametrize(("rate", "burst"), [(5.0, 5), (1.0, 1), (0.5, 1), (1000.0, 1000)])
def test_a_second_of_calls_may_come_at_once_and_then_in_time(
    limiter: Callable[..., KeyLimiter], ticks: Ticks, rate: float, burst: int
) -> None:
    """Over time never more than the rate; the refusal says when the next one is welcome."""

    async def run() -> None:
        limits, mine = limiter(), key(calls_per_second=rate)
        assert await begun(limits, mine, burst + 1) == burst
        refused = await refusal(limits, mine)
        assert refused.retry_seconds == pytest.approx(1 / rate, rel=1e-6)
        assert refused.kind is LimitKind.RATE
        ticks.seconds += refused.retry_seconds
        assert await begun(limits, mine, 2) == 1
        ticks.seconds += 100 / rate + 100
        assert await begun(limits, mine, burst + 1) == burst

    asyncio.run(run())


def test_a_raised_rate_counts_at_once(limiter: Callable[..., KeyLimiter], ticks: Ticks) -> None:
    """The long wait for the next call of the lower rate is over; that of the higher one is not."""

    async def run() -> None:
        limits = limiter()
        assert await begun(limits, key(tenant_calls_per_second=0.001), 2) == 1
        raised = key("b", tenant_calls_per_second=10.0)
        assert await begun(limits, raised, 2) == 0
        ticks.seconds += 0.1
        assert await begun(limits, raised, 2) == 1

    asyncio.run(run())


@pytest.mark.parametrize("quota", [7.0, 2.0])
def test_the_rate_of_a_quota_replaces_that_of_the_key(limiter: Callable[..., KeyLimiter], quota: float) -> None:
    """Whether it is higher or lower; that of the tenant counts besides."""

    async def run() -> None:
        limits = limiter(calls_per_second=3)
        assert await begun(limits, key(calls_per_second=5.0, quota_calls_per_second=quota), 9) == quota
        assert await begun(limits, key("b", quota_calls_per_second=quota, tenant_calls_per_second=1.0), 9) == 1

    asyncio.run(run())


def test_a_refused_call_counts_for_nothing(limiter: Callable[..., KeyLimiter], ticks: Ticks) -> None:
    """A key at its limit takes nothing from its tenant, and a tenant at its own takes nothing from its keys."""

    async def run() -> None:
        limits = limiter()
        busy = key(concurrent_calls=1, calls_per_second=2.0, tenant_calls_per_second=4.0)
        release = await limits.acquire(busy)
        for _ in range(9):
            assert (await refusal(limits, busy)).kind is LimitKind.CONCURRENCY
        release()
        assert await begun(limits, busy, 9) == 1
        other = key("b", calls_per_second=5.0, tenant_calls_per_second=4.0)
        assert await begun(limits, other, 9) == 2
        assert (await refusal(limits, other)).retry_seconds == pytest.approx(0.25)
        alone = key("b", calls_per_second=5.0)
        assert await begun(limits, alone, 9) == 3

    asyncio.run(run())


def test_calls_under_way_are_counted(limiter: Callable[..., KeyLimiter]) -> None:
    """A call that ends makes room for the next one."""

    async def run() -> None:
        limits, mine = limiter(), key(concurrent_calls=2)
        first, second = await limits.acquire(mine), await limits.acquire(mine)
        assert (await refusal(limits, mine)).retry_seconds == BUSY_RETRY_SECONDS
        first()
        third = await limits.acquire(mine)
        assert (await refusal(limits, mine)).kind is LimitKind.CONCURRENCY
        second()
        third()
        assert await begun(limits, mine, 9) == 9

    asyncio.run(run())


def test_keys_that_say_nothing_are_held_to_the_settings(limiter: Callable[..., KeyLimiter]) -> None:
    """Each for itself; what a key says itself counts more."""

    async def run() -> None:
        limits = limiter(calls_per_second=3)
        assert [await begun(limits, key(name), 9) for name in "abc"] == [3, 3, 3]
        assert await begun(limits, key("d", calls_per_second=7), 9) == 7

    asyncio.run(run())


def test_without_limits_nothing_is_counted(limiter: Callable[..., KeyLimiter], store: Store) -> None:
    """The default."""
    assert asyncio.run(begun(limiter(), key(), 10_000)) == 10_000
    assert store.asked == 0


def test_servers_share_a_rate(ticks: Ticks, store: Store) -> None:
    """Together they begin no more than one would, and ask the store less often the more calls there are."""

    async def run() -> None:
        servers = [KeyLimiter(SharedRateCounter(store.take, ticks)) for _ in range(3)]
        mine, total = key(calls_per_second=1000.0), 0
        for _ in range(100):
            for server in servers:
                total += await begun(server, mine, 20)
            ticks.seconds += 0.01
        # A second of calls at once, and those of the second that passed.
        assert 1800 <= total <= 2000
        assert store.asked < total / 5

    asyncio.run(run())


def test_calls_that_wait_are_asked_for_together(ticks: Ticks, store: Store) -> None:
    """One question for all of them; those beyond the rate are refused."""

    async def run() -> None:
        limits, mine = KeyLimiter(SharedRateCounter(store.take, ticks)), key(calls_per_second=8.0)
        results = await asyncio.gather(*(limits.acquire(mine) for _ in range(20)), return_exceptions=True)
        assert sum(isinstance(one, LimitExceededError) for one in results) == 12
        assert store.asked <= 2

    asyncio.run(run())


def test_a_cancelled_call_ends_no_other(ticks: Ticks, store: Store) -> None:
    """The others that wait for the store go on; the call is no longer under way."""

    async def run() -> None:
        limits, mine = KeyLimiter(SharedRateCounter(store.take, ticks)), key(calls_per_second=9.0, concurrent_calls=2)
        first, second = (asyncio.create_task(limits.acquire(mine)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        (await second)()
        assert first.cancelled()
        assert await begun(limits, mine, 4) == 4

    asyncio.run(run())


def test_what_was_taken_and_not_begun_is_lost(ticks: Ticks, store: Store) -> None:
    """After a while, so that a server keeps no calls that others need."""

    async def run() -> None:
        counter = SharedRateCounter(store.take, ticks)
        limits, mine = KeyLimiter(counter), key(calls_per_second=100.0)
        assert await begun(limits, mine, 40) == 40
        asked = store.asked
        ticks.seconds += 2 * CREDIT_SECONDS
        assert await begun(limits, mine, 1) == 1
        assert store.asked == asked + 1

    asyncio.run(run())


def test_a_store_that_is_away_stops_no_calls(ticks: Ticks, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Each server counts for itself until the store answers; one line says so."""

    async def run() -> None:
        limits, mine = KeyLimiter(SharedRateCounter(store.take, ticks)), key(calls_per_second=3.0)
        store.is_away = True
        assert await begun(limits, mine, 9) == 3
        assert store.asked == 1
        store.is_away = False
        ticks.seconds += key_limits.ALONE_SECONDS
        assert await begun(limits, mine, 9) == 3
        assert store.asked > 1

    asyncio.run(run())
    assert [line.levelname for line in caplog.records if line.name == key_limits.__name__] == ["WARNING"]


def test_a_store_that_hangs_stops_no_calls(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for it is bounded."""
    monkeypatch.setattr(key_limits, "STORE_SECONDS", 0.05)

    async def hang(caller: str, rate: float, wanted: int) -> TakenCalls:
        await asyncio.Event().wait()
        raise AssertionError

    limits = KeyLimiter(SharedRateCounter(hang, ticks))
    assert asyncio.run(begun(limits, key(calls_per_second=3.0), 9)) == 3
