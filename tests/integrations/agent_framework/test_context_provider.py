"""The context provider of the Microsoft Agent Framework."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import AgentSession, Message, SessionContext

from memsvc.client import AsyncMemsvc
from memsvc_agent_framework import MemsvcContextProvider
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess


def test_memories_that_fit_are_added(server: ServerProcess, user: str) -> None:
    """As a message of the provider; nothing is added where nothing is known or asked."""

    async def before(client: AsyncMemsvc, *messages: Message) -> list[Message]:
        provider: Any = MemsvcContextProvider(client)
        context = SessionContext(input_messages=list(messages))
        await provider.before_run(agent=None, session=AgentSession(), context=context, state={})
        return context.context_messages.get("memsvc", [])

    async def test() -> None:
        question = Message(role="user", contents=["What colour is the boat?"])
        async with AsyncMemsvc(server.bound, user_id=user, project_id="agents") as client:
            assert await before(client, question) == []
            await client.create("The boat is green.")
            [added] = await before(client, question)
            assert "The boat is green." in added.text
            assert await before(client, Message(role="assistant", contents=["boat"])) == []

    asyncio.run(test())


def test_the_example_remembers_an_earlier_session(server: ServerProcess, user: str) -> None:
    """What was said is stored after each run."""
    output = run_example("agent_framework", server)

    assert output.splitlines() == [
        "1: I do not know your dog.",
        "2: Your dog is Rex.",
        "3: Your dog is Rex.",
    ]
