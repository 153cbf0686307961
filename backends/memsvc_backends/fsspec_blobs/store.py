"""The blob store: staged uploads and stored blobs."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from pydantic import Field, SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.blobs import Blob, BlobNotFoundError, BlobReader, BlobStore, StagedBlob
from memsvc.ports.faults import NO_DEADLINE, BoundedCalls, FaultLog
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.fsspec_blobs.locations import (
    BACKEND,
    LocalFolder,
    Location,
    RemoteStore,
    is_name,
    staging_file,
    translate,
)

CONTENT = "content"
"""The folder of blobs, within the backend's own."""
STAGING = "staging"
"""The folder of uploads; next to the blobs, so that an upload can be renamed to a blob."""
_FLUSH_BYTES = 8 * 1024 * 1024
_MOST_PARTS = 512
"""Fewer than what one call of the system takes."""
_THREADS = 16
"""Operations at a time."""
_LISTED = 256
"""Blobs that one operation lists."""
_PING_SECONDS = 2.0
_COMMIT_BYTES = 1_000_000
"""Bytes for which the last operation of an upload gets another second."""
T = TypeVar("T")


class _Run(Protocol):
    """Runs an operation within its time, and so many seconds more."""

    def __call__(self, call: Callable[[], T], more_seconds: float = 0.0) -> T: ...


_RunCommit: TypeAlias = Callable[[Callable[[], None], float, Deadline], None]
"""Runs the last operation of an upload, for so many seconds longer than usual, until a deadline at most."""

# The options of the blob store.


class FsspecSettings(BackendSettings):
    """Settings of the location of blobs."""

    url: str = ""
    """Empty: a folder in the data directory. Else a URL that fsspec knows, such as file:///srv/blobs or
    s3://bucket/prefix, which needs memsvc[s3]. It must belong to this metadata store alone: what no file of it uses is
    swept away."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What fsspec's file system of that sort is made with, such as endpoint_url for an S3-compatible server."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict)
    """Likewise, but never shown: `key` and `secret` for S3. Without them AWS's own variables and files count."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=86_400)
    """How long one operation may take before the store counts as unavailable; the last one of an upload may take a
    second longer for each MB."""


class FsspecBlobStore:
    """`memsvc.ports.blobs.BlobStore`."""

    def __init__(
        self, place: Location, staging: Path, timeout_seconds: float = 10.0, faults: FaultLog | None = None
    ) -> None:
        """Keep blobs at *place*; what is not one yet is in the folder *staging*.

        An operation that takes longer than *timeout_seconds* fails and opens a circuit breaker, known to *faults*: a
        file system of a network, or a bucket, may hang.
        """
        self._place = place
        self._staging = staging
        self._is_closed = False
        self._has_answered = False
        self._timeout_seconds = timeout_seconds
        faults = faults or FaultLog()
        self._calls = BoundedCalls(BACKEND, faults, threads=_THREADS, seconds=timeout_seconds)
        # Apart: a disk may answer reads and hang when it is flushed, and the reads would close the breaker each time.
        self._commits = BoundedCalls(BACKEND, faults, threads=_THREADS, seconds=timeout_seconds, kind="commits")

    @contextmanager
    def stage(self) -> Iterator[StagedBlob]:
        """Write into a file of its own."""
        self._refuse_when_closed()
        staged = _StagedFile(self._place, self._staging, self._run, self._run_commit)
        try:
            staged.open()
            yield staged
        finally:
            staged.close()

    @contextmanager
    def open(self, sha256: str) -> Iterator[BlobReader]:
        """Open a blob."""
        self._refuse_when_closed()
        opening = self._place.open(_require_hash(sha256))
        try:
            reader = self._run(opening.__enter__)
        except FileNotFoundError:
            raise BlobNotFoundError(sha256) from None
        try:
            yield _FileReader(reader, self._run)
        finally:
            opening.__exit__(None, None, None)

    def find(self, sha256: str) -> Blob | None:
        """Return the metadata of a blob."""
        self._refuse_when_closed()
        try:
            return self._run(partial(self._place.find, _require_hash(sha256)))
        except FileNotFoundError:
            return None

    def blobs(self) -> Iterator[Blob]:
        """Yield every blob."""
        self._refuse_when_closed()
        with suppress(FileNotFoundError):
            found = self._place.blobs()
            while part := self._run(lambda: list(islice(found, _LISTED))):
                yield from part

    def delete(self, sha256: str) -> bool:
        """Remove a blob."""
        self._refuse_when_closed()
        try:
            self._run(partial(self._place.delete, _require_hash(sha256)))
        except FileNotFoundError:
            return False
        return True

    def local_path(self, sha256: str) -> Path | None:
        """Return the file that a blob is."""
        path = self._place.path(_require_hash(sha256))
        return path if path is not None and self._run(path.is_file) else None

    def ping(self) -> None:
        """Return when blobs can be put."""
        self._refuse_when_closed()
        # The first call also makes the client of the file system: it has the time of any operation.
        less_seconds = max(self._timeout_seconds - _PING_SECONDS, 0.0) if self._has_answered else 0.0
        try:
            self._run(self._place.ping, -less_seconds)
        except FileNotFoundError as error:
            raise BackendUnavailableError(BACKEND) from error
        self._has_answered = True

    def close(self) -> None:
        """Refuse every call from now on."""
        self._is_closed = True
        self._calls.close()
        self._commits.close()

    def _run(self, call: Callable[[], T], more_seconds: float = 0.0) -> T:
        """Run an operation within its time, with errors in the port's words."""
        return self._calls.run(partial(_translated, call), seconds=self._timeout_seconds + more_seconds)

    def _run_commit(self, call: Callable[[], None], more_seconds: float, deadline: Deadline) -> None:
        """Run the last operation of an upload likewise, and until shortly before *deadline* at most."""
        seconds = self._timeout_seconds + more_seconds
        self._commits.run(partial(_translated, call), seconds=seconds, deadline=deadline)

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise BackendClosedError(BACKEND)


def _translated(call: Callable[[], T]) -> T:
    with translate():
        return call()


class _StagedFile:
    """`memsvc.ports.blobs.StagedBlob`: a file in the staging folder."""

    def __init__(self, place: Location, folder: Path, run: _Run, run_commit: _RunCommit) -> None:
        self._place = place
        self._folder = folder
        self._run, self._run_commit = run, run_commit
        self._lock = threading.Lock()
        self._is_in_use = self._is_closed = False
        self._descriptor = -1
        self._path = folder
        self._hash = hashlib.sha256()
        self._size = 0
        self._flushed = 0

    def open(self) -> None:
        """Create the file."""

        def create() -> None:
            self._descriptor, self._path = staging_file(self._folder)

        self._bounded(create, self._run)

    def close(self) -> None:
        """Close and remove the file; while an operation that hangs uses it, at the end of that."""
        with self._lock:
            self._is_closed = True
            if not self._is_in_use:
                self._remove()

    @property
    def size_bytes(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def write(self, parts: Sequence[bytes]) -> None:
        """Write parts as they are, without joining them."""
        for first in range(0, len(parts), _MOST_PARTS):
            self._write(parts[first : first + _MOST_PARTS])

    def sha256(self) -> str:
        """Return the hash so far."""
        return self._hash.hexdigest()

    def commit(self, deadline: Deadline = NO_DEADLINE) -> None:
        """Hand the file over."""
        try:
            take = partial(self._place.take, self._path, self.sha256())
            self._bounded(take, lambda call: self._run_commit(call, self._size / _COMMIT_BYTES, deadline))
        except FileNotFoundError as error:
            # The bucket is not there, or the folder any more.
            raise BackendUnavailableError(BACKEND) from error

    def _write(self, parts: Sequence[bytes]) -> None:
        wanted = sum(map(len, parts))

        def put() -> None:
            written = os.writev(self._descriptor, parts)
            if written < wanted:
                # A disk that is nearly full, or a very long write: the rest, part by part.
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]

        self._bounded(put, self._run)
        for part in parts:
            self._hash.update(part)
        self._size += wanted
        if self._size - self._flushed >= _FLUSH_BYTES:
            self._begin_to_flush()

    def _bounded(self, call: Callable[[], None], run: Callable[[Callable[[], None]], None]) -> None:
        """Run an operation that uses the file; one that hangs goes on to use it."""

        def marked() -> None:
            with self._lock:
                if self._is_closed:
                    raise BackendClosedError(BACKEND)
                self._is_in_use = True
            try:
                call()
            finally:
                with self._lock:
                    self._is_in_use = False
                    if self._is_closed:
                        self._remove()

        run(marked)

    def _remove(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)

    def _begin_to_flush(self) -> None:
        """Have the system begin to write to the disk what it has, without waiting: so that `put` need not wait long."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, self._flushed, self._size - self._flushed, os.POSIX_FADV_DONTNEED)
        self._flushed = self._size


class _FileReader:
    """`memsvc.ports.blobs.BlobReader`."""

    def __init__(self, reader: BlobReader, run: _Run) -> None:
        self._reader = reader
        self._run = run

    def read(self, offset: int, length: int) -> bytes:
        """Read, in the port's words."""
        try:
            data: bytes = self._run(partial(self._reader.read, offset, length), 0.0)
        except FileNotFoundError as error:
            raise BackendUnavailableError(BACKEND) from error
        return data


def _require_hash(sha256: str) -> str:
    """Return the name of a blob: a path is made of it, so that it must be a hash and nothing else."""
    if not is_name(sha256):
        message = f"{sha256!r} is no hash."
        raise ValueError(message)
    return sha256


@contextmanager
def open_blobs(settings: FsspecSettings, context: BackendContext) -> Iterator[BlobStore]:
    """Open the store; create its folder, and remove incomplete uploads of an earlier process.

    Raises:
        BackendUnavailableError: The folder cannot be made, or the file system's library is not installed.
    """
    try:
        system, root = _system(settings) if settings.url else (None, str(context.directory / CONTENT))
        is_local = system is None or "file" in system.protocol
        staging = (Path(root).parent if is_local else context.directory) / _staging_name(settings, context)
        for folder in (staging, *([Path(root)] if is_local else [])):
            folder.mkdir(parents=True, exist_ok=True)
        _clear(staging)
    except (OSError, ImportError, ValueError) as error:
        raise BackendUnavailableError(BACKEND) from error
    place = LocalFolder(Path(root)) if is_local else RemoteStore(system, root)
    store = FsspecBlobStore(place, staging, settings.timeout_seconds, context.faults)
    try:
        yield store
    finally:
        store.close()
        if system is not None and (session := getattr(system, "_s3", None)) is not None:
            system.close_session(system.loop, session)


def _system(settings: FsspecSettings) -> tuple[Any, str]:
    """Return the file system of the URL and the path in it."""
    # It takes a tenth of a second to import, and the folder of the data directory does without it.
    import fsspec  # noqa: PLC0415

    secrets = {name: secret.get_secret_value() for name, secret in settings.secrets.items()}
    options = {**settings.options, **secrets}
    # An instance of its own, whose lists are never from memory: other processes write there too.
    system, root = fsspec.core.url_to_fs(settings.url, skip_instance_cache=True, use_listings_cache=False, **options)
    return system, root


def _staging_name(settings: FsspecSettings, context: BackendContext) -> str:
    """Return the name of a folder for this service alone, next to one that other services may use."""
    if not settings.url:
        return STAGING
    return f"{STAGING}-{hashlib.sha256(str(context.directory.absolute()).encode()).hexdigest()[:12]}"


def _clear(staging: Path) -> None:
    for path in staging.iterdir():
        path.unlink()


BLOBS: BackendSpec[BlobStore] = BackendSpec(settings=FsspecSettings, open=open_blobs)
"""The entry point `fsspec`."""
