"""What the file system tells of a vault's folders."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import watchfiles

from memsvc.domain.vault import is_memory_path, is_watched_folder

TICK_MILLISECONDS = 50
"""How long to wait for events before the watcher looks at its clock."""
STEP_MILLISECONDS = 20
GROUP_MILLISECONDS = 100


@dataclass(frozen=True, slots=True)
class Told:
    """What happened since the last time: files that changed, and whether folders came or went."""

    files: frozenset[str] = frozenset()
    folders_changed: bool = False


def told(root: Path, folders: Sequence[str], stopping: threading.Event) -> Generator[Told]:
    """Tell what happens right in *folders* of *root*, and nothing several times a second, until *stopping* is set.

    The first answer comes once everything that happens from then on is told. Folders are watched one by one and not
    recursively, since a recursive watch follows symbolic links, and one to `/` would watch the machine.

    Raises:
        FileNotFoundError: One of the folders is not there any more.
        OSError: The system gives no events, or no more of them.
    """
    known = set(folders)
    for changes in watchfiles.watch(
        *(root / folder for folder in folders),
        watch_filter=None,
        debounce=GROUP_MILLISECONDS,
        step=STEP_MILLISECONDS,
        stop_event=stopping,
        rust_timeout=TICK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=False,
        force_polling=False,
        recursive=False,
        ignore_permission_denied=True,
    ):
        yield _sorted_out(root, known, {path for _, path in changes})


def _sorted_out(root: Path, folders: set[str], paths: set[str]) -> Told:
    relative = {"" if path == str(root) else os.path.relpath(path, root).replace(os.sep, "/") for path in paths}
    files = frozenset(filter(is_memory_path, relative))
    return Told(files, any(_is_folder(root, path, folders) for path in relative))


def _is_folder(root: Path, path: str, known: set[str]) -> bool:
    """Return whether *path* is a folder that came, or one that may have gone."""
    place = root / path
    is_there = place.is_dir() and not place.is_symlink()
    return is_watched_folder(path) and is_there is not (path in known)
