"""Configuration of coding agents: what is written, that a second time changes nothing, and that it can be undone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command_line import invoke

AGENTS = ("claude-code", "cursor", "codex", "openclaw", "hermes")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, and no service."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("CODEX_HOME", str(home / ".codex"))
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(home / ".openclaw"))
    monkeypatch.setenv("HERMES_HOME", str(home / ".hermes"))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
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
    "text", ['mcp_servers = { other = { command = "y" } }\n', "mcp_servers = 1\n", '[[mcp_servers]]\ncommand = "y"\n']
)
def test_codex_refuses_a_form_of_servers_that_takes_no_table(folder: Path, home: Path, text: str) -> None:
    """With what to add by hand, which is TOML; nothing is written."""
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)

    refused = setup(folder, "codex", "--yes")
    assert refused.exit_code == 1
    assert path.read_text() == text
    entry = tomllib.loads(refused.stderr.partition("by hand: ")[2])
    assert entry["memsvc"]["args"][:1] == ["mcp"]
    assert setup(folder, "codex", "--undo", "--yes").stdout == "There is nothing to undo.\n"
    assert path.read_text() == text


@pytest.mark.parametrize("agent", AGENTS)
def test_files_of_tls_and_sockets_are_named_from_the_root(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, agent: str
) -> None:
    """In the commands of the MCP server and of the hooks: agents start them from another folder."""
    monkeypatch.chdir(tmp_path)
    names = ("ca.pem", "cert.pem", "key.pem")
    for name in names:
        (tmp_path / name).write_text("no PEM")
    tls = [
        f"{option}={name}" for option, name in zip(("--tls-ca", "--tls-certificate", "--tls-key"), names, strict=True)
    ]
    setup(folder, agent, "--yes", *tls)
    found = files(folder, home)
    plugins = {
        "openclaw": [home / ".openclaw/memsvc/index.js"],
        "hermes": [home / ".hermes/plugins/memsvc/__init__.py"],
    }
    configured = {
        "claude-code": [folder / ".mcp.json", folder / ".claude/settings.local.json"],
        "cursor": [folder / ".cursor/mcp.json"],
        "codex": [home / ".codex/config.toml"],
    }
    for path in (configured | plugins)[agent]:
        for name in names:
            assert str(tmp_path / name) in found[str(path)]

    setup(folder, agent, "--undo", "--yes")
    setup(folder, agent, "--yes", "--address", "unix:data/s")
    found = files(folder, home)
    for path in (configured | plugins)[agent]:
        assert f"unix:{tmp_path / 'data/s'}" in found[str(path)]


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


@pytest.mark.parametrize(
    ("before", "provider"),
    [
        ("model: x\n", None),
        ("# mine\nmemory:\n  # which one\n  provider: ''  # none\n  limit: 3\nmodel: x\n", ""),
        ("memory:\n    limit: 3\n\nmodel: x\n", None),
        ("memory:\n  provider: builtin\n", "builtin"),
        ("memory:\n", None),
        ("a: 1\nmemory:", None),
    ],
)
def test_hermes_keeps_the_other_lines_of_its_configuration(
    folder: Path, home: Path, before: str, provider: str | None
) -> None:
    """The provider is set, and what was there comes back."""
    path = home / ".hermes" / "config.yaml"
    path.parent.mkdir()
    path.write_text(before)
    setup(folder, "hermes", "--yes", "--project", "网 x")

    found = yaml.safe_load(path.read_text())
    assert found["memory"]["provider"] == "memsvc"
    given = yaml.safe_load(before)
    assert {name: value for name, value in found.items() if name != "memory"} == {
        name: value for name, value in given.items() if name != "memory"
    }
    kept = {name: value for name, value in found["memory"].items() if name != "provider"}
    assert kept == {name: value for name, value in (given.get("memory") or {}).items() if name != "provider"}
    code = (home / ".hermes" / "plugins" / "memsvc" / "__init__.py").read_text()
    compile(code, "plugin", "exec")
    assert "'hermes', '--address', '127.0.0.1:1', '--project', '网 x'" in code
    assert "USER = 'ada'" in code
    assert setup(folder, "hermes", "--yes", "--project", "网 x").stdout == "Everything is configured already.\n"

    setup(folder, "hermes", "--undo", "--yes")
    restored = yaml.safe_load(path.read_text())
    assert restored == given
    assert ((restored.get("memory") or {}).get("provider")) == provider
    assert not (home / ".hermes" / "plugins").exists()


@pytest.mark.parametrize(
    ("before", "told"), [("memory:\n  provider: mem0\n", "'mem0'"), ("memory: {limit: 3}\n", "'memory'")]
)
def test_hermes_refuses_what_it_would_break(folder: Path, home: Path, before: str, told: str) -> None:
    """Another provider, and a form that it does not know; nothing is written."""
    path = home / ".hermes" / "config.yaml"
    path.parent.mkdir()
    path.write_text(before)

    done = setup(folder, "hermes", "--yes")
    assert done.exit_code == 1
    assert told in done.stderr
    assert files(home) == {str(path): before}


def test_openclaw_gives_the_memory_slot_back(folder: Path, home: Path) -> None:
    """Other plugins and settings stay; a list of allowed plugins gets ours."""
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    others: dict[str, Any] = {
        "gateway": {"port": 1},
        "plugins": {
            "allow": ["other"],
            "load": {"paths": ["/x"]},
            "slots": {"memory": "memory-core"},
            "entries": {"other": {"enabled": True}},
        },
    }
    path.write_text(json.dumps(others))
    setup(folder, "openclaw", "--yes")

    plugins = json.loads(path.read_text())["plugins"]
    folder_of_plugin = home / ".openclaw" / "memsvc"
    assert plugins["allow"] == ["other", "memsvc"]
    assert plugins["load"]["paths"] == ["/x", str(folder_of_plugin)]
    assert plugins["slots"] == {"memory": "memsvc"}
    assert plugins["entries"]["memsvc"]["hooks"] == {"allowConversationAccess": True}
    manifest = json.loads((folder_of_plugin / "openclaw.plugin.json").read_text())
    assert (manifest["id"], manifest["kind"]) == ("memsvc", "memory")
    assert (
        folder_of_plugin / json.loads((folder_of_plugin / "package.json").read_text())["openclaw"]["extensions"][0]
    ).exists()
    assert setup(folder, "openclaw", "--yes").stdout == "Everything is configured already.\n"

    setup(folder, "openclaw", "--undo", "--yes")
    assert files(home) == {str(path): json.dumps(others)}


def test_openclaw_refuses_what_is_no_json(folder: Path, home: Path) -> None:
    """As names without quotes, which only JSON5 has; the place is named, and nothing is written."""
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir()
    path.write_text("{\n  // mine\n  gateway: {}\n}")

    done = setup(folder, "openclaw", "--yes")
    assert done.exit_code == 1
    assert "at line 3, column 3" in done.stderr
    assert files(home) == {str(path): "{\n  // mine\n  gateway: {}\n}"}


JSON_FILES = (
    '{\n    "mcpServers": {\n        "a": {"command": "x"}\n    }\n}\n',
    '{\n\t"mcpServers": {\n\t\t"a": 1, // about a\n\t\t"b": 2 // about b\n\t},\n}',
    '{"mcpServers":{"a":{"command":"\\u00e9\\ud83d"}},"n":1.50,"m":1e400}',
    '\ufeff{\r\n  "mcpServers": {\r\n    "a": 1\r\n  }\r\n}\r\n',
    '// top\n{\n  "x": {\n    "a": 1\n    // end of x\n  } /* after x */\n}\n// end\n',
    "{\n  // nothing yet\n}",
)


@pytest.mark.parametrize("text", JSON_FILES)
@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("cursor", "{folder}/.cursor/mcp.json"),
        ("claude-code", "{folder}/.mcp.json"),
        ("claude-code", "{folder}/.claude/settings.local.json"),
        ("openclaw", "{home}/.openclaw/openclaw.json"),
    ],
)
def test_each_byte_of_others_in_json_stays(folder: Path, home: Path, agent: str, name: str, text: str) -> None:
    """Indentation, comments, numbers, escapes, ends of lines and a byte order mark; and everything comes back."""
    path = Path(name.format(folder=folder, home=home))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())

    assert setup(folder, agent, "--yes").exit_code == 0
    written = path.read_bytes().decode()
    assert len(written) > len(text)
    rest = iter(written)
    assert all(letter in rest for letter in text)
    assert ("\r\n" in text) == ("\r\n" in written)
    assert setup(folder, agent, "--yes").stdout == "Everything is configured already.\n"
    assert path.read_bytes().decode() == written
    setup(folder, agent, "--undo", "--yes")
    assert path.read_bytes().decode() == text


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("codex", ".codex/config.toml", '# mine\r\nmodel = "x"\r\n\r\n[a]\r\nb = 1\r\n'),
        ("codex", ".codex/config.toml", '\ufeffmodel = "x"\n\n\n'),
        ("hermes", ".hermes/config.yaml", "# mine\r\nmodel: x\r\nmemory:\r\n  limit: 3\r\n"),
        ("hermes", ".hermes/config.yaml", "\ufeffmemory:\n  provider: ''  # none\n  limit: 3\n"),
        ("hermes", ".hermes/config.yaml", "memory:\n  index:\n    provider: faiss\n  limit: 3\n"),
        ("hermes", ".hermes/config.yaml", "model: x\n\n\n"),
    ],
)
def test_each_byte_of_others_in_toml_and_yaml_comes_back(
    folder: Path, home: Path, agent: str, name: str, text: str
) -> None:
    """Ends of lines, a byte order mark, comments, and settings of the same name elsewhere."""
    path = home / name
    path.parent.mkdir()
    path.write_bytes(text.encode())
    assert setup(folder, agent, "--yes").exit_code == 0
    written = path.read_bytes().decode()
    assert ("\r\n" in text) == ("\r\n" in written)
    assert "\n" not in written.replace("\r\n", "") or "\r\n" not in text
    assert setup(folder, agent, "--yes").stdout == "Everything is configured already.\n"
    setup(folder, agent, "--undo", "--yes")
    assert path.read_bytes().decode() == text


@pytest.mark.parametrize("text", ['"memory":\n  provider: mem0\n', "memory:\n  a: [\n", "a: 1\n...\n"])
def test_hermes_refuses_a_configuration_that_would_become_another_one(folder: Path, home: Path, text: str) -> None:
    """Such as one with "memory" in quotes, which would be there twice; nothing is written."""
    path = home / ".hermes" / "config.yaml"
    path.parent.mkdir()
    path.write_text(text)
    assert setup(folder, "hermes", "--yes").exit_code == 1
    assert files(home) == {str(path): text}


def test_a_server_of_a_person_is_neither_replaced_nor_removed(folder: Path) -> None:
    """One of the same name that is another program; what a person added to ours stays."""
    path = folder / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"memsvc": {"command": "/my/own", "args": ["x"]}}}')
    refused = setup(folder, "cursor", "--yes")
    assert refused.exit_code == 1
    assert "already" in refused.stderr
    assert setup(folder, "cursor", "--undo", "--yes").stdout == "There is nothing to undo.\n"

    path.unlink()
    setup(folder, "cursor", "--yes")
    value = json.loads(path.read_text())
    value["mcpServers"]["memsvc"] |= {"env": {"MEMSVC_API_KEY": "memsvc_x"}, "disabled": True}
    path.write_text(json.dumps(value))
    setup(folder, "cursor", "--yes", "--project", "other")
    ours = json.loads(path.read_text())["mcpServers"]["memsvc"]
    assert (ours["env"], ours["disabled"]) == ({"MEMSVC_API_KEY": "memsvc_x"}, True)
    assert "other" in ours["args"]


def test_ours_is_renewed_in_its_place(folder: Path, home: Path) -> None:
    """Whatever was written behind it since; a second run changes nothing, and a timeout of a person stays."""
    for agent in ("claude-code", "openclaw", "codex"):
        setup(folder, agent, "--yes")
    settings = folder / ".claude" / "settings.local.json"
    value = json.loads(settings.read_text())
    value["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 60
    value["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "lint"}]})
    settings.write_text(json.dumps(value))
    openclaw = home / ".openclaw" / "openclaw.json"
    plugins = json.loads(openclaw.read_text())
    plugins["plugins"]["load"]["paths"].append("/x")
    openclaw.write_text(json.dumps(plugins))
    codex = home / ".codex" / "config.toml"
    with codex.open("a") as file:
        file.write('[projects."/x"]\ntrust_level = "trusted"\n')
    for agent in ("claude-code", "openclaw", "codex"):
        assert setup(folder, agent, "--yes").stdout == "Everything is configured already.\n"

    setup(folder, "claude-code", "--yes", "--project", "other")
    first, second = json.loads(settings.read_text())["hooks"]["Stop"]
    assert "--project other" in first["hooks"][0]["command"]
    assert first["hooks"][0]["timeout"] == 60
    assert second["hooks"][0]["command"] == "lint"
    setup(folder, "codex", "--yes", "--project", "other")
    assert codex.read_text().endswith('# memsvc setup: end\n[projects."/x"]\ntrust_level = "trusted"\n')
    setup(folder, "codex", "--undo", "--yes")
    assert codex.read_text() == '[projects."/x"]\ntrust_level = "trusted"\n'


@pytest.mark.parametrize(
    ("agent", "name", "empty"), [("cursor", ".cursor/mcp.json", "{}\n"), ("codex", ".codex/config.toml", "")]
)
def test_the_file_behind_a_link_is_the_one_that_changes(
    folder: Path, home: Path, tmp_path: Path, agent: str, name: str, empty: str
) -> None:
    """Also one that does not exist yet; the link stays."""
    link, target = (folder if agent == "cursor" else home) / name, tmp_path / "dotfiles" / "file"
    link.parent.mkdir()
    link.symlink_to(target)
    assert setup(folder, agent, "--yes").exit_code == 0
    assert "memsvc" in target.read_text()
    setup(folder, agent, "--undo", "--yes")
    assert link.is_symlink()
    assert target.read_text() == empty
    assert [target] == list(target.parent.iterdir())
