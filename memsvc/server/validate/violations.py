"""Collecting all that is wrong with a request."""

from __future__ import annotations

from memsvc.domain.errors import InvalidRequestError, Violation


class Violations:
    """What was found wrong so far."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Violation] = []

    def add(self, field: str, description: str) -> None:
        """Note that *field* breaks a rule; *description* says what would be right."""
        self._found.append(Violation(field, description))

    def error(self) -> InvalidRequestError | None:
        """Return the error that tells of everything noted, or None when all is well."""
        return InvalidRequestError(self._found) if self._found else None

    def finish(self) -> None:
        """Return when all is well.

        Raises:
            InvalidRequestError: Rules were broken; it names them all.
        """
        if error := self.error():
            raise error
