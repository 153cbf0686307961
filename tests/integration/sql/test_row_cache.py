"""What was read lately is kept only while it is what the database holds."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memsvc_backends.sql.ranking_columns import RowCache

ROWS = st.integers(0, 9)


class Readers(RuleBasedStateMachine):
    """Readers that begin and end at any moment, beside a writer."""

    @initialize()
    def empty(self) -> None:
        """Begin with a database of ten rows."""
        self.recent = RowCache[int](4)
        self.stored = dict.fromkeys(range(10), 1)
        self.reading: list[tuple[int, dict[int, int]]] = []
        self.committed: set[int] = set()

    @rule(rows=st.sets(ROWS))
    def begin_reading(self, rows: set[int]) -> None:
        """Read, and have the values still in hand."""
        version = self.recent.version
        self.reading.append((version, {row: self.stored[row] for row in rows}))

    @rule(place=st.integers(0, 9))
    def end_reading(self, place: int) -> None:
        """Keep what was read, maybe a good while later."""
        if self.reading:
            version, values = self.reading.pop(place % len(self.reading))
            self.recent.keep(values, version)

    @rule(rows=st.sets(ROWS))
    def commit(self, rows: set[int]) -> None:
        """Change rows, and tell nobody yet."""
        self.stored |= {row: self.stored[row] + 1 for row in rows}
        self.committed |= rows

    @rule()
    def acknowledge(self) -> None:
        """Tell of what was committed."""
        self.recent.forget(self.committed)
        self.committed = set()

    @rule(rows=st.sets(ROWS))
    def look(self, rows: set[int]) -> None:
        """Move what is looked for to the young half."""
        assert self.recent.get_many(rows).keys() <= rows

    @invariant()
    def nothing_acknowledged_is_missed(self) -> None:
        """A kept value is the stored one, unless its change is not acknowledged yet."""
        for row, value in self.recent.get_many(range(10)).items():
            assert value == self.stored[row] or row in self.committed


TestReaders = Readers.TestCase


def test_few_are_kept_and_the_lately_used_ones_stay() -> None:
    """Between the capacity and a little more than twice of it."""
    recent = RowCache[int](10)
    for row in range(100):
        recent.keep({row: row}, recent.version)
        recent.get_many([0])

    kept = recent.get_many(range(100))
    assert 0 in kept
    assert kept.keys() >= set(range(91, 100))
    assert len(kept) <= 21
