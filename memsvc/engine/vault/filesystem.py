"""File access confined to the vault's folder."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from traceback import format_tb
from types import MappingProxyType
from typing import TypeAlias

from memsvc.domain.vault import NoteError
from memsvc.domain.vault_layout import (
    TENANTS,
    USERS,
    conflict_path,
    is_note,
    is_watched_folder,
    path_key,
    readable_misnamed_path,
)
from memsvc.text.vault_notes.parser import FILE_BYTES

SERVICE_FOLDER = ".memsvc"
"""The service's own folder in the vault; its files are not notes."""
VAULT_ID_FILE = "vault.json"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MISNAMED = "Its name, or that of a parent folder, is not UTF-8: rename it, and it is imported."
UNLISTED = "The service cannot list this folder; its files are not imported until the service may read it."
_PERMISSIONS = 0o777
_TEMPORARY = ".memsvc-"
_NOT_OURS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR})
UNWRITABLE = "The service cannot write, move or remove the file"
_FULL = frozenset({errno.ENOSPC, errno.EROFS, errno.EDQUOT})


_DAMAGED = (
    "holds no id of a vault: restore it from a copy, or remove it and restart the service, which then reads the vault "
    "as a new one and deletes no memory"
)
_OVER_ALL: Mapping[str, str | None] = MappingProxyType({})

FileCallback: TypeAlias = Callable[[str, os.stat_result | None], None]
"""Called with a path and stat result right before a file gets that path; with None after the file was removed."""


def _ignore(path: str, state: os.stat_result | None) -> None:
    del path, state


class VaultGoneError(OSError):
    """The folder is missing, or is not the vault that the store knows: its content must not be interpreted."""


def is_full(error: OSError) -> bool:
    """Return whether the disk is full or read-only, so that no other file can be written either."""
    return error.errno in _FULL


def reason_of(error: OSError) -> str:
    """Return the reason of an error in the words of the system."""
    return os.strerror(error.errno) if error.errno else type(error).__name__


def without_message(error: Exception) -> str:
    """Return an error for the log with its place in the code, without its message: that may have the path of a note."""
    reason = f"{type(error).__name__} ({reason_of(error)})" if isinstance(error, OSError) else type(error).__name__
    return f"{reason}\n{''.join(format_tb(error.__traceback__))}".rstrip()


def digest_of(data: bytes) -> str:
    """Return the lower-case hex SHA-256 of a file."""
    return hashlib.sha256(data).hexdigest()


class VaultFilesystem:
    """Reads and writes of files by paths relative to the root, with "/". A symbolic link in a path is an error."""

    def __init__(self, root: Path, note: FileCallback = _ignore) -> None:
        """Use *root*, which `prepare` creates; *note* is called for every note that is written or removed."""
        self.root = root
        self._note = note

    def prepare(self) -> str:
        """Create the folder if it does not exist, and return the id of its vault.

        Raises:
            OSError: The folder cannot be created or written to.
        """
        own = self.root / SERVICE_FOLDER
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (own / VAULT_ID_FILE).exists():
            vault_id = secrets.token_hex(16)
            about = {"vault": vault_id, "about": "Kept by memsvc: leave this file where it is."}
            # A repository ignores everything here except the id file.
            _write_plain(own / ".gitignore", "*\n!.gitignore\n")
            _write_atomically(own / VAULT_ID_FILE, json.dumps(about, indent=2) + "\n")
        return self.vault_id()

    def vault_id(self) -> str:
        """Return the id of the vault.

        Raises:
            VaultGoneError: The folder holds no vault, or its id cannot be read.
        """
        path = self.root / SERVICE_FOLDER / VAULT_ID_FILE
        try:
            return str(json.loads(path.read_bytes())["vault"])
        except OSError as error:
            raise VaultGoneError(errno.ENOENT, "the folder holds no vault") from error
        except (ValueError, KeyError, TypeError) as error:
            raise VaultGoneError(errno.EINVAL, f"{path} {_DAMAGED}") from error

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None when there is no file.

        Raises:
            NoteError: It is not a regular file within the vault, is too large, or cannot be read.
        """
        try:
            with ExitStack() as stack:
                folder = _Folders(self.root, stack).open(_parent(path))
                descriptor = os.open(_name(path), _READ, dir_fd=folder)
                stack.callback(os.close, descriptor)
                return _plain_content(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _NOT_OURS:
                raise NoteError(0, "It is not a regular file of the vault: links are not followed.") from error
            raise NoteError(0, "The file cannot be read by the service.") from error

    def digest(self, path: str) -> str | None:
        """Return the digest of a file of any size; None: there is none; empty: it is no regular file, or unreadable."""
        try:
            with ExitStack() as stack:
                folder = _Folders(self.root, stack).open(_parent(path))
                with _open_in(_name(path), _READ, folder) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
                    is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                    return hashlib.file_digest(file, "sha256").hexdigest() if is_regular else ""
        except FileNotFoundError:
            return None
        except OSError:
            return ""

    def exists(self, path: str) -> bool:
        """Return whether *path* exists, as a file, folder or link."""
        return os.path.lexists(self.root / path)

    def free_conflict_path(self, path: str, mark: str, data: bytes | None = None) -> str:
        """Return the path for the losing version of a conflict at *path*; no other version is at it.

        A file there that already has the content *data* is no other version.
        """
        number = 1
        while True:
            found = conflict_path(path, mark if number == 1 else f"{mark}-{number}")
            if not self.exists(found):
                return found
            with suppress(NoteError):
                if data is not None and self.read(found) == data:
                    return found
            number += 1

    def is_same_file(self, path: str, other: str) -> bool:
        """Return whether two paths are names of one existing file, as on file systems that ignore case."""
        try:
            return os.path.samestat(os.lstat(self.root / path), os.lstat(self.root / other))
        except OSError:
            return False

    def other_spelling(self, path: str) -> str | None:
        """Return a note in the same folder whose name differs only in what `path_key` ignores; None: there is none."""
        folder, key = _parent(path), path_key(_name(path))
        with ExitStack() as stack, suppress(OSError):
            names = [entry.name for entry in os.scandir(_Folders(self.root, stack).open(folder))]
            for name in sorted(names):
                is_equal = (name.lower() if name.isascii() else path_key(name)) == key
                if is_equal and name != _name(path) and is_note(f"{folder}/{name}"):
                    return f"{folder}/{name}"
        return None

    def write_all(self, files: Sequence[tuple[str, bytes]], over: Mapping[str, str | None] = _OVER_ALL) -> list[str]:
        """Write each file atomically, and sync all of them to the disk before returning.

        Existing content must have the digest that *over* gives for its path, None: the path must not exist; otherwise
        the file is not written and its path is returned. So a concurrent save by a person is not overwritten. An
        existing file keeps its permissions and, where the service may set them, its owner and group.

        Raises:
            OSError: A file could not be written; earlier ones may have been.
        """
        kept = []
        with ExitStack() as stack:
            folders = _Folders(self.root, stack)
            written: list[tuple[int, str, str]] = []
            try:
                for path, data in files:
                    folder = folders.open(_parent(path), make=True)
                    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}.tmp"
                    written.append((folder, temporary, _name(path)))
                    _write_new(temporary, data, folder, _state_at(_name(path), folder))
                states = [_sync_file(temporary, folder) for folder, temporary, _ in written]
                for (path, _), state in zip(files, states, strict=True):
                    folder, temporary, name = written[0]
                    if path in over and _digest_at(name, folder) != over[path]:
                        kept.append(path)
                        os.unlink(temporary, dir_fd=folder)
                    else:
                        self._note(path, state)
                        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                        folders.note_change(folder)
                    written.pop(0)
            finally:
                for folder, temporary, _ in written:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=folder)
            folders.sync()
        return kept

    def remove(self, path: str, digest: str = "") -> None:
        """Remove a file if it exists, and the folders that become empty.

        With a *digest*, a file of a different digest is kept.

        Raises:
            OSError: The file cannot be removed.
        """
        with ExitStack() as stack, suppress(FileNotFoundError):
            folders = _Folders(self.root, stack)
            folder = folders.open(_parent(path))
            if digest and _digest_at(_name(path), folder) != digest:
                return
            os.unlink(_name(path), dir_fd=folder)
            folders.note_change(folder)
            self._note(path, None)
            folders.sync()
        self._remove_empty(_parent(path))

    def move(self, path: str, other: str, digest: str) -> bool:
        """Move a file of a *digest* to another path, in one step; return False if another file is at either path.

        The other path may be another spelling of the first that the file system does not distinguish.

        Raises:
            OSError: The file cannot be moved.
        """
        with ExitStack() as stack:
            folders = _Folders(self.root, stack)
            old, new = folders.open(_parent(path)), folders.open(_parent(other), make=True)
            is_free = _digest_at(_name(other), new) is None or self.is_same_file(path, other)
            if _digest_at(_name(path), old) != digest or not is_free:
                return False
            self._note(other, os.stat(_name(path), dir_fd=old, follow_symlinks=False))
            os.rename(_name(path), _name(other), src_dir_fd=old, dst_dir_fd=new)
            folders.note_change(old)
            folders.note_change(new)
            self._note(path, None)
            folders.sync()
        self._remove_empty(_parent(path))
        return True

    def rename(self, path: str, other: str) -> None:
        """Rename a file within its folder.

        Raises:
            OSError: The file cannot be renamed.
        """
        with ExitStack() as stack:
            folders = _Folders(self.root, stack)
            folder = folders.open(_parent(path))
            os.replace(_name(path), _name(other), src_dir_fd=folder, dst_dir_fd=folder)
            folders.note_change(folder)
            self._note(path, None)
            folders.sync()

    def remove_tree(self, path: str) -> None:
        """Remove a folder with its content if it exists; a link is removed, its target is not.

        Raises:
            OSError: A file or folder cannot be removed, or a parent folder is a link.
        """
        with ExitStack() as stack:
            folders, name = _Folders(self.root, stack), _name(path)
            try:
                folder = folders.open(_parent(path))
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            except FileNotFoundError:
                return
            if stat.S_ISDIR(mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
            folders.note_change(folder)
            folders.sync()
        self._remove_empty(_parent(path))

    def notes(self, below: str = "") -> Iterator[str]:
        """Yield the paths of the notes below a folder, sorted within each folder; links are skipped.

        Temporary files left by a crash are removed.
        """
        for path, entry in self._files(below):
            if entry is None:
                continue
            if is_note(path):
                yield path
            elif entry.name.startswith(_TEMPORARY) and entry.name.endswith(".tmp"):
                with suppress(OSError):
                    Path(entry.path).unlink()

    def unusable_paths(self, below: str = "") -> Iterator[tuple[str, str]]:
        """Yield, with advice, folders that cannot be listed, and notes whose paths are not UTF-8 in a readable form."""
        for path, entry in self._files(below):
            if entry is None:
                yield path, UNLISTED
            elif (readable := readable_misnamed_path(path)) is not None:
                yield readable, MISNAMED

    def _files(self, below: str) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
        """Yield the files of users below a folder; with None a folder that cannot be listed."""
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(self.root / folder) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                if not folder:
                    raise
                yield folder, None
                continue
            inner = []
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path, entry
                elif is_watched_folder(entry.name) and (folder or entry.name in {USERS, TENANTS}):
                    inner.append(path)
            waiting += reversed(inner)

    def _remove_empty(self, folder: str) -> None:
        while folder:
            try:
                (self.root / folder).rmdir()
            except OSError:
                return
            folder = _parent(folder)


class _Folders:
    """Descriptors of folders, opened component by component from the root so that no link is followed; each once."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._open = {"": self._open_in(str(root), None)}
        self._changed: set[int] = set()

    def open(self, folder: str, *, make: bool = False) -> int:
        if folder in self._open:
            return self._open[folder]
        outer = self.open(_parent(folder), make=make)
        name = _name(folder)
        if name in {"", ".", ".."}:
            raise OSError(errno.ELOOP, "a path leads out of the vault")
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=outer)
                self._changed.add(outer)
        self._open[folder] = self._open_in(name, outer)
        return self._open[folder]

    def note_change(self, folder: int) -> None:
        """Record that a name in this folder was created, replaced or removed."""
        self._changed.add(folder)

    def sync(self) -> None:
        """Sync all changed folders to the disk."""
        for descriptor in self._changed:
            os.fsync(descriptor)

    def _open_in(self, name: str, outer: int | None) -> int:
        descriptor = os.open(name, _DIRECTORY if outer is not None else os.O_RDONLY | os.O_DIRECTORY, dir_fd=outer)
        self._stack.callback(os.close, descriptor)
        return descriptor


@contextmanager
def _open_in(name: str, flags: int, folder: int | None) -> Iterator[int]:
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _digest_at(name: str, folder: int) -> str | None:
    """Return the digest of the file; None: there is none; empty: it is not a regular file."""
    try:
        with _open_in(name, _READ, folder) as descriptor:
            return digest_of(_plain_content(descriptor))
    except FileNotFoundError:
        return None
    except (OSError, NoteError):
        return ""


def _state_at(name: str, folder: int) -> os.stat_result | None:
    """Return the stat result of a regular file; None: there is none."""
    try:
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return state if stat.S_ISREG(state.st_mode) else None


def _write_new(name: str, data: bytes, folder: int, like: os.stat_result | None) -> None:
    """Write a new file with the permissions of the file that it replaces; with None, for the service alone."""
    with _open_in(name, _NEW, folder) as descriptor:
        if like is not None:
            _keep_access(descriptor, like)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        # Starts the write-back, so that the files of a group reach the disk together and not one by one.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _keep_access(descriptor: int, like: os.stat_result) -> None:
    """Give a file the permissions of another and, where that is allowed, its owner and group."""
    own = os.fstat(descriptor)
    for owner, group in ((-1, like.st_gid), (like.st_uid, -1)):
        if owner not in {-1, own.st_uid} or group not in {-1, own.st_gid}:
            with suppress(OSError):
                os.fchown(descriptor, owner, group)
    with suppress(OSError):
        os.fchmod(descriptor, like.st_mode & _PERMISSIONS)


def _sync_file(name: str, folder: int) -> os.stat_result:
    with _open_in(name, _READ, folder) as descriptor:
        os.fsync(descriptor)
        return os.fstat(descriptor)


def _plain_content(descriptor: int) -> bytes:
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        raise NoteError(0, "It is not a regular file of the vault: links are not followed.")
    if state.st_size > FILE_BYTES:
        raise NoteError(0, f"The file has more than {FILE_BYTES:,} bytes.")
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _write_plain(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    _write_plain(temporary, text)
    temporary.replace(path)
    with _open_in(str(path.parent), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, None) as folder:
        os.fsync(folder)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
