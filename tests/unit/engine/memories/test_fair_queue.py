"""A queue that serves several flows in fair shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.engine.commit.group_committer import FairQueue

WORKS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.5, 40.0)), max_size=60)


def taken(queue: FairQueue[str], count: int | None = None) -> Iterator[str]:
    """Take *count* works, or all."""
    for _ in range(len(queue) if count is None else count):
        first = queue.first()
        assert queue.pop() is first
        yield first


@given(WORKS)
def test_each_flow_keeps_its_order_and_nothing_is_left(works: list[tuple[str, float]]) -> None:
    """Whatever the costs are."""
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, (flow, cost) in enumerate(works):
        queue.put((flow, number), flow=flow, cost=cost)

    found = [queue.pop() for _ in range(len(queue))]

    assert len(queue) == 0
    for flow in "abc":
        assert [one for one in found if one[0] == flow] == [
            (name, n) for n, (name, _) in enumerate(works) if name == flow
        ]


@given(st.lists(st.floats(0.5, 40.0), min_size=1, max_size=30), st.lists(st.floats(0.5, 40.0), min_size=1, max_size=30))
def test_two_flows_have_equal_shares_while_both_have_work(one: list[float], other: list[float]) -> None:
    """Their shares never differ by more than the most costly work of each."""
    queue: FairQueue[tuple[str, float]] = FairQueue()
    for flow, costs in (("one", one), ("other", other)):
        for cost in costs:
            queue.put((flow, cost), flow=flow, cost=cost)
    shares, left = {"one": 0.0, "other": 0.0}, {"one": len(one), "other": len(other)}

    while all(left.values()):
        flow, cost = queue.pop()
        shares[flow] += cost
        left[flow] -= 1
        assert abs(shares["one"] - shares["other"]) <= max(one) + max(other)


def test_cheap_work_of_a_new_flow_comes_next() -> None:
    """It waits for none of the costly work that others have queued, nor for that of flows as new as its own."""
    queue: FairQueue[str] = FairQueue()
    for number in range(8):
        queue.put(f"batch {number}", flow=number, cost=33)
        queue.put(f"second batch {number}", flow=number, cost=33)

    before = list(taken(queue, 3))
    queue.put("single", flow="ada", cost=1)
    queue.put("batch of a new user", flow="eve", cost=33)
    after = list(taken(queue))

    assert before == ["batch 0", "batch 1", "batch 2"]
    assert after[0] == "single"
    assert after.index("batch of a new user") < after.index("second batch 0")


def test_a_flow_that_works_without_a_pause_waits_for_its_share() -> None:
    """After a batch of the cost of 10 writes those of another flow pass its next one, though each is put later."""
    queue: FairQueue[str] = FairQueue()
    queue.put("batch", flow="eve", cost=10)
    queue.put("next batch", flow="eve", cost=10)
    found = [queue.pop()]
    queue.put("write 0", flow="ada", cost=1)

    for number in range(1, 14):
        found.append(queue.pop())
        queue.put(f"write {number}", flow="ada", cost=1)

    assert found == ["batch", *(f"write {number}" for number in range(11)), "next batch", "write 11"]


def test_a_rest_forgets_what_each_flow_had() -> None:
    """After it the flows begin anew, in the order of their work."""
    queue: FairQueue[str] = FairQueue()
    queue.put("batch", flow="eve", cost=100)
    assert queue.pop() == "batch"

    queue.rest()
    queue.put("next batch", flow="eve", cost=1)
    queue.put("write", flow="ada", cost=1)

    assert list(taken(queue)) == ["next batch", "write"]


def test_an_empty_queue_says_so() -> None:
    """Neither the first work nor the next one is made up."""
    queue: FairQueue[str] = FairQueue()
    for ask in (queue.first, queue.pop):
        with pytest.raises(IndexError):
            ask()
