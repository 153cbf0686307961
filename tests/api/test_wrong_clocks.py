"""Two servers over one PostgreSQL whose clocks differ by minutes: erasures hold, and later writes are admitted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import batch, header
from tests.support.postgres_server import schema
from tests.support.rpc import TIMEOUT, create, list_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.until import until
from tests.support.user_data import erase

SKEW = timedelta(minutes=5)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stubs, Stubs]]:
    """Two servers; the clock of the first is five minutes ahead of that of the second."""
    folder = tmp_path_factory.mktemp("clocks")
    with schema() as url, ExitStack() as stack:

        def start(name: str, skew: timedelta) -> Stubs:
            def clock() -> datetime:
                return datetime.now(UTC) + skew

            metadata = {"backend": "sql", "options": {"url": url}}
            return stack.enter_context(served(folder / name, now=clock, call_now=clock, metadata=metadata))

        yield start("ahead", SKEW), start("right", timedelta(0))


@pytest.mark.parametrize("is_ahead", [True, False])
def test_an_import_that_began_before_an_erasure_stores_nothing_after_it(
    servers: tuple[Stubs, Stubs], user: str, *, is_ahead: bool
) -> None:
    """Whichever server takes it."""
    writer, eraser = servers if is_ahead else servers[::-1]
    scope = types_pb.Scope(user_id=user)
    is_erased = threading.Event()

    def requests() -> Iterator[memory_pb.ImportMemoriesRequest]:
        yield header(scope)
        yield batch(0, ["before"])
        assert is_erased.wait(TIMEOUT)
        yield batch(1, ["after"])

    def send() -> None:
        with suppress(grpc.RpcError):
            list(writer.memory.ImportMemories(requests(), timeout=TIMEOUT))

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        until(lambda: list_all(eraser, scope))
        try:
            assert erase(eraser, user, confirm=True).clean
        finally:
            is_erased.set()
        sending.result()

    assert list_all(eraser, scope) == []


@pytest.mark.parametrize("is_ahead", [True, False])
def test_an_erased_user_may_be_written_at_once(servers: tuple[Stubs, Stubs], user: str, *, is_ahead: bool) -> None:
    """Through the other server, whichever it is."""
    writer, eraser = servers if is_ahead else servers[::-1]
    scope = types_pb.Scope(user_id=user)
    create(writer, scope, "before")
    assert erase(eraser, user, confirm=True).clean

    create(writer, scope, "after")
    assert [memory.content for memory in list_all(eraser, scope)] == ["after"]
