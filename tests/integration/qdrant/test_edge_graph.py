"""A generation with a graph, and the speed of searches beside writes and builds."""

from __future__ import annotations

import json
import logging
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memsvc.domain.filters import Field, Filter, Range
from memsvc.domain.index_entries import VectorManifest, View, entry_id
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.models import Vectors
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc_backends.qdrant_common.points import slices_of
from memsvc_backends.qdrant_edge.index import EDGE, QdrantEdgeIndex
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings

_log = logging.getLogger(__name__)
DIMENSION = 32
WIDE = 1536
"""Of so many values 1 667 vectors are enough for a graph: fewer are scanned."""


def vectors_of(count: int, seed: int) -> Vectors:
    """Return random vectors of unit length."""
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def changes_of(vectors: Vectors, *, first_row: int) -> dict[int, list[VectorEntry]]:
    """Return memories of one entry each."""
    plain = factories.attributes(1)
    rows = range(first_row, first_row + len(vectors))
    return {
        row: [VectorEntry(entry_id(row, View.CHUNK, 0), View.CHUNK, vector, plain._replace(row=row))]
        for row, vector in zip(rows, vectors, strict=True)
    }


def ids(
    index: QdrantEdgeIndex,
    vector: np.ndarray[tuple[int], np.dtype[np.float32]],
    limit: int = 10,
    *,
    where: Filter | None = None,
) -> list[int]:
    """Return the rows of the nearest."""
    hits = index.search(vector, view=View.CHUNK, reach=REACH, where=where, limit=limit, deadline=NO_HURRY)
    return [hit.entry_id >> 16 for hit in hits]


def best(vectors: Vectors, query: np.ndarray[tuple[int], np.dtype[np.float32]], limit: int = 10) -> list[int]:
    """Return the rows of the nearest as numpy has them, for rows from 0."""
    return [int(row) for row in np.argsort(-(vectors @ query), kind="stable")[:limit]]


def renew(index: QdrantEdgeIndex, number: int, changes: dict[int, list[VectorEntry]], *, hnsw: bool) -> None:
    """Make a generation live."""
    made = index.begin(VectorManifest(number, "m", DIMENSION, 1, hnsw=hnsw))
    made.replace(changes)
    made.seal()
    index.switch(made)


def test_graph_finds_nearly_all_and_counts_what_it_does_not_cover(open_index: Callable[[], QdrantEdgeIndex]) -> None:
    """A graph finds at least nine of ten; entries written since, moved ones too, are found exactly and counted."""
    index = open_index()
    vectors, queries = vectors_of(3000, 1), vectors_of(40, 2)
    renew(index, 1, changes_of(vectors, first_row=0), hnsw=True)

    right = sum(len({*ids(index, query)} & {*best(vectors, query)}) for query in queries)
    assert right >= 0.9 * 10 * len(queries)
    assert index.unsealed_count() == 0

    index.replace(changes_of(queries, first_row=5000))
    index.replace({row: changes_of(vectors[row : row + 1], first_row=row)[row] for row in range(7)})
    index.replace(dict.fromkeys(range(100, 105), ()))

    assert index.unsealed_count() == len(queries) + 7
    assert [ids(index, query, 1) for query in queries] == [[5000 + number] for number in range(len(queries))]


def clusters_of(count: int, size: int, seed: int) -> Vectors:
    """Return vectors of unit length around *count* centres, one of each in turn, *size* around each."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(count, WIDE)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = np.tile(centres, (size, 1)) + random.normal(size=(count * size, WIDE)).astype(np.float32) * 0.01
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


def test_an_owner_among_others_finds_what_is_nearest(open_index: Callable[[], QdrantEdgeIndex]) -> None:
    """Also where a filter leaves half of it: the links of a graph go through what passes alone."""
    index = open_index()
    vectors = clusters_of(90, 60, 8)
    plain = factories.attributes(1)
    changes: dict[int, list[VectorEntry]] = {}
    for row, vector in enumerate(vectors):
        # Of each cluster the owner has a third, and half of that is of some importance.
        owner = REACH.owner if row // 90 % 3 == 0 else f"other {row // 90 % 3}"
        attributes = plain._replace(row=row, owner=owner, importance=2 + row // 270 % 2)
        changes[row] = [VectorEntry(entry_id(row, View.CHUNK, 0), View.CHUNK, vector, attributes)]
    made = index.begin(VectorManifest(1, "m", WIDE, 1, hnsw=True))
    made.replace(changes)
    made.seal()
    index.switch(made)

    own = [row for row in range(len(vectors)) if row // 90 % 3 == 0][::13]
    important = [row for row in own if row // 270 % 2]
    found = [row for row in own if row in ids(index, vectors[row])]
    where = Range(Field.IMPORTANCE, at_least=3)
    filtered = [row for row in important if ids(index, vectors[row], where=where)[:1] == [row]]

    assert len(found) >= 0.99 * len(own)
    assert filtered == important


def test_graphs_over_all_owners_are_built_anew(open_index: Callable[[], QdrantEdgeIndex], directory: Path) -> None:
    """Until then everything is scanned."""
    index = open_index()
    vectors = vectors_of(100, 9)
    renew(index, 1, changes_of(vectors, first_row=0), hnsw=True)
    index.close()
    manifest = directory / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2}))

    again = open_index()

    assert again.manifest is not None
    assert not again.manifest.hnsw
    assert ids(again, vectors[7], 25) == best(vectors, vectors[7], 25)


def test_sealed_bulk_without_a_graph_is_exact(open_index: Callable[[], QdrantEdgeIndex]) -> None:
    """What the builder packs is searched exactly, together with what was written since."""
    index = open_index()
    vectors, queries = vectors_of(2000, 3), vectors_of(20, 4)
    renew(index, 1, changes_of(vectors[:1500], first_row=0), hnsw=False)
    index.replace(changes_of(vectors[1500:], first_row=1500))

    assert [ids(index, query, 25) for query in queries] == [best(vectors, query, 25) for query in queries]


def test_equal_scores_at_the_limit_keep_the_smallest_entries(open_index: Callable[[], QdrantEdgeIndex]) -> None:
    """However many entries are equally near, the limit cuts by entry number."""
    index = open_index()
    same = np.repeat(vectors_of(1, 5), 700, axis=0)
    renew(index, 1, changes_of(same[:400], first_row=300), hnsw=False)
    index.replace(changes_of(same[:300], first_row=0))

    for limit in (1, 5, 299, 301, 699):
        assert ids(index, same[0], limit) == list(range(limit))


def test_slices_hold_every_entry_and_every_memory_once() -> None:
    """A change is cut into bounded slices; a memory is closed with the slice that holds its last entry."""
    vectors = vectors_of(60, 6)
    plain = factories.attributes(1)
    changes: dict[int, list[VectorEntry]] = {row: [] for row in range(40)}
    for number, vector in enumerate(vectors):
        row = (3, 17, 18)[number % 3]
        entry = VectorEntry(entry_id(row, View.CHUNK, number), View.CHUNK, vector, plain._replace(row=row))
        changes[row].append(entry)

    slices = list(slices_of(changes, dimension=DIMENSION, size=8))

    written = [number for part in slices for number in part.ids]
    assert written == [entry.entry_id for entries in changes.values() for entry in entries]
    assert b"".join(part.vectors for part in slices) == np.concatenate([vectors[n::3] for n in range(3)]).tobytes()
    assert all(len(part.ids) <= 8 and len(part.memories) <= 8 for part in slices)
    closed = {row: kept for part in slices for row, kept in part.memories}
    assert closed == {row: [entry.entry_id for entry in entries] for row, entries in changes.items()}


@pytest.mark.parametrize("beside", ["nothing", "replace", "build"])
def test_searches_go_on(
    open_index: Callable[[], QdrantEdgeIndex], record_property: Callable[[str, object], None], beside: str
) -> None:
    """Searches answer beside a large change and beside the build of a graph; the speed is recorded, not judged."""
    index = open_index()
    vectors = vectors_of(1000, 7)
    renew(index, 1, changes_of(vectors, first_row=0), hnsw=False)

    def work() -> None:
        if beside == "replace":
            index.replace(changes_of(vectors, first_row=10_000))
        elif beside == "build":
            renew(index, 2, changes_of(vectors, first_row=0), hnsw=True)

    worker = threading.Thread(target=work)
    worker.start()
    seconds: list[float] = []
    while worker.is_alive() or len(seconds) < 100:
        start = time.perf_counter()
        assert len(ids(index, vectors[len(seconds) % 100])) == 10
        seconds.append(time.perf_counter() - start)
    worker.join()

    milliseconds = [1000 * value for value in statistics.quantiles(seconds, n=20)]
    record_property("p50_p95_milliseconds", (milliseconds[9], milliseconds[18]))
    _log.info("beside %s: p50 %.2f ms, p95 %.2f ms of %d", beside, milliseconds[9], milliseconds[18], len(seconds))


def test_a_graph_pays_once_one_owner_has_many_entries(tmp_path: Path) -> None:
    """What counts is the largest owner, not all entries together."""
    vectors = vectors_of(150, 6)
    other = {
        row: [replace(entry, attributes=entry.attributes._replace(owner="other")) for entry in entries]
        for row, entries in changes_of(vectors[:75], first_row=1000).items()
    }
    with EDGE.open(QdrantEdgeSettings(graph_threshold=100), BackendContext(tmp_path, lambda: factories.NOW)) as index:
        assert isinstance(index, QdrantEdgeIndex)
        renew(index, 1, {**changes_of(vectors[75:], first_row=0), **other}, hnsw=False)
        few = index.wants_graph()

        index.replace(changes_of(vectors[:75], first_row=500))

        assert (few, index.wants_graph()) == (False, True)
