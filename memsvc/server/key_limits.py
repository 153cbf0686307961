"""How many calls each key may begin in a second, and have under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from memsvc.domain.api_keys import ApiKey
from memsvc.domain.errors import LimitExceededError

KEPT = 10_000
"""How many keys are counted for before those that are idle are forgotten."""
BUSY_RETRY_SECONDS = 0.1


@dataclass(slots=True)
class _Use:
    """What a key does.

    Attributes:
        due: When its next call would be on time, were they evenly spread (the generic cell rate algorithm).
    """

    under_way: int = 0
    due: float = 0.0


class KeyRateLimiter:
    """Counts calls by key. To be used in one thread: that of the event loop."""

    def __init__(self, *, calls_per_second: float, concurrent_calls: int, clock: Callable[[], float]) -> None:
        """Hold keys that say nothing themselves to these limits, 0 being none, by the seconds of *clock*."""
        self._calls_per_second = calls_per_second
        self._concurrent_calls = concurrent_calls
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def taken(self, key: ApiKey) -> Iterator[None]:
        """Count a call while it lasts.

        Raises:
            LimitExceededError: The key is at one of its limits; it says when to come back. Nothing was counted.
        """
        rate = key.calls_per_second or self._calls_per_second
        most = key.concurrent_calls or self._concurrent_calls
        if not rate and not most:
            yield
            return
        use = self._use(key.id)
        if most and use.under_way >= most:
            limit = f"{most} calls of the key {key.id!r} under way"
            raise LimitExceededError(limit, retry_seconds=BUSY_RETRY_SECONDS)
        if rate:
            self._space(key, use, rate)
        use.under_way += 1
        try:
            yield
        finally:
            use.under_way -= 1

    def _space(self, key: ApiKey, use: _Use, rate: float) -> None:
        now, apart = self._clock(), 1 / rate
        ahead = max(1.0, apart)
        due = max(use.due, now) + apart
        wait = due - now - ahead
        # A little less than nothing is what sums of fractions leave of it.
        if wait > apart * 1e-6:
            limit = f"{rate:g} calls a second of the key {key.id!r}"
            raise LimitExceededError(limit, retry_seconds=wait)
        use.due = due

    def _use(self, key_id: str) -> _Use:
        use = self._uses.get(key_id)
        if use is None:
            if len(self._uses) >= KEPT:
                now = self._clock()
                self._uses = {name: one for name, one in self._uses.items() if one.under_way or one.due > now}
            use = self._uses[key_id] = _Use()
        return use
