"""The watcher over a real file system and its real events, as editors, shells and Git make them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.engine.vault import watcher as watching
from memsvc.engine.vault.file_status import scan
from memsvc.engine.vault.watcher import FileEvents, WatchConfig, Watcher, WatchMode, WatchState
from tests.support.until import PATIENCE_SECONDS, until
from tests.unit.engine.vault.frozen_clock import HeldClock

QUIET = 0.15
Handed = tuple[str, str]


@dataclass
class Notes:
    """Writes down what the watcher hands over, and in what order."""

    handed: list[Handed] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    poison: str = ""
    changed: threading.Condition = field(default_factory=threading.Condition)
    clock: HeldClock = field(default_factory=HeldClock)

    def present(self, paths: Sequence[str]) -> None:
        self._note("present", paths)

    def gone(self, paths: Sequence[str]) -> None:
        self._note("gone", paths)

    def _note(self, what: str, paths: Sequence[str]) -> None:
        if self.failing:
            raise self.failing.pop()
        if self.poison in paths:
            raise RuntimeError(self.poison)
        with self.changed:
            self.handed += [(what, path) for path in paths]
            self.sizes.append(len(paths))
            self.changed.notify_all()

    def wait(self, *wanted: Handed) -> list[Handed]:
        """Return what was handed over once it holds all that is *wanted*."""
        with self.changed:
            assert self.changed.wait_for(lambda: set(wanted) <= set(self.handed), PATIENCE_SECONDS), self.handed
            return list(self.handed)


@contextmanager
def watched(root: Path, mode: WatchMode = WatchMode.EVENTS, **given: float) -> Iterator[tuple[Watcher, Notes]]:
    """Watch *root* from how it lies there now."""
    notes = Notes()
    manner = WatchConfig(mode, debounce_seconds=QUIET, poll_seconds=0.05, **given)
    watcher = Watcher(root, notes, manner, notes.clock)
    watcher.start(scan(root).files)
    try:
        assert watcher.wait_ready(PATIENCE_SECONDS)
        yield watcher, notes
    finally:
        watcher.stop()


@pytest.fixture(params=[WatchMode.EVENTS, WatchMode.POLLING])
def mode(request: pytest.FixtureRequest) -> WatchMode:
    mode: WatchMode = request.param
    return mode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "x.md").write_text("one")
    (folder / "y.md").write_text("one")
    return folder


def in_place(path: Path) -> None:
    with path.open("w") as file:
        file.write("two")
        file.flush()
        file.write(" and three")


def like_vim(path: Path) -> None:
    probe, backup, swap = path.with_name("4913"), path.with_name(f"{path.name}~"), path.with_name(f".{path.name}.swp")
    swap.write_text("swap")
    probe.write_text("")
    probe.unlink()
    path.rename(backup)
    path.write_text("two")
    backup.unlink()
    swap.unlink()


def like_vs_code(path: Path) -> None:
    temporary = path.with_name(f"{path.name}.7f3a.vsctmp")
    temporary.write_text("two")
    temporary.rename(path)


def like_jetbrains(path: Path) -> None:
    new, old = path.with_name(f"{path.name}___jb_tmp___"), path.with_name(f"{path.name}___jb_old___")
    new.write_text("two")
    path.rename(old)
    new.rename(path)
    old.unlink()


def like_emacs(path: Path) -> None:
    lock, unsaved = path.with_name(f".#{path.name}"), path.with_name(f"#{path.name}#")
    lock.symlink_to("someone@somewhere.1234")
    unsaved.write_text("tw")
    shutil.copy(path, path.with_name(f"{path.name}~"))
    path.write_text("two")
    unsaved.unlink()
    lock.unlink()


def removed_and_written(path: Path) -> None:
    path.unlink()
    path.write_text("two")


@pytest.mark.parametrize("save", [in_place, like_vim, like_vs_code, like_jetbrains, like_emacs, removed_and_written])
def test_a_save_is_one_edit_however_the_editor_saves(root: Path, mode: WatchMode, save: Callable[[Path], None]) -> None:
    """The file is handed over as present, and nothing else ever is: no deletion, no temporary file."""
    with watched(root, mode) as (_, notes):
        with notes.clock.held():
            save(root / "a" / "x.md")
        notes.wait(("present", "a/x.md"))
        (root / "end.md").write_text("end")
        handed = notes.wait(("present", "end.md"))

    assert set(handed) == {("present", "a/x.md"), ("present", "end.md")}


def test_what_appears_and_what_goes_is_told(root: Path, mode: WatchMode) -> None:
    """A new file is present, a deleted one is gone."""
    with watched(root, mode) as (_, notes):
        with notes.clock.held():
            (root / "new.md").write_text("new")
            (root / "y.md").unlink()
        handed = notes.wait(("present", "new.md"), ("gone", "y.md"))

    assert sorted(handed) == [("gone", "y.md"), ("present", "new.md")]


def test_a_move_hands_the_new_place_over_before_the_old_one_is_gone(root: Path, mode: WatchMode) -> None:
    """So whoever takes it knows the memory in its new place first and does not take it for deleted."""
    with watched(root, mode) as (_, notes):
        (root / "z.md").write_text("busy")
        (root / "a" / "x.md").rename(root / "moved.md")
        handed = notes.wait(("present", "moved.md"), ("gone", "a/x.md"))

    assert handed.index(("present", "moved.md")) < handed.index(("gone", "a/x.md"))


def test_folders_are_watched_as_they_come_and_go(root: Path, mode: WatchMode) -> None:
    """Files of a folder that is made, moved in, moved about and removed are told, deep ones and later edits too."""
    outside = root.parent / "outside"
    (outside / "deep" / "er").mkdir(parents=True)
    (outside / "deep" / "er" / "in.md").write_text("in")
    with watched(root, mode) as (_, notes):
        (root / "new" / "er").mkdir(parents=True)
        (root / "new" / "er" / "made.md").write_text("made")
        notes.wait(("present", "new/er/made.md"))
        outside.rename(root / "came")
        notes.wait(("present", "came/deep/er/in.md"))
        (root / "came" / "deep" / "er" / "later.md").write_text("later")
        notes.wait(("present", "came/deep/er/later.md"))
        (root / "a").rename(root / "b")
        notes.wait(("present", "b/x.md"), ("gone", "a/x.md"))
        shutil.rmtree(root / "came")
        notes.wait(("gone", "came/deep/er/in.md"), ("gone", "came/deep/er/later.md"))


def test_a_crowd_comes_in_bounded_parts(root: Path, mode: WatchMode) -> None:
    """Fifteen hundred files written at once are all handed over, at most fifty at a time."""
    names = [f"many/{number:04}.md" for number in range(1_500)]
    (root / "many").mkdir()
    with watched(root, mode) as (_, notes):
        for name in names:
            (root / name).write_text("text")
        notes.wait(*(("present", name) for name in names))

    assert max(notes.sizes) <= watching.BATCH


def test_links_out_of_the_vault_are_not_followed(root: Path, mode: WatchMode) -> None:
    """Neither those that are there at the start nor those that come; edits behind them are nobody's business."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "o.md").write_text("one")
    (root / "early").symlink_to(outside)
    with watched(root, mode) as (_, notes):
        (root / "late").symlink_to(outside)
        (root / "late.md").symlink_to(outside / "o.md")
        (outside / "o.md").write_text("two")
        (outside / "new.md").write_text("new")
        (root / "end.md").write_text("end")
        handed = notes.wait(("present", "end.md"))

    assert [path for what, path in handed if what == "present"] == ["end.md"]


def test_a_file_that_becomes_a_link_is_gone(root: Path) -> None:
    """Its place is taken by something that is no file of the vault."""
    (root.parent / "o.md").write_text("outside")
    with watched(root) as (_, notes):
        (root / "y.md").unlink()
        (root / "y.md").symlink_to(root.parent / "o.md")
        handed = notes.wait(("gone", "y.md"))

    assert handed == [("gone", "y.md")]


def test_what_changed_before_the_start_is_found(root: Path, mode: WatchMode) -> None:
    """Edits, deletions and new files of the time when nobody watched are handed over."""
    before = scan(root).files
    (root / "y.md").unlink()
    (root / "a" / "x.md").write_text("edited")
    (root / "new.md").write_text("new")
    notes = Notes()
    watcher = Watcher(root, notes, WatchConfig(mode, debounce_seconds=QUIET))
    watcher.start(before)
    try:
        handed = notes.wait(("present", "a/x.md"), ("present", "new.md"), ("gone", "y.md"))
    finally:
        watcher.stop()

    assert len(handed) == 3


def test_a_vault_that_vanishes_takes_no_memory_along(root: Path, mode: WatchMode) -> None:
    """Its folder is moved away, or an empty one is in its place as when a volume is not mounted: nothing is gone.

    Once it is back, what was changed meanwhile is taken.
    """
    away = root.parent / "away"
    with watched(root, mode) as (watcher, notes):
        root.rename(away)
        until(lambda: watcher.state is WatchState.MISSING)
        root.mkdir()
        (away / "y.md").write_text("edited while it was away")
        root.rmdir()
        away.rename(root)
        handed = notes.wait(("present", "y.md"))

    assert "gone" not in {what for what, _ in handed}


def test_an_empty_folder_in_its_place_is_no_vault(root: Path, mode: WatchMode) -> None:
    """As when its volume is not mounted."""
    away, empty = root.parent / "away", root.parent / "empty"
    empty.mkdir()
    with watched(root, mode) as (watcher, notes):
        root.rename(away)
        empty.rename(root)
        until(lambda: watcher.state is WatchState.MISSING)

    assert notes.handed == []


def test_what_cannot_be_taken_now_is_taken_later(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store is out of reach nothing is lost, and a fault of ours does not end the watching."""
    monkeypatch.setattr(watching, "RETRY_SECONDS", (0.05,))
    with watched(root) as (_, notes):
        notes.failing += [RuntimeError("a fault"), BackendUnavailableError("away")]
        (root / "y.md").write_text("two")
        handed = notes.wait(("present", "y.md"))

    assert handed == [("present", "y.md")]


def test_a_file_that_is_never_taken_does_not_hold_up_the_others(root: Path) -> None:
    """It is tried a few times, and again when it changes."""
    names = [f"{name}.md" for name in "bcde"]
    with watched(root) as (_, notes):
        notes.poison = "c.md"
        for name in names:
            (root / name).write_text("text")
        notes.wait(("present", "b.md"), ("present", "d.md"), ("present", "e.md"))
        notes.poison = ""
        (root / "c.md").write_text("mended")
        notes.wait(("present", "c.md"))


def test_our_own_writes_are_not_handed_over(root: Path, mode: WatchMode) -> None:
    """Unless somebody edited the file since."""
    with watched(root, mode) as (watcher, notes):
        with notes.clock.held():
            for name in ("ours.md", "edited.md"):
                temporary = root / f".{name}.tmp"
                temporary.write_text("ours")
                watcher.note_own(name, temporary.stat())
                temporary.rename(root / name)
            (root / "edited.md").write_text("theirs")
        notes.wait(("present", "edited.md"))
        (root / "ours.md").write_text("theirs, later")
        handed = notes.wait(("present", "ours.md"))

    assert handed == [("present", "edited.md"), ("present", "ours.md")]


def test_watching_ends_with_the_service(root: Path) -> None:
    """A closed store ends it quietly."""
    with watched(root) as (watcher, notes):
        notes.failing.append(BackendClosedError("metadata"))
        (root / "y.md").write_text("two")
        until(lambda: not watcher._thread.is_alive())

    assert (notes.handed, watcher.state) == ([], WatchState.STOPPED)


def test_events_that_do_not_come_are_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells nothing, looking now and then finds the change, and soon the watcher looks for itself."""
    monkeypatch.setattr(watching, "file_events", _silence)
    monkeypatch.setattr("memsvc.engine.vault.watcher.JUDGE_SECONDS", 0.0)
    with watched(root, sweep_seconds=0.05) as (watcher, notes):
        (root / "y.md").write_text("two")
        notes.wait(("present", "y.md"))
        (root / "z.md").write_text("two")
        notes.wait(("present", "z.md"))
        until(lambda: watcher.state is WatchState.POLLING)
        (root / "end.md").write_text("end")
        notes.wait(("present", "end.md"))


def test_a_system_without_events_is_polled(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they cannot be had, as when the system has no more watches to give, the watcher looks for itself."""

    def refused(*_: object) -> Iterator[object]:
        raise OSError(28, "OS file watch limit reached")
        yield

    monkeypatch.setattr(watching, "file_events", refused)
    with watched(root) as (watcher, notes):
        (root / "y.md").write_text("two")
        notes.wait(("present", "y.md"))

        assert watcher.state is WatchState.POLLING


def _silence(root: Path, folders: Sequence[str], stopping: threading.Event) -> Iterator[FileEvents]:
    while not stopping.wait(0.02):
        yield FileEvents()
