"""Everything in the README that can be run, run: against a real server with the default settings.

Blocks of `console` hold commands, which begin with "$ " and go on while a quote is open or the line ends with a
backslash or a bar. What is below a command is what it writes; "…" stands for anything, and how much white space there
is does not matter. They run in one shell, in their order, as somebody would who tries them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from memsvc.bootstrap.backends import NO_BACKEND, options_of
from memsvc.bootstrap.plugins import GROUPS, load_backend
from memsvc.settings import BackendChoice, Settings, load_settings
from tests.e2e.running import ROOT, ServerProcess

pytestmark = pytest.mark.xdist_group("readme")

README = ROOT / "README.md"
ADDRESS = "127.0.0.1:50051"
SECONDS = 600
"""All the commands take a minute; it only keeps a hang from lasting."""
MARK = "--- end of command "
ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of the README, and the number of its first line."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command with what it should write."""

    line: int
    text: str
    expected: str


def blocks(language: str) -> list[Block]:
    """Return the README's blocks of a language."""
    text = README.read_text(encoding="utf-8")
    fence = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in fence.finditer(text)]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    lines = block.text.splitlines()
    start = 0
    while start < len(lines):
        assert lines[start].startswith("$ "), f"line {block.line + start} is no command"
        text, end = lines[start][2:], start + 1
        while text.count("'") % 2 or text.endswith(("\\", "|")):
            text, end = f"{text}\n{lines[end]}", end + 1
        written = end
        while end < len(lines) and not lines[end].startswith("$ "):
            end += 1
        yield Command(block.line + start, text, "\n".join(lines[written:end]))
        start = end


def agrees(written: str, expected: str) -> bool:
    """Say whether a command wrote what the README shows."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split(ANYTHING)]
    return re.fullmatch(r"\s*.*?\s*".join(parts), " ".join(written.split()), re.DOTALL) is not None


@pytest.fixture(scope="module")
def default_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server as `memsvc serve` starts it, but for the port and the place of the data."""
    data = tmp_path_factory.mktemp("readme") / "data"
    with ServerProcess(data, environment={"MEMSVC_LOG__LEVEL": "WARNING"}) as running:
        yield running


def run(command: list[str], server: ServerProcess) -> subprocess.CompletedProcess[str]:
    """Run a command as the README's reader does, but at the test's server."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    return subprocess.run(
        command, cwd=ROOT, env={**clean, "MEMSVC_ADDRESS": server.bound}, timeout=SECONDS, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip


def at_server(text: str, server: ServerProcess) -> str:
    """Return a text of the README with the test's address and programs."""
    return text.replace(ADDRESS, server.bound).replace(".venv/bin/", f"{Path(sys.executable).parent}/")


@pytest.mark.timeout(SECONDS + 60)
def test_commands_write_what_the_readme_shows(default_server: ServerProcess) -> None:
    """Every command ends with 0 and writes what is shown below it."""
    shown = [command for block in blocks("console") for command in commands(block)]
    script = "".join(f"{at_server(command.text, default_server)}\nprintf '\\n{MARK}%s\\n' $?\n" for command in shown)

    done = run(["bash", "-c", script], default_server)

    parts = re.split(rf"\n{MARK}(\d+)\n", done.stdout)
    results = list(zip(parts[::2], parts[1::2], strict=False))
    assert len(shown) == len(results), f"The shell stopped:\n{done.stdout[-2000:]}"
    wrong = [
        f"README.md:{command.line}: $ {command.text}\nshould write:\n{command.expected}\nwrote:\n{written}\nexit {code}"
        for command, (written, code) in zip(shown, results, strict=True)
        if code != "0" or not agrees(written, at_server(command.expected, default_server))
    ]
    assert not wrong, "\n\n".join(wrong)
    assert len(shown) > 30


def test_snippets_of_python_run(default_server: ServerProcess) -> None:
    """Every Python snippet runs by itself, without a warning."""
    snippets = blocks("python")

    for snippet in snippets:
        done = run([sys.executable, "-W", "error", "-c", at_server(snippet.text, default_server)], default_server)

        assert done.returncode == 0, f"README.md:{snippet.line}:\n{done.stdout}"
    assert len(snippets) > 2


def test_settings_files_are_valid(tmp_path: Path) -> None:
    """A memsvc.toml of the README is read without complaint, the options of its backends included."""
    files = [block for block in blocks("toml") if block.text.startswith("# memsvc.toml\n")]
    assert files
    for block in files:
        path = tmp_path / "memsvc.toml"
        path.write_text(block.text, encoding="utf-8")

        settings = load_settings(path)

        for port in GROUPS:
            choice: BackendChoice = getattr(settings, port)
            if choice.backend == NO_BACKEND:
                continue
            options_of(port, choice, load_backend(port, choice.backend).settings, settings.metadata.options)


def test_entry_points_are_of_groups_that_are_looked_at() -> None:
    """A pyproject.toml of the README declares its backends where they are found."""
    files = [block for block in blocks("toml") if block.text.startswith("# pyproject.toml\n")]
    assert files
    for block in files:
        assert set(tomllib.loads(block.text)["project"]["entry-points"]) <= set(GROUPS.values())


def default_of(path: str) -> Any:
    """Return the default of a setting, or of an option of the default backend of a port."""
    model: type[BaseModel] = Settings
    default: Any = None
    names = path.split(".")
    if names[1:2] == ["options"]:
        model = load_backend(names[0], Settings.model_fields[names[0]].default.backend).settings
        names = names[2:]
    for name in names:
        default = getattr(default, name) if default is not None else model.model_fields[name].get_default()
    return list(default) if isinstance(default, tuple) else default


def test_table_of_settings_tells_the_defaults() -> None:
    """Every setting in the table is there and has the default that is told."""
    table = README.read_text(encoding="utf-8").partition("| setting | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_.]+)` \| `([^`]*)` \|", table, re.MULTILINE)
    told_defaults = {path: json.loads(told) for path, told in rows}

    assert told_defaults == {path: default_of(path) for path in told_defaults}
    assert len(told_defaults) > 15


def test_links_lead_somewhere() -> None:
    """Every link to a file of the project, or to a heading, has a target."""
    text = README.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)", text, re.MULTILINE)
    }
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]

    lost = [
        target
        for target in targets
        if not (target[1:] in headings if target.startswith("#") else (ROOT / target).exists())
    ]

    assert targets
    assert not lost
