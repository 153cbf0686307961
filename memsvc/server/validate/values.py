"""Rules for single values: texts, numbers, enums, times, ids, vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Container, Sequence

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.server.convert.times import MAX_DURATION_SECONDS, MAX_SECONDS, MIN_SECONDS, NANOS
from memsvc.server.convert.vectors import Numbers
from memsvc.server.validate.violations import Violations
from memsvc.v1 import types_pb2 as types

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
MAX_TTL_DAYS = 36_500
_DAY_SECONDS = 86_400


def check_text(found: Violations, field: str, value: str, *, most: int, least: int = 0) -> None:
    """Check a free text: its length in characters, and that it holds no NUL."""
    if not least <= len(value) <= most:
        found.add(field, _length(least, most))
    elif "\0" in value:
        found.add(field, "must not contain NUL")


def check_name(found: Violations, field: str, value: str, *, most: int, least: int = 0) -> None:
    """Check a text that names something: its length, and that it holds no control characters."""
    if not least <= len(value) <= most:
        found.add(field, _length(least, most))
    elif CONTROL.search(value):
        found.add(field, "must not contain control characters")


def check_texts(found: Violations, field: str, values: Sequence[str], *, count: int, most: int, least: int = 0) -> None:
    """Check a list of free texts: how many there are, and each of the first *count*."""
    check_count(found, field, values, most=count)
    for index, value in enumerate(values[:count]):
        if not least <= len(value) <= most or "\0" in value:
            check_text(found, f"{field}[{index}]", value, most=most, least=least)


def check_uuid(found: Violations, field: str, value: str) -> None:
    """Check an id of a memory."""
    if not UUID.fullmatch(value):
        found.add(field, "must be a UUID such as '0190163d-8694-739b-aea5-966c26f8ad91'")


def check_uuids(found: Violations, field: str, values: Sequence[str], *, count: int) -> None:
    """Check a list of ids: how many there are, and each of the first *count*."""
    check_count(found, field, values, most=count)
    for index, value in enumerate(values[:count]):
        if not UUID.fullmatch(value):
            check_uuid(found, f"{field}[{index}]", value)


def check_count(found: Violations, field: str, values: Collection[object], *, most: int, least: int = 0) -> None:
    """Check how many there are of something."""
    if not least <= len(values) <= most:
        found.add(field, f"must hold {least} to {most} values" if least else f"must hold at most {most} values")


def check_enum(found: Violations, field: str, number: int, known: Container[int]) -> None:
    """Check an enum that may be left out: other numbers than those known are refused."""
    if number and number not in known:
        found.add(field, "must be a value of the enum")


def check_enums(found: Violations, field: str, numbers: Sequence[int], known: Container[int], *, count: int) -> None:
    """Check a list of enums, in which each must say something."""
    check_count(found, field, numbers, most=count)
    for index, number in enumerate(numbers[:count]):
        if number not in known:
            found.add(f"{field}[{index}]", "must be a value of the enum, and not UNSPECIFIED")


def check_integer(found: Violations, field: str, value: int, *, least: int, most: int) -> None:
    """Check a whole number where 0 stands for the default."""
    if value and not least <= value <= most:
        found.add(field, f"must be {least} to {most}, or 0 for the default")


def check_number(found: Violations, field: str, value: float, *, least: float = 0.0, most: float = math.inf) -> None:
    """Check a number: finite and within its bounds."""
    if not (math.isfinite(value) and least <= value <= most):
        bound = f"from {least:g} to {most:g}" if math.isfinite(most) else f"of at least {least:g}"
        found.add(field, f"must be a finite number {bound}")


def check_revision(found: Violations, field: str, value: int) -> None:
    """Check an expected revision; 0 is any."""
    if value < 0:
        found.add(field, "must be a revision, or 0 for any")


def check_time(found: Violations, field: str, stamp: Timestamp) -> bool:
    """Check a moment, and return whether it is one."""
    if MIN_SECONDS <= stamp.seconds <= MAX_SECONDS and 0 <= stamp.nanos <= NANOS:
        return True
    found.add(field, "must lie between the years 1 and 9999, with nanos from 0 to 999999999")
    return False


def check_time_range(found: Violations, field: str, span: types.TimeRange) -> None:
    """Check a span of time: its bounds, and that it does not end before it starts."""
    starts, ends = span.HasField("start"), span.HasField("end")
    good = not starts or check_time(found, f"{field}.start", span.start)
    good = (not ends or check_time(found, f"{field}.end", span.end)) and good
    if good and starts and ends:
        start = (span.start.seconds, span.start.nanos)
        if start >= (span.end.seconds, span.end.nanos):
            found.add(f"{field}.end", "must lie after start")


def check_ttl(found: Violations, field: str, ttl: Duration) -> None:
    """Check a time to live."""
    if not (abs(ttl.seconds) <= MAX_DURATION_SECONDS and abs(ttl.nanos) <= NANOS and ttl.seconds * ttl.nanos >= 0):
        found.add(field, "must be a Duration whose seconds and nanos are in range and of the same sign")
    elif not 0 < ttl.seconds * (NANOS + 1) + ttl.nanos <= MAX_TTL_DAYS * _DAY_SECONDS * (NANOS + 1):
        found.add(field, f"must be more than 0 and at most {MAX_TTL_DAYS} days")


def check_vector(found: Violations, field: str, numbers: Numbers, dimension: int) -> None:
    """Check a given vector: finite numbers, not all zero, as many as the index has dimensions. None is fine."""
    if len(numbers) == 0:
        return
    if len(numbers) != dimension:
        found.add(field, f"must hold {dimension} numbers, as many as the index has dimensions, not {len(numbers)}")
        return
    exact = np.asarray(numbers, np.float64)
    square = float(exact @ exact)
    if not math.isfinite(square):
        found.add(field, "must hold finite numbers only")
    elif square == 0.0:
        found.add(field, "must not be all zeros")


def _length(least: int, most: int) -> str:
    return f"must have {least} to {most} characters" if least else f"must have at most {most} characters"
