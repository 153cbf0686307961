"""Which files of a vault are memories."""

from __future__ import annotations

import pytest

from memsvc.domain.vault_layout import is_memory_path, is_watched_folder

NOISE = [
    ".x.md.swp", ".x.md.swo", "4913", "x.md~", "a/.#x.md", "#x.md#", ".git/HEAD.md", "a/.git/x.md",
    ".DS_Store", "x.md___jb_tmp___", "x.md___jb_old___", "x.md.tmp", "x.md.1234.vsctmp", ".goutputstream-AB12",
    "~$x.md", ".~lock.x.md#", "x.md.orig", "x.md.save", "x.md.crswap", "x.md.sb-1f2e-AbC", "x.md.bak", "sedAbC123",
    ".obsidian/x.md", "~syncthing~x.md.tmp", "~x.md", "x_BACKUP_123.md", "x_LOCAL_1.md", "x_REMOTE_77.md",
    "x_BASE_5.md", ".x.md", ".md", "a/.md", "x.txt", "x", "", "x.conflict-20260206T101112.md",
    "a/x.conflict-r3.md", ".x.md.memsvc-tmp",
    "caf\udce9.md", "a\udcff/x.md",
]  # fmt: skip
MEMORIES = [
    "x.md", "a/b/c.md", "X.MD", "memory/2026-02-06.md", "knowledge/world/巴黎.md", "a b/x y.md", "x.y.md",
    "my_BASE_camp.md", "x-conflict-20260206.md", "a/#1 plan.md", "x~.md",
]  # fmt: skip


@pytest.mark.parametrize("path", NOISE)
def test_what_editors_and_systems_leave_is_no_memory(path: str) -> None:
    """Swap, backup, lock and temporary files, and all below a hidden folder, are passed over."""
    assert not is_memory_path(path)


@pytest.mark.parametrize("path", MEMORIES)
def test_markdown_files_are_memories(path: str) -> None:
    """A Markdown file with a visible name is a memory wherever it lies."""
    assert is_memory_path(path)


def test_hidden_folders_are_not_watched() -> None:
    """Neither a hidden folder nor one below it is."""
    watched = [is_watched_folder(path) for path in ("", "a", "a/b", ".git", "a/.git", ".git/refs")]

    assert watched == [True, True, True, False, False, False]
