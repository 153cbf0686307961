"""Time as the store keeps it: microseconds since the epoch, UTC."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_REPLY_SECONDS, _REPLY_SHARE = 0.25, 0.1
"""Time kept for the answer to a caller before its deadline: the lesser of both."""


def to_micros(moment: datetime) -> int:
    """Return the microseconds from the epoch to *moment*, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the UTC moment *micros* microseconds after the epoch, exactly."""
    return EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock by which work must end; None means there is no hurry."""

    at: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the deadline *seconds* from now, or none."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    def remaining_seconds(self) -> float | None:
        """Return the seconds left, at least 0.0, or None without a deadline."""
        return None if self.at is None else max(0.0, self.at - time.monotonic())

    def patience_seconds(self) -> float | None:
        """Return the seconds to wait, such that an error arrives before the deadline; None without one."""
        remaining = self.remaining_seconds()
        return None if remaining is None else remaining - min(_REPLY_SECONDS, remaining * _REPLY_SHARE)

    def has_passed(self) -> bool:
        """Return whether the time is over."""
        return self.at is not None and time.monotonic() >= self.at


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)
