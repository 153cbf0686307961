"""A desk with an archive: writes by a clock that is moved by hand, and all that looks back or goes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memsvc.domain.clock import Deadline
from memsvc.domain.history import AsOf, Difference, RollbackReport
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.search import Order, PageCursor, Selection
from memsvc.domain.write_requests import Patch, WriteOptions, WriteResult
from memsvc.engine.history.as_of_reads import AsOfReader
from memsvc.engine.history.checkpoint_rollback import CheckpointRollback
from memsvc.engine.history.checkpoints import CheckpointService
from memsvc.engine.records.memory_builder import NO_REDACTOR, MemoryBuilder, RecordBuilder
from memsvc.engine.runtime.search_priority import SearchPriority
from tests.unit.engine.memories.write_path import ADA, DIMENSION, MODEL, Desk, open_desk

PLAIN = WriteOptions()


@dataclass(frozen=True)
class Archive:
    """Everything a test of the past needs. Every write takes a second."""

    desk: Desk
    retrospect: AsOfReader
    checkpoints: CheckpointService
    rollbacks: CheckpointRollback

    @property
    def now(self) -> datetime:
        return self.desk.clock.time

    def tick(self) -> datetime:
        """Let a second pass, and return the moment before."""
        before = self.now
        self.desk.clock.advance(seconds=1)
        return before

    def create(self, content: str, scope: Scope = ADA, **fields: Any) -> Memory:
        self.tick()
        return self.desk.create(content, scope, **fields).memory

    def update(self, memory: Memory, scope: Scope = ADA, **values: Any) -> Memory:
        self.tick()
        revise = self.desk.writing.revise
        return revise.update(
            scope, memory_id=memory.id, key="", patch=Patch(values), expected_revision=0, options=PLAIN
        ).memory

    def delete(self, memory: Memory, scope: Scope = ADA, *, hard: bool = False) -> Memory:
        self.tick()
        revise = self.desk.writing.revise
        return revise.delete(scope, memory.id, hard=hard, expected_revision=0, options=PLAIN).memory

    def restore(self, memory: Memory, scope: Scope = ADA) -> Memory:
        self.tick()
        return self.desk.writing.revise.restore(scope, memory.id, expected_revision=0, options=PLAIN).memory

    def rollback(
        self, memory: Memory, revision: int, scope: Scope = ADA, *, expected: int = 0, request_id: str = ""
    ) -> WriteResult:
        self.tick()
        reach = Reach.from_scope(scope)
        return self.desk.writing.revise.rollback(
            scope,
            memory.id,
            self.desk.store.memories.revision(memory.id, revision, reach=reach),
            revision=revision,
            expected_revision=expected,
            options=WriteOptions(request_id=request_id),
        )

    def at(self, memory_id: str, moment: datetime, scope: Scope = ADA) -> Memory:
        return self.retrospect.get(scope, memory_id, AsOf(known_time=moment))

    def listed(
        self, moment: datetime, scope: Scope = ADA, *, selection: Selection | None = None, size: int = 3, **order: Any
    ) -> list[Memory]:
        """Return all of a list as of a moment, read page by page."""
        found: list[Memory] = []
        after: PageCursor | None = None
        while True:
            page, after = self.retrospect.page(
                scope, selection or Selection(), moment=moment, order=Order(**order), after=after, limit=size
            )
            found += page
            if after is None:
                return found

    def name_now(self, name: str, scope: Scope = ADA) -> datetime:
        """Name the present moment, let time pass, and return the moment."""
        made = self.checkpoints.create(scope, name, note="", known_time=None, request_id="")
        self.tick()
        return made.known_time

    def differences(self, name: str, scope: Scope = ADA, size: int = 2) -> list[Difference]:
        """Return all differences to a checkpoint, read page by page."""
        found: list[Difference] = []
        after: PageCursor | None = None
        while True:
            page, after = self.checkpoints.differences(scope, name, after=after, limit=size)
            found += page
            if after is None:
                return found

    def roll_back_to(self, name: str, scope: Scope = ADA, *, request_id: str = "") -> RollbackReport:
        self.tick()
        report = self.rollbacks.run(scope, name, request_id=request_id, deadline=Deadline())
        self.tick()
        return report


@contextmanager
def open_archive(directory: Path) -> Iterator[Archive]:
    """Open an archive; the same directory again is the same data."""
    with open_desk(directory) as desk:
        committer = desk.writing.committer
        memory_builder = MemoryBuilder(
            model=MODEL, dimension=DIMENSION, now=desk.clock, search_priority=SearchPriority()
        )
        yield Archive(
            desk=desk,
            retrospect=AsOfReader(desk.store.memories),
            checkpoints=CheckpointService(desk.store, committer, desk.clock, NO_REDACTOR),
            rollbacks=CheckpointRollback(
                desk.store, committer, RecordBuilder(memory_builder, desk.store.feed), desk.clock
            ),
        )
