"""Attachments: files of the category memory that say which memory they belong to (requirement V7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, MemoryNotFoundError, Violation
from memsvc.domain.files import File, FileCategory
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import FileRef, Status
from memsvc.domain.scope import Reach
from memsvc.domain.visibility import visible
from memsvc.engine.memories.recording import RecordBuilder
from memsvc.ports.metadata import Transaction

MEMORY_ID = "memory_id"
"""The name in a file's metadata that says which memory it is attached to."""


class AttachmentLinker:
    """Ties a file to its memory in the transaction that stores the file."""

    def __init__(self, recording: RecordBuilder, now: Callable[[], datetime]) -> None:
        """Write by *recording*; *now* is the clock."""
        self._recording = recording
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
        record, _ = self._recording.claimed(transaction, self._recording.record(before, after))
        transaction.update(before, record, ChangeAction.UPDATED)
