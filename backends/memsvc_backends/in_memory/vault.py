"""What the vault knows of its files, in dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memsvc.domain.clock import to_micros
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.vault import Entry
from memsvc.domain.vault_layout import ABSENT, is_said, path_key
from memsvc.ports.features import Transcript, VaultState
from memsvc_backends.in_memory.state import State


class InprocVaultBook:
    """`memsvc.ports.features.VaultManifest`."""

    def __init__(self, state: Callable[[], State], change: Callable[[Callable[[State], int]], int]) -> None:
        """Read what *state* returns, and write by *change*."""
        self._state = state
        self._change = change

    def state(self) -> VaultState | None:
        """Return the state."""
        return self._state().vault

    def begin(self, vault_id: str) -> None:
        """Begin anew."""

        def anew(state: State) -> int:
            state.vault_files.clear()
            state.vault = VaultState(vault_id, 0)
            return 1

        self._change(anew)

    def at(self, paths: Iterable[str]) -> dict[str, Entry]:
        """Return entries by path."""
        files = self._state().vault_files
        return {key: files[key] for key in map(path_key, paths) if key in files}

    def of(self, memory_ids: Iterable[str]) -> dict[str, Entry]:
        """Return entries by memory."""
        wanted = set(memory_ids) - {""}
        return {one.memory_id: one for one in self._state().vault_files.values() if one.memory_id in wanted}

    def of_session(self, scope: Scope) -> Entry | None:
        """Return the entry of a transcript."""
        place = (scope.owner, scope.project_id, scope.session_id)
        every = self._state().vault_files.values()
        return next((one for one in every if (one.owner, one.project_id, one.session_id) == place), None)

    def alike(self, owner: str, digest: str, *, limit: int) -> list[Entry]:
        """Return the entries of a digest."""
        return [one for _, one in self._entries(owner, "") if one.digest == digest][:limit]

    def page(self, *, owner: str | None, after: str, limit: int) -> list[Entry]:
        """Return the next entries."""
        return [one for _, one in self._entries(owner, after)][:limit]

    def count(self, *, owner: str | None) -> int:
        """Count the entries."""
        return sum(1 for _ in self._entries(owner, ""))

    def record(
        self, entries: Sequence[Entry] = (), *, removed: Iterable[str] = (), position: int | None = None
    ) -> None:
        """Write entries."""
        gone = {path_key(path) for path in removed}
        ids = {one.memory_id for one in entries if one.memory_id}
        places = {(one.owner, one.project_id, one.session_id) for one in entries if one.session_id}

        def write(state: State) -> int:
            for key, one in list(state.vault_files.items()):
                if key in gone or one.memory_id in ids or (one.owner, one.project_id, one.session_id) in places:
                    del state.vault_files[key]
            state.vault_files.update({path_key(one.path): one for one in entries})
            if position is not None and state.vault is not None:
                state.vault = VaultState(state.vault.vault_id, position)
            return len(entries)

        self._change(write)

    def present(self, rows: Sequence[int]) -> list[Memory]:
        """Return memories."""
        found = (self._state().memory(row) for row in sorted(set(rows)))
        return [memory for memory in found if memory is not None]

    def behind(self, *, owner: str | None, after_row: int, limit: int, every: bool = False) -> list[Memory]:
        """Return memories that their files do not show."""
        entries = {one.memory_id: one for one in self._state().vault_files.values()}
        return [
            memory
            for memory in self._memories(owner)
            if memory.row > after_row
            and not is_said(memory)
            and _is_behind(memory, entries.get(memory.id), every=every)
        ][:limit]

    def lost(self, *, owner: str | None, after: str, limit: int) -> list[Entry]:
        """Return entries of memories that are gone."""
        rows = self._state().rows
        return [one for _, one in self._entries(owner, after) if one.memory_id and one.memory_id not in rows][:limit]

    def purged(self, memory_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return where purged memories were."""
        wanted = set(memory_ids)
        return {(owner, one.project_id) for owner, one in self._state().tombstones if one.memory_id in wanted}

    def said(self, *, owner: str | None, after_row: int, limit: int) -> list[Transcript]:
        """Return sessions."""
        found: dict[tuple[str, str, str], list[Memory]] = {}
        for memory in self._memories(owner):
            if is_said(memory):
                scope = memory.scope
                found.setdefault((scope.owner, scope.project_id, scope.session_id), []).append(memory)
        every = (_said(memories) for memories in found.values())
        return sorted((one for one in every if one.row > after_row), key=lambda one: one.row)[:limit]

    def _entries(self, owner: str | None, after: str) -> Iterator[tuple[str, Entry]]:
        for key, one in sorted(self._state().vault_files.items()):
            if key > after and owner in {None, one.owner}:
                yield key, one

    def _memories(self, owner: str | None) -> Iterator[Memory]:
        for _, record in sorted(self._state().records.items()):
            if owner in {None, record.memory.scope.owner}:
                yield record.memory


def _is_behind(memory: Memory, entry: Entry | None, *, every: bool) -> bool:
    if memory.status in ABSENT:
        return entry is not None
    return every or entry is None or entry.revision != memory.revision


def _said(memories: Sequence[Memory]) -> Transcript:
    scope = memories[0].scope
    plain = Scope(scope.user_id, scope.project_id, session_id=scope.session_id, tenant_id=scope.tenant_id)
    first = min(memory.create_time for memory in memories)
    stamp = max(to_micros(memory.update_time) for memory in memories)
    return Transcript(plain, first, stamp, min(memory.row for memory in memories))
