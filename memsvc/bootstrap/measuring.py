"""Putting the measuring around the backends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from memsvc.bootstrap.backends import Backends
from memsvc.engine.indexing.index_writers import LastErrors
from memsvc.engine.runtime.instrumentation import Instrumentation
from memsvc.engine.runtime.latency_stats import LatencyStats


@dataclass(frozen=True, slots=True)
class Measured:
    """Where measurements, and the troubles of indexes, are kept."""

    performance: LatencyStats
    troubles: LastErrors = field(default_factory=LastErrors)

    def around(self, backends: Backends) -> Backends:
        """Return the same backends, measured."""
        timing = Instrumentation(self.performance, self.troubles)
        return replace(
            backends,
            metadata=timing.store(backends.metadata),
            vectors=timing.vectors(backends.vectors),
            lexical=timing.lexical(backends.lexical),
            embedder=timing.embedder(backends.embedder),
        )
