"""A provider that adds memories to the messages of a run and stores what was said in it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from memsvc.client import AsyncMemsvc, Draft, MemsvcCallError

_MOST_QUERY_CHARS = 8_192
_MOST_IN_BATCH = 1_000
_SAID_BY = ("user", "assistant")


class MemsvcContextProvider(ContextProvider):
    """Adds a context for the messages of the user before a run, and stores the messages of user and agent after it.

    Messages are stored as memories of kind MESSAGE with their role as speaker and category, as those of a session:
    what the user says later marks what the user said before, what an agent says marks nothing. The context
    shows all memories of the client's user and project, also those of other sessions and programs.
    """

    DEFAULT_SOURCE_ID = "memsvc"

    def __init__(
        self,
        client: AsyncMemsvc,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        total_tokens: int = 1_000,
        store_messages: bool = True,
    ) -> None:
        """Use an open client, which the caller closes. Without *store_messages* the memories are only read."""
        super().__init__(source_id)
        self._client = client
        self._total_tokens = total_tokens
        self._store_messages = store_messages

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add a message with the memories that fit what the user says, if there are any."""
        del agent, session, state
        query = "\n".join(_texts(context.input_messages, "user"))
        if not query:
            return
        reply = await self._client.render_context(query[:_MOST_QUERY_CHARS], total_tokens=self._total_tokens)
        if reply.citations:
            context.extend_messages(self, [Message(role="user", contents=[reply.markdown])])

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Store what was said."""
        del agent, session, state
        if not self._store_messages:
            return
        said = [*context.input_messages, *(context.response.messages if context.response else [])]
        drafts = [
            Draft(
                content=text,
                kind="MESSAGE",
                category=role,
                speaker=role,
                event_time=datetime.now(UTC),
                source="agent-framework",
            )
            for message in said
            for role in _SAID_BY
            for text in _texts([message], role)
        ]
        for start in range(0, len(drafts), _MOST_IN_BATCH):
            reply = await self._client.create_many(drafts[start : start + _MOST_IN_BATCH])
            for result in reply.results:
                if result.status.code:
                    raise MemsvcCallError.from_item(result.status)


def _texts(messages: Iterable[Message], role: str) -> list[str]:
    # An image in Markdown would become a file: the space breaks the mark.
    said = (message.text for message in messages if message.role == role)
    texts = (text.replace("](data:", "] (data:").replace("\0", " ") for text in said)
    return [text for text in texts if text.strip()]
