"""Configuration of coding agents: what is written, that a second time changes nothing, and that it can be undone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import invoke

AGENTS = ("claude-code", "cursor", "codex")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, and no service."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("CODEX_HOME", str(home / ".codex"))
    monkeypatch.setenv("MEMSVC_ADDRESS", "127.0.0.1:1")
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a project."""
    folder = tmp_path / "网 shop"
    folder.mkdir()
    return folder


def setup(folder: Path, agent: str, *options: str) -> Any:
    """Run the command in a folder."""
    return invoke("setup", agent, "--folder", str(folder), "--user", "ada", *options)


def files(*roots: Path) -> dict[str, str]:
    """Return all files below the folders."""
    return {str(path): path.read_text() for root in roots for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_written_can_be_undone(folder: Path, home: Path, agent: str) -> None:
    """A dry run writes nothing, a second run changes nothing, and undoing leaves what was there before."""
    planned = setup(folder, agent, "--dry-run")
    assert planned.exit_code == 0
    assert planned.stdout.startswith("--- /dev/null")
    assert files(folder, home) == {}

    written = setup(folder, agent, "--yes")
    assert "files written. Start the agent again." in written.stdout
    assert "memsvc serve" in written.stderr
    after = files(folder, home)
    assert after
    assert setup(folder, agent, "--yes").stdout == "Everything is configured already.\n"
    assert files(folder, home) == after

    assert setup(folder, agent, "--undo", "--yes").exit_code == 0
    assert files(folder, home) == {}
    assert list(folder.iterdir()) == []
    assert setup(folder, agent, "--undo", "--yes").stdout == "There is nothing to undo.\n"


def test_claude_code_gets_server_hooks_and_commands_beside_those_that_are_there(folder: Path) -> None:
    """Other servers, hooks and settings stay, also when ours are removed; keys are not written."""
    others = {"hooks": [{"type": "command", "command": "lint"}]}
    settings = {"model": "x", "hooks": {"Stop": [others], "PreToolUse": [others]}}
    (folder / ".claude").mkdir()
    (folder / ".claude" / "settings.local.json").write_text(json.dumps(settings))
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"other": {"command": "x"}}}))
    setup(folder, "claude-code", "--yes", "--api-key", "memsvc_secret")

    servers = json.loads((folder / ".mcp.json").read_text())["mcpServers"]
    assert servers["other"] == {"command": "x"}
    arguments = servers["memsvc"]["args"]
    assert arguments[0] == "mcp"
    assert arguments[arguments.index("--project") + 1] == "网 shop"
    assert arguments[arguments.index("--user") + 1] == "ada"
    assert servers["memsvc"]["command"].endswith("memsvc")
    found = json.loads((folder / ".claude" / "settings.local.json").read_text())
    assert found["model"] == "x"
    assert found["hooks"]["PreToolUse"] == [others]
    assert found["hooks"]["Stop"][0] == others
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"):
        [ours] = found["hooks"][event][-1]["hooks"]
        assert "hook claude-code" in ours["command"]
        assert "'网 shop'" in ours["command"]
    assert not [text for text in files(folder).values() if "memsvc_secret" in text]
    assert "$ARGUMENTS" in (folder / ".claude" / "commands" / "recall.md").read_text()

    setup(folder, "claude-code", "--undo", "--yes")
    assert json.loads((folder / ".claude" / "settings.local.json").read_text()) == settings
    assert json.loads((folder / ".mcp.json").read_text()) == {"mcpServers": {"other": {"command": "x"}}}


def test_files_that_a_person_wrote_are_left_alone(folder: Path) -> None:
    """A command of the same name stays as it is, and is not removed."""
    command = folder / ".claude" / "commands" / "recall.md"
    command.parent.mkdir(parents=True)
    command.write_text("mine")
    setup(folder, "claude-code", "--yes")
    assert command.read_text() == "mine"
    setup(folder, "claude-code", "--undo", "--yes")
    assert files(folder) == {str(command): "mine"}


def test_codex_keeps_comments_and_other_tables(folder: Path, home: Path) -> None:
    """The block is added at the end, renewed in its place, and removed; an own table of the name is refused."""
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"\n')
    before = path.read_text()
    setup(folder, "codex", "--yes", "--project", "web")
    found = tomllib.loads(path.read_text())
    assert path.read_text().startswith(before)
    assert found["mcp_servers"]["other"] == {"command": "y"}
    assert found["mcp_servers"]["memsvc"]["args"][-4:] == ["--project", "web", "--agent", "codex"]
    setup(folder, "codex", "--yes", "--project", "other")
    assert tomllib.loads(path.read_text())["mcp_servers"]["memsvc"]["args"][-3] == "other"
    setup(folder, "codex", "--undo", "--yes")
    assert path.read_text() == before

    path.write_text('[mcp_servers.memsvc]\ncommand = "z"\n')
    refused = setup(folder, "codex", "--yes")
    assert refused.exit_code == 1
    assert "already" in refused.stderr


@pytest.mark.parametrize(
    ("agent", "name", "text", "words"),
    [
        ("claude-code", ".mcp.json", "{", "is no JSON"),
        ("claude-code", ".mcp.json", "[]", "must hold a JSON object"),
        ("claude-code", ".mcp.json", '{"mcpServers": []}', "form that is not known"),
        ("claude-code", ".claude/settings.local.json", '{"hooks": {"Stop": 1}}', "form that is not known"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": 1}', "form that is not known"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named_and_nothing_is_written(
    folder: Path, agent: str, name: str, text: str, words: str
) -> None:
    """Every file is read before the first one is written."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    told = setup(folder, agent, "--yes")
    assert told.exit_code == 1
    assert words in told.stderr
    assert files(folder) == {str(path): text}


def test_without_a_terminal_the_question_is_answered_by_an_option(folder: Path) -> None:
    """The changes are shown, nothing is written."""
    told = setup(folder, "cursor")
    assert told.exit_code == 1
    assert "--yes" in told.stderr
    assert files(folder) == {}
