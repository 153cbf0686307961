"""The metadata store in dicts: nothing outlives it. It says what the port means; others are compared with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from memsvc.domain.errors import BackendClosedError, CapabilityMissingError
from memsvc.ports.change_feed import ChangeFeed, EmbeddingCache, IndexFeed
from memsvc.ports.features import (
    CheckpointReads,
    ConflictReads,
    FileReads,
    KeyReads,
    ReminderReads,
    SessionReads,
    VaultManifest,
)
from memsvc.ports.metadata import MemoryReads, MetadataStore, Transaction, UserReads
from memsvc.ports.operations import (
    Changes,
    ErasureReads,
    IntegrityReads,
    Leases,
    LogReads,
    MoveProgress,
    MoveTarget,
    StoreCopies,
    StoreMoves,
    UpkeepReads,
)
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec
from memsvc_backends.in_memory.api_keys import InprocKeyReads
from memsvc_backends.in_memory.change_log import InprocChangeFeed
from memsvc_backends.in_memory.conflicts import InprocConflictReads
from memsvc_backends.in_memory.erasure import InprocErasureReads, InprocStoreCopies
from memsvc_backends.in_memory.files import InprocFileReads
from memsvc_backends.in_memory.history import InprocCheckpoints
from memsvc_backends.in_memory.integrity import InprocIntegrityReads
from memsvc_backends.in_memory.maintenance import InprocLeases, InprocUpkeepReads
from memsvc_backends.in_memory.reads import InprocIndexFeed, InprocLogs, InprocMemoryReads
from memsvc_backends.in_memory.reminders import InprocReminderReads
from memsvc_backends.in_memory.sessions import InprocSessionReads
from memsvc_backends.in_memory.state import State
from memsvc_backends.in_memory.transaction import InprocTransaction
from memsvc_backends.in_memory.user_export import InprocUserReads
from memsvc_backends.in_memory.vault import InprocVaultBook

NAME = "inproc metadata"


class InprocMetadataStore:
    """`memsvc.ports.metadata.MetadataStore`: a transaction works on a copy, which its commit puts in place."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Start empty."""
        self._now = now
        self._lock = threading.Lock()
        self._state: State | None = State()
        self._memories = InprocMemoryReads(self._current)
        self._sessions = InprocSessionReads(self._current)
        self._files = InprocFileReads(self._current)
        self._feed = InprocIndexFeed(self._current, self._change)
        self._changes = InprocChangeFeed(self._current)
        self._checkpoints = InprocCheckpoints(self._current)
        self._embeddings = _InprocEmbeddingCache(self._current, self._change)
        self._conflicts = InprocConflictReads(self._current)
        self._reminders = InprocReminderReads(self._current)
        self._integrity = InprocIntegrityReads(self._current)
        self._logs = InprocLogs(self._current)
        self._upkeep = InprocUpkeepReads(self._current)
        self._leases = InprocLeases(self._current, self._change)
        self._users = InprocUserReads(self._current)
        self._erasures = InprocErasureReads(self._current)
        self._keys = InprocKeyReads(self._current)
        self._copies = InprocStoreCopies()
        self._moves = InprocStoreMoves()
        self._vault = InprocVaultBook(self._current, self._change)

    @property
    def is_shared(self) -> bool:
        """Return False: it is in this process alone."""
        return False

    @property
    def memories(self) -> MemoryReads:
        """Read memories."""
        return self._memories

    @property
    def sessions(self) -> SessionReads:
        """Read sessions."""
        return self._sessions

    @property
    def files(self) -> FileReads:
        """Read what is known of files."""
        return self._files

    @property
    def feed(self) -> IndexFeed:
        """Read what is to be indexed."""
        return self._feed

    @property
    def changes(self) -> ChangeFeed:
        """Read the changes of memories."""
        return self._changes

    @property
    def embeddings(self) -> EmbeddingCache:
        """Keep embeddings."""
        return self._embeddings

    @property
    def conflicts(self) -> ConflictReads:
        """Read conflicts."""
        return self._conflicts

    @property
    def reminders(self) -> ReminderReads:
        """Read reminders."""
        return self._reminders

    @property
    def checkpoints(self) -> CheckpointReads:
        """Read checkpoints."""
        return self._checkpoints

    @property
    def integrity(self) -> IntegrityReads:
        """Read what is wrong."""
        return self._integrity

    @property
    def logs(self) -> LogReads:
        """Read daily logs."""
        return self._logs

    @property
    def upkeep(self) -> UpkeepReads:
        """Find what upkeep is due."""
        return self._upkeep

    @property
    def leases(self) -> Leases:
        """Take and release leases."""
        return self._leases

    @property
    def users(self) -> UserReads:
        """Read all of a user."""
        return self._users

    @property
    def erasures(self) -> ErasureReads:
        """Look for what is left of users."""
        return self._erasures

    @property
    def api_keys(self) -> KeyReads:
        """Read API keys."""
        return self._keys

    @property
    def copies(self) -> StoreCopies:
        """Copy the store as a whole."""
        return self._copies

    @property
    def moves(self) -> StoreMoves:
        """Move the store elsewhere."""
        return self._moves

    @property
    def vault(self) -> VaultManifest:
        """Keep what the vault knows."""
        return self._vault

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction; others wait until it ends."""
        with self._lock:
            transaction = InprocTransaction(self._current().copy(), self._now())
            yield transaction
            transaction.refuse_when_void()
            self._state = transaction.state

    def storage_bytes(self) -> int:
        """Return the bytes in use."""
        return sum(len(record.memory.content.encode()) for record in self._current().records.values())

    def ping(self) -> None:
        """Return when the store answers."""
        self._current()

    def close(self) -> None:
        """Forget everything; every call from now on raises BackendClosedError."""
        with self._lock:
            self._state = None

    def _current(self) -> State:
        state = self._state
        if state is None:
            raise BackendClosedError(NAME)
        return state

    def _change(self, change: Callable[[State], int]) -> int:
        with self._lock:
            state = self._current().copy()
            outcome = change(state)
            self._state = state
        return outcome


class _InprocEmbeddingCache:
    """`memsvc.ports.metadata.EmbeddingCache`."""

    def __init__(self, state: Callable[[], State], change: Callable[[Callable[[State], int]], int]) -> None:
        self._state = state
        self._change = change

    def get(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        embeddings = self._state().embeddings
        return {digest: embeddings[model, digest] for digest in digests if (model, digest) in embeddings}

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        def add(state: State) -> int:
            for digest, vector in vectors.items():
                state.embeddings.setdefault((model, digest), vector)
            return len(vectors)

        self._change(add)

    def count(self, model: str) -> int:
        return sum(name == model for name, _ in self._state().embeddings)


@contextmanager
def open_store(settings: BackendSettings, context: BackendContext) -> Iterator[MetadataStore]:  # noqa: ARG001
    """Open an empty store; there is nothing to choose."""
    store = InprocMetadataStore(context.now)
    try:
        yield store
    finally:
        store.close()


METADATA: BackendSpec[MetadataStore] = BackendSpec(settings=BackendSettings, open=open_store)
"""The entry point `inproc` of metadata stores."""


# A store that is gone with its process is not moved.


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
