"""Where erasures cut off what is told of owners: changes before are gone, and no watch passes over that in silence."""

from __future__ import annotations

from memsvc.engine.user_data.erasure_receipts import erased_place
from memsvc.ports.operations import ErasureReads


class ErasureBarrier:
    """Asks the store for the latest erasure of an owner, as long as that is remembered."""

    def __init__(self, erasures: ErasureReads) -> None:
        """Ask *erasures*."""
        self._erasures = erasures

    def before(self, owner: str) -> int | None:
        """Return the place before which no change of *owner* is kept, 0 without an erasure; None while one runs.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        erasure = self._erasures.find(owner)
        if erasure is None:
            return 0
        return None if erasure.end_time is None else erased_place(erasure.receipt)
