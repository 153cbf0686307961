"""What can go wrong with files."""

from __future__ import annotations

from memsvc.domain.errors import MemsvcError


class StoredFileNotFoundError(MemsvcError):
    """No file has the id within the caller's reach, or it has expired."""

    reason = "FILE_NOT_FOUND"

    def __init__(self, file_id: str) -> None:
        super().__init__(f"No file {file_id!r} is in this scope; ListFiles names those that are.", file_id=file_id)


class FileContentMissingError(MemsvcError):
    """Of a file, only what is known of it is here, not its bytes."""

    reason = "FILE_CONTENT_MISSING"

    def __init__(self, file_id: str) -> None:
        super().__init__(
            f"The bytes of the file {file_id!r} are not here; upload the same bytes once more, and it has them.",
            file_id=file_id,
        )
