"""Blobs in memory."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendClosedError
from memsvc.ports.blobs import Blob, BlobNotFoundError, BlobReader, BlobStore, StagedBlob
from memsvc.ports.faults import NO_DEADLINE
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec

NAME = "in-memory blobs"
_DIGITS = 64
_HEX = frozenset("0123456789abcdef")


class InMemoryBlobStore:
    """`memsvc.ports.blobs.BlobStore`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Start empty."""
        self._now = now
        self._lock = threading.Lock()
        self._blobs: dict[str, tuple[bytes, datetime]] | None = {}

    @contextmanager
    def stage(self) -> Iterator[StagedBlob]:
        """Collect bytes."""
        self._current()
        yield _StagedBytes(self._keep)

    @contextmanager
    def open(self, sha256: str) -> Iterator[BlobReader]:
        """Open a blob."""
        found = self._current().get(_require_hash(sha256))
        if found is None:
            raise BlobNotFoundError(sha256)
        yield _BytesReader(found[0])

    def find(self, sha256: str) -> Blob | None:
        """Return the metadata of a blob."""
        found = self._current().get(_require_hash(sha256))
        return None if found is None else Blob(sha256, len(found[0]), found[1])

    def blobs(self) -> Iterator[Blob]:
        """Yield every blob."""
        for name, (content, put_time) in sorted(self._current().items()):
            yield Blob(name, len(content), put_time)

    def delete(self, sha256: str) -> bool:
        """Remove a blob."""
        with self._lock:
            return self._current().pop(_require_hash(sha256), None) is not None

    def local_path(self, sha256: str) -> Path | None:
        """Return nothing: there are no files."""
        _require_hash(sha256)
        return None

    def ping(self) -> None:
        """Return if the store is open."""
        self._current()

    def close(self) -> None:
        """Drop all blobs."""
        self._blobs = None

    def _keep(self, sha256: str, content: bytes) -> None:
        with self._lock:
            self._current()[sha256] = (content, self._now())

    def _current(self) -> dict[str, tuple[bytes, datetime]]:
        if self._blobs is None:
            raise BackendClosedError(NAME)
        return self._blobs


class _StagedBytes:
    def __init__(self, keep: Callable[[str, bytes], None]) -> None:
        self._keep = keep
        self._content = bytearray()

    @property
    def size_bytes(self) -> int:
        return len(self._content)

    def write(self, parts: Sequence[bytes]) -> None:
        for part in parts:
            self._content += part

    def sha256(self) -> str:
        return hashlib.sha256(self._content).hexdigest()

    def commit(self, deadline: Deadline = NO_DEADLINE) -> None:
        del deadline
        self._keep(self.sha256(), bytes(self._content))


class _BytesReader:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, offset: int, length: int) -> bytes:
        return self._content[offset : offset + length]


def _require_hash(sha256: str) -> str:
    if len(sha256) != _DIGITS or not _HEX.issuperset(sha256):
        message = f"{sha256!r} is no hash."
        raise ValueError(message)
    return sha256


@contextmanager
def open_blobs(settings: BackendSettings, context: BackendContext) -> Iterator[BlobStore]:  # noqa: ARG001
    """Open an empty store."""
    store = InMemoryBlobStore(context.now)
    try:
        yield store
    finally:
        store.close()


BLOBS: BackendSpec[BlobStore] = BackendSpec(settings=BackendSettings, open=open_blobs)
"""The entry point `in-memory` of blob stores."""
