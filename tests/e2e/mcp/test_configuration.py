"""The configurations of MCP clients in the documentation, started as a client would."""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests.docs.pages import HTTP_URL
from tests.e2e.mcp.support import bridged, session
from tests.support.server_process import ROOT, ServerProcess

PLACE, ADDRESS = "/path/to/memsvc/.venv/bin/", "127.0.0.1:50051"
PAGES = ("README.md", "docs/guides/mcp.md")
CONFIGURATIONS = [
    found
    for page in PAGES
    for found in re.findall(
        r"^```json\n(\{\n  \"mcpServers\".*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL
    )
]
SNIPPETS = [each for each in CONFIGURATIONS if '"command"' in each]
[OVER_HTTP] = [each for each in CONFIGURATIONS if '"url"' in each]


def configured(snippet: str, server: ServerProcess, user: str, folder: Path) -> StdioServerParameters:
    """Return how a client starts what a configuration says, with the test's programs, service and user."""
    text = snippet.replace(PLACE, f"{Path(sys.executable).parent}/").replace(ADDRESS, server.bound)
    (entry,) = json.loads(text.replace('"ann"', json.dumps(user)))["mcpServers"].values()
    known: dict[str, Any] = {"MEMSVC_ADDRESS": server.bound} | {
        name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ
    }
    return StdioServerParameters(**entry | {"env": known | entry.get("env", {}), "cwd": folder})


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_configurations_work(snippet: str, server: ServerProcess, tmp_path: Path) -> None:
    """As they stand, in a project of the reader's."""
    (tmp_path / ".memsvc").write_text("garden\n")
    with bridged(configured(snippet, server, f"ann-{uuid.uuid4()}", tmp_path)) as bridge:
        memory_id = bridge.done("remember", content="The beans go into the ground in May.")["id"]
        whole = bridge.done("get_memory", id=memory_id)
        found = bridge.said("context", query="什么时候种豆子？")
        [handle] = re.findall(r"^- (\[[m-z]\d+\])", found, re.MULTILINE)
        read = bridge.done("get_memory", id=handle)

    assert whole.get("project", "") == ("garden" if "--project" in snippet else "")
    assert read == whole


def test_the_configuration_over_http_works(server: ServerProcess) -> None:
    """As it stands, but for the address; without keys its header is not needed."""
    (entry,) = json.loads(OVER_HTTP.replace(HTTP_URL, server.url))["mcpServers"].values()
    assert entry["headers"]["Authorization"].startswith("Bearer memsvc_")
    with session(entry["url"]) as bridge:
        assert bridge.done("remember", content="The beans go into the ground in May.")


def test_the_guide_names_every_tool(server: ServerProcess, tmp_path: Path) -> None:
    """And no other."""
    assert len(SNIPPETS) == 3
    table = (ROOT / PAGES[1]).read_text().partition("| tool | does |")[2].partition("\n\n")[0]
    with bridged(configured(SNIPPETS[1], server, "ann", tmp_path)) as bridge:
        listed = bridge.ask(bridge.session.list_tools).tools
        told = bridge.session.initialize_result

    cells = [row.split("|")[1] for row in table.splitlines() if row.count("|") > 2]
    assert {tool.name for tool in listed} == {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert told.server_info.name == "memsvc"
    assert "开始时先调用 context" in told.instructions
