"""`memsvc health`: what it asks by which way, and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.e2e.access.test_tls import Papers, SecureProcess
from tests.e2e.access.test_tls import papers as papers  # noqa: PLC0414 - a fixture, named for pytest
from tests.support.command_line import invoke
from tests.support.server_process import ROOT, ServerProcess


def health(*arguments: str) -> tuple[int, str]:
    """Run the command and return its exit code and what it says."""
    told = invoke("health", *arguments)
    return told.exit_code, told.output


class ProbedProcess(SecureProcess):
    """A server that is looked at by its port for probes."""

    def channel(self) -> grpc.Channel:  # type: ignore[override]  # a channel is a context too
        """Open a channel of one's own to the port for probes."""
        address = next(line for line in self.ready.read_text().split() if line.startswith("health://"))
        return grpc.insecure_channel(address.removeprefix("health://"))

    @property
    def ready(self) -> Path:
        """Return the file with the addresses."""
        return self.data_dir.with_name(f"{self.data_dir.name}.ready")


@pytest.fixture(scope="module")
def guarded(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProbedProcess]:
    """A service that asks for keys and for certificates; its port for probes asks for neither."""
    folder = tmp_path_factory.mktemp("guarded")
    variables = {"MEMSVC_ACCESS__KEYS": "required", "MEMSVC_SERVER__HEALTH_ADDRESS": "127.0.0.1:0"}
    environment = papers.environment(CLIENT_CA="clients.pem") | variables
    with ProbedProcess(folder / "data", environment, f"127.0.0.1:0,unix:{folder}/s") as process:
        yield process


def test_it_follows_the_service(tmp_path: Path) -> None:
    """1 before the start and after the end, 0 between; also when it listens at every address, or was asked too early."""
    process = ServerProcess(tmp_path / "data", {"MEMSVC_EMBEDDER__BACKEND": "in-memory"})
    ready = tmp_path / "data.ready"
    before = health("--ready-file", str(ready))
    with process as server:
        serving = health("--address", server.bound)
        ready.write_text(f"0.0.0.0:{server.bound.rpartition(':')[2]}\n")
        everywhere = health("--ready-file", str(ready), "--wait", "30")
    after = health("--ready-file", str(ready), "--wait", "0.5")

    assert (before[0], serving, everywhere, after[0]) == (1, (0, ""), (0, ""), 1)
    assert "has not started" in before[1]
    assert "does not answer: UNAVAILABLE" in after[1]


@pytest.mark.parametrize("service", ["", "liveness", "readiness", "memsvc.v1.MemoryService"])
def test_it_asks_for_what_is_named(server: ServerProcess, service: str) -> None:
    """Every name that probes use."""
    assert health("--address", server.bound, "--service", service) == (0, "")


def test_a_name_that_is_not_known_is_told(server: ServerProcess) -> None:
    """It is exit code 1, as with a service that does not serve."""
    code, said = health("--address", server.bound, "--service", "readyness")

    assert code == 1
    assert "knows no 'readyness'" in said


def test_certificates_are_shown_where_they_are_asked_for_and_keys_never(guarded: ProbedProcess, papers: Papers) -> None:
    """By TLS with our own certificate, in vain without; the name may be another than the address."""
    papers.client("prober", papers.clients)
    tls = ["--address", guarded.bound, "--tls-ca", str(papers.ca_file)]
    shown = ["--tls-certificate", str(papers.folder / "prober.pem"), "--tls-key", str(papers.folder / "prober.key")]

    assert health(*tls, *shown) == (0, "")
    assert health(*tls)[0] == 1
    assert health("--address", guarded.bound)[0] == 1
    assert health(*tls, *shown, "--tls-name", "localhost") == (0, "")
    assert health(*tls, *shown, "--tls-name", "elsewhere.example")[0] == 1


def test_a_socket_and_the_port_for_probes_need_no_certificate(guarded: ProbedProcess, papers: Papers) -> None:
    """The file with the addresses leads to the port for probes; without one, to the socket. Variables do no harm."""
    _, socket, marked = guarded.ready.read_text().split()
    without = guarded.ready.with_name("without")
    without.write_text(f"{guarded.bound}\n{socket}\n")

    assert health("--address", socket) == (0, "")
    assert health("--address", marked.removeprefix("health://")) == (0, "")
    assert health("--ready-file", str(guarded.ready), "--tls-ca", str(papers.ca_file)) == (0, "")
    assert health("--ready-file", str(without)) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tls-ca", "/nowhere/ca.pem"], "'/nowhere/ca.pem' cannot be read: No such file"),
        (["--tls-certificate", "pyproject.toml"], "--tls-certificate and --tls-key belong together"),
        (["--ready-file", "."], "'.' cannot be read: Is a directory"),
        (["--wait", "soon"], "--wait"),
    ],
)
def test_what_cannot_be_asked_is_exit_code_2(arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, however long it may wait."""
    monkeypatch.chdir(ROOT)
    code, told = health(*arguments, *(["--wait", "60"] if "--wait" not in arguments else []))

    assert code == 2
    assert said in told


def test_it_starts_without_loading_the_service(server: ServerProcess) -> None:
    """A probe runs every few seconds: neither settings nor stores nor the client are loaded for it."""
    script = (
        "import sys; from memsvc.cli.health import main\n"
        f"sys.argv = ['health', '--address', {server.bound!r}]\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "print([name for name in ('sqlalchemy', 'numpy', 'rich', 'structlog', 'memsvc.client',"
        " 'memsvc.server', 'memsvc.settings', 'memsvc.engine', 'memsvc.domain', 'memsvc.v1') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[:2] == ["0", "[]"]
