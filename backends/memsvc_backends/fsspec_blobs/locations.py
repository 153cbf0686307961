"""Locations of blobs: the differences between a folder of this machine and a remote file system."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from memsvc.data_directory import sync
from memsvc.domain.errors import BackendUnavailableError, LimitExceededError
from memsvc.ports.blobs import Blob, BlobReader

NAME_DIGITS = 64
_HEX = frozenset("0123456789abcdef")
_BLOCK_BYTES = 4 * 1024 * 1024
"""How much is read ahead from elsewhere."""
BACKEND = "blobs"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REMOTE = (("botocore.exceptions", "BotoCoreError"), ("botocore.exceptions", "ClientError"), ("aiohttp", "ClientError"))
"""Errors of the libraries below s3fs that it does not translate to OSError."""
_FULL_RETRY_SECONDS = 60.0


class Location(Protocol):
    """Storage of blobs by name; a missing blob raises FileNotFoundError."""

    def take(self, source: Path, name: str) -> None:
        """Keep the bytes of *source*, a closed file in the staging folder, which may be moved."""
        ...

    @contextmanager
    def open(self, name: str) -> Iterator[BlobReader]:
        """Open a blob."""
        ...

    def find(self, name: str) -> Blob:
        """Return the metadata of a blob."""
        ...

    def blobs(self) -> Iterator[Blob]:
        """Yield every blob."""
        ...

    def delete(self, name: str) -> None:
        """Remove a blob."""
        ...

    def path(self, name: str) -> Path | None:
        """Return the file of this machine that a blob is."""
        ...

    def ping(self) -> None:
        """Return, or raise what is wrong."""
        ...


class LocalFolder:
    """A folder of this machine. Staged files are renamed into it, so they must be in the same file system."""

    def __init__(self, root: Path) -> None:
        """Keep blobs in *root*, which is there."""
        self._root = root

    def take(self, source: Path, name: str) -> None:
        """Move a file in, on the disk before it is seen, and its name too when this returns."""
        target = self._path(name)
        sync(source)
        is_new = not target.parent.is_dir()
        target.parent.mkdir(exist_ok=True)
        source.replace(target)
        sync(target.parent)
        if is_new:
            sync(self._root)

    @contextmanager
    def open(self, name: str) -> Iterator[_DescriptorReader]:
        """Open a file."""
        descriptor = os.open(self._path(name), os.O_RDONLY)
        try:
            yield _DescriptorReader(descriptor)
        finally:
            os.close(descriptor)

    def find(self, name: str) -> Blob:
        """Return what is known of a file."""
        found = self._path(name).stat()
        return Blob(name, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))

    def blobs(self) -> Iterator[Blob]:
        """Yield the files that are named as blobs are."""
        for folder in sorted(self._root.iterdir()):
            for path in folder.iterdir() if folder.is_dir() else ():
                if is_name(path.name) and path.name.startswith(folder.name):
                    try:
                        yield self.find(path.name)
                    except FileNotFoundError:
                        continue

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._path(name).unlink()

    def path(self, name: str) -> Path | None:
        """Return the file."""
        return self._path(name)

    def ping(self) -> None:
        """Look whether files can be made in the folder."""
        if not os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(str(self._root))

    def _path(self, name: str) -> Path:
        return self._root / name[:2] / name


class RemoteStore:
    """A remote file system of fsspec."""

    def __init__(self, system: Any, root: str) -> None:
        """Keep blobs of *system*, an fsspec file system, below the path *root*."""
        self._system = system
        self._root = root.rstrip("/")

    def take(self, source: Path, name: str) -> None:
        """Send a file. Existing content of the name has the same bytes, and object stores replace it as a whole."""
        self._system.put_file(str(source), self._path(name))

    @contextmanager
    def open(self, name: str) -> Iterator[_RemoteReader]:
        """Open an object."""
        with self._system.open(self._path(name), "rb", block_size=_BLOCK_BYTES) as file:
            yield _RemoteReader(file)

    def find(self, name: str) -> Blob:
        """Return what is known of an object."""
        return self._blob(name, self._system.info(self._path(name)))

    def blobs(self) -> Iterator[Blob]:
        """Yield the objects that are named as blobs are, folder by folder."""
        for _, _, found in self._system.walk(self._root, detail=True):
            for name, about in found.items():
                if is_name(name):
                    yield self._blob(name, about)

    def delete(self, name: str) -> None:
        """Remove an object; object stores do not tell whether it was there, so look first."""
        self._system.info(self._path(name))
        self._system.rm_file(self._path(name))

    def path(self, name: str) -> Path | None:
        """Return nothing: it is no file of this machine."""
        del name
        return None

    def ping(self) -> None:
        """Ask whether the bucket is there, and may be read."""
        if hasattr(self._system, "call_s3"):
            self._system.call_s3("head_bucket", Bucket=self._root.partition("/")[0])
        else:
            self._system.exists(self._root)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name[:2]}/{name}"

    def _blob(self, name: str, about: Any) -> Blob:
        put_time = about.get("LastModified") or about.get("mtime") or about.get("created")
        if not isinstance(put_time, datetime):
            put_time = datetime.fromtimestamp(put_time, UTC) if put_time else datetime.now(UTC)
        return Blob(name, int(about["size"]), put_time.astimezone(UTC))


class _DescriptorReader:
    """An open file of this machine."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, offset: int, length: int) -> bytes:
        """Read without a place that is kept, so that there is nothing to seek."""
        return os.pread(self._descriptor, length, offset)


class _RemoteReader:
    """An open file of fsspec."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, offset: int, length: int) -> bytes:
        """Read; going on where the read before ended costs no seek."""
        if self._file.tell() != offset:
            self._file.seek(offset)
        data: bytes = self._file.read(length)
        return data


def is_name(name: str) -> bool:
    """Return whether *name* is the hash of something, as all names of blobs are."""
    return len(name) == NAME_DIGITS and _HEX.issuperset(name)


def staging_file(folder: Path) -> tuple[int, Path]:
    """Make a file that only this process's user may read; return it, open, and where it is."""
    descriptor, path = tempfile.mkstemp(prefix="part-", dir=folder)
    return descriptor, Path(path)


# What goes wrong in file systems, in the port's words.


@contextmanager
def translate() -> Iterator[None]:
    """Raise the port's errors instead of those of file systems.

    Raises:
        LimitExceededError: There is no room.
        BackendUnavailableError: Anything else; a file that is not there, too, unless the caller looks for that.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise LimitExceededError("the room for files", retry_seconds=_FULL_RETRY_SECONDS) from error
        raise BackendUnavailableError(BACKEND) from error
    except Exception as error:
        if isinstance(error, _remote_errors()):
            raise BackendUnavailableError(BACKEND) from error
        raise


@cache
def _remote_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of those libraries that are there."""
    found: list[type[BaseException]] = []
    for module, name in _REMOTE:
        try:
            found.append(getattr(import_module(module), name))
        except ImportError:
            continue
    return tuple(found)
