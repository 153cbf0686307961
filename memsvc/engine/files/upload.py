"""Upload: bytes become a blob, and a file that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from memsvc.domain import limits
from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.errors import InvalidRequestError, MemoryNotFoundError, Violation
from memsvc.domain.files import File, FileCategory, media_type_matches
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Json, Status, uuid7
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, request_digest
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.records.memory_builder import RecordBuilder
from memsvc.engine.sessions.serialization import run_once
from memsvc.ports.blobs import BlobStore, StagedBlob
from memsvc.ports.metadata import Transaction

METHOD = "UploadFile"


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file as a caller announces it.

    Attributes:
        size_bytes: How many bytes are to come; None: not said.
        sha256: The hash that they must have, in lower-case digits; empty: not said.
        expire_time: None: as its category has it.
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
    """What files may be like.

    Attributes:
        max_bytes: How large one may be.
        media_types: Which there may be, families such as "image/*" too; empty: all.
        extensions: Which endings names may have, without the dot and folded; empty: all.
        lifetimes: How long files of a category live that say nothing else.
    """

    max_bytes: int
    media_types: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    lifetimes: Mapping[FileCategory, timedelta] = field(default_factory=dict)

    def fault_of(self, media_type: str, size_bytes: int) -> str:
        """Return why bytes of such a type and so many may not be kept; the empty string when they may."""
        if self.media_types and not any(media_type_matches(one, media_type) for one in self.media_types):
            return f"its type is {media_type}; allowed are {', '.join(self.media_types)} (setting files.media_types)"
        if size_bytes > self.max_bytes:
            return f"it has {size_bytes} bytes; at most {self.max_bytes} are allowed (setting files.max_bytes)"
        return ""


class Uploads:
    """Takes files in."""

    def __init__(
        self,
        committer: GroupCommitter,
        blobs: BlobStore,
        keeping: BlobGuard,
        rules: FileRules,
        now: Callable[[], datetime],
        attaching: AttachmentLinker,
    ) -> None:
        """Put into *blobs*, and commit by *committer*; *now* is the clock. *attaching* ties files to memories."""
        self._committer = committer
        self._blobs = blobs
        self._keeping = keeping
        self._rules = rules
        self._now = now
        self._attaching = attaching

    @property
    def rules(self) -> FileRules:
        """Return what files may be like."""
        return self._rules

    def known(self, scope: Scope, new: NewFile, request_id: str) -> File | None:
        """Return the answer that the same request got before, when its header alone says that it is the same.

        Raises:
            RequestIdReusedError: The request_id was used for another request.
        """
        if not (request_id and new.sha256):
            return None
        request = _request(scope, new, new.sha256, request_id)
        answer = self._committer.submit(lambda transaction: recall_answer(transaction, request)).value
        return None if answer is None else file_from_json(answer["value"])

    @contextmanager
    def begin(self, scope: Scope, new: NewFile, request_id: str) -> Iterator[Upload]:
        """Begin to take a file in; leaving the context without `finish` leaves no trace."""
        with self._blobs.stage() as staged:
            yield Upload(self, staged, scope, new, request_id)

    def keep(self, staged: StagedBlob, scope: Scope, new: NewFile, request_id: str) -> File:
        """Put what was staged and commit the file that uses it; see `Upload.finish`."""
        sha256, now = staged.sha256(), self._now()
        file = File(
            id=uuid7(now),
            scope=scope,
            category=new.category,
            name=new.name,
            media_type=new.media_type,
            size_bytes=staged.size_bytes,
            sha256=sha256,
            create_time=now,
            metadata=new.metadata,
            expire_time=self._expire_time(new, now),
        )

        def work(transaction: Transaction) -> File:
            # Who has the content now has it for what was brought here without it, too.
            transaction.files.fill(scope.owner, sha256)
            self._attaching.attach(transaction, file)
            return transaction.files.insert(file)

        request = _request(scope, new, sha256, request_id)
        kept: File | None = None
        try:
            with self._keeping.held(sha256):
                staged.put()
                kept = run_once(self._committer, request, work, to_json=file_as_json, from_json=file_from_json).value
        finally:
            # Nothing was committed; or long ago, by the first coming of the request, and may have been deleted since.
            if kept is None or kept.id != file.id:
                self._keeping.try_to_remove_unused([sha256])
        return kept

    def _expire_time(self, new: NewFile, now: datetime) -> datetime | None:
        ttl = new.ttl or self._rules.lifetimes.get(new.category)
        if new.expire_time is not None or ttl is None:
            return new.expire_time
        return now + ttl


class Upload:
    """One file on its way in. To be used from one thread at a time."""

    def __init__(self, uploads: Uploads, staged: StagedBlob, scope: Scope, new: NewFile, request_id: str) -> None:
        """Stage into *staged*."""
        self._uploads = uploads
        self._staged = staged
        self._scope = scope
        self._new = new
        self._request_id = request_id

    def write(self, parts: Sequence[bytes]) -> None:
        """Take the next bytes.

        Raises:
            InvalidRequestError: There are more than may come.
            LimitExceededError: There is no room for them.
            BackendUnavailableError: They cannot be kept.
        """
        size = self._staged.size_bytes + sum(map(len, parts))
        if size > self._uploads.rules.max_bytes:
            description = f"must have at most {self._uploads.rules.max_bytes} bytes in all (setting files.max_bytes)"
            raise InvalidRequestError([Violation("data", description)])
        if self._new.size_bytes is not None and size > self._new.size_bytes:
            raise self._wrong_size(f"more than {self._new.size_bytes}")
        self._staged.write(parts)

    def finish(self) -> File:
        """Make a file of the bytes that came; it is durable when this returns. The same request gets the same answer.

        Raises:
            InvalidRequestError: They are not as many as announced, or have another hash.
            RequestIdReusedError: The request_id was used for another request.
            ErasureRunningError: The user is being erased.
            BackendUnavailableError: A store cannot be reached; nothing was kept.
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
    """Return an upload as it is recognised: by what was said of the file, and by its bytes."""
    asked = (scope, new.name, new.category, new.media_type, new.metadata, new.ttl, new.expire_time, sha256)
    return IdempotentRequest(METHOD, request_id, request_digest(*asked) if request_id else "", Reach.from_scope(scope))


# Attachments: files of the category memory that say which memory they belong to (requirement V7).


MEMORY_ID = "memory_id"
"""The name in a file's metadata that says which memory it is attached to."""


class AttachmentLinker:
    """Ties a file to its memory in the transaction that stores the file."""

    def __init__(self, record_builder: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *record_builder*; *now* is the clock."""
        self._record_builder = record_builder
        self._now = now

    def attach(self, transaction: Transaction, file: File) -> None:
        """Have the memory that *file* names refer to it, by a new revision; a file that names none stays alone.

        Raises:
            MemoryNotFoundError: The memory is not there for the file's scope.
            InvalidRequestError: It refers to as many files as it may.
        """
        memory_id = file.metadata.get(MEMORY_ID)
        if file.category is not FileCategory.MEMORY or not isinstance(memory_id, str):
            return
        before = transaction.get(memory_id.lower(), reach=Reach.from_scope(file.scope))
        if before is None or before.status is Status.DELETED or not visible(before, file.scope):
            raise MemoryNotFoundError(memory_id)
        if len(before.file_refs) >= limits.FILE_REFS:
            description = f"names a memory that refers to {limits.FILE_REFS} files already, as many as it may"
            raise InvalidRequestError([Violation(f"header.metadata.{MEMORY_ID}", description)])
        refs = (*before.file_refs, FileRef(file.category.value, file.id))
        after = replace(before, file_refs=refs, update_time=self._now(), revision=before.revision + 1)
        record, _ = self._record_builder.claim(transaction, self._record_builder.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)


# Files as the JSON of a remembered answer, or of an exported line, and back.


_SCOPE = ("user_id", "project_id", "agent_id", "session_id", "tenant_id")
_PLAIN = ("id", "name", "media_type", "size_bytes", "sha256", "has_content", "row")


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


def file_from_json(known: Mapping[str, Any]) -> File:
    """Return the file that `file_as_json` wrote."""
    plain: dict[str, Any] = dict(zip(_PLAIN, known["plain"], strict=True))
    return File(
        scope=Scope(*known["scope"]),
        category=FileCategory(known["category"]),
        create_time=from_micros(known["create_time"]),
        expire_time=None if known["expire_time"] is None else from_micros(known["expire_time"]),
        metadata=known["metadata"],
        **plain,
    )
