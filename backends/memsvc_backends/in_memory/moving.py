"""A store that is gone with its process is not moved."""

from __future__ import annotations

from collections.abc import Callable, Generator

from memsvc.domain.errors import CapabilityMissingError
from memsvc.ports.operations import Changes, MoveProgress, MoveTarget

_MISSING = "MIGRATION"


class InprocStoreMoves:
    """`memsvc.ports.operations.StoreMoves`, all of it refused."""

    @property
    def arrival(self) -> str:
        """Return nothing: it was nowhere else."""
        return ""

    def require_here(self) -> None:
        """Return: it is nowhere else."""

    def check(self, target: MoveTarget) -> MoveProgress:
        """Refuse."""
        del target
        raise CapabilityMissingError(_MISSING)

    def run(self, target: MoveTarget, *, settle: Callable[[], None]) -> Generator[MoveProgress, None, None]:
        """Refuse."""
        del target, settle
        raise CapabilityMissingError(_MISSING)
        yield  # pragma: no cover - makes this a generator

    def abort(self, target: MoveTarget) -> MoveProgress:
        """Refuse."""
        del target
        raise CapabilityMissingError(_MISSING)

    def undo(self, target: MoveTarget, *, changes: Changes) -> MoveProgress:
        """Refuse."""
        del target, changes
        raise CapabilityMissingError(_MISSING)
