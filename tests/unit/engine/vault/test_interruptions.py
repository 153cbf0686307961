"""Exports that end early, by a crash or a refused operation, and the next synchronisation."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memsvc.domain.memory import Kind, Status
from memsvc.domain.scope import Scope
from memsvc.domain.vault import FileResult, VaultAction, VaultSummary
from memsvc.engine.vault.filesystem import UNWRITABLE, VaultFilesystem
from memsvc.engine.vault.note_import import KeepBothMerge
from memsvc.engine.vault.sync import SyncPlan
from memsvc.engine.vault.vault import Vault, VaultWarnings, create_vault
from tests.unit.engine.memories.write_path import ADA
from tests.unit.engine.vault.vault_fixture import BASE, Bench, open_bench, place

NOTE = f"{BASE}/long_term/note.md"
SAID = Scope("ada", project_id="apollo", session_id="s1")


class CrashError(BaseException):
    """The end of the process."""


class LockedFolder(VaultFilesystem):
    """A folder that refuses operations as a read-only directory does."""

    is_locked = False

    def remove(self, path: str, digest: str = "") -> None:
        self._refuse(path)
        super().remove(path, digest)

    def rename(self, path: str, other: str) -> None:
        self._refuse(path)
        super().rename(path, other)

    def move(self, path: str, other: str, digest: str) -> bool:
        self._refuse(path)
        return super().move(path, other, digest)

    def _refuse(self, path: str) -> None:
        if self.is_locked:
            raise PermissionError(errno.EACCES, "Permission denied", path)


def open_warned(bench: Bench) -> tuple[Vault, VaultWarnings]:
    """Return the vault with warnings of its files."""
    warnings = VaultWarnings(bench.context.folder.exists)

    def note(taken: FileResult) -> None:
        warnings.note(taken)

    return create_vault(bench.context, bench.writes.store.feed, KeepBothMerge(), note), warnings


def refuse(number: int) -> Callable[..., None]:
    """Return a function that raises an OSError of an error number."""

    def raise_error(*_: object, **__: object) -> None:
        raise OSError(number, "refused")

    return raise_error


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A vault whose folder can be locked."""
    monkeypatch.setattr("tests.unit.engine.vault.vault_fixture.VaultFilesystem", LockedFolder)
    with open_bench(tmp_path) as bench:
        yield bench


def follow_locked(bench: Bench) -> None:
    """Follow the outbox while the folder refuses to remove and move files."""
    assert isinstance(bench.context.folder, LockedFolder)
    bench.context.folder.is_locked = True
    bench.vault.follow()
    bench.context.folder.is_locked = False


@pytest.mark.parametrize("is_hard", [False, True])
def test_a_failed_removal_keeps_the_deletion(bench: Bench, *, is_hard: bool) -> None:
    """A deleted memory does not come back from a file that could not be removed; the next sync removes it."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    bench.forgo(made, hard=is_hard)
    follow_locked(bench)
    assert bench.files() == [NOTE]

    assert bench.synced() == {"REMOVED": 1}
    assert bench.files() == []
    assert [one.status for one in bench.memories()] == ([] if is_hard else [Status.DELETED])


def test_a_failed_move_makes_no_second_memory(bench: Bench) -> None:
    """The file stays at its path, and the next sync moves it."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    after = bench.change(made, status=Status.ARCHIVED)
    follow_locked(bench)
    assert bench.files() == [NOTE]

    assert bench.synced() == {"MOVED": 1}
    assert bench.files() == [place(after)]
    assert "status: archived" in bench.text(place(after))
    assert [one.id for one in bench.memories()] == [made]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("operation", ["record", "write_all", "move", "remove"])
@pytest.mark.parametrize("change", ["archive", "delete", "purge"])
def test_a_crash_at_any_step_leaves_one_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: str, operation: str, *, is_late: bool
) -> None:
    """One memory with one file at most, and no deletion is undone, whether the crash is before or after the step."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    if change == "archive":
        bench.change(made, status=Status.ARCHIVED)
    else:
        bench.forgo(made, hard=change == "purge")
    owner = type(bench.context.manifest if operation == "record" else bench.context.folder)
    real = getattr(owner, operation)

    def crash(*given: object, **named: object) -> None:
        if is_late:
            real(*given, **named)
        raise CrashError

    with monkeypatch.context() as patch, suppress(CrashError):
        patch.setattr(owner, operation, crash)
        bench.vault.follow()
    bench.synced()
    bench.vault.follow()

    expected = {"archive": [Status.ARCHIVED], "delete": [Status.DELETED], "purge": []}[change]
    assert [one.status for one in bench.memories()] == expected
    assert bench.files() == ([place(bench.memory(made))] if change == "archive" else [])
    assert bench.synced() == {}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_full_disk_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The position in the outbox stays, so that the writer repeats the group."""
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.vault.follow()
    bench.change(made, content="Two.")

    with monkeypatch.context() as patch:
        patch.setattr("memsvc.engine.vault.filesystem._write_new", refuse(number))
        with pytest.raises(OSError, match=re.escape(f"[Errno {number}]")):
            bench.vault.follow()
    assert bench.vault.behind() > 0

    bench.vault.follow()
    assert "Two." in bench.text(NOTE)


def test_a_file_that_cannot_be_written_is_reported_and_repeated(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is told its path and the reason, until a later attempt succeeds; others are written at once."""
    vault, warnings = open_warned(bench)
    made = [bench.writes.create(f"{name}, old.", title=name).memory for name in ("One", "Two", "Three")]
    vault.follow()
    for memory in made[:2]:
        bench.change(memory.id, content=f"{memory.title}, new.")
    bench.forgo(made[2].id, hard=True)
    real = VaultFilesystem.write_all

    def refuse_one(folder: VaultFilesystem, files: Sequence[tuple[str, bytes]], *rest: Any) -> list[str]:
        if any(path == place(made[0]) for path, _ in files):
            raise OSError(errno.EFBIG, "File too large")
        return real(folder, files, *rest)

    assert isinstance(bench.context.folder, LockedFolder)
    with monkeypatch.context() as patch:
        patch.setattr(VaultFilesystem, "write_all", refuse_one)
        bench.context.folder.is_locked = True
        vault.follow()
    assert vault.behind() == 0
    assert [", new." in bench.text(place(memory)) for memory in made[:2]] == [False, True]
    messages = sorted(warning.message for warning in warnings.of(ADA))
    assert [place(made[0]) in messages[0], "File too large" in messages[0]] == [True, True]
    assert [place(made[2]) in messages[1], "Permission denied" in messages[1]] == [True, True]

    bench.context.folder.is_locked = False
    vault.follow()
    assert "One, new." in bench.text(place(made[0]))
    assert not (bench.root / place(made[2])).exists()
    assert warnings.of(ADA) == []


def test_a_kept_edit_of_a_deleted_memory_is_reported(bench: Bench) -> None:
    """The user is told where the edited file is."""
    vault, warnings = open_warned(bench)
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    vault.follow()
    bench.put(NOTE, bench.text(NOTE).replace("One.", "By hand."))
    bench.forgo(made)
    vault.follow()

    [kept] = bench.files()
    [warning] = warnings.of(ADA)
    assert f"Kept as {kept}" in warning.message
    assert len(warnings.count()) == 1

    (bench.root / kept).unlink()
    assert (warnings.of(ADA), warnings.count()) == ([], [])


@pytest.mark.parametrize("is_removed", [False, True])
def test_the_kept_version_of_a_conflict_is_reported_until_it_is_removed(bench: Bench, *, is_removed: bool) -> None:
    """Or until the file is edited; another look at the file does not settle it."""
    vault, warnings = open_warned(bench)
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.put(NOTE, bench.text(NOTE).replace("One.", "By hand."))
    bench.change(made, content="By call.")
    vault.follow()
    [kept] = [path for path in bench.files() if path != NOTE]
    assert [taken.action for taken in vault.take([NOTE])] == [VaultAction.UNCHANGED]
    assert [kept in warning.message for warning in warnings.of(ADA)] == [True]

    if is_removed:
        (bench.root / kept).unlink()
    else:
        bench.put(NOTE, bench.text(NOTE).replace("By hand.", "By hand and by call."))
        assert [taken.action for taken in vault.take([NOTE])] == [VaultAction.UPDATED]
    assert warnings.of(ADA) == []


def test_a_kept_version_is_not_written_over(bench: Bench) -> None:
    """By that of another memory of the same path and revision."""
    for text in ("One", "Two"):
        made = bench.writes.create(f"{text}.", title="T").memory
        bench.vault.follow()
        bench.put(place(made), bench.text(place(made)).replace(f"{text}.", f"{text}, by hand."))
        bench.forgo(made.id)
        bench.vault.follow()

    assert sorted(bench.text(path).split()[-3] for path in bench.files()) == ["One,", "Two,"]


def test_a_failed_removal_of_a_transcript_is_repeated(bench: Bench) -> None:
    """Messages that were purged do not stay in a transcript that could not be removed."""
    vault, warnings = open_warned(bench)
    said = bench.writes.create("Secret.", SAID, kind=Kind.MESSAGE, speaker="ada").memory
    vault.follow()
    bench.forgo(said.id, hard=True)
    assert isinstance(bench.context.folder, LockedFolder)
    bench.context.folder.is_locked = True
    vault.follow()
    [path] = bench.files()
    assert [path in warning.message for warning in warnings.of(ADA)] == [True]

    bench.context.folder.is_locked = False
    vault.follow()
    assert (bench.files(), warnings.of(ADA)) == ([], [])


@pytest.mark.parametrize("obstacle", ["folder", "file above", "edited"])
def test_a_transcript_that_cannot_be_written_holds_up_no_other_file(bench: Bench, obstacle: str) -> None:
    """It is reported with the reason and repeated; notes and other transcripts are written, also by a sync."""
    vault, warnings = open_warned(bench)
    minute = "30" if obstacle == "edited" else "31"
    path = f"{BASE}/sessions/2026-02/20260206_09{minute}00_s1.md"
    blocked = bench.root / (f"{BASE}/sessions" if obstacle == "file above" else path)
    if obstacle == "edited":
        bench.writes.create("Hello.", SAID, kind=Kind.MESSAGE, speaker="ada")
        vault.follow()
        bench.put(path, "edited")
        assert isinstance(bench.context.folder, LockedFolder)
        bench.context.folder.is_locked = True
    else:
        blocked.parent.mkdir(parents=True)
        blocked.touch() if obstacle == "file above" else blocked.mkdir()
    bench.writes.clock.advance(minutes=1)
    bench.writes.create("How are you?", SAID, kind=Kind.MESSAGE, speaker="ada")
    other = Scope("bob", session_id="s2")
    bench.writes.create("Hi.", other, kind=Kind.MESSAGE, speaker="bob")
    made = bench.writes.create("One.", title="T").memory
    vault.follow()
    *_, summary = vault.sync(SyncPlan())

    assert isinstance(summary, VaultSummary)
    assert summary.counts[VaultAction.INVALID] == 1
    assert vault.behind() == 0
    assert "One." in bench.text(place(made))
    assert any("Hi." in bench.text(name) for name in bench.files() if name.startswith("users/bob/"))
    [message] = [warning.message for warning in warnings.of(ADA)]
    assert path in message
    assert UNWRITABLE in message

    if obstacle == "edited":
        assert isinstance(bench.context.folder, LockedFolder)
        bench.context.folder.is_locked = False
    elif obstacle == "folder":
        blocked.rmdir()
    else:
        blocked.unlink()
    vault.follow()
    assert "How are you?" in bench.text(path)
    assert warnings.of(ADA) == []


def test_a_large_transcript_is_no_edited_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be larger than a note: it is not kept twice with each message, nor reported."""
    monkeypatch.setattr("memsvc.engine.vault.filesystem.FILE_BYTES", 300)
    for text in ("Hello. " * 50, "Bye."):
        bench.writes.create(text, SAID, kind=Kind.MESSAGE, speaker="ada")
        bench.vault.follow()

    [path] = bench.files()
    assert "Bye." in bench.text(path)
    assert bench.synced() == {}


def refuse_folder(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Refuse to write files of a folder."""
    real = VaultFilesystem.write_all

    def write_all(self: VaultFilesystem, files: Sequence[tuple[str, bytes]], *rest: Any) -> list[str]:
        if any(path.startswith(f"{folder}/") for path, _ in files):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self, files, *rest)

    monkeypatch.setattr(VaultFilesystem, "write_all", write_all)


def test_a_file_without_permission_to_write_is_imported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays as it is and has one memory, that follows its edits; other files get their front matter."""
    closed = bench.put(f"{BASE}/core/closed/a.md", "Closed.\n")
    bench.put(NOTE, "Open.\n")
    with monkeypatch.context() as patch:
        refuse_folder(patch, f"{BASE}/core/closed")
        assert bench.synced() == {"CREATED": 2}
        assert bench.synced() == {}
        assert (bench.text(closed), "id: " in bench.text(NOTE)) == ("Closed.\n", True)
        bench.put(closed, "Still closed.\n")
        assert bench.synced() == {"UPDATED": 1}
        made = next(one for one in bench.memories() if "closed" in one.content)
        bench.change(made.id, content="By call.")
        bench.vault.follow()
        assert bench.text(closed) == "Still closed.\n"

    bench.vault.follow()
    assert "By call." in bench.text(closed)
    assert sorted(one.content for one in bench.memories()) == ["By call.", "Open."]


def test_a_conflict_that_cannot_be_kept_waits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither side is changed until the other version can be written."""
    vault, warnings = open_warned(bench)
    made = bench.took(bench.put(NOTE, "One.\n")).memory_id
    bench.put(NOTE, bench.text(NOTE).replace("One.", "By hand."))
    bench.change(made, content="By call.")
    with monkeypatch.context() as patch:
        refuse_folder(patch, f"{BASE}/long_term")
        vault.follow()
        assert bench.memory(made).content == "By call."
        assert [UNWRITABLE in warning.message for warning in warnings.of(ADA)] == [True]

    vault.follow()
    assert bench.memory(made).content == "By hand."
    assert any("By call." in bench.text(path) for path in bench.files() if path != NOTE)
