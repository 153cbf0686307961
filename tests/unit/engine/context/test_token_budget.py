"""Sharing out a budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.context import Section, SectionShares
from memsvc.engine.context.selection import TokenBudget, own_shares


@given(
    st.integers(-5, 200_000),
    st.lists(st.integers(0, 100), min_size=4, max_size=4).filter(any),
    st.sets(st.sampled_from(Section)),
    st.lists(st.floats(0, 1), min_size=len(Section), max_size=len(Section)),
)
def test_no_section_may_spend_more_than_is_left(
    total: int, weights: list[int], chosen: set[Section], greed: list[float]
) -> None:
    """Whatever is spent of each room, the sum stays within the total, and the last section may have all the rest."""
    shares = SectionShares(*(weight / sum(weights) for weight in weights))
    allowance = TokenBudget(total, shares)
    rooms = {}
    for section, part in zip(Section, greed, strict=True):
        if section in chosen:
            rooms[section] = allowance.open(section)
            assert rooms[section] >= 0
            allowance.spend(int(rooms[section] * part))

    assert allowance.spent <= max(0, total)
    assert sum(own_shares(max(0, total), shares).values()) <= max(0, total)
    if chosen == {Section.EVIDENCE}:
        assert rooms == {Section.EVIDENCE: max(0, total)}


def test_what_is_not_used_flows_on() -> None:
    """With the default shares, section by section."""
    allowance = TokenBudget(1_000, SectionShares())

    rooms = []
    for section in Section:
        rooms.append(allowance.open(section))
        allowance.spend(50)

    assert rooms == [100, 50, 500, 750, 800, 750, 700, 650]


def test_what_is_not_needed_flows_back() -> None:
    """What later sections are known not to need; what is not known keeps its share."""
    needs = {Section.SESSION: 20, Section.SHORT_TERM: 900}
    allowance = TokenBudget(1_000, SectionShares())

    room = allowance.open(Section.GLOBAL_CORE, needs.get)

    assert room == 1_000 - 20 - 300 - 100


def test_shares_of_sections_that_are_not_wanted_are_free() -> None:
    """In proportion; and the project's core has the share of the core when it stands for it alone."""
    allowance = TokenBudget(1_000, SectionShares(), [Section.PROJECT_CORE, Section.SHORT_TERM])

    assert allowance.open(Section.PROJECT_CORE) == 500
    assert own_shares(1_000, SectionShares(), [Section.PROJECT_CORE]) == {Section.PROJECT_CORE: 100}
    assert own_shares(1_000, SectionShares(), [Section.GLOBAL_CORE, Section.PROJECT_CORE])[Section.PROJECT_CORE] == 0


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(0, 100), min_size=4, max_size=4).filter(any),
    st.lists(st.integers(0, 10_000), min_size=len(Section), max_size=len(Section)),
)
def test_nobody_gets_less_than_share_or_need(total: int, weights: list[int], wishes: list[int]) -> None:
    """However greedy the sections before it are."""
    shares = SectionShares(*(weight / sum(weights) for weight in weights))
    allowance, own = TokenBudget(total, shares), own_shares(total, shares)
    needs = dict(zip(Section, wishes, strict=True))

    for section in Section:
        room = allowance.open(section, lambda one, _: needs[one])
        assert room >= min(own[section], needs[section])
        allowance.spend(min(room, needs[section]))

    assert allowance.spent <= total
