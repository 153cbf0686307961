"""A vault that is away, replaced by another one, or back after its service used an empty folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Status
from memsvc.domain.vault import NoteFormat, VaultAction
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.vault.filesystem import VaultFilesystem, VaultGoneError
from memsvc.engine.vault.note_import import ThreeWayMerge
from tests.unit.engine.memories.write_path import ADA
from tests.unit.engine.vault.vault_fixture import BASE, Bench, open_bench, place

NOTE = f"{BASE}/long_term/note.md"


@pytest.fixture(params=list(NoteFormat))
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A vault of each format that merges as the service does."""
    monkeypatch.setattr("tests.unit.engine.vault.vault_fixture.KeepBothMerge", ThreeWayMerge)
    with open_bench(tmp_path, request.param) as bench:
        yield bench


def unmount(bench: Bench) -> None:
    """Put a new vault in the place of the vault, as a start without its volume does."""
    bench.root.rename(bench.root.with_name("away"))
    VaultFilesystem(bench.root).prepare()


def mount(bench: Bench) -> None:
    """Bring the vault back."""
    shutil.rmtree(bench.root)
    bench.root.with_name("away").rename(bench.root)


def test_another_vault_in_place_deletes_and_writes_nothing(bench: Bench) -> None:
    """While the service runs: neither is a file that is not there removed, nor are memories written to it."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    unmount(bench)
    other = bench.put("users/zoe/core/z.md", "Of Zoe.\n")
    for path in (NOTE, other):
        with pytest.raises(VaultGoneError):
            bench.take(path)
    bench.change(made, content="Two.")
    with pytest.raises(VaultGoneError):
        bench.vault.follow()
    assert bench.files() == [other]
    assert [memory.status for memory in bench.memories()] == [Status.ACTIVE]

    mount(bench)
    bench.vault.follow()
    assert "Two." in bench.text(NOTE)


@pytest.mark.parametrize("count", [1, 3])
def test_a_vault_that_was_emptied_is_filled(bench: Bench, count: int) -> None:
    """All folders but that of the service were removed: memories stay, and the next synchronisation writes them."""
    made = [bench.writes.create(f"Number {n}.", title=f"T{n}").memory for n in range(count)]
    bench.vault.follow()
    shutil.rmtree(bench.root / "users")
    with pytest.raises(VaultGoneError):
        list(bench.taking.take_all([place(memory) for memory in made]))

    assert bench.synced(is_dry=True) == {"WRITTEN": count}
    assert bench.files() == []
    assert bench.synced() == {"WRITTEN": count}
    assert bench.files() == [place(memory) for memory in made]
    assert {memory.status for memory in bench.memories()} == {Status.ACTIVE}


def test_a_vault_that_is_exchanged_during_a_synchronisation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that are missing from the other one are not taken for removed."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    find = VaultFilesystem.misnamed_paths

    def exchange(folder: VaultFilesystem, below: str = "") -> Iterator[str]:
        unmount(bench)
        return find(folder, below)

    monkeypatch.setattr(VaultFilesystem, "misnamed_paths", exchange)
    with pytest.raises(BackendUnavailableError):
        bench.synced()
    assert bench.memory(made).status is Status.ACTIVE


def test_a_vault_that_comes_back_is_brought_up_to_date(bench: Bench) -> None:
    """Its unedited files neither undo changes and deletions by calls nor conflict with them."""
    changed, deleted, purged, edited = (
        bench.writes.create(f"{name}, old.", title=name).memory for name in ("Changed", "Deleted", "Purged", "Edited")
    )
    bench.vault.follow()
    bench.put(place(edited), bench.text(place(edited)).replace("old", "by hand"))
    unmount(bench)
    bench.synced()
    bench.change(changed.id, content="Changed, new.")
    bench.change(changed.id, content="Changed, newer.", tags=("t",))
    bench.forgo(deleted.id)
    bench.forgo(purged.id, hard=True)
    bench.vault.follow()
    mount(bench)

    counts = bench.synced()
    assert counts.pop("CONFLICT") == 1
    assert counts == {"WRITTEN": 1, "REMOVED": 1, "INVALID": 1}
    assert bench.memory(changed.id).content == "Changed, newer."
    assert "Changed, newer." in bench.text(place(changed))
    assert bench.memory(deleted.id).status is Status.DELETED
    assert not (bench.root / place(deleted)).exists()
    assert "deleted for good" in bench.took(place(purged)).detail
    assert bench.memory(edited.id).content == "Edited, by hand."
    assert {memory.id for memory in bench.memories()} == {changed.id, deleted.id, edited.id}


def test_a_file_that_returns_after_its_removal_restores_the_memory(bench: Bench) -> None:
    """Unedited, in a vault that is known."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    bench.synced()
    text = bench.text(NOTE)
    (bench.root / NOTE).unlink()
    assert bench.take(NOTE) is VaultAction.DELETED
    bench.put(NOTE, text)
    assert bench.take(NOTE) is VaultAction.RESTORED
    assert bench.memory(made).status is Status.ACTIVE


def test_a_moved_file_does_not_bring_its_deleted_memory_back(bench: Bench) -> None:
    """The memory is deleted by a call before the move is imported."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    moved = bench.put(f"{BASE}/core/other.md", bench.text(NOTE))
    (bench.root / NOTE).unlink()
    bench.forgo(made)
    bench.vault.follow()
    assert bench.files() == []
    for path in (moved, NOTE):
        bench.take(path)
    assert bench.memory(made).status is Status.DELETED

    bench.writes.writing.revise.restore(ADA, made, expected_revision=0, options=WriteOptions())
    bench.vault.follow()
    assert bench.files() == [place(bench.memory(made))]
