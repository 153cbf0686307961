"""Addresses to listen at: TCP ports and unix sockets."""

from __future__ import annotations

import asyncio
import socket
import stat
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote

import grpc

from memsvc.reported_error import ReportedError

UNIX = "unix:"
PROBE_SECONDS = 1.0


class AddressError(ReportedError):
    """The server cannot listen at an address; the message says why and what to do."""


def remove_stale_socket(address: str) -> None:
    """Remove the file of a unix socket that no process listens on; other addresses need no preparation.

    gRPC itself would remove the file of a running server.

    Raises:
        AddressError: Another process listens there, or the file is no socket.
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
    if _is_in_use(path):
        message = f"Cannot listen at {address!r}: another process does; stop it or choose another path."
        raise AddressError(message)
    path.unlink(missing_ok=True)


def socket_path(address: str) -> Path | None:
    """Return the file of a unix socket, or None for another address."""
    return Path(address.removeprefix(UNIX)) if address.startswith(UNIX) else None


def bound_address(address: str, port: int) -> str:
    """Return *address* with the port that was bound in place of its own."""
    return address if address.startswith(UNIX) else f"{address.rpartition(':')[0]}:{port}"


def require_address(address: str) -> None:
    """Return when an address names a port or a unix socket.

    Raises:
        AddressError: It does not.
    """
    if not address.startswith((UNIX, "unix-abstract:")) and not address.rpartition(":")[2].isdecimal():
        message = f"Cannot listen at {address!r}: give HOST:PORT, such as 127.0.0.1:50051, or unix:PATH."
        raise AddressError(message)


def is_local(address: str) -> bool:
    """Return whether only this machine can reach an address: loopback or a unix socket."""
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
    """Return whether a peer, as gRPC names it, is on this machine."""
    if peer.startswith(UNIX):
        return True
    # The brackets of an IPv6 address come as %5B and %5D.
    family, _, address = unquote(peer).partition(":")
    return family in {"ipv4", "ipv6"} and is_local(address)


def _is_in_use(path: Path) -> bool:
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


async def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None = None) -> str:
    """Have *server* listen at an address, and return it with the port that was bound. Unix sockets stay unencrypted.

    Raises:
        AddressError: It cannot be listened at.
    """
    await asyncio.to_thread(remove_stale_socket, address)
    try:
        if credentials is None or socket_path(address):
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        message = f"Cannot listen at {address!r}: it is in use, or not an address of this machine."
        raise AddressError(message) from error
    return bound_address(address, port)
