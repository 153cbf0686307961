"""Addresses are reserved before the server listens at them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from memsvc.server.addresses import AddressError, reserved


@pytest.fixture
def free() -> str:
    """An address that was free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


def connect(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=5).close()


def test_a_reserved_address_is_refused_to_clients_and_then_listened_at(free: str) -> None:
    """No client takes the reservation for a service; it is given up for the server."""
    with reserved([free]) as reservation:
        with pytest.raises(ConnectionRefusedError):
            connect(free)
        reservation.close()
        with socket.create_server(("127.0.0.1", int(free.rpartition(":")[2]))):
            connect(free)


@pytest.mark.parametrize("asked", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - what a service may be given
def test_a_port_in_use_is_named(asked: str) -> None:
    """Also when only one of the addresses that a name stands for is in use."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"{asked}:{other.getsockname()[1]}"
        with pytest.raises(AddressError) as refused, reserved([address]):
            pass

    assert str(refused.value) == (
        f"Cannot listen at {address!r}: the port is in use; stop the other process or choose another port."
    )


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("192.0.2.1:0", "Cannot assign requested address"),
        ("no.such.host.invalid:0", "it is not an address of this machine"),
        ("127.0.0.1:70000", "give HOST:PORT, such as 127.0.0.1:50051, or unix:PATH"),
        (
            f"unix:/tmp/{'a' * 103}",
            "the path has 108 bytes, and that of a Unix socket at most 107; choose a shorter one",
        ),
        ("unix:/nowhere/at/all.sock", "there is no folder '/nowhere/at'; make it or choose another path"),
    ],
)
def test_an_address_that_cannot_be_is_named(address: str, reason: str) -> None:
    """With the reason of the system."""
    with pytest.raises(AddressError) as refused, reserved([address]):
        pass

    assert str(refused.value) == f"Cannot listen at {address!r}: {reason}."


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    """Clients of the process that listens there go on."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(AddressError, match="another process does"), reserved([f"unix:{path}"]):
            pass

    assert path.exists()
