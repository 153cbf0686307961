"""Searches go first, and bulk work goes on all the same."""

from __future__ import annotations

import threading

from memsvc.engine.courtesy import Courtesy


def test_bulk_work_waits_for_a_search_to_end() -> None:
    """It goes on as soon as the last search has ended."""
    courtesy = Courtesy()
    order: list[str] = []
    begun = threading.Event()

    def bulk() -> None:
        begun.set()
        courtesy.give_way()
        order.append("bulk")

    with courtesy.search():
        thread = threading.Thread(target=bulk)
        thread.start()
        begun.wait()
        order.append("search")
    thread.join()

    assert set(order) == {"bulk", "search"}
    assert not thread.is_alive()


def test_bulk_work_goes_on_beside_searches_without_end() -> None:
    """It waits no longer than its patience, and then not again at once."""
    courtesy = Courtesy()

    with courtesy.search():
        for _ in range(1000):
            courtesy.give_way()


def test_without_searches_nobody_waits() -> None:
    """Asking costs nothing then, as often as it is done."""
    courtesy = Courtesy()
    with courtesy.search():
        pass

    for _ in range(100_000):
        courtesy.give_way()
