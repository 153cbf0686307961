"""A vault over a real store, in a folder of a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memsvc.domain.memory import Memory
from memsvc.domain.vault import FileResult, NoteFormat, VaultAction, VaultSummary
from memsvc.domain.vault_layout import location_of
from memsvc.domain.write_requests import Patch, WriteOptions
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.engine.vault.filesystem import VaultFilesystem
from memsvc.engine.vault.note_import import KeepBothMerge, NoteImporter, VaultContext
from memsvc.engine.vault.sync import SyncPlan
from memsvc.engine.vault.vault import Vault, create_vault
from tests.unit.engine.memories.write_path import Desk as WriteDesk
from tests.unit.engine.memories.write_path import open_desk

BASE = "users/ada/projects/apollo"


@dataclass(frozen=True)
class Bench:
    """Everything a test of the vault needs."""

    root: Path
    writes: WriteDesk
    context: VaultContext
    taking: NoteImporter
    vault: Vault

    def put(self, path: str, data: bytes | str) -> str:
        """Put a file where a person would; return its path."""
        whole = self.root / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def text(self, path: str) -> str:
        """Return what a file says."""
        return (self.root / path).read_bytes().decode()

    def take(self, path: str) -> VaultAction:
        """Take one file back."""
        return self.taking.take(path).action

    def took(self, path: str) -> FileResult:
        """Take one file back, and return all that is told of it."""
        return self.taking.take(path)

    def memory(self, memory_id: str) -> Memory:
        """Return a memory as it is now."""
        found = self.writes.stored(memory_id)
        assert found is not None
        return found

    def change(self, memory_id: str, **values: Any) -> Memory:
        """Change a memory by a call."""
        scope = self.memory(memory_id).scope
        return self.writes.writing.revise.update(
            scope, memory_id=memory_id, key="", patch=Patch(values), expected_revision=0, options=WriteOptions()
        ).memory

    def forgo(self, memory_id: str, *, hard: bool = False) -> None:
        """Delete a memory by a call."""
        scope = self.memory(memory_id).scope
        self.writes.writing.revise.delete(scope, memory_id, hard=hard, expected_revision=0, options=WriteOptions())

    def synced(self, **plan: Any) -> dict[str, int]:
        """Synchronise, and return the counts."""
        *_, summary = self.vault.sync(SyncPlan(**plan))
        assert isinstance(summary, VaultSummary)
        return {action.value: count for action, count in summary.counts.items()}

    def files(self) -> list[str]:
        """Return the paths of all files but the vault's own."""
        every = (path for path in self.root.rglob("*") if path.is_file() and ".memsvc" not in path.parts)
        return sorted(path.relative_to(self.root).as_posix() for path in every)

    def memories(self) -> list[Memory]:
        """Return the memories of all users."""
        return self.context.manifest.present(range(100))


@contextmanager
def open_bench(directory: Path, form: NoteFormat = NoteFormat.MEMSVC) -> Iterator[Bench]:
    """Open a vault of a format; the same directory again is the same vault."""
    with open_desk(directory / "data") as writes:
        folder = VaultFilesystem(directory / "vault")
        vault_id = folder.prepare()
        store = writes.store
        if store.vault.state() is None:
            store.vault.begin(vault_id)
        parts = writes.writing
        context = VaultContext(
            folder, store.vault, store.memories, parts.remember, parts.revise, SearchPriority(), threading.RLock(), form
        )
        vault = create_vault(context, store.feed, KeepBothMerge())
        yield Bench(folder.root, writes, context, NoteImporter(context, KeepBothMerge()), vault)


def place(memory: Memory) -> str:
    """Return where the file of a memory is when no other is there."""
    return location_of(memory).paths[0]
