"""The long-term part of LlamaIndex's Memory: messages that leave the chat history are stored and found again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory.memory import BaseMemoryBlock

from memsvc.client import AsyncMemsvc, Draft, MemsvcCallError, currency_of
from memsvc.v1 import search_service_pb2 as search_pb

_CHARS_PER_TOKEN = 4
_MOST_QUERY_CHARS = 8_192
_MOST_IN_BATCH = 1_000
_CATEGORIES = {
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.DEVELOPER: "system",
    MessageRole.FUNCTION: "tool",
}
"""Categories of messages of which the role has another name than in a session."""


class MemsvcMemoryBlock(BaseMemoryBlock[str]):
    """A block of the memories that fit the last message of the user, one a line, best first.

    A line begins with "[outdated]", "[possibly outdated]" or "[conflicted]" if a newer memory says otherwise.

    Messages are stored as memories of kind MESSAGE with their role as speaker and category, as those of a session:
    what the user says later marks what the user said before, what an assistant says marks nothing. The block
    finds all memories of the client's user and project, also those of other sessions and programs.
    """

    name: str = Field(default="LongTermMemory", description="The name of the memory block.")
    client: AsyncMemsvc = Field(description="An open client, which the caller closes.", exclude=True)
    limit: int = Field(default=5, description="The maximum number of memories.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Return the memories; without a message of the user there are none."""
        del block_kwargs
        said = [_text_of(message) for message in messages or [] if message.role == MessageRole.USER]
        query = said[-1] if said else ""
        if not query:
            return ""
        found = await self.client.search(query[:_MOST_QUERY_CHARS], limit=self.limit, judge_currency=True)
        return "\n".join(f"- {_marked(hit)}" for hit in found.hits)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages; those without text are left out."""
        drafts = [
            Draft(
                content=text,
                kind="MESSAGE",
                category=_CATEGORIES.get(message.role, message.role.value),
                speaker=message.role.value,
                event_time=datetime.now(UTC),
                source="llama-index",
                metadata={"session_id": str(message.additional_kwargs.get("session_id", ""))},
            )
            for message in messages
            if (text := _text_of(message))
        ]
        for start in range(0, len(drafts), _MOST_IN_BATCH):
            reply = await self.client.create_many(drafts[start : start + _MOST_IN_BATCH])
            for result in reply.results:
                if result.status.code:
                    raise MemsvcCallError.from_item(result.status)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the best memories that remain after the given number of tokens, at 4 characters each, or None."""
        lines = content.splitlines(keepends=True)
        removed = 0
        while lines and removed < tokens_to_truncate * _CHARS_PER_TOKEN:
            removed += len(lines.pop())
        return "".join(lines).rstrip("\n") or None


def _marked(hit: search_pb.Hit) -> str:
    mark = currency_of(hit)
    return f"[{mark}] {hit.memory.content}" if mark else hit.memory.content


def _text_of(message: ChatMessage) -> str:
    # An image in Markdown would become a file: the space breaks the mark.
    return (message.content or "").replace("](data:", "] (data:").replace("\0", " ").strip()
