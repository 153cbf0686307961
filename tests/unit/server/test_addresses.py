"""Where the server listens, and what it does about what is there already."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from memsvc.server.addresses import AddressError, bound_address, remove_stale_socket


def test_a_socket_that_nobody_listens_on_is_removed(tmp_path: Path) -> None:
    """It was left by a process that died."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    remove_stale_socket(f"unix:{path}")

    assert not path.exists()


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    """Left to itself, gRPC would take it away."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen()

        with pytest.raises(AddressError, match="another process"):
            remove_stale_socket(f"unix:{path}")

    assert path.exists()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    """It is somebody's data."""
    path = tmp_path / "s"
    path.write_text("data")

    with pytest.raises(AddressError, match="no socket"):
        remove_stale_socket(f"unix:{path}")

    assert path.read_text() == "data"


@pytest.mark.parametrize("address", ["127.0.0.1:0", "unix:/nowhere/at/all"])
def test_nothing_there_is_fine(address: str) -> None:
    """There is nothing to do."""
    remove_stale_socket(address)


@pytest.mark.parametrize(
    ("address", "bound"), [("127.0.0.1:0", "127.0.0.1:7"), ("[::1]:0", "[::1]:7"), ("unix:/s", "unix:/s")]
)
def test_a_bound_address_names_its_port(address: str, bound: str) -> None:
    """Also where the port was left open."""
    assert bound == bound_address(address, 7)
