"""An edit of a file and one through the API become one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from memsvc.domain import limits
from memsvc.domain.memory import Memory, content_hash
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Note
from memsvc.engine.vault.note_import import ThreeWayMerge
from memsvc.text.vault_notes.parser import read_note
from memsvc.text.vault_notes.renderer import render_note

NOW = datetime(2026, 2, 6, tzinfo=UTC)
TEXT = "First line.\n\nSecond line.\n\n第三行。"
BASE = Memory(
    "0197f0de-0000-7000-8000-000000000001", Scope("u"), TEXT, NOW, NOW, content_hash(TEXT), title="Lines", tags=("a",)
)


def edited(**values: Any) -> Note:
    """Return what the file of *BASE* says after a person gave it other *values*."""
    note = read_note(render_note(BASE))
    return replace(note, values={**note.values, **values})


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"importance": 5}, {"title": "Their title"}, {"importance": 5, "title": "Their title"}),
        ({"tags": ("a", "b")}, {"tags": ("a", "c")}, {"tags": ("a", "c", "b")}),
        (
            {"content": TEXT.replace("First", "1st")},
            {"content": TEXT.replace("三", "3")},
            {"content": TEXT.replace("First", "1st").replace("三", "3")},
        ),
        ({"content": f"{TEXT}\nOurs."}, {"content": f"{TEXT}\nTheirs."}, {"content": f"{TEXT}\nOurs.\nTheirs."}),
    ],
)
def test_both_edits_are_in_the_merge(
    ours: dict[str, object], theirs: dict[str, object], expected: dict[str, object]
) -> None:
    """Of fields, of sets and of lines; nothing has to be laid beside the file."""
    merged = ThreeWayMerge().merge(BASE, edited(**theirs), replace(BASE, **ours))  # type: ignore[arg-type] # names of fields

    assert {name: merged.note.values[name] for name in expected} == expected
    assert (merged.other_version, merged.note.memory_id) == (None, BASE.id)


def test_where_both_changed_the_same_the_file_has_its_way_and_the_memory_is_laid_beside() -> None:
    """What they did not both change is merged all the same."""
    ours = replace(BASE, content=TEXT.replace("Second", "Ours"), importance=5)

    merged = ThreeWayMerge().merge(BASE, edited(content=TEXT.replace("Second", "Theirs"), title="Their title"), ours)

    assert merged.other_version is ours
    assert merged.note.content == TEXT.replace("Second", "Theirs")
    assert (merged.note.values["importance"], merged.note.values["title"]) == (5, "Their title")


def test_without_a_base_the_file_has_its_way() -> None:
    """The memory is laid beside, unless both say the same."""
    ours = replace(BASE, title="Ours")

    differing, same = ThreeWayMerge().merge(None, edited(), ours), ThreeWayMerge().merge(None, edited(), BASE)

    assert (differing.other_version, differing.note.values["title"]) == (ours, "Lines")
    assert same.other_version is None


def test_what_together_is_too_large_is_a_conflict() -> None:
    """Thirty-two tags of each side, or contents of the longest."""
    ours, theirs = (tuple(f"{side}{number}" for number in range(limits.TAGS)) for side in ("o", "t"))

    merged = ThreeWayMerge().merge(BASE, edited(tags=theirs), replace(BASE, tags=ours))

    assert (merged.note.values["tags"], merged.other_version is not None) == (theirs, True)
