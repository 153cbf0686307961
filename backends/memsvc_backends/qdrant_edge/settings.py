"""The options of the embedded Qdrant."""

from __future__ import annotations

from pydantic import Field

from memsvc.ports.faults import FaultLog
from memsvc.ports.plugin import BackendSettings
from memsvc_backends.qdrant_edge.child_process import ChildLimits


class QdrantEdgeSettings(BackendSettings):
    """Options of `memsvc_backends.qdrant_edge:EDGE`; the defaults suit a sidecar on two cores."""

    connections: int = Field(default=16, ge=1, le=64)
    """How many requests may be under way with the child process at once; further ones wait for the oldest of them."""
    slice_points: int = Field(default=16, ge=1, le=1024)
    """How many points a change holds at most before waiting searches have their turn."""
    graph_threshold: int = Field(default=20_000, ge=0)
    """Entries of one owner from which on graphs (HNSW) are worth building; below, exact scans are as quick."""
    graph_links: int = Field(default=16, ge=4, le=128)
    """Links of each node of an owner's graph (HNSW's m, Qdrant's payload_m)."""
    graph_build_width: int = Field(default=100, ge=4, le=1000)
    """Candidates kept while a graph is built (ef_construct)."""
    graph_search_width: int = Field(default=192, ge=4, le=4096)
    """Candidates kept while a graph is searched (ef); larger misses fewer and takes longer.

    Where a filter leaves less than three quarters of an owner's entries, these are scanned.
    """
    ping_seconds: float = Field(default=1.0, gt=0, le=86_400)
    """How long a health check waits for the child process."""
    hang_seconds: float = Field(default=2.0, gt=0, le=86_400)
    """After so long without an answer the child process is taken to hang: it is killed and replaced."""
    open_seconds: float = Field(default=60.0, gt=0, le=86_400)
    """How long a child process may take to open its generation before it is killed; the next gets twice the time."""

    def limits(self, faults: FaultLog) -> ChildLimits:
        """Return the limits of a child whose replacements *faults* counts."""
        return ChildLimits(self.hang_seconds, self.open_seconds, faults)
