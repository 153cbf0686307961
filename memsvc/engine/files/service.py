"""Reads, reference resolution and deletion of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from memsvc.domain.clock import EPOCH
from memsvc.domain.errors import FileContentMissingError, InvalidRequestError, StoredFileNotFoundError, Violation
from memsvc.domain.files import File, FileFilter, UrlTemplates, fault_of_ref, url_of
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, request_digest
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.files.upload import answered_file_as_json, file_from_json
from memsvc.engine.sessions.serialization import run_once
from memsvc.ports.blobs import BlobNotFoundError, BlobReader, BlobStore
from memsvc.ports.features import FileReads
from memsvc.ports.metadata import Transaction

METHOD = "DeleteFile"
BEFORE_EXPIRY = EPOCH
"""A moment at which no file is expired: a read at it returns the expired files, too."""


class OpenFile:
    """An open file, or a range of it. Not thread-safe."""

    def __init__(self, file: File, reader: BlobReader, offset: int, end: int) -> None:
        """Read the bytes from *offset* to *end* of *file*."""
        self.file = file
        self._reader = reader
        self._at = offset
        self._end = end

    def read(self, length: int) -> bytes:
        """Return at most *length* next bytes; none at the end.

        Raises:
            FileContentMissingError: The blob is shorter than the file.
            BackendUnavailableError: The bytes cannot be reached.
        """
        wanted = min(length, self._end - self._at)
        if not wanted:
            return b""
        data = self._reader.read(self._at, wanted)
        if not data:
            raise FileContentMissingError(self.file.id)
        self._at += len(data)
        return data


class FileReader:
    """A reader of the files of a scope: those of its project and the global ones."""

    def __init__(self, files: FileReads, blobs: BlobStore, now: Callable[[], datetime]) -> None:
        """Read from *files* and *blobs*; *now* is the clock."""
        self._files = files
        self._blobs = blobs
        self._now = now

    def get(self, scope: Scope, file_id: str) -> File:
        """Return one file.

        Raises:
            StoredFileNotFoundError: It is not in the scope, or it has expired.
        """
        return self.get_in(Reach.from_scope(scope), file_id)

    def get_in(self, reach: Reach, file_id: str) -> File:
        """Return one file within *reach*; raises as `get` does."""
        found = self._files.get([file_id], reach=reach, now=BEFORE_EXPIRY).get(file_id)
        return _require(file_id, found, self._now())

    def get_many(self, scope: Scope, ids: Sequence[str]) -> dict[str, File]:
        """Return the existing files, by id."""
        return self._files.get(ids, reach=Reach.from_scope(scope), now=self._now())

    def page(
        self, scope: Scope, where: FileFilter, *, visibility: Visibility, before: int | None, limit: int
    ) -> tuple[list[File], int | None]:
        """Return at most *limit* files, newest first, and the start of the next page, None when there is none."""
        reach = Reach.from_scope(scope, visibility)
        found = self._files.page(reach=reach, where=where, now=self._now(), before=before, limit=limit + 1)
        more = len(found) > limit
        return found[:limit], found[limit - 1].row if more else None

    @contextmanager
    def open(self, scope: Scope, file_id: str, *, offset: int = 0, length: int = 0) -> Iterator[OpenFile]:
        """Open a file at *offset* for *length* bytes, with 0 to its end; a shorter file ends earlier.

        Raises:
            StoredFileNotFoundError: It is not in the scope.
            FileContentMissingError: Only the metadata of the file is stored.
            InvalidRequestError: The file is shorter than *offset*.
            BackendUnavailableError: The bytes cannot be reached.
        """
        file = self.get(scope, file_id)
        if offset > file.size_bytes:
            raise InvalidRequestError([Violation("offset", f"must be at most {file.size_bytes}, the size of the file")])
        if not file.has_content:
            raise FileContentMissingError(file_id)
        end = min(file.size_bytes, offset + length) if length else file.size_bytes
        try:
            opening = self._blobs.open(file.sha256)
            reader = opening.__enter__()
        except BlobNotFoundError as error:
            raise FileContentMissingError(file_id) from error
        try:
            yield OpenFile(file, reader, offset, end)
        finally:
            opening.__exit__(None, None, None)


# Resolution of references to files and their URLs.


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """A resolved reference. URLs are empty without a template.

    Attributes:
        file: The file, None when it is not in the scope.
        fault: Why there is none although a file of the scope has the id: see `memsvc.domain.files.fault_of_ref`.
    """

    ref: FileRef
    file: File | None = None
    download_url: str = ""
    preview_url: str = ""
    fault: str = ""


class FileRefResolver:
    """A resolver of references, with one query to the store for many."""

    def __init__(self, files: FileReads, templates: UrlTemplates, now: Callable[[], datetime]) -> None:
        """Resolve in *files*; *now* is the clock."""
        self._files = files
        self._templates = templates
        self._now = now

    def resolve(self, scope: Scope, refs: Iterable[FileRef]) -> dict[FileRef, ResolvedRef]:
        """Return the target of each of *refs*: an unexpired file of its category, in the scope's project or global."""
        distinct = list(dict.fromkeys(refs))
        if not distinct:
            return {}
        ids = list(dict.fromkeys(ref.id for ref in distinct))
        files, now = self._files.get(ids, reach=Reach.from_scope(scope), now=BEFORE_EXPIRY), self._now()
        return {ref: self._resolve_one(ref, files.get(ref.id), now) for ref in distinct}

    def of(self, file: File) -> ResolvedRef:
        """Return the resolved reference of a file."""
        ref = FileRef(file.category.value, file.id)
        return ResolvedRef(ref, file, url_of(self._templates.download, file), url_of(self._templates.preview, file))

    def _resolve_one(self, ref: FileRef, file: File | None, now: datetime) -> ResolvedRef:
        if file is None:
            return ResolvedRef(ref)
        fault = fault_of_ref(ref, file, now)
        return ResolvedRef(ref, fault=fault) if fault else self.of(file)


def _require(file_id: str, file: File | None, now: datetime) -> File:
    """Return *file*, which is the one with the id, or raise StoredFileNotFoundError if there is none or it expired."""
    if file is None:
        raise StoredFileNotFoundError(file_id)
    if fault := fault_of_ref(FileRef(file.category.value, file.id), file, now):
        raise StoredFileNotFoundError(file_id, fault)
    return file


# Deletion of a file, and of its blob when no other file uses it.


class FileDeleter:
    """The permanent deletion of files."""

    def __init__(self, committer: GroupCommitter, blob_guard: BlobGuard, now: Callable[[], datetime]) -> None:
        """Delete through *committer*; *now* is the clock."""
        self._committer = committer
        self._blob_guard = blob_guard
        self._now = now

    def delete(self, scope: Scope, file_id: str, request_id: str = "") -> File:
        """Delete a file and return it; a repeated request gets it without its name and metadata.

        Raises:
            StoredFileNotFoundError: It is not in the scope, or it has expired.
            RequestIdReusedError: The request_id was used for another request.
        """
        reach, now = Reach.from_scope(scope), self._now()

        def work(transaction: Transaction) -> File:
            file = _require(file_id, transaction.files.get(file_id, reach=reach), now)
            transaction.files.delete([file])
            return file

        request = IdempotentRequest(METHOD, request_id, request_digest(scope, file_id) if request_id else "", reach)
        deleted = run_once(
            self._committer, request, work, to_json=answered_file_as_json, from_json=file_from_json
        ).value
        self._blob_guard.try_to_remove_unused([deleted.sha256])
        return deleted
