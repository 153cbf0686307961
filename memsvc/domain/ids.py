"""Ids of memories: UUIDs of version 7, which sort by their time."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

from memsvc.domain.clock import to_micros

_MILLISECOND_MICROS = 1_000
_FRACTIONS = 4_096
_VERSION_7 = 7 << 76
_VARIANT = 0b10 << 62
_RANDOM_BYTES = 8
_RANDOM_MASK = (1 << 62) - 1


def uuid7(now: datetime, random: Callable[[int], bytes] = os.urandom) -> str:
    """Return a new UUID of version 7: ids of different microseconds sort as their times do.

    The 12 bits after the version hold the fraction of the millisecond (RFC 9562, method 3); 62 bits are random.
    """
    millis, micros = divmod(to_micros(now), _MILLISECOND_MICROS)
    fraction = micros * _FRACTIONS // _MILLISECOND_MICROS
    chance = int.from_bytes(random(_RANDOM_BYTES), "big") & _RANDOM_MASK
    digits = f"{millis << 80 | _VERSION_7 | fraction << 64 | _VARIANT | chance:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
