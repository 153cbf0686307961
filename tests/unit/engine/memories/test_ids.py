"""Ids of memories."""

from __future__ import annotations

import uuid
from datetime import timedelta

from memsvc.domain.memory import uuid7
from memsvc.testing.factories import NOW


def test_an_id_is_a_uuid_of_version_7_with_its_time() -> None:
    """The first 48 bits are the milliseconds since the epoch."""
    made = uuid.UUID(uuid7(NOW))

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert int(NOW.timestamp() * 1000) == made.int >> 80


def test_ids_sort_by_time_to_the_microsecond() -> None:
    """A later microsecond gives a larger id, whatever the random bits are."""
    earlier = uuid7(NOW, lambda size: b"\xff" * size)

    assert earlier < uuid7(NOW + timedelta(microseconds=1), bytes)


def test_the_same_moment_gives_different_ids() -> None:
    """62 random bits tell ids of one microsecond apart."""
    assert len({uuid7(NOW) for _ in range(1_000)}) == 1_000
