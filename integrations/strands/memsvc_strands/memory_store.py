"""The MemoryStore protocol of Strands Agents on a memsvc client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions

from memsvc.client import Memsvc, Message, currency_of
from memsvc.client.request_types import Role
from memsvc.v1 import search_service_pb2 as search_pb

FIELD = "strands"
R = TypeVar("R")
_DEFAULT_LIMIT = 10
_MOST_LIMIT = 100
_MOST_QUERY_CHARS = 8_192
_MOST_MESSAGES = 500
_ROLES: Mapping[str, Role] = {"user": "USER", "assistant": "ASSISTANT"}


class MemsvcMemoryStore(MemoryStore):
    """A writable store of memories of the client's user and project.

    With *extraction* the manager hands over the messages of the conversation, and the service extracts memories from
    them; no call of the agent's model is needed. It may be used from several event loops.
    """

    def __init__(
        self,
        client: Memsvc,
        *,
        name: str = "memsvc",
        description: str | None = "Long-term memory of facts, preferences and decisions.",
        max_search_results: int = _DEFAULT_LIMIT,
        extraction: bool = False,
    ) -> None:
        """Use an open client, which the caller closes."""
        self.name = name
        self.description = description
        self.max_search_results: int | None = max_search_results
        self.writable = True
        self.extraction = extraction
        self._client = client

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that fit a query, best first; without a query there are none.

        A content begins with "[outdated]", "[possibly outdated]" or "[conflicted]" if a newer memory says otherwise.
        """
        limit = (options or {}).get("max_search_results") or self.max_search_results or _DEFAULT_LIMIT
        if not query.strip():
            return []
        found = await self._run(
            self._client.client.search(
                query[:_MOST_QUERY_CHARS], limit=min(max(limit, 1), _MOST_LIMIT), judge_currency=True
            )
        )
        return [_entry(hit) for hit in found.hits]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> str:
        """Store a statement and return its id. Equal content is stored once."""
        fields = {FIELD: json.dumps(dict(metadata))} if metadata else {}
        stored = await self._run(self._client.client.create(content, source="strands", metadata=fields))
        return stored.memory.id

    async def add_messages(
        self, messages: Sequence[Mapping[str, Any]], context: AddMessagesContext | None = None
    ) -> list[str]:
        """Extract memories from messages and return their ids."""
        del context
        said = [
            Message(role=_ROLES[message["role"]], content=text)
            for message in messages
            if message["role"] in _ROLES and (text := _text_of(message)).strip()
        ]
        ids: list[str] = []
        for start in range(0, len(said), _MOST_MESSAGES):
            reply = await self._run(self._client.client.flush(said[start : start + _MOST_MESSAGES]))
            ids += [result.memory.id for result in reply.results]
        return ids

    async def _run(self, call: Coroutine[Any, Any, R]) -> R:
        return await asyncio.wrap_future(self._client.loop.submit(call))


def _text_of(message: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in message["content"] if "text" in block).replace("\0", " ")


def _entry(hit: search_pb.Hit) -> MemoryEntry:
    fields: Any = hit.memory.metadata
    given = json.loads(fields[FIELD]) if FIELD in fields else {}
    mark = currency_of(hit)
    content = f"[{mark}] {hit.memory.content}" if mark else hit.memory.content
    return MemoryEntry(content=content, metadata={**given, "id": hit.memory.id, "score": hit.score})
