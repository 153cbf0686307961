"""Limits of keys and tenants: calls per second, which all servers of a store count together, and concurrent calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context as Variables
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from memsvc.domain.api_keys import ApiKey
from memsvc.domain.errors import LimitExceededError, LimitKind, MemsvcError
from memsvc.ports.features import TakenCalls

MAX_TRACKED_CALLERS = 10_000
"""The number of callers whose calls are counted before idle ones are dropped."""
BUSY_RETRY_SECONDS = 0.1
CREDIT_SECONDS = 0.1
"""Calls that were taken from the store and are not begun in this time are lost. As many are taken at a time at most."""
STORE_SECONDS = 1.0
"""The longest wait for the store."""
ALONE_SECONDS = 1.0
"""After a failure of the store as long each server counts for itself."""
log = logging.getLogger(__name__)
Take: TypeAlias = Callable[[str, float, int], Awaitable[TakenCalls]]
"""Takes calls of a caller at a rate from the store; see `memsvc.ports.features.CallRates`."""


@dataclass(frozen=True, slots=True)
class LimitedCaller:
    """A key or a tenant with a rate.

    Attributes:
        id: Its name in the store.
        label: Its name in errors.
        rate: Calls per second, above 0.
    """

    id: str
    label: str
    rate: float

    def refused(self, wait: float) -> LimitExceededError:
        """Return the error of a call that may be begun after *wait* seconds."""
        limit = f"{self.rate:g} calls a second of {self.label}"
        return LimitExceededError(limit, retry_seconds=wait, kind=LimitKind.RATE)


class RateCounter(Protocol):
    """A counter of the calls that callers begin. To be used in one thread: that of the event loop."""

    async def take(self, caller: LimitedCaller) -> None:
        """Count a call.

        Raises:
            LimitExceededError: The caller is at its rate; the error has the delay until a retry.
        """
        ...

    def give_back(self, caller: LimitedCaller) -> None:
        """Count a call less, which was refused for another reason."""
        ...


class LocalRateCounter:
    """A counter of the calls of this process alone, by the generic cell rate algorithm."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Read the time in seconds from *clock*."""
        self._clock = clock
        # The time of the next call of each caller, if calls were evenly spread.
        self._due: dict[str, float] = {}

    async def take(self, caller: LimitedCaller) -> None:
        """Count a call."""
        now, apart = self._clock(), 1 / caller.rate
        ahead = max(1.0, apart)
        if len(self._due) >= MAX_TRACKED_CALLERS and caller.id not in self._due:
            self._due = {name: one for name, one in self._due.items() if one > now}
        # The bound of a lower rate, which has been raised since, holds no longer.
        due = self._due[caller.id] = max(now, min(self._due.get(caller.id, 0.0), now + ahead))
        wait = due + apart - now - ahead
        # Sums of fractions leave a rounding error.
        if wait > apart * 1e-6:
            raise caller.refused(wait)
        self._due[caller.id] = due + apart

    def give_back(self, caller: LimitedCaller) -> None:
        """Count a call less."""
        if caller.id in self._due:
            self._due[caller.id] -= 1 / caller.rate


@dataclass(slots=True, eq=False)
class _Credit:
    """Calls of a caller that were taken from the store.

    Attributes:
        rate: The rate at which they were taken.
        count: How many may still be begun, *until* then.
        refused_until: Until then the store gives no more.
        size: How many were taken last.
        waiting: How many calls wait for the *request* under way.
    """

    rate: float
    count: int = 0
    until: float = 0.0
    refused_until: float = 0.0
    size: int = 0
    waiting: int = 0
    request: asyncio.Task[None] | None = None


class SharedRateCounter:
    """A counter of the calls that all servers of a store begin.

    A server takes some calls at a time from the store, the more the faster its callers are: at most what the rate
    gives in `CREDIT_SECONDS`. If the store does not answer, each server counts for itself for a while.
    """

    def __init__(self, take: Take, clock: Callable[[], float]) -> None:
        """Take calls from the store by *take*; read the time in seconds from *clock*."""
        self._take = take
        self._clock = clock
        self._local = LocalRateCounter(clock)
        self._credits: dict[str, _Credit] = {}
        self._alone_until = 0.0

    async def take(self, caller: LimitedCaller) -> None:
        """Count a call; wait for the store where nothing is left of what was taken before."""
        credit = self._credit(caller)
        while self._clock() >= self._alone_until:
            now = self._clock()
            if credit.count and now < credit.until:
                credit.count -= 1
                return
            if now < credit.refused_until:
                raise caller.refused(credit.refused_until - now)
            if credit.request is None:
                # Not in the context of this call, whose deadline is not that of the others that wait.
                work = self._refill(caller, credit)
                credit.request = asyncio.create_task(work, name="rate", context=Variables())
            credit.waiting += 1
            try:
                await asyncio.shield(credit.request)
            finally:
                credit.waiting -= 1
        await self._local.take(caller)

    def give_back(self, caller: LimitedCaller) -> None:
        """Count a call less, if its time has not passed."""
        if self._clock() < self._alone_until:
            self._local.give_back(caller)
        else:
            self._credit(caller).count += 1

    def _credit(self, caller: LimitedCaller) -> _Credit:
        credit = self._credits.get(caller.id)
        if credit is None:
            if len(self._credits) >= MAX_TRACKED_CALLERS:
                now = self._clock()
                self._credits = {
                    name: one
                    for name, one in self._credits.items()
                    if one.request is not None or now < max(one.until, one.refused_until)
                }
            credit = self._credits[caller.id] = _Credit(caller.rate)
        elif credit.rate != caller.rate:
            credit.rate, credit.refused_until = caller.rate, 0.0
        return credit

    async def _refill(self, caller: LimitedCaller, credit: _Credit) -> None:
        """Take calls from the store: those that wait, and twice as many as the last time if they were soon begun."""
        begun = self._clock()
        most = max(1, int(caller.rate * CREDIT_SECONDS))
        size = min(most, 2 * credit.size if begun < credit.until else credit.size // 2)
        wanted = max(1, credit.waiting, size)
        try:
            async with asyncio.timeout(STORE_SECONDS):
                taken = await self._take(caller.id, caller.rate, wanted)
        except (MemsvcError, TimeoutError) as error:
            if self._clock() >= self._alone_until:
                log.warning("the store did not count calls, so that this server counts alone: %r", error)
            self._alone_until = self._clock() + ALONE_SECONDS
        else:
            now = self._clock()
            credit.count, credit.until, credit.size = taken.count, now + CREDIT_SECONDS, wanted
            if taken.count < wanted:
                credit.refused_until = now + max(taken.retry_seconds, 1e-3)
        finally:
            credit.request = None


class KeyLimiter:
    """Limiter of the rate and the concurrency of keys, and of the rates of tenants, which their keys share.

    To be used in one thread: that of the event loop.
    """

    def __init__(self, counter: RateCounter, *, calls_per_second: float = 0.0, concurrent_calls: int = 0) -> None:
        """Limit keys that have no limits of their own to these, 0 being none; count calls in *counter*."""
        self._counter = counter
        self._calls_per_second = calls_per_second
        self._concurrent_calls = concurrent_calls
        self._under_way: dict[str, int] = {}

    async def acquire(self, key: ApiKey) -> Callable[[], None]:
        """Count a call until the result is called.

        A call that is refused for one limit does not count for the others.

        Raises:
            LimitExceededError: The key, or its tenant, is at one of its limits; the error has the delay until a retry.
        """
        most = key.concurrent_calls or self._concurrent_calls
        if most:
            self._begin(key.id, most)
        try:
            await self._count(key)
        except BaseException:
            if most:
                self._end(key.id)
            raise

        def release() -> None:
            if most:
                self._end(key.id)

        return release

    async def _count(self, key: ApiKey) -> None:
        rate = key.quota_calls_per_second or key.calls_per_second or self._calls_per_second
        caller = LimitedCaller(f"key/{key.id}", f"the key {key.id!r}", rate)
        if rate:
            await self._counter.take(caller)
        if not key.tenant_calls_per_second:
            return
        tenant = LimitedCaller(f"tenant/{key.tenant_id}", f"the tenant {key.tenant_id!r}", key.tenant_calls_per_second)
        try:
            await self._counter.take(tenant)
        except BaseException:
            if rate:
                self._counter.give_back(caller)
            raise

    def _begin(self, key_id: str, most: int) -> None:
        under_way = self._under_way.get(key_id, 0)
        if under_way >= most:
            limit = f"{most} calls of the key {key_id!r} under way"
            raise LimitExceededError(limit, retry_seconds=BUSY_RETRY_SECONDS, kind=LimitKind.CONCURRENCY)
        self._under_way[key_id] = under_way + 1

    def _end(self, key_id: str) -> None:
        self._under_way[key_id] -= 1
        if not self._under_way[key_id]:
            del self._under_way[key_id]
