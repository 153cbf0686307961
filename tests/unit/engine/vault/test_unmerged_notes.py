"""Notes with the marks of an unfinished merge, and notes whose front matter lost its first line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.memory import Status
from memsvc.domain.vault import NoteFormat, VaultAction
from tests.unit.engine.vault.vault_fixture import BASE, Bench, open_bench, place

NOTE, NEW = f"{BASE}/long_term/note.md", f"{BASE}/core/new.md"
TWO_SIDES = "<<<<<<< HEAD\n{ours}\n=======\n{theirs}\n>>>>>>> feature/x\n"
THREE_SIDES = "<<<<<<< ours\n{ours}\n||||||| 1f3a\n{theirs}\n=======\n{theirs}\n>>>>>>> theirs\n"


@pytest.fixture(params=list(NoteFormat))
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A vault of each format."""
    with open_bench(tmp_path, request.param) as bench:
        yield bench


def test_an_unmerged_note_waits_for_the_merge(bench: Bench) -> None:
    """The memory stays as it is, the file is left alone and reported with the line; the merged file is imported."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    written, before = bench.text(NOTE), bench.memory(made)
    unmerged = written.replace("One.\n", "One.\n" + TWO_SIDES.format(ours="Mine.", theirs="Theirs."))
    bench.put(NOTE, unmerged)

    taken = bench.took(NOTE)
    assert (taken.action, taken.memory_id) == (VaultAction.INVALID, made)
    assert unmerged.split("\n")[taken.line - 1] == "<<<<<<< HEAD"
    assert "merge" in taken.detail
    assert bench.synced() == {"INVALID": 1}
    assert (bench.memory(made), bench.text(NOTE)) == (before, unmerged)

    bench.put(NOTE, written.replace("One.", "One, mine and theirs."))
    assert bench.take(NOTE) is VaultAction.UPDATED
    assert bench.memory(made).content == "One, mine and theirs."


@pytest.mark.parametrize("marks", [TWO_SIDES, THREE_SIDES])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_marks_anywhere_are_found(bench: Bench, marks: str, line_end: str) -> None:
    """In the front matter, around the whole file, and in a new file."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    before = bench.memory(made)
    front, _, body = bench.text(NOTE).partition("title:")
    title, _, rest = body.partition("\n")
    in_front = f"{front}{marks.format(ours=f'title:{title}', theirs='title: Other')}{rest}"
    around = marks.format(
        ours=bench.text(NOTE).rstrip("\n"), theirs=bench.text(NOTE).replace("One.", "1.").rstrip("\n")
    )
    for path, text in ((NOTE, in_front), (NOTE, around), (NEW, marks.format(ours="a", theirs="b"))):
        data = text.replace("\n", line_end).encode()
        bench.put(path, data)
        taken = bench.took(path)
        assert (taken.action, "merge" in taken.detail) == (VaultAction.INVALID, True)
        assert (bench.root / path).read_bytes() == data
    assert [bench.memory(made)] == [before] == bench.memories()


def test_a_change_by_a_call_keeps_an_unmerged_note(bench: Bench) -> None:
    """The file is not rewritten; once it is merged, both changes are kept."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    written = bench.text(NOTE)
    unmerged = bench.put(NOTE, written + TWO_SIDES.format(ours="Mine.", theirs="Theirs.")) and bench.text(NOTE)
    bench.change(made, content="By call.")
    bench.vault.follow()
    assert (bench.text(NOTE), bench.memory(made).content) == (unmerged, "By call.")

    bench.put(NOTE, written.replace("One.", "By hand."))
    assert bench.take(NOTE) is VaultAction.CONFLICT
    assert bench.memory(made).content == "By hand."
    assert any("By call." in bench.text(path) for path in bench.files() if ".conflict-" in path)


@pytest.mark.parametrize(
    "text",
    [
        "Title\n=======\n\nText.",
        ">>>>>>> a quotation of seven levels\n",
        "<<<<<<< a\n\nText\n=======\n",
        "=======\n>>>>>>> x\n<<<<<<< y\n",
        "    <<<<<<< HEAD\n    a\n    =======\n    b\n    >>>>>>> x\n",
        "<<<<<<<< eight\n=======\n>>>>>>> x\n",
    ],
)
def test_a_part_of_the_marks_is_text(bench: Bench, text: str) -> None:
    """A heading, a quotation and an indented example are content."""
    taken = bench.took(bench.put(NEW, text + "\n"))
    assert taken.action is VaultAction.CREATED
    assert bench.memory(taken.memory_id).content == text


def test_a_memory_about_merges_can_be_edited(bench: Bench) -> None:
    """Content with marks that came by a call is no merge of the file; one set of marks more is."""
    marks = TWO_SIDES.format(ours="a", theirs="b")
    made = bench.writes.create(f"Such a merge:\n\n{marks}", title="T").memory
    bench.vault.follow()
    path = place(made)
    bench.put(path, bench.text(path).replace("Such a", "An open"))
    assert bench.take(path) is VaultAction.UPDATED
    assert bench.memory(made.id).content.startswith("An open merge")

    bench.put(path, bench.text(path) + marks)
    assert bench.take(path) is VaultAction.INVALID


def _without_opening(text: str) -> str:
    return text.removeprefix("---\n")


@pytest.mark.parametrize("broken", ["", "\n", "--\n", "—\n", "\ufeff", "- --\n"])
def test_front_matter_without_its_first_line_is_no_content(bench: Bench, broken: str) -> None:
    """The file is left alone and reported; with the line again, its edit is imported."""
    made = bench.took(bench.put(NOTE, "# Tea\n\nOne.\n")).memory_id
    before, written = bench.memory(made), bench.text(NOTE)
    torn = broken + _without_opening(written.replace("One.", "Two."))
    bench.put(NOTE, torn)

    taken = bench.took(NOTE)
    assert (taken.action, taken.line, taken.memory_id) == (VaultAction.INVALID, 1, made)
    assert "---" in taken.detail
    assert bench.synced() == {"INVALID": 1}
    assert (bench.memories(), bench.text(NOTE)) == ([before], torn)

    bench.put(NOTE, written.replace("One.", "Two."))
    assert bench.take(NOTE) is VaultAction.UPDATED
    assert bench.memory(made).content == "# Tea\n\nTwo."


def test_a_torn_note_that_is_moved_makes_no_second_memory(bench: Bench) -> None:
    """The memory is deleted softly with its old path, and is back with the mended file."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.synced()
    written = bench.text(NOTE)
    bench.put(NEW, _without_opening(written))
    (bench.root / NOTE).unlink()
    assert [taken.action for taken in bench.taking.take_all([NEW, NOTE])] == [VaultAction.INVALID, VaultAction.DELETED]

    bench.put(NEW, written)
    assert bench.take(NEW) is VaultAction.RESTORED
    assert [(one.id, one.status) for one in bench.memories()] == [(made, Status.ACTIVE)]


def test_front_matter_without_both_lines_is_no_content(bench: Bench) -> None:
    """Nor is one that lost its first two lines, the id among them."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    before, lines = bench.memory(made), bench.text(NOTE).split("\n")
    id_line = next(place for place, line in enumerate(lines) if line.startswith("id: "))
    for kept in ([line for line in lines if line != "---"], [line for line in lines[1:] if line != lines[id_line]]):
        bench.put(NOTE, "\n".join(kept))
        assert bench.take(NOTE) is VaultAction.INVALID
    assert bench.memories() == [before]


@pytest.mark.parametrize(
    "text",
    [
        "title: Plan\n---\n\nText.",
        "kind: regards\n---\n\nText.",
        "id: 7\n\nkind: x",
        "layer: a\nText.\n---",
        "name: a\nage: 3",
    ],
)
def test_lines_with_colons_are_text(bench: Bench, text: str) -> None:
    """A heading by a line of dashes, and lists of names and values."""
    taken = bench.took(bench.put(NEW, f"{text}\n"))
    assert taken.action is VaultAction.CREATED
    assert bench.memory(taken.memory_id).content == text
