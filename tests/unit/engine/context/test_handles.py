"""Handles of the lines of a context."""

from __future__ import annotations

from memsvc.domain.conflicts import Currency, CurrencyMark
from memsvc.domain.context import ContextQuery, Section
from memsvc.domain.lru_cache import LruCache
from memsvc.engine.context.rendering import LineRenderer
from memsvc.testing import factories
from memsvc_backends.in_memory.models import EstimatingTokenizer


def test_only_lines_that_are_shown_take_handles() -> None:
    """What was measured and not shown takes none, nor does the memory that outdates it; a mark names a memory once."""
    older, shown, newer = (factories.memory(f"Number {number}.") for number in range(3))
    lines = LineRenderer(ContextQuery(scope=older.scope), EstimatingTokenizer(), LruCache(9))
    lines.marks = {one.id: CurrencyMark(Currency.OUTDATED, newer.id) for one in (older, shown)}
    measured = [lines.line(Section.LONG_TERM, one, most=100) for one in (older, shown, newer)]
    assert 1 == lines.next_handle

    texts = [lines.cite(line, one.id).text for line, one in zip(measured[1:], (shown, newer), strict=True) if line]

    assert ["[m1]", "[m2]"] == [lines.citation(one.id) for one in (shown, newer)]
    assert texts[0].startswith("- [m1] ")
    assert texts[0].endswith(" (outdated, see [m2]) Number 1.\n")
    assert texts[1].startswith("- [m2] ")
    assert 3 == lines.next_handle
