"""The port to the bytes of files: blobs, each kept once, under the hash of its content.

A blob knows nothing of users. Which of them may read it, and whether anybody still needs it, the metadata store says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from memsvc.domain.clock import Deadline
from memsvc.ports.faults import NO_DEADLINE


class BlobNotFoundError(Exception):
    """There is no such blob."""


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob.

    Attributes:
        sha256: Lower-case hexadecimal digits of the content's hash: its name.
        put_time: When it was put last.
    """

    sha256: str
    size_bytes: int
    put_time: datetime


class StagedBlob(Protocol):
    """An upload: invisible before `commit`, and discarded without it. For one thread at a time."""

    def write(self, parts: Sequence[bytes]) -> None:
        """Add bytes at the end.

        Raises:
            BackendUnavailableError: They cannot be kept, since the disk is full for example.
        """
        ...

    @property
    def size_bytes(self) -> int:
        """Return how many bytes were written."""
        ...

    def sha256(self) -> str:
        """Return the hash of what was written."""
        ...

    def commit(self, deadline: Deadline = NO_DEADLINE) -> None:
        """Make a blob of what was written, all of it or nothing, safe on the disk; the same blob may be there already.

        Raises:
            DeadlineExceededError: It was not safe shortly before *deadline*; it may become a blob all the same.
            BackendUnavailableError: The store cannot be reached; the bytes are still here, and `put` can be repeated.
        """
        ...


class BlobReader(Protocol):
    """An open blob. For one thread at a time."""

    def read(self, offset: int, length: int) -> bytes:
        """Return the *length* bytes from *offset* on, or as many as there are.

        Raises:
            BackendUnavailableError: The store cannot be reached, or the blob is gone.
        """
        ...


class BlobStore(Protocol):
    """The store of blobs. Safe to call from several threads."""

    def stage(self) -> AbstractContextManager[StagedBlob]:
        """Begin to take bytes in; leaving the context removes what was not put.

        What a process that died had staged is removed when the store is opened again.
        """
        ...

    def open(self, sha256: str) -> AbstractContextManager[BlobReader]:
        """Open a blob; it can be read to its end even if it is deleted concurrently, if the store's kind allows.

        Raises:
            BlobNotFoundError: There is no such blob.
            BackendUnavailableError: The store cannot be reached.
        """
        ...

    def find(self, sha256: str) -> Blob | None:
        """Return what is known of a blob, None when it is not there."""
        ...

    def blobs(self) -> Iterator[Blob]:
        """Yield every blob, in any order; those added or deleted concurrently may be missing or not."""
        ...

    def delete(self, sha256: str) -> bool:
        """Remove a blob; return whether it was there."""
        ...

    def local_path(self, sha256: str) -> Path | None:
        """Return the file that holds a blob, when it is a file of this machine that no write ever changes."""
        ...

    def ping(self) -> None:
        """Return when the store answers, or raise BackendUnavailableError."""
        ...
