"""`pip install memsvc` and `memsvc[cli]` in an empty environment: the client, then its commands, without the server."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.server_process import ROOT, ServerProcess

# One install for all of them.
pytestmark = [pytest.mark.xdist_group("client-install"), pytest.mark.timeout(600)]

UNREACHABLE = ("NewConnectionError", "ConnectTimeoutError", "Temporary failure in name resolution", "No matching")
EXTRA = "needs the server: pip install 'memsvc[server]'"
NEED_SERVER = {
    "serve": "`memsvc serve`",
    "check": "`memsvc check`",
    "demo": "`memsvc demo`",
    "settings": "`memsvc settings`",
    "backends": "`memsvc backends`",
    "keys list": "`memsvc keys` without --address",
    "migrate-backend --url postgresql://x": "`memsvc migrate-backend` without --address",
    "restore backup --data-dir data": "`memsvc restore --data-dir`",
    "vault watch": "`memsvc vault watch`",
}
"""Commands of the server, and what they are called when it is not installed."""
EACH = """
import os
import sys
from memsvc.cli.app import main

for words in sys.argv[1:]:
    if not os.fork():
        sys.argv = ["memsvc", *words.split()]
        main()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
SCRIPT = """
import sys
from memsvc.client import Memsvc, MemsvcCallError

with Memsvc(sys.argv[1], user_id="installed") as client:
    client.wait_ready()
    made = client.create("The ferry to the island leaves at noon.", tags=["travel"])
    assert client.search("When does the boat leave?").hits[0].memory.id == made.memory.id
    try:
        client.create("")
    except MemsvcCallError as error:
        print(error.reason, [violation.field for violation in error.violations])
print([name for name in ("memsvc.server", "memsvc.engine", "memsvc.settings") if name in sys.modules])
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel, and a folder outside of the checkout to work in.

    Attributes:
        client_bytes: The size of the client with its dependencies, before the commands were installed.
        without_commands: The `memsvc` command before that.
    """

    venv: Path
    folder: Path
    client_bytes: int = 0
    without_commands: subprocess.CompletedProcess[str] | None = None

    def run(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; nothing of ours is in its variables."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MEMSVC_", "PYTHON", "VIRTUAL_ENV", "COVERAGE"))
        }
        return subprocess.run(
            [str(self.venv / "bin" / command[0]), *command[1:]],
            cwd=self.folder, env=environment, input=given, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel and install it, with its dependencies, from the package index."""
    root = tmp_path_factory.mktemp("client")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*wheel, "--wheel-dir", str(root / "wheels"), str(ROOT)], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")], check=True)
    (root / "work").mkdir()
    client = Installed(root / "venv", root / "work")
    (built,) = (root / "wheels").glob("memsvc-*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(root / "venv" / "bin" / "python"), "install", "--quiet"]
    # Most of the modules are never imported here.
    install += ["--no-compile", "--retries", "1"]
    for wanted in (str(built), f"{built}[cli]"):
        if wanted != str(built):
            (packages,) = client.venv.glob("lib/python*/site-packages")
            size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
            client = replace(client, client_bytes=size, without_commands=client.run("memsvc", "--version"))
        done = subprocess.run([*install, wanted], capture_output=True, text=True, check=False)
        if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
            pytest.skip("no package index can be reached")
        assert done.returncode == 0, done.stderr
    return client


def test_no_package_of_the_server_is_installed(installed: Installed) -> None:
    """grpcio, protobuf, and what the command line is drawn with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    server = {_name(requirement) for requirement in project["optional-dependencies"]["server"]} - {"memsvc"}
    script = "from importlib.metadata import distributions; print(*(each.name for each in distributions()))"
    names = {name.lower().replace("_", "-") for name in installed.run("python", "-c", script).stdout.split()}

    assert {"memsvc", "grpcio", "protobuf", "typer", "rich"} <= names
    assert names & server == set()


def _name(requirement: str) -> str:
    return "".join(
        sign if sign.isalnum() else " " if sign in "<>=~!;[" else "-" for sign in requirement.lower()
    ).split()[0]


def test_the_client_is_small(installed: Installed) -> None:
    """With all packages that it needs it takes at most 30 MB, besides Python; the command line is an extra."""
    assert installed.without_commands is not None
    message = "memsvc: The command line needs the extra cli: pip install 'memsvc[cli]'\n"

    assert 0 < installed.client_bytes <= 30_000_000
    assert (installed.without_commands.returncode, installed.without_commands.stderr) == (1, message)


def test_the_client_is_imported_fast(installed: Installed) -> None:
    """At most 0.3 s of processor time, the best of ten runs, and nothing of the command line.

    Next to other work a processor is slower: then at most twice and a bit the time of gRPC alone, which is 1.8 times as
    long where it was measured.
    """
    script = (
        "import sys, time; start = time.process_time(); import grpc; grpc_end = time.process_time()\n"
        "import memsvc.client; print(time.process_time() - start, grpc_end - start)\n"
        "print([name for name in ('typer', 'rich', 'pydantic') if name in sys.modules])"
    )
    installed.run("python", "-c", "import memsvc.client")  # compiles the modules
    runs = [installed.run("python", "-c", script).stdout.split() for _ in range(10)]

    assert {loaded for _, _, loaded in runs} == {"[]"}
    best, grpc_alone = (min(float(run[column]) for run in runs) for column in (0, 1))
    assert best <= max(0.3, 2.2 * grpc_alone)


def test_every_command_shows_its_help(installed: Installed) -> None:
    """All of them are listed, and none imports what is not there."""
    script = (
        "import functools, typer.testing; from memsvc.cli.app import app; from typer.testing import CliRunner\n"
        "typer.testing._get_command = functools.cache(typer.main.get_command)\n"
        "def walk(command, words):\n"
        "    yield words\n"
        "    for name, one in getattr(command, 'commands', {}).items(): yield from walk(one, [*words, name])\n"
        "paths = list(walk(typer.main.get_command(app), []))\n"
        "print(len(paths), [path for path in paths if CliRunner().invoke(app, [*path, '--help']).exit_code])"
    )

    assert installed.run("memsvc", "--version").stdout.strip() == version("memsvc")
    assert "serve" in installed.run("memsvc", "--help").stdout
    count, wrong = installed.run("python", "-c", script).stdout.split(" ", 1)
    assert int(count) > 50
    assert wrong.strip() == "[]"


def test_a_command_of_the_server_names_the_extra(installed: Installed) -> None:
    """In one line, and nothing is made."""
    first, *_ = NEED_SERVER
    done = installed.run("memsvc", *first.split())
    # The others in forks of one interpreter.
    all_done = installed.run("python", "-c", EACH, *NEED_SERVER)

    lines = [f"memsvc: {named} {EXTRA}\n" for named in NEED_SERVER.values()]
    assert (done.returncode, done.stdout, done.stderr) == (1, "", lines[0])
    assert (all_done.stdout.split(), all_done.stderr) == (["1"] * len(lines), "".join(lines))
    assert not (installed.folder / "data").exists()


def test_the_bridge_names_its_own_extra(installed: Installed) -> None:
    """It is a client of the service: the server need not be installed next to it."""
    done = installed.run("memsvc", "mcp")

    assert (done.returncode, done.stderr) == (
        1,
        "memsvc: The command mcp needs the extra mcp: pip install 'memsvc[mcp]'\n",
    )


def test_the_client_calls_a_service(installed: Installed, server: ServerProcess) -> None:
    """It writes, searches and decodes the details of errors."""
    done = installed.run("python", "-c", SCRIPT, server.bound)

    assert (done.stdout.splitlines(), done.stderr) == (["INVALID_REQUEST ['memory.content']", "[]"], "")


def test_the_commands_call_a_service(installed: Installed, server: ServerProcess) -> None:
    """Memories in and out, documents, health and an error."""
    (installed.folder / "notes.md").write_text("# Boats\n\nThe red boat leaks.\n\n# Sheds\n\nThe shed is dry.\n")
    where = ("--address", server.bound, "--user", "commands")

    assert installed.run("memsvc", "health", "--address", server.bound, "--wait", "30").returncode == 0
    assert installed.run("memsvc", "import", "notes.md", *where, "--wait").stdout.startswith("2 read: 2 created")
    assert "leaks" in installed.run("memsvc", "search", "Which boat is broken?", *where).stdout
    assert len(installed.run("memsvc", "list", "--json", *where).stdout.splitlines()) == 2
    assert installed.run("memsvc", "keys", "list", "--address", server.bound).returncode == 0
    assert installed.run("memsvc", "get", "nothing", *where).stderr.startswith("memsvc: ")
