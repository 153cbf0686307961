"""Blocks that are not run are validated, and none is passed over without a reason."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from memsvc.bootstrap.backends import NO_BACKEND, options_of
from memsvc.bootstrap.plugins import GROUPS, load_backend
from memsvc.settings import BackendChoice, Settings, load_settings
from tests.docs.command_lines import mentioned, problem_of, problems
from tests.docs.pages import ROOT, Block, blocks, name, pages

RUN = {"console", "python"}
"""By test_run.py."""
VALIDATED = {"sh", "toml", "json", "yaml", "ini", "markdown"}
"""Here: each language has a test below."""
NOT_CHECKED = {
    ("README.md", "typescript"): "run by tests/packages/test_readmes.py",
    ("README.md", "go"): "run by tests/packages/test_readmes.py",
    ("README.md", "java"): "run by tests/packages/test_readmes.py",
    ("docs/concepts/architecture.md", "text"): "a diagram",
    ("docs/guides/frameworks.md", "typescript"): "run by tests/integrations/typescript",
    ("docs/guides/vault.md", "text"): "a listing of folders",
}
COMMANDS = re.compile(r"`(memsvc |make |python -m tests)([^`]*)`")
PLACES = re.compile(r"`((?:docker|examples|packages|proto|tests|docs)/[\w./-]+)`")


def place(block: Block) -> str:
    """Return the name of a test of a block."""
    return block.place


def test_every_block_is_run_validated_or_has_a_reason() -> None:
    """An unknown language is a mistake; a reason without a block is one, too."""
    others = [block for block in blocks() if block.language not in RUN | VALIDATED]

    assert [block.place for block in others if (block.page, block.language) not in NOT_CHECKED] == []
    assert set(NOT_CHECKED) - {(block.page, block.language) for block in others} == set()
    assert len(blocks("console")) > 20
    assert len(blocks("python")) > 8


@pytest.mark.parametrize("block", blocks("sh"), ids=place)
def test_command_lines_are_right(block: Block) -> None:
    """Programs, subcommands, options, targets, extras and files are there."""
    assert list(problems(block)) == []


@pytest.mark.parametrize("line", ["memsvc serv", "memsvc add", "memsvc list --nope", "make nope", "pip install '.[x]'"])
def test_wrong_command_lines_are_found(line: str) -> None:
    """The checks above are worth something."""
    assert list(problems(Block("page", 1, "sh", f"{line}\n"))) != []


@pytest.mark.parametrize("block", blocks("toml"), ids=place)
def test_toml_is_of_a_file_that_is_read(block: Block, tmp_path: Path) -> None:
    """A memsvc.toml is read without complaint, options of backends included; entry points are of known groups."""
    first, _, _ = block.text.partition("\n")
    if first == "# pyproject.toml":
        assert set(tomllib.loads(block.text)["project"]["entry-points"]) <= set(GROUPS.values())
        return
    assert first == "# memsvc.toml"
    path = tmp_path / "memsvc.toml"
    path.write_text(block.text, encoding="utf-8")

    settings = load_settings(path)

    for port in GROUPS:
        choice: BackendChoice = getattr(settings, port)
        if choice.backend != NO_BACKEND:
            options_of(port, choice, load_backend(port, choice.backend).settings, settings.metadata.options)


@pytest.mark.parametrize("block", blocks("json"), ids=place)
def test_json_is_valid(block: Block) -> None:
    """tests/e2e/mcp/test_configuration.py starts what configurations of MCP clients say."""
    assert json.loads(block.text)


@pytest.mark.parametrize("block", blocks("yaml"), ids=place)
def test_alerts_name_metrics_that_are_there(block: Block) -> None:
    """Rules of Prometheus: each has a name, an expression over metrics of ours and a text."""
    listed = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    for group in yaml.safe_load(block.text)["groups"]:
        for rule in group["rules"]:
            assert rule["alert"]
            assert rule["annotations"]["summary"]
            used = re.findall(r"\bmemsvc_\w+", rule["expr"])
            assert used
            assert [one for one in used if f"| `{one}` |" not in listed] == []


@pytest.mark.parametrize("block", blocks("ini"), ids=place)
def test_units_of_systemd_run_commands_that_are_there(block: Block) -> None:
    """Each command is one of ours, with options that it has."""
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block.text)
    commands = {key: value for key, value in unit["Service"].items() if key.startswith("Exec")}

    assert commands
    for command in commands.values():
        assert problem_of(command.replace("/opt/memsvc/bin/", "").split()) == ""


@pytest.mark.parametrize("block", blocks("markdown"), ids=place)
def test_notes_have_a_front_matter(block: Block) -> None:
    """In YAML, between its two lines."""
    _, front, content = re.split(r"^---$", block.text, maxsplit=2, flags=re.MULTILINE)

    names = set(yaml.safe_load(front))
    assert {"id", "layer"} <= names
    assert names & {"kind", "type"}
    assert content.strip()


def default_of(path: str) -> Any:
    """Return the default of a setting, or of an option of the default backend of a port."""
    model: type[BaseModel] = Settings
    default: Any = None
    names = path.split(".")
    if names[1:2] == ["options"]:
        model = load_backend(names[0], Settings.model_fields[names[0]].default.backend).settings
        names = names[2:]
    for one in names:
        default = getattr(default, one) if default is not None else model.model_fields[one].get_default()
    return list(default) if isinstance(default, tuple) else default


def test_table_of_settings_has_the_defaults() -> None:
    """Every setting in the table of common ones is there and has the default that is named."""
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    table = page.partition("| setting | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_.]+)` \| `([^`]*)` \|", table, re.MULTILINE)
    listed = {path: json.loads(default) for path, default in rows}

    assert listed == {path: default_of(path) for path in listed}
    assert len(listed) > 15


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the project, or to a heading, has a target. `make docs` checks those of docs/, too."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lost = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_named_files_are_there(page: Path) -> None:
    """A path of the repository in a code span exists."""
    named = PLACES.findall(page.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", pages(), ids=name)
def test_commands_in_sentences_are_there(page: Path) -> None:
    """A command in a code span exists, and so do its options."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for program, rest in COMMANDS.findall(text):
        words = rest.split()
        wrong.append(mentioned(words) if program == "memsvc " else problem_of([*(program + rest).split()]))

    assert [problem for problem in wrong if problem] == []


def test_readme_has_the_numbers_of_the_benchmarks() -> None:
    """Each row of its summary is a row of docs/benchmarks.md."""
    table = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("| measurement | result |")[2].partition("\n\n")[0]
    )
    rows = [row for row in table.splitlines()[2:] if row]
    every = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")

    assert len(rows) > 5
    assert [row for row in rows if f"\n{row}" not in every] == []
