"""What the OpenAI Agents SDK expects of a session, and what this one promises beyond that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, RunConfig, Runner, SessionSettings, function_tool
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call

from memsvc.client import AsyncMemsvc, Filters, Memsvc
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc_openai_agents import MemsvcSession
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess
from tests.support.until import until

Test = Callable[[MemsvcSession], Awaitable[None]]
Run = Callable[[Test], None]

ALL_SESSIONS: Filters = {"session_visibility": "ALL"}
ITEMS: list[Any] = [
    {"role": "user", "content": "What is the weather in Oslo?"},
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "And here?"}, {"type": "input_image", "image_url": "u"}],
    },
    {"role": "developer", "content": ""},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo", "n": 1.0}', "id": "f"},
    {"type": "function_call", "call_id": "c" * 200, "name": "", "arguments": "no json"},
    {"type": "function_call", "call_id": "c3", "name": "list", "arguments": "[1, NaN]"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain ![x](data:image/png;base64,iVBORw0KGgo=)"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "长" * 40_000}]},
    {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "雨 a\0b \ud800"}]},
    {"type": "item_reference", "id": "x", "n": [1, 1.0, 2**70, None, True, {"": []}]},
    {"role": "user", "content": "![y](data:image/png;base64,iVBORw0KGgo=)" + "word " * 50_000},
    {"role": "user", "content": "What is the weather in Oslo?"},
]


@pytest.fixture
def run(server: ServerProcess, user: str) -> Run:
    """Run a test with an open client and a session."""

    def run(test: Test) -> None:
        async def connected() -> None:
            async with AsyncMemsvc(server.bound, user_id=user, project_id="agents") as client:
                await test(MemsvcSession("chat", client))

        asyncio.run(connected())

    return run


def said(count: int) -> list[Any]:
    """Return short items."""
    return [{"role": "user", "content": f"message {number}"} for number in range(count)]


def test_items_are_returned_exactly(run: Run) -> None:
    """In order, the large ones and repeated ones among them; each is popped exactly, too."""

    async def test(session: MemsvcSession) -> None:
        assert isinstance(session, Session)
        await session.add_items(ITEMS)
        assert json.dumps(await session.get_items()) == json.dumps(ITEMS)
        for limit in range(1, len(ITEMS) + 2):
            assert json.dumps(await session.get_items(limit)) == json.dumps(ITEMS[-limit:])
        for item in reversed(ITEMS):
            assert json.dumps(await session.pop_item()) == json.dumps(item)
        assert await session.pop_item() is None

    run(test)


def test_a_session_without_items_is_empty(run: Run) -> None:
    """No call needs that it was opened before."""

    async def test(session: MemsvcSession) -> None:
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items([])
        assert await session.get_items() == []

    run(test)


def test_a_limit_returns_the_last_items(run: Run) -> None:
    """The settings have a default; 0 is none."""

    async def test(session: MemsvcSession) -> None:
        items = said(250)
        await session.add_items(items)
        assert await session.get_items() == items
        assert await session.get_items(limit=3) == items[-3:]
        assert await session.get_items(limit=0) == []
        session.session_settings = SessionSettings(limit=2)
        assert await session.get_items() == items[-2:]
        assert await session.get_items(limit=120) == items[-120:]

    run(test)


def test_a_cleared_session_goes_on(run: Run) -> None:
    """With new items."""

    async def test(session: MemsvcSession) -> None:
        await session.add_items(said(3))
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items(said(1))
        assert await session.get_items() == said(1)

    run(test)


def test_a_closed_session_is_cleared(run: Run, client: Memsvc) -> None:
    """Without reopening it by hand; it goes on then. What was extracted from it stays."""

    async def test(session: MemsvcSession) -> None:
        await session.add_items([{"role": "user", "content": "I am allergic to peanuts. 我住在杭州。"}])
        closed = await asyncio.to_thread(client.close_session, "chat")
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items(said(1))
        assert await session.get_items() == said(1)
        kept = await asyncio.to_thread(lambda: {memory.content for memory in client.list()})
        assert {result.memory.content for result in closed.flush.results} == kept >= {"我住在杭州。"}

    run(test)


def test_a_closed_session_goes_on(run: Run, client: Memsvc) -> None:
    """Its items stay, and new ones follow; an item of several messages is popped as a whole. Other sessions stay open."""

    async def test(session: MemsvcSession) -> None:
        await asyncio.to_thread(client.create_session, "other")
        large: Any = {"role": "user", "content": "word " * 50_000}
        await session.add_items([*said(1), large])
        await asyncio.to_thread(client.close_session, "chat", flush=False)
        assert await session.pop_item() == large
        await asyncio.to_thread(client.close_session, "chat", flush=False)
        await asyncio.gather(*(session.add_items(said(1)) for _ in range(4)))
        assert await session.get_items() == said(1) * 5
        states = await asyncio.to_thread(lambda: {one.scope.session_id: one.state for one in client.list_sessions()})
        assert set(states.values()) == {session_pb.SESSION_STATE_ACTIVE}
        assert set(states) == {"chat", "other"}

    run(test)


def test_a_session_of_another_fault_is_not_reopened(run: Run, client: Memsvc) -> None:
    """A refused call leaves a closed session closed."""

    async def test(session: MemsvcSession) -> None:
        await session.add_items(said(1))
        await asyncio.to_thread(client.close_session, "chat", flush=False)
        with pytest.raises(TypeError):
            await session.add_items([{"role": "user", "content": {1}}])
        assert await session.get_items() == said(1)
        assert (await asyncio.to_thread(client.get_session, "chat")).state == session_pb.SESSION_STATE_CLOSED

    run(test)


def test_writers_may_begin_a_session_at_the_same_time(run: Run) -> None:
    """All items are kept, those of one call together."""

    async def test(session: MemsvcSession) -> None:
        await asyncio.gather(*(session.add_items([{"role": "user", "content": str(n)}] * 2) for n in range(8)))
        contents = [item["content"] for item in await session.get_items()]
        assert contents[::2] == contents[1::2]
        assert sorted(contents[::2]) == list("01234567")

    run(test)


def test_items_that_are_no_json_are_refused(run: Run) -> None:
    """Nothing is appended then."""

    async def test(session: MemsvcSession) -> None:
        with pytest.raises(TypeError):
            await session.add_items([*said(1), {"role": "user", "content": {1}}])
        assert await session.get_items() == []

    run(test)


def test_messages_of_other_programs_are_items(run: Run, client: Memsvc) -> None:
    """And the items are messages that searches find."""

    async def test(session: MemsvcSession) -> None:
        await session.add_items([{"role": "user", "content": "The boat is painted green."}])
        await asyncio.to_thread(
            client.append_messages, [{"role": "ASSISTANT", "content": "A good choice."}], session_id="chat"
        )
        assert (await session.get_items())[1] == {"role": "assistant", "content": "A good choice."}
        found = await asyncio.to_thread(until, lambda: list(client.search("boat", filters=ALL_SESSIONS).hits))
        assert found[0].memory.content == "The boat is painted green."

    run(test)


def test_a_runner_continues_the_conversation(run: Run) -> None:
    """The second run sends the items of the first one, calls of tools included."""

    @function_tool
    def weather(city: str) -> str:
        """Return the weather."""
        return f"rain in {city}"

    async def test(session: MemsvcSession) -> None:
        model = ScriptedModel(
            [
                [function_call("weather", {"city": "Oslo"}, call_id="c1")],
                [assistant_message("It rains.")],
                [assistant_message("Yes.")],
            ]
        )
        agent = Agent(name="Agent", model=model, tools=[weather])
        offline = RunConfig(tracing_disabled=True)
        first = await Runner.run(agent, "What is the weather in Oslo?", session=session, run_config=offline)
        second = await Runner.run(agent, "Do I need a coat?", session=session, run_config=offline)

        assert (first.final_output, second.final_output) == ("It rains.", "Yes.")
        items = await session.get_items()
        assert [item.get("role") or item["type"] for item in items] == [
            "user", "function_call", "function_call_output", "assistant", "user", "assistant",
        ]  # fmt: skip
        assert model.calls[-1].input == items[:-1]

    run(test)


def test_the_example_runs(server: ServerProcess) -> None:
    """Two runs of the agent share a conversation."""
    assert "2 items before the second run" in run_example("openai_agents", server)
