"""Which files of a vault are memories, and which are what editors, systems and tools leave about."""

from __future__ import annotations

import re
from datetime import datetime

SUFFIX = ".md"
CONFLICT = ".conflict-"
"""What stands between the name of a file and the moment of a conflict in the name of the file that keeps it."""

_CONFLICT_FILE = re.compile(r"\.conflict-[0-9]{8}T[0-9]{6}(-[0-9]+)?\.md$", re.IGNORECASE)
_PASSING = (
    re.compile(r"^#.*#$"),  # Emacs saves unsaved work so
    re.compile(r"^~"),  # Office, Syncthing
    re.compile(r"_(BACKUP|BASE|LOCAL|REMOTE)_[0-9]+\.md$", re.IGNORECASE),  # git mergetool
)


def is_memory_path(path: str) -> bool:
    """Return whether *path*, relative and with slashes, is where a memory may lie.

    Only Markdown files are, since editors' swap, backup and temporary files all end otherwise: `.x.md.swp`, `4913`,
    `x.md~`, `x.md.tmp`, `x.md___jb_tmp___`. Nothing whose name, or a folder's on the way, begins with a dot is: `.git`,
    `.obsidian`, `.#x.md`, `.trash`.
    """
    folders, _, name = path.rpartition("/")
    return (
        len(name) > len(SUFFIX)
        and name.lower().endswith(SUFFIX)
        and not name.startswith(".")
        and is_watched_folder(folders)
        and not is_conflict_path(path)
        and not any(pattern.search(name) for pattern in _PASSING)
    )


def is_watched_folder(path: str) -> bool:
    """Return whether memories may lie in the folder *path*; the empty one is the vault itself."""
    return not path or not any(part.startswith(".") for part in path.split("/"))


def is_conflict_path(path: str) -> bool:
    """Return whether *path* is that of a file which keeps the losing side of a conflict."""
    return _CONFLICT_FILE.search(path) is not None


def conflict_path(path: str, moment: datetime, number: int = 0) -> str:
    """Return where the side of *path* that lost at *moment* is kept; *number* tells several of one second apart."""
    stem = path[: -len(SUFFIX)] if path.lower().endswith(SUFFIX) else path
    return f"{stem}{CONFLICT}{moment:%Y%m%dT%H%M%S}{f'-{number}' if number else ''}{SUFFIX}"
