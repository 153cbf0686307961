"""Watching across crashes, restarts and slow reading, each with a server of its own."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from memsvc.client import AsyncMemsvc
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, Refusal, create, create_all, list_all, write
from tests.support.server_process import FAST, ServerProcess
from tests.support.watch import Reader, watching

SCOPE = types_pb.Scope(user_id="watch", project_id="p")
KILLS, WRITERS, UNTIL = 4, 6, 60
EVERYTHING = filters_pb.Filter(statuses=[1, 2, 3, 4, 5, 6, 7])  # type: ignore[list-item] # every status
LARGE = "x" * 300_000
LAG = 10


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that the test may kill."""
    with ServerProcess(tmp_path / "data") as running:
        yield running


class Writers:
    """Write and change memories until the server is gone, and remember what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: set[tuple[str, int]] = set()
        self.count = threading.Semaphore(0)

    def run(self, server: ServerProcess, seed: int) -> None:
        chance = random.Random(seed)
        with server.stubs() as stubs:
            try:
                while True:
                    one = write(stubs, SCOPE, f"{seed} {chance.random()}", wait_for=types_pb.WAIT_FOR_STORED).memory
                    self._note(one)
                    if chance.random() < 0.3:
                        request = memory_pb.DeleteMemoryRequest(
                            scope=SCOPE, id=one.id, wait_for=types_pb.WAIT_FOR_STORED
                        )
                        self._note(stubs.memory.DeleteMemory(request, timeout=TIMEOUT).memory)
            except grpc.RpcError as error:
                assert error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}, error

    def _note(self, memory: types_pb.Memory) -> None:
        self.acknowledged.add((memory.id, memory.revision))
        self.count.release()


@pytest.mark.timeout(600)
def test_every_committed_change_is_seen_once_across_kills(own: ServerProcess) -> None:
    """kill -9 amid writes, again and again: the watcher that resumes is told all that was committed, once, in order."""
    writers, told, cursor = Writers(), list[memory_pb.MemoryChange](), ""
    for kill in range(KILLS):
        with own.stubs() as stubs, watching(stubs, SCOPE, filter=EVERYTHING, cursor=cursor) as reader:
            with ThreadPoolExecutor(WRITERS + 1) as pool:
                runs = [pool.submit(writers.run, own, 100 * kill + number) for number in range(WRITERS)]
                ended = pool.submit(reader.broken)
                for _ in range(UNTIL):
                    writers.count.acquire()
                own.kill()
                for run in runs:
                    run.result()
                assert ended.result().code is grpc.StatusCode.UNAVAILABLE
            told, cursor = told + reader.changes, reader.cursor
        own.start()
    with own.stubs() as stubs, watching(stubs, SCOPE, filter=EVERYTHING, cursor=cursor) as reader:
        last = create(stubs, SCOPE, "the last")
        told += reader.until(last.id)
        stored = list_all(stubs, SCOPE, filter=EVERYTHING)

    seen = [(change.memory_id, change.revision) for change in told]
    assert len(seen) == len(set(seen))
    assert writers.acknowledged <= set(seen)
    committed = {(memory.id, number + 1) for memory in stored for number in range(memory.revision)}
    assert set(seen) == committed - {(last.id, 1)}
    revisions: dict[str, int] = {}
    for memory_id, revision in seen:
        assert revision == revisions.get(memory_id, 0) + 1
        revisions[memory_id] = revision


def test_a_cursor_of_another_store_is_refused(own: ServerProcess, tmp_path: Path) -> None:
    """The same user and filter at another service: its places are not ours."""
    with own.stubs() as stubs, watching(stubs, SCOPE) as reader:
        cursor = reader.cursor

    with ServerProcess(tmp_path / "other") as other, other.stubs() as stubs:
        with pytest.raises(grpc.RpcError) as caught, watching(stubs, SCOPE, cursor=cursor):
            pass

    assert Refusal.from_error(caught.value).fields == ("cursor",)


def test_a_cursor_whose_changes_are_gone_is_expired(tmp_path: Path) -> None:
    """CURSOR_EXPIRED says how long changes are kept and what to do; watching from the oldest goes on."""
    environment = {**FAST, "MEMSVC_INDEXING__OUTBOX_DAYS": "0.00000001"}
    with ServerProcess(tmp_path / "data", environment) as server:
        with server.stubs() as stubs, watching(stubs, SCOPE) as reader:
            start = reader.cursor
            create_all(stubs, SCOPE, ["a", "b"])
            reader.read(2)
            end = reader.cursor
        server.stop()  # which tidies a last time
        server.start()
        with server.stubs() as stubs:
            with pytest.raises(grpc.RpcError) as caught, watching(stubs, SCOPE, cursor=start):
                pass
            with (
                watching(stubs, SCOPE, cursor=end) as late,
                watching(stubs, SCOPE, start=memory_pb.WATCH_START_OLDEST) as old,
            ):
                one = create(stubs, SCOPE, "c")
                assert [reader.read(1)[0].memory_id for reader in (late, old)] == [one.id] * 2

    refusal = Refusal.from_error(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_EXPIRED")
    assert refusal.metadata == {"kept": "1e-08 days"}
    assert "ListMemories" in refusal.message


def test_a_stalled_reader_holds_up_nobody_and_is_told(tmp_path: Path) -> None:
    """Writers and other watchers go on; who comes back too late is told so, and loses nothing by resuming."""
    # Indexes that take little: what is written is large.
    plain = {f"MEMSVC_{port}__BACKEND": "in-memory" for port in ("EMBEDDER", "VECTORS", "LEXICAL")}
    environment = {**FAST, **plain, "MEMSVC_WATCH__MAX_LAG": str(LAG)}
    with ServerProcess(tmp_path / "data", environment) as server, server.stubs() as stubs, server.stubs() as lazy:
        with watching(lazy, SCOPE) as stalled, watching(stubs, SCOPE) as eager:
            written = []
            for number in range(4 * LAG):
                written.append(write(stubs, SCOPE, f"{LARGE} {number}", wait_for=types_pb.WAIT_FOR_STORED).memory.id)
                assert eager.read(1)[0].memory_id == written[-1]
            # Small ones, more than a page of them, so that there is more to read than is allowed.
            small = create_all(stubs, SCOPE, [f"{number}" for number in range(300)])
            written += [memory.id for memory in small]
            refusal = stalled.broken()
        with watching(lazy, SCOPE, cursor=stalled.cursor) as again:
            told = stalled.changes + again.read(len(written) - len(stalled.changes))

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "WATCH_TOO_SLOW")
    assert refusal.metadata == {"limit": str(LAG)}
    assert 0 < len(stalled.changes) < 4 * LAG
    assert [change.memory_id for change in told] == written


def test_too_many_watches_are_refused(tmp_path: Path) -> None:
    """The limit is told; a place that is given back can be taken."""
    environment = {**FAST, "MEMSVC_WATCH__MAX_STREAMS": "2"}
    with ServerProcess(tmp_path / "data", environment) as server, server.stubs() as stubs:
        with watching(stubs, SCOPE), watching(stubs, SCOPE) as second:
            with pytest.raises(grpc.RpcError) as caught, watching(stubs, SCOPE):
                pass
            second.call.cancel()
            _opened_at_last(stubs.memory.WatchMemories)

    refusal = Refusal.from_error(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
    assert refusal.retry_seconds == 1.0


def _opened_at_last(
    watch: grpc.UnaryStreamMultiCallable[memory_pb.WatchMemoriesRequest, memory_pb.WatchMemoriesResponse],
) -> None:
    """Open a watch as soon as the cancelled one is known to be gone."""
    while True:
        call = watch(memory_pb.WatchMemoriesRequest(scope=SCOPE), timeout=TIMEOUT)
        try:
            Reader(call).call.cancel()
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        else:
            return


def test_a_stop_ends_every_watch_with_a_word(own: ServerProcess) -> None:
    """All hundred, at once, with the reason and when to come back; the server exits cleanly."""
    with own.stubs() as stubs:
        calls = [
            stubs.memory.WatchMemories(memory_pb.WatchMemoriesRequest(scope=SCOPE), timeout=TIMEOUT) for _ in range(100)
        ]
        readers = [Reader(call) for call in calls]

        assert own.stop() == 0
        refusals = [reader.broken() for reader in readers]

    assert {(refusal.code, refusal.reason) for refusal in refusals} == {
        (grpc.StatusCode.UNAVAILABLE, "SERVER_STOPPING")
    }
    assert {refusal.retry_seconds for refusal in refusals} == {1.0}


def test_the_client_goes_on_by_itself_after_a_restart(tmp_path: Path) -> None:
    """Changes made before, between and after come in one stream, once each, whether stopped or killed."""
    socket = f"unix:{tmp_path / 's'}"
    with ServerProcess(tmp_path / "data", address=socket) as server:
        told = asyncio.run(_watched(server, socket))

    assert told == [f"change {number}" for number in range(6)]


async def _watched(server: ServerProcess, address: str) -> list[str]:
    told: list[str] = []
    async with AsyncMemsvc(address, user_id="watch") as client:
        stream = client.watch(heartbeats=True, heartbeat_seconds=1.0)
        await anext(stream)

        async def read() -> None:
            async for response in stream:
                if response.HasField("change"):
                    told.append(response.change.memory.content)
                    return

        for number in range(6):
            if number in {2, 4}:
                await asyncio.to_thread(server.kill if number == 2 else server.stop)
                await asyncio.to_thread(server.start)
                # The watch goes on by itself; a call may come before the connection is tried again.
                await client.wait_ready(TIMEOUT)
            await client.create(f"change {number}")
            await read()
        await stream.aclose()
    return told
