"""Merging two changes of a memory field by field."""

from __future__ import annotations

from typing import Any

import pytest

from memsvc.domain.memory import FileRef, Keyword
from memsvc.domain.three_way_merge import merge_fields

BASE: dict[str, Any] = {
    "title": "Tea",
    "content": "one\ntwo\nthree",
    "tags": ("a", "b"),
    "importance": 3,
    "metadata": {"k": 1, "old": True},
    "keywords": (Keyword("tea", 0.5),),
    "file_refs": (),
}


def merged(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return what the merge changes of *BASE*, and the fields in conflict."""
    found = merge_fields(BASE, BASE | ours, BASE | theirs)
    return {name: value for name, value in found.values.items() if value != BASE[name]}, found.conflicts


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"title": "Green tea"}, {"importance": 5}, {"title": "Green tea", "importance": 5}),
        ({"title": "Same"}, {"title": "Same"}, {"title": "Same"}),
        ({"content": "ONE\ntwo\nthree"}, {"content": "one\ntwo\nTHREE"}, {"content": "ONE\ntwo\nTHREE"}),
        ({"tags": ("b", "c")}, {"tags": ("a", "b", "d")}, {"tags": ("b", "d", "c")}),
        ({"tags": ()}, {"tags": ("a", "b", "c")}, {"tags": ("c",)}),
        ({"metadata": {"k": 2, "old": True}}, {"metadata": {"k": 1}}, {"metadata": {"k": 2}}),
        (
            {"keywords": (Keyword("tea", 0.9),)},
            {"keywords": (Keyword("tea", 0.5), Keyword("pot", 0.1))},
            {"keywords": (Keyword("tea", 0.9), Keyword("pot", 0.1))},
        ),
        (
            {"file_refs": (FileRef("chart", "1"),)},
            {"file_refs": (FileRef("report", "2"),)},
            {"file_refs": (FileRef("report", "2"), FileRef("chart", "1"))},
        ),
    ],
)
def test_changes_of_different_parts_are_both_kept(
    ours: dict[str, Any], theirs: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Fields, lines, tags, keywords and names of metadata each count as a part."""
    assert merged(ours, theirs) == (expected, frozenset())


@pytest.mark.parametrize(
    ("ours", "theirs", "field"),
    [
        ({"title": "Ours"}, {"title": "Theirs"}, "title"),
        ({"importance": 1}, {"importance": 5}, "importance"),
        ({"content": "one\nOURS\nthree"}, {"content": "one\nTHEIRS\nthree"}, "content"),
        ({"metadata": {"k": 2, "old": True}}, {"metadata": {"k": 3, "old": True}}, "metadata"),
        ({"metadata": {"k": 1, "old": 1}}, {"metadata": {"k": 1, "old": False}}, "metadata"),
        ({"keywords": (Keyword("tea", 0.9),)}, {"keywords": (Keyword("tea", 0.1),)}, "keywords"),
    ],
)
def test_two_changes_of_one_part_are_a_conflict(ours: dict[str, Any], theirs: dict[str, Any], field: str) -> None:
    """Theirs is taken, and the field is named."""
    assert merged(ours, theirs) == (theirs, frozenset({field}))


def test_fields_that_theirs_does_not_name_are_left_out() -> None:
    """What a file does not say is not for it to change."""
    found = merge_fields(BASE, BASE | {"title": "Ours"}, {"importance": 4})

    assert (found.values, found.conflicts) == ({"importance": 4}, frozenset())
