"""What people do to the files of a watched vault, and what becomes of the memories."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach
from memsvc.domain.vault import FileResult, VaultAction
from memsvc.domain.write_requests import Patch, WriteOptions
from memsvc.engine.vault.file_status import scan
from memsvc.engine.vault.note_import import NoteImporter, ThreeWayMerge
from memsvc.engine.vault.vault import VaultWarnings
from memsvc.engine.vault.watcher import ChangeImporter, WatchConfig, Watcher, WatchMode, WatchState
from tests.support.until import PATIENCE_SECONDS, until
from tests.unit.engine.memories.write_path import ADA
from tests.unit.engine.vault.frozen_clock import HeldClock
from tests.unit.engine.vault.vault_fixture import BASE, Bench, open_bench

QUIET = 0.15
NOTE = f"{BASE}/long_term/note.md"


@dataclass
class House:
    """A vault that is watched."""

    bench: Bench
    troubles: VaultWarnings
    taken: list[FileResult] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    clock: HeldClock = field(default_factory=HeldClock)

    def tell(self, taken: FileResult) -> None:
        self.troubles.note(taken)
        with self.changed:
            self.taken.append(taken)
            self.changed.notify_all()

    def wait(self, path: str, action: VaultAction) -> FileResult:
        """Return what came of the file once it is *action*."""
        found: list[FileResult] = []

        def is_told() -> bool:
            found[:] = [one for one in self.taken if (one.path, one.action) == (path, action)]
            return bool(found)

        with self.changed:
            assert self.changed.wait_for(is_told, PATIENCE_SECONDS), self.taken
        return found[-1]

    def made(self, path: str = NOTE, text: str = "One.\n\nTwo.\n\nThree.\n") -> Memory:
        """Put a new file there, and return its memory."""
        self.bench.put(path, text)
        return self.bench.memory(self.wait(path, VaultAction.CREATED).memory_id)

    def actions(self) -> set[VaultAction]:
        return {one.action for one in self.taken} - {VaultAction.UNCHANGED}

    def warnings(self) -> list[str]:
        return [notice.message for notice in self.troubles.of(ADA)]


@contextmanager
def _watched(house: House, mode: WatchMode = WatchMode.EVENTS) -> Iterator[Watcher]:
    bench = house.bench
    taking = NoteImporter(bench.context, ThreeWayMerge(), house.tell)
    manner = WatchConfig(mode, debounce_seconds=QUIET, poll_seconds=0.05)
    watcher = Watcher(bench.root, ChangeImporter(taking.take_all), manner, house.clock)
    watcher.start(scan(bench.root).files)
    try:
        assert watcher.wait_ready(PATIENCE_SECONDS)
        yield watcher
    finally:
        watcher.stop()


@pytest.fixture
def quiet_house(tmp_path: Path) -> Iterator[House]:
    """A vault that nobody watches yet."""
    with open_bench(tmp_path) as bench:
        yield House(bench, VaultWarnings(bench.context.folder.exists))


@pytest.fixture
def house(quiet_house: House) -> Iterator[House]:
    """A watched vault."""
    with _watched(quiet_house):
        yield quiet_house


def _edit(house: House, path: str, old: str, new: str) -> None:
    """Save as VS Code and most others do: a file beside it, renamed over it."""
    whole = house.bench.root / path
    beside = whole.with_name(f"{whole.name}.tmp")
    beside.write_text(house.bench.text(path).replace(old, new), newline="")
    beside.rename(whole)


def test_an_edit_is_one_revision(house: House) -> None:
    """What the service writes into a new file itself is no edit."""
    made = house.made()
    _edit(house, NOTE, "Two.", "二。")
    house.wait(NOTE, VaultAction.UPDATED)

    now = house.bench.memory(made.id)
    assert (now.content, now.revision) == ("One.\n\n二。\n\nThree.", made.revision + 1)
    assert house.actions() == {VaultAction.CREATED, VaultAction.UPDATED}


def test_a_moved_file_is_the_same_memory(house: House) -> None:
    """Moved to another folder and edited at once, it is neither deleted nor new."""
    made = house.made()
    moved = f"{BASE}/core/moved.md"
    with house.clock.held():
        (house.bench.root / moved).parent.mkdir(parents=True)
        (house.bench.root / NOTE).rename(house.bench.root / moved)
        _edit(house, moved, "One.", "1.")
    house.wait(moved, VaultAction.UPDATED)
    house.wait(NOTE, VaultAction.UNCHANGED)

    now = house.bench.memory(made.id)
    assert (now.status, now.layer.value, now.content[:2]) == (Status.ACTIVE, "CORE", "1.")
    assert house.actions() == {VaultAction.CREATED, VaultAction.UPDATED}


def test_a_moved_folder_moves_its_memories(house: House) -> None:
    """Nothing is deleted and nothing new."""
    notes = [f"{BASE}/long_term/topic/{number}.md" for number in range(5)]
    made = {house.made(path, f"Note {path}.\n").id for path in notes}
    (house.bench.root / f"{BASE}/long_term/topic").rename(house.bench.root / f"{BASE}/long_term/other")
    for path in notes:
        house.wait(path.replace("topic", "other"), VaultAction.RENAMED)
        house.wait(path, VaultAction.UNCHANGED)

    assert {house.bench.memory(one).status for one in made} == {Status.ACTIVE}
    assert house.actions() == {VaultAction.CREATED, VaultAction.RENAMED}


def test_a_removed_file_deletes_softly_and_its_return_restores(house: House) -> None:
    """As when Git checks a state out in which it was not there, and back."""
    made = house.made()
    house.bench.synced()
    kept = house.bench.text(NOTE)
    (house.bench.root / NOTE).unlink()
    house.wait(NOTE, VaultAction.DELETED)
    deleted = house.bench.memory(made.id).status
    house.bench.put(NOTE, kept)
    house.wait(NOTE, VaultAction.RESTORED)

    assert (deleted, house.bench.memory(made.id).status) == (Status.DELETED, Status.ACTIVE)


def test_a_copy_is_a_memory_of_its_own(house: House) -> None:
    """The original stays what it is."""
    made = house.made()
    copy = NOTE.replace("note", "copy")
    shutil.copy(house.bench.root / NOTE, house.bench.root / copy)
    new = house.wait(copy, VaultAction.CREATED)

    assert new.memory_id != made.id
    assert f"id: {new.memory_id}" in house.bench.text(copy)
    assert house.bench.memory(made.id) == made


BAD = {
    "yaml": b"---\nid: {id}\ntitle: [open\n---\n\nText.\n",
    "value": b"---\nid: {id}\nimportance: 9\n---\n\nText.\n",
    "not utf-8": b"---\nid: {id}\n---\n\nna\xefve\n",
    "empty": b"",
    "nul": b"---\nid: {id}\n---\n\na\0b\n",
    "huge": b"---\nid: {id}\n---\n\n" + b"x" * 8_000_001,
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read_is_told_left_alone_and_taken_once_mended(house: House, name: str) -> None:
    """Its memory stays as it was meanwhile."""
    made = house.made()
    bad = BAD[name].replace(b"{id}", made.id.encode())
    with house.clock.held():
        house.bench.put(NOTE, bad)
    told = house.wait(NOTE, VaultAction.INVALID)

    assert (house.bench.root / NOTE).read_bytes() == bad
    assert house.bench.memory(made.id) == made
    assert [told.detail in message and NOTE in message for message in house.warnings()] == [True]

    house.bench.put(NOTE, f"---\nid: {made.id}\n---\n\nMended.\n")
    house.wait(NOTE, VaultAction.UPDATED)
    assert (house.bench.memory(made.id).content, house.warnings()) == ("Mended.", [])


@pytest.mark.parametrize("encoded", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")])
def test_what_windows_adds_is_no_change(house: House, encoded: Callable[[bytes], bytes]) -> None:
    """A byte order mark and Windows' line ends are not part of the content; an edit in such a file is taken."""
    made = house.made()
    whole = house.bench.root / NOTE
    written = whole.read_bytes()
    house.bench.put(NOTE, encoded(written))
    house.wait(NOTE, VaultAction.UNCHANGED)
    unchanged = house.bench.memory(made.id)
    house.bench.put(NOTE, encoded(written.replace(b"Two.", b"2.")))
    house.wait(NOTE, VaultAction.UPDATED)

    assert unchanged == made
    assert house.bench.memory(made.id).content == "One.\n\n2.\n\nThree."


def test_links_are_not_taken(house: House) -> None:
    """Neither a link in the place of a memory's file nor one in a new place; what it leads to stays unknown."""
    secret = house.bench.root.parent / "secret.md"
    secret.write_text("A secret.\n")
    house.made()
    (house.bench.root / NOTE.replace("note", "link")).symlink_to(secret)
    (house.bench.root / f"{BASE}/long_term/folder").symlink_to(secret.parent)
    end = house.made(NOTE.replace("note", "end"), "End.\n")

    contents = [house.bench.memory(one.memory_id).content for one in house.taken if one.memory_id]
    assert "A secret." not in contents
    assert house.bench.memory(end.id).content == "End."


def test_edits_on_both_sides_are_merged(house: House) -> None:
    """One in the file and one by a call, of different lines and fields: both are in the next revision."""
    made = house.made()
    _update(house, made.id, content="One, by call.\n\nTwo.\n\nThree.", importance=5)
    _edit(house, NOTE, "Three.", "Three, by hand.")
    house.wait(NOTE, VaultAction.UPDATED)

    now = house.bench.memory(made.id)
    assert (now.content, now.importance) == ("One, by call.\n\nTwo.\n\nThree, by hand.", 5)
    assert house.warnings() == []


def test_edits_of_the_same_lines_are_both_kept(house: House) -> None:
    """The file's in the memory, the call's in a revision and beside the file; GetStats says so until it is settled."""
    made = house.made()
    _update(house, made.id, content="One.\n\nTwo, by call.\n\nThree.")
    _edit(house, NOTE, "Two.", "Two, by hand.")
    told = house.wait(NOTE, VaultAction.CONFLICT)

    [beside] = [path for path in house.bench.files() if ".conflict-" in path]
    revision = house.bench.context.reads.revision(made.id, made.revision + 1, reach=Reach.from_scope(ADA))
    assert "Two, by hand." in house.bench.memory(made.id).content
    assert "Two, by call." in house.bench.text(beside)
    assert revision is not None
    assert "Two, by call." in revision.content
    assert [beside in message for message in house.warnings()] == [True]
    assert beside in told.detail
    _edit(house, NOTE, "Two, by hand.", "Two, by hand and by call.")
    house.wait(NOTE, VaultAction.UPDATED)
    assert house.warnings() == []


def test_git_checks_an_older_state_out(house: House) -> None:
    """Edited files say again what they said, removed ones are back, new ones are gone."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = house.bench.root
    names = [f"{BASE}/long_term/{number:03}.md" for number in range(30)]
    for path in names:
        house.bench.put(path, f"Note {path}.\n")
    made = [house.bench.memory(house.wait(path, VaultAction.CREATED).memory_id) for path in names]
    house.bench.synced()
    _git(root, "init", "-q")
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "first")
    for path in names[:20]:
        _edit(house, path, "Note", "Edited note")
    for path in names[20:]:
        (root / path).unlink()
    new = house.made(f"{BASE}/long_term/new.md", "New.\n")
    for path in names[:20]:
        house.wait(path, VaultAction.UPDATED)
    for path in names[20:]:
        house.wait(path, VaultAction.DELETED)
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "second")
    house.taken.clear()

    with house.clock.held():
        _git(root, "checkout", "-q", "HEAD~1")

    for path in names[:20]:
        house.wait(path, VaultAction.UPDATED)
    for path in names[20:]:
        house.wait(path, VaultAction.RESTORED)
    house.wait(f"{BASE}/long_term/new.md", VaultAction.DELETED)
    now = [house.bench.memory(one.id) for one in made]
    assert [(one.status, one.content) for one in now] == [(Status.ACTIVE, one.content) for one in made]
    assert house.bench.memory(new.id).status is Status.DELETED


def test_what_happened_while_nobody_watched_is_taken_at_the_start(quiet_house: House) -> None:
    """An edit, a removal, a move and a new file."""
    house = quiet_house
    with _watched(house):
        made = {name: house.made(f"{BASE}/long_term/{name}.md", f"{name}.\n") for name in ("edit", "gone", "move")}
    before = scan(house.bench.root).files
    _edit(house, f"{BASE}/long_term/edit.md", "edit.", "edited.")
    (house.bench.root / f"{BASE}/long_term/gone.md").unlink()
    (house.bench.root / f"{BASE}/long_term/move.md").rename(house.bench.root / f"{BASE}/long_term/moved.md")
    house.bench.put(f"{BASE}/long_term/new.md", "new.\n")
    taking = NoteImporter(house.bench.context, ThreeWayMerge(), house.tell)
    watcher = Watcher(house.bench.root, ChangeImporter(taking.take_all), WatchConfig(debounce_seconds=QUIET))
    watcher.start(before)
    try:
        house.wait(f"{BASE}/long_term/edit.md", VaultAction.UPDATED)
        house.wait(f"{BASE}/long_term/gone.md", VaultAction.DELETED)
        house.wait(f"{BASE}/long_term/moved.md", VaultAction.RENAMED)
        house.wait(f"{BASE}/long_term/new.md", VaultAction.CREATED)
    finally:
        watcher.stop()

    assert house.bench.memory(made["edit"].id).content == "edited."
    assert house.bench.memory(made["move"].id).status is Status.ACTIVE


def test_a_folder_that_is_another_vault_is_left_alone(quiet_house: House) -> None:
    """Without its mark nothing in the folder means anything: nothing is deleted, nothing made."""
    house = quiet_house
    with _watched(house) as watcher:
        made = house.made()
        shutil.rmtree(house.bench.root / ".memsvc")
        (house.bench.root / NOTE).unlink()
        until(lambda: watcher.state is WatchState.MISSING)

    assert house.bench.memory(made.id) == made


def _update(house: House, memory_id: str, **values: str | int) -> None:
    house.bench.writes.writing.revise.update(
        ADA,
        memory_id=memory_id,
        key="",
        patch=Patch(values),
        expected_revision=0,
        options=WriteOptions(),
    )


def _git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, *arguments], cwd=root, env=environment, check=True, capture_output=True)


def test_a_conflict_is_told_until_the_file_is_edited() -> None:
    """Looking at the file again does not settle it."""
    troubles = VaultWarnings(lambda _: True)
    troubles.note(FileResult(NOTE, VaultAction.CONFLICT, detail="The other side lies beside."))
    troubles.note(FileResult(NOTE, VaultAction.UNCHANGED))
    before = [notice.code for notice in troubles.of(ADA)]
    troubles.note(FileResult(NOTE, VaultAction.UPDATED))

    assert (before, troubles.of(ADA)) == (["VAULT_CONFLICT"], [])


def test_troubles_name_only_the_files_of_their_user() -> None:
    """And to an operator how many there are."""
    troubles = VaultWarnings(lambda _: True)
    for number in range(12):
        troubles.note(FileResult(f"{BASE}/long_term/{number:02}.md", VaultAction.INVALID, line=3, detail="Bad."))
    troubles.note(FileResult("users/eve/long_term/a.md", VaultAction.INVALID, detail="Bad."))
    ada, eve = troubles.of(ADA), troubles.of(replace(ADA, user_id="eve"))

    assert [notice.message.split(":")[0] for notice in eve] == ["users/eve/long_term/a.md"]
    assert [notice.message.split(":")[0] for notice in ada[:2]] == [
        f"{BASE}/long_term/{n:02}.md, line 3" for n in (0, 1)
    ]
    assert ada[-1].message.startswith("2 more")
    assert troubles.of(replace(ADA, user_id="ad")) == []
    assert [notice.message.split()[0] for notice in troubles.count()] == ["13"]
    assert not troubles.note(FileResult("users/eve/long_term/a.md", VaultAction.INVALID, detail="Bad."))
