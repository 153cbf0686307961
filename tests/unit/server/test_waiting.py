"""Waiting for the indexes."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import DeadlineExceededError
from memsvc.domain.write_requests import BatchWriteResult, Outcome, RejectedItem, WaitFor, WriteResult
from memsvc.server import call_context
from memsvc.server.executors import Pending
from memsvc.server.server_context import KEY_NOT_STORED, NOT_INDEXED, IndexWait
from memsvc.testing.factories import memory
from memsvc.v1 import memory_service_pb2 as memory_pb


class IndexerStub:
    """An indexer that reaches what it is told to, and notes what was asked."""

    def __init__(self, *, reaches: bool) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.is_postponed = False
        self._reaches = reaches

    def when_applied(self, position: int, count: int = 1) -> Future[None]:
        """Note a wait for certain changes."""
        return self._future("written", position, count)

    def when_reached(self, position: int) -> Future[None]:
        """Note a wait for a position."""
        return self._future("reached", position, 0)

    def _future(self, what: str, position: int, count: int) -> Future[None]:
        self.asked.append((what, position, count))
        future: Future[None] = Future()
        if self._reaches:
            future.set_result(None)
        return future


def waits(indexer: IndexerStub) -> IndexWait:
    """Return a wait for that indexer."""
    return IndexWait(indexer)  # type: ignore[arg-type] # as much of an indexer as is used


WRITTEN = WriteResult(memory(), Outcome.CREATED, 5)


def test_a_stored_write_does_not_wait() -> None:
    """The indexer is not even asked."""
    indexer = IndexerStub(reaches=False)

    asyncio.run(waits(indexer).written(WRITTEN, WaitFor.STORED))

    assert indexer.asked == []


def test_an_indexed_write_waits_for_its_change() -> None:
    """By name, ahead of any backlog."""
    indexer = IndexerStub(reaches=True)

    asyncio.run(waits(indexer).written(WRITTEN, WaitFor.INDEXED))

    assert indexer.asked == [("written", 5, 1)]


def test_a_batch_waits_for_what_it_changed() -> None:
    """Duplicates and failures changed nothing."""
    indexer = IndexerStub(reaches=True)
    results = (WRITTEN, WriteResult(memory(), Outcome.DUPLICATE, 5), RejectedItem("INVALID_REQUEST", "bad"))

    asyncio.run(waits(indexer).batch_written(BatchWriteResult(results, 5), WaitFor.INDEXED))

    assert indexer.asked == [("written", 5, 1)]


def test_before_the_deadline_the_write_is_said_to_be_stored() -> None:
    """The caller must not think that nothing happened, so the reply comes while there is time."""

    async def late() -> tuple[str, bool, list[str] | None]:
        call_context.deadline.set(Deadline.after(1.0))
        call_context.notices.set([])
        notice = await waits(IndexerStub(reaches=False)).written(WRITTEN, WaitFor.INDEXED)
        return notice, call_context.deadline.get().has_passed(), call_context.notices.get()

    assert (NOT_INDEXED, False, [NOT_INDEXED]) == asyncio.run(late())


def test_a_write_does_not_wait_for_an_index_that_is_unavailable() -> None:
    """Not until the deadline, which is far away here."""

    async def postponed() -> str:
        indexer = IndexerStub(reaches=False)
        indexer.is_postponed = True
        return await waits(indexer).written(WRITTEN, WaitFor.INDEXED)

    assert NOT_INDEXED == asyncio.run(postponed())


def test_a_notice_of_the_wait_follows_that_of_the_write() -> None:
    """The response keeps what was noticed before, such as a key that was not stored; so does the metadata, once."""

    async def postponed() -> tuple[memory_pb.CreateMemoryResponse, list[str] | None]:
        indexer = IndexerStub(reaches=False)
        indexer.is_postponed = True
        call_context.notices.set([])
        for _ in range(2):
            call_context.note(KEY_NOT_STORED)
        response = memory_pb.CreateMemoryResponse(notice=KEY_NOT_STORED)
        answer = waits(indexer).after(response, WRITTEN, WaitFor.INDEXED)
        return (await answer if isinstance(answer, Pending) else answer), call_context.notices.get()

    response, noted = asyncio.run(postponed())
    assert response.notice == f"{KEY_NOT_STORED} {NOT_INDEXED}"
    assert noted == [KEY_NOT_STORED, NOT_INDEXED]


def test_an_import_reports_what_is_indexed_and_nothing_else() -> None:
    """Over the deadline it fails."""

    async def late() -> None:
        call_context.deadline.set(Deadline.after(0.01))
        await waits(IndexerStub(reaches=False)).indexed(5)

    with pytest.raises(DeadlineExceededError, match="durable"):
        asyncio.run(late())


def test_a_read_without_a_token_does_not_wait() -> None:
    """Position 0 asks for nothing."""
    indexer = IndexerStub(reaches=False)

    asyncio.run(waits(indexer).reached(0, "ada"))

    assert indexer.asked == []
