"""What a person saves at the very moment at which the service writes is not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from memsvc.domain.memory import Layer, Status
from memsvc.engine.vault.filesystem import VaultFilesystem, digest_of
from memsvc.engine.vault.note_import import ThreeWayMerge
from tests.unit.engine.vault.vault_fixture import BASE, Bench, open_bench

NOTE = f"{BASE}/long_term/note.md"


class HurriedFolder(VaultFilesystem):
    """A folder in which a person is quicker than the service: it waits for them before it puts files in place."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hurry: Callable[[], object] | None = None

    def write_all(
        self, files: Sequence[tuple[str, bytes]], over: Mapping[str, str | None] = MappingProxyType({})
    ) -> list[str]:
        self._let()
        return super().write_all(files, over)

    def remove(self, path: str, digest: str = "") -> None:
        self._let()
        super().remove(path, digest)

    def move(self, path: str, other: str, digest: str) -> bool:
        self._let()
        return super().move(path, other, digest)

    def _let(self) -> None:
        hurry, self.hurry = self.hurry, None
        if hurry is not None:
            hurry()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr("tests.unit.engine.vault.vault_fixture.VaultFilesystem", HurriedFolder)
    monkeypatch.setattr("tests.unit.engine.vault.vault_fixture.KeepBothMerge", ThreeWayMerge)
    with open_bench(tmp_path) as bench:
        yield bench


def _edits(bench: Bench, old: str, new: str) -> None:
    text = bench.text(NOTE).replace(old, new)
    assert isinstance(bench.context.folder, HurriedFolder)
    bench.context.folder.hurry = lambda: (bench.root / NOTE).write_text(text)


def _said(bench: Bench, memory_id: str) -> str:
    """Return all that the memory says, and every file."""
    return bench.memory(memory_id).content + "".join(bench.text(path) for path in bench.files())


def test_a_file_that_is_being_written_anew(bench: Bench) -> None:
    """The memory was changed by a call; the file is not written over the edit, and both are merged or kept."""
    made = bench.took(bench.put(NOTE, "One.\n\nTwo.\n")).memory_id
    bench.vault.follow()
    bench.change(made, importance=5)
    _edits(bench, "Two.", "Two, by hand.")
    bench.vault.follow()
    bench.synced()

    assert (bench.memory(made).importance, "by hand" in bench.memory(made).content) == (5, True)


def test_a_file_saved_again_during_a_merge(bench: Bench) -> None:
    """A change by a call that the merge took over is not undone by the next save of the editor."""
    made = bench.took(bench.put(NOTE, "One.\n\nTwo.\n\nThree.\n")).memory_id
    bench.vault.follow()
    written = bench.text(NOTE)
    bench.put(NOTE, written.replace("Three.", "Three, by hand."))
    bench.change(made, content="One, by call.\n\nTwo.\n\nThree.")
    _edits(bench, "Three, by hand.", "Three, by hand again.")
    bench.take(NOTE)
    bench.vault.follow()
    bench.synced()

    assert bench.memory(made).content == "One, by call.\n\nTwo.\n\nThree, by hand again."
    assert "One, by call." in bench.text(NOTE)


def test_a_file_that_moves_with_its_memory(bench: Bench) -> None:
    """What was edited meanwhile at the old place is still somewhere."""
    made = bench.took(bench.put(NOTE, "One.\n\nTwo.\n")).memory_id
    bench.vault.follow()
    bench.change(made, layer=Layer.CORE)
    _edits(bench, "Two.", "Two, by hand.")
    bench.vault.follow()
    bench.synced()

    assert "by hand" in _said(bench, made)


@pytest.mark.parametrize("is_exported_first", [True, False])
@pytest.mark.parametrize("is_edited", [True, False])
@pytest.mark.parametrize("folder", ["core", "archive/long_term"])
@pytest.mark.parametrize("name", ["note", "other"])
def test_a_file_that_is_moved_while_its_memory_changes(
    bench: Bench, folder: str, name: str, *, is_edited: bool, is_exported_first: bool
) -> None:
    """Move, edit and change by a call are all kept, in one memory with one file."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    text = bench.text(NOTE)
    (bench.root / NOTE).unlink()
    moved = bench.put(f"{BASE}/{folder}/{name}.md", text.replace("One.", "Two.") if is_edited else text)
    bench.change(made, importance=5)
    if is_exported_first:
        bench.vault.follow()
    for path in (moved, NOTE):
        bench.take(path)
    bench.vault.follow()

    [now] = bench.memories()
    assert (now.id, now.importance, now.content) == (made, 5, "Two." if is_edited else "One.")
    assert (now.layer, now.status) == (
        (Layer.CORE, Status.ACTIVE) if folder == "core" else (Layer.LONG_TERM, Status.ARCHIVED)
    )
    assert bench.files() == [moved]
    assert "importance: 5" in bench.text(moved)
    assert bench.synced() == {}


def test_a_file_that_is_moved_while_its_title_changes(bench: Bench) -> None:
    """The file keeps the path that it was given, and has the new title."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    text = bench.text(NOTE)
    (bench.root / NOTE).unlink()
    moved = bench.put(f"{BASE}/core/note.md", text)
    bench.change(made, title="New")
    bench.vault.follow()
    bench.synced()

    [now] = bench.memories()
    assert (now.id, now.title, now.layer) == (made, "New", Layer.CORE)
    assert bench.files() == [moved]
    assert "title: New" in bench.text(moved)
    assert bench.synced() == {}


def test_a_file_that_is_removed_with_its_memory(bench: Bench) -> None:
    """The edited file stays, and is taken at the next look."""
    made = bench.took(bench.put(NOTE, "One.\n\nTwo.\n")).memory_id
    bench.vault.follow()
    bench.forgo(made)
    _edits(bench, "Two.", "Two, by hand.")
    bench.vault.follow()
    bench.synced()

    assert "by hand" in _said(bench, made)


def test_only_what_is_expected_is_written_over(tmp_path: Path) -> None:
    """Nothing, a file of a digest, or anything."""
    folder = VaultFilesystem(tmp_path)
    folder.write_all([("a.md", b"one"), ("b.md", b"one")])

    kept = folder.write_all(
        [("a.md", b"two"), ("b.md", b"two"), ("c.md", b"two")], {"a.md": digest_of(b"one"), "b.md": None, "c.md": None}
    )

    assert kept == ["b.md"]
    assert [folder.read(name) for name in ("a.md", "b.md", "c.md")] == [b"two", b"one", b"two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md", "b.md", "c.md"]
