"""Control characters of contents, which must not reach the terminal of the person who looks at them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import invoke
from tests.support.forked_process import ROOT
from tests.support.rpc import TIMEOUT

CLIPBOARD = "\x1b]52;c;ZWNobyBoaQ==\x07"
HOSTILE = f"The kiln {CLIPBOARD}opens\x1b[2J\x9b2J at\x7f nine, \u202edrawkcab\u202c \u2066so\u2069 it\r said"
SHOWN = r"The kiln \x1b]52;c;ZWNobyBoaQ==\x07opens\x1b[2J\x9b2J at\x7f nine, \u202edrawkcab\u202c \u2066so\u2069 it"
HARMLESS = "窑炉 👩‍👩‍👧 九点开门"
"""Chinese, and an emoji of three joined by U+200D."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMANDS = (
    ("search", "kiln opens nine"),
    ("search", "kiln opens nine", "--explain"),
    ("search", "kiln opens nine", "--all"),
    ("list",),
    ("get", "--key", "kiln"),
    ("context", "kiln opens nine"),
    ("load",),
    ("session", "messages", "firing"),
    ("session", "list"),
    ("session", "show", "firing"),
    ("checkpoint", "list"),
    ("conflicts", "list"),
    ("file", "ls"),
    ("file", "search", "kiln"),
    ("watch", "--oldest", "--limit", "1"),
)
USER = "potter"


@pytest.fixture(scope="module", autouse=True)
def kept(address: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Store the text wherever a user or an agent may write it; return the id of a file with these bytes."""

    def run(*words: str) -> str:
        told = invoke(*words, "--address", address, "--user", USER)
        assert told.exit_code == 0, told.stderr
        return told.stdout

    run("add", f"{HOSTILE} {HARMLESS}", "--key", "kiln", "--layer", "core", "--importance", "5")
    run("add", f"I live in Paris. {CLIPBOARD}")
    run("add", f"I live in Berlin. {CLIPBOARD}")
    run("session", "create", "firing")
    run("session", "append", "firing", HOSTILE)
    run("checkpoint", "create", "glaze", "--note", HOSTILE)
    path = tmp_path_factory.mktemp("files") / "kiln \u202egpj.txt"
    path.write_bytes(HOSTILE.encode())
    return run("file", "put", str(path)).split()[0]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_pipe_gets_no_control_characters(command: tuple[str, ...], address: str) -> None:
    """Neither on stdout nor on stderr: a pager or another terminal may read them."""
    told = invoke(*command, "--address", address, "--user", USER)

    assert told.exit_code == 0
    assert not CONTROLS.search(told.stdout + told.stderr)


@pytest.mark.parametrize("command", [*COMMANDS[:5], COMMANDS[7], COMMANDS[12]], ids=" ".join)
def test_a_terminal_gets_no_control_characters(command: tuple[str, ...], address: str) -> None:
    """Tables are drawn with the escapes in place; a dumb terminal has no colours, so that nothing else is escaped."""
    reading, writing = os.openpty()
    with os.fdopen(writing, "wb") as terminal:
        started = subprocess.Popen(
            [sys.executable, "-m", "memsvc", *command, "--address", address, "--user", USER], cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
            env=os.environ | {"TERM": "dumb", "COLUMNS": "250"},
        )  # fmt: skip
    told = _read(reading)

    assert started.wait(TIMEOUT) == 0
    assert not CONTROLS.search(told.replace("\r\n", "\n"))
    assert r"\x1b]52;c" in told or r"\u202egpj" in told


def _read(terminal: int) -> str:
    """Return what is written to a terminal until it is closed."""
    told = b""
    try:
        while piece := os.read(terminal, 4096):
            told += piece
    except OSError:  # Linux reports a closed terminal as EIO.
        pass
    finally:
        os.close(terminal)
    return told.decode()


def test_a_text_is_shown_with_escapes(address: str) -> None:
    """Chinese and joined emoji stay as they are; a lone carriage return would overwrite the line."""
    told = invoke("get", "--key", "kiln", "--address", address, "--user", USER).stdout

    assert told.endswith(f"\n{SHOWN}\\x0d said {HARMLESS}\n")


@pytest.mark.parametrize("command", [one for one in COMMANDS if "--explain" not in one], ids=" ".join)
def test_json_has_escapes_that_a_parser_undoes(command: tuple[str, ...], address: str) -> None:
    """Every line is JSON without a control character."""
    told = invoke(*command, "--json", "--address", address, "--user", USER).stdout

    assert told
    assert not CONTROLS.search(told)
    assert all(json.loads(line) for line in told.splitlines())


def test_json_holds_the_stored_text(address: str) -> None:
    """The escapes stand for the characters; Chinese is not escaped."""
    told = invoke("get", "--key", "kiln", "--json", "--address", address, "--user", USER).stdout

    assert json.loads(told)["content"] == f"{HOSTILE} {HARMLESS}"
    assert HARMLESS in told
    assert r"\u009b2J at\u007f nine, \u202edrawkcab" in told


def test_errors_have_escapes(address: str) -> None:
    """An error of the service quotes what was asked for."""
    told = invoke("session", "show", "no\u202etalk", "--address", address, "--user", USER)

    assert told.exit_code == 1
    assert not CONTROLS.search(told.stderr)
    assert r"no\u202etalk" in told.stderr


def test_files_and_exports_keep_their_bytes(kept: str, address: str, tmp_path: Path) -> None:
    """What is written to a file, or as it is to a pipe, is exact."""
    path, export = tmp_path / "kiln.txt", tmp_path / "export.jsonl"
    invoke("file", "get", kept, "--output", str(path), "--address", address, "--user", USER)
    piped = invoke("file", "get", kept, "--output", "-", "--address", address, "--user", USER)
    invoke("export", str(export), "--address", address, "--user", USER)
    exported = invoke("export", "--address", address, "--user", USER)

    assert path.read_bytes() == piped.stdout_bytes == HOSTILE.encode()
    assert exported.stdout_bytes.splitlines()[1:-1] == export.read_bytes().splitlines()[1:-1]
    assert "\u202edrawkcab".encode() in export.read_bytes()


@pytest.fixture
def run_json(address: str) -> Any:
    """Return the JSON of a command."""
    return lambda *words: json.loads(invoke(*words, "--json", "--address", address, "--user", USER).stdout)


def test_a_listed_text_can_be_imported(address: str, tmp_path: Path, run_json: Any) -> None:
    """`memsvc list --json` is exact in spite of the escapes."""
    listed = invoke("list", "--json", "--address", address, "--user", USER).stdout
    path = tmp_path / "memories.jsonl"
    path.write_text(
        "\n".join(line.replace(USER, "another") for line in listed.splitlines() if "kiln" in line), encoding="utf-8"
    )
    told = invoke("import", str(path), "--address", address, "--user", "another")
    found = invoke("get", "--key", "kiln", "--json", "--address", address, "--user", "another").stdout

    assert told.exit_code == 0, told.stderr
    assert json.loads(found)["content"] == run_json("get", "--key", "kiln")["content"]
