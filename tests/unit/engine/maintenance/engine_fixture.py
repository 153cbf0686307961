"""A whole engine with a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline, to_micros
from memsvc.domain.diagnostics import IndexKind
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not, Range
from memsvc.domain.maintenance import (
    EVERYBODY,
    DueChange,
    MaintenancePlan,
    MaintenanceScope,
    UpkeepProgress,
    UpkeepStep,
)
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Mode, Order, SearchQuery, Selection
from memsvc.domain.write_requests import Draft, Patch, WriteOptions
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from tests.support.sqlite_store import SQLITE
from tests.unit.engine.memories.write_path import Clock
from tests.unit.engine.support import newest_position

IN_MEMORY = {"backend": "in-memory"}
ADA = Scope("ada", project_id="apollo")
BOB = Scope("bob")


@dataclass(frozen=True)
class House:
    """An engine, and what tests of upkeep do with it."""

    application: Services
    clock: Clock

    def create(self, content: str, scope: Scope = ADA, **fields: Any) -> Memory:
        """Store a memory; a moment passes."""
        written = self.application.memory_creator.create(scope, Draft(content, **fields), WriteOptions())
        self.clock.advance(seconds=1)
        return written.memory

    def read(self, memory: Memory, times: int = 1) -> None:
        """Read a memory so many times, an hour apart each."""
        for _ in range(times):
            self.application.memory_reader.get(memory.scope, memory.id)
            self.clock.advance(hours=1)

    def update(self, memory: Memory, **values: Any) -> Memory:
        """Change a memory."""
        revise = self.application.memory_updater.update
        return revise(
            memory.scope, memory_id=memory.id, key="", patch=Patch(values), expected_revision=0, options=WriteOptions()
        ).memory

    def restore(self, memory: Memory) -> Memory:
        """Restore a memory."""
        restore = self.application.memory_updater.restore
        return restore(memory.scope, memory.id, expected_revision=0, options=WriteOptions()).memory

    def run(
        self, *kinds: UpkeepStep, area: MaintenanceScope = EVERYBODY, doing: MaintenancePlan = MaintenancePlan.PERFORM
    ) -> tuple[list[DueChange], UpkeepProgress]:
        """Run upkeep; return all changes and how it ended."""
        told = list(self.application.maintenance.run(area, kinds, doing))
        self.clock.advance(seconds=1)
        return [change for progress in told for change in progress.changes], told[-1]

    def now(self, memory: Memory) -> Memory:
        """Return a memory as it is stored now, without counting that as a read."""
        return self.all_of(memory.scope, memory.id)[memory.id]

    def all_of(self, scope: Scope, *ids: str) -> dict[str, Memory]:
        """Return memories as they are stored now."""
        return self.application.as_of_reader.reads.get(ids, reach=Reach.from_scope(scope))

    def listed(self, scope: Scope = ADA) -> list[str]:
        """Return the ids of what a list shows that asks for nothing special."""
        page, _ = self.application.memory_reader.page(
            scope, Selection(_in_use(self.clock)), order=Order(), after=None, limit=100
        )
        return [memory.id for memory in page]

    def found(self, text: str, scope: Scope = ADA, mode: Mode = Mode.HYBRID) -> list[str]:
        """Return the ids of what a search finds once the indexes know all."""
        self.settle()
        query = replace(SearchQuery(scope=scope, text=text), mode=mode, selection=Selection(_in_use(self.clock)))
        return [hit.memory.id for hit in self.application.search.search(query, Deadline()).hits]

    def settle(self) -> None:
        """Wait until the indexes have taken in every change."""
        head = newest_position(self.application)
        self.application.indexer.when_reached(head).result(timeout=30)

    def differences(self) -> list[object]:
        """Return in what the indexes differ from the store."""
        self.settle()
        return [row for kind in IndexKind for row in self.application.reindex.compare(kind).rows]


def _in_use(clock: Clock) -> Filter:
    """Return what lists and searches ask for that ask for nothing special."""
    expired = Range(Field.EXPIRE_TIME, at_most=to_micros(clock()))
    return And((AnyOf(Field.STATUS, (Status.ACTIVE.value,)), Not(expired)))


@contextmanager
def open_house(directory: Path, clock: Clock | None = None, **maintenance: Any) -> Iterator[House]:
    """Open a house on SQLite and the reference indexes; *maintenance* are settings. Nothing runs by itself."""
    clock = clock or Clock()
    settings = load_settings(
        data_dir=directory / "data",
        metadata=SQLITE,
        vectors=IN_MEMORY,
        lexical=IN_MEMORY,
        embedder=IN_MEMORY,
        indexing={"upkeep_seconds": 3600, "access_flush_seconds": 3600},
        maintenance={"interval_minutes": 0} | maintenance,
    )
    with running(settings, now=clock) as application:
        yield House(application, clock)
