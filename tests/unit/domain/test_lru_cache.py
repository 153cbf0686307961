"""A cache keeps the values used last."""

from __future__ import annotations

from memsvc.domain.lru_cache import LruCache


def test_the_lately_used_stay() -> None:
    """At least as many as the capacity, at most twice; what is asked for again stays among them."""
    kept = LruCache[object, int](10)

    for number in range(100):
        kept.put(number, number)
        assert kept.get("first") is None
        assert number == kept.get(number)
        assert 0 == kept.get(0)

    there = [number for number in range(100) if kept.get(number) is not None]
    assert 10 <= len(there) <= 20
    assert [0, *range(91, 100)] == [number for number in there if number == 0 or number > 90]


def test_nothing_stays_after_clearing() -> None:
    """Neither in the younger nor in the older half."""
    kept = LruCache[object, int](2)
    for number in range(3):
        kept.put(number, number)

    kept.clear()

    assert [None] * 3 == [kept.get(number) for number in range(3)]
