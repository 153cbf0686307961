"""When a rebuild would not race an import."""

from __future__ import annotations

from memsvc.engine.indexing.reindex import IMPORT_RATE, LONGEST_SECONDS, MOST_PENDING, QuietPeriodDetector

INTERVAL = 2.0
RUSH = int(IMPORT_RATE * INTERVAL) + 1


def test_it_has_come_when_little_was_written_since_the_last_look() -> None:
    """The first look knows of no earlier one."""
    quiet_period = QuietPeriodDetector(interval_seconds=INTERVAL)
    assert not quiet_period.is_quiet(7, 0)
    assert quiet_period.is_quiet(7, 0)
    assert quiet_period.is_quiet(7 + RUSH - 1, 0)


def test_an_import_is_waited_for() -> None:
    """Also one that the indexes keep up with, and until they have taken in what it left."""
    quiet_period = QuietPeriodDetector(interval_seconds=INTERVAL)
    quiet_period.is_quiet(0, 0)
    assert not quiet_period.is_quiet(RUSH, 0)
    assert not quiet_period.is_quiet(2 * RUSH, 0)
    assert not quiet_period.is_quiet(2 * RUSH, MOST_PENDING + 1)
    assert quiet_period.is_quiet(2 * RUSH, MOST_PENDING)


def test_an_import_without_end_is_not_waited_for() -> None:
    """Every so often the index is built anew all the same."""
    quiet_period = QuietPeriodDetector(interval_seconds=INTERVAL)
    looks = int(LONGEST_SECONDS / INTERVAL)
    said = [quiet_period.is_quiet(number * RUSH, 0) for number in range(3 * looks)]
    assert said.count(True) == 2
    assert said.index(True) == looks
