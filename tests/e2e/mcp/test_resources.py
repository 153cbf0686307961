"""Memories as resources, and being told that they changed."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS

from memsvc.mcp import resources
from memsvc.mcp.connection import BridgeScope, linked
from tests.e2e.mcp.support import SECONDS, Bridge, parameters
from tests.support.server_process import ServerProcess, Stubs
from tests.support.user_data import erase

CORE = "memsvc://core"


def test_resources_hold_what_is_remembered(bridge: Bridge) -> None:
    """The core by its name, any memory by its id."""
    rule = bridge.done("remember", content="回答要简短。", layer="CORE")["id"]
    note = bridge.done("remember", content="A note on herons.")["id"]
    listed = bridge.ask(bridge.session.list_resources).resources
    templates = bridge.ask(bridge.session.list_resource_templates).resource_templates
    core = bridge.ask(bridge.session.read_resource, CORE).contents[0]
    one = bridge.ask(bridge.session.read_resource, f"memsvc://memory/{note}").contents[0]

    assert [str(each.uri) for each in listed] == [CORE]
    assert [each.uri_template for each in templates] == ["memsvc://memory/{id}"]
    assert (core.mime_type, f"[mem:{rule}]" in core.text, "回答要简短。" in core.text) == ("text/markdown", True, True)
    assert "A note on herons." not in core.text
    assert "A note on herons." in one.text


@pytest.mark.parametrize("uri", ["memsvc://nothing", "memsvc://memory/nothing", f"memsvc://memory/{uuid.UUID(int=1)}"])
def test_a_resource_that_is_not_there(bridge: Bridge, uri: str) -> None:
    """It is told as an error of the request, and the session goes on."""
    with pytest.raises(MCPError, match=r"There is no resource|Nothing was done|No memory") as refusal:
        bridge.ask(bridge.session.read_resource, uri)
    assert refusal.value.error.code == INVALID_PARAMS
    assert bridge.said("recent")


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_a_subscribed_resource_tells_of_its_changes(bridge: Bridge) -> None:
    """As clients of the older protocols subscribe."""
    memory_id = bridge.done("remember", content="Version one of the note.")["id"]
    uri = f"memsvc://memory/{memory_id}"
    told = asyncio.Event()

    async def changed() -> None:
        bridge.session._message_handler = hear
        await bridge.session.subscribe_resource(uri)
        await bridge.session.call_tool("update_memory", {"id": memory_id, "content": "Version two of the note."})
        async with asyncio.timeout(SECONDS):
            await told.wait()
        await bridge.session.unsubscribe_resource(uri)

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated" and str(message.params.uri) == uri:
            told.set()

    bridge.portal.call(changed)


def test_a_client_of_the_newer_protocol_listens(server: ServerProcess) -> None:
    """What concerns the core, and nothing else."""

    async def main() -> list[str]:
        async with Client(parameters(server.bound, f"ada-{uuid.uuid4()}", "--patience", str(SECONDS))) as client:
            async with client.listen(resource_subscriptions=[CORE]) as events:
                await client.call_tool("remember", {"content": "An aside."})
                await client.call_tool("remember", {"content": "Always be brief.", "layer": "CORE"})
                async with asyncio.timeout(SECONDS):
                    async for event in events:
                        return [str(event.uri)]
        return []

    assert asyncio.run(main()) == [CORE]


def test_the_erasure_of_the_user_is_told(server: ServerProcess, stubs: Stubs) -> None:
    """What was attached of the user's memories is gone; the watch goes on with what comes."""
    user = f"ada-{uuid.uuid4()}"

    async def main() -> list[str]:
        async with Client(parameters(server.bound, user, "--patience", str(SECONDS))) as client:
            one = (
                await client.call_tool("remember", {"content": "Always be brief.", "layer": "CORE"})
            ).structured_content
            watched = [CORE, f"memsvc://memory/{one['id']}"]
            async with client.listen(resource_subscriptions=watched) as events:
                await asyncio.to_thread(erase, stubs, user, confirm=True)
                missing = set(watched)
                async with asyncio.timeout(SECONDS):
                    async for event in events:
                        missing.discard(str(event.uri))
                        if not missing:
                            break
                await client.call_tool("remember", {"content": "Never use tables.", "layer": "CORE"})
                async with asyncio.timeout(SECONDS):
                    async for event in events:
                        if str(event.uri) == CORE:
                            return (await client.read_resource(CORE)).contents[0].text.splitlines()
        return []

    assert any("Never use tables." in line for line in asyncio.run(main()))


class _Reader:
    """The session of a client that takes notifications, or has stopped taking them."""

    def __init__(self, *, takes: bool) -> None:
        self.taken = asyncio.Event()
        self._takes = takes

    async def send_resource_updated(self, uri: str) -> None:
        if not self._takes:
            await asyncio.Event().wait()
        assert uri == CORE
        self.taken.set()


def test_a_client_that_stops_reading_holds_up_no_other(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sessions of a caller are told one after the other; one that takes nothing is told no more."""
    monkeypatch.setattr(resources, "SEND_SECONDS", 0.1)
    stuck, reading = _Reader(takes=False), _Reader(takes=True)

    async def main() -> None:
        async with linked(BridgeScope(server.bound, f"ada-{uuid.uuid4()}")) as link, resources.updates(link) as watched:
            for name, one in (("stuck", stuck), ("reading", reading)):
                await watched.subscribe(CORE, name, one)  # type: ignore[arg-type]
            for content in ("Always be brief.", "Never use tables."):
                await link.here.create(content, layer="CORE")
                async with asyncio.timeout(SECONDS):
                    await reading.taken.wait()
                reading.taken.clear()

    asyncio.run(main())
