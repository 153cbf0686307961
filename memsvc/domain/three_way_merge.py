"""Merging two changes of one text by lines, as Git does.

The matching of lines is difflib's. A library for the rest would have been merge3, but its licence is the GPL;
diff-match-patch puts a change where it seems to fit and does not say when it guessed; `git merge-file` needs Git on
every machine and a process for every merge. Tests compare this with Git's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple, TypeAlias

EFFORT = 4_000_000
"""The most pairs of equal lines that are compared; beyond, the texts are not merged but in conflict."""

Lines: TypeAlias = Sequence[str]


@dataclass(frozen=True, slots=True)
class MergedText:
    """Two changes as one text.

    Attributes:
        is_clean: Whether nothing of either side is missing. Where both changed the same lines, theirs are taken.
    """

    text: str
    is_clean: bool


def merge_text(base: str, ours: str, theirs: str) -> MergedText:
    """Return what *base* is with the changes of both sides.

    Lines that both sides put in at the same place are kept from both, ours first. Lines next to each other of which
    each side changed one are in conflict, as Git has it, since they may belong together.
    """
    if ours in {base, theirs}:
        return MergedText(theirs, is_clean=True)
    if theirs == base:
        return MergedText(ours, is_clean=True)
    sides = [text.split("\n") for text in (base, ours, theirs)]
    head, tail = _shared(sides)
    middle = [lines[head : len(lines) - tail] for lines in sides]
    merged, is_clean = _merge_field(*middle)
    lines = [*sides[0][:head], *merged, *sides[0][len(sides[0]) - tail :]]
    return MergedText("\n".join(lines), is_clean=is_clean)


class _Same(NamedTuple):
    """Lines that are the same in all three: where they begin in each, and how many."""

    base: int
    ours: int
    theirs: int
    size: int


def _merge_field(base: Lines, ours: Lines, theirs: Lines) -> tuple[list[str], bool]:
    if _effort(base, ours) > EFFORT or _effort(base, theirs) > EFFORT:
        return list(theirs), False
    found: list[str] = []
    is_clean = True
    at = _Same(0, 0, 0, 0)
    for same in _sames(base, ours, theirs):
        part, is_whole = _part(base[at.base : same.base], ours[at.ours : same.ours], theirs[at.theirs : same.theirs])
        found += part
        found += base[same.base : same.base + same.size]
        is_clean = is_clean and is_whole
        at = _Same(same.base + same.size, same.ours + same.size, same.theirs + same.size, 0)
    return found, is_clean


def _part(base: Lines, ours: Lines, theirs: Lines) -> tuple[Lines, bool]:
    """Merge what lies between two places where all are the same."""
    if list(ours) in (list(base), list(theirs)):
        return theirs, True
    if list(theirs) == list(base):
        return ours, True
    if base:
        return theirs, False
    head, tail = _shared([ours, theirs])
    return [*ours[: len(ours) - tail], *theirs[head : len(theirs) - tail], *ours[len(ours) - tail :]], True


def _sames(base: Lines, ours: Lines, theirs: Lines) -> Iterator[_Same]:
    """Yield the places where all three are the same, in order; the last one is the end of all."""
    mine = SequenceMatcher(None, base, ours, autojunk=False).get_matching_blocks()
    other = SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    one = two = 0
    while one < len(mine) and two < len(other):
        a, b = mine[one], other[two]
        start, end = max(a.a, b.a), min(a.a + a.size, b.a + b.size)
        if start < end:
            yield _Same(start, a.b + start - a.a, b.b + start - b.a, end - start)
        if a.a + a.size < b.a + b.size:
            one += 1
        else:
            two += 1
    yield _Same(len(base), len(ours), len(theirs), 0)


def _shared(sides: Sequence[Lines]) -> tuple[int, int]:
    """Return how many lines all sides begin with, and end with besides."""
    shortest = min(map(len, sides))
    head = 0
    while head < shortest and len({side[head] for side in sides}) == 1:
        head += 1
    tail = 0
    while tail < shortest - head and len({side[-1 - tail] for side in sides}) == 1:
        tail += 1
    return head, tail


def _effort(one: Lines, other: Lines) -> int:
    counts = Counter(other)
    return sum(count * counts[line] for line, count in Counter(one).items())
