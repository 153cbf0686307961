"""Searches go first, and bulk work goes on all the same."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from memsvc.engine.runtime import search_priority
from memsvc.engine.runtime.search_priority import LINGER_SECONDS, LONGEST_PAUSE_SECONDS, PAUSE_RATIO, SearchPriority
from tests.support.until import PATIENCE_SECONDS, until


@dataclass
class Times:
    """A clock and a processor's time that a test moves; to sleep moves the clock."""

    now: float = 1_000.0
    worked: float = 0.0
    slept: list[float] = field(default_factory=list)

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.worked += seconds

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)

    def courtesy(self) -> SearchPriority:
        """Return one by these times, of which a search was just made."""
        made = SearchPriority(now=lambda: self.now, worked=lambda: self.worked, sleep=self.sleep)
        _searched(made)
        return made


def _searched(courtesy: SearchPriority) -> None:
    with courtesy.search():
        pass
    courtesy.yield_to_searches()


def test_bulk_work_waits_for_a_search_to_end() -> None:
    """It goes on as soon as the last search has ended."""
    courtesy = SearchPriority()
    order: list[str] = []
    begun = threading.Event()

    def bulk() -> None:
        begun.set()
        courtesy.yield_to_searches()
        order.append("bulk")

    with courtesy.search():
        thread = threading.Thread(target=bulk)
        thread.start()
        begun.wait()
        order.append("search")
    thread.join()

    assert set(order) == {"bulk", "search"}
    assert not thread.is_alive()


def test_bulk_work_waits_for_a_write_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the write itself yields to nothing."""
    monkeypatch.setattr(search_priority, "LONGEST_WRITE_SECONDS", PATIENCE_SECONDS)
    courtesy = SearchPriority()
    order: list[str] = []

    def bulk() -> None:
        courtesy.yield_to_searches()
        order.append("bulk")

    with courtesy.write():
        thread = threading.Thread(target=bulk)
        thread.start()
        courtesy.yield_to_searches()
        until(lambda: courtesy.waiting_count == 1)
        order.append("write")
    thread.join()

    assert order == ["write", "bulk"]


def test_bulk_work_goes_on_beside_writes_without_end() -> None:
    """It waits no longer than its patience, and then not again at once."""
    courtesy = SearchPriority()

    def bulk() -> None:
        for _ in range(1000):
            courtesy.yield_to_searches()

    with courtesy.write():
        thread = threading.Thread(target=bulk)
        thread.start()
        thread.join()

    assert courtesy.waiting_count == 0


def test_bulk_work_goes_on_beside_searches_without_end() -> None:
    """It waits no longer than its patience, and then not again at once."""
    courtesy = SearchPriority()

    with courtesy.search():
        for _ in range(1000):
            courtesy.yield_to_searches()


def test_without_searches_nobody_waits() -> None:
    """Asking costs nothing then, as often as it is done."""
    courtesy = SearchPriority()
    with courtesy.search():
        pass

    for _ in range(100_000):
        courtesy.yield_to_searches()


def test_bulk_work_rests_while_another_search_is_expected() -> None:
    """It rests twice as long as it works, in small pieces."""
    times = Times()
    courtesy = times.courtesy()

    for _ in range(80):
        times.work(0.0002)
        courtesy.yield_to_searches()

    assert sum(times.slept) == pytest.approx(80 * 0.0002 * PAUSE_RATIO, rel=0.1)
    assert max(times.slept) < 0.0015


def test_bulk_work_expects_no_further_call_after_one() -> None:
    """It waits while the call runs, and does not pause after it."""
    times = Times()
    courtesy = SearchPriority(now=lambda: times.now, worked=lambda: times.worked, sleep=times.sleep)
    with courtesy.call():
        pass

    for _ in range(80):
        times.work(0.0002)
        courtesy.yield_to_searches()

    assert not times.slept


def test_bulk_work_is_at_full_speed_again_when_no_search_came() -> None:
    """A search is expected for a moment only."""
    times = Times()
    courtesy = times.courtesy()
    times.now += LINGER_SECONDS

    for _ in range(100):
        times.work(0.001)
        courtesy.yield_to_searches()

    assert not times.slept


def test_what_bulk_work_waits_for_counts_as_rest() -> None:
    """Whoever waits for a disk twice as long as it computes is in nobody's way."""
    times = Times()
    courtesy = times.courtesy()

    for _ in range(20):
        times.work(0.001)
        times.now += 0.001 * PAUSE_RATIO
        courtesy.yield_to_searches()

    assert not times.slept


def test_work_from_before_the_search_is_not_owed() -> None:
    """An import that ran alone for a minute does not rest for two when the first search comes."""
    times = Times()
    courtesy = times.courtesy()
    for _ in range(600):
        times.work(0.1)
        courtesy.yield_to_searches()

    _searched(courtesy)

    assert not times.slept


def test_no_rest_is_longer_than_patience() -> None:
    """Not even after a memory that took very long."""
    times = Times()
    courtesy = times.courtesy()

    times.work(LINGER_SECONDS * 0.9)
    courtesy.yield_to_searches()

    assert times.slept == [LONGEST_PAUSE_SECONDS]


def test_a_search_s_own_work_does_not_rest() -> None:
    """What is done for a search in a thread stands aside for nobody, nor rests."""
    times = Times()
    courtesy = times.courtesy()

    with courtesy.without_yielding():
        for _ in range(50):
            times.work(0.001)
            courtesy.yield_to_searches()

    assert not times.slept
