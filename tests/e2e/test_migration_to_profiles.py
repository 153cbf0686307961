"""From the embedded profile to the ones that servers share, and back: the indexes follow the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.test_migration import run
from tests.support.postgres_server import schema
from tests.support.qdrant_fake import Keeper, served
from tests.support.rpc import MODES, TIMEOUT, create, found, search
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

pytestmark = pytest.mark.xdist_group("cluster")
SCOPE = types_pb.Scope(user_id="ada", project_id="p")
HARBOUR, TEA, LATER, GONE = (
    "The harbour opens at dawn.",
    "她每天早上喝绿茶。",
    "搬家以后他养了一只猫。",
    "A secret orchard.",
)


@pytest.fixture(params=["postgres", "cluster"])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The settings of a profile whose servers run and hold nothing."""
    with ExitStack() as stack:
        url = stack.enter_context(schema())
        chosen = {**FAST, "MEMSVC_PROFILE": request.param, "MEMSVC_METADATA__OPTIONS__URL": url}
        if request.param == "cluster":
            chosen["MEMSVC_VECTORS__OPTIONS__URL"] = f"http://127.0.0.1:{stack.enter_context(served(Keeper()))}"
        yield chosen


def test_indexes_follow_the_store(tmp_path: Path, settings: dict[str, str]) -> None:
    """What is found after the move is what was found before; after the way back also what was written in between."""
    folder, url = tmp_path / "data", settings["MEMSVC_METADATA__OPTIONS__URL"]
    with ServerProcess(folder) as server, server.stubs() as stubs:
        for content in (HARBOUR, TEA):
            create(stubs, SCOPE, content)
        _delete(stubs, create(stubs, SCOPE, GONE).id)
        run("--url", url, "--address", server.bound)

    with ServerProcess(folder, settings) as server, server.stubs() as stubs:
        _await_indexes(stubs)
        for mode in MODES:
            assert found(stubs, SCOPE, "harbour dawn", mode=mode)[0] == HARBOUR
            assert found(stubs, SCOPE, "早上喝绿茶", mode=mode)[0] == TEA
            assert GONE not in found(stubs, SCOPE, "secret orchard", mode=mode)
        create(stubs, SCOPE, LATER)
        run("--to", "embedded", "--address", server.bound)

    with ServerProcess(folder) as server, server.stubs() as stubs:
        _await_indexes(stubs)
        for mode in MODES:
            assert found(stubs, SCOPE, "养了一只猫", mode=mode)[0] == LATER
            assert found(stubs, SCOPE, "harbour dawn", mode=mode)[0] == HARBOUR


def _await_indexes(stubs: Stubs) -> None:
    """Wait until searches do not say any more that an index is being built."""
    until(lambda: not search(stubs, SCOPE, "harbour dawn").degraded)


def _delete(stubs: Stubs, memory_id: str) -> None:
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=SCOPE, id=memory_id, purge=True), timeout=TIMEOUT)
