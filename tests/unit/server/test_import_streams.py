"""Imports whose client leaves while one of their tasks fails."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.user_data import ImportIssue, TransferProgress
from memsvc.domain.write_requests import WaitFor
from memsvc.server.services.import_stream import ImportStream
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb


class Nothing:
    """An import of nothing."""

    def store(self, batch: object, /) -> TransferProgress:
        """Store nothing."""
        raise NotImplementedError

    def settle(self) -> TransferProgress:
        """Return that nothing is stored."""
        return TransferProgress()


class RefusedStream(ImportStream[lifecycle_pb.ImportUserRequest, object, TransferProgress, ImportIssue, str]):
    """A stream whose second message turns out to be wrong while the call is cancelled."""

    issues_per_response = 1

    async def _begin(self, message: lifecycle_pb.ImportUserRequest) -> tuple[Nothing, WaitFor]:
        return Nothing(), WaitFor.STORED

    async def _prepare_each(self, ready: asyncio.Queue[object | None]) -> None:
        self._changed.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise InvalidRequestError([Violation("data", "must be set in every message after the header")])

    def _issues(self, progress: TransferProgress) -> Sequence[ImportIssue]:
        return progress.issues

    def _response(self, issues: Sequence[ImportIssue], *, seconds: float, done: bool) -> str:
        return "done" if done else "progress"


def test_an_error_that_nobody_waits_for_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The client of the wrong message left before the response: asyncio would report the task with a traceback."""

    async def messages() -> AsyncGenerator[lifecycle_pb.ImportUserRequest, None]:
        yield lifecycle_pb.ImportUserRequest()

    server: Any = SimpleNamespace(executors=SimpleNamespace(write=None))

    async def run() -> None:
        stream = RefusedStream(server, messages(), TransferProgress())
        responses = stream._stored(lifecycle_pb.ImportUserRequest())
        assert await anext(responses) == "progress"
        assert await anext(responses) == "progress"
        await responses.aclose()

    asyncio.run(run())
    gc.collect()
    assert "never retrieved" not in caplog.text
