"""Collecting all that is wrong with a request."""

from __future__ import annotations

from memsvc.domain.errors import DimensionMismatchError, InvalidRequestError, MemsvcError, Violation


class Violations:
    """What was found wrong so far."""

    __slots__ = ("_found", "_mismatch")

    def __init__(self) -> None:
        self._found: list[Violation] = []
        self._mismatch: DimensionMismatchError | None = None

    def add(self, field: str, description: str) -> None:
        """Note that *field* breaks a rule; *description* says what would be right."""
        self._found.append(Violation(field, description))

    def note_dimension(self, *, expected: int, actual: int) -> None:
        """Note that a vector is of another length than the index's: told when nothing else is wrong."""
        self._mismatch = DimensionMismatchError(expected, actual)

    def error(self) -> MemsvcError | None:
        """Return the error that tells of everything noted, or None when all is well."""
        return InvalidRequestError(self._found) if self._found else self._mismatch

    def finish(self) -> None:
        """Return when all is well.

        Raises:
            InvalidRequestError: Rules were broken; it names them all.
            DimensionMismatchError: Nothing but the length of a vector is wrong.
        """
        if error := self.error():
            raise error
