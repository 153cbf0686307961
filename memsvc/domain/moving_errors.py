"""What can go wrong with moving the store."""

from __future__ import annotations

from memsvc.domain.errors import MemsvcError


class StoreMovedError(MemsvcError):
    """What is stored here was moved elsewhere, or has not all arrived here yet."""

    reason = "STORE_MOVED"
    retry_seconds = 2.0

    def __init__(self, message: str) -> None:
        super().__init__(message)


class MoveRefusedError(MemsvcError):
    """The store cannot be moved like this; the message says why and what to do."""

    reason = "MIGRATION_REFUSED"

    def __init__(self, message: str, *, subject: str = "target") -> None:
        super().__init__(message, subject=subject)


class MoveRunningError(MemsvcError):
    """The store is being moved already."""

    reason = "MIGRATION_RUNNING"

    def __init__(self) -> None:
        super().__init__("The store is being moved; wait until that has ended.")
