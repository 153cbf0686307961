"""Both indexes on a Qdrant cluster: graphs, round trips, statuses, failover, nodes that are down, and named errors."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client import grpc as wire

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.index_entries import LexicalManifest, VectorManifest, View
from memsvc.domain.scope import Reach, Scope
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.lexical import lexical_entry
from memsvc.testing.vectors import EAST, unit, vector_entry
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc_backends.qdrant_common.points import OWNER, PLAIN
from memsvc_backends.qdrant_server.connection import open_connection
from memsvc_backends.qdrant_server.points import filter_within, payload_indexes
from memsvc_backends.qdrant_server.sparse_index import NAME as SPARSE_NAME
from memsvc_backends.qdrant_server.sparse_index import QdrantSparseIndex
from memsvc_backends.qdrant_server.vector_index import NAME, QdrantServerIndex
from tests.support.qdrant_fake import Fault, Keeper, served
from tests.support.qdrant_targets import (
    API_KEY,
    SERVER,
    URL,
    context,
    real_client,
    sparse_settings,
    vector_settings,
)
from tests.support.selections import selection_of
from tests.support.tcp_proxy import proxy
from tests.support.until import until

QUICK: dict[str, Any] = {"attempts": 2, "backoff_seconds": 0.01}
FOREVER = 3600.0


@dataclass
class Cluster:
    """A server, and both indexes of a process over it."""

    client: QdrantClient
    given: dict[str, Any]
    stack: ExitStack

    def vectors(self, **options: Any) -> QdrantServerIndex:
        """Open the vector index."""
        settings = vector_settings(**self.given | QUICK | options)
        index = QdrantServerIndex(open_connection(settings, NAME), settings, context())
        self.stack.callback(index.close)
        return index

    def words(self, **options: Any) -> QdrantSparseIndex:
        """Open the word index."""
        settings = sparse_settings(**self.given | QUICK | options)
        index = QdrantSparseIndex(open_connection(settings, SPARSE_NAME), settings, context())
        self.stack.callback(index.close)
        return index

    def live(self, kind: str = "vectors") -> str:
        """Return the live collection of an index."""
        alias = f"{self.given['prefix']}-{kind}"
        [found] = [one for one in self.client.get_aliases().aliases if one.alias_name == alias]
        return str(found.collection_name)

    def config(self) -> models.CollectionConfig:
        """Return how the live collection of vectors is configured."""
        return self.client.get_collection(self.live()).config

    def graphs(self, collection: str) -> set[str]:
        """Return the fields of a collection whose indexes have graphs."""
        fields: Any = self.client.get_collection(collection).payload_schema
        return {name for name, info in fields.items() if info.params.enable_hnsw is not False}


@dataclass
class StandIn(Cluster):
    """A cluster of our own, whose calls are counted and can be made to fail."""

    keeper: Keeper
    url: str


@contextmanager
def _stand_in() -> Iterator[StandIn]:
    keeper = Keeper()
    with served(keeper) as port, ExitStack() as stack:
        client = stack.enter_context(closing(QdrantClient(grpc_port=port, prefer_grpc=True, check_compatibility=False)))
        url = f"http://127.0.0.1:{port}"
        yield StandIn(client, {"url": url, "prefix": "test", "refresh_seconds": FOREVER}, stack, keeper, url)


@pytest.fixture
def cluster() -> Iterator[StandIn]:
    """A stand-in that is empty at first."""
    with _stand_in() as made:
        yield made


@pytest.fixture(params=["grpc", SERVER])
def any_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The stand-in, and a real server where there is one."""
    if request.param == "grpc":
        with _stand_in() as made:
            yield made
        return
    prefix = f"test-{uuid.uuid4().hex[:12]}"
    given = {"url": URL, "api_key": API_KEY, "prefix": prefix, "refresh_seconds": FOREVER}
    with real_client([prefix]) as client, ExitStack() as stack:
        yield Cluster(client, given, stack)


def fill_vectors(index: QdrantServerIndex, *rows: int, generation: int = 1, samples: int = 200) -> None:
    """Make a generation with these memories live."""
    manifest = VectorManifest(generation=generation, model="m", dimension=4, position=generation, mean_samples=samples)
    made = index.begin(manifest)
    made.replace({row: [vector_entry(factories.attributes(row), unit(*EAST))] for row in rows})
    made.seal()
    index.switch(made)


def fill_words(index: QdrantSparseIndex, *texts: str) -> None:
    """Make a generation live with a memory of each text."""
    made = index.begin(LexicalManifest(1, 1, "a"))
    entries = {row: text.split() for row, text in enumerate(texts, start=1)}
    made.replace({row: [lexical_entry(factories.attributes(row), terms)] for row, terms in entries.items()})
    made.seal()
    index.switch(made)


def rows(index: QdrantServerIndex) -> list[int]:
    """Return the memories that a search finds."""
    hits = index.search(unit(*EAST), view=View.CHUNK, reach=REACH, limit=99, deadline=NO_HURRY)
    return [hit.entry_id >> 16 for hit in hits]


def named(index: QdrantSparseIndex, *terms: str, limit: int = 9) -> list[int]:
    """Return the memories that hold a term."""
    hits = index.search(terms, reach=REACH, limit=limit, deadline=NO_HURRY)
    return [hit.entry_id >> 16 for hit in hits]


# Graphs and parameters of collections.


def test_graphs_are_built_for_owners_alone(any_cluster: Cluster) -> None:
    """Every payload index but the owner's is made without graphs; there is no graph over all points."""
    fill_vectors(any_cluster.vectors(), 1)
    fill_words(any_cluster.words(), "tea")

    words = any_cluster.live("lexical")
    assert any_cluster.graphs(any_cluster.live()) == any_cluster.graphs(words) == {OWNER}
    assert any_cluster.graphs(f"{words}-words") == set()
    described: Any = any_cluster.client.get_collection(words).payload_schema
    assert described.keys() == payload_indexes().keys()
    assert described[OWNER].params.is_tenant
    hnsw = any_cluster.config().hnsw_config
    assert (hnsw.m, hnsw.payload_m) == (0, 16)


def test_an_earlier_collection_is_brought_up_to_date(any_cluster: Cluster) -> None:
    """Graphs are turned off, points get the flag of plain memories, nothing is lost."""
    fill_vectors(any_cluster.vectors(), 1, 2)
    live, client = any_cluster.live(), any_cluster.client
    for name, wanted in payload_indexes().items():
        client.create_payload_index(live, name, wanted.model_copy(update={"enable_hnsw": None}))
    client.delete_payload_index(live, PLAIN)
    flag = models.DeletePayload(keys=[PLAIN], filter=models.Filter())
    client.batch_update_points(live, [models.DeletePayloadOperation(delete_payload=flag)])
    assert any_cluster.graphs(live) == payload_indexes().keys() - {PLAIN}

    any_cluster.vectors().ping()

    until(lambda: any_cluster.graphs(live) == {OWNER})
    until(lambda: all(point.payload and point.payload.get(PLAIN) == 1 for point in client.scroll(live)[0]))
    assert sorted(rows(any_cluster.vectors())) == [1, 2]


def test_a_collection_that_is_up_to_date_is_left_alone(cluster: StandIn) -> None:
    """Another process asks how it is, and changes nothing."""
    fill_vectors(cluster.vectors(), 1)
    cluster.keeper.calls.clear()

    cluster.vectors().ping()

    assert cluster.keeper.calls["Get"] > 0
    assert cluster.keeper.calls.keys().isdisjoint({"CreateFieldIndex", "Update", "UpdateBatch"})


def test_a_live_collection_follows_its_settings(any_cluster: Cluster) -> None:
    """Quantisation, graphs and optimizers change without a new generation."""
    fill_vectors(any_cluster.vectors(), 1)
    assert isinstance(any_cluster.config().quantization_config, models.ScalarQuantization)

    changed = any_cluster.vectors(quantization="binary", graph_build_width=200, optimizer={"segments": 4})
    changed.ping()
    changed.ping()

    config = any_cluster.config()
    assert isinstance(config.quantization_config, models.BinaryQuantization)
    assert (config.hnsw_config.ef_construct, config.optimizer_config.default_segment_number) == (200, 4)
    assert rows(changed) == [1]


def test_a_generation_without_means_builds_no_graphs(cluster: StandIn) -> None:
    """The bulk of a first import is linked once: in the generation that is made after it."""
    index = cluster.vectors(optimizer={"indexing_kilobytes": 500})
    fill_vectors(index, 1, samples=0)
    assert cluster.keeper.layouts[cluster.live()].optimizers_config.indexing_threshold == 0
    cluster.vectors(optimizer={"indexing_kilobytes": 600}).ping()
    assert cluster.keeper.layouts[cluster.live()].optimizers_config.indexing_threshold == 0

    fill_vectors(index, 1, generation=2)

    assert cluster.keeper.layouts[cluster.live()].optimizers_config.indexing_threshold == 500


def test_options_of_storage_reach_the_collection(cluster: StandIn) -> None:
    """On-disk graphs, indexes and postings, the log, strict mode and consistency are set as chosen."""
    storage = {"graph_on_disk": True, "payload_indexes_on_disk": True, "quantized_on_disk": True}
    options = {"wal": {"capacity_megabytes": 8}, "strict_mode": {"enabled": True, "read_rate_limit": 900}}
    fill_vectors(cluster.vectors(storage=storage, replicas=2, write_consistency=2, **options), 1)
    fill_words(cluster.words(storage={"sparse_on_disk": True}), "tea")

    layout = cluster.keeper.layouts[cluster.live()]
    assert layout.hnsw_config.on_disk
    assert not layout.quantization_config.scalar.always_ram
    assert (layout.replication_factor, layout.write_consistency_factor, layout.wal_config.wal_capacity_mb) == (2, 2, 8)
    assert layout.strict_mode_config.read_rate_limit == 900
    assert all(_on_disk(info.params) for info in cluster.keeper.fields[cluster.live()].values())
    [words] = [one for name, one in cluster.keeper.layouts.items() if "lexical" in name and "words" not in name]
    assert words.sparse_vectors_config.map["terms"].index.on_disk


def _on_disk(params: Any) -> bool:
    return bool(getattr(params, params.WhichOneof("index_params")).on_disk)


def test_tenants_have_shards_of_their_own(cluster: StandIn) -> None:
    """Entries of the tenant go to its shards and are searched there; all others share theirs; removals reach all."""
    tenants = {"own_shards": ["acme"], "shards": 2}
    index, words = cluster.vectors(tenants=tenants), cluster.words(tenants=tenants)
    fill_vectors(index, 1)
    fill_words(words, "tea")
    ours = factories.attributes(2, tenant_id="acme")
    index.replace({2: [vector_entry(ours, unit(*EAST))]})
    words.replace({2: [lexical_entry(ours, ["tea"])]})
    keys = cluster.keeper.shard_keys
    assert keys[cluster.live()] == keys[cluster.live("lexical")] == ["shared", "tenant:acme"]
    upserts = [shards for kind, shards in cluster.keeper.selected if kind == "upsert"]
    assert upserts == [["shared"], ["shared"], ["tenant:acme"], ["tenant:acme"]]

    cluster.keeper.selected.clear()
    for user, shards in ((Scope("ada", tenant_id="acme"), "tenant:acme"), (Scope("ada"), "shared")):
        reach = Reach.from_scope(user)
        assert len(index.search(unit(*EAST), view=View.CHUNK, reach=reach, limit=9, deadline=NO_HURRY)) == 1
        begun = index.begin_search(unit(*EAST), view=View.CHUNK, reach=reach, limit=9, deadline=NO_HURRY)
        assert len(begun.result()) == len(words.search(["tea"], reach=reach, limit=9, deadline=NO_HURRY)) == 1
        assert cluster.keeper.selected == [("query", [shards])] * 3
        cluster.keeper.selected.clear()
    index.replace({2: ()})
    assert cluster.keeper.selected == [("delete_points", ["shared", "tenant:acme"])]
    assert index.count() == 1


# Round trips of a search.


def test_a_hybrid_search_sends_both_queries_at_once(cluster: StandIn) -> None:
    """One request to each index; the dense one is under way before the words are asked for."""
    vectors, words = cluster.vectors(), cluster.words()
    fill_vectors(vectors, 1)
    fill_words(words, "green tea", "black coffee")
    release = threading.Event()
    cluster.keeper.faults["QueryBatch"] = Fault(release=release)
    cluster.keeper.calls.clear()

    begun = vectors.begin_search(unit(*EAST), view=View.CHUNK, reach=REACH, limit=9, deadline=NO_HURRY)
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.extend(named(words, "green", "coffee")))
    asking.start()
    while cluster.keeper.calls["QueryBatch"] < 2:
        release.wait(0.01)
    release.set()
    asking.join()

    assert [hit.entry_id >> 16 for hit in begun.result()] == [1]
    assert sorted(found) == [1, 2]
    assert cluster.keeper.calls == {"QueryBatch": 2}


def test_words_that_are_known_cost_no_request(cluster: StandIn) -> None:
    """A search of long words is one request, Chinese ones too; a misspelt word costs two more."""
    words = cluster.words()
    fill_words(words, "kitten basket", "会议纪要归档 项目计划书草案", "tea")
    cluster.keeper.calls.clear()

    for terms, expected in ((["kitten", "basket"], [1]), (["会议纪要归档"], [2]), (["kitten"], [1])):
        assert named(words, *terms) == expected
    assert cluster.keeper.calls == {"QueryBatch": 3}
    assert named(words, "kiten") == [1]
    assert cluster.keeper.calls == {"QueryBatch": 5, "Scroll": 1}


def test_equal_scores_at_the_cut_are_asked_for_at_once(cluster: StandIn) -> None:
    """Of 60 memories with the same score the first ones are returned, by one request."""
    words = cluster.words()
    fill_words(words, *(["tea"] * 60))
    cluster.keeper.calls.clear()

    assert named(words, "tea", limit=5) == [1, 2, 3, 4, 5]
    assert cluster.keeper.calls == {"QueryBatch": 1}


def test_plain_memories_are_tested_by_one_flag(cluster: StandIn) -> None:
    """A default search tests owner, project, and the flag or all of its conditions."""
    where = selection_of(filters_pb.Filter(), now=factories.NOW).where
    must: Any = filter_within(REACH, None, where).must

    assert len(must) == 3
    assert must[2].should[0].key == PLAIN


# Statuses, failover, nodes that are down.


def test_a_change_that_waits_too_long_is_not_applied(cluster: StandIn) -> None:
    """It is repeated, and fails if it is never applied."""
    index = cluster.vectors()
    fill_vectors(index, 1)
    entry = {2: [vector_entry(factories.attributes(2), unit(*EAST))]}
    cluster.keeper.calls.clear()

    cluster.keeper.statuses.extend([wire.UpdateStatus.WaitTimeout])
    index.replace(entry)
    assert cluster.keeper.calls["UpdateBatch"] == 2

    cluster.keeper.statuses.extend([wire.UpdateStatus.WaitTimeout, wire.UpdateStatus.Acknowledged])
    with pytest.raises(BackendUnavailableError, match="does not apply them in time"):
        index.replace(entry)


def test_calls_go_to_the_next_node_when_one_is_down(cluster: StandIn) -> None:
    """Searches, writes and a new generation go on, with the address of the node that is gone first or last."""
    with served(cluster.keeper) as port:
        other = f"http://127.0.0.1:{port}"
        indexes = [cluster.vectors(urls=urls) for urls in ([cluster.url, other], [other, cluster.url])]
        fill_vectors(indexes[0], 1)
        for index in indexes:
            assert rows(index) == [1]
    for number, index in enumerate(indexes, start=2):
        index.ping()
        assert index.manifest is not None
        index.replace({number: [vector_entry(factories.attributes(number), unit(*EAST))]})
        begun = index.begin_search(unit(*EAST), view=View.CHUNK, reach=REACH, limit=9, deadline=NO_HURRY)
        assert len(begun.result()) == number
        fill_vectors(index, 1, *range(2, number + 1), generation=number)


def test_a_node_that_hangs_is_left_after_one_search(cluster: StandIn) -> None:
    """The search that finds it hanging is given up at its deadline; the next one is answered by another node."""
    fill_vectors(cluster.vectors(), 1)
    with proxy(urlsplit(cluster.url).port or 0) as hanging:
        index = cluster.vectors(urls=[f"http://127.0.0.1:{hanging.port}", cluster.url])
        index._connection._at = 0
        assert rows(index) == [1]
        hanging.hold()
        begun = index.begin_search(unit(*EAST), view=View.CHUNK, reach=REACH, limit=9, deadline=Deadline.after(0.5))
        with pytest.raises((DeadlineExceededError, BackendUnavailableError)):
            begun.result()

        assert rows(index) == [1]
        index.close()
        hanging.release()


@pytest.mark.parametrize("call", ["Create", "UpdateAliases", "Update", "Delete"])
def test_generations_go_on_with_a_node_down(cluster: StandIn, call: str) -> None:
    """A change of collections that the other nodes made, but that waited for the one that is down, has worked."""
    index = cluster.vectors(linger_seconds=0.0)
    fill_vectors(index, 1)
    cluster.keeper.faults[call] = Fault(grpc.StatusCode.DEADLINE_EXCEEDED, "a peer did not answer", is_done=True)

    fill_vectors(index, 1, 2, generation=2)

    assert sorted(rows(index)) == [1, 2]
    assert index.manifest is not None
    assert index.manifest.generation == 2


@pytest.mark.parametrize(
    ("status", "words", "problem"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "Invalid API key or JWT", "refuses the key"),
        (grpc.StatusCode.PERMISSION_DENIED, "Global manage access is required", "refuses the key"),
        (grpc.StatusCode.INVALID_ARGUMENT, "shard_number: value 0 invalid", "refuses a request"),
        (grpc.StatusCode.UNIMPLEMENTED, "", "version 1.16"),
        (grpc.StatusCode.UNAVAILABLE, "SSL_ERROR_SSL: WRONG_VERSION_NUMBER", "by TLS"),
        (grpc.StatusCode.UNAVAILABLE, "connection refused", "cannot be reached"),
    ],
)
def test_errors_are_named(cluster: StandIn, status: grpc.StatusCode, words: str, problem: str) -> None:
    """A refused key, wrong parameters and a server that is away differ; the server's words are not repeated."""
    cluster.keeper.faults["ListAliases"] = Fault(status, words)

    with pytest.raises(BackendUnavailableError, match=problem) as raised:
        cluster.vectors().ping()

    assert not words or words not in raised.value.message


def test_the_state_of_the_cluster_is_reported(cluster: StandIn) -> None:
    """Status, failed optimizers and replicas that are dead or not active yet."""
    index = cluster.vectors()
    assert index.state() is None
    fill_vectors(index, 1)
    state = index.state()
    assert state is not None
    assert "green" in state.summary
    assert "1 of 1 replicas" in state.summary
    assert state.problems == ()

    cluster.keeper.status, cluster.keeper.optimizer_error = wire.CollectionStatus.Red, "no space left"
    for peer, replica in ((2, wire.ReplicaState.Dead), (3, wire.ReplicaState.Partial)):
        cluster.keeper.shards.append(wire.RemoteShardInfo(shard_id=0, peer_id=peer, state=replica))
    state = index.state()

    assert state is not None
    assert "1 of 3 replicas" in state.summary
    assert [word in " ".join(state.problems) for word in ("no space left", "is red", "peer 2 is dead", "peer 3")] == [
        True
    ] * 4


def test_the_images_have_the_version_of_the_client() -> None:
    """Qdrant supports clients of the same minor version; storage is upgraded one minor version at a time."""
    root = Path(__file__).parents[3]
    [locked] = re.findall(r"^qdrant-client==(\d+\.\d+)", (root / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    for file in ("compose.yaml", "kubernetes/example/qdrant.yaml"):
        text = (root / "docker" / file).read_text("utf-8")
        assert re.findall(r"qdrant/qdrant:v(\d+\.\d+)", text) == [locked]
