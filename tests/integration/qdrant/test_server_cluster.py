"""Both indexes on a Qdrant cluster: graphs, round trips, statuses, failover, nodes that are down, and named errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from qdrant_client import grpc as wire

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalManifest, VectorManifest, View
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.lexical import lexical_entry
from memsvc.testing.vectors import EAST, unit, vector_entry
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc_backends.qdrant_common.points import OWNER, PLAIN
from memsvc_backends.qdrant_server.connection import open_connection
from memsvc_backends.qdrant_server.filters import filter_within, payload_indexes
from memsvc_backends.qdrant_server.sparse_index import NAME as SPARSE_NAME
from memsvc_backends.qdrant_server.sparse_index import QdrantSparseIndex
from memsvc_backends.qdrant_server.vector_index import NAME, QdrantServerIndex
from tests.support.qdrant_fake import Fault, Keeper, served
from tests.support.qdrant_targets import context, sparse_settings, vector_settings
from tests.support.selections import selection_of

QUICK: dict[str, Any] = {"attempts": 2, "backoff_seconds": 0.01}
FOREVER = 3600.0


@dataclass
class Cluster:
    """A server, and both indexes of a process over it."""

    keeper: Keeper
    url: str
    stack: ExitStack

    def vectors(self, **options: Any) -> QdrantServerIndex:
        """Open the vector index."""
        settings = vector_settings(**{"url": self.url, "prefix": "test", "refresh_seconds": FOREVER} | QUICK | options)
        index = QdrantServerIndex(open_connection(settings, NAME), settings, context())
        self.stack.callback(index.close)
        return index

    def words(self, **options: Any) -> QdrantSparseIndex:
        """Open the word index."""
        settings = sparse_settings(**{"url": self.url, "prefix": "test", "refresh_seconds": FOREVER} | QUICK | options)
        index = QdrantSparseIndex(open_connection(settings, SPARSE_NAME), settings, context())
        self.stack.callback(index.close)
        return index

    def live(self) -> str:
        """Return the collection of the live vectors."""
        [alias] = [one for one in self.keeper.client.get_aliases().aliases if one.alias_name == "test-vectors"]
        return str(alias.collection_name)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that is empty at first."""
    keeper = Keeper()
    with served(keeper) as port, ExitStack() as stack:
        yield Cluster(keeper, f"http://127.0.0.1:{port}", stack)


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


def test_graphs_are_built_for_owners_alone(cluster: Cluster) -> None:
    """Every payload index but the owner's is made without graphs; there is no graph over all points."""
    fill_vectors(cluster.vectors(), 1)
    fill_words(cluster.words(), "tea")

    for name, fields in cluster.keeper.fields.items():
        own = {field: info.params for field, info in fields.items()}
        if name.endswith("-words"):
            assert not own["near"].integer_index_params.enable_hnsw
            continue
        assert own.keys() == payload_indexes().keys()
        graphs = {field for field, params in own.items() if _has_graph(params)}
        assert graphs == {OWNER}
        assert own[OWNER].keyword_index_params.is_tenant
    hnsw = cluster.keeper.layouts[cluster.live()].hnsw_config
    assert (hnsw.m, hnsw.payload_m) == (0, 16)


def _has_graph(params: Any) -> bool:
    kind = getattr(params, params.WhichOneof("index_params"))
    return not kind.HasField("enable_hnsw") or bool(kind.enable_hnsw)


def test_an_earlier_collection_is_brought_up_to_date(cluster: Cluster) -> None:
    """Graphs are turned off, points get the flag of plain memories, nothing is lost; the second time nothing is done."""
    fill_vectors(cluster.vectors(), 1, 2)
    live, keeper = cluster.live(), cluster.keeper
    for info in keeper.fields[live].values():
        getattr(info.params, info.params.WhichOneof("index_params")).ClearField("enable_hnsw")
    del keeper.fields[live][PLAIN]
    keeper.client.delete_payload(live, [PLAIN], points=[point.id for point in keeper.client.scroll(live)[0]])
    keeper.calls.clear()

    cluster.vectors().ping()

    assert {field for field, info in keeper.fields[live].items() if _has_graph(info.params)} == {OWNER}
    assert all(point.payload and point.payload[PLAIN] == 1 for point in keeper.client.scroll(live)[0])
    assert sorted(rows(cluster.vectors())) == [1, 2]
    assert keeper.calls["CreateFieldIndex"] == len(payload_indexes()) - 1
    cluster.vectors().ping()
    assert keeper.calls["CreateFieldIndex"] == len(payload_indexes()) - 1


def test_a_live_collection_follows_its_settings(cluster: Cluster) -> None:
    """Quantisation, graphs and optimizers change without a new generation."""
    fill_vectors(cluster.vectors(), 1)
    layout = cluster.keeper.layouts[cluster.live()]
    assert layout.quantization_config.scalar.always_ram

    changed = cluster.vectors(quantization="binary", graph_build_width=200, optimizer={"segments": 4})
    changed.ping()
    changed.ping()

    assert layout.quantization_config.WhichOneof("quantization") == "binary"
    assert (layout.hnsw_config.ef_construct, layout.optimizers_config.default_segment_number) == (200, 4)
    assert rows(changed) == [1]
    cluster.keeper.calls.clear()
    cluster.vectors(quantization="binary", graph_build_width=200, optimizer={"segments": 4}).ping()
    assert cluster.keeper.calls["Update"] == 0


def test_a_generation_without_means_builds_no_graphs(cluster: Cluster) -> None:
    """The bulk of a first import is linked once: in the generation that is made after it."""
    index = cluster.vectors(optimizer={"indexing_kilobytes": 500})
    fill_vectors(index, 1, samples=0)
    assert cluster.keeper.layouts[cluster.live()].optimizers_config.indexing_threshold == 0
    cluster.vectors(optimizer={"indexing_kilobytes": 600}).ping()
    assert cluster.keeper.layouts[cluster.live()].optimizers_config.indexing_threshold == 0

    fill_vectors(index, 1, generation=2)

    assert cluster.keeper.layouts[cluster.live()].optimizers_config.indexing_threshold == 500


def test_options_of_storage_reach_the_collection(cluster: Cluster) -> None:
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


# Round trips of a search.


def test_a_hybrid_search_sends_both_queries_at_once(cluster: Cluster) -> None:
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


def test_words_that_are_known_cost_no_request(cluster: Cluster) -> None:
    """A search of long words is one request, Chinese ones too; a misspelt word costs two more."""
    words = cluster.words()
    fill_words(words, "kitten basket", "会议纪要归档 项目计划书草案", "tea")
    cluster.keeper.calls.clear()

    for terms, expected in ((["kitten", "basket"], [1]), (["会议纪要归档"], [2]), (["kitten"], [1])):
        assert named(words, *terms) == expected
    assert cluster.keeper.calls == {"QueryBatch": 3}
    assert named(words, "kiten") == [1]
    assert cluster.keeper.calls == {"QueryBatch": 5, "Scroll": 1}


def test_equal_scores_at_the_cut_are_asked_for_at_once(cluster: Cluster) -> None:
    """Of 60 memories with the same score the first ones are returned, by one request."""
    words = cluster.words()
    fill_words(words, *(["tea"] * 60))
    cluster.keeper.calls.clear()

    assert named(words, "tea", limit=5) == [1, 2, 3, 4, 5]
    assert cluster.keeper.calls == {"QueryBatch": 1}


def test_plain_memories_are_tested_by_one_flag(cluster: Cluster) -> None:
    """A default search tests owner, project, and the flag or all of its conditions."""
    where = selection_of(filters_pb.Filter(), now=factories.NOW).where
    must: Any = filter_within(REACH, None, where).must

    assert len(must) == 3
    assert must[2].should[0].key == PLAIN


# Statuses, failover, nodes that are down.


def test_a_change_that_waits_too_long_is_not_applied(cluster: Cluster) -> None:
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


def test_calls_go_to_the_next_node_when_one_is_down(cluster: Cluster) -> None:
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


@pytest.mark.parametrize("call", ["Create", "UpdateAliases", "Update", "Delete"])
def test_generations_go_on_with_a_node_down(cluster: Cluster, call: str) -> None:
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
def test_errors_are_named(cluster: Cluster, status: grpc.StatusCode, words: str, problem: str) -> None:
    """A refused key, wrong parameters and a server that is away differ; the server's words are not repeated."""
    cluster.keeper.faults["ListAliases"] = Fault(status, words)

    with pytest.raises(BackendUnavailableError, match=problem) as raised:
        cluster.vectors().ping()

    assert not words or words not in raised.value.message
