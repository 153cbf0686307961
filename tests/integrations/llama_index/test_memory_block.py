"""The memory block of LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from llama_index.core.llms import ChatMessage

from memsvc.client import AsyncMemsvc
from memsvc_llama_index import MemsvcMemoryBlock
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess

Test = Callable[[MemsvcMemoryBlock], Awaitable[None]]
Run = Callable[[Test], None]


@pytest.fixture
def run(server: ServerProcess, user: str) -> Run:
    """Run a test with a block of an open client."""

    def run(test: Test) -> None:
        async def connected() -> None:
            async with AsyncMemsvc(server.bound, user_id=user, project_id="agents") as client:
                await test(MemsvcMemoryBlock(client=client, limit=2))

        asyncio.run(connected())

    return run


def user_says(text: str) -> ChatMessage:
    """Return a message of the user."""
    return ChatMessage(role="user", content=text)


def test_messages_are_stored_and_found(run: Run) -> None:
    """By the last message of the user; without one nothing is searched."""

    async def test(block: MemsvcMemoryBlock) -> None:
        told = [
            user_says("The boat is green."),
            ChatMessage(role="assistant", content="A good choice."),
            user_says(" "),
        ]
        await block.aput([*told, user_says("![x](data:image/png;base64,AAAA) \0")], session_id="s")
        found = await block.aget([user_says("Hello"), user_says("colour of the boat"), told[1]])
        assert found.splitlines()[0] == "- The boat is green."
        assert await block.aget([]) == ""
        assert await block.aget([told[1]]) == ""
        stored = [memory async for memory in block.client.list()]
        assert {memory.speaker for memory in stored} == {"user", "assistant"}
        assert len(stored) == 3
        assert stored[0].metadata["session_id"] == "s"

    run(test)


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I live in Hamburg. My cat is called Mia.", "I live in Berlin now.", "Where do I live?"),
        ("我住在北京。我的猫叫米亚。", "我现在住在上海。", "我住在哪里？"),
    ],
    ids=["English", "Chinese"],
)
def test_what_is_not_current_says_so(run: Run, old: str, new: str, question: str) -> None:
    """At the beginning of its line."""

    async def test(block: MemsvcMemoryBlock) -> None:
        await block.client.create(old)
        await block.client.create(new)
        lines = (await block.aget([user_says(question)])).splitlines()
        assert {f"- [conflicted] {old}", f"- [outdated] {old}"} & set(lines), lines

    run(test)


MOVES = [
    ("I live in Hamburg. My cat is called Mia.", "I live in Berlin now.", "Where do I live?"),
    ("我住在北京。我的猫叫米亚。", "我现在住在上海。", "我住在哪里？"),
]


@pytest.mark.parametrize(("old", "new", "question"), MOVES, ids=["English", "Chinese"])
def test_what_the_user_says_later_marks_an_earlier_message(run: Run, old: str, new: str, question: str) -> None:
    """As in a session: the category of a message is its role."""

    async def test(block: MemsvcMemoryBlock) -> None:
        await block.aput([user_says(old), ChatMessage(role="assistant", content="A good choice.")])
        await block.aput([user_says(new)])
        lines = (await block.aget([user_says(question)])).splitlines()
        stored = {memory.content: memory.category async for memory in block.client.list()}
        assert {f"- [conflicted] {old}", f"- [outdated] {old}"} & set(lines), lines
        assert stored == {old: "user", "A good choice.": "assistant", new: "user"}

    run(test)


@pytest.mark.parametrize(
    ("role", "said", "category"),
    [
        ("assistant", "I live in Berlin now.", "assistant"),
        ("model", "You live in Berlin now.", "assistant"),
        ("chatbot", "I live in Berlin now.", "assistant"),
        ("tool", "I live in Berlin now.", "tool"),
        ("system", "I live in Berlin now.", "system"),
        ("user", "My brother lives in Berlin now.", "user"),
        ("user", "If I lived in Berlin, I would cycle.", "user"),
        ("user", 'Lena said: "I live in Berlin now."', "user"),
        ("user", "我弟弟现在住在柏林。", "user"),
    ],
)
def test_what_others_say_or_do_marks_nothing(run: Run, role: str, said: str, category: str) -> None:
    """Nor what the user only imagines or quotes."""

    async def test(block: MemsvcMemoryBlock) -> None:
        await block.aput([user_says("I live in Hamburg.")])
        await block.aput([ChatMessage(role=role, content=said)])
        lines = (await block.aget([user_says("Where do I live, in Hamburg?")])).splitlines()
        stored = {memory.content: memory.category async for memory in block.client.list()}
        assert "- I live in Hamburg." in lines
        assert stored[said] == category

    run(test)


def test_a_block_is_truncated_by_lines(run: Run) -> None:
    """The best memories stay."""

    async def test(block: MemsvcMemoryBlock) -> None:
        assert await block.atruncate("- the best\n- the second\n- the last", 2) == "- the best\n- the second"
        assert await block.atruncate("- the best", 1) is None

    run(test)


def test_the_example_finds_an_old_message(server: ServerProcess) -> None:
    """In another session."""
    assert "- My dog is called Rex." in run_example("llama_index", server).partition("Session 2: ")[2]
