"""BaseMemoryService of the Agent Development Kit on a memsvc service."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from memsvc.client import DEFAULT_ADDRESS, AsyncMemsvc, Draft, Memsvc, MemsvcCallError, Tls, currency_of
from memsvc.client.channel import open_channel
from memsvc_google_adk.event_memories import draft_of_entry, draft_of_event, entry_of, session_prefix

R = TypeVar("R")
_MOST_IN_BATCH = 1_000
_UNKNOWN_SESSION = "unknown"


class MemsvcMemoryService(BaseMemoryService):
    """Memories of the user in the project that has the name of the app.

    It may be used from several event loops: its calls run on the loop of the blocking client.
    """

    def __init__(
        self, address: str = DEFAULT_ADDRESS, *, api_key: str | None = None, tls: Tls | None = None, limit: int = 10
    ) -> None:
        """Open a connection; a search returns at most *limit* memories. Close it, or use it as a context manager."""
        self._limit = limit
        # Keeps the loop running; each call has a client of its own, with the user and the app.
        self._anchor = Memsvc(address, user_id="-", api_key=api_key, tls=tls).open()
        self._channel = self._anchor.loop.wait_for(_open(address, api_key, tls))

    def __enter__(self) -> Self:
        """Return the service."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._anchor.loop.wait_for(self._channel.close())
        self._anchor.close()

    async def add_session_to_memory(self, session: Session) -> None:
        """Store what is said in the events of a session; events that are stored already are updated."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store what is said in events, each once. Events whose memories were deleted stay deleted."""
        name = session_id or _UNKNOWN_SESSION
        drafts = [
            draft for event in events if (draft := draft_of_event(event, name, custom_metadata or {})) is not None
        ]
        if drafts:
            client = self._client(app_name, user_id)
            await self._run(_store(client, drafts, session_prefix(name)))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store entries; one with an id replaces the one that was stored with it.

        Raises:
            ValueError: An entry has no text.
        """
        drafts = [draft_of_entry(entry, custom_metadata or {}) for entry in memories]
        if drafts:
            await self._run(_store(self._client(app_name, user_id), drafts))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories that fit a query, best first: those of sessions and all others of user and app.

        A content begins with "[outdated]", "[possibly outdated]" or "[conflicted]" if a newer memory says otherwise.
        """
        if not query.strip():
            return SearchMemoryResponse()
        reply = await self._run(self._client(app_name, user_id).search(query, limit=self._limit, judge_currency=True))
        return SearchMemoryResponse(memories=[entry_of(hit.memory, currency_of(hit)) for hit in reply.hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete the memory with the id of an entry, so that it can be restored. An unknown id has no effect.

        Raises:
            ValueError: There is no id.
        """
        if not memory_id:
            raise ValueError("delete_memory needs the id of a memory, as search_memory returns it.")
        try:
            await self._run(self._client(app_name, user_id).delete(memory_id))
        except MemsvcCallError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise

    def _client(self, app_name: str, user_id: str) -> AsyncMemsvc:
        return AsyncMemsvc(user_id=user_id, project_id=app_name).open(self._channel)

    async def _run(self, call: Coroutine[Any, Any, R]) -> R:
        return await asyncio.wrap_future(self._anchor.loop.submit(call))


async def _open(address: str, api_key: str | None, tls: Tls | None) -> grpc.aio.Channel:
    return open_channel(address, api_key=api_key, tls=tls)


async def _store(client: AsyncMemsvc, drafts: Sequence[Draft], prefix: str = "") -> None:
    deleted: set[str] = set()
    if prefix:
        where = client.list({"key_prefix": prefix, "statuses": ["DELETED"]}, fields=["key"], page_size=_MOST_IN_BATCH)
        deleted = {memory.key async for memory in where}
    wanted = [draft for draft in drafts if draft.get("key") not in deleted]
    for start in range(0, len(wanted), _MOST_IN_BATCH):
        reply = await client.create_many(wanted[start : start + _MOST_IN_BATCH])
        for result in reply.results:
            if result.status.code:
                raise MemsvcCallError.from_item(result.status)
