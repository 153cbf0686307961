"""What every error of the domain is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class MemsvcError(Exception):
    """A failure that a caller can be told about.

    Attributes:
        reason: The name of the value in `memsvc.v1.ErrorReason`.
        metadata: The values that the message quotes, by name.
    """

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with a request: the field's proto path, and what would be right."""

    field: str
    description: str
