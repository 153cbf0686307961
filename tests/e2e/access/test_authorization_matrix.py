"""Every RPC without a key, and with a wrong, expired, read-only and other tenant's key."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from memsvc.domain.api_keys import new_key_text
from memsvc.server.interceptors.authentication import ADMINS, PREVIEWS, READS, WITHOUT_SCOPE, WRITES
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import Keyed
from tests.e2e.isolation import lifecycle, memories, searches, sessions
from tests.e2e.isolation.fixtures import EVERY, Owner, Stranger
from tests.e2e.isolation.registry import CASES, INVALID, NOT_FOUND, OK
from tests.support.descriptors import METHODS
from tests.support.rpc import TIMEOUT, Refusal, list_all
from tests.support.server_process import Stubs

MODULES = (lifecycle, memories, searches, sessions)
"""Imported for the cases that they register."""
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


def refusal_of(stubs: Stubs, method: str, *requests: Any) -> Refusal | None:
    """Call a method, with an empty request unless others are given, and return why it was refused, if it was."""
    requests = requests or (METHODS[method].request(),)
    try:
        METHODS[method].responses(stubs, *requests, timeout=TIMEOUT)
    except grpc.RpcError as error:
        return Refusal.from_error(error)
    return None


def wrong_words(asking: Keyed) -> dict[str, tuple[str, str]]:
    """Return what a caller may bring, and the reason of the refusal."""
    good = asking.keys["admin"].text
    _, foreign = new_key_text(datetime.now(UTC), os.urandom)
    required, invalid = "API_KEY_REQUIRED", "API_KEY_INVALID"
    return {
        "nothing": ("", required),
        "another scheme": (f"Basic {good}", required),
        "no scheme": (good, required),
        "an empty key": ("Bearer ", required),
        "a password": ("Bearer hunter2", invalid),
        "a mistyped key": (f"Bearer {good[:-1]}{'a' if good[-1] != 'a' else 'b'}", invalid),
        "a longer key": (f"Bearer {good}a", invalid),
        "a key of another service": (f"Bearer {foreign}", invalid),
        "a revoked key": (f"Bearer {asking.keys['revoked'].text}", invalid),
        "an expired key": (f"Bearer {asking.keys['expired'].text}", "API_KEY_EXPIRED"),
    }


def test_no_method_answers_without_a_good_key(asking: Keyed) -> None:
    """Whatever is brought in the place of one, and before the request is looked at."""
    for name, (words, reason) in wrong_words(asking).items():
        with asking.bringing(words) as stubs:
            found = {method: refusal_of(stubs, method) for method in METHODS}

        assert {(refusal.code, refusal.reason) for refusal in found.values() if refusal} == {(UNAUTHENTICATED, reason)}, (
            name, found,
        )  # fmt: skip
        assert all(found.values()), name


def test_a_reader_changes_nothing(asking: Keyed) -> None:
    """Every method that could is refused, before the request is looked at; the others are not."""
    with asking.stubs("reader") as stubs:
        found = {method: refusal_of(stubs, method) for method in METHODS if method != "WatchMemories"}

    denied = {method for method, refusal in found.items() if refusal and refusal.code is DENIED}
    # Without a word of confirmation an erasure only says what it would remove.
    assert ((WRITES | ADMINS) & METHODS.keys()) - {"EraseUser"} == denied
    assert {found[method].reason for method in denied} == {"PERMISSION_DENIED"}  # type: ignore[union-attr]
    assert UNAUTHENTICATED not in {refusal.code for refusal in found.values() if refusal}


@pytest.mark.parametrize("method", sorted(PREVIEWS))
def test_a_reader_may_ask_what_would_be_changed(asking: Keyed, method: str) -> None:
    """The request is let through, whatever else is wrong with it; one that changes something is not, nor one of everybody."""
    fields, scope = dict(PREVIEWS[method]), types_pb.Scope(user_id="nobody")
    looking = METHODS[method].request(scope=scope, **fields)
    changing = [
        METHODS[method].request(scope=scope, **(fields | {name: not wanted})) for name, wanted in fields.items()
    ]
    everybody = METHODS[method].request(**fields)
    with asking.stubs("reader") as stubs:
        looked = refusal_of(stubs, method, looking)
        changed = [refusal_of(stubs, method, request) for request in changing]
        everywhere = refusal_of(stubs, method, everybody)

    assert looked is None or looked.code is not DENIED
    assert [refusal.code for refusal in changed if refusal] == [DENIED] * len(fields)
    assert (everywhere is not None and everywhere.code is DENIED) == (method in WITHOUT_SCOPE)


def test_a_writer_leaves_the_service_as_a_whole_alone(asking: Keyed) -> None:
    """That needs an ADMIN, and the refusal says so."""
    with asking.stubs("writer") as stubs:
        found = {method: refusal_of(stubs, method) for method in METHODS.keys() - READS - {"EraseUser"}}

    denied = {method for method, refusal in found.items() if refusal and refusal.code is DENIED}
    # Without a scope these are about everybody.
    assert denied == (ADMINS | WITHOUT_SCOPE) & METHODS.keys()
    for method in denied:
        metadata = found[method].metadata  # type: ignore[union-attr]
        assert metadata == {"key_id": asking.keys["writer"].key.id, "needed": "ADMIN"}


def test_an_admin_may_do_everything(asking: Keyed) -> None:
    """No method refuses it for its key."""
    with asking.stubs("admin") as stubs:
        found = {method: refusal_of(stubs, method) for method in METHODS.keys() - {"Reindex", "CreateBackup"}}

    assert {UNAUTHENTICATED, DENIED} & {refusal.code for refusal in found.values() if refusal} == set()


def test_probes_and_reflection_need_no_key(asking: Keyed) -> None:
    """They tell nothing of anybody; reflection can be switched off."""
    with asking.server.stubs() as stubs:
        health = stubs.health.Check(health_pb2.HealthCheckRequest(service="readiness"), timeout=TIMEOUT)
    with asking.server.channel() as channel:
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        [described] = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="*")]), timeout=TIMEOUT)

    assert "memsvc.v1.MemoryService" in {one.name for one in described.list_services_response.service}
    assert health.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture(scope="module")
def neighbours(asking: Keyed) -> Iterator[tuple[Owner, Stubs]]:
    """An owner in one tenant who has moved in, and the stubs of somebody in another one."""
    with ExitStack() as stack:
        owner = Owner(stack.enter_context(asking.stubs("writer")), f"acme{uuid.uuid4().hex}")
        owner.move_in()
        yield owner, stack.enter_context(asking.stubs("other tenant"))


@pytest.mark.parametrize("method", sorted(CASES.keys() - ADMINS))
def test_another_tenant_learns_and_changes_nothing(neighbours: tuple[Owner, Stubs], method: str) -> None:
    """Though it names the same user, project and session: they are others there."""
    owner, stubs = neighbours
    hidden = ("world", "project", "private", "gone", "waiting")
    # The owner that the cases compare with stands elsewhere, so that they expect nothing to be there.
    stranger = Stranger(replace(owner, user=f"{owner.user}-elsewhere", stubs=stubs), owner.home, hidden)
    secrets = [f"secret{name}".encode() for name in hidden]
    ids = [memory_id.encode() for memory_id in stranger.ids]
    for requests, code in CASES[method](stranger):
        # A page token of the very same request is taken, and leads on in the own list.
        codes = {code, OK, NOT_FOUND} if code is INVALID and "page_token" in str(requests[0]) else {code}
        try:
            responses = METHODS[method].responses(stubs, *requests, timeout=TIMEOUT)
        except grpc.RpcError as error:
            assert error.code() in codes, (requests, Refusal.from_error(error))
            continue
        assert OK in codes, requests
        told = b"".join(response.SerializeToString() for response in responses)
        assert not any(secret in told for secret in secrets), requests
        assert method == "BatchGetMemories" or not any(one in told for one in ids), requests

    before, owner.known = owner.known, owner.seen()
    assert before == owner.known


def test_a_tenant_exports_and_lists_its_own_alone(neighbours: tuple[Owner, Stubs]) -> None:
    """The whole user is told to its tenant only; a checkpoint of the same name is another one."""
    owner, stubs = neighbours
    whole = types_pb.Scope(user_id=owner.user)

    def exported(stubs: Stubs) -> bytes:
        parts = stubs.lifecycle.ExportUser(lifecycle_pb.ExportUserRequest(scope=whole), timeout=TIMEOUT)
        return b"".join(part.data for part in parts)

    assert b"secretproject" in exported(owner.stubs)
    assert b"secretproject" not in exported(stubs)
    assert "secret" not in str(list_all(stubs, owner.home, filter=EVERY))
    listed = lifecycle_pb.ListCheckpointsRequest(scope=owner.home)
    assert "secretbeginning" not in str(stubs.lifecycle.ListCheckpoints(listed, timeout=TIMEOUT))
