"""What looks over the store, the indexes and the speed."""

from __future__ import annotations

from memsvc.engine.lifecycle.integrity import Integrity
from memsvc.engine.lifecycle.memory_faults import MemoryFaults
from memsvc.wiring.backends import Backends, utc_now
from memsvc.wiring.indexing import Indexing
from memsvc.wiring.writing import Writing


def integrity(backends: Backends, index: Indexing, writes: Writing) -> Integrity:
    """Make what finds and mends faults."""
    store = backends.metadata
    faults = MemoryFaults(store, writes.committer, writes.recording, utc_now)
    return Integrity(store, writes.committer, faults, index.reindex)
