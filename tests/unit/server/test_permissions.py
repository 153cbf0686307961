"""Every method says what a key must be good for."""

from __future__ import annotations

import pytest

from memsvc.domain.access import Role
from memsvc.server.addresses import is_local_peer
from memsvc.server.permissions import ADMINS, READS, WRITES, role_for
from memsvc.v1 import integrity_pb2, maintenance_pb2
from memsvc.v1 import types_pb2 as types
from tests.e2e.methods import METHODS

READING = (
    "Get",
    "BatchGet",
    "List",
    "Search",
    "BatchSearch",
    "StreamSearch",
    "Build",
    "Render",
    "Load",
    "Watch",
    "Diff",
)
READING_TOO = {"ExportUser", "DownloadFile", "ResolveFileRefs"}


def test_every_method_is_in_one_of_the_tables() -> None:
    """A new method must say here whether it changes something; until then it needs an ADMIN."""
    assert METHODS.keys() - READS - WRITES - ADMINS == set()
    assert READS & WRITES == READS & ADMINS == WRITES & ADMINS == set()


def test_what_reads_is_named_like_it() -> None:
    """Nothing that changes something has slipped in."""
    assert {name for name in READS if not name.startswith(READING)} == READING_TOO


def test_what_is_about_everybody_needs_an_admin() -> None:
    """A scope makes it a matter of one user."""
    scope = types.Scope(user_id="ada")
    requests = {
        "RunMaintenance": maintenance_pb2.RunMaintenanceRequest,
        "CheckIntegrity": integrity_pb2.CheckIntegrityRequest,
    }

    for method, request in requests.items():
        assert role_for(method, request()) is Role.ADMIN
        assert role_for(method, request(scope=scope)) is Role.READ_WRITE
    assert role_for("SomethingNew", None) is Role.ADMIN


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("ipv4:127.0.0.1:1", True), ("ipv6:%5B::1%5D:1", True), ("ipv6:[::1]:1", True), ("unix:", True),
        ("unix:/run/m.sock", True), ("ipv4:10.0.0.1:1", False), ("ipv6:%5B2001:db8::1%5D:1", False), ("", False),
        ("ipv4:localhost.example.org:1", False),
    ],
)  # fmt: skip
def test_callers_of_this_machine_are_known(peer: str, is_local: bool) -> None:  # noqa: FBT001 - a value to be expected
    """As gRPC names them."""
    assert is_local_peer(peer) is is_local
