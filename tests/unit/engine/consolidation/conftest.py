"""A whole engine over the real store, with real vectors and a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.consolidation import ConsolidationReport
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import Draft, Patch, WriteOptions
from memsvc.engine.consolidation.service import ConsolidationRequest
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from tests.support.sqlite_store import SQLITE
from tests.unit.engine.memories.write_path import ADA, Clock
from tests.unit.engine.support import newest_position

__all__ = ["ADA", "Desk", "opened"]

NO_HURRY = Deadline()
IN_MEMORY = {"backend": "in-memory"}
SLOW_UPKEEP = {"upkeep_seconds": 3600}


@dataclass(frozen=True)
class Desk:
    """What a test of consolidation needs."""

    app: Services
    clock: Clock

    def write(self, content: str, scope: Scope = ADA, **fields: Any) -> Memory:
        """Store a memory, a minute after the one before."""
        self.clock.advance(minutes=1)
        written = self.app.memory_creator.create(scope, Draft(content, **fields), WriteOptions())
        self.app.indexer.when_reached(written.position).result(timeout=30)
        return written.memory

    def consolidate(
        self, scope: Scope = ADA, threshold: float | None = None, *, request_id: str = "", most_groups: int = 50
    ) -> ConsolidationReport:
        """Merge what says the same, and wait for the indexes."""
        self.clock.advance(minutes=1)
        asked = ConsolidationRequest(scope, threshold, most_groups, request_id=request_id)
        report, _ = self.app.consolidation.run(asked, NO_HURRY)
        self.app.indexer.when_reached(report.position).result(timeout=30)
        return report

    def preview(self, scope: Scope = ADA, threshold: float | None = None) -> ConsolidationReport:
        """Say what would be merged."""
        return self.app.consolidation.preview(ConsolidationRequest(scope, threshold, 50), NO_HURRY)[0]

    def update(self, memory: Memory, **values: Any) -> Memory:
        """Change a memory, a minute later."""
        self.clock.advance(minutes=1)
        written = self.app.memory_updater.update(
            memory.scope, memory_id=memory.id, key="", patch=Patch(values), expected_revision=0, options=WriteOptions()
        )
        self.settle()
        return written.memory

    def settle(self) -> None:
        """Wait until the indexes know everything."""
        self.app.indexer.when_reached(newest_position(self.app)).result(timeout=30)

    def by_id(self, memory_id: str, scope: Scope = ADA) -> Memory:
        """Return a memory by its id."""
        return self.app.as_of_reader.reads.get([memory_id], reach=Reach.from_scope(scope))[memory_id]

    def stored(self, memory: Memory) -> Memory:
        """Return a memory as it is now."""
        reach = Reach(memory.scope.owner, (memory.scope.project_id,))
        return self.app.as_of_reader.reads.get([memory.id], reach=reach)[memory.id]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path) as one:
        yield one


@contextmanager
def opened(directory: Path, **settings: Any) -> Iterator[Desk]:
    """Open an engine with these settings."""
    clock = Clock()
    chosen: dict[str, Any] = {
        "metadata": SQLITE,
        "vectors": IN_MEMORY,
        "lexical": IN_MEMORY,
        "embedder": {"backend": "wordllama"},
        "indexing": SLOW_UPKEEP,
        "maintenance": {"interval_minutes": 0},
    }
    chosen |= settings
    loaded = load_settings(data_dir=directory / "data", **chosen)
    with running(loaded, now=clock) as application:
        yield Desk(application, clock)
