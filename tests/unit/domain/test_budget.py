"""Sharing out a budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.budget import Allowance, own_shares
from memsvc.domain.context import Section, Shares


@given(
    st.integers(-5, 200_000),
    st.lists(st.integers(0, 100), min_size=4, max_size=4).filter(any),
    st.sets(st.sampled_from(Section)),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_no_section_may_spend_more_than_is_left(
    total: int, weights: list[int], chosen: set[Section], greed: list[float]
) -> None:
    """Whatever is spent of each room, the sum stays within the total, and the last section may have all the rest."""
    shares = Shares(*(weight / sum(weights) for weight in weights))
    allowance = Allowance(total, shares)
    rooms = {}
    for section, part in zip(Section, greed, strict=True):
        if section in chosen:
            rooms[section] = allowance.open(section)
            assert rooms[section] >= 0
            allowance.spend(int(rooms[section] * part))

    assert allowance.spent <= max(0, total)
    assert sum(own_shares(max(0, total), shares).values()) <= max(0, total)
    if chosen == {Section.GLOBAL}:
        assert rooms == {Section.GLOBAL: max(0, total)}


def test_what_is_not_used_flows_on() -> None:
    """With the default shares, section by section."""
    allowance = Allowance(1_000, Shares())

    rooms = []
    for section in Section:
        rooms.append(allowance.open(section))
        allowance.spend(50)

    assert rooms == [100, 50, 500, 650, 800, 750]
