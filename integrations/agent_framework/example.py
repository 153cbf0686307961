"""An agent of the Microsoft Agent Framework that remembers across sessions. Usage: example.py [ADDRESS].

A scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from memsvc.client import AsyncMemsvc
from memsvc_agent_framework import MemsvcContextProvider


class ScriptedClient(BaseChatClient):
    """A model that says whether its messages mention the dog's name."""

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> ChatResponse:
        del stream, options, kwargs
        is_known = any("Rex" in message.text for message in messages)
        text = "Your dog is Rex." if is_known else "I do not know your dog."
        return ChatResponse(messages=[Message(role="assistant", contents=[text])])


async def main(address: str) -> None:
    """Say something in one session, and ask for it in another."""
    async with AsyncMemsvc(address, user_id=f"user-{uuid4()}", project_id="agent-framework") as client:
        agent = Agent(ScriptedClient(), name="assistant", context_providers=[MemsvcContextProvider(client)])
        question = "What is my dog called?"
        for number, text in enumerate((question, "My dog is Rex.", question), 1):
            answer = await agent.run(text, session=agent.create_session())
            print(f"{number}: {answer.text}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["127.0.0.1:50051"]))
