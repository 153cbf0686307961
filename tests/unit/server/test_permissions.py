"""Every method says what a key must be good for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from memsvc.domain.api_keys import ApiKeyRole
from memsvc.server.addresses import is_local_peer
from memsvc.server.interceptors.authentication import ADMINS, PREVIEWS, READS, WITHOUT_SCOPE, WRITES, role_for
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.descriptors import METHODS

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
READING_TOO = {"ExportUser", "DownloadFile", "ResolveCitations", "ResolveFileRefs"}
CHANGES_NOTHING = {
    "CheckIntegrity": {"all", "ignore_files"},
    "DeleteMemories": {"purge"},
    "RunMaintenance": {"all"},
    "SyncVault": {"all", "rewrite_all"},
}
"""Fields of yes or no that make no difference to whether a call changes something."""


def test_every_method_is_in_one_of_the_tables() -> None:
    """A new method must say here whether it changes something; until then it needs an ADMIN."""
    assert METHODS.keys() - READS - WRITES - ADMINS == set()
    assert READS & WRITES == READS & ADMINS == WRITES & ADMINS == set()


def test_what_reads_is_named_like_it() -> None:
    """Nothing that changes something has slipped in."""
    assert {name for name in READS if not name.startswith(READING)} == READING_TOO


def test_what_is_about_everybody_needs_an_admin() -> None:
    """A scope makes it a matter of one user."""
    scope = types_pb.Scope(user_id="ada")
    requests: dict[str, Callable[..., Any]] = {
        "RunMaintenance": lifecycle_pb.RunMaintenanceRequest,
        "CheckIntegrity": partial(admin_pb.CheckIntegrityRequest, repair=True),
    }

    for method, request in requests.items():
        assert role_for(method, request()) is ApiKeyRole.ADMIN
        assert role_for(method, request(scope=scope)) is ApiKeyRole.READ_WRITE
    assert role_for("SomethingNew", None) is ApiKeyRole.ADMIN


def test_every_request_that_may_only_look_is_in_the_table() -> None:
    """A new field that says so, or that makes a call change more, must be told here; a stream cannot be looked into."""
    flags = {
        name: {field.name for field in method.descriptor.input_type.fields if field.type == field.TYPE_BOOL}
        for name, method in METHODS.items()
    }
    rehearsing = {name for name, found in flags.items() if found & {"dry_run", "confirm", "repair"}}

    assert rehearsing == PREVIEWS.keys()
    assert PREVIEWS.keys() <= WRITES
    assert {name: PREVIEWS[name].keys() | CHANGES_NOTHING.get(name, set()) for name in PREVIEWS} == {
        name: flags[name] for name in PREVIEWS
    }
    assert not any(METHODS[name].descriptor.client_streaming for name in PREVIEWS)


@pytest.mark.parametrize("method", sorted(PREVIEWS))
def test_what_only_looks_is_for_readers(method: str) -> None:
    """A request that says that it changes nothing; one field that says otherwise makes it a change."""
    fields = dict(PREVIEWS[method])
    scope = types_pb.Scope(user_id="ada")

    def role(**changed: bool) -> ApiKeyRole:
        return role_for(method, METHODS[method].request(scope=scope, **(fields | changed)))

    assert role() is ApiKeyRole.READ_ONLY
    assert {name: role(**{name: not wanted}) for name, wanted in fields.items()} == dict.fromkeys(
        fields, ApiKeyRole.READ_WRITE
    )
    whole = role_for(method, METHODS[method].request(**fields))
    assert whole is (ApiKeyRole.ADMIN if method in WITHOUT_SCOPE else ApiKeyRole.READ_ONLY)
    # Bytes that are no request, and requests to come, say nothing of themselves.
    assert role_for(method, object()) is role_for(method, None) is ApiKeyRole.READ_WRITE


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
