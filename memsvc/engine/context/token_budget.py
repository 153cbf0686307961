"""Division of a token budget: each section has a share, and unused tokens go to the other sections."""

from __future__ import annotations

from collections.abc import Callable, Collection

from memsvc.domain.context import Section, SectionShares


def own_shares(total: int, shares: SectionShares, sections: Collection[Section] = tuple(Section)) -> dict[Section, int]:
    """Return the tokens of those *sections*, together at most *total*. Of two with one share, the first has it."""
    parts = {
        Section.GLOBAL_CORE: shares.core,
        Section.PROJECT_CORE: 0.0 if Section.GLOBAL_CORE in sections else shares.core,
        Section.SESSION: shares.session,
        Section.LONG_TERM: shares.long_term,
        Section.SHORT_TERM: shares.short_term,
        Section.GLOBAL: 0.0,
        Section.EVIDENCE: 0.0 if Section.LONG_TERM in sections else shares.long_term,
    }
    return {section: int(total * parts[section]) for section in Section if section in sections}


class TokenBudget:
    """Remaining budget, section by section in their order.

    Kept back for each section to come is its own share, or less where it is known to need less; all else may be
    spent. So no section gets less than its share, or than it needs, because of those before it.
    """

    def __init__(self, total: int, shares: SectionShares, sections: Collection[Section] = tuple(Section)) -> None:
        """Share out *total* tokens among those *sections*, all of them; less than none is none."""
        self._total = max(0, total)
        own = own_shares(self._total, shares, sections)
        given = sum(own.values())
        self._own = {section: tokens * self._total // given if given else 0 for section, tokens in own.items()}
        self.spent = 0

    def open(self, section: Section, need: Callable[[Section, int], int] | None = None) -> int:
        """Return what a section may spend.

        *need* returns how many tokens a later section needs, for a given number of its tokens; one that is not known
        needs all of them. Without it all do.
        """
        order = list(Section)
        later = [one for one in self._own if order.index(one) > order.index(section)]
        kept = sum(min(self._own[one], need(one, self._own[one])) if need else self._own[one] for one in later)
        return max(0, self._total - self.spent - kept)

    def reserve(self, section: Section, tokens: int) -> None:
        """Make *tokens* the own share of a section to come."""
        self._own[section] = tokens

    def spend(self, tokens: int) -> None:
        """Spend tokens of the section that is open."""
        self.spent += tokens
