"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest
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
