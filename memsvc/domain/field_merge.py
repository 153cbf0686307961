"""Merging two changes of one memory field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memsvc.domain.memory import Keyword
from memsvc.domain.three_way_merge import merge_text

TEXT = frozenset({"content", "summary"})
"""Fields whose lines are merged."""
SETS = frozenset({"tags", "related_ids", "file_refs", "keywords"})
"""Fields to which each side may add, and from which each may take away."""


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
        values[name], is_clean = _merged(name, base.get(name), ours.get(name), value)
        if not is_clean:
            conflicts.add(name)
    return MergedFields(values, frozenset(conflicts))


def is_same(one: object, other: object) -> bool:
    """Return whether two values of a field say the same; as JSON does, since to Python True equals 1."""
    if isinstance(one, Mapping) or isinstance(other, Mapping):
        return json.dumps(one, sort_keys=True, default=dict) == json.dumps(other, sort_keys=True, default=dict)
    return one == other


def _merged(name: str, base: Any, ours: Any, theirs: Any) -> tuple[Any, bool]:
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
    """Keep the order of theirs; what ours added follows. Keywords are told apart by their terms."""
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
