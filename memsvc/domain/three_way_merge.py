"""Three-way merge of texts by lines, as in Git, and of memories field by field.

The matching of lines is difflib's. A library for the rest would have been merge3, but its licence is the GPL;
diff-match-patch puts a change where it seems to fit and does not say when it guessed; `git merge-file` needs Git on
every machine and a process for every merge. Tests compare this with Git's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeAlias

from memsvc.domain.memory import Keyword

EFFORT = 4_000_000
"""The most pairs of equal lines that are compared; beyond, the texts are not merged but in conflict."""

Lines: TypeAlias = Sequence[str]
TEXT = frozenset({"content", "summary"})
"""Fields whose lines are merged."""
SETS = frozenset({"tags", "related_ids", "file_refs", "keywords"})
"""Fields to which each side may add, and from which each may take away."""


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
    head, tail = _common_ends(sides)
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
    """Merge the part between two common parts."""
    if list(ours) in (list(base), list(theirs)):
        return theirs, True
    if list(theirs) == list(base):
        return ours, True
    if base:
        return theirs, False
    head, tail = _common_ends([ours, theirs])
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


def _common_ends(sides: Sequence[Lines]) -> tuple[int, int]:
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


# Three-way merge of a memory, field by field.


@dataclass(frozen=True, slots=True)
class MergedFields:
    """Two changes as one.

    Attributes:
        conflicts: The names of the fields of which something of our side is missing: there theirs was taken.
    """

    values: Mapping[str, Any]
    conflicts: frozenset[str] = frozenset()


def merge_fields(base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> MergedFields:
    """Return *theirs* with what our side changed since *base*; all three are fields of a memory by name.

    A field that one side alone changed is as that side has it. Of one that both changed, texts are merged by lines,
    sets and metadata by their parts; what else both changed, differently, is in conflict. Fields that *theirs* does
    not name are left out.
    """
    values: dict[str, Any] = {}
    conflicts = set()
    for name, value in theirs.items():
        values[name], is_clean = _merge_value(name, base.get(name), ours.get(name), value)
        if not is_clean:
            conflicts.add(name)
    return MergedFields(values, frozenset(conflicts))


def is_same(one: object, other: object) -> bool:
    """Return whether two values of a field say the same; as JSON does, since to Python True equals 1."""
    if isinstance(one, Mapping) or isinstance(other, Mapping):
        return json.dumps(one, sort_keys=True, default=dict) == json.dumps(other, sort_keys=True, default=dict)
    return one == other


def _merge_value(name: str, base: Any, ours: Any, theirs: Any) -> tuple[Any, bool]:
    if is_same(ours, base) or is_same(ours, theirs):
        return theirs, True
    if is_same(theirs, base):
        return ours, True
    if name in TEXT and all(isinstance(side, str) for side in (base, ours, theirs)):
        text = merge_text(base, ours, theirs)
        return text.text, text.is_clean
    if name in SETS:
        return _merged_set(base or (), ours or (), theirs or ())
    if name == "metadata":
        return _merged_metadata(base or {}, ours or {}, theirs or {})
    return theirs, False


def _merged_set(base: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[Any, bool]:
    """Keep the order of theirs; what ours added follows. Keywords are compared by their terms."""
    before, mine, other = (
        {one.term if isinstance(one, Keyword) else one: one for one in side} for side in (base, ours, theirs)
    )
    merged, conflicts = _merged_parts(before, mine, other)
    return tuple(merged.values()), not conflicts


def _merged_metadata(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bool]:
    merged, conflicts = _merged_parts(base, ours, theirs)
    return merged, not conflicts


def _merged_parts(
    base: Mapping[Any, Any], ours: Mapping[Any, Any], theirs: Mapping[Any, Any]
) -> tuple[dict[Any, Any], bool]:
    """Merge part by part; return also whether both sides changed one part differently. Theirs is taken there."""
    missing = object()
    merged: dict[Any, Any] = {}
    is_conflict = False
    for key in dict.fromkeys((*theirs, *ours)):
        before, mine, other = (side.get(key, missing) for side in (base, ours, theirs))
        has_changed, is_agreed = not _equal(mine, before), _equal(mine, other)
        is_conflict = is_conflict or (has_changed and not is_agreed and not _equal(other, before))
        taken = mine if has_changed and _equal(other, before) else other
        if taken is not missing:
            merged[key] = taken
    return merged, is_conflict


def _equal(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and is_same(one, other))
