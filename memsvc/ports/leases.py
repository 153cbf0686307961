"""The part of the metadata store that lets one of several processes do what must not be done twice at once."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Leases(Protocol):
    """Names that one holder at a time has, until it lets go or its time is over. Shared by all who open the store."""

    def take(self, name: str, *, holder: str, now: datetime, until: datetime) -> bool:
        """Give *name* to *holder* until then, and return True; False: another has it at *now*, and nothing is changed.

        A holder may take again what it has, which moves its end. Of several who take at the same time one succeeds.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        ...

    def release(self, name: str, *, holder: str, ended: datetime | None) -> None:
        """Take *name* from *holder*, if it has it, and remember when its work *ended* (None: it was not finished)."""
        ...

    def last_end(self, name: str) -> datetime | None:
        """Return when work under *name* was finished last, whoever did it; None: never."""
        ...
