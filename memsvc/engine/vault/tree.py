"""The tree of files as it lies on the disk, looked at without following any symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from memsvc.domain.vault import is_memory_path, is_watched_folder


class Mark(NamedTuple):
    """What tells that a file is another than before without reading it.

    Modification times can be set back, as archive programs do; the time of the last change of the inode cannot.
    """

    modified_ns: int
    changed_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Mark:
        """Return the mark of a file that the system says this of."""
        return cls(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def is_content_of(self, other: Mark) -> bool:
        """Return whether a file has the content that it had at another mark, though perhaps another name."""
        return self[0] == other[0] and self[2:] == other[2:]


Snapshot: TypeAlias = Mapping[str, Mark]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What lies in a vault: its folders, itself first, and the marks of the files that may be memories, by path."""

    folders: tuple[str, ...]
    files: Snapshot


class TreeMissingError(OSError):
    """The vault's folder is not there: removed, or its volume is not mounted."""


def scan(root: Path) -> TreeEntry:
    """Return what lies in *root*. What vanishes meanwhile, or cannot be read, is left out.

    Raises:
        TreeMissingError: There is no such folder.
    """
    if not root.is_dir():
        raise TreeMissingError(errno.ENOENT, "The folder of the vault is not there", str(root))
    folders: list[str] = []
    files: dict[str, Mark] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        folders.append(folder)
        for entry in _entries(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if is_watched_folder(entry.name):
                    pending.append(path)
            elif is_memory_path(path) and (mark := _mark(entry)) is not None:
                files[path] = mark
    return TreeEntry(tuple(folders), files)


def tree_differences(before: Snapshot, after: Snapshot) -> set[str]:
    """Return the paths that are only in one of the two, or other files in them."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def mark_of(root: Path, path: str) -> Mark | None:
    """Return the mark of a file of the vault, or None when no file that may be read is there.

    A symbolic link, on the way or at the end, is no file of the vault wherever it leads.
    """
    try:
        descriptor = open_inside(root, path)
    except OSError:
        return None
    try:
        return Mark.of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def open_inside(root: Path, path: str) -> int:
    """Open a file of the vault for reading and return its descriptor, which the caller closes.

    Each part of the way is opened in the one before and none may be a symbolic link, so nobody can lead it out by
    exchanging a folder meanwhile.

    Raises:
        OSError: There is none, it is no plain file, or a link is on the way.
    """
    *folders, name = path.split("/")
    if any(part in {"", ".", ".."} for part in (*folders, name)):
        raise FileNotFoundError(errno.ENOENT, "No path of a vault", path)
    plain = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, plain | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        descriptor = os.open(name, plain, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "No plain file", path)
    return descriptor


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _mark(entry: os.DirEntry[str]) -> Mark | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return Mark.of(found) if stat.S_ISREG(found.st_mode) else None
