"""The bridge and its service: away and back, cancelled calls, keys that may not write, and what is not there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import grpc
import pytest
from mcp import Client

from memsvc.client import Memsvc
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.mcp import read_tools
from memsvc.mcp.connection import BridgeScope, linked
from memsvc.mcp.tool_definitions import called, offered
from memsvc.mcp.tool_inputs import Progress
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1.search_service_pb2_grpc import SearchServiceServicer, add_SearchServiceServicer_to_server
from tests.e2e.access.support import ASKING, make_key
from tests.e2e.mcp.support import SECONDS, bridged, parameters, text_of
from tests.support.forked_process import run_memsvc
from tests.support.server_process import ROOT, ServerProcess
from tests.support.until import until


def test_a_service_that_is_away_is_told_or_waited_for_and_found_again(tmp_path: Path) -> None:
    """The bridge starts without it, says what to do, and goes on when it is there: also after a restart.

    A call with patience does not notice, and a change happens once. One without may come before its connection is tried
    again, up to a second after the last attempt.
    """
    address = f"unix:{tmp_path / 's'}"
    server = ServerProcess(tmp_path / "data", address=address)
    with (
        bridged(parameters(address, "ada", "--patience", "0.1")) as hasty,
        bridged(parameters(address, "ada", "--patience", str(SECONDS))) as patient,
    ):

        def waiting(content: str) -> Any:
            return patient.portal.start_task_soon(patient.session.call_tool, "remember", {"content": content})

        def connected() -> bool:
            return not hasty.call("recent").is_error

        listed = hasty.ask(hasty.session.list_tools).tools
        away = hasty.refused("recall", query="tea")
        change = hasty.refused("remember", content="I like tea.")
        first = waiting("Before.")
        with server:
            begun = first.result(SECONDS)
            until(connected)
            stored = hasty.done("remember", content="I like tea.")
            server.stop()
            gone = hasty.refused("recent")
            second = waiting("之后。")
            server.start()
            ended = second.result(SECONDS)
            until(connected)
            found = hasty.done("recall", query="tea", limit=1)
            kept = patient.done("recent")

    assert listed
    assert "cannot be reached" in away
    assert "memsvc serve" in away
    assert address in gone
    assert 'request_id "' in change
    assert (begun.is_error, ended.is_error) == (False, False)
    assert [each["id"] for each in found["memories"]] == [stored["id"]]
    assert [each["text"] for each in kept["memories"]] == ["之后。", "I like tea.", "Before."]


def test_no_scope_but_its_own_is_reached(server: ServerProcess) -> None:
    """Neither by id, key, resource, search nor argument, for other users and other projects; nor is anything changed."""
    ada, bob = (f"{name}-{uuid.uuid4()}" for name in ("ada", "bob"))
    where = ("--project", "web")
    with (
        bridged(parameters(server.bound, ada, *where)) as mine,
        bridged(parameters(server.bound, bob, *where)) as theirs,
        bridged(parameters(server.bound, ada, "--project", "api")) as elsewhere,
    ):
        secret = mine.done("remember", content="The vault opens at noon.", key="vault")["id"]
        shared = mine.done("remember", content="The person likes tea.", everywhere=True)["id"]

        for stranger in (theirs, elsewhere):
            assert secret not in stranger.said("recall", query="The vault opens at noon.")
            assert secret not in stranger.said("recent")
            assert secret not in stranger.said("context", query="vault")
            for tool, given in (
                ("get_memory", {"id": secret}),
                ("get_memory", {"key": "vault"}),
                ("update_memory", {"id": secret, "content": "It never opens."}),
                ("forget", {"id": secret}),
                ("forget", {"id": secret, "permanently": True}),
                ("remember", {"content": "It never opens.", "replaces": secret}),
            ):
                assert "No memory" in stranger.refused(tool, **given)
            for name in ("user", "user_id", "project", "project_id", "scope", "session_id", "tenant_id"):
                assert "no such argument" in stranger.refused("recall", query="vault", **{name: ada})
            with pytest.raises(Exception, match="No memory"):
                stranger.ask(stranger.session.read_resource, f"memsvc://memory/{secret}")
        assert shared in elsewhere.said("recall", query="what does she drink?")
        assert shared not in theirs.said("recall", query="what does she drink?")
        assert mine.done("get_memory", id=secret)["content"] == "The vault opens at noon."


def test_a_key_that_may_only_read(tmp_path: Path) -> None:
    """What it may not do is told to the model; without any key it is told where to set one."""
    data = tmp_path / "data"
    writer = make_key(data, NewApiKey(tenant_id="acme")).text
    reader = make_key(data, NewApiKey(role=ApiKeyRole.READ_ONLY, tenant_id="acme")).text
    with ServerProcess(data, ASKING) as server:
        with Memsvc(server.bound, user_id="ada", api_key=writer) as client:
            client.create("I am the writer.")
        with bridged(parameters(server.bound, "ada", env={"MEMSVC_API_KEY": reader})) as bridge:
            refused = bridge.refused("remember", content="I am the reader.")
            recalled = bridge.said("recall", query="who?")
        with bridged(parameters(server.bound, "ada", "--read-only")) as bridge:
            keyless = bridge.refused("recall", query="who?")
            names = [tool.name for tool in bridge.ask(bridge.session.list_tools).tools]
            instructions = bridge.session.initialize_result.instructions
            with pytest.raises(Exception, match="There is no tool 'remember'"):
                bridge.call("remember", content="x")

    assert "Do not try again" in refused
    assert "I am the writer." in recalled
    assert "MEMSVC_API_KEY" in keyless
    assert names == ["context", "recall", "get_memory", "recent", "conflicts"]
    assert ("it can only be read" in instructions, "remember" in instructions) == (True, False)


@dataclass
class Slow(SearchServiceServicer):
    """A service whose searches take for ever, and which notes what becomes of them."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def Search(self, request: search_pb.SearchRequest, context: Any) -> search_pb.SearchResponse:  # type: ignore[override]
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return search_pb.SearchResponse()


@asynccontextmanager
async def slow_service(address: str) -> AsyncIterator[Slow]:
    slow, server = Slow(), grpc.aio.server()  # type: ignore[abstract]  # nothing else is asked of it
    add_SearchServiceServicer_to_server(slow, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(address)
    await server.start()
    yield slow
    await server.stop(None)


def test_a_cancelled_call_is_cancelled_at_the_service(tmp_path: Path) -> None:
    """And the session goes on; the SDK's newer protocol and client are served, too."""

    async def main() -> list[str]:
        address = f"unix:{tmp_path / 's'}"
        async with slow_service(address) as slow, Client(parameters(address, "ada")) as client:
            with anyio.fail_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "recall", {"query": "茶"})
                    await slow.asked.wait()
                    tasks.cancel_scope.cancel()
                await slow.cancelled.wait()
                return [tool.name for tool in (await client.list_tools()).tools]

    assert "recall" in asyncio.run(main())


def test_a_context_waits_for_its_client_once(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes no report of progress gets the context, and holds up no other; later reports do not wait."""
    monkeypatch.setattr(read_tools, "PROGRESS_SECONDS", 0.1)
    left: list[float] = []

    async def progress(_done: float, _message: str) -> None:
        left.append(anyio.current_effective_deadline() - anyio.current_time())
        await anyio.sleep_forever()

    async def taken(done: float, message: str) -> None:
        del done, message

    async def main() -> list[str]:
        async with linked(BridgeScope(server.bound, f"ada-{uuid.uuid4()}")) as link:
            await link.here.create("The walrus project ships from Rotterdam.", wait_for="INDEXED")
            texts: list[str] = []

            async def gather(report: Progress) -> None:
                result = await called(offered(read_only=True)["context"], link, {"query": "walrus project"}, report)
                texts.append(text_of(result))

            with anyio.fail_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(gather, progress)
                    tasks.start_soon(gather, taken)
            return texts

    assert ["Rotterdam" in text for text in asyncio.run(main())] == [True, True]
    assert len(left) > 1
    assert [seconds > 0 for seconds in left] == [True] + [False] * (len(left) - 1)


def memsvc(*words: str, script: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with nothing on stdin."""
    start = ["-c", script] if script else ["-m", "memsvc"]
    return subprocess.run(
        [sys.executable, *start, *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip


def test_the_end_of_stdin_is_the_end(tmp_path: Path) -> None:
    """A client that closes ends it without a word; stdout holds nothing but the protocol."""
    done = memsvc("mcp", "--address", f"unix:{tmp_path / 'nothing'}")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_the_package_it_says_what_to_install() -> None:
    """In one line."""
    script = "import sys; sys.modules['mcp'] = None; from memsvc.cli.app import main; main()"
    done = memsvc("mcp", script=script)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("memsvc: The command mcp needs the extra mcp: pip install 'memsvc[mcp]'\n")


@pytest.mark.parametrize("wrong", [("--time-zone", "Mars/Olympus"), ("--tls-ca", "nothing.pem")])
def test_a_wrong_option_is_told_at_the_start(wrong: tuple[str, str]) -> None:
    """In one line on stderr, which clients show."""
    done = run_memsvc("mcp", *wrong, environment=os.environ)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert wrong[1] in done.stderr


def test_outside_a_project_memories_are_global(server: ServerProcess, tmp_path: Path) -> None:
    """As the configuration of Codex, `--project .`, starts it anywhere; a line on stderr says how to get a project."""
    user, errors = f"global-{uuid.uuid4()}", tmp_path / "stderr"
    folder = tmp_path / "folder"
    folder.mkdir()
    how = parameters(server.bound, user, "--project", ".")
    how.cwd = folder
    with errors.open("w") as file, bridged(how, file) as bridge:
        memory_id = bridge.done("remember", content="I like tea.")["id"]
        assert bridge.done("get_memory", id=memory_id).get("project", "") == ""
    [told] = errors.read_text().splitlines()
    assert f"No project found from {folder} up" in told
    assert ".memsvc" in told
    assert "--project NAME" in told
    assert "memories are global" in told


def test_days_are_those_of_the_machine(server: ServerProcess) -> None:
    """What was said in the evening of UTC was said on the next day in Shanghai."""
    user = f"zone-{uuid.uuid4()}"
    with Memsvc(server.bound, user_id=user) as client:
        client.create("My cat is called Mia.", event_time=datetime(2026, 11, 1, 20, tzinfo=UTC), wait_for="INDEXED")
    for zone, day in (("UTC", "2026-11-01"), ("Asia/Shanghai", "2026-11-02")):
        with bridged(parameters(server.bound, user, env={"TZ": zone})) as bridge:
            assert day in bridge.said("context", query="What is my cat called?")
