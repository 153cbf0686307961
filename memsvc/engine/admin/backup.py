"""Online backups of the store, and checks of backups for a restore, which rebuilds the indexes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from memsvc.data_directory import sync
from memsvc.domain.errors import BackendUnavailableError, BackupExistsError, BackupRunningError
from memsvc.ports.blobs import BlobStore
from memsvc.ports.metadata import MetadataStore

FORMAT = "memsvc-backup"
VERSION = 1
MANIFEST = "manifest.json"
STORE = "metadata"
"""The folder of the store, in a backup as in a data directory."""
BLOBS = "blobs"
"""The folder of the blobs, when they are local files."""
CONTENT = "content"
"""The folder in it where `memsvc_backends.fsspec_blobs` stores them."""
UNFINISHED = ".unfinished"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
BLOCK = 1 << 20


class BackupPhase(StrEnum):
    """The phase of a backup."""

    COPYING = "COPYING"
    VERIFYING = "VERIFYING"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """Progress of a backup: in the unit of the store while COPYING, then in bytes.

    Attributes:
        counts: The contents of the backup by kind; empty until DONE.
        digest: The SHA-256 digest of the manifest, which holds those of the files; empty until DONE.
    """

    phase: BackupPhase
    name: str
    done: int
    total: int
    bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The properties of the service in a manifest."""

    version: str
    backend: str
    model: str


@dataclass(frozen=True, slots=True)
class BlobSource:
    """The blobs that a backup includes.

    Attributes:
        blobs: The bytes of files.
        defer_removals: Defers removals of blobs while its context is open, except by erasures.
    """

    blobs: BlobStore
    defer_removals: Callable[[], AbstractContextManager[None]]


class BackupService:
    """Backups in one folder, created one at a time."""

    def __init__(
        self,
        store: MetadataStore,
        blob_source: BlobSource,
        directory: Path,
        about: BackupManifest,
        now: Callable[[], datetime],
    ) -> None:
        """Copy *store* and the blobs of *blob_source* into folders of *directory*, which is created on demand."""
        self._store = store
        self._blob_source = blob_source
        self._directory = directory
        self._about = about
        self._now = now
        self._running = threading.Lock()

    @property
    def directory(self) -> Path:
        """Return the folder of the backups."""
        return self._directory

    def names(self) -> list[str]:
        """Return the names of the finished backups."""
        return sorted(path.parent.name for path in self._directory.glob(f"*/{MANIFEST}"))

    def create(self, name: str) -> Generator[BackupProgress, None, None]:
        """Create a backup and yield its progress; the default *name* is the time. The last step is DONE.

        When the iteration ends early, the backup is discarded.

        Raises:
            BackupRunningError: Another backup is running.
            BackupExistsError: A backup with this name exists.
            CapabilityMissingError: The store does not support backups.
            BackendUnavailableError: The store cannot be read, or the folder cannot be written to.
        """
        if not self._running.acquire(blocking=False):
            raise BackupRunningError
        try:
            yield from self._create(name or f"backup-{self._now().astimezone(UTC):%Y%m%dT%H%M%S}Z")
        except OSError as error:
            raise BackendUnavailableError(
                "backup", problem=f"cannot write its folder ({error.strerror}): see the setting backup.directory"
            ) from error
        finally:
            self._running.release()

    def _create(self, name: str) -> Iterator[BackupProgress]:
        final = self._directory / name
        if final.exists():
            raise BackupExistsError(name)
        with _unfinished_folder(self._directory, name) as folder:
            (folder / STORE).mkdir()
            counts: Mapping[str, int] = {}
            # Blobs that the copy of the store refers to are not removed until they are copied.
            with self._blob_source.defer_removals():
                for step in self._store.copies.copy(folder / STORE):
                    counts = step.counts
                    yield BackupProgress(BackupPhase.COPYING, name, step.done, step.total)
                yield from self._copy_blobs(folder / BLOBS / CONTENT, name)
            yield from self._seal(folder, name, counts)
            folder.replace(final)
            sync(self._directory)
        manifest = (final / MANIFEST).read_bytes()
        size = sum(file["bytes"] for file in json.loads(manifest)["files"])
        digest = hashlib.sha256(manifest).hexdigest()
        yield BackupProgress(BackupPhase.DONE, name, size, size, size, counts, digest)

    def _copy_blobs(self, folder: Path, name: str) -> Iterator[BackupProgress]:
        """Copy the blobs that are local files; remote ones are not copied."""
        done = 0
        for blob in self._blob_source.blobs.blobs():
            path = self._blob_source.blobs.local_path(blob.sha256)
            if path is None:
                continue
            target = folder / blob.sha256[:2] / blob.sha256
            target.parent.mkdir(parents=True, exist_ok=True)
            if copy_immutable(path, target):
                done += 1
                yield BackupProgress(BackupPhase.COPYING, name, done, 0)

    def _seal(self, folder: Path, name: str, counts: Mapping[str, int]) -> Iterator[BackupProgress]:
        """Compute the digests of the files, and write the manifest."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        total, done, files = sum(path.stat().st_size for path in paths), 0, []
        yield BackupProgress(BackupPhase.VERIFYING, name, 0, total)
        for path in paths:
            path.chmod(0o600)
            size = path.stat().st_size
            files.append({"path": path.relative_to(folder).as_posix(), "bytes": size, "sha256": digest_of(path)})
            done += size
            yield BackupProgress(BackupPhase.VERIFYING, name, done, total)
        content = {
            "format": FORMAT,
            "version": VERSION,
            "name": name,
            "create_time": self._now().isoformat(),
            "service": self._about.version,
            "backend": self._about.backend,
            "embedding_model": self._about.model,
            "indexes": "rebuilt when the service starts from the backup",
            "counts": dict(counts),
            "files": files,
        }
        write_synced(folder / MANIFEST, json.dumps(content, indent=2))


@contextmanager
def _unfinished_folder(directory: Path, name: str) -> Iterator[Path]:
    """Provide a folder for an unfinished backup; remnants of crashed ones are removed."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in directory.glob(f"*{UNFINISHED}"):
        shutil.rmtree(path, ignore_errors=True)
    folder = directory / f"{name}{UNFINISHED}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_immutable(source: Path, target: Path) -> bool:
    """Copy an immutable file, and return whether it still existed.

    In the same file system the copy is a hard link and takes no space.
    """
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        return False
    except OSError:
        shutil.copyfile(source, target)
        with target.open("rb") as file:
            os.fsync(file.fileno())
    return True


def digest_of(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def write_synced(path: Path, text: str) -> None:
    """Write a file and sync it to the disk."""
    with path.open("w", encoding="utf-8") as file:
        path.chmod(0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


class BackupError(Exception):
    """A backup cannot be restored; the message says why."""


def read_backup(backup: Path) -> dict[str, Any]:
    """Return the manifest of a backup after checking that its files are complete and unchanged.

    Raises:
        BackupError: The folder is not a backup, or the backup has another version, is incomplete or damaged.
    """
    manifest, files = _read_manifest(backup)
    version = manifest["version"]
    if version != VERSION:
        message = f"The backup is of version {version}; this memsvc restores version {VERSION}."
        raise BackupError(message)
    for name, size, digest in files:
        _require_whole(backup, name, size, digest)
    return manifest


def _read_manifest(backup: Path) -> tuple[dict[str, Any], list[tuple[str, int, str]]]:
    name = str(backup)
    try:
        manifest: dict[str, Any] = json.loads((backup / MANIFEST).read_text(encoding="utf-8"))
        files = [(str(file["path"]), int(file["bytes"]), str(file["sha256"])) for file in manifest["files"]]
        is_ours = manifest["format"] == FORMAT and isinstance(manifest["version"], int)
    except (FileNotFoundError, NotADirectoryError):
        message = (
            f"{name!r} is not a backup, or one that was not finished: it has no {MANIFEST}. Give its folder, such as "
            "DATA_DIR/backups/NAME."
        )
        raise BackupError(message) from None
    except (ValueError, KeyError, TypeError) as error:
        message = f"The {MANIFEST} of {name!r} cannot be read."
        raise BackupError(message) from error
    if not is_ours:
        message = f"{name!r} is not a backup of memsvc."
        raise BackupError(message)
    return manifest, files


def _require_whole(backup: Path, name: str, size: int, digest: str) -> None:
    path = (backup / name).resolve()
    if not path.is_relative_to(backup.resolve()):
        message = f"The {MANIFEST} names a file outside of the backup: {name!r}."
        raise BackupError(message)
    if not path.is_file() or path.stat().st_size != size or digest_of(path) != digest:
        message = f"The file {name!r} of the backup is missing or damaged."
        raise BackupError(message)
