"""Addresses to listen at: TCP ports and unix sockets."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote

import grpc

from memsvc.domain.errors import ReportedError

UNIX = "unix:"
PROBE_SECONDS = 1.0
MAX_PORT = 65_535
MAX_SOCKET_PATH_BYTES = 107
"""Of Linux."""


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
    """Return when an address names a port, or a unix socket whose path is short enough.

    Raises:
        AddressError: It does not.
    """
    port = address.rpartition(":")[2]
    is_port = port.isdecimal() and int(port) <= MAX_PORT
    if not is_port and not address.startswith((UNIX, "unix-abstract:")):
        message = f"Cannot listen at {address!r}: give HOST:PORT, such as 127.0.0.1:50051, or unix:PATH."
        raise AddressError(message)
    path = socket_path(address)
    size = 0 if path is None else len(os.fsencode(path))
    if size > MAX_SOCKET_PATH_BYTES:
        message = (
            f"Cannot listen at {address!r}: the path has {size} bytes, and that of a Unix socket at most "
            f"{MAX_SOCKET_PATH_BYTES}; choose a shorter one."
        )
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


@contextmanager
def reserved(addresses: Iterable[str]) -> Iterator[ExitStack]:
    """Hold *addresses* without listening, so that clients are refused until the server listens.

    The server binds them itself: close what is yielded before it does. Unix sockets cannot be held and are only
    checked. Without this an address that is in use would be noticed when all backends are open.

    Raises:
        AddressError: An address is in use, or not one of this machine.
    """
    with ExitStack() as held:
        for address in addresses:
            require_address(address)
            if address.startswith(UNIX):
                remove_stale_socket(address)
                _require_folder(address)
            elif not address.startswith("unix-abstract:"):
                _hold(address, held)
        yield held


def _require_folder(address: str) -> None:
    path = socket_path(address)
    if path is not None and not path.parent.is_dir():
        message = (
            f"Cannot listen at {address!r}: there is no folder {str(path.parent)!r}; make it or choose another path."
        )
        raise AddressError(message)


def _hold(address: str, held: ExitStack) -> None:
    """Bind every address that a name resolves to; some of them may not exist on this machine."""
    host, _, port = address.rpartition(":")
    failures: list[OSError] = []
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in found:
            try:
                one = held.enter_context(socket.socket(family, kind, protocol))
                # As gRPC does: connections that ended a moment ago do not keep a port in use.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, place[0] != "::")
                one.bind(place)
                sockets.append(one)
            except OSError as error:
                failures.append(error)
    except OSError as error:
        message = f"Cannot listen at {address!r}: it is not an address of this machine."
        raise AddressError(message) from error
    in_use = next((error for error in failures if error.errno == errno.EADDRINUSE), None)
    if in_use is not None:
        message = f"Cannot listen at {address!r}: the port is in use; stop the other process or choose another port."
        raise AddressError(message) from in_use
    if not sockets:
        reason = failures[0].strerror if failures else "it is not an address of this machine"
        message = f"Cannot listen at {address!r}: {reason}."
        raise AddressError(message)
