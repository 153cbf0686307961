"""The context provider of the Microsoft Agent Framework."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")

from agent_framework import AgentResponse, AgentSession, Message, SessionContext

from memsvc.client import AsyncMemsvc, currency_of
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


@pytest.mark.parametrize(
    ("old", "new", "question", "answer"),
    [
        ("I live in Hamburg.", "I live in Berlin now.", "Where do I live, Hamburg or Berlin?", "I live in Munich."),
        ("我住在北京。", "我现在住在上海。", "我住在哪里，北京还是上海？", "我住在成都。"),
    ],
    ids=["English", "Chinese"],
)
def test_what_the_user_says_later_marks_an_earlier_message(
    server: ServerProcess, user: str, old: str, new: str, question: str, answer: str
) -> None:
    """As in a session; what the agent says is neither compared nor marked."""

    async def test() -> None:
        async with AsyncMemsvc(server.bound, user_id=user, project_id="agents") as client:
            provider: Any = MemsvcContextProvider(client)
            for text in (old, new):
                context = SessionContext(input_messages=[Message(role="user", contents=[text])])
                context._response = AgentResponse(messages=[Message(role="assistant", contents=[answer])])
                await provider.after_run(agent=None, session=AgentSession(), context=context, state={})
            reply = await client.search(question, judge_currency=True)
            marks = {hit.memory.content: currency_of(hit) for hit in reply.hits}
            asked = SessionContext(input_messages=[Message(role="user", contents=[question])])
            await provider.before_run(agent=None, session=AgentSession(), context=asked, state={})
        assert marks[old] in {"outdated", "conflicted"}
        assert (marks[new], marks.get(answer, "")) == ("", "")
        assert {hit.memory.category for hit in reply.hits} == {"user", "assistant"}
        shown = asked.context_messages["memsvc"][0].text.splitlines()
        assert any(("outdated" in line or "已过时" in line or "conflict" in line) and old in line for line in shown), (
            shown
        )

    asyncio.run(test())


def test_the_example_remembers_an_earlier_session(server: ServerProcess, user: str) -> None:
    """What was said is stored after each run."""
    output = run_example("agent_framework", server)

    assert output.splitlines() == [
        "1: I do not know your dog.",
        "2: Your dog is Rex.",
        "3: Your dog is Rex.",
    ]
