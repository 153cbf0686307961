"""A proxy in front of the PostgreSQL server of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.postgres_server import server
from tests.support.tcp_proxy import Proxy, proxy


def socket_in(folder: str | Path) -> str:
    """Return the path of the socket of the server that has its sockets in *folder*."""
    return next(str(path) for path in Path(folder).glob(".s.PGSQL.*") if path.suffix != ".lock")


@contextmanager
def proxy_to_server() -> Iterator[Proxy]:
    """Run a proxy to the server."""
    [host] = parse_qs(urlsplit(server().get_uri()).query)["host"]
    with proxy(socket_in(host)) as running:
        yield running


def url_through(url: str, port: int) -> str:
    """Return the URL of the database and schema of *url* by a port of this machine."""
    parts = urlsplit(url)
    [options] = parse_qs(parts.query).get("options", [""])
    through = f"postgresql://postgres@127.0.0.1:{port}{parts.path}"
    return f"{through}?options={options.replace('=', '%3D')}" if options else through
