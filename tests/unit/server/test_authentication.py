"""Who manages keys where nobody is asked for one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.api_keys import KeyDemand
from memsvc.domain.errors import PermissionDeniedError
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator
from memsvc.server.call_context import Call
from memsvc.server.executors import NamedExecutor
from memsvc.server.interceptors.authentication import Authentication, KeyRateLimiter
from memsvc.testing.store_harness import Clock
from tests.support.sqlite_store import sqlite_store


class Caller:
    """What is asked of a call's context: where it comes from, and what it brings."""

    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[()]:
        return ()


@pytest.fixture
def authentication(tmp_path: Path) -> Iterator[Authentication]:
    """Authentication for a service that has no keys."""
    clock = Clock()
    executor = NamedExecutor("meta", threads=1, queue_factor=4)
    with sqlite_store(tmp_path, clock) as store:
        keyring = ApiKeyAuthenticator(store.api_keys, demand=KeyDemand.AUTO, refresh=timedelta(seconds=2), now=clock)
        limits = KeyRateLimiter(calls_per_second=0, concurrent_calls=0, clock=lambda: 0.0)
        yield Authentication(keyring, limits, executor, recheck_seconds=1.0)
    executor.close()


def admitted(authentication: Authentication, method: str, peer: str) -> bool:
    """Return whether a call may go on."""
    call = Call(method, None, Caller(peer))  # type: ignore[arg-type]  # as much of a context as is asked of it
    try:
        asyncio.run(authentication.admit(call))
    except PermissionDeniedError:
        return False
    return True


@pytest.mark.parametrize("method", ["CreateApiKey", "ListApiKeys", "RevokeApiKey"])
def test_the_first_key_is_made_on_the_machine_of_the_service(authentication: Authentication, method: str) -> None:
    """Behind --insecure everybody may read and write, but nobody may shut the others out."""
    assert admitted(authentication, method, "ipv4:127.0.0.1:40000")
    assert admitted(authentication, method, "unix:")
    assert not admitted(authentication, method, "ipv4:10.0.0.7:40000")
    assert admitted(authentication, "CreateMemory", "ipv4:10.0.0.7:40000")
