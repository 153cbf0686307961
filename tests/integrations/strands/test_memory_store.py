"""The memory store of Strands Agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("strands.memory", reason="strands-agents is not installed")

from strands.memory import MemoryManager

from memsvc.client import Memsvc
from memsvc_strands import MemsvcMemoryStore
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess


def test_statements_are_stored_and_found(client: Memsvc) -> None:
    """With their metadata, id and score; equal ones once."""
    store = MemsvcMemoryStore(client, max_search_results=1)
    stored = asyncio.run(store.add("The boat is green.", {"n": [1]}))
    assert asyncio.run(store.add("The boat is green.")) == stored
    asyncio.run(store.add("The car is red."))

    [found] = asyncio.run(store.search("green boat"))
    assert found.content == "The boat is green."
    assert found.metadata is not None
    assert found.metadata["n"] == [1]
    assert found.metadata["id"] == stored
    assert len(asyncio.run(store.search("green boat or car", {"max_search_results": 500}))) == 2
    assert asyncio.run(store.search(" ")) == []


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I live in Hamburg. My cat is called Mia.", "I live in Berlin now.", "Where do I live?"),
        ("我住在北京。我的猫叫米亚。", "我现在住在上海。", "我住在哪里？"),
    ],
    ids=["English", "Chinese"],
)
def test_what_is_not_current_says_so(client: Memsvc, old: str, new: str, question: str) -> None:
    """At the beginning of its content."""
    store = MemsvcMemoryStore(client)
    asyncio.run(store.add(old))
    asyncio.run(store.add(new))
    found = {entry.content for entry in asyncio.run(store.search(question))}
    assert {f"[conflicted] {old}", f"[outdated] {old}"} & found, found


def test_memories_are_extracted_from_messages(client: Memsvc) -> None:
    """From what is said, not from calls of tools."""
    store = MemsvcMemoryStore(client, extraction=True)
    messages: list[Any] = [
        {"role": "user", "content": [{"text": "My name is Ann and I live in Oslo."}, {"image": {}}]},
        {"role": "assistant", "content": [{"toolUse": {"name": "f", "toolUseId": "1", "input": {}}}]},
    ]

    ids = asyncio.run(store.add_messages(messages))
    assert ids
    assert any("Oslo" in memory.content for memory in client.list())
    assert asyncio.run(store.add_messages(messages[1:])) == []


def test_a_manager_searches_and_adds(client: Memsvc) -> None:
    """Entries carry the name of the store."""
    manager = MemoryManager(stores=[MemsvcMemoryStore(client)], add_tool_config=True)
    asyncio.run(manager.add("The boat is green."))

    [entry] = asyncio.run(manager.search("boat"))
    assert (entry.content, entry.store_name) == ("The boat is green.", "memsvc")


def test_the_example_knows_what_an_earlier_agent_stored(server: ServerProcess) -> None:
    """The manager adds what it finds to the request."""
    assert run_example("strands", server).splitlines() == ["1: I do not know your dog.", "2: Your dog is Rex."]
