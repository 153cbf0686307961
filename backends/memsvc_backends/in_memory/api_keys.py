"""API keys of the dict-based metadata store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memsvc.domain.api_keys import ApiKey, KeyState
from memsvc_backends.in_memory.state import State


class InprocKeyReads:
    """`memsvc.ports.features.KeyReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Read from the state that *state* returns."""
        self._state = state

    def get(self, key_id: str) -> ApiKey | None:
        """Return a key."""
        return self._state().api_keys.get(key_id)

    def page(self, *, after: str, limit: int, alive_at: datetime | None) -> Sequence[ApiKey]:
        """Return a page."""
        keys = self._state().api_keys
        found = [
            keys[key_id]
            for key_id in sorted(keys)
            if key_id > after and (alive_at is None or keys[key_id].state(alive_at) is KeyState.ACTIVE)
        ]
        return found[: max(0, limit)]

    def are_there(self) -> bool:
        """Return whether there is any."""
        return bool(self._state().api_keys)


class InprocKeyWrites:
    """`memsvc.ports.features.KeyWrites`, on the state of a transaction."""

    state: State

    def add_key(self, key: ApiKey) -> None:
        """Add a key."""
        self.state.api_keys[key.id] = key

    def revoke_key(self, key_id: str, moment: datetime) -> ApiKey | None:
        """Revoke a key."""
        key = self.state.api_keys.get(key_id)
        if key is None or key.revoke_time is not None:
            return key
        self.state.api_keys[key_id] = replace(key, revoke_time=moment)
        return self.state.api_keys[key_id]
