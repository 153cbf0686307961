"""A vault that is away, replaced by another one, or back after its service used an empty folder."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Kind, Status
from memsvc.domain.scope import Scope
from memsvc.domain.vault import FileResult, NoteFormat, VaultAction
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.vault.filesystem import VaultFilesystem, VaultGoneError
from memsvc.engine.vault.note_import import ThreeWayMerge
from memsvc.engine.vault.outbox_follower import ChangesLostError
from memsvc.engine.vault.sync import SyncPlan
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
    made.append(bench.writes.create("By call.", title="U").memory)
    with pytest.raises(ChangesLostError):
        bench.vault.follow()
    count += 1
    assert bench.files() == []
    assert bench.synced() == {"WRITTEN": count}
    assert bench.files() == [place(memory) for memory in made]
    assert {memory.status for memory in bench.memories()} == {Status.ACTIVE}


def test_a_vault_that_is_exchanged_during_a_synchronisation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that are missing from the other one are not taken for removed."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    find = VaultFilesystem.unusable_paths

    def exchange(folder: VaultFilesystem, below: str = "") -> Iterator[tuple[str, str]]:
        unmount(bench)
        return find(folder, below)

    monkeypatch.setattr(VaultFilesystem, "unusable_paths", exchange)
    with pytest.raises(BackendUnavailableError):
        bench.synced()
    assert bench.memory(made).status is Status.ACTIVE


@pytest.mark.parametrize("text", ["", '{"vault"', "[]", "{}"])
def test_a_damaged_id_is_named_with_its_remedy(bench: Bench, text: str) -> None:
    """An interrupted first start leaves no such file; one that is damaged otherwise is not replaced."""
    path = bench.root / ".memsvc" / "vault.json"
    path.write_text(text)
    with pytest.raises(VaultGoneError, match=rf"{re.escape(str(path))} holds no id .* remove it and restart"):
        VaultFilesystem(bench.root).prepare()
    assert path.read_text() == text


def test_the_id_of_a_vault_is_written_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash before it has reached the disk leaves none, and the next start makes one."""
    calls = 0

    def crash(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", crash)
        with pytest.raises(KeyboardInterrupt):
            VaultFilesystem(tmp_path).prepare()
    assert not (tmp_path / ".memsvc" / "vault.json").exists()
    assert VaultFilesystem(tmp_path).prepare()


@pytest.mark.parametrize("closed", ["lost+found", f"{BASE}/long_term/closed"])
def test_a_folder_that_cannot_be_listed_is_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    """The others are synchronised; one of a user is reported, and its notes are not taken for removed."""
    made = bench.took(bench.put(f"{BASE}/long_term/closed/note.md", "One.\n")).memory_id
    bench.synced()
    (bench.root / closed).mkdir(exist_ok=True)
    bench.put(NOTE, "Two.\n")
    real = os.scandir

    def scandir(path: Path | int) -> Any:
        if str(path).endswith(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    *found, _ = bench.vault.sync(SyncPlan())
    results = {one.path: one.action for one in found if isinstance(one, FileResult)}
    expected = {} if closed == "lost+found" else {closed: VaultAction.INVALID}
    assert results == {NOTE: VaultAction.CREATED, **expected}
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


SAID = Scope("ada", project_id="apollo", session_id="s1")
TRANSCRIPT = f"{BASE}/sessions/2026-02/20260206_093000_s1.md"


def say(bench: Bench, text: str) -> None:
    """Add a message to the session, a minute after the one before."""
    bench.writes.create(text, SAID, kind=Kind.MESSAGE, speaker="ada")
    bench.writes.clock.advance(minutes=1)
    bench.vault.follow()


def test_transcripts_of_an_unknown_vault_are_no_memories(bench: Bench) -> None:
    """An earlier state is replaced; one with later messages is kept under another path; another file too."""
    say(bench, "Hello.")
    earlier = bench.text(TRANSCRIPT)
    say(bench, "Bye.")
    now = bench.text(TRANSCRIPT)
    later = f"{now}\n\n## 2026-02-06 09:40:00 ada\n\nBack again.\n"
    for text, kept in ((now, []), (earlier, []), (later, [later]), ("Mine.\n", [later, "Mine.\n"])):
        bench.put(TRANSCRIPT, text)
        (bench.root / ".memsvc" / "vault.json").unlink()
        VaultFilesystem(bench.root).prepare()
        bench.synced()
        bench.vault.follow()
        assert bench.text(TRANSCRIPT) == now
        assert sorted(bench.text(path) for path in bench.files() if path != TRANSCRIPT) == sorted(kept)
    assert [memory.kind for memory in bench.memories()] == [Kind.MESSAGE] * 2


def test_the_transcript_of_an_unknown_session_is_left_alone(bench: Bench) -> None:
    """As after the restore of older data."""
    say(bench, "Hello.")
    path = bench.put(TRANSCRIPT.replace("s1", "s2"), bench.text(TRANSCRIPT).replace("session: s1", "session: s2"))
    assert bench.synced() == {"READ_ONLY": 1}
    assert bench.files() == [TRANSCRIPT, path]
    assert len(bench.memories()) == 1


def test_an_older_store_takes_over_what_the_vault_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored backup: newer notes, moves and restored memories win, and a removed file is a removal."""
    monkeypatch.setattr("tests.unit.engine.vault.vault_fixture.KeepBothMerge", ThreeWayMerge)
    with open_bench(tmp_path) as bench:
        names = ("Kept", "Changed", "Removed", "Purged", "Archived", "Back")
        made = {name: bench.writes.create(f"{name}, old.", title=name).memory for name in names}
        bench.forgo(made["Back"].id)
        say(bench, "Hello.")
        bench.synced()
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    with open_bench(tmp_path) as bench:
        bench.change(made["Changed"].id, content="Changed, new.", title="Changed title")
        bench.forgo(made["Removed"].id)
        bench.forgo(made["Purged"].id, hard=True)
        bench.change(made["Archived"].id, status=Status.ARCHIVED)
        bench.writes.writing.revise.restore(ADA, made["Back"].id, expected_revision=0, options=WriteOptions())
        bench.writes.create("Later.", title="Later")
        say(bench, "Bye.")
        bench.vault.follow()
        newer = {path: bench.text(path).partition("\n---\n")[2] for path in bench.files()}
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "backup").rename(tmp_path / "data")

    with open_bench(tmp_path) as bench:
        bench.synced()
        bench.vault.follow()
        say(bench, "Again.")
        assert bench.synced() == {}
        now = {path: bench.text(path).partition("\n---\n")[2] for path in bench.files()}
        states = {one.title: one.status for one in bench.memories() if one.title}
    [kept] = now.keys() - newer.keys()
    assert now.pop(kept) == newer.pop(TRANSCRIPT)
    assert "Again." in now.pop(TRANSCRIPT)
    assert now == newer
    assert states == {
        "Kept": Status.ACTIVE,
        "Changed title": Status.ACTIVE,
        "Removed": Status.DELETED,
        "Purged": Status.DELETED,
        "Archived": Status.ARCHIVED,
        "Back": Status.ACTIVE,
        "Later": Status.ACTIVE,
    }
