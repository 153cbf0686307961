"""Imports over the wire: progress, failures by index, going on after a break."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import errors_pb2 as errors_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import Request, batch, batches, header
from tests.support.rpc import KEYWORD, TIMEOUT, Refusal, create, found, list_all, search
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until


def run(stubs: Stubs, *requests: Request) -> list[memory_pb.ImportMemoriesResponse]:
    """Run an import to its end and return all responses."""
    return list(stubs.memory.ImportMemories(iter(requests), timeout=TIMEOUT))


def counts(response: memory_pb.ImportMemoriesResponse) -> tuple[int, ...]:
    """Return received, created, updated, duplicates, failed, next_index."""
    return (
        response.received_count, response.created_count, response.updated_count, response.duplicate_count, response.failed_count,
        response.next_index,
    )  # fmt: skip


def test_an_import_tells_its_progress_to_the_end(stubs: Stubs, user: str) -> None:
    """The first response comes right after the header, counts never shrink, only the last one is done."""
    scope = types_pb.Scope(user_id=user, project_id="base")
    memories = [types_pb.Memory(content=f"toucan {number}") for number in range(2_500)]
    memories[3] = types_pb.Memory(content="toucan 2")
    memories[7] = types_pb.Memory(content="kea", key="k")
    memories[9] = types_pb.Memory(content="kea and kakapo", key="k")
    memories[11].scope.project_id = "other"
    requests = [header(scope, wait_for=types_pb.WAIT_FOR_INDEXED), *batches(memories, 400)]
    responses = run(stubs, *requests)
    first, last = responses[0], responses[-1]

    assert ((0,) * 6, False, 0.0, "") == (
        counts(first), first.done, first.memories_per_second, first.consistency_token,
    )  # fmt: skip
    assert [False] * (len(responses) - 1) + [True] == [response.done for response in responses]
    for before, after in zip(responses, responses[1:], strict=False):
        assert all(old <= new for old, new in zip(counts(before), counts(after), strict=True))
        assert (
            after.received_count
            >= after.created_count + after.updated_count + after.duplicate_count + after.failed_count
        )
    assert (2_500, 2_498, 1, 1, 0, 2_500) == counts(last)
    assert last.memories_per_second > 0
    assert last.consistency_token
    # INDEXED: done means found.
    assert ["kea and kakapo"] == found(stubs, scope, "kakapo", mode=KEYWORD)
    assert ["toucan 2499"] == found(stubs, scope, "2499", mode=KEYWORD)
    assert ["toucan 11"] == found(stubs, types_pb.Scope(user_id=user, project_id="other"), "11", mode=KEYWORD)
    assert len(list_all(stubs, scope, page_size=1_000)) == 2_497


def test_the_token_of_a_stored_import_makes_a_search_see_it(stubs: Stubs, scope: types_pb.Scope) -> None:
    """STORED is the default: done comes when all is durable, and the token waits for the rest."""
    responses = run(stubs, header(scope), *batches([f"toucan {number}" for number in range(600)], 200))
    reply = search(stubs, scope, "599", mode=KEYWORD, consistency_token=responses[-1].consistency_token)

    assert ["toucan 599"] == [hit.memory.content for hit in reply.hits]


def test_bad_memories_are_told_by_their_index_and_stop_nothing(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each once, with code, reason and field; a rejected duplicate too."""
    create(stubs, scope, "there")
    memories = [types_pb.Memory(content=f"{number}") for number in range(10)]
    memories[2].content = ""
    memories[5].importance = 6
    memories[8].content = "there"
    responses = run(
        stubs, header(scope, on_duplicate=types_pb.ON_DUPLICATE_REJECT), *batches(memories, 4), batch(10, [])
    )
    failures = [failure for response in responses for failure in response.failures]

    assert [2, 5, 8] == [failure.index for failure in failures]
    assert [3, 3, 6] == [failure.status.code for failure in failures]
    assert ["memory.content"] == [one.field for one in failures[0].status.field_violations]
    assert errors_pb.ERROR_REASON_MEMORY_EXISTS == failures[2].status.reason
    assert (10, 7, 0, 0, 3, 10) == counts(responses[-1])


@pytest.mark.parametrize(
    ("requests", "field"),
    [
        ([], "header"),
        ([batch(0, ["x"])], "header"),
        ([Request()], "header"),
        ([Request(header=memory_pb.ImportHeader())], "header.scope.user_id"),
        ([header(types_pb.Scope(user_id="u"), wait_for=9)], "header.wait_for"),
        ([header(types_pb.Scope(user_id="u"), request_id="x" * 129)], "header.request_id"),
        ([header(types_pb.Scope(user_id="u"))] * 2, "batch"),
        ([header(types_pb.Scope(user_id="u")), Request()], "batch"),
        ([header(types_pb.Scope(user_id="u")), batch(1, ["x"])], "batch.first_index"),
        ([header(types_pb.Scope(user_id="u")), batch(-1, ["x"])], "batch.first_index"),
        ([header(types_pb.Scope(user_id="u")), batch(0, ["x"] * 1_001)], "batch.memories"),
    ],
)
def test_messages_out_of_order_end_the_stream(stubs: Stubs, user: str, requests: list[Request], field: str) -> None:
    """With the field's path; nothing of the bad message is stored."""
    sent = [Request.FromString(request.SerializeToString()) for request in requests]
    for request in sent:
        if request.header.scope.user_id:
            request.header.scope.user_id = user
    with pytest.raises(grpc.RpcError) as caught:
        run(stubs, *sent)
    refusal = Refusal.from_error(caught.value)

    assert (grpc.StatusCode.INVALID_ARGUMENT, (field,)) == (refusal.code, refusal.fields)
    assert [] == list_all(stubs, types_pb.Scope(user_id=user))


def test_what_was_durable_before_the_error_stays(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A stream that ends with an error keeps the batches before."""
    with pytest.raises(grpc.RpcError):
        run(stubs, header(scope), batch(0, ["a", "b"]), batch(5, ["c"]))

    assert {"a", "b"} == {memory.content for memory in list_all(stubs, scope)}


def test_an_import_goes_on_where_the_client_broke_off(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The first response of the second stream says where; sending from 0 again stores nothing twice."""
    memories = [f"macaw {number}" for number in range(1_000)]
    resume = header(scope, request_id="import 7")
    go_on = threading.Event()

    def endless() -> Iterator[Request]:
        yield resume
        yield from batches(memories[:600], 100)
        go_on.wait(TIMEOUT)

    call = stubs.memory.ImportMemories(endless(), timeout=TIMEOUT)
    reached = next(response.next_index for response in call if response.next_index >= 300)
    call.cancel()
    go_on.set()
    responses = run(stubs, resume, *batches(memories, 150))

    assert reached <= responses[0].next_index <= 600
    assert responses[0].next_index == 1_000 - responses[-1].created_count
    assert (0, 0, 0, 1_000) == counts(responses[-1])[2:]
    assert sorted(memories) == sorted(memory.content for memory in list_all(stubs, scope, page_size=1_000))
    assert ((0, 0, 0, 0, 0, 1_000), True) == (counts(last := run(stubs, resume)[-1]), last.done)


def test_a_request_id_belongs_to_one_import(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With another scope or choice it is refused; other users and other methods may use it."""
    run(stubs, header(scope, request_id="r"), batch(0, ["a"]))
    agent = types_pb.Scope(user_id=scope.user_id, agent_id="another")
    for other in (header(agent, request_id="r"), header(scope, request_id="r", on_duplicate=2)):
        with pytest.raises(grpc.RpcError) as caught:
            run(stubs, other, batch(0, ["b"]))
        refusal = Refusal.from_error(caught.value)
        assert (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED") == (refusal.code, refusal.reason)
    stranger = types_pb.Scope(user_id=scope.user_id + "2")

    assert (0, 1) == (
        (responses := run(stubs, header(stranger, request_id="r"), batch(0, ["a"])))[0].next_index,
        responses[-1].created_count,
    )


def test_an_import_without_a_request_id_starts_anew(stubs: Stubs, scope: types_pb.Scope) -> None:
    """It cannot be resumed: equal content is then a duplicate."""
    requests = (header(scope), batch(0, ["a", "b"]))
    run(stubs, *requests)

    assert (2, 0, 0, 2, 0, 2) == counts(run(stubs, *requests)[-1])


def test_a_client_that_does_not_read_is_not_let_run_ahead(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Storing pauses while too many failures are untold, so the client cannot send all; read at last, none is lost."""
    total = 60
    bad = [types_pb.Memory(title="x" * 500)] * 1_000
    all_sent = threading.Event()

    def sending() -> Iterator[Request]:
        yield header(scope)
        for number in range(total):
            yield batch(number * 1_000, bad)
        all_sent.set()

    call = stubs.memory.ImportMemories(sending(), timeout=TIMEOUT)
    next(call)
    assert not all_sent.wait(1.0)
    responses = list(call)

    assert all(len(response.failures) <= 1_000 for response in responses)
    assert list(range(total * 1_000)) == [failure.index for response in responses for failure in response.failures]
    assert (total * 1_000, total * 1_000) == (responses[-1].failed_count, responses[-1].next_index)


def test_an_import_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    """kill -9 in the middle: after the restart it resumes at a durable index, and every memory is there once."""
    scope = types_pb.Scope(user_id="u")
    memories = [f"heron {number}" for number in range(1_500)]
    resume = header(scope, request_id="r")
    with ServerProcess(tmp_path / "data") as server:
        with server.stubs() as stubs:
            call = stubs.memory.ImportMemories(iter([resume, *batches(memories, 100)]), timeout=TIMEOUT)
            reached = next(response.next_index for response in call if response.next_index >= 500)
            server.kill()
            with pytest.raises(grpc.RpcError):
                list(call)
        server.start()
        with server.stubs() as stubs:
            responses = run(stubs, resume, *batches(memories, 1_000))
            assert reached <= responses[0].next_index
            assert 1_500 - responses[0].next_index == responses[-1].created_count
            assert sorted(memories) == sorted(memory.content for memory in list_all(stubs, scope, page_size=1_000))
            token = responses[-1].consistency_token
            assert ["heron 17"] == found(stubs, scope, "17", mode=KEYWORD, consistency_token=token)
            _await_verified(stubs, 1_500)


def _await_verified(stubs: Stubs, expected: int) -> None:
    """Return once both indexes hold *expected* entries and differ nowhere from the store."""

    def is_verified() -> bool:
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True), timeout=TIMEOUT)
        seen = [
            (one.present_count, one.missing_count, one.stale_count, one.orphaned_count) for one in diagnosis.indexes
        ]
        return not diagnosis.outbox.pending_count and [(expected, 0, 0, 0)] * 2 == seen

    until(is_verified)
