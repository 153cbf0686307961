"""What the Agent Development Kit expects of a memory service."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from memsvc.client import Memsvc
from memsvc_google_adk import MemsvcMemoryService
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess

SAID_AT = 1_700_000_000.25


@pytest.fixture
def service(server: ServerProcess) -> Iterator[MemsvcMemoryService]:
    """A memory service of the session's server."""
    with MemsvcMemoryService(server.bound) as service:
        yield service


def event(event_id: str, text: str, *, author: str = "user", **fields: Any) -> Event:
    """Return an event in which something is said."""
    content = types.Content(role=author, parts=[types.Part(text=text)])
    return Event(**{"id": event_id, "author": author, "content": content, "timestamp": SAID_AT} | fields)


def session(user: str, *events: Event, session_id: str = "s/1", app: str = "app") -> Session:
    """Return a session with events."""
    return Session(id=session_id, app_name=app, user_id=user, events=list(events))


def found(service: MemsvcMemoryService, user: str, query: str, *, app: str = "app") -> list[MemoryEntry]:
    """Return what a search finds; each call runs in an event loop of its own."""
    return asyncio.run(service.search_memory(app_name=app, user_id=user, query=query)).memories


def test_what_is_said_in_a_session_is_found(service: MemsvcMemoryService, user: str) -> None:
    """With content, author and time; events without text are left out."""
    call = types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args={}))])
    asyncio.run(
        service.add_session_to_memory(
            session(
                user,
                event("e1", "The boat is painted green."),
                event("e2", "Shall I order paint?", author="agent"),
                event("e3", "The boat is pai", partial=True),
                Event(id="e4", author="agent", content=call),
                Event(id="e5", author="agent"),
            )
        )
    )

    first, *others = found(service, user, "colour of the boat")
    assert first.content == types.Content(role="user", parts=[types.Part(text="The boat is painted green.")])
    assert first.author == "user"
    assert datetime.fromisoformat(first.timestamp) == datetime.fromtimestamp(SAID_AT, UTC)
    assert {other.author for other in others} <= {"agent"}
    assert found(service, user, "  ") == []


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I live in Hamburg. My cat is called Mia.", "I live in Berlin now.", "Where do I live?"),
        ("我住在北京。我的猫叫米亚。", "我现在住在上海。", "我住在哪里？"),
    ],
    ids=["English", "Chinese"],
)
def test_what_is_not_current_says_so(
    service: MemsvcMemoryService, user: str, old: str, new: str, question: str
) -> None:
    """In a part of its own before the content."""
    for text in (old, new):
        entry = MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]))
        asyncio.run(service.add_memory(app_name="app", user_id=user, memories=[entry]))
    texts = [[part.text for part in entry.content.parts or ()] for entry in found(service, user, question)]
    assert any(one in texts for one in (["[conflicted]", old], ["[outdated]", old])), texts


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I live in Hamburg. My cat is called Mia.", "I live in Berlin now.", "Where do I live?"),
        ("我住在北京。我的猫叫米亚。", "我现在住在上海。", "我住在哪里？"),
    ],
    ids=["English", "Chinese"],
)
def test_what_the_user_says_later_marks_an_earlier_event(
    service: MemsvcMemoryService, user: str, server: ServerProcess, old: str, new: str, question: str
) -> None:
    """As in a session: what an agent says is neither compared nor marked."""
    events = event("e1", old), event("e2", new, author="agent")
    asyncio.run(service.add_session_to_memory(session(user, *events)))
    before = [[part.text for part in entry.content.parts or ()] for entry in found(service, user, question)]
    asyncio.run(service.add_session_to_memory(session(user, event("e3", new, timestamp=SAID_AT + 60))))
    after = [[part.text for part in entry.content.parts or ()] for entry in found(service, user, question)]
    with Memsvc(server.bound, user_id=user, project_id="app") as client:
        stored = sorted(memory.category for memory in client.list())

    assert [old] in before
    assert any(one in after for one in (["[conflicted]", old], ["[outdated]", old])), after
    assert stored == ["assistant", "user", "user"]


def test_a_session_may_be_added_again(service: MemsvcMemoryService, user: str, server: ServerProcess) -> None:
    """Each event is stored once, also when it comes alone."""
    events = [event("e1", "The boat is green."), event("e2", "The boat is green.")]
    asyncio.run(service.add_session_to_memory(session(user, *events[:1])))
    asyncio.run(service.add_session_to_memory(session(user, *events)))
    asyncio.run(service.add_events_to_memory(app_name="app", user_id=user, events=events, session_id="s/1"))

    with Memsvc(server.bound, user_id=user, project_id="app") as client:
        assert len(list(client.list())) == 2


def test_users_and_apps_are_separate(service: MemsvcMemoryService, user: str) -> None:
    """Sessions of one app are not found in another."""
    asyncio.run(service.add_session_to_memory(session(user, event("e1", "The boat is green."))))

    assert found(service, user, "boat", app="other") == []
    assert found(service, f"{user}-2", "boat") == []


def test_deleted_memories_stay_deleted(service: MemsvcMemoryService, user: str) -> None:
    """Also when their session is added again."""
    whole = session(user, event("e1", "The boat is green."), event("e2", "The car is red."))
    asyncio.run(service.add_session_to_memory(whole))
    boat = found(service, user, "boat")[0]

    asyncio.run(service.delete_memory(app_name="app", user_id=user, memory_id=boat.id))
    asyncio.run(service.delete_memory(app_name="app", user_id=user, memory_id=boat.id))
    asyncio.run(service.add_session_to_memory(whole))

    assert [entry.content.parts[0].text for entry in found(service, user, "green boat")] == ["The car is red."]
    with pytest.raises(ValueError, match="needs the id"):
        asyncio.run(service.delete_memory(app_name="app", user_id=user))


def test_entries_are_added_directly(service: MemsvcMemoryService, user: str) -> None:
    """An id makes the next entry with it an update; metadata are returned."""

    def add(text: str, **fields: Any) -> None:
        entry = MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=text)]), **fields)
        asyncio.run(
            service.add_memory(app_name="app", user_id=user, memories=[entry], custom_metadata={"from": "test"})
        )

    add("Ann likes green tea.", id="tea", custom_metadata={"n": 1}, timestamp="2026-02-03T04:05:06+00:00")
    add("Ann likes black tea.", id="tea", author="ann")
    add("Ann owns a kettle.")
    with pytest.raises(ValueError, match="no text"):
        add(" ")

    entries = {entry.content.parts[0].text: entry for entry in found(service, user, "tea kettle")}
    assert entries.keys() == {"Ann likes black tea.", "Ann owns a kettle."}
    assert entries["Ann likes black tea."].author == "ann"
    assert entries["Ann owns a kettle."].custom_metadata == {"from": "test"}


def test_large_contents_and_other_memories_are_entries(
    service: MemsvcMemoryService, user: str, server: ServerProcess
) -> None:
    """Of a large content the text is kept."""
    long = "The harbour is closed. " * 2_000
    asyncio.run(service.add_session_to_memory(session(user, event("e" * 300, long), session_id="长" * 200)))
    with Memsvc(server.bound, user_id=user, project_id="app") as client:
        client.create("The lighthouse is white.", speaker="Bo")

    assert found(service, user, "harbour")[0].content.parts[0].text == long.strip()
    assert found(service, user, "lighthouse")[0].author == "Bo"


@pytest.mark.parametrize("answer", ["1: I do not know your dog.", "3: Your dog is Rex."])
def test_the_example_remembers_an_earlier_session(server: ServerProcess, answer: str) -> None:
    """The agent loads memories before each request."""
    assert answer in run_example("google_adk", server)
