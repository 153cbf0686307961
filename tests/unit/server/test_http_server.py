"""The HTTP server around any application: its start, its limit of connections, its certificate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import trustme

from memsvc.server.addresses import AddressError
from memsvc.server.http.connect import peer_of
from memsvc.server.http.server import HttpEndedError, HttpServer, _Uvicorn
from memsvc.server.options import HttpOptions
from memsvc.server.tls import CertificateError, Certificates, TlsFiles


def application(on_startup: Callable[[], object] = lambda: None) -> Any:
    """Return an application that answers "ok"."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            on_startup()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    return answer


def server_of(answer: Any, **options: Any) -> HttpServer:
    """Return a server that is not started."""
    return HttpServer(answer, HttpOptions(**options), grace_seconds=1, header_seconds=5)


@asynccontextmanager
async def started(answer: Any, certificates: Certificates | None = None, **options: Any) -> AsyncIterator[str]:
    """Return the URL of a running server."""
    server = server_of(answer, address="127.0.0.1:0", **options)
    url = await server.start(certificates)
    try:
        yield url
    finally:
        await server.stop()


def test_an_address_that_another_process_takes_during_the_start() -> None:
    """The start fails by a message that names the setting; it neither hangs nor ends the process."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        server = server_of(application(other.listen), address=f"127.0.0.1:{other.getsockname()[1]}")

        async def run() -> None:
            with pytest.raises(AddressError, match=r"in use.*http\.address"):
                await server.start(None)
            await server.stop()

        asyncio.run(asyncio.wait_for(run(), 60))


def test_an_application_that_cannot_start() -> None:
    """Uvicorn would end the process then."""

    def fail() -> None:
        raise RuntimeError

    server = server_of(application(fail), address="127.0.0.1:0")

    async def run() -> None:
        with pytest.raises(AddressError, match=r"ended while it started"):
            await server.start(None)
        await server.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("is_at_fault", [False, True])
def test_an_end_of_its_own_is_noticed(monkeypatch: pytest.MonkeyPatch, *, is_at_fault: bool) -> None:
    """Whoever waits for the end is told so; of a server that was stopped, nothing."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        server = server_of(application(), address="127.0.0.1:0")
        await server.start(None)
        ended = asyncio.create_task(server.wait_ended())
        if is_at_fault:
            monkeypatch.setattr(_Uvicorn, "_close_slow", fail)
            with pytest.raises(HttpEndedError, match=r"ZeroDivisionError.*Start it again"):
                await ended
        await server.stop()
        if not is_at_fault:
            await ended

    asyncio.run(asyncio.wait_for(run(), 60))


def test_connections_beyond_the_limit_are_refused_in_json() -> None:
    """By an error of Connect that says when to come back; open connections go on, and later ones are answered again."""
    origin = "https://agents.example"

    async def run() -> None:
        opened = started(application(), max_connections=2, cors_origins=(origin,))
        async with opened as url, httpx.AsyncClient(base_url=url) as web:
            assert "ok" == (await web.get("/")).text
            async with httpx.AsyncClient(base_url=url) as second, httpx.AsyncClient(base_url=url) as third:
                assert "ok" == (await second.get("/")).text
                answer = await third.get("/", headers={"origin": origin})
                assert origin == answer.headers["access-control-allow-origin"]
                assert (503, "1", "application/json") == (
                    answer.status_code,
                    answer.headers["retry-after"],
                    answer.headers["content-type"],
                )
                assert "unavailable" == answer.json()["code"]
                assert "http.max_connections" in answer.json()["message"]
                assert "ok" == (await web.get("/")).text
            async with asyncio.timeout(60):
                while (await web.get("/")).status_code != 200:
                    pass

    asyncio.run(run())


@pytest.mark.parametrize(
    ("client", "headers", "peer"),
    [
        (("127.0.0.1", 5), (), "ipv4:127.0.0.1:5"),
        (("::1", 5), (), "ipv6:[::1]:5"),
        (("[::1]", "5"), (), "ipv6:[::1]:5"),
        (None, ("accept",), "unix:"),
        (("127.0.0.1", 5), ("x-forwarded-for",), "proxy:127.0.0.1:5"),
        (None, ("forwarded",), "proxy:"),
    ],
)
def test_the_address_of_a_caller(client: Any, headers: tuple[str, ...], peer: str) -> None:
    """As gRPC writes it; what a proxy forwards is never from this machine, also over a unix socket."""
    assert peer == peer_of(client, headers)


# Certificates


class Papers:
    """Files of a certificate that is issued again and again."""

    def __init__(self, folder: Path) -> None:
        self.files = TlsFiles(folder / "cert.pem", folder / "key.pem")
        self.authority = trustme.CA()
        self.issue()

    def issue(self) -> None:
        """Write another certificate and its key."""
        leaf = self.authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(self.files.key)
        self.files.certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))

    async def serial(self, url: str) -> str:
        """Return the number of the certificate that a handshake shows."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        _, writer = await asyncio.open_connection(
            "127.0.0.1", int(url.rpartition(":")[2]), ssl=context, server_hostname="localhost"
        )
        try:
            return str(writer.get_extra_info("peercert")["serialNumber"])
        finally:
            writer.close()
            await writer.wait_closed()


def test_every_handshake_is_whole_while_files_change(tmp_path: Path) -> None:
    """A certificate beside the key of another generation is never used; when both are there, they are."""
    papers = Papers(tmp_path)
    certificates = Certificates(papers.files)

    async def run() -> None:
        async with started(application(), certificates) as url:
            first = await papers.serial(url)
            key = papers.files.key.read_bytes()
            papers.issue()
            new = papers.files.key.read_bytes()
            papers.files.key.write_bytes(key)
            for _ in range(3):
                assert certificates.fetch() is None
            assert first == await papers.serial(url)
            papers.files.key.write_bytes(new)
            assert certificates.fetch() is not None
            assert first != await papers.serial(url)

    asyncio.run(run())


class Changing(Certificates):
    """Certificates whose files change after a look at them, as by a second renewal.

    Attributes:
        renewals: So many looks are followed by a renewal.
    """

    issue: Callable[[], None]
    renewals = 0

    def _file_stamps(self) -> list[tuple[int, int, int]]:
        stamps = super()._file_stamps()
        if self.renewals:
            self.renewals -= 1
            self.issue()
        return stamps


def test_files_that_change_while_they_are_read(tmp_path: Path) -> None:
    """The old ones are kept, and the next look takes the last generation; the log has one line of it."""
    papers = Papers(tmp_path)
    certificates = Changing(papers.files)
    certificates.issue = papers.issue
    papers.issue()
    # After the look that finds the change, and after the first look of the read.
    certificates.renewals = 2
    with structlog.testing.capture_logs() as lines:
        assert certificates.fetch() is None
        assert certificates.fetch() is not None
        assert certificates.fetch() is None
    assert ["certificate was not reloaded", "certificate reloaded"] == [line["event"] for line in lines]


def test_a_missing_file_is_logged_once(tmp_path: Path) -> None:
    """However many handshakes ask; without a first certificate there is no start."""
    one = Papers(tmp_path)
    with structlog.testing.capture_logs() as lines:
        certificates = Certificates(one.files)
        one.files.key.unlink()
        for _ in range(5):
            assert certificates.fetch() is None
    assert 1 == len(lines)
    with pytest.raises(CertificateError, match=r"key\.pem"):
        Certificates(one.files)
