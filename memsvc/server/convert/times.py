"""Times and durations."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.clock import EPOCH, to_micros

MICROS = 1_000_000
MIN_SECONDS = -62_135_596_800
"""0001-01-01T00:00:00Z: before this a Timestamp has no meaning."""
MAX_SECONDS = 253_402_300_799
"""9999-12-31T23:59:59Z: after this, likewise."""
BEGINNING = MIN_SECONDS * MICROS
"""The microseconds of the earliest moment there is."""
NANOS = 999_999_999
_DAY_SECONDS = 86_400
MAX_DURATION_SECONDS = 315_576_000_000

RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def time_from_proto(stamp: Timestamp) -> datetime:
    """Return the moment, cut to the microsecond."""
    return EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)


def time_to_proto(moment: datetime) -> Timestamp:
    """Return the moment, exactly."""
    stamp = Timestamp()
    fill_time(stamp, moment)
    return stamp


def fill_time(stamp: Timestamp, moment: datetime) -> None:
    """Make an empty stamp that of the moment, exactly, and there even at the epoch, where both its numbers are 0."""
    since = moment - EPOCH
    # A timedelta counts as a Timestamp does: its microseconds are never negative.
    stamp.seconds = since.days * _DAY_SECONDS + since.seconds
    stamp.nanos = since.microseconds * 1000


def micros_not_before(stamp: Timestamp) -> int:
    """Return the first microsecond that is not before the moment: bounds are finer than what is stored."""
    return stamp.seconds * MICROS - (-stamp.nanos // 1000)


def micros_from_text(text: str) -> int:
    """Return the microseconds of an RFC 3339 time.

    Raises:
        ValueError: It is none, or not between the years 1 and 9999.
    """
    if not RFC3339.fullmatch(text):
        message = "must be an RFC 3339 time such as '2026-02-06T08:00:00Z'"
        raise ValueError(message)
    micros = to_micros(datetime.fromisoformat(text.upper()))
    if not BEGINNING <= micros < (MAX_SECONDS + 1) * MICROS:
        message = "must lie between the years 1 and 9999"
        raise ValueError(message)
    return micros


def span_from_proto(duration: Duration) -> timedelta:
    """Return the duration, cut to the microsecond."""
    return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)


def seconds_to_proto(seconds: float) -> Duration:
    """Return a measured time as a Duration, to the nanosecond."""
    whole, nanos = divmod(round(seconds * 1e9), NANOS + 1)
    return Duration(seconds=whole, nanos=nanos)
