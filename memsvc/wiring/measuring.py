"""Putting the measuring around the backends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from memsvc.engine.index.troubles import Troubles
from memsvc.engine.performance import Performance
from memsvc.engine.timing import Timing
from memsvc.wiring.backends import Backends


@dataclass(frozen=True, slots=True)
class Measured:
    """Where measurements, and the troubles of indexes, are kept."""

    performance: Performance
    troubles: Troubles = field(default_factory=Troubles)

    def around(self, backends: Backends) -> Backends:
        """Return the same backends, measured."""
        timing = Timing(self.performance, self.troubles)
        return replace(
            backends,
            metadata=timing.store(backends.metadata),
            vectors=timing.vectors(backends.vectors),
            lexical=timing.lexical(backends.lexical),
            embedder=timing.embedder(backends.embedder),
        )
