"""Sharing out a budget of tokens: each section has a share, and what it leaves over flows on."""

from __future__ import annotations

from memsvc.domain.context import Section, Shares


def own_shares(total: int, shares: Shares) -> dict[Section, int]:
    """Return the tokens of each section, together at most *total*. Of two sections with one share, the first has it."""
    return {
        Section.GLOBAL_CORE: int(total * shares.core),
        Section.PROJECT_CORE: 0,
        Section.SESSION: int(total * shares.session),
        Section.LONG_TERM: int(total * shares.long_term),
        Section.SHORT_TERM: int(total * shares.short_term),
        Section.GLOBAL: 0,
    }


class Allowance:
    """How much may still be spent, section by section in their order.

    What sections that are passed over would have had flows on too, and so does what rounding leaves over.
    """

    def __init__(self, total: int, shares: Shares) -> None:
        """Share out *total* tokens; less than none is none."""
        self._total = max(0, total)
        self._own = own_shares(self._total, shares)
        self._granted = 0
        self._waiting = list(Section)
        self.spent = 0

    def open(self, section: Section) -> int:
        """Begin a section, which must come after those opened before, and return what it may spend."""
        while self._waiting and section in self._waiting:
            self._granted += self._own[self._waiting.pop(0)]
        if not self._waiting:
            self._granted = self._total
        return self.room

    @property
    def room(self) -> int:
        """Return what may be spent now."""
        return self._granted - self.spent

    def spend(self, tokens: int) -> None:
        """Spend tokens of the section that is open."""
        self.spent += tokens
