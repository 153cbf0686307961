"""When a rebuild would not race an import."""

from __future__ import annotations

import pytest

from memsvc.engine.indexing.reindex import IMPORT_RATE, MOST_PENDING, WAIT_SECONDS, QuietPeriodDetector

INTERVAL = 2.0
RUSH = int(IMPORT_RATE * INTERVAL) + 1


def test_it_has_come_when_little_was_written_since_the_last_look() -> None:
    """The first look knows of no earlier one."""
    quiet_period = QuietPeriodDetector(interval_seconds=INTERVAL)
    assert not quiet_period.is_quiet(7, 0, memories=1_000)
    assert quiet_period.is_quiet(7, 0, memories=1_000)
    assert quiet_period.is_quiet(7 + RUSH - 1, 0, memories=1_000)


def test_an_import_is_waited_for() -> None:
    """Also one that the indexes keep up with, and until they have taken in what it left."""
    quiet_period = QuietPeriodDetector(interval_seconds=INTERVAL)
    quiet_period.is_quiet(0, 0, memories=1_000)
    assert not quiet_period.is_quiet(RUSH, 0, memories=1_000)
    assert not quiet_period.is_quiet(2 * RUSH, 0, memories=1_000)
    assert not quiet_period.is_quiet(2 * RUSH, MOST_PENDING + 1, memories=1_000)
    assert quiet_period.is_quiet(2 * RUSH, MOST_PENDING, memories=1_000)


@pytest.mark.parametrize(
    ("memories", "seconds"), [(1_000, WAIT_SECONDS[0]), (200_000, 400.0), (10_000_000, WAIT_SECONDS[2])]
)
def test_an_import_without_end_is_not_waited_for(memories: int, seconds: float) -> None:
    """Every so often the index is built anew all the same, the less often the longer that takes."""
    quiet_period = QuietPeriodDetector(interval_seconds=INTERVAL)
    looks = int(seconds / INTERVAL)
    said = [quiet_period.is_quiet(number * RUSH, 0, memories=memories) for number in range(3 * looks)]
    assert said.count(True) == 2
    assert said.index(True) == looks
