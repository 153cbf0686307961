"""What the client does on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.rpc import code_pb2

from memsvc.client import AsyncMemsvc, Draft, Memsvc, MemsvcCallError
from memsvc.client.channel import MAX_REST_SECONDS, SERVICE_CONFIG
from memsvc.client.import_stream import BATCH_MEMORIES
from tests.unit.client.scripted_server import Memories, scripted_service

DRAFTS = BATCH_MEMORIES * 3 + 7


@pytest.fixture
def service() -> Memories:
    return Memories()  # type: ignore[abstract]  # the rest is UNIMPLEMENTED


@pytest.fixture
def address(service: Memories, tmp_path: Path) -> Iterator[str]:
    with scripted_service(service, tmp_path) as address:
        yield address


def drafts(count: int = DRAFTS) -> Iterator[Draft]:
    for number in range(count):
        yield {"content": f"memory {number}"}


def test_a_mutation_is_tried_again_with_the_same_request_id(service: Memories, address: str) -> None:
    """A call that finds the service unavailable is repeated with the id that it made for itself."""
    service.failing = 2

    with Memsvc(address, user_id="u") as client:
        reply = client.create("text")

    assert reply.memory.content == "text"
    assert len(service.request_ids) == 3
    assert len(set(service.request_ids)) == 1
    assert service.request_ids[0]


def test_a_call_that_is_cancelled_by_a_service_that_stops_is_repeated(service: Memories, address: str) -> None:
    """As one that finds it unavailable, imports included."""
    service.failure, service.failing, service.breaking = grpc.StatusCode.CANCELLED, 2, 2

    with Memsvc(address, user_id="u") as client:
        reply = client.create("text")
        *_, last = client.import_memories(drafts())

    assert reply.memory.content == "text"
    assert len(set(service.request_ids[:3])) == 1
    assert last.done


def test_tries_come_to_an_end(service: Memories, address: str) -> None:
    """After five tries the caller is told."""
    service.failing = 100

    with Memsvc(address, user_id="u") as client, pytest.raises(MemsvcCallError) as raised:
        client.create("text")

    assert raised.value.code is grpc.StatusCode.UNAVAILABLE
    assert len(service.request_ids) == 5


def test_a_call_that_is_refused_with_a_delay_is_repeated(service: Memories, address: str) -> None:
    """A rate limit delays calls, streams included, and repeats a write with the same request id."""
    with Memsvc(address, user_id="u") as client:
        service.limited = 2
        client.create("text")
        service.limited = 2
        [preview] = client.delete_memories()

    assert len(service.request_ids) == 3
    assert len(set(service.request_ids)) == 1
    assert preview.preview.matched_count == 3


def test_a_delay_beyond_the_timeout_is_not_waited_for(service: Memories, address: str) -> None:
    """The caller gets the error with the delay."""
    service.limited, service.retry_seconds = 1, 60.0

    with Memsvc(address, user_id="u") as client, pytest.raises(MemsvcCallError) as raised:
        client.create("text")

    assert (raised.value.code, raised.value.retry_seconds) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 60.0)
    assert len(service.request_ids) == 1


def test_a_call_is_tried_for_longer_than_the_connection_rests() -> None:
    """So it finds a service that is back, though gRPC had tried to connect right before that.

    gRPC makes both kinds of pauses up to a fifth shorter or longer, by chance.
    """
    [method] = SERVICE_CONFIG["methodConfig"]
    policy = method["retryPolicy"]
    first, most = (float(policy[name].rstrip("s")) for name in ("initialBackoff", "maxBackoff"))
    pauses = [min(first * policy["backoffMultiplier"] ** number, most) for number in range(policy["maxAttempts"] - 1)]

    assert 0.8 * sum(pauses) > 1.2 * MAX_REST_SECONDS


def test_two_mutations_are_two_requests(service: Memories, address: str) -> None:
    """Each call makes an id of its own."""
    with Memsvc(address, user_id="u") as client:
        client.create("one")
        client.create("two")

    assert len(set(service.request_ids)) == 2


def test_nobody_there_is_unavailable(tmp_path: Path) -> None:
    """A service that cannot be reached is a call error without a reason."""
    with Memsvc(f"unix:{tmp_path / 'nothing'}", user_id="u") as client, pytest.raises(MemsvcCallError) as raised:
        client.get("x")

    assert raised.value.code is grpc.StatusCode.UNAVAILABLE
    assert raised.value.reason == ""


def test_list_fetches_page_after_page(service: Memories, address: str) -> None:
    """The iterator goes over all pages, and fetches none before it is needed."""
    with Memsvc(address, user_id="u") as client:
        found = client.list()
        first = next(found)
        fetched_for_the_first = len(service.pages)
        rest = [memory.id for memory in found]

    assert first.id == "0-0"
    assert fetched_for_the_first == 1
    assert rest == ["0-1", "1-0", "1-1", "2-0", "2-1"]


def test_import_sends_batches_and_ends_with_done(service: Memories, address: str) -> None:
    """Drafts go up in batches; the last response is done and counts them all."""
    with Memsvc(address, user_id="u") as client:
        progress = list(client.import_memories(drafts()))

    assert [each.done for each in progress] == [*[False] * (len(progress) - 1), True]
    assert progress[-1].created_count == DRAFTS
    assert service.streams == [[0, BATCH_MEMORIES, BATCH_MEMORIES * 2, BATCH_MEMORIES * 3]]


def test_import_of_nothing_is_done_at_once(address: str) -> None:
    """An import without drafts ends well."""
    with Memsvc(address, user_id="u") as client:
        progress = list(client.import_memories([]))

    assert progress[-1].done
    assert progress[-1].received_count == 0


def test_broken_import_goes_on_where_the_service_says(service: Memories, address: str) -> None:
    """After a break the same import is resumed, and nothing is left out."""
    service.breaking = 2

    with Memsvc(address, user_id="u") as client:
        progress = list(client.import_memories(drafts()))

    assert len(service.streams) == 2
    assert service.streams[1][0] == BATCH_MEMORIES * 2
    assert len(set(service.request_ids)) == 1
    assert service.stored == DRAFTS
    assert progress[-1].next_index == DRAFTS
    assert progress[-1].done


def test_import_of_another_process_is_resumed(service: Memories, address: str) -> None:
    """With the same drafts from the first on, what is durable already is not sent again."""
    service.stored = BATCH_MEMORIES * 2

    with Memsvc(address, user_id="u") as client:
        progress = list(client.import_memories(drafts(), request_id="mine"))

    assert service.request_ids == ["mine"]
    assert service.streams == [[BATCH_MEMORIES * 2, BATCH_MEMORIES * 3]]
    assert progress[-1].next_index == DRAFTS


def test_error_of_the_source_ends_the_import(address: str) -> None:
    """What the drafts raise reaches the caller as it is."""

    def broken() -> Iterator[Draft]:
        yield {"content": "fine"}
        raise LookupError("the file ended")

    with Memsvc(address, user_id="u") as client, pytest.raises(LookupError, match="the file ended"):
        list(client.import_memories(broken()))


def test_import_takes_an_asynchronous_source(address: str) -> None:
    """Drafts may come from an asynchronous iterable."""

    async def source() -> AsyncIterator[Draft]:
        for draft in drafts(3):
            yield draft

    async def run() -> list[int]:
        async with AsyncMemsvc(address, user_id="u") as client:
            return [progress.created_count async for progress in client.import_memories(source())]

    assert asyncio.run(run())[-1] == 3


def test_leaving_a_stream_early_ends_the_call(address: str) -> None:
    """A stream without end can be left, and the client still closes."""
    with Memsvc(address, user_id="u") as client:
        for progress in client.reindex(["VECTORS"]):
            if progress.done_count >= 3:
                break

    assert progress.done_count == 3


def test_closed_client_says_so(address: str) -> None:
    """A call outside of the context is a mistake of the caller."""
    client = Memsvc(address, user_id="u")

    with pytest.raises(RuntimeError, match="not open"):
        client.get("x")


@pytest.mark.parametrize("limited", [0, 1])
def test_a_call_of_another_thread_says_that_its_client_is_closed(service: Memories, address: str, limited: int) -> None:
    """While it waits for a response, and while it waits for the delay that the service asks for."""
    service.limited, service.retry_seconds = limited, 3_600.0
    with Memsvc(address, user_id="u", timeout=7_200.0) as client, ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.create, "text") if limited else pool.submit(client.get, "x")
        service.called.wait()

        client.close()

        with pytest.raises(RuntimeError, match="The client is closed"):
            call.result()


def test_a_call_of_another_task_says_that_its_client_is_closed(service: Memories, address: str) -> None:
    """A task that is cancelled itself stays cancelled."""

    async def run() -> list[object]:
        async with AsyncMemsvc(address, user_id="u") as client:
            cancelled = asyncio.create_task(client.get("x"))
            await asyncio.to_thread(service.called.wait)
            cancelled.cancel()
            call = asyncio.create_task(client.get("x"))
            watch = asyncio.ensure_future(anext(client.watch()))
            service.called.clear()
            await asyncio.to_thread(service.called.wait)
            await client.close()
            return [*await asyncio.gather(cancelled, call, watch, return_exceptions=True)]

    cancelled, *others = asyncio.run(run())

    assert isinstance(cancelled, asyncio.CancelledError)
    for error in others:
        assert isinstance(error, RuntimeError)
        assert "The client is" in str(error)


@pytest.mark.parametrize("heartbeats", [0, 1])
def test_a_watch_that_the_service_ends_again_and_again_fails(service: Memories, address: str, heartbeats: int) -> None:
    """Its ends count as unavailability, for as long as nothing comes."""
    service.heartbeats = heartbeats
    with Memsvc(address, user_id="u") as client:
        watch = client.watch(heartbeats=True, patience_seconds=0.0)
        for _ in range(heartbeats):
            next(watch)
        with pytest.raises(MemsvcCallError, match="The service ended the watch") as raised:
            next(watch)

    assert raised.value.code is grpc.StatusCode.UNAVAILABLE
    assert service.watches == 1


def test_closing_twice_is_no_error(address: str) -> None:
    """Close may be called again."""
    with Memsvc(address, user_id="u") as client:
        client.close()


def test_clients_share_a_loop_and_outlive_each_other(address: str) -> None:
    """Closing one client leaves the others working."""
    with Memsvc(address, user_id="u") as first:
        with Memsvc(address, user_id="v") as second:
            second.create("two")
        reply = first.create("one")

    assert reply.memory.content == "one"


def test_service_that_never_gets_ready_is_told(tmp_path: Path) -> None:
    """Waiting has an end."""
    with Memsvc(f"unix:{tmp_path / 'nothing'}", user_id="u") as client, pytest.raises(MemsvcCallError) as raised:
        client.wait_ready(0.2)

    assert raised.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_method_that_the_service_lacks_says_that_it_is_older(address: str) -> None:
    """A service of memsvc refuses with details; this answer comes from gRPC."""
    with Memsvc(address, user_id="u") as client, pytest.raises(MemsvcCallError, match="older than this client") as told:
        client.search("花生")

    assert told.value.code is grpc.StatusCode.UNIMPLEMENTED
    assert told.value.reason == ""


def test_a_write_that_lost_a_race_is_repeated_with_the_same_request_id(service: Memories, address: str) -> None:
    """An ABORTED with a delay did nothing; it is no decision of the caller."""
    service.limited, service.limited_code = 2, code_pb2.ABORTED

    with Memsvc(address, user_id="u") as client:
        assert client.create("text").memory.content == "text"

    assert len(service.request_ids) == 3
    assert len(set(service.request_ids)) == 1


def test_a_conflict_of_revisions_is_left_to_the_caller(service: Memories, address: str) -> None:
    """An ABORTED without a delay: the same call would fail again."""
    service.limited, service.limited_code, service.retry_seconds = 1, code_pb2.ABORTED, None

    with Memsvc(address, user_id="u") as client, pytest.raises(MemsvcCallError) as raised:
        client.create("text")

    assert raised.value.code is grpc.StatusCode.ABORTED
    assert len(service.request_ids) == 1
