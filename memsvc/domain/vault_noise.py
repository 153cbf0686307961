"""Which files of a vault are memories, and which are what editors, systems and tools leave about."""

from __future__ import annotations

import re

SUFFIX = ".md"
_PASSING = (
    re.compile(r"\.conflict-[^/]*\.md$", re.IGNORECASE),  # our own: the other side of a conflict
    re.compile(r"^#.*#$"),  # Emacs saves unsaved work so
    re.compile(r"^~"),  # Office, Syncthing
    re.compile(r"_(BACKUP|BASE|LOCAL|REMOTE)_[0-9]+\.md$", re.IGNORECASE),  # git mergetool
)


def is_memory_path(path: str) -> bool:
    """Return whether *path*, relative and with slashes, is where a memory may lie.

    Only Markdown files are, since editors' swap, backup and temporary files all end otherwise: `.x.md.swp`, `4913`,
    `x.md~`, `x.md.tmp`, `x.md___jb_tmp___`. Nothing whose name, or a folder's on the way, begins with a dot is: `.git`,
    `.obsidian`, `.#x.md`, `.trash`. Nor is a name that is no text, as old archives hold them.
    """
    folders, _, name = path.rpartition("/")
    return (
        len(name) > len(SUFFIX)
        and name.lower().endswith(SUFFIX)
        and not name.startswith(".")
        and is_watched_folder(folders)
        and is_text(path)
        and not any(pattern.search(name) for pattern in _PASSING)
    )


def is_watched_folder(path: str) -> bool:
    """Return whether memories may lie in the folder *path*; the empty one is the vault itself."""
    return not path or not any(part.startswith(".") for part in path.split("/"))


def is_text(path: str) -> bool:
    """Return whether the bytes of a path that the system gave are UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
