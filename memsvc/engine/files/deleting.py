"""Delete: a file goes, and its blob when nobody else uses it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from memsvc.domain.errors import StoredFileNotFoundError
from memsvc.domain.files import File, is_expired
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import Request, digest_of
from memsvc.engine.files.answers import file_as_json, file_from_json
from memsvc.engine.files.blob_guard import BlobGuard
from memsvc.engine.sessions.serialization import once
from memsvc.ports.metadata import Transaction

METHOD = "DeleteFile"


class DeletingFiles:
    """Deletes files for good."""

    def __init__(self, committer: GroupCommitter, keeping: BlobGuard, now: Callable[[], datetime]) -> None:
        """Delete by *committer*; *now* is the clock."""
        self._committer = committer
        self._keeping = keeping
        self._now = now

    def delete(self, scope: Scope, file_id: str, request_id: str = "") -> File:
        """Delete a file and return what it was.

        Raises:
            StoredFileNotFoundError: It is not in the scope, or it has expired.
            RequestIdReusedError: The request_id was used for another request.
        """
        reach, now = Reach.from_scope(scope), self._now()

        def work(transaction: Transaction) -> File:
            file = transaction.files.get(file_id, reach=reach)
            if file is None or is_expired(file, now):
                raise StoredFileNotFoundError(file_id)
            transaction.files.delete([file])
            return file

        request = Request(METHOD, request_id, digest_of(scope, file_id) if request_id else "", reach)
        deleted = once(self._committer, request, work, to_json=file_as_json, from_json=file_from_json).value
        self._keeping.try_to_remove_unused([deleted.sha256])
        return deleted
