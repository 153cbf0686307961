"""The servers that packages and examples are run against, and each language built once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
import trustme

from memsvc.engine.admin.api_keys import NewApiKey
from tests.e2e.access.support import ASKING, make_key
from tests.packages.guarded import Guarded, GuardedProcess
from tests.packages.language_builds import Build, build
from tests.support.server_process import FAST, HTTP, ServerProcess, Stubs


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A running server with the real engines and the fast embedder, over gRPC and HTTP."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", FAST | HTTP) as running:
        yield running


@pytest.fixture(scope="session")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of the session's server."""
    with server.stubs() as stubs:
        yield stubs


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that requires TLS and keys; those of agents allow few calls in a second."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "cert.pem").write_bytes(b"".join(part.bytes() for part in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    made = make_key(folder / "data", NewApiKey(tenant_id="acme", user_ids=("ann",), calls_per_second=5.0))
    environment = (
        ASKING
        | HTTP
        | {
            "MEMSVC_SERVER__TLS__CERTIFICATE": str(folder / "cert.pem"),
            "MEMSVC_SERVER__TLS__KEY": str(folder / "key.pem"),
        }
    )
    process = GuardedProcess(folder / "data", environment)
    process.authority_file = folder / "ca.pem"
    with process:
        yield Guarded(process.bound, process.url, made.text, str(process.authority_file))


@pytest.fixture(scope="session")
def build_of() -> Callable[[str], Build]:
    """Return the build of a language, made at the first request."""
    return functools.cache(build)
