"""The tree of a vault on a real disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsvc.engine.vault.file_status import TreeMissingError, file_stamp, open_inside, scan, tree_differences


def test_memories_and_folders_are_seen(tmp_path: Path) -> None:
    """Markdown files by their paths, folders with the vault itself first, nothing hidden."""
    for name in ("x.md", "a/b/y.md", ".git/z.md", "a/note.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")

    seen = scan(tmp_path)

    assert sorted(seen.files) == ["a/b/y.md", "x.md"]
    assert (seen.folders[0], sorted(seen.folders)) == ("", ["", "a", "a/b"])


def test_links_are_neither_files_nor_folders(tmp_path: Path) -> None:
    """Whether they lead out of the vault or stay in it, nowhere or in a circle."""
    outside, vault = tmp_path / "outside", tmp_path / "vault"
    outside.mkdir()
    vault.mkdir()
    (outside / "secret.md").write_text("secret")
    (vault / "x.md").write_text("text")
    for name, target in {
        "file.md": outside / "secret.md",
        "folder": outside,
        "inner.md": vault / "x.md",
        "circle": vault,
        "dangling.md": outside / "nothing",
    }.items():
        (vault / name).symlink_to(target)

    seen = scan(vault)

    assert (sorted(seen.files), seen.folders) == (["x.md"], ("",))
    assert [file_stamp(vault, path) for path in ("file.md", "inner.md", "folder/secret.md", "circle/x.md")] == [
        None
    ] * 4
    for path in ("file.md", "folder/secret.md"):
        with pytest.raises(OSError, match=r"symbolic|Not a directory"):
            open_inside(vault, path)


@pytest.mark.parametrize("path", ["../x.md", "a/../../x.md", "/etc/passwd", "", ".", "a//x.md"])
def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    """Dots, slashes and absolute paths find nothing."""
    vault = tmp_path / "vault"
    (vault / "a").mkdir(parents=True)
    (tmp_path / "x.md").write_text("outside")

    with pytest.raises(FileNotFoundError):
        open_inside(vault, path)


def test_pipes_and_folders_are_no_files(tmp_path: Path) -> None:
    """A named pipe would block its reader for ever; a folder may be called x.md."""
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()

    seen = scan(tmp_path)

    assert seen.files == {}
    assert file_stamp(tmp_path, "pipe.md") is file_stamp(tmp_path, "folder.md") is None


def test_differences_are_what_came_went_or_changed(tmp_path: Path) -> None:
    """Also a file of the same length and time whose modification time was set back."""
    for name in ("same", "longer", "back", "gone"):
        (tmp_path / f"{name}.md").write_text("text")
    before = scan(tmp_path).files
    old = (tmp_path / "back.md").stat()
    (tmp_path / "back.md").write_text("TEXT")
    os.utime(tmp_path / "back.md", ns=(old.st_atime_ns, old.st_mtime_ns))
    (tmp_path / "longer.md").write_text("text, longer")
    (tmp_path / "gone.md").unlink()
    (tmp_path / "new.md").write_text("text")

    assert tree_differences(before, scan(tmp_path).files) == {"longer.md", "back.md", "gone.md", "new.md"}


def test_a_vault_that_is_not_there_is_not_an_empty_one(tmp_path: Path) -> None:
    """It raises, so that nobody takes all for deleted."""
    with pytest.raises(TreeMissingError):
        scan(tmp_path / "vault")
