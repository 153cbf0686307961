"""One open shard, as the child process uses it. The only module that knows the engine's classes."""

from __future__ import annotations

import marshal
import time
from array import array
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from operator import gt
from pathlib import Path
from typing import Any

import qdrant_edge as edge

Json = dict[str, Any]

ROW_SHIFT = 16
"""The bits of an entry's number below the memory's row: see `memsvc.domain.index_entries`."""

_OWNER = "owner"
_RANGE = edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
_RANGES = ("importance", "create_time", "event_time", "expire_time", "valid_from", "valid_to")
"""The numbers worth 230 bytes of index for each point that has them; others are read from the payload, 2 to 10 µs each.

A search compares both ends of the validity of every memory that has one: among 40 000 with a `valid_from` it took
87 ms without these indexes, and takes 7 ms with them.
"""
_MATCHES: dict[str, Any] = {"value": edge.MatchValue, "any": edge.MatchAny, "text_any": edge.MatchTextAny}
_TOP_ID = (1 << 63) - 1
_SCAN = edge.SearchParams(exact=True)
_LOCK_PATIENCE_SECONDS = 10.0
_KEPT_BYTES = 1 << 10
"""A larger condition, a long list of values, is not cached."""
SCANNED_KILOBYTES = 10_000
"""What a filter leaves is scanned, and not looked for by a graph, when its vectors take less than this."""
GRAPH_SHARE = 0.75
"""Least share of an owner's points that a search by the owner's graph must be allowed to return.

Links lead only through points that pass. Of 50 000 points in 64 clusters, the nearest one was found in all searches
when 70 % of them passed, in 72 % with 60 %, and in 3 % with half; a wider search changes little.
"""
_REACHES_KNOWN = 1_024
FLUSHED_POINTS = 1_024
"""Points written or deleted after which a shard is flushed. More would take longer at a time, and to replay."""


class Shard:
    """A shard of a directory."""

    def __init__(self, shard: edge.EdgeShard, dimension: int) -> None:
        self._shard = shard
        self._dimension = dimension
        self._highest_row = self._find_highest_row()
        self._unflushed = 0
        self._changes = 0
        self._reaches: dict[bytes, tuple[bool, float]] = {}

    @classmethod
    def create(
        cls, path: str, dimension: int, graph: tuple[int, int] | None, *, scanned_kilobytes: int = SCANNED_KILOBYTES
    ) -> Shard:
        """Make an empty shard; *graph* gives links and build width where `finish` is to build graphs.

        There is no graph over all points, but one of each owner with more vectors than are scanned (`payload_m`): in
        one over all, what an owner has is cut into parts that no link joins. Of 50 000 entries in 64 clusters, half of
        all points, it found the nearest one in 52 % of searches, and the owner's own graph in all.
        """
        links, width = graph or (0, 100)
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine),
            hnsw_config=edge.HnswIndexConfig(
                m=0,
                payload_m=links,
                ef_construct=width,
                full_scan_threshold=scanned_kilobytes,
                max_indexing_threads=1,
            ),
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=1),
            max_search_threads=1,
        )
        Path(path).mkdir(parents=True)
        shard = edge.EdgeShard.create(path, config)
        schemas: dict[str, Any] = {
            _OWNER: edge.KeywordIndexParams(is_tenant=True, enable_hnsw=graph is not None),
            "project_id": edge.KeywordIndexParams(enable_hnsw=False),
            "status": edge.KeywordIndexParams(enable_hnsw=False),
            "row": edge.IntegerIndexParams(lookup=True, range=False, enable_hnsw=False),
            "view": edge.IntegerIndexParams(lookup=True, range=False, enable_hnsw=False),
            "plain": edge.IntegerIndexParams(lookup=True, range=False, enable_hnsw=False),
            "terms": edge.TextIndexParams(
                tokenizer=edge.TokenizerType.Whitespace, lowercase=False, ascii_folding=False, enable_hnsw=False
            ),
        }
        schemas |= dict.fromkeys(_RANGES, _RANGE)
        for name, schema in schemas.items():
            shard.update(edge.UpdateOperation.create_field_index(name, schema))
        return cls(shard, dimension)

    @classmethod
    def load(cls, path: str, dimension: int) -> Shard:
        """Open a shard. A process that was killed just now may still hold its lock: wait for that a little."""
        until = time.monotonic() + _LOCK_PATIENCE_SECONDS
        while True:
            try:
                loaded = cls(edge.EdgeShard.load(path, None), dimension)
            except Exception as error:
                if "WouldBlock" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                # The first write flushes what was replayed; a full disk keeps no shard from being opened.
                loaded._unflushed = FLUSHED_POINTS
                with suppress(Exception):
                    loaded._index_ranges()
                return loaded

    def _index_ranges(self) -> None:
        """Index the numbers that an earlier version did not index: 3 to 6 s for a million points, once."""
        for name in sorted({*_RANGES} - {*self._shard.info().payload_schema}):
            self._shard.update(edge.UpdateOperation.create_field_index(name, _RANGE))

    def write(self, ids: Sequence[int], payloads: Sequence[Json], memories: Sequence[Any], vectors: bytes) -> None:
        """Write points, then delete the other points of the memories; flush after `FLUSHED_POINTS`."""
        before = self._highest_row
        if ids:
            floats: Any = memoryview(vectors).cast("f")
            size = self._dimension
            points = [
                edge.Point(point, floats[at * size : (at + 1) * size].tolist(), payload)
                for at, (point, payload) in enumerate(zip(ids, payloads, strict=True))
            ]
            self._shard.update(edge.UpdateOperation.upsert_points(list(points)))
            self._highest_row = max(before, max(ids) >> ROW_SHIFT)
        stale = [point for row, kept in memories if row <= before for point in self._stale(row, kept)]
        if stale:
            self._shard.update(edge.UpdateOperation.delete_points(list(stale)))
        self._changes += len(ids) + len(stale)
        self._unflushed += len(ids) + len(stale)
        if self._unflushed >= FLUSHED_POINTS:
            self.flush()

    def flush(self) -> None:
        """Write to the segments what the write-ahead log alone has, and drop it from the log."""
        self._shard.flush()
        self._unflushed = 0

    def search(
        self, vector: bytes, where: bytes, limit: int, width: int | None, least: bytes | None = None
    ) -> tuple[bytes, bytes]:
        """Return the ids (int64) and scores (double) of the nearest, best first, equal scores by id.

        The engine cuts off at its limit without regard to ids, so it is asked for more as long as the cut goes
        through equal scores, and in growing steps since it sets memory aside for as many as it is asked for.

        Args:
            vector: The direction, as float32 bytes.
            where: The filter in Qdrant's JSON, marshalled.
            limit: How many are wanted at most.
            width: How many candidates the graph is searched for, or None for an exact scan.
            least: A filter in the same form that lets through nothing which *where* holds back. The graph is searched
                only if that is most of what the owner has. None: it is not known, and the scan is exact.
        """
        floats: Any = memoryview(vector).cast("f").tolist()
        query = edge.Query.Nearest(floats)
        is_exact = width is None or least is None or not self._is_most(least)
        params = _SCAN if is_exact else edge.SearchParams(hnsw_ef=max(width or 0, min(limit, 1024)))
        filtered = to_filter(marshal.loads(where))  # noqa: S302 - from our own parent
        asked = min(limit, 1024) + 1
        while True:
            request = edge.QueryRequest(limit=asked, query=query, filter=filtered, params=params, with_payload=False)
            points = self._shard.query(request)
            scores = [point.score for point in points]
            if len(points) < asked or (asked > limit and scores[-1] < scores[limit - 1]):
                break
            asked *= 4
        ids: list[Any] = [point.id for point in points]
        if not all(map(gt, scores, scores[1:])):
            found = sorted((-score, point) for score, point in zip(scores, ids, strict=True))
            scores, ids = [-score for score, _ in found], [point for _, point in found]
        return array("q", ids[:limit]).tobytes(), array("d", scores[:limit]).tobytes()

    def _is_most(self, packed: bytes) -> bool:
        """Return whether a filter, marshalled, lets through most of its owner's points, so that links join them."""
        known = self._reaches.get(packed)
        if known is None or self._changes > known[1]:
            where = marshal.loads(packed)  # noqa: S302 - from our own parent
            owner = to_filter({"must": [one for one in where["must"] if one.get("key") == _OWNER]})
            owned = self._shard.count(edge.CountRequest(exact=False, filter=owner))
            passing = self.count(where)
            if len(self._reaches) >= _REACHES_KNOWN:
                self._reaches.clear()
            # Counting 100 000 takes 22 ms, and fewer writes than are missing from the limit do not change the answer.
            until = self._changes + max(FLUSHED_POINTS, abs(passing - GRAPH_SHARE * owned))
            known = self._reaches[packed] = passing >= GRAPH_SHARE * owned, until
        return known[0]

    def warm(self) -> None:
        """Search once, as most searches will be, so that no search has to wait for pages to be brought in."""
        owner, count = self.largest_owner()
        if count:
            where = marshal.dumps({"key": _OWNER, "match": {"value": owner}})
            self.search(array("f", [1.0] * self._dimension).tobytes(), where, 100, None)

    def count(self, where: Json | None) -> int:
        """Return how many points meet the filter, or how many there are."""
        if where is None:
            return self._shard.info().points_count
        return self._shard.count(edge.CountRequest(exact=True, filter=to_filter(where)))

    def page(self, start: int, limit: int, field: str) -> tuple[list[int], list[int], int | None]:
        """Return ids from *start* on, ascending, one number of each payload, and where the next page starts."""
        request = edge.ScrollRequest(offset=start, limit=limit, with_payload=[field])
        records, following = self._shard.scroll(request)
        numbers = [record.payload[field] for record in records if record.payload is not None]
        return [_number(record.id) for record in records], numbers, None if following is None else _number(following)

    def finish(self) -> None:
        """Turn what was written in bulk into its final form: flushed, immutable, and with its graph if it has one."""
        self.flush()
        self._shard.optimize()
        # The first flush after that takes up to a second, which no search has to wait for yet.
        self.flush()

    def largest_owner(self) -> tuple[str, int]:
        """Return the owner of the most points, and how many these are; about so, and 0 without any."""
        hits = self._shard.facet(edge.FacetRequest(_OWNER, limit=1, exact=False)).hits
        return (str(hits[0].value), hits[0].count) if hits else ("", 0)

    def close(self) -> None:
        """Close the shard and release its directory."""
        self._shard.close()

    def _find_highest_row(self) -> int:
        """Return the row of the largest id, or -1: rows above it are new, and need no look for older entries."""
        if not self._ids(0, 1):
            return -1
        low, high = 0, _TOP_ID
        while low < high:
            middle = (low + high + 1) // 2
            if self._ids(middle, 1):
                low = middle
            else:
                high = middle - 1
        return low >> ROW_SHIFT

    def _stale(self, row: int, kept: Sequence[int]) -> list[int]:
        wanted = set(kept)
        start, end = row << ROW_SHIFT, (row + 1) << ROW_SHIFT
        stale: list[int] = []
        while True:
            limit = len(kept) + 8
            ids = self._ids(start, limit)
            stale += [point for point in ids if point < end and point not in wanted]
            if len(ids) < limit or ids[-1] >= end:
                return stale
            start = ids[-1] + 1

    def _ids(self, start: int, limit: int) -> list[int]:
        request = edge.ScrollRequest(offset=start, limit=limit, with_payload=False)
        return [_number(record.id) for record in self._shard.scroll(request)[0]]


def to_filter(where: Json) -> edge.Filter:
    """Return the engine's form of a filter in Qdrant's JSON."""
    parts: dict[str, Any] = {
        part: [_condition(child) for child in where[part]] for part in ("must", "should", "must_not") if part in where
    }
    return edge.Filter(**parts) if parts or not where else edge.Filter(must=[_condition(where)])


def _condition(where: Json) -> Any:
    # Version 2 writes equal conditions alike; later ones mark what the interpreter happens to share.
    packed = marshal.dumps(where, 2)
    return _build_condition(where) if len(packed) > _KEPT_BYTES else _cached_condition(packed)


@lru_cache(maxsize=512)
def _cached_condition(packed: bytes) -> Any:
    """Return the condition of marshalled JSON. From search to search only the owner and the moment change in it.

    Making a condition takes the engine 5 to 20 µs, all of those of a search a quarter of the search.
    """
    return _build_condition(marshal.loads(packed))  # noqa: S302 - from our own parent


def _build_condition(where: Json) -> Any:
    if "key" in where:
        return _field_condition(where)
    if "has_id" in where:
        return edge.HasIdCondition(set(where["has_id"]))
    return to_filter(where)


def _field_condition(where: Json) -> Any:
    if "range" in where:
        return edge.FieldCondition(key=where["key"], range=edge.RangeFloat(**where["range"]))
    ((kind, wanted),) = where["match"].items()
    return edge.FieldCondition(key=where["key"], match=_MATCHES[kind](wanted))


def _number(point: object) -> int:
    assert isinstance(point, int)  # noqa: S101 - narrows the type; we write no other ids
    return point
