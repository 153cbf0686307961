"""Merging texts by lines, compared with Git."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.domain.three_way_merge import MergedText, merge_text

LINES = st.lists(st.sampled_from(["eins", "zwei", "drei", "四", "五", ""]), max_size=7).map("\n".join)
BASE = "one\ntwo\nthree\nfour\nfive"


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("ONE\ntwo\nthree\nfour\nfive", "one\ntwo\nthree\nfour\nFIVE", "ONE\ntwo\nthree\nfour\nFIVE"),
        ("two\nthree\nfour\nfive", "one\ntwo\nthree\nfour\nfive\nsix", "two\nthree\nfour\nfive\nsix"),
        ("one\n1\ntwo\nthree\nfour\nfive", "one\ntwo\nthree\nfive", "one\n1\ntwo\nthree\nfive"),
        (f"{BASE}\nours", f"{BASE}\ntheirs", f"{BASE}\nours\ntheirs"),
        (f"{BASE}\n\nsame\nours", f"{BASE}\n\nsame\ntheirs", f"{BASE}\n\nsame\nours\ntheirs"),
        (f"{BASE}\nsame", f"{BASE}\nsame", f"{BASE}\nsame"),
        (f"zero\n{BASE}", f"{BASE}\nsix", f"zero\n{BASE}\nsix"),
        ("一\ntwo\nthree\nfour\nfive", "one\ntwo\nthree\nfour\n五", "一\ntwo\nthree\nfour\n五"),
    ],
)
def test_changes_in_different_places_are_both_kept(ours: str, theirs: str, merged: str) -> None:
    """So are lines that both put in at one place, as two writers of one diary do."""
    assert merge_text(BASE, ours, theirs) == MergedText(merged, is_clean=True)


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("one\nTWO\nthree\nfour\nfive", "one\n2\nthree\nfour\nfive", "one\n2\nthree\nfour\nfive"),
        ("ONE\nTWO\nthree\nfour\nfive", "one\n2\nthree\nfour\nFIVE", "one\n2\nthree\nfour\nFIVE"),
        ("one\nthree\nfour\nfive", "one\n2\nthree\nfour\nfive", "one\n2\nthree\nfour\nfive"),
        ("something\nelse", "quite\nanother", "quite\nanother"),
        ("", "one\ntwo\nthree\nfour\nfive!", "one\ntwo\nthree\nfour\nfive!"),
    ],
)
def test_changes_of_the_same_lines_are_a_conflict(ours: str, theirs: str, merged: str) -> None:
    """Then theirs is taken there, and the answer says that something of ours is missing."""
    assert merge_text(BASE, ours, theirs) == MergedText(merged, is_clean=False)


@given(base=LINES, ours=LINES, theirs=LINES)
def test_nothing_that_was_put_in_is_missing_from_a_clean_merge(base: str, ours: str, theirs: str) -> None:
    """What neither side changed stays; a change of one side alone is the merge; the sides may be exchanged."""
    merged, exchanged = merge_text(base, ours, theirs), merge_text(base, theirs, ours)

    assert merge_text(base, base, theirs) == MergedText(theirs, is_clean=True)
    assert merge_text(base, ours, base) == MergedText(ours, is_clean=True)
    assert merge_text(base, ours, ours) == MergedText(ours, is_clean=True)
    assert merged.is_clean == exchanged.is_clean
    if merged.is_clean:
        added = set(ours.split("\n")) | set(theirs.split("\n"))
        assert added - set(base.split("\n")) <= set(merged.text.split("\n"))


@given(base=st.lists(st.integers(0, 99).map(str), min_size=5, max_size=9, unique=True), data=st.data())
@settings(max_examples=15)
def test_git_merges_to_the_same(base: list[str], data: st.DataObject) -> None:
    """Where Git finds no conflict between single changes of lines that all differ, neither do we, and get the same."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    ours, theirs = list(base), list(base)
    for side, mark in ((ours, "a"), (theirs, "b")):
        at = data.draw(st.integers(0, len(base) - 1))
        change = data.draw(st.sampled_from(["replace", "remove", "insert"]))
        side[at : at + (change != "insert")] = [] if change == "remove" else [f"{mark}{at}"]
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in (("ours", ours), ("base", base), ("theirs", theirs)):
            (Path(folder) / name).write_text("".join(f"{line}\n" for line in lines))
        git = subprocess.run(
            ["git", "merge-file", "-p", "ours", "base", "theirs"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )

    merged = merge_text(*("".join(f"{line}\n" for line in lines) for lines in (base, ours, theirs)))

    if git.returncode == 0:
        assert merged == MergedText(git.stdout, is_clean=True)


def test_texts_that_would_take_too_long_are_a_conflict() -> None:
    """A hundred thousand equal lines would be compared each with each; they are not."""
    base = "x\n" * 30_000

    merged = merge_text(base, f"a\n{base}y\nx\nb", f"c\n{base}z\nx\nd")

    assert merged == MergedText(f"c\n{base}z\nx\nd", is_clean=False)
