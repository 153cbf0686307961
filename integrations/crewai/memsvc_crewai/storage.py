"""CrewAI's StorageBackend on a memsvc client: records are memories of the client's user and project."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, TypeVar

import grpc
from crewai.memory.types import MemoryRecord, ScopeInfo

from memsvc.client import AsyncMemsvc, Draft, Filters, Memsvc, MemsvcCallError, currency_of
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

R = TypeVar("R")
FIELD = "crewai"
"""The member of the metadata that holds the fields of a record."""
CURRENCY, REPLACED_BY = "currency", "replaced_by"
"""Names of the metadata of found records that a newer memory replaces; agents read them, and they are not stored."""
_KEY_PREFIX = "crewai/"
_MOST_KEY_CHARS = 256
_MOST_FIELD_BYTES = 12_000
_MOST_SCOPE_CHARS = 256
"""The service compares shorter strings of the metadata."""
_MOST_TAGS, _MOST_TAG_CHARS = 32, 64
_MOST_IN_BATCH = 1_000
_MOST_HITS = 100
_MOST_QUERY_CHARS = 8_192
_MOST_TEXTS = 4_096
_SHOWN_CHARS = 300
_PARALLEL_CALLS = 16
_STORED: Filters = {
    "statuses": ("ACTIVE", "ARCHIVED", "CONFLICTED"),
    "tiers": ("CORE", "ACTIVE", "CONTEXTUAL", "ARCHIVED"),
    "key_prefix": _KEY_PREFIX,
    "project_visibility": "PROJECT",
}
"""All records; neither those that have expired or wait for a review, nor those that another memory superseded."""
_FOUND: Filters = {
    "statuses": ("ACTIVE", "CONFLICTED"),
    "key_prefix": _KEY_PREFIX,
    "project_visibility": "PROJECT",
}
_STORED_STATUSES = frozenset(
    {types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_ARCHIVED, types_pb.MEMORY_STATUS_CONFLICTED}
)


class MemsvcStorage:
    """A storage of `Memory`, used as `Memory(storage=storage, embedder=storage.embed)`.

    CrewAI hands vectors to a storage. `embed` makes vectors that stand for texts, and `search` finds the text of one,
    so that the service searches by meaning and by words with its own model. Scores are relevances, 0 to 1.

    It may be used from several threads and event loops. Other memories of the project are neither found nor deleted.
    """

    def __init__(self, client: Memsvc) -> None:
        """Use an open client, which the caller closes."""
        self._client = client
        self._texts = _TextVectors()

    def __deepcopy__(self, memo: dict[int, Any]) -> MemsvcStorage:
        """Return the storage itself: copies of a crew share its connection."""
        del memo
        return self

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return vectors that stand for texts; equal texts have equal vectors, different ones are dissimilar."""
        return [self._texts.vector_of(text) for text in texts]

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records; searches see them when it returns. One with a stored id replaces that one.

        Raises:
            ValueError: A record does not fit into a memory.
            MemsvcCallError: The service refused a record, or cannot be reached.
        """
        self._wait(self._save(records))

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records that fit the text of a vector, best first. Outdated ones say so in their metadata.

        Raises:
            ValueError: The vector is not one of `embed`.
        """
        return self._wait(
            self._search(query_embedding, scope_prefix, categories, metadata_filter, limit=limit, min_score=min_score)
        )

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet all criteria, so that they can be restored; return their number."""
        return self._wait(self._delete(scope_prefix, categories, record_ids, older_than, metadata_filter))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id."""
        self._wait(self._update(record))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record, or None."""
        return self._wait(self._get(record_id))

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return records of a scope, newest first."""
        if limit <= 0 or offset < 0:
            return []
        return self._wait(self._page(scope_prefix, limit, offset))

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the number, the categories, the dates and the child scopes of the records of a scope."""
        records = self._wait(self._all(scope))
        created = [record.created_at for record in records]
        return ScopeInfo(
            path=_normal(scope),
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=min(created, default=None),
            newest_record=max(created, default=None),
            child_scopes=_children(records, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the immediate child scopes."""
        return _children(self._wait(self._all(parent)), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records of each category."""
        records = self._wait(self._all(scope_prefix))
        return dict(Counter(category for record in records for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records of a scope."""
        return len(self._wait(self._all(scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete the records of a scope, so that they can be restored. Memories of other programs stay."""
        self._wait(self._delete(scope_prefix))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Store records, as `save`."""
        await self._submit(self._save(records))

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records that fit the text of a vector, as `search`."""
        return await self._submit(
            self._search(query_embedding, scope_prefix, categories, metadata_filter, limit=limit, min_score=min_score)
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete records, as `delete`."""
        return await self._submit(self._delete(scope_prefix, categories, record_ids, older_than, metadata_filter))

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        return self._client.loop.wait_for(work)

    async def _submit(self, work: Coroutine[Any, Any, R]) -> R:
        return await asyncio.wrap_future(self._client.loop.submit(work))

    @property
    def _here(self) -> AsyncMemsvc:
        return self._client.client

    async def _save(self, records: Sequence[MemoryRecord]) -> None:
        drafts = [_draft(record) for record in records]
        for start in range(0, len(drafts), _MOST_IN_BATCH):
            reply = await self._here.create_many(drafts[start : start + _MOST_IN_BATCH], on_duplicate="KEEP_BOTH")
            for result in reply.results:
                if result.status.code:
                    raise MemsvcCallError.from_item(result.status)

    async def _update(self, record: MemoryRecord) -> None:
        draft = _draft(record)
        changes = {name: value for name, value in draft.items() if name not in {"key", "kind"}}
        try:
            await self._here.update(key=draft["key"], **changes)  # type: ignore[arg-type]
        except MemsvcCallError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise
            await self._save([record])

    async def _search(
        self,
        vector: Sequence[float],
        scope: str | None,
        categories: Sequence[str] | None,
        metadata: Mapping[str, Any] | None,
        *,
        limit: int,
        min_score: float,
    ) -> list[tuple[MemoryRecord, float]]:
        if not vector or limit <= 0:
            return []
        found: list[tuple[MemoryRecord, float]] = []
        hits: list[search_pb.Hit] = []
        async with aclosing(self._hits(self._texts.text_of(vector), scope, limit)) as pages:
            async for hit in pages:
                record = _record(hit.memory)
                score = hit.relevance if hit.HasField("relevance") else hit.score
                if score >= min_score and _meets(record, scope, categories, metadata):
                    found.append((record, score))
                    hits.append(hit)
                if len(found) >= limit:
                    break
        await self._mark([record for record, _ in found], hits)
        return sorted(found, key=lambda pair: -pair[1])

    async def _hits(self, text: str, scope: str | None, limit: int) -> AsyncGenerator[search_pb.Hit, None]:
        token = ""
        while True:
            reply = await self._here.search(
                text[:_MOST_QUERY_CHARS],
                filters=_within(_FOUND, scope),
                limit=min(limit, _MOST_HITS),
                judge_currency=True,
                page_token=token,
            )
            for hit in reply.hits:
                yield hit
            token = reply.next_page_token
            if not token:
                return

    async def _mark(self, records: Sequence[MemoryRecord], hits: Sequence[search_pb.Hit]) -> None:
        """Add to the metadata of records that a newer memory replaces that it does, and what that says."""
        newer_ids = sorted({hit.newer_memory_id for hit in hits if hit.newer_memory_id})
        newer: dict[str, str] = {}
        if newer_ids:
            reply = await self._here.get_many(newer_ids, fields=["id", "content"])
            newer = {memory.id: memory.content for memory in reply.memories}
        for record, hit in zip(records, hits, strict=True):
            if mark := currency_of(hit):
                record.metadata[CURRENCY] = mark
            if hit.newer_memory_id in newer:
                record.metadata[REPLACED_BY] = newer[hit.newer_memory_id][:_SHOWN_CHARS]

    async def _delete(
        self,
        scope: str | None = None,
        categories: Sequence[str] | None = None,
        record_ids: Sequence[str] | None = None,
        older_than: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        if record_ids is None:
            records = await self._all(scope)
        else:
            found = await _in_parallel([self._get(record_id) for record_id in dict.fromkeys(record_ids)])
            records = [record for record in found if record is not None]
        ends = None if older_than is None else _naive(older_than)
        keys = [
            _key(record.id)
            for record in records
            if _meets(record, scope, categories, metadata) and (ends is None or record.created_at < ends)
        ]
        return sum(await _in_parallel([self._delete_key(key) for key in keys]))

    async def _delete_key(self, key: str) -> bool:
        try:
            await self._here.delete(key=key)
        except MemsvcCallError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def _get(self, record_id: str) -> MemoryRecord | None:
        reply = await self._here.get_many(keys=[_key(record_id)])
        memories = [
            memory for memory in reply.memories if memory.status in _STORED_STATUSES and not _is_expired(memory)
        ]
        return _record(memories[0]) if memories else None

    async def _all(self, scope: str | None) -> list[MemoryRecord]:
        return await self._page(scope, None, 0)

    async def _page(self, scope: str | None, limit: int | None, offset: int) -> list[MemoryRecord]:
        """Return records, newest first. The event time of their memories is the time of their creation."""
        end = None if limit is None else offset + limit
        records: list[MemoryRecord] = []
        pages = self._here.list(_within(_STORED, scope), order_by="event_time desc", page_size=_MOST_IN_BATCH)
        async with aclosing(pages) as memories:
            async for memory in memories:
                if end is not None and len(records) >= end:
                    break
                record = _record(memory)
                if _meets(record, scope):
                    records.append(record)
        return records[offset:]


class _TextVectors:
    """Vectors that stand for texts: the digest of a text, as numbers that survive a conversion to 32 bits."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[float, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def vector_of(self, text: str) -> list[float]:
        """Return the vector of a text, and keep the text; of many the latest are kept."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        vector = tuple((2 * byte - 255) / 256 for byte in digest)
        with self._lock:
            self._texts[vector] = text
            self._texts.move_to_end(vector)
            if len(self._texts) > _MOST_TEXTS:
                self._texts.popitem(last=False)
        return list(vector)

    def text_of(self, vector: Sequence[float]) -> str:
        """Return the text of a vector.

        Raises:
            ValueError: The vector is of another embedder.
        """
        with self._lock:
            text = self._texts.get(tuple(vector))
        if text is None:
            raise ValueError("The vector is of another embedder: use Memory(storage=storage, embedder=storage.embed).")
        return text


def _key(record_id: str) -> str:
    key = f"{_KEY_PREFIX}{record_id}"
    if not record_id or len(key) > _MOST_KEY_CHARS:
        most = _MOST_KEY_CHARS - len(_KEY_PREFIX)
        raise ValueError(f"The id of a record must have 1 to {most} characters, not {len(record_id)}.")
    return key


def _draft(record: MemoryRecord) -> Draft:
    """Return a record as a memory.

    Raises:
        ValueError: Its id is too long, or its other fields are no JSON or too large.
    """
    scope = _normal(record.scope)
    created = _naive(record.created_at)
    metadata = {name: value for name, value in record.metadata.items() if name not in {CURRENCY, REPLACED_BY}}
    fields = {
        "id": record.id,
        "scope": scope,
        "categories": record.categories,
        "metadata": metadata,
        "importance": record.importance,
        "created_at": created.isoformat(),
        "last_accessed": _naive(record.last_accessed).isoformat(),
        "source": record.source,
        "private": record.private,
    }
    try:
        packed = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The metadata of the record {record.id!r} must be JSON: {error}.") from error
    ancestors = [each for each in _ancestors(scope) if len(each) <= _MOST_SCOPE_CHARS]
    size = len(packed.encode()) + len(json.dumps(ancestors, ensure_ascii=False).encode())
    if size > _MOST_FIELD_BYTES:
        raise ValueError(
            f"The fields of the record {record.id!r} have {size} bytes without the content; shorten its metadata,"
            f" categories or scope to {_MOST_FIELD_BYTES}."
        )
    tags = [tag for tag in dict.fromkeys(record.categories) if 0 < len(tag) <= _MOST_TAG_CHARS and tag.isprintable()]
    return Draft(
        key=_key(record.id),
        kind="FACT",
        # An image in Markdown would become a file: the space breaks the mark.
        content=record.content.replace("](data:", "] (data:").replace("\0", " "),
        importance=1 + round(record.importance * 4),
        tags=tags[:_MOST_TAGS],
        event_time=created.replace(tzinfo=UTC),
        source=FIELD,
        metadata={FIELD: {"record": packed, "scopes": ancestors}},
    )


def _record(memory: types_pb.Memory) -> MemoryRecord:
    stored: Any = memory.metadata[FIELD]
    fields = json.loads(stored["record"])
    for name in ("created_at", "last_accessed"):
        fields[name] = datetime.fromisoformat(fields[name])
    return MemoryRecord(content=memory.content, **fields)


def _is_expired(memory: types_pb.Memory) -> bool:
    return memory.HasField("expire_time") and memory.expire_time.ToDatetime(UTC) <= datetime.now(UTC)


def _within(filters: Filters, scope: str | None) -> Filters:
    """Return filters of the records of a scope, as far as the service can compare it."""
    path = _normal(scope)
    if path == "/" or len(path) > _MOST_SCOPE_CHARS:
        return filters
    condition = filters_pb.FilterCondition(
        field=filters_pb.FILTER_FIELD_METADATA,
        operator=filters_pb.FILTER_OPERATOR_EQUALS,
        metadata_path=f"{FIELD}.scopes",
    )
    condition.values.add().string_value = path
    return Filters(**filters, where=filters_pb.FilterExpression(condition=condition))


def _meets(
    record: MemoryRecord,
    scope: str | None,
    categories: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> bool:
    if _normal(scope) not in _ancestors(record.scope):
        return False
    if categories and not set(categories) & set(record.categories):
        return False
    return all(name in record.metadata and record.metadata[name] == value for name, value in (metadata or {}).items())


def _normal(scope: str | None) -> str:
    """Return a scope with one slash before each of its parts, and none at its end; "/" is the root."""
    return "/" + "/".join(part for part in (scope or "").split("/") if part)


def _ancestors(scope: str) -> list[str]:
    """Return a scope and all scopes that contain it, from the root on."""
    parts = [part for part in scope.split("/") if part]
    return ["/", *("/" + "/".join(parts[: end + 1]) for end in range(len(parts)))]


def _children(records: Sequence[MemoryRecord], parent: str) -> list[str]:
    depth = len(_ancestors(_normal(parent)))
    paths = [_ancestors(record.scope) for record in records]
    return sorted({path[depth] for path in paths if len(path) > depth})


def _naive(moment: datetime) -> datetime:
    """Return a moment as CrewAI compares it: in UTC, without a time zone."""
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


async def _in_parallel(calls: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """Return the results in order; at most some calls run at a time."""
    places = asyncio.Semaphore(_PARALLEL_CALLS)

    async def run(call: Coroutine[Any, Any, R]) -> R:
        async with places:
            return await call

    return list(await asyncio.gather(*(run(call) for call in calls)))
