"""The second port: what Prometheus and probes are told, that it names nobody, and that the dashboard asks for it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from memsvc.bootstrap.app import running
from memsvc.server.addresses import AddressError
from memsvc.server.options import ServerOptions
from memsvc.server.server import build
from memsvc.settings import BackendChoice, Settings
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import (
    admin_service_pb2_grpc,
    lifecycle_service_pb2_grpc,
    memory_service_pb2_grpc,
    search_service_pb2_grpc,
)
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_thread import ServerThread
from tests.support.sqlite_store import SQLITE
from tests.support.until import PATIENCE_SECONDS, until
from tests.unit.server.conftest import Clients

DASHBOARD = Path(__file__).parents[3] / "docker" / "grafana-dashboard.json"
SECRET_USER, SECRET_WORD = "somebody-by-name", "walrus"
FUNCTIONS = {"rate", "increase", "sum", "max", "by", "le", "histogram_quantile", "clamp_min", "min", "avg"}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """A server that serves metrics, with one memory of a user, searched once, and a call that failed."""
    chosen = BackendChoice(backend="in-memory")
    directory = tmp_path_factory.mktemp("watched")
    settings = Settings(
        data_dir=directory,
        metadata=BackendChoice.model_validate(SQLITE),
        vectors=chosen,
        lexical=chosen,
        embedder=chosen,
    )
    options = ServerOptions(
        addresses=("127.0.0.1:0",),
        grace_seconds=1.0,
        health_seconds=0.05,
        metrics_address="127.0.0.1:0",
        metrics_tenants=True,
    )
    with running(settings) as application:
        served = ServerThread(application, options)
        served.start()
        with grpc.insecure_channel(served.addresses[0]) as channel:
            clients = Clients(
                channel,
                memory_service_pb2_grpc.MemoryServiceStub(channel),
                search_service_pb2_grpc.SearchServiceStub(channel),
                lifecycle_service_pb2_grpc.LifecycleServiceStub(channel),
                admin_service_pb2_grpc.AdminServiceStub(channel),
            )
            scope = types_pb.Scope(user_id=SECRET_USER, project_id="my-project")
            memory = types_pb.Memory(content=f"The {SECRET_WORD} sings.", tags=["my-tag"])
            clients.memories.CreateMemory(memory_pb.CreateMemoryRequest(scope=scope, memory=memory))
            clients.searches.Search(search_pb.SearchRequest(scope=scope, query=SECRET_WORD))
            quota = admin_pb.Quota(tenant_id="", memory_count=1)
            clients.admin.SetQuota(admin_pb.SetQuotaRequest(quota=quota))
            with pytest.raises(grpc.RpcError, match="RESOURCE_EXHAUSTED"):
                clients.memories.CreateMemory(
                    memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content="More."))
                )
            with pytest.raises(grpc.RpcError):
                clients.memories.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="my-key"))
        application.step_counts.note("expire", changed=3, seconds=0.5)
        application.step_counts.note("expire", changed=1, seconds=0.5, failed=True)
        try:
            until(lambda: is_all_noted(served))
            yield served
        finally:
            served.stop()


def is_all_noted(watched: ServerThread) -> bool:
    """Return whether what the client has been told of is noted, which comes a moment later: a failure, an indexing."""
    told = samples(watched)
    failed = labelled(grpc_service="memsvc.v1.MemoryService", grpc_method="GetMemory", grpc_code="NOT_FOUND")
    return ("grpc_server_handled_total", failed) in told and told["memsvc_outbox_pending", labelled()] == 0


def ask(watched: ServerThread, path: str) -> tuple[int, str]:
    """Return status and text of what a path answers."""
    address = watched.addresses[-1].removeprefix("http://").removesuffix("/metrics")
    connection = HTTPConnection(address, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def samples(watched: ServerThread) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample of the metrics by name and labels."""
    status, text = ask(watched, "/metrics")
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labelled(**labels: str) -> frozenset[tuple[str, str]]:
    """Return labels as the samples have them."""
    return frozenset(labels.items())


def test_calls_are_counted_by_method_and_code(watched: ServerThread) -> None:
    """How many, how long, and how many are under way: none."""
    told = samples(watched)
    search = {"grpc_service": "memsvc.v1.SearchService", "grpc_method": "Search"}
    get = {"grpc_service": "memsvc.v1.MemoryService", "grpc_method": "GetMemory"}

    assert told["grpc_server_handled_total", labelled(**search, grpc_code="OK")] == 1
    assert told["grpc_server_handled_total", labelled(**get, grpc_code="NOT_FOUND")] == 1
    assert told["grpc_server_handling_seconds_count", labelled(**search)] == 1
    assert told["grpc_server_handling_seconds_bucket", labelled(**search, le="+Inf")] == 1
    assert told["grpc_server_in_flight", labelled(**search)] == 0


def test_the_service_tells_how_it_is(watched: ServerThread) -> None:
    """Sizes, queues, the outbox, backends, steps of maintenance, and how long stages of a search took."""
    told = samples(watched)
    search = {"operation": "Search", "layer": "engine"}

    assert told["memsvc_memories", labelled()] == 1
    assert told["memsvc_index_entries", labelled(index="vectors")] == 1
    assert told["memsvc_storage_bytes", labelled(part="store")] > 0
    assert told["memsvc_executor_depth", labelled(executor="search")] == 0
    assert told["memsvc_executor_capacity", labelled(executor="search")] == 40
    assert told["memsvc_outbox_pending", labelled()] == 0
    assert told["memsvc_outbox_position_total", labelled()] == 1
    assert told["memsvc_backend_up", labelled(port="metadata", backend="sql")] == 1
    assert told["memsvc_operation_seconds_count", labelled(**search)] == 1
    assert told["memsvc_stage_seconds", labelled(**search, stage="dense", quantile="0.95")] > 0
    for layer in ("edge", "engine", "store", "vectors", "lexical", "embedder"):
        assert [value for (name, labels), value in told.items()
                if name == "memsvc_operation_seconds_count" and ("layer", layer) in labels]  # fmt: skip
    expire = labelled(step="expire")
    names = ("runs", "failures", "changes", "seconds")
    assert [told[f"memsvc_maintenance_{name}_total", expire] for name in names] == [2, 1, 4, 1.0]


def test_waits_and_refusals_are_counted_by_class(watched: ServerThread) -> None:
    """A search, two writes and the setting of a quota, one of which was refused for the quota."""
    told = samples(watched)
    waits = {kind: told["memsvc_wait_seconds_count", labelled(**{"class": kind})] for kind in ("search", "write")}
    refused = {(name, labels): value for (name, labels), value in told.items() if name == "memsvc_refusals_total"}

    assert waits == {"search": 1, "write": 2}
    assert told["memsvc_wait_seconds_bucket", labelled(**{"class": "search", "le": "+Inf"})] == 1
    assert told["memsvc_wait_seconds_count", labelled(**{"class": "admin"})] >= 1
    assert [labels for (_, labels), value in refused.items() if value] == [labelled(kind="QUOTA", **{"class": "write"})]


def test_quotas_are_told_by_tenant_when_they_may_be(watched: ServerThread) -> None:
    """The limits that there are, and what is used."""
    told = samples(watched)
    memories = labelled(tenant="", amount="memories")

    assert (told["memsvc_quota_limit", memories], told["memsvc_quota_used", memories]) == (1, 1)
    assert ("memsvc_quota_limit", labelled(tenant="", amount="file_bytes")) not in told


def test_nobody_is_named(watched: ServerThread) -> None:
    """Neither users nor projects, keys, tags or words."""
    text = ask(watched, "/metrics")[1]

    assert not [word for word in (SECRET_USER, SECRET_WORD, "my-project", "my-key", "my-tag") if word in text]


def test_probes_are_answered(watched: ServerThread) -> None:
    """Alive and ready; nothing else is there."""
    assert [200, 200, 404, 404] == [ask(watched, path)[0] for path in ("/healthz", "/readyz", "/", "/metricsx")]


async def _refused(watched: ServerThread, address: str) -> None:
    options = ServerOptions(addresses=("127.0.0.1:0",), metrics_address=address)
    server = build(watched.application, options)
    try:
        with pytest.raises(AddressError, match="metrics"):
            await server.start()
    finally:
        await server.stop()


@pytest.mark.parametrize("address", ["taken", "127.0.0.1:x", "127.0.0.1", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_used_stops_the_start(watched: ServerThread, address: str) -> None:
    """One that is in use, or is none, with the word metrics in the message."""
    taken = watched.addresses[-1].removeprefix("http://").removesuffix("/metrics")
    asyncio.run(_refused(watched, taken if address == "taken" else address))


def expressions(panels: list[dict[str, object]]) -> Iterator[str]:
    """Yield every PromQL expression of a dashboard."""
    for panel in panels:
        for target in panel.get("targets", []):  # type: ignore[attr-defined] # free JSON
            yield target["expr"]
        yield from expressions(panel.get("panels", []))  # type: ignore[arg-type] # free JSON


def test_the_dashboard_asks_for_metrics_that_are_told(watched: ServerThread) -> None:
    """Every name in every expression is one of a sample, and every label that is grouped or filtered by is one of it."""
    told: dict[str, set[str]] = {}
    for name, labels in samples(watched):
        told.setdefault(name, set()).update(label for label, _ in labels)
    # Told only with a backend over a network.
    told.setdefault("memsvc_circuit_breaker", {"backend", "state"})
    asked = list(expressions(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]))

    assert len(asked) > 10
    for expression in asked:
        bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)|\"[^\"]*\"", "", expression)
        names = set(re.findall(r"[a-z_][a-z0-9_:]*", bare)) - FUNCTIONS
        assert names, expression
        assert names <= told.keys(), expression
        used = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
        used |= set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!=|=)", expression))
        assert used <= set().union(*(told[name] for name in names)), expression
