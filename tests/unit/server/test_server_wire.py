"""The wire as a client sees it, over the in-process backends."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2 as details
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_status import rpc_status

from memsvc.server.tokens import consistency_token
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import memory_service_pb2_grpc
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import refused
from tests.support.server_thread import ServerThread
from tests.unit.server.conftest import Clients

SERVING, NOT_FOUND = health_pb2.HealthCheckResponse.SERVING, grpc.StatusCode.NOT_FOUND


@pytest.fixture
def scope() -> types_pb.Scope:
    """Return the scope of a user that is new."""
    return types_pb.Scope(user_id=uuid.uuid4().hex)


def create(clients: Clients, scope: types_pb.Scope, content: str, **fields: object) -> memory_pb.CreateMemoryResponse:
    """Store a memory."""
    memory = types_pb.Memory(content=content, **fields)  # type: ignore[arg-type] # any field
    return clients.memories.CreateMemory(memory_pb.CreateMemoryRequest(scope=scope, memory=memory))


def reason_of(error: grpc.RpcError) -> str:
    """Return the reason in a failure's ErrorInfo."""
    status = rpc_status.from_call(error)
    info = details.ErrorInfo()
    assert status.details[0].Unpack(info)
    reason: str = info.reason
    return reason


def entry(content: str) -> memory_pb.BatchMemory:
    """Return a memory of a batch."""
    return memory_pb.BatchMemory(memory=types_pb.Memory(content=content))


def test_a_memory_is_stored_found_changed_deleted_and_restored(clients: Clients, scope: types_pb.Scope) -> None:
    """Each answer shows the memory as it is then, and a search sees every change at once."""
    created = create(clients, scope, "Anna lives in Lisbon.", key="home")
    memory_id = created.memory.id

    def hits() -> list[str]:
        request = search_pb.SearchRequest(scope=scope, query="Lisbon Porto", mode=search_pb.SEARCH_MODE_KEYWORD)
        return [hit.memory.content for hit in clients.searches.Search(request).hits]

    assert created.outcome == types_pb.WRITE_OUTCOME_CREATED
    assert hits() == ["Anna lives in Lisbon."]
    by_key = clients.memories.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="home"))
    assert memory_id == by_key.memory.id
    update = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=types_pb.Memory(id=memory_id, content="Anna lives in Porto.")
    )
    assert clients.memories.UpdateMemory(update).memory.revision == 2
    assert hits() == ["Anna lives in Porto."]
    deleted = clients.memories.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id))
    assert deleted.memory.status == types_pb.MEMORY_STATUS_DELETED
    assert hits() == []
    clients.memories.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory_id))
    assert hits() == ["Anna lives in Porto."]
    gone = clients.memories.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id, purge=True))
    assert not gone.HasField("memory")
    assert hits() == []


def test_a_failure_tells_code_reason_and_request_id(clients: Clients, scope: types_pb.Scope) -> None:
    """The id is the one that the client sent."""
    with pytest.raises(grpc.RpcError) as caught:
        clients.memories.GetMemory(
            memory_pb.GetMemoryRequest(scope=scope, id=str(uuid.uuid4())), metadata=(("x-request-id", "mine"),)
        )

    assert NOT_FOUND is caught.value.code()
    assert reason_of(caught.value) == "ERROR_REASON_MEMORY_NOT_FOUND"
    trailers: Any = caught.value.trailing_metadata()
    assert dict(trailers)["x-request-id"] == "mine"


def test_every_call_gets_a_request_id(clients: Clients, scope: types_pb.Scope) -> None:
    """One is made when the client sends none, or none that is fit."""
    request = memory_pb.ListMemoriesRequest(scope=scope)

    for metadata in ((), (("x-request-id", "a b"),)):
        _, call = clients.memories.ListMemories.with_call(request, metadata=metadata)
        assert len(dict(call.trailing_metadata())["x-request-id"]) == 32


def test_a_batch_tells_of_each_memory(clients: Clients, scope: types_pb.Scope) -> None:
    """Bad ones fail alone."""
    request = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=[entry("one"), entry(""), entry("two")])

    response = clients.memories.BatchCreateMemories(request)

    assert [result.status.code for result in response.results] == [0, 3, 0]
    assert response.results[1].status.field_violations[0].field == "memory.content"
    found = clients.memories.BatchGetMemories(
        memory_pb.BatchGetMemoriesRequest(scope=scope, ids=[response.results[2].memory.id, str(uuid.UUID(int=1))])
    )
    assert [memory.content for memory in found.memories] == ["two"]
    assert [str(uuid.UUID(int=1))] == list(found.missing_ids)


def test_a_list_is_walked_page_by_page(clients: Clients, scope: types_pb.Scope) -> None:
    """Each memory comes once; a token of another list is refused."""
    for number in range(5):
        create(clients, scope, f"memory {number}")
    seen: list[str] = []
    token = ""

    while True:
        request = memory_pb.ListMemoriesRequest(scope=scope, order_by="create_time", page_size=2, page_token=token)
        page = clients.memories.ListMemories(request)
        seen.extend(memory.content for memory in page.memories)
        token = page.next_page_token or token
        if not page.next_page_token:
            break

    assert [f"memory {number}" for number in range(5)] == seen
    with pytest.raises(grpc.RpcError) as caught:
        clients.memories.ListMemories(memory_pb.ListMemoriesRequest(scope=scope, page_token=token))
    assert grpc.StatusCode.INVALID_ARGUMENT is caught.value.code()


def test_a_consistency_token_makes_a_search_see_a_change(clients: Clients, scope: types_pb.Scope) -> None:
    """Also one that was only stored."""
    stored = clients.memories.CreateMemory(
        memory_pb.CreateMemoryRequest(
            scope=scope, memory=types_pb.Memory(content="A grey fox."), wait_for=types_pb.WAIT_FOR_STORED
        )
    )

    response = clients.searches.Search(
        search_pb.SearchRequest(scope=scope, query="fox", consistency_token=stored.consistency_token)
    )

    assert [hit.memory.content for hit in response.hits] == ["A grey fox."]


def test_a_consistency_token_that_is_newer_than_the_store_is_refused(clients: Clients, scope: types_pb.Scope) -> None:
    """As after the restore of an earlier backup: the reply names the field, instead of a wait that never ends."""
    create(clients, scope, "A grey fox.")
    token = consistency_token(10**9)

    search = search_pb.SearchRequest(scope=scope, query="fox", consistency_token=token)
    context = search_pb.RenderContextRequest(scope=scope, consistency_token=token)
    for refusal in (refused(clients.searches.Search, search), refused(clients.searches.RenderContext, context)):
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ("consistency_token",))


def test_searches_of_a_batch_fail_alone(clients: Clients, scope: types_pb.Scope) -> None:
    """The others are answered, in order."""
    create(clients, scope, "A grey fox.")
    good = search_pb.SearchRequest(scope=scope, query="fox")

    response = clients.searches.BatchSearch(
        search_pb.BatchSearchRequest(searches=[good, search_pb.SearchRequest(scope=scope), *[good] * 30])
    )

    assert [len(result.response.hits) for result in response.results[:2]] == [1, 0]
    assert response.results[1].status.code == 3
    assert all(result.response.hits for result in response.results[2:])


def import_messages(
    scope: types_pb.Scope, request_id: str, *batches: memory_pb.ImportBatch
) -> Iterator[memory_pb.ImportMemoriesRequest]:
    """Yield a header and batches."""
    yield memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope, request_id=request_id, wait_for=2))  # type: ignore[arg-type] # INDEXED
    for batch in batches:
        yield memory_pb.ImportMemoriesRequest(batch=batch)


def test_an_import_tells_its_progress_and_its_failures(clients: Clients, scope: types_pb.Scope) -> None:
    """The first response comes before any batch; the last one says that it is done, and searches see everything."""
    batches = [
        memory_pb.ImportBatch(memories=[entry("one"), entry("")]),
        memory_pb.ImportBatch(first_index=2, memories=[entry("two"), entry("one")]),
    ]

    responses = list(clients.memories.ImportMemories(import_messages(scope, "", *batches)))

    last = responses[-1]
    assert (responses[0].next_index, responses[0].received_count, responses[0].done) == (0, 0, False)
    assert (
        last.received_count,
        last.created_count,
        last.duplicate_count,
        last.failed_count,
        last.next_index,
        last.done,
    ) == (4, 2, 1, 1, 4, True)
    failures = [failure for response in responses for failure in response.failures]
    assert [(failure.index, failure.status.code) for failure in failures] == [(1, 3)]
    found = clients.searches.Search(search_pb.SearchRequest(scope=scope, query="two"))
    assert found.hits[0].memory.content == "two"


def test_an_import_goes_on_where_it_broke_off(clients: Clients, scope: types_pb.Scope) -> None:
    """Memories that are durable are passed over; the counts are those of the new stream."""
    first = memory_pb.ImportBatch(memories=[entry("one"), entry("two")])
    both = memory_pb.ImportBatch(memories=[entry("one"), entry("two"), entry("three")])
    list(clients.memories.ImportMemories(import_messages(scope, "again", first)))

    responses = list(clients.memories.ImportMemories(import_messages(scope, "again", both)))

    assert responses[0].next_index == 2
    assert (responses[-1].received_count, responses[-1].created_count, responses[-1].next_index) == (1, 1, 3)


def test_a_client_may_send_everything_before_it_reads(clients: Clients, scope: types_pb.Scope) -> None:
    """A great many failures do not fill anything up for good."""
    batches = [memory_pb.ImportBatch(first_index=1000 * number, memories=[entry("")] * 1000) for number in range(12)]

    responses = list(clients.memories.ImportMemories(import_messages(scope, "", *batches)))

    indexes = [failure.index for response in responses for failure in response.failures]
    assert list(range(12_000)) == indexes
    assert max(len(response.failures) for response in responses) <= 1000
    assert [response.done for response in responses].count(True) == 1


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([], "header"),
        ([memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch())], "header"),
        ([memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader())], "header.scope.user_id"),
        (
            [
                memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=types_pb.Scope(user_id="ada"))),
                memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=types_pb.Scope(user_id="ada"))),
            ],
            "batch",
        ),
        (
            [
                memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=types_pb.Scope(user_id="ada"))),
                memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(first_index=1)),
            ],
            "batch.first_index",
        ),
    ],
)
def test_messages_of_an_import_come_in_order(
    clients: Clients, messages: list[memory_pb.ImportMemoriesRequest], field: str
) -> None:
    """Other orders end the stream."""
    with pytest.raises(grpc.RpcError) as caught:
        list(clients.memories.ImportMemories(iter(messages)))

    bad = details.BadRequest()
    assert rpc_status.from_call(caught.value).details[1].Unpack(bad)
    assert [field] == [violation.field for violation in bad.field_violations]


def test_the_service_tells_of_itself(clients: Clients, scope: types_pb.Scope) -> None:
    """Counts, health and speed."""
    create(clients, scope, "A grey fox.")

    stats = clients.admin.GetStats(admin_pb.GetStatsRequest(scope=scope))
    diagnosis = clients.admin.Diagnose(admin_pb.DiagnoseRequest(verify=True))
    performance = clients.admin.GetPerformance(admin_pb.GetPerformanceRequest(operation="CreateMemory"))

    assert (stats.memory_count, dict(stats.count_by_kind)) == (1, {"FACT": 1})
    assert diagnosis.healthy
    assert (len(diagnosis.backends), diagnosis.version) == (6, "1.2.3")
    edge = next(operation for operation in performance.operations if operation.point == admin_pb.MEASUREMENT_POINT_EDGE)
    assert edge.call_count >= 1
    assert edge.max.nanos > 0


def test_a_reindex_tells_its_progress_to_the_end(clients: Clients) -> None:
    """The last message says so, and is about no index."""
    steps = list(clients.admin.Reindex(admin_pb.ReindexRequest()))

    assert (steps[-1].phase, steps[-1].index) == (admin_pb.REINDEX_PHASE_DONE, admin_pb.INDEX_KIND_UNSPECIFIED)


def test_health_is_told_for_every_service_and_probe(clients: Clients) -> None:
    """All of them serve, and an unknown name is NOT_FOUND."""
    stub = health_pb2_grpc.HealthStub(clients.channel)
    names = ["", "liveness", "readiness"] + [f"memsvc.v1.{name}Service" for name in ("Memory", "Search", "Lifecycle")]

    assert [stub.Check(health_pb2.HealthCheckRequest(service=name)).status for name in names] == [SERVING] * 6
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="other"))
    assert NOT_FOUND is caught.value.code()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_is_served_under_both_names(clients: Clients, version: str) -> None:
    """It lists our services."""
    ask = clients.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )

    (answer,) = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))

    names = {service.name for service in answer.list_services_response.service}
    assert {"memsvc.v1.MemoryService", "memsvc.v1.SearchService", "grpc.health.v1.Health"} <= names


def test_an_unknown_method_is_unimplemented(clients: Clients) -> None:
    """The layers leave it to gRPC."""
    ask: Any = clients.channel.unary_unary("/memsvc.v1.MemoryService/Other")

    with pytest.raises(grpc.RpcError) as caught:
        ask(b"")

    assert grpc.StatusCode.UNIMPLEMENTED is caught.value.code()


def test_the_unix_socket_answers_too(serving: ServerThread, scope: types_pb.Scope) -> None:
    """Every address serves the same."""
    with grpc.insecure_channel(serving.addresses[1]) as channel:
        stub = memory_service_pb2_grpc.MemoryServiceStub(channel)

        assert not stub.ListMemories(memory_pb.ListMemoriesRequest(scope=scope)).memories
