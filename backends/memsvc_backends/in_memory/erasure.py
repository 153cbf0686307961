"""What is left of users in the dict-based metadata store, and copying it, which cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from memsvc.domain.errors import CapabilityMissingError
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.ports.operations import CopyProgress
from memsvc_backends.in_memory.state import State


class InprocErasureReads:
    """`memsvc.ports.operations.ErasureReads`."""

    def __init__(self, state: Callable[[], State]) -> None:
        """Look into the state that *state* returns."""
        self._state = state

    def find(self, owner: str) -> Erasure | None:
        """Return the latest erasure of an owner."""
        return self._state().erasures.get(owner_digest(owner))

    def running(self) -> list[Erasure]:
        """Return the erasures under way."""
        return [one for _, one in sorted(self._state().erasures.items()) if one.end_time is None]

    def traces(self, owner: str) -> dict[str, int]:
        """Count by what it is."""
        state = self._state()
        return {
            "memories": sum(record.memory.scope.owner == owner for record in state.records.values()),
            "sessions": sum(session.scope.owner == owner for session in state.sessions.values()),
            "conflicts": sum(one.owner == owner for one in state.conflicts.values()),
            "checkpoints": sum(name[0] == owner for name in state.checkpoints),
            "files": sum(one.scope.owner == owner for one in state.files.values()),
            "requests": sum(name[0] == owner for name in state.requests),
            "tombstones": sum(one == owner for one, _ in state.tombstones),
            "vault_files": sum(one.owner == owner for one in state.vault_files.values()),
            "outbox": sum(place[0] == owner for place in state.places.values()),
        }

    def projects(self, owner: str) -> list[str]:
        """Return the projects."""
        state = self._state()
        scopes = [record.memory.scope for record in state.records.values()]
        scopes += [session.scope for session in state.sessions.values()]
        scopes += [file.scope for file in state.files.values()]
        found = {scope.project_id for scope in scopes if scope.owner == owner}
        found |= {one.project_id for one in state.conflicts.values() if one.owner == owner}
        found |= {name[1] for name in state.checkpoints if name[0] == owner}
        return sorted(found | {left.project_id for one, left in state.tombstones if one == owner})

    def is_elsewhere(self, text: str) -> bool:
        """Look into every content."""
        state = self._state()
        every = [record.memory for record in state.records.values()] + list(state.revisions.values())
        return any(text in memory.content for memory in every)

    def is_part_of_others(self, owner: str) -> bool:
        """Look at all names."""
        state = self._state()
        owners = {record.memory.scope.owner for record in state.records.values()}
        owners |= {session.scope.owner for session in state.sessions.values()}
        owners |= {one.scope.owner for one in state.files.values()}
        owners |= {name[0] for name in (*state.checkpoints, *state.requests)} | {one for one, _ in state.tombstones}
        return any(owner in one for one in owners if one != owner)

    def files(self) -> Sequence[Path]:
        """Return nothing: there are no files."""
        return ()

    def settle(self) -> bool:
        """Return: there is no log."""
        return True

    def rewrite(self) -> None:
        """Return: there is no file."""


class InprocStoreCopies:
    """`memsvc.ports.operations.StoreCopies`: nothing outlives this store, so there is nothing to copy."""

    def copy(self, directory: Path) -> Generator[CopyProgress, None, None]:
        """Refuse.

        Raises:
            CapabilityMissingError: Always.
        """
        del directory
        raise CapabilityMissingError("BACKUP")
        yield  # pragma: no cover - makes this a generator

    def counts(self) -> Mapping[str, int]:
        """Return nothing: there are no copies to compare with."""
        return {}

    def renew(self) -> None:
        """Return: every store of this sort has a name of its own."""
