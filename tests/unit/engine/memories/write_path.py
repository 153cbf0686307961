"""A write path over a real store, with a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.write_requests import Draft, OnDuplicate, WriteOptions, WriteResult
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentExecutor
from memsvc.engine.conflicts.resolution import ConflictResolver
from memsvc.engine.memories.bulk_import import BulkImporter
from memsvc.engine.memories.create import MemoryCreator
from memsvc.engine.memories.lookup import AccessCounts, MemoryReader
from memsvc.engine.memories.summaries import SummaryLengths, SummaryUpdater
from memsvc.engine.memories.supersede import MemorySuperseder
from memsvc.engine.memories.update import MemoryUpdater
from memsvc.engine.memories.upsert import Upserter
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.metadata import MetadataStore
from memsvc.testing.factories import NOW
from memsvc.text.chunking import count_tokens
from tests.support.sqlite_store import sqlite_store

ADA = Scope("ada", project_id="apollo")
DIMENSION = 4
MODEL = "toy"


class Clock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **parts: float) -> datetime:
        self.time += timedelta(**parts)
        return self.time


@dataclass(frozen=True)
class Writing:
    """The write path, put together."""

    committer: GroupCommitter
    accesses: AccessCounts
    remember: MemoryCreator
    revise: MemoryUpdater
    importing: BulkImporter
    supersede: MemorySuperseder
    resolve: ConflictResolver


@dataclass(frozen=True)
class Desk:
    """Everything a test of the write path needs."""

    store: MetadataStore
    writing: Writing
    recollect: MemoryReader
    clock: Clock

    def create(self, content: str, scope: Scope = ADA, *, request_id: str = "", **fields: Any) -> WriteResult:
        on_duplicate = fields.pop("on_duplicate", OnDuplicate.RETURN_EXISTING)
        on_conflict = fields.pop("on_conflict", ConflictPolicy.MARK)
        options = WriteOptions(request_id=request_id, on_duplicate=on_duplicate, on_conflict=on_conflict)
        return self.writing.remember.create(scope, Draft(content, **fields), options)

    def stored(self, memory_id: str, scope: Scope = ADA) -> Memory | None:
        return self.store.memories.get([memory_id], reach=Reach.from_scope(scope)).get(memory_id)

    def total(self, scope: Scope = ADA) -> int:
        return self.store.memories.counts(reach=Reach.from_scope(scope)).total


@contextmanager
def open_desk(directory: Path, clock: Clock | None = None) -> Iterator[Desk]:
    """Open a desk; the same directory again is the same data."""
    clock = clock or Clock()
    with sqlite_store(directory, clock) as store:
        writing = _assembled(store, clock)
        try:
            yield Desk(store, writing, MemoryReader(store.memories, writing.accesses), clock)
            writing.accesses.flush()
        finally:
            writing.committer.close()


def _assembled(store: MetadataStore, clock: Clock) -> Writing:
    committer = GroupCommitter(store)
    accesses = AccessCounts(committer, clock)
    memory_builder = MemoryBuilder(model=MODEL, dimension=DIMENSION, now=clock, search_priority=SearchPriority())
    record_builder = RecordBuilder(memory_builder, store.feed)
    upserter = Upserter(memory_builder, record_builder)
    requests = IdempotentExecutor(committer, store.memories, store.conflicts)
    return Writing(
        committer=committer,
        accesses=accesses,
        remember=MemoryCreator(memory_builder, upserter, requests, accesses),
        revise=MemoryUpdater(
            memory_builder,
            record_builder,
            requests,
            store.memories,
            summary_updater=SummaryUpdater(
                memory_builder,
                record_builder,
                Redactor(is_on=True),
                SummaryLengths(count_tokens, messages=500, period=500, log=200),
            ),
        ),
        importing=BulkImporter(committer, memory_builder, upserter, accesses, SearchPriority()),
        supersede=MemorySuperseder(memory_builder, record_builder, requests, store.memories),
        resolve=ConflictResolver(memory_builder, record_builder, requests, store),
    )
