"""ImportUser: pieces of a file in, progress out, neither waiting for the other.

The next piece is read while the batch before is being stored, as in `memsvc.server.streams.memory_import`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.user_data import Issue, TransferProgress
from memsvc.domain.write_requests import WaitFor
from memsvc.engine.user_data.import_user import UserImport
from memsvc.engine.user_data.parser import Batch
from memsvc.server import call_context
from memsvc.server.convert.enums import IMPORT_ISSUE_REASON, WAIT_FOR
from memsvc.server.convert.scope import scope_from
from memsvc.server.convert.tokens import consistency_token
from memsvc.server.server_context import ServerContext
from memsvc.server.streams.memory_import import commit_batches
from memsvc.server.validate.transfers import check_import_user_header
from memsvc.v1 import transfer_pb2 as pb

PROGRESS_SECONDS = 1.0
ISSUES = 500
UNTOLD_ISSUES = 8_192
"""So many issues may wait to be told before storing pauses."""


class UserImportStream:
    """One stream of an import of a user."""

    def __init__(self, edge: ServerContext, requests: AsyncIterator[pb.ImportUserRequest]) -> None:
        self._edge = edge
        self._requests = requests
        self._progress = TransferProgress()
        self._untold: deque[Issue] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._started = 0.0

    async def responses(self) -> AsyncGenerator[pb.ImportUserResponse, None]:
        """Store what comes, and tell how far it is: at once, after each batch, each second, and at the end.

        Raises:
            InvalidRequestError: The messages are out of order, or the file is wrong; what came before is stored.
        """
        header = await self._header()
        run = self._edge.application.user_importing.begin(scope_from(header.scope, call_context.principal.get()))
        self._started = time.monotonic()
        yield self._response()
        task = asyncio.create_task(self._store_all(run, header))
        try:
            while not task.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROGRESS_SECONDS):
                        await self._changed.wait()
                self._changed.clear()
                if not task.done():
                    yield self._response()
            while len(self._untold) > ISSUES:
                yield self._response()
            if task.exception() is not None:
                # Who sent a bad file still learns what became of its good part.
                yield self._response()
            task.result()
            yield self._response(done=True)
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _header(self) -> pb.ImportUserHeader:
        async for request in self._requests:
            if request.WhichOneof("part") == "header":
                check_import_user_header(request.header)
                return request.header
            break
        raise InvalidRequestError([Violation("header", "must be the first message")])

    async def _store_all(self, run: UserImport, header: pb.ImportUserHeader) -> None:
        ready: asyncio.Queue[Batch | None] = asyncio.Queue(maxsize=1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_each(run, ready))
                group.create_task(commit_batches(run, ready, self._edge.executors.write, self._note))
            if WAIT_FOR.given(header.wait_for, WaitFor.STORED) is WaitFor.INDEXED and self._progress.position:
                await self._edge.waits.stored(self._progress.position)
        except ExceptionGroup as failures:
            # Either task ends the other.
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        finally:
            self._changed.set()

    async def _read_each(self, run: UserImport, ready: asyncio.Queue[Batch | None]) -> None:
        async for request in self._requests:
            if request.WhichOneof("part") != "data":
                await ready.join()
                raise InvalidRequestError([Violation("data", "must be set in every message after the header")])
            await self._hand_over(run, request.data, ready)
        await self._hand_over(run, None, ready)
        await ready.put(None)

    async def _hand_over(self, run: UserImport, data: bytes | None, ready: asyncio.Queue[Batch | None]) -> None:
        batches, error = await self._edge.executors.write.proceed(_read, run, data)
        for batch in batches:
            await ready.put(batch)
        if error is not None:
            # What came before the bad line is stored, and told.
            await ready.join()
            raise error

    async def _note(self, reached: TransferProgress) -> None:
        self._untold.extend(reached.issues)
        self._progress = reached
        self._changed.set()
        while len(self._untold) > UNTOLD_ISSUES:
            self._room.clear()
            await self._room.wait()

    def _response(self, *, done: bool = False) -> pb.ImportUserResponse:
        issues = [self._untold.popleft() for _ in range(min(len(self._untold), ISSUES))]
        self._room.set()
        progress, seconds = self._progress, time.monotonic() - self._started
        known = sum(progress.stored.values()) + progress.unchanged + progress.skipped
        return pb.ImportUserResponse(
            line_count=progress.lines,
            total_count=progress.total,
            stored_counts={kind.value: count for kind, count in progress.stored.items() if count},
            unchanged_count=progress.unchanged,
            skipped_count=progress.skipped,
            vector_count=progress.vectors,
            issues=[_issue_to_proto(issue) for issue in issues],
            records_per_second=known / seconds if known and seconds else 0.0,
            done=done,
            consistency_token=consistency_token(progress.position) if progress.position else "",
        )


def _read(run: UserImport, data: bytes | None) -> tuple[list[Batch], InvalidRequestError | None]:
    """Return the batches that a piece completes, and what is wrong with the line after them."""
    batches: list[Batch] = []
    try:
        batches.extend(run.finish() if data is None else run.feed(data))
    except InvalidRequestError as error:
        return batches, error
    return batches, None


def _issue_to_proto(issue: Issue) -> pb.ImportIssue:
    return pb.ImportIssue(
        line=issue.line,
        kind=issue.kind,
        id=issue.id,
        reason=IMPORT_ISSUE_REASON.to_proto[issue.trouble],
        message=issue.message,
        in_the_way=issue.in_the_way,
    )
