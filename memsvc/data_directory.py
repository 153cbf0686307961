"""The data directory: one process at a time owns it, and files are on the disk before a write is acknowledged."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memsvc.domain.errors import DataDirectoryLockedError

if TYPE_CHECKING:
    from memsvc.ports.plugin import KnownStore

LOCK = "memsvc.lock"
CLEAN = "closed-cleanly"
STORE_RECORD = "indexed-store.json"
"""Names the store and the indexes of the last start."""


PRIVATE = 0o077
"""Rights of the group and of others, which no file or folder of the service has."""

LEAST_FREE = 1 << 20
"""Free bytes below which a process that died of its files ran out of space."""
NO_SPACE = "has no space left: free some on the disk of the data directory"
_NO_RIGHTS = "cannot open its files: check the owner and the rights of the data directory"
_TOO_MANY = "cannot open its files: raise the limit of open files (ulimit -n)"
_OBSTACLES = {
    errno.ENOSPC: NO_SPACE,
    errno.EDQUOT: NO_SPACE,
    errno.EFBIG: NO_SPACE,
    errno.EROFS: "cannot write to its files: the disk of the data directory is read-only",
    errno.EACCES: _NO_RIGHTS,
    errno.EPERM: _NO_RIGHTS,
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
    errno.ENOMEM: "cannot open its files: there is not enough memory",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A data directory that this process owns.

    Attributes:
        path: The directory.
        was_closed_cleanly: Whether the last owner closed everything; true for a new directory.
        is_new: Whether it was empty.
    """

    path: Path
    was_closed_cleanly: bool
    is_new: bool = False


@contextmanager
def owned(path: Path, *, visits: bool = False) -> Iterator[DataDirectory]:
    """Own *path*, making it when it is not there, until the context ends; the kernel frees it after kill -9 too.

    Who only *visits* brings nothing in order: after them it is as clean as it was before.

    Raises:
        DataDirectoryLockedError: Another process owns it.
        NotADirectoryError: There is a file of that name.
        OSError: It cannot be made or written to.
    """
    if path.exists() and not path.is_dir():
        message = f"The data directory {str(path)!r} is a file; name a directory."
        raise NotADirectoryError(message)
    if path.is_symlink() and not path.exists():
        message = f"The data directory {str(path)!r} is a link to {str(path.readlink())!r}, which does not exist."
        raise FileNotFoundError(message)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (path / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            pid, *addresses = lock.read().split("\n")
            raise DataDirectoryLockedError(pid or "unknown", [one for one in addresses if one]) from error
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        mark = path / CLEAN
        fresh = not any(child.name != LOCK for child in path.iterdir())
        clean = mark.exists()
        mark.unlink(missing_ok=True)
        yield DataDirectory(path, was_closed_cleanly=clean or fresh, is_new=fresh)
        if clean or fresh or not visits:
            mark.touch()


def publish_addresses(path: Path, addresses: Iterable[str]) -> None:
    """Note at which addresses this process, which owns *path*, serves: commands on the directory ask it there."""
    (path / LOCK).write_text("\n".join([str(os.getpid()), *addresses]), encoding="utf-8")


def store_record(path: Path) -> Mapping[str, object] | None:
    """Return the store and the indexes of the last start in a data directory; None if there was none.

    The result is empty if the record is damaged.
    """
    try:
        found = json.loads((path / STORE_RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def known_store(path: Path) -> KnownStore | None:
    """Return the store that a data directory belongs to; None if it belongs to none. A damaged record names none."""
    from memsvc.ports.plugin import KnownStore  # noqa: PLC0415 - commands of a client import this module

    found = store_record(path)
    return None if found is None else KnownStore(str(found.get("store", "")), path / STORE_RECORD)


@contextmanager
def private_files() -> Iterator[int]:
    """Keep the files that this process and its children create to their user alone; yield the earlier mask."""
    before = os.umask(PRIVATE)
    try:
        yield before
    finally:
        os.umask(before)


def make_private(folder: Path) -> None:
    """Close a folder, if it exists, to the group and to others; earlier versions created it by the mask of the process.

    A folder of another user, or of a file system without permissions, stays as it is, with a line in the log.
    """
    try:
        mode = folder.stat().st_mode
        if mode & PRIVATE:
            folder.chmod(stat.S_IMODE(mode) & ~PRIVATE)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("%s can be read by other users, and that cannot be changed: %s", folder, error.strerror)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk when this returns; folders only where the system can."""
    if os.name != "posix" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def obstacle_of(error: BaseException) -> str:
    """Return why files cannot be opened that may be whole, with what to do; empty if the error is none of these.

    Libraries in Rust quote the number of the system's error in their message.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return _OBSTACLES.get(error.errno, "")
    found = re.search(r"\(os error (\d+)\)", str(error))
    return _OBSTACLES.get(int(found[1]), "") if found else ""


def is_full(directory: Path) -> bool:
    """Return whether the disk of *directory* has next to no space left."""
    return shutil.disk_usage(directory).free < LEAST_FREE
