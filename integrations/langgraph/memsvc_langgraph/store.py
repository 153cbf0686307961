"""LangGraph's BaseStore on a memsvc client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import grpc
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from memsvc.client import AsyncMemsvc, Draft, Filters, Memsvc, MemsvcCallError
from memsvc.v1 import types_pb2 as types_pb
from memsvc_langgraph.item_filters import check_filter, matches, where
from memsvc_langgraph.item_keys import ROOT, key_prefix, memory_key, namespace_of
from memsvc_langgraph.item_memories import (
    FIELDS_PATH,
    INDEXED_PATH,
    PARTIAL_PATH,
    StoredItem,
    draft_of,
    stored_namespace,
)

R = TypeVar("R")
_Scored = tuple[types_pb.Memory, float | None]

_MOST_IN_BATCH = 1_000
_MOST_BATCH_CHARS = 2_000_000
"""At most 8 MB, half of the largest request that a service takes by default."""
_MOST_HITS = 100
_MOST_QUERY_CHARS = 8_192
_PARALLEL_CALLS = 16
_VISIBLE: Filters = {
    "statuses": ("ACTIVE", "ARCHIVED", "CONFLICTED", "SUPERSEDED"),
    "tiers": ("CORE", "ACTIVE", "CONTEXTUAL", "ARCHIVED"),
    "project_visibility": "PROJECT",
}
"""All items, also those that maintenance has archived; not those that have expired or wait for a review."""
_VISIBLE_STATUSES = frozenset(
    {
        types_pb.MEMORY_STATUS_ACTIVE,
        types_pb.MEMORY_STATUS_ARCHIVED,
        types_pb.MEMORY_STATUS_CONFLICTED,
        types_pb.MEMORY_STATUS_SUPERSEDED,
    }
)


class MemsvcStore(BaseStore):
    """A store whose items are memories of the client's user and project.

    It may be used from several threads and event loops. All operations of a batch that read see the state before those
    that write; of several writes to one item the last one counts.

    Attributes:
        fields: The paths of values whose text is searched, unless a put names others; "$" is the whole value.
    """

    supports_ttl = True

    def __init__(self, client: Memsvc, *, fields: Sequence[str] = ("$",), ttl: TTLConfig | None = None) -> None:
        """Use an open client, which the caller closes.

        Of *ttl*, `default_ttl` and `refresh_on_read` apply; expired items are always omitted.
        """
        self._client = client
        self.fields = tuple(fields)
        self.ttl_config = ttl

    @classmethod
    @contextmanager
    def from_address(
        cls,
        address: str,
        *,
        user_id: str,
        project_id: str = "",
        fields: Sequence[str] = ("$",),
        ttl: TTLConfig | None = None,
    ) -> Iterator[MemsvcStore]:
        """Open a client for the time of a context."""
        with Memsvc(address, user_id=user_id, project_id=project_id) as client:
            yield cls(client, fields=fields, ttl=ttl)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order."""
        return self._client.loop.wait_for(self._run(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order."""
        return await asyncio.wrap_future(self._client.loop.submit(self._run(list(ops))))

    def sweep_ttl(self) -> int:
        """Delete the items whose time to live has passed, so that they can be restored; return their number."""
        return self._client.loop.wait_for(_Operations(self._client.client, self.fields).sweep())

    async def _run(self, ops: Sequence[Op]) -> list[Result]:
        operations = _Operations(self._client.client, self.fields)
        gets = {index: op for index, op in enumerate(ops) if isinstance(op, GetOp)}
        puts = {(tuple(op.namespace), op.key): op for op in ops if isinstance(op, PutOp)}
        drafts = operations.drafts(puts)
        results: list[Result] = [None] * len(ops)
        reads: dict[int, Coroutine[Any, Any, Any]] = {}
        for index, op in enumerate(ops):
            if isinstance(op, SearchOp):
                check_filter(op.filter)
                reads[index] = operations.search(op)
            elif isinstance(op, ListNamespacesOp):
                reads[index] = operations.list_namespaces(op)
            elif not isinstance(op, GetOp | PutOp):
                raise TypeError(f"Unknown operation: {op!r}.")
        found, *others = await _in_parallel([operations.get_all(list(gets.values())), *reads.values()])
        for index, result in [*zip(gets, found, strict=True), *zip(reads, others, strict=True)]:
            results[index] = result
        await operations.write(drafts, [memory_key(*name) for name, op in puts.items() if op.value is None])
        return results


class _Operations:
    """The operations of a store, on the event loop of the client."""

    def __init__(self, client: AsyncMemsvc, fields: Sequence[str]) -> None:
        self._client = client
        self._fields = fields

    async def get_all(self, ops: Sequence[GetOp]) -> list[Item | None]:
        """Return the items in the order of *ops*."""
        keys = [memory_key(op.namespace, op.key) for op in ops]
        found: dict[str, StoredItem] = {}
        wanted = list(dict.fromkeys(keys))
        for start in range(0, len(wanted), _MOST_IN_BATCH):
            reply = await self._client.get_many(keys=wanted[start : start + _MOST_IN_BATCH])
            found |= {memory.key: StoredItem.of(memory) for memory in reply.memories if _is_visible(memory)}
        refreshed = {key for key, op in zip(keys, ops, strict=True) if op.refresh_ttl}
        await self._refresh([item for key, item in found.items() if key in refreshed])
        return [found[key].item() if key in found else None for key in keys]

    async def search(self, op: SearchOp) -> list[SearchItem]:
        """Return the items of a page: with a query the best first, without one the last updated first."""
        namespace = tuple(op.namespace_prefix)
        filters = Filters(**_VISIBLE, key_prefix=key_prefix(namespace))
        expression = where(op.filter, FIELDS_PATH, PARTIAL_PATH)
        if expression is not None:
            filters["where"] = expression
        wanted = op.offset + op.limit
        found: list[tuple[StoredItem, float | None]] = []
        source = self._by_query(op.query, filters, wanted) if op.query else self._by_time(filters, wanted)
        async with aclosing(source) as pairs:
            async for memory, score in pairs:
                if len(found) >= wanted:
                    break
                item = StoredItem.of(memory)
                if item.namespace[: len(namespace)] == namespace and matches(item.value, op.filter):
                    found.append((item, score))
        page = found[op.offset : wanted]
        if op.refresh_ttl:
            await self._refresh([item for item, _ in page])
        return [item.search_item(score) for item, score in page]

    async def _by_query(self, query: str, filters: Filters, wanted: int) -> AsyncGenerator[_Scored, None]:
        indexed = Filters(**filters, metadata={INDEXED_PATH: True})
        token = ""
        while True:
            reply = await self._client.search(
                query[:_MOST_QUERY_CHARS], filters=indexed, limit=max(1, min(wanted, _MOST_HITS)), page_token=token
            )
            for hit in reply.hits:
                yield hit.memory, hit.score
            token = reply.next_page_token
            if not token:
                return

    async def _by_time(self, filters: Filters, wanted: int) -> AsyncGenerator[_Scored, None]:
        page_size = max(1, min(wanted, _MOST_IN_BATCH))
        async with aclosing(self._client.list(filters, order_by="update_time desc", page_size=page_size)) as memories:
            async for memory in memories:
                yield memory, None

    async def list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        """Return distinct namespaces in order."""
        conditions = op.match_conditions or ()
        filters = Filters(**_VISIBLE, key_prefix=max((_prefix_of(each) for each in conditions), key=len, default=ROOT))
        namespaces: set[tuple[str, ...]] = set()
        hashed: list[str] = []
        async for memory in self._client.list(filters, page_size=_MOST_IN_BATCH, fields=["id", "key"]):
            namespace = namespace_of(memory.key)
            if namespace is None:
                hashed.append(memory.id)
            else:
                namespaces.add(namespace)
        for start in range(0, len(hashed), _MOST_IN_BATCH):
            reply = await self._client.get_many(hashed[start : start + _MOST_IN_BATCH], fields=["metadata"])
            namespaces.update(stored_namespace(memory) for memory in reply.memories)
        matching = {each[: op.max_depth] for each in namespaces if all(_meets(each, one) for one in conditions)}
        return sorted(matching)[op.offset : op.offset + op.limit]

    def drafts(self, puts: Mapping[tuple[tuple[str, ...], str], PutOp]) -> list[Draft]:
        """Return the memories of the items that are put.

        Raises:
            TypeError: A value is not JSON.
            ValueError: A value does not fit into a memory.
        """
        return [
            draft_of(namespace, key, op.value, texts=self._texts(op), ttl=op.ttl)
            for (namespace, key), op in puts.items()
            if op.value is not None
        ]

    async def write(self, drafts: Sequence[Draft], deleted_keys: Sequence[str]) -> None:
        """Store and delete items; searches see the changes when it returns."""
        for batch in _batches(drafts):
            reply = await self._client.create_many(batch, on_duplicate="KEEP_BOTH", conflict_policy="KEEP_BOTH")
            endless = []
            for draft, result in zip(batch, reply.results, strict=True):
                if result.status.code:
                    raise MemsvcCallError.from_item(result.status)
                if "ttl" not in draft and result.memory.HasField("expire_time"):
                    endless.append(self._client.update(result.memory.id, clear=["expire_time"]))
            await _in_parallel(endless)
        await _in_parallel([self._delete(key) for key in deleted_keys])

    async def sweep(self) -> int:
        """Delete the expired items."""
        filters = Filters(**_VISIBLE, key_prefix=ROOT, include_expired=True)
        filters["statuses"] = [*filters["statuses"], "EXPIRED"]
        now = datetime.now(UTC)
        fields = ["id", "expire_time", "revision"]
        expired = [
            memory
            async for memory in self._client.list(filters, page_size=_MOST_IN_BATCH, fields=fields)
            if memory.HasField("expire_time") and memory.expire_time.ToDatetime(UTC) <= now
        ]
        return sum(await _in_parallel([self._delete_expired(memory) for memory in expired]))

    async def _delete(self, key: str) -> None:
        try:
            await self._client.delete(key=key)
        except MemsvcCallError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise

    async def _delete_expired(self, memory: types_pb.Memory) -> bool:
        return await _unless_changed(self._client.delete(memory.id, expected_revision=memory.revision))

    async def _refresh(self, items: Sequence[StoredItem]) -> None:
        """Begin the time to live of items anew; one that has changed meanwhile has begun anew anyway."""
        await _in_parallel(
            [
                _unless_changed(
                    self._client.update(
                        item.memory.id,
                        ttl=item.ttl,
                        metadata=item.refreshed_metadata(),
                        expected_revision=item.memory.revision,
                        wait_for="STORED",
                    )
                )
                for item in items
                if item.ttl is not None
            ]
        )

    def _texts(self, op: PutOp) -> list[str]:
        if op.index is False:
            return []
        paths = self._fields if op.index is None else op.index
        return [text for path in paths for text in get_text_at_path(op.value, path)]


async def _unless_changed(call: Coroutine[Any, Any, Any]) -> bool:
    """Return whether a call with an expected revision was made, and not too late."""
    try:
        await call
    except MemsvcCallError as error:
        if error.code not in {grpc.StatusCode.ABORTED, grpc.StatusCode.NOT_FOUND}:
            raise
        return False
    return True


async def _in_parallel(calls: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """Return the results in order; at most some calls run at a time."""
    places = asyncio.Semaphore(_PARALLEL_CALLS)

    async def run(call: Coroutine[Any, Any, R]) -> R:
        async with places:
            return await call

    return list(await asyncio.gather(*(run(call) for call in calls)))


def _batches(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    batch: list[Draft] = []
    size = 0
    for draft in drafts:
        chars = len(draft["content"])
        if batch and (len(batch) == _MOST_IN_BATCH or size + chars > _MOST_BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += chars
    if batch:
        yield batch


def _is_visible(memory: types_pb.Memory) -> bool:
    is_expired = memory.HasField("expire_time") and memory.expire_time.ToDatetime(UTC) <= datetime.now(UTC)
    return memory.status in _VISIBLE_STATUSES and not is_expired


def _prefix_of(condition: MatchCondition) -> str:
    """Return the beginning of the keys of all items that may meet a condition."""
    if condition.match_type != "prefix":
        return ROOT
    path = tuple(condition.path)
    return key_prefix(path[: path.index("*")] if "*" in path else path)


def _meets(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValueError(f"Unknown match type: {condition.match_type!r}.")
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for label, wanted in zip(labels, path, strict=True))
