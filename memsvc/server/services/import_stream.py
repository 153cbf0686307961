"""Import streams: batches in, progress out, neither waiting for the other.

A client may send all its batches before it reads a single response. So batches are prepared by a task of their own and
committed by another, which is at the batch before. A response is built from the current state when there is room to
send one; only issues not yet reported are queued, and committing pauses when there are too many of those.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from memsvc.domain import limits
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.domain.errors import InvalidRequestError, QuotaExceededError, Violation
from memsvc.domain.user_data import ImportIssue, TransferProgress
from memsvc.domain.write_requests import ImportProgress, RejectedItem, WaitFor
from memsvc.engine.memories.bulk_import import ImportRun, PreparedBatch
from memsvc.engine.user_data.import_user import UserImport
from memsvc.engine.user_data.parser import ImportBatch as UserBatch
from memsvc.server import call_context
from memsvc.server.error_status import rejected_from_error
from memsvc.server.requests.lifecycle import import_user_header
from memsvc.server.requests.memory import batch_memory, import_memories_batch, import_memories_header
from memsvc.server.responses.lifecycle import import_user_response
from memsvc.server.responses.memory import import_memories_response
from memsvc.server.server_context import KEY_NOT_STORED, ServerContext
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

PROGRESS_SECONDS = 1.0
USER_ISSUES = 500
"""The number of issues in one response of ImportUser."""
MAX_UNREPORTED = 8_192
"""The number of unreported issues at which committing pauses."""

Message = TypeVar("Message", memory_pb.ImportMemoriesRequest, lifecycle_pb.ImportUserRequest)
Response = TypeVar("Response")
Batch = TypeVar("Batch")
Progress = TypeVar("Progress", ImportProgress, TransferProgress)
IssueT = TypeVar("IssueT")
Batch_contra = TypeVar("Batch_contra", contravariant=True)
Progress_co = TypeVar("Progress_co", covariant=True)


class Run(Protocol[Batch_contra, Progress_co]):
    """An import under way in the engine."""

    def store(self, batch: Batch_contra, /) -> Progress_co:
        """Begin to store a batch; return the progress once the one before is durable."""
        ...

    def settle(self) -> Progress_co:
        """Return the progress once all that was begun is durable."""
        ...


class ImportStream(ABC, Generic[Message, Batch, Progress, IssueT, Response]):
    """One stream of an import: its tasks, its progress, and the issues not yet reported."""

    issues_per_response: int

    def __init__(self, server: ServerContext, messages: AsyncIterator[Message], progress: Progress) -> None:
        """Read *messages*; *progress* is that before the first batch."""
        self._server = server
        self._messages: AsyncIterator[Message] = messages
        self._progress: Progress = progress
        self._unreported: deque[IssueT] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._started = 0.0

    async def responses(self) -> AsyncGenerator[Response, None]:
        """Store the batches, and yield the progress: at once, after each batch, each second, and at the end.

        Raises:
            InvalidRequestError: The messages are out of order, or one of them is wrong; those before it are stored.
        """
        header = await self._header()
        with self._server.slots.imports.acquired(header.header.scope.user_id):
            # The place is kept until what is under way has ended.
            async with aclosing(self._stored(header)) as responses:
                async for response in responses:
                    yield response

    async def _stored(self, header: Message) -> AsyncGenerator[Response, None]:
        run, wait_for = await self._begin(header)
        self._started = time.monotonic()
        yield self._next_response()
        task = asyncio.create_task(self._store_all(run, wait_for))
        try:
            while not task.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROGRESS_SECONDS):
                        await self._changed.wait()
                self._changed.clear()
                if not task.done():
                    yield self._next_response()
            while len(self._unreported) > self.issues_per_response:
                yield self._next_response()
            if task.exception() is not None:
                # The client of a bad file still learns the results of the good part.
                yield self._next_response()
            task.result()
            yield self._next_response(done=True)
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                # No one reads the error of a stream that the client left: asyncio would log it with a traceback.
                task.exception()

    @abstractmethod
    async def _begin(self, message: Message) -> tuple[Run[Batch, Progress], WaitFor]:
        """Open the import that the header in *message* announces."""

    @abstractmethod
    async def _prepare_each(self, ready: asyncio.Queue[Batch | None]) -> None:
        """Put every batch of the messages into *ready*, each while the one before is being stored, then None."""

    @abstractmethod
    def _issues(self, progress: Progress) -> Sequence[IssueT]:
        """Return the issues of the latest batch."""

    @abstractmethod
    def _response(self, issues: Sequence[IssueT], *, seconds: float, done: bool) -> Response:
        """Return the current progress as a message, *seconds* after the header."""

    def _refused(self, error: QuotaExceededError) -> Sequence[IssueT]:
        """Return the issue of the first item that a quota keeps out."""
        del error
        return ()

    def _reached(self, progress: Progress) -> Progress:
        """Return the progress as this stream reports it."""
        return progress

    async def _header(self) -> Message:
        async for message in self._messages:
            if message.WhichOneof("part") == "header":
                return message
            break
        raise InvalidRequestError([Violation("header", "must be the first message")])

    async def _store_all(self, run: Run[Batch, Progress], wait_for: WaitFor) -> None:
        ready: asyncio.Queue[Batch | None] = asyncio.Queue(maxsize=1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._prepare_each(ready))
                group.create_task(self._commit_each(run, ready))
            if wait_for is WaitFor.INDEXED and self._progress.position:
                await self._server.waits.indexed(self._progress.position)
        except ExceptionGroup as failures:
            # Either task ends the other.
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        finally:
            self._changed.set()

    async def _commit_each(self, run: Run[Batch, Progress], ready: asyncio.Queue[Batch | None]) -> None:
        """Store batch after batch until None comes, and record each progress.

        When no batch is ready, the one that was begun is recorded at once. A batch counts as done (`Queue.task_done`)
        then, or when the next one was begun: so joining the queue waits until everything is recorded.
        """
        try:
            await self._commit_ready(run, ready)
        except QuotaExceededError as error:
            self._unreported.extend(self._refused(error))
            raise

    async def _commit_ready(self, run: Run[Batch, Progress], ready: asyncio.Queue[Batch | None]) -> None:
        executor = self._server.executors.write
        while (batch := await ready.get()) is not None:
            await self._record(await executor.resume(run.store, batch))
            if ready.empty():
                await self._record(await executor.resume(run.settle))
            ready.task_done()
        await self._record(await executor.resume(run.settle))

    async def _record(self, progress: Progress) -> None:
        self._unreported.extend(self._issues(progress))
        self._progress = self._reached(progress)
        self._changed.set()
        while len(self._unreported) > MAX_UNREPORTED:
            self._room.clear()
            await self._room.wait()

    def _next_response(self, *, done: bool = False) -> Response:
        count = min(len(self._unreported), self.issues_per_response)
        issues = [self._unreported.popleft() for _ in range(count)]
        self._room.set()
        return self._response(issues, seconds=time.monotonic() - self._started, done=done)


class MemoryImportStream(
    ImportStream[
        memory_pb.ImportMemoriesRequest,
        PreparedBatch,
        ImportProgress,
        tuple[int, RejectedItem | str],
        memory_pb.ImportMemoriesResponse,
    ]
):
    """One stream of ImportMemories. Its counts are its own, not those of earlier streams of the same import."""

    issues_per_response = limits.BATCH

    def __init__(self, server: ServerContext, messages: AsyncIterator[memory_pb.ImportMemoriesRequest]) -> None:
        super().__init__(server, messages, ImportProgress())
        self._before = ImportProgress()
        self._run: ImportRun
        self._scope: types_pb.Scope

    async def _begin(self, message: memory_pb.ImportMemoriesRequest) -> tuple[ImportRun, WaitFor]:
        header = import_memories_header(message.header)
        self._scope = message.header.scope
        self._run = await self._server.executors.write.run(
            self._server.application.bulk_importer.begin,
            header.scope,
            request_id=header.request_id,
            on_duplicate=header.on_duplicate,
            on_conflict=header.on_conflict,
        )
        self._before = self._run.progress
        self._progress = self._reached(self._run.progress)
        return self._run, header.wait_for

    async def _prepare_each(self, ready: asyncio.Queue[PreparedBatch | None]) -> None:
        run = self._run
        end = run.progress.next_index
        try:
            async for message in self._messages:
                batch = import_memories_batch(message, next_index=max(end, run.progress.next_index))
                await ready.put(await self._server.executors.write.resume(self._prepare, batch))
                end = max(end, batch.first_index + len(batch.memories))
        except InvalidRequestError:
            # The batches before the bad message are stored, and reported.
            await ready.join()
            raise
        await ready.put(None)

    def _prepare(self, batch: memory_pb.ImportBatch) -> PreparedBatch:
        run, application = self._run, self._server.application
        dimension, priority = application.dimension, application.search_priority
        # Memories that are durable already are not decoded again: the engine passes them over by their index.
        skipped = min(max(0, run.progress.next_index - batch.first_index), len(batch.memories))
        drafts = []
        for entry in batch.memories[skipped:]:
            priority.yield_to_searches()
            drafts.append(batch_memory(entry, self._scope, dimension=dimension))
        return run.prepare(batch.first_index + skipped, drafts)

    def _issues(self, progress: ImportProgress) -> Sequence[tuple[int, RejectedItem | str]]:
        if progress.unstored_keys:
            call_context.note(KEY_NOT_STORED)
        return sorted((*progress.failures, *progress.unstored_keys), key=itemgetter(0))

    def _refused(self, error: QuotaExceededError) -> Sequence[tuple[int, RejectedItem | str]]:
        return [(self._run.progress.next_index, rejected_from_error(error))]

    def _reached(self, progress: ImportProgress) -> ImportProgress:
        before = self._before
        return replace(
            progress,
            received=progress.received - before.received,
            created=progress.created - before.created,
            updated=progress.updated - before.updated,
            duplicates=progress.duplicates - before.duplicates,
            failed=progress.failed - before.failed,
            conflicts=progress.conflicts - before.conflicts,
            redacted=progress.redacted - before.redacted,
            failures=(),
            unstored_keys=(),
        )

    def _response(
        self, issues: Sequence[tuple[int, RejectedItem | str]], *, seconds: float, done: bool
    ) -> memory_pb.ImportMemoriesResponse:
        return import_memories_response(self._progress, issues, seconds=seconds, done=done)


class UserImportStream(
    ImportStream[
        lifecycle_pb.ImportUserRequest, UserBatch, TransferProgress, ImportIssue, lifecycle_pb.ImportUserResponse
    ]
):
    """One stream of ImportUser: the pieces of a file, whose lines are parsed into batches."""

    issues_per_response = USER_ISSUES

    def __init__(self, server: ServerContext, messages: AsyncIterator[lifecycle_pb.ImportUserRequest]) -> None:
        super().__init__(server, messages, TransferProgress())
        self._run: UserImport

    async def _begin(self, message: lifecycle_pb.ImportUserRequest) -> tuple[UserImport, WaitFor]:
        scope, wait_for = import_user_header(message.header)
        is_trusted = call_context.principal.get().role is ApiKeyRole.ADMIN
        self._run = self._server.application.user_importer.begin(
            scope, has_trusted_vectors=is_trusted, service=self._server.options.service
        )
        return self._run, wait_for

    async def _prepare_each(self, ready: asyncio.Queue[UserBatch | None]) -> None:
        async for message in self._messages:
            if message.WhichOneof("part") != "data":
                await ready.join()
                raise InvalidRequestError([Violation("data", "must be set in every message after the header")])
            await self._parse(message.data, ready)
        await self._parse(None, ready)
        await ready.put(None)

    async def _parse(self, data: bytes | None, ready: asyncio.Queue[UserBatch | None]) -> None:
        """Put the batches that a piece completes into *ready*; without *data* the file is at its end."""
        batches, error = await self._server.executors.write.resume(_completed_batches, self._run, data)
        for batch in batches:
            await ready.put(batch)
        if error is not None:
            # The lines before the bad one are stored, and reported.
            await ready.join()
            raise error

    def _issues(self, progress: TransferProgress) -> Sequence[ImportIssue]:
        return progress.issues

    def _response(
        self, issues: Sequence[ImportIssue], *, seconds: float, done: bool
    ) -> lifecycle_pb.ImportUserResponse:
        return import_user_response(self._progress, issues, seconds=seconds, done=done)


def _completed_batches(run: UserImport, data: bytes | None) -> tuple[list[UserBatch], InvalidRequestError | None]:
    """Return the batches that a piece completes, and the violations of the line after them."""
    batches: list[UserBatch] = []
    try:
        batches.extend(run.finish() if data is None else run.feed(data))
    except InvalidRequestError as error:
        return batches, error
    return batches, None
