"""The servers that the examples are run against, and each example built once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
import trustme

from memsvc.engine.admin.api_keys import NewApiKey
from tests.e2e.access.support import ASKING, make_key
from tests.examples.building import Program, build
from tests.examples.guarded import Guarded, GuardedProcess
from tests.support.server_process import ServerProcess, Stubs


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the real engines and the fast embedder."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of the session's server."""
    with server.stubs() as stubs:
        yield stubs


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that speaks TLS and asks for keys; those of agents allow few calls in a second."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "cert.pem").write_bytes(b"".join(part.bytes() for part in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    made = make_key(folder / "data", NewApiKey(tenant_id="acme", user_ids=("ann",), calls_per_second=5.0))
    environment = ASKING | {
        "MEMSVC_SERVER__TLS__CERTIFICATE": str(folder / "cert.pem"),
        "MEMSVC_SERVER__TLS__KEY": str(folder / "key.pem"),
    }
    process = GuardedProcess(folder / "data", environment)
    process.authority_file = folder / "ca.pem"
    with process:
        yield Guarded(process.bound, made.text, str(process.authority_file))


@pytest.fixture(scope="session")
def program_in() -> Callable[[str], Program]:
    """Return the example of a language, built when it is asked for first."""
    return functools.cache(build)
