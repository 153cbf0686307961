"""Qdrant servers for tests: the client's local mode, our stand-in that speaks gRPC, and a real one where there is one.

Where the local mode differs from a server: it scans everything, so that payload indexes, graphs, quantisation, shards
and replicas mean nothing to it, and it says so once by a warning; it is not made for several threads; what is not there
is a ValueError.
"""

from __future__ import annotations

import os
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from qdrant_client import QdrantClient

from memsvc.ports.plugin import BackendContext
from memsvc.testing import filter_contract
from memsvc_backends.qdrant_server.connection import Endpoint, ServerConnection, open_connection
from memsvc_backends.qdrant_server.settings import GRPC_PORT, QdrantServerSettings, QdrantSparseSettings
from tests.support.qdrant_fake import Keeper, served, stand_in

URL = os.environ.get("MEMSVC_TEST_QDRANT_URL", "")
"""The gRPC address of a real server, as in http://127.0.0.1:6334; what the tests make there they remove."""
API_KEY = os.environ.get("MEMSVC_TEST_QDRANT_API_KEY")
SERVER = pytest.param(
    "server", marks=pytest.mark.skipif(not URL, reason="No real Qdrant server: MEMSVC_TEST_QDRANT_URL is not set.")
)
PLACES = ["local", "grpc", SERVER]


class Locked:
    """A client of the local mode that one thread at a time uses."""

    def __init__(self, client: QdrantClient) -> None:
        self._client = client
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return method(*args, **kwargs)

        return call

    def close(self) -> None:
        """Leave the client open: it holds what a server would keep."""


def local_connection(client: Locked, settings: QdrantServerSettings, name: str) -> ServerConnection:
    """Return a connection to the local mode."""
    shared: Any = client
    return ServerConnection([Endpoint(shared, shared)], settings, name)


@contextmanager
def place(kind: str) -> Iterator[Callable[..., ServerConnection]]:
    """Lend what connects to a place that is empty at first, and keeps what is written until the end."""
    if kind == "local":
        client = QdrantClient(":memory:")
        shared = Locked(client)
        yield lambda settings, name: local_connection(shared, settings, name)
        client.close()
        return
    if kind == "grpc":
        with stand_in() as address:
            yield lambda settings, name: open_connection(settings.model_copy(update={"url": address}), name)
        return
    prefixes: set[str] = set()

    def real(settings: QdrantServerSettings, name: str) -> ServerConnection:
        prefixes.add(settings.prefix)
        return real_connection(settings, name)

    yield real
    with real_client(prefixes):
        pass


def real_connection(settings: QdrantServerSettings, name: str) -> ServerConnection:
    """Return a connection to the real server."""
    given = {"url": URL, "api_key": API_KEY}
    return open_connection(type(settings).model_validate({**settings.model_dump(), **given}), name)


@contextmanager
def real_client(prefixes: Iterable[str]) -> Iterator[QdrantClient]:
    """Lend a client of the real server; at the end, remove all collections with one of the prefixes."""
    with closing(QdrantClient(**_options())) as client:
        yield client
        chosen = tuple(prefixes)
        for one in client.get_collections().collections:
            if chosen and one.name.startswith(chosen):
                client.delete_collection(one.name)


def _options() -> dict[str, Any]:
    settings = QdrantServerSettings(url=URL)
    [address] = settings.addresses
    return {
        "host": address.hostname,
        "grpc_port": address.port or 6334,
        "https": address.scheme == "https",
        "prefer_grpc": True,
        "api_key": API_KEY,
        "check_compatibility": False,
    }


@contextmanager
def local_port(kind: str) -> Iterator[tuple[Keeper | None, int, dict[str, Any]]]:
    """Lend a server on this machine, for a proxy: what the stand-in keeps, the port, and the settings of all indexes.

    A real server must listen without TLS here.
    """
    prefix = _own_prefix()
    if kind == "grpc":
        keeper = Keeper()
        with served(keeper) as port:
            yield keeper, port, {"prefix": prefix}
        return
    with real_client([prefix]):
        yield None, urlsplit(URL).port or GRPC_PORT, {"prefix": prefix, "api_key": API_KEY}


PATIENCE: dict[str, Any] = {"timeout_seconds": 60.0}
"""What is tested is what comes back, not how soon: the stand-in answers one call at a time, beside other tests."""


def context() -> BackendContext:
    """Return what a process gives to a backend; neither index keeps files."""
    return BackendContext(directory=Path("/nonexistent"), now=lambda: datetime.now(UTC))


def _own_prefix() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


def vector_settings(**values: Any) -> QdrantServerSettings:
    """Return settings, by default with a prefix that nobody else has."""
    return QdrantServerSettings(**{"prefix": _own_prefix()} | PATIENCE | values)


def sparse_settings(**values: Any) -> QdrantSparseSettings:
    """Return settings, by default with a prefix that nobody else has."""
    return QdrantSparseSettings(**{"prefix": _own_prefix()} | PATIENCE | values)


def skip_most_filters(request: pytest.FixtureRequest) -> None:
    """Skip a test of filters over gRPC but for a few, which show that every sort of condition gets there and back."""
    if request.function.__module__ != filter_contract.__name__ or "grpc" not in request.node.callspec.params.values():
        return
    if not any(word in request.function.__name__ for word in ("trees", "anything", "odd_strings", "metadata")):
        pytest.skip("The filters are tried one by one in the local mode, and on a real server.")
