"""The part of the metadata store that holds API keys (requirement G5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from memsvc.domain.api_keys import ApiKey


class KeyReads(Protocol):
    """Reading keys. Every read sees all that was committed before it began, by whichever process."""

    def get(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, whatever its state, or None."""
        ...

    def page(self, *, after: str, limit: int, alive_at: datetime | None) -> Sequence[ApiKey]:
        """Return the next *limit* keys after the id *after* (empty: from the first), by id.

        With *alive_at* only those that are neither revoked nor expired at that moment.
        """
        ...

    def are_there(self) -> bool:
        """Return whether a key was ever added: revoked and expired ones count, and a key is never removed."""
        ...


class KeyWrites(Protocol):
    """What a transaction does about keys."""

    def add_key(self, key: ApiKey) -> None:
        """Add a key with an id that no other has."""
        ...

    def revoke_key(self, key_id: str, moment: datetime) -> ApiKey | None:
        """Revoke a key as of *moment*, unless it was revoked before, and return it as it is now; None: there is none.

        It stays, so that it can be told later who had it.
        """
        ...
