"""How many calls a key may begin, and have under way."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.errors import LimitExceededError
from memsvc.server.interceptors.authentication import BUSY_RETRY_SECONDS, KeyRateLimiter
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


def begun(limits: KeyRateLimiter, key: ApiKey, most: int) -> int:
    """Return how many calls can be begun now, of at most so many tries."""
    for number in range(most):
        try:
            with limits.acquired(key):
                pass
        except LimitExceededError:
            return number
    return most


@pytest.mark.parametrize(("rate", "burst"), [(5.0, 5), (1.0, 1), (0.5, 1), (1000.0, 1000)])
def test_a_second_of_calls_may_come_at_once_and_then_in_time(ticks: Ticks, rate: float, burst: int) -> None:
    """Over time never more than the rate; the refusal says when the next one is welcome."""
    limits = KeyRateLimiter(calls_per_second=0, concurrent_calls=0, clock=ticks)
    mine = key(calls_per_second=rate)

    assert begun(limits, mine, burst + 1) == burst
    with pytest.raises(LimitExceededError) as refused, limits.acquired(mine):
        pass
    assert refused.value.retry_seconds == pytest.approx(1 / rate)
    ticks.seconds += refused.value.retry_seconds
    assert begun(limits, mine, 2) == 1
    ticks.seconds += 100 / rate + 100
    assert begun(limits, mine, burst + 1) == burst


def test_a_raised_rate_counts_at_once(ticks: Ticks) -> None:
    """The long wait for the next call of the lower rate is over; that of the higher one is not."""
    limits = KeyRateLimiter(calls_per_second=0, concurrent_calls=0, clock=ticks)
    assert begun(limits, key(tenant_calls_per_second=0.001), 2) == 1
    raised = key("b", tenant_calls_per_second=10.0)
    assert begun(limits, raised, 2) == 0
    ticks.seconds += 0.1
    assert begun(limits, raised, 2) == 1


@pytest.mark.parametrize("quota", [7.0, 2.0])
def test_the_rate_of_a_quota_replaces_that_of_the_key(ticks: Ticks, quota: float) -> None:
    """Whether it is higher or lower; that of the tenant counts besides."""
    limits = KeyRateLimiter(calls_per_second=3, concurrent_calls=0, clock=ticks)

    assert begun(limits, key(calls_per_second=5.0, quota_calls_per_second=quota), 9) == quota
    assert begun(limits, key("b", quota_calls_per_second=quota, tenant_calls_per_second=1.0), 9) == 1


def test_calls_under_way_are_counted(ticks: Ticks) -> None:
    """A call that ends, even badly, makes room for the next one."""
    limits = KeyRateLimiter(calls_per_second=0, concurrent_calls=0, clock=ticks)
    mine = key(concurrent_calls=2)
    with ExitStack() as stack:
        stack.enter_context(limits.acquired(mine))
        with pytest.raises(ZeroDivisionError), limits.acquired(mine):
            raise ZeroDivisionError
        stack.enter_context(limits.acquired(mine))
        with pytest.raises(LimitExceededError) as refused, limits.acquired(mine):
            pass

    assert refused.value.retry_seconds == BUSY_RETRY_SECONDS
    assert begun(limits, mine, 9) == 9


def test_keys_that_say_nothing_are_held_to_the_settings(ticks: Ticks) -> None:
    """Each for itself; what a key says itself counts more."""
    limits = KeyRateLimiter(calls_per_second=3, concurrent_calls=0, clock=ticks)

    assert [begun(limits, key(name), 9) for name in "abc"] == [3, 3, 3]
    assert begun(limits, key("d", calls_per_second=7), 9) == 7


def test_without_limits_nothing_is_counted(ticks: Ticks) -> None:
    """The default."""
    limits = KeyRateLimiter(calls_per_second=0, concurrent_calls=0, clock=ticks)

    assert begun(limits, key(), 10_000) == 10_000
