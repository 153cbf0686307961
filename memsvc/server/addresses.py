"""Where to listen: TCP addresses and unix sockets."""

from __future__ import annotations

import asyncio
import socket
import stat
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote

import grpc

from memsvc.domain.context import Locale, Shares
from memsvc.domain.search import Weighting
from memsvc.server.tls import TlsFiles

UNIX = "unix:"
PROBE_SECONDS = 1.0


class AddressError(Exception):
    """The server cannot listen at an address; the message says why and what to do."""


def make_room(address: str) -> None:
    """Remove the file of a unix socket on which nobody listens any more; of other addresses nothing is asked.

    gRPC itself would take the file away from a server that is running.

    Raises:
        AddressError: Somebody listens there, or what is there is no socket.
    """
    path = socket_path(address)
    if path is None:
        return
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        message = f"Cannot listen at {address!r}: the file is there and is no socket; choose another path."
        raise AddressError(message)
    if _somebody_listens(path):
        message = f"Cannot listen at {address!r}: another process does; stop it or choose another path."
        raise AddressError(message)
    path.unlink(missing_ok=True)


def socket_path(address: str) -> Path | None:
    """Return the file of a unix socket, or None for another address."""
    return Path(address.removeprefix(UNIX)) if address.startswith(UNIX) else None


def bound_address(address: str, port: int) -> str:
    """Return *address* with the port that was bound in place of its own."""
    return address if address.startswith(UNIX) else f"{address.rpartition(':')[0]}:{port}"


def require_place(address: str) -> None:
    """Return when an address names a port or a unix socket.

    Raises:
        AddressError: It does not.
    """
    if not address.startswith((UNIX, "unix-abstract:")) and not address.rpartition(":")[2].isdecimal():
        message = f"Cannot listen at {address!r}: give HOST:PORT, such as 127.0.0.1:50051, or unix:PATH."
        raise AddressError(message)


def is_local(address: str) -> bool:
    """Say whether only this machine can reach an address: loopback or a unix socket."""
    if address.startswith((UNIX, "unix-abstract:")):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_local_peer(peer: str) -> bool:
    """Say whether a caller, as gRPC names it, is on this machine."""
    if peer.startswith(UNIX):
        return True
    # The brackets of an IPv6 address come as %5B and %5D.
    family, _, address = unquote(peer).partition(":")
    return family in {"ipv4", "ipv6"} and is_local(address)


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError as error:
            message = f"Cannot listen at {path}: {error}."
            raise AddressError(message) from error
        return True


# Listening at an address: TCP or a unix socket, encrypted or not.


async def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None = None) -> str:
    """Have *server* listen at an address, and return it with the port that was bound. Unix sockets stay unencrypted.

    Raises:
        AddressError: It cannot be listened at.
    """
    await asyncio.to_thread(make_room, address)
    try:
        if credentials is None or socket_path(address):
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        message = f"Cannot listen at {address!r}: it is in use, or not an address of this machine."
        raise AddressError(message) from error
    return bound_address(address, port)


# What the server is told at its start, as plain values.


@dataclass(frozen=True, slots=True)
class ContextDefaults:
    """What a context is like that does not say so itself."""

    total_tokens: int = 128_000
    shares: Shares = field(default_factory=Shares)
    locale: Locale = Locale.EN


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """What holds for keys that do not say so themselves, 0 being no limit, and how often open streams are looked at."""

    calls_per_second: float = 0.0
    concurrent_calls: int = 0
    recheck_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve.

    Attributes:
        addresses: Each "host:port" (port 0: any free one) or "unix:/absolute/path".
        grace_seconds: How long calls under way may go on after the server was told to stop.
        max_message_bytes: The largest message that is taken in or sent.
        search_threads: How many searches run at once; likewise writes, and all other calls (meta).
        language_threads: How many calls wait for a language model at once.
        queue_factor: How many calls may wait for each thread before further ones are refused.
        default_deadline_seconds: The time given to a unary call whose client set no deadline.
        keepalive_seconds: How often an idle connection is tried.
        health_seconds: How often the backends are pinged.
        reflection: Whether clients may ask for the API's description.
        default_weighting: The weighting of searches that name none.
        context: What contexts are like that do not say so themselves.
        version: The service's version, as Diagnose tells it.
        watch_streams: How many watches may be open; further ones are refused.
        watch_threads: How many threads read changes for them.
        file_streams: How many uploads and downloads may be under way; further ones are refused.
        file_threads: How many threads read and write their bytes.
        metrics_address: "HOST:PORT" of /metrics, /healthz and /readyz; empty: they are not served.
        keys: What holds for API keys.
        health_address: "HOST:PORT" or "unix:PATH" of a port for probes alone, in plain text; empty: there is none.
        tls: The files of the certificate; None: TCP is not encrypted.
    """

    addresses: tuple[str, ...] = ("127.0.0.1:50051",)
    grace_seconds: float = 20.0
    max_message_bytes: int = 16 * 1024 * 1024
    search_threads: int = 8
    write_threads: int = 32
    meta_threads: int = 8
    language_threads: int = 4
    queue_factor: int = 4
    default_deadline_seconds: float = 30.0
    keepalive_seconds: float = 120.0
    health_seconds: float = 5.0
    reflection: bool = True
    default_weighting: Weighting | None = None
    context: ContextDefaults = ContextDefaults()
    version: str = ""
    watch_streams: int = 1_000
    watch_threads: int = 2
    file_streams: int = 64
    file_threads: int = 4
    metrics_address: str = ""
    keys: KeyOptions = KeyOptions()
    health_address: str = ""
    tls: TlsFiles | None = None
