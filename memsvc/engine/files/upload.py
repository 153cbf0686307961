"""Uploads of files, and their attachment to memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memsvc.domain import limits
from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.errors import (
    BackendUnavailableError,
    DeadlineExceededError,
    InvalidRequestError,
    MemoryNotFoundError,
    Violation,
)
from memsvc.domain.file_text import initial_text
from memsvc.domain.files import File, FileCategory, media_type_matches
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Json, Status, uuid7
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.visibility import visible
from memsvc.engine.commit.group_committer import CALL_DEADLINE, GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, request_digest
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.engine.sessions.serialization import run_once
from memsvc.ports.blobs import BlobStore, StagedBlob
from memsvc.ports.metadata import Transaction

METHOD = "UploadFile"
MEMORY_ID = "memory_id"
"""The key in a file's metadata with the id of the memory that it is attached to."""
_SCOPE = ("user_id", "project_id", "agent_id", "session_id", "tenant_id")
_PLAIN = ("id", "name", "media_type", "size_bytes", "sha256", "has_content", "row")


@dataclass(frozen=True, slots=True)
class NewFile:
    """The header of an upload.

    Attributes:
        size_bytes: The announced number of bytes; None: not given.
        sha256: The expected hash, in lower-case digits; empty: not given.
        expire_time: None: from the lifetime of its category.
    """

    name: str
    category: FileCategory
    media_type: str
    metadata: Mapping[str, Json] = field(default_factory=dict)
    size_bytes: int | None = None
    sha256: str = ""
    ttl: timedelta | None = None
    expire_time: datetime | None = None


@dataclass(frozen=True, slots=True)
class FileRules:
    """Restrictions on files.

    Attributes:
        max_bytes: The maximum size of a file.
        media_types: Allowed media types, including families such as "image/*"; empty: all.
        extensions: Allowed extensions of names, without the dot and case-folded; empty: all.
        lifetimes: Default lifetimes by category.
    """

    max_bytes: int
    media_types: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    lifetimes: Mapping[FileCategory, timedelta] = field(default_factory=dict)

    def fault_of(self, media_type: str, size_bytes: int) -> str:
        """Return why this type and size are not allowed, or ""."""
        if self.media_types and not any(media_type_matches(one, media_type) for one in self.media_types):
            return f"its type is {media_type}; allowed are {', '.join(self.media_types)} (setting files.media_types)"
        if size_bytes > self.max_bytes:
            return f"it has {size_bytes} bytes; at most {self.max_bytes} are allowed (setting files.max_bytes)"
        return ""


class FileUploader:
    """The upload use case."""

    def __init__(  # noqa: PLR0913 - a part each
        self,
        committer: GroupCommitter,
        blobs: BlobStore,
        blob_guard: BlobGuard,
        rules: FileRules,
        now: Callable[[], datetime],
        attaching: AttachmentLinker,
        *,
        redactor: Redactor,
    ) -> None:
        """Store in *blobs*, commit through *committer*; *now* is the clock. *attaching* links files to memories.

        *redactor* replaces secrets in names and metadata.
        """
        self._listener: Callable[[], None] = lambda: None
        self._committer = committer
        self._blobs = blobs
        self._blob_guard = blob_guard
        self._rules = rules
        self._now = now
        self._attaching = attaching
        self._redactor = redactor

    def on_upload(self, listener: Callable[[], None]) -> None:
        """Call *listener* after each upload."""
        self._listener = listener

    @property
    def rules(self) -> FileRules:
        """Return the restrictions on files."""
        return self._rules

    def find_answer(self, scope: Scope, new: NewFile, request_id: str) -> File | None:
        """Return the stored response of the same request, if its header alone identifies it.

        Raises:
            RequestIdReusedError: The request_id was used for another request.
        """
        if not (request_id and new.sha256):
            return None
        request = _request(scope, new, new.sha256, request_id)
        committed = self._committer.submit(lambda transaction: recall_answer(transaction, request), owner=scope.owner)
        answer = committed.value
        return None if answer is None else self._with_texts(file_from_json(answer["value"]), new)

    def _with_texts(self, file: File, new: NewFile) -> File:
        """Return the file of a stored answer with the name and metadata of its request, which no answer has."""
        name, metadata = self._redactor.text(new.name)[0], self._redactor.json(dict(new.metadata))
        return replace(file, name=name, metadata=metadata, text=initial_text(file.media_type, name))

    @contextmanager
    def begin(self, scope: Scope, new: NewFile, request_id: str) -> Iterator[FileUpload]:
        """Start an upload; leaving the context without `finish` discards it."""
        with self._blobs.stage() as staged:
            yield FileUpload(self, staged, scope, new, request_id)

    def keep(self, staged: StagedBlob, scope: Scope, new: NewFile, request_id: str) -> File:
        """Store the staged bytes and commit the file that uses them; see `FileUpload.finish`."""
        sha256, now = staged.sha256(), self._now()
        file = File(
            id=uuid7(now),
            scope=scope,
            category=new.category,
            name=self._redactor.text(new.name)[0],
            media_type=new.media_type,
            size_bytes=staged.size_bytes,
            sha256=sha256,
            create_time=now,
            metadata=self._redactor.json(dict(new.metadata)),
            expire_time=self._expire_time(new, now),
            text=initial_text(new.media_type, new.name),
        )

        def work(transaction: Transaction) -> File:
            # The content is now available for imported files without content, too.
            transaction.files.fill(scope.owner, sha256)
            self._attaching.attach(transaction, file)
            return transaction.files.insert(file)

        request = _request(scope, new, sha256, request_id)
        kept: File | None = None
        is_certain = True
        try:
            with self._blob_guard.lock(sha256):
                staged.commit(CALL_DEADLINE.get())
                kept = run_once(
                    self._committer,
                    request,
                    work,
                    to_json=answered_file_as_json,
                    from_json=lambda known: self._with_texts(file_from_json(known), new),
                ).value
        except (BackendUnavailableError, DeadlineExceededError):
            # The file may be committed yet, and then needs its content; otherwise a sweep removes that.
            is_certain = False
            raise
        finally:
            # Nothing was committed; or it was, by an earlier attempt of the request, and may have been deleted since.
            if is_certain and (kept is None or kept.id != file.id):
                self._blob_guard.try_to_remove_unused([sha256])
        self._listener()
        return kept

    def _expire_time(self, new: NewFile, now: datetime) -> datetime | None:
        ttl = self._rules.lifetimes.get(new.category) if new.ttl is None else new.ttl
        if new.expire_time is not None or ttl is None:
            return new.expire_time
        return now + ttl


class FileUpload:
    """A running upload of one file. Not thread-safe."""

    def __init__(self, uploads: FileUploader, staged: StagedBlob, scope: Scope, new: NewFile, request_id: str) -> None:
        """Stage into *staged*."""
        self._uploads = uploads
        self._staged = staged
        self._scope = scope
        self._new = new
        self._request_id = request_id

    def write(self, parts: Sequence[bytes]) -> None:
        """Append the next bytes.

        Raises:
            InvalidRequestError: The file exceeds its announced or maximum size.
            LimitExceededError: There is not enough space for the bytes.
            BackendUnavailableError: The bytes cannot be stored.
        """
        size = self._staged.size_bytes + sum(map(len, parts))
        if size > self._uploads.rules.max_bytes:
            description = f"must have at most {self._uploads.rules.max_bytes} bytes in all (setting files.max_bytes)"
            raise InvalidRequestError([Violation("data", description)])
        if self._new.size_bytes is not None and size > self._new.size_bytes:
            raise self._wrong_size(f"more than {self._new.size_bytes}")
        self._staged.write(parts)

    def finish(self) -> File:
        """Commit the file; it is durable on return. Repeating the request returns the same response.

        Raises:
            InvalidRequestError: The number of bytes or their hash differs from the header.
            RequestIdReusedError: The request_id was used for another request.
            ErasureRunningError: The user is being erased.
            BackendUnavailableError: A store cannot be reached; nothing was stored.
        """
        size, sha256 = self._staged.size_bytes, self._staged.sha256()
        if self._new.size_bytes is not None and size != self._new.size_bytes:
            raise self._wrong_size(str(size))
        if self._new.sha256 and sha256 != self._new.sha256:
            description = f"is not the hash of the {size} bytes that came, which is {sha256}; send the file again"
            raise InvalidRequestError([Violation("header.sha256", description)])
        return self._uploads.keep(self._staged, self._scope, self._new, self._request_id)

    def _wrong_size(self, came: str) -> InvalidRequestError:
        description = f"says {self._new.size_bytes} bytes, but {came} came; send the file again"
        return InvalidRequestError([Violation("header.size_bytes", description)])


def _request(scope: Scope, new: NewFile, sha256: str, request_id: str) -> IdempotentRequest:
    """Return the idempotent request of an upload: its header and the hash of its bytes."""
    asked = (scope, new.name, new.category, new.media_type, new.metadata, new.ttl, new.expire_time, sha256)
    return IdempotentRequest(METHOD, request_id, request_digest(*asked) if request_id else "", Reach.from_scope(scope))


# Attachments: files of the category memory that name the memory they belong to.


class AttachmentLinker:
    """A linker of a file to its memory, in the transaction that stores the file."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write through *record_builder*; *now* is the clock."""
        self._record_builder = record_builder
        self._now = now

    def attach(self, transaction: Transaction, file: File) -> None:
        """Add a reference to *file* to the memory that it names, as a new revision; do nothing if it names none.

        Raises:
            MemoryNotFoundError: The memory does not exist in the file's scope.
            InvalidRequestError: The memory has the maximum number of references.
        """
        memory_id = file.metadata.get(MEMORY_ID)
        if file.category is not FileCategory.MEMORY or not isinstance(memory_id, str):
            return
        before = transaction.get(memory_id.lower(), reach=Reach.from_scope(file.scope))
        if before is None or before.status is Status.DELETED or not visible(before, file.scope):
            raise MemoryNotFoundError(memory_id)
        if len(before.file_refs) >= limits.FILE_REFS:
            description = f"names a memory that refers to {limits.FILE_REFS} files already, which is the maximum"
            raise InvalidRequestError([Violation(f"header.metadata.{MEMORY_ID}", description)])
        refs = (*before.file_refs, FileRef(file.category.value, file.id))
        after = replace(before, file_refs=refs, update_time=self._now(), revision=before.revision + 1)
        record, _ = self._record_builder.claim(transaction, self._record_builder.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)


# Files as JSON in stored responses and exported lines.


def file_as_json(file: File) -> dict[str, Any]:
    """Return a file as JSON."""
    return {
        "scope": [getattr(file.scope, name) for name in _SCOPE],
        "plain": [getattr(file, name) for name in _PLAIN],
        "category": file.category.value,
        "create_time": to_micros(file.create_time),
        "expire_time": None if file.expire_time is None else to_micros(file.expire_time),
        "metadata": dict(file.metadata),
    }


def answered_file_as_json(file: File) -> dict[str, Any]:
    """Return a file as JSON for a stored answer, without its name and metadata: it may be deleted before the answer."""
    return file_as_json(replace(file, name="", metadata={}))


def file_from_json(known: Mapping[str, Any]) -> File:
    """Return the file that `file_as_json` wrote."""
    plain: dict[str, Any] = dict(zip(_PLAIN, known["plain"], strict=True))
    return File(
        scope=Scope(*known["scope"]),
        category=FileCategory(known["category"]),
        create_time=from_micros(known["create_time"]),
        expire_time=None if known["expire_time"] is None else from_micros(known["expire_time"]),
        metadata=known["metadata"],
        text=initial_text(plain["media_type"], plain["name"]),
        **plain,
    )
