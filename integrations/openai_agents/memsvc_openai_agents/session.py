"""The session protocol of the OpenAI Agents SDK on SessionService."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from agents import SessionSettings, TResponseInputItem

from memsvc.client import AsyncMemsvc, MemsvcCallError, Message
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_openai_agents.item_messages import MOST_MESSAGES, items_of, messages_of, parts_of

T = TypeVar("T")
_PAGE_SIZE = 1_000


class MemsvcSession:
    """A conversation in the session of the same id. The session is opened by the first items.

    A session that was closed or archived is reopened by a change, and stays open then.

    The service never trims it by itself; `AsyncMemsvc.trim_session` does, and trimmed items are not returned.
    """

    def __init__(
        self, session_id: str, client: AsyncMemsvc, *, session_settings: SessionSettings | None = None
    ) -> None:
        """Use an open client, which the caller closes."""
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._client = client

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last *limit* items, or those that the settings say, or all; the oldest first."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit == 0:
            return []
        newest_first = limit is not None and limit > 0
        page_size = min(_PAGE_SIZE, limit) if limit is not None and newest_first else _PAGE_SIZE
        found: list[types_pb.ChatMessage] = []
        count = 0
        messages = self._client.list_messages(self.session_id, newest_first=newest_first, page_size=page_size)
        try:
            async with aclosing(messages):
                async for message in messages:
                    found.append(message)
                    count += _is_first(message)
                    if newest_first and count == limit:
                        break
        except MemsvcCallError as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise
        return items_of(reversed(found) if newest_first else found)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items: up to 100 all or none, more in several steps."""
        batch: list[Message] = []
        for messages in [messages_of(item) for item in items]:
            if len(batch) + len(messages) > MOST_MESSAGES:
                await self._append(batch)
                batch = []
            batch += messages
        if batch:
            await self._append(batch)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it, or None."""
        try:
            last = list((await self._change(self._pop)).messages)
            missing = parts_of(last[0]) - 1 if last else 0
            if missing:
                reply = await self._change(lambda: self._pop(missing))
                last = [*reply.messages, *last]
        except MemsvcCallError as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise
            return None
        items: list[Any] = items_of(last)
        return items[-1] if items else None

    async def clear_session(self) -> None:
        """Remove all items; the session stays, and is open."""
        try:
            await self._change(lambda: self._client.clear_messages(self.session_id))
        except MemsvcCallError as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise

    async def _change(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call returns that changes the session; it is reopened and the call repeated if it has ended."""
        try:
            return await call()
        except MemsvcCallError as error:
            if error.reason != "SESSION_NOT_ACTIVE":
                raise
        await self._client.reopen_session(self.session_id, on_open="KEEP_OTHERS")
        return await call()

    def _pop(self, count: int = 1) -> Awaitable[session_pb.PopMessagesResponse]:
        return self._client.pop_messages(count, session_id=self.session_id)

    async def _append(self, messages: list[Message]) -> None:
        def append() -> Awaitable[session_pb.AppendMessagesResponse]:
            return self._client.append_messages(messages, session_id=self.session_id)

        try:
            await self._change(append)
        except MemsvcCallError as error:
            if error.reason != "SESSION_NOT_FOUND":
                raise
        else:
            return
        try:
            await self._client.create_session(self.session_id, auto_trim="NEVER", on_open="KEEP_OTHERS")
        except MemsvcCallError as error:
            if error.reason != "SESSION_EXISTS":  # another writer opened it
                raise
        await self._change(append)


def _is_first(message: types_pb.ChatMessage) -> bool:
    """Return whether a message begins an item."""
    return parts_of(message) == 1 or int(message.metadata["openai_agents"]["part"]) == 1  # type: ignore[index, arg-type]
