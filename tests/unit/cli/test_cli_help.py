"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from memsvc.cli.app import app
from tests.support.command_line import invoke

COMMANDS = (
    "serve",
    "check",
    "health",
    "demo",
    "add",
    "get",
    "list",
    "delete",
    "promote",
    "consolidate",
    "undo-consolidation",
    "summarize",
    "archive",
    "maintain",
    "supersede",
    "search",
    "capture",
    "flush",
    "append",
    "ingest",
    "history",
    "rollback",
    "checkpoint",
    "context",
    "load",
    "import",
    "watch",
    "quarantine",
    "reminders",
    "stats",
    "perf",
    "diagnose",
    "reindex",
    "check-integrity",
    "backends",
    "settings",
    "session",
    "mcp",
)
LOCAL = {
    "serve",
    "check",
    "health",
    "demo",
    "backends",
    "settings",
    "checkpoint",
    "quarantine",
    "reminders",
    "session",
    "mcp",
}
"""The commands that talk to no running service or give no answers, and groups of commands."""
GROUPS = {
    "checkpoint": ("create", "list", "diff", "rollback"),
    "session": ("create", "append", "show", "list", "messages", "trim", "close", "reopen"),
}


def test_help_names_every_command() -> None:
    """Somebody who asks for help sees what there is."""
    told = invoke("--help")

    assert told.exit_code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in told.stdout] == []


def every_command(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command and, if it is a group, those in it, with their names."""
    yield name, command
    for each, inner in getattr(command, "commands", {}).items():
        yield from every_command(f"{name} {each}", inner)


def test_no_summary_in_a_list_of_commands_is_cut_off() -> None:
    """A terminal of 80 columns shows each of them whole."""
    groups = [
        (name, each.commands) for name, each in every_command("memsvc", get_command(app)) if hasattr(each, "commands")
    ]
    cut = [
        f"{group} {name}"
        for group, commands in groups
        for name, command in commands.items()
        if command.get_short_help_str(72 - max(map(len, commands))).endswith("...")
    ]

    assert len(groups) > 10
    assert cut == []


def test_no_option_has_two_defaults() -> None:
    """A default in words stands in place of the value that stands for it."""
    twice = [
        f"{name} {parameter.name}"
        for name, command in every_command("memsvc", get_command(app))
        for parameter in command.params
        if "[default" in (getattr(parameter, "help", "") or "")
        and parameter.show_default
        and parameter.default not in (None, "", False)
    ]

    assert twice == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    """Each command says what it does and what can be said to it; those of a client all take the same connection."""
    told = invoke(command, "--help")

    assert told.exit_code == 0
    wanted = [] if command in LOCAL else ["--address", "--user", "--project", "--json"]
    assert [option for option in wanted if option not in told.stdout] == []


@pytest.mark.parametrize(("group", "command"), [(group, one) for group, several in GROUPS.items() for one in several])
def test_every_command_of_a_group_has_help(group: str, command: str) -> None:
    """They take the same connection."""
    told = invoke(group, command, "--help")

    assert told.exit_code == 0
    assert [option for option in ("--address", "--user", "--project", "--json") if option not in told.stdout] == []


@pytest.mark.parametrize("wrong", [["search"], ["list", "--limit", "none"], ["get"], ["frobnicate"], ["add"]])
def test_wrong_usage_is_exit_code_2(wrong: list[str]) -> None:
    """A command that cannot be understood is told apart from one that failed."""
    assert invoke(*wrong).exit_code == 2


def test_help_loads_nothing_heavy() -> None:
    """Asking for help does not wait for the wire, the stores or the tables to be loaded."""
    script = (
        "import sys; from memsvc.cli.app import app; from typer.testing import CliRunner;"
        " CliRunner().invoke(app, ['--help']);"
        " print([name for name in ('grpc', 'google.protobuf', 'rich', 'sqlalchemy', 'tantivy', 'pydantic', 'numpy',"
        " 'memsvc.server', 'memsvc.client', 'memsvc.bootstrap.app') if name in sys.modules])"
    )

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"


def test_serve_takes_its_address_from_the_variable_of_the_setting() -> None:
    """MEMSVC_ADDRESS is the service that clients call, and no place to listen at."""
    environment = {"MEMSVC_ADDRESS": "nonsense", "MEMSVC_SERVER__ADDRESS": "no port"}
    told = invoke("serve", environment=environment)

    assert told.exit_code == 1
    assert "Cannot listen at 'no port'" in told.stderr


def test_shells_can_complete() -> None:
    """The completion script of a shell asks the command itself."""
    told = CliRunner().invoke(app, [], env={"_MEMSVC_COMPLETE": "source_bash"}, prog_name="memsvc")

    assert "_MEMSVC_COMPLETE=complete_bash" in told.stdout
