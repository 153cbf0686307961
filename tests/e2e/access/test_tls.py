"""TLS and mTLS, certificates that change, and what must be there beyond this machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme

from memsvc.client import Memsvc, MemsvcCallError, Tls
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import ASKING, make_key
from tests.support.command_line import invoke
from tests.support.rpc import TIMEOUT
from tests.support.server_process import ServerProcess, Stubs
from tests.support.until import until

SCOPE = types_pb.Scope(user_id="ada")


@dataclass
class Papers:
    """The files of a service that speaks TLS, and the authorities behind them."""

    folder: Path
    ca: trustme.CA
    clients: trustme.CA

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, ca: trustme.CA) -> None:
        """Give the service a certificate of *ca*."""
        leaf = ca.issue_cert("localhost", "127.0.0.1")
        (self.folder / "cert.pem").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        (self.folder / "key.pem").write_bytes(leaf.private_key_pem.bytes())

    def client(self, name: str, ca: trustme.CA) -> tuple[Path, Path]:
        """Return the files of a client's certificate and key."""
        leaf = ca.issue_cert(f"{name}@example.org", common_name=name)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        leaf.cert_chain_pems[0].write_to_path(certificate)
        leaf.private_key_pem.write_to_path(key)
        return certificate, key

    def environment(self, **more: str) -> dict[str, str]:
        """Return the settings of a service with these files."""
        files = {"CERTIFICATE": "cert.pem", "KEY": "key.pem"} | more
        return ASKING | {f"MEMSVC_SERVER__TLS__{name}": str(self.folder / file) for name, file in files.items()}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Certificates for the service and its clients."""
    papers = Papers(tmp_path_factory.mktemp("papers"), trustme.CA(), trustme.CA())
    papers.issue(papers.ca)
    papers.ca.cert_pem.write_to_path(papers.ca_file)
    papers.clients.cert_pem.write_to_path(papers.folder / "clients.pem")
    return papers


class SecureProcess(ServerProcess):
    """A server that is asked by TLS, as a client with a certificate of its own."""

    credentials: grpc.ChannelCredentials

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """Open a channel of one's own to the server."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(local(self), self.credentials, options=options) as channel:
            yield channel


@pytest.fixture(scope="module")
def secure(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureProcess]:
    """A service beyond loopback that asks clients for certificates, and has no keys."""
    certificate, key = papers.client("agent", papers.clients)
    folder = tmp_path_factory.mktemp("secure")
    environment = papers.environment(CLIENT_CA="clients.pem")
    environment["MEMSVC_ACCESS__AUDIT_FILE"] = str(folder / "audit.jsonl")
    process = SecureProcess(folder / "data", environment, "0.0.0.0:0")
    process.credentials = grpc.ssl_channel_credentials(
        papers.ca_file.read_bytes(), key.read_bytes(), certificate.read_bytes()
    )
    with process:
        yield process


def local(server: ServerProcess) -> str:
    """Return where to reach a service of every address from here."""
    return f"127.0.0.1:{server.bound.rpartition(':')[2]}"


def code_of(address: str, credentials: grpc.ChannelCredentials) -> grpc.StatusCode:
    """Make a call and return its code."""
    with grpc.secure_channel(address, credentials, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            Stubs(channel).memory.ListMemories(memory_pb.ListMemoriesRequest(scope=SCOPE), timeout=TIMEOUT)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_a_client_needs_a_certificate_of_the_right_authority(secure: SecureProcess, papers: Papers) -> None:
    """Without one, or with another's, or without TLS, nobody gets through."""
    ca = papers.ca_file.read_bytes()
    stranger, stranger_key = papers.client("stranger", trustme.CA())
    address = local(secure)

    assert code_of(address, secure.credentials) is grpc.StatusCode.OK
    assert code_of(address, grpc.ssl_channel_credentials(ca)) is grpc.StatusCode.UNAVAILABLE
    other = grpc.ssl_channel_credentials(ca, stranger_key.read_bytes(), stranger.read_bytes())
    assert code_of(address, other) is grpc.StatusCode.UNAVAILABLE
    with Memsvc(address, user_id="ada", timeout=2) as client, pytest.raises(MemsvcCallError):
        client.get("x")


def test_commands_say_why_tls_failed(secure: SecureProcess, papers: Papers, tmp_path: Path) -> None:
    """A certificate of another authority, a client without TLS: not that no service answers."""
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    address = ("--address", local(secure), "--user", "ada")

    assert "TLS failed: " in invoke("list", *address, "--tls-ca", str(other)).stderr
    assert "if it needs TLS, name the authority" in invoke("list", *address).stderr
    with ServerProcess(tmp_path / "data") as plain:
        told = invoke("list", "--address", plain.bound, "--user", "ada", "--tls-ca", str(papers.ca_file))
    assert "it does not speak TLS: leave out --tls-ca." in told.stderr


def test_our_client_says_what_to_check_about_tls(secure: SecureProcess, papers: Papers, tmp_path: Path) -> None:
    """The message of gRPC follows."""

    def told(address: str, tls: Tls | None) -> str:
        with Memsvc(address, user_id="ada", timeout=TIMEOUT, tls=tls) as client:
            with pytest.raises(MemsvcCallError) as failed:
                client.get("x")
        assert failed.value.code is grpc.StatusCode.UNAVAILABLE
        return failed.value.message

    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)

    assert told(local(secure), None).startswith("The service closed the connection. If it needs TLS, name ")
    assert told(local(secure), Tls(other)).startswith("TLS failed. tls=Tls(ca) names the authority ")
    with ServerProcess(tmp_path / "data") as plain:
        assert told(plain.bound, Tls(papers.ca_file)).startswith("The service does not speak TLS: leave out tls. (")


def test_our_client_speaks_it_and_the_audit_log_names_the_certificate(secure: SecureProcess, papers: Papers) -> None:
    """A memory goes there and back; who it was is told by the common name."""
    tls = Tls(papers.ca_file, papers.folder / "agent.pem", papers.folder / "agent.key")
    with Memsvc(local(secure), user_id="ada", tls=tls) as client:
        client.wait_ready(60)
        made = client.create("The certificate is green.")
        found = client.get(made.memory.id)

    assert found.content == "The certificate is green."
    # A thread writes the lines.
    until(lambda: made.memory.id in _noted(secure))
    assert {json.loads(line)["certificate"] for line in _noted(secure).splitlines()} == {"agent"}


def _noted(server: ServerProcess) -> str:
    """Return the audit log up to its last whole line."""
    return server.data_dir.with_name("audit.jsonl").read_text().rpartition("\n")[0]


def test_a_new_certificate_is_shown_without_a_restart(secure: SecureProcess, papers: Papers) -> None:
    """Files that do not fit together leave the old one in use; a call that is under way goes on."""
    address = local(secure)
    agent = (papers.folder / "agent.key").read_bytes(), (papers.folder / "agent.pem").read_bytes()
    new = trustme.CA()
    with secure.channel() as open_before:
        stubs = Stubs(open_before)
        stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=SCOPE), timeout=TIMEOUT)
        (papers.folder / "key.pem").write_bytes(new.issue_cert("localhost").private_key_pem.bytes())
        half_way = code_of(address, secure.credentials)
        papers.issue(new)
        old = code_of(address, secure.credentials)
        changed = code_of(address, grpc.ssl_channel_credentials(new.cert_pem.bytes(), *agent))
        stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=SCOPE), timeout=TIMEOUT)
    papers.issue(papers.ca)

    assert half_way is grpc.StatusCode.OK
    assert old is grpc.StatusCode.UNAVAILABLE
    assert changed is grpc.StatusCode.OK
    assert code_of(address, secure.credentials) is grpc.StatusCode.OK


def test_beyond_this_machine_a_key_will_do(papers: Papers, tmp_path: Path) -> None:
    """With TLS our client sends it by call credentials; on a Unix socket beside it without."""
    key = make_key(tmp_path / "data", NewApiKey(role=ApiKeyRole.READ_WRITE)).text
    socket = f"unix:{tmp_path / 's'}"
    process = SecureProcess(tmp_path / "data", papers.environment(), f"0.0.0.0:0,{socket}")
    process.credentials = grpc.ssl_channel_credentials(papers.ca_file.read_bytes())
    with process as server:
        tls = Tls(papers.ca_file)
        with Memsvc(local(server), user_id="ada", tls=tls, api_key=key) as client:
            made = client.create("The key is green.")
        with Memsvc(socket, user_id="ada", api_key=key) as client:
            found = client.get(made.memory.id)
        with (
            Memsvc(local(server), user_id="ada", tls=tls, api_key="") as client,
            pytest.raises(MemsvcCallError) as none,
        ):
            client.get(made.memory.id)

    assert found.content == "The key is green."
    assert (none.value.code, none.value.reason) == (grpc.StatusCode.UNAUTHENTICATED, "API_KEY_REQUIRED")
