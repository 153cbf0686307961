"""Management of keys without authentication, and the look-ups of keys of open streams."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from memsvc.domain.api_keys import ApiKey, ApiKeyRole, KeyDemand
from memsvc.domain.errors import ApiKeyInvalidError, PermissionDeniedError
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator, ApiKeyService, NewApiKey
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.features import KeyReads
from memsvc.server.call_context import Call
from memsvc.server.executors import NamedExecutor
from memsvc.server.interceptors.authentication import Authentication
from memsvc.server.interceptors.key_limits import KeyLimiter, LocalRateCounter
from memsvc.server.server import utc_now
from memsvc.testing.store_harness import Clock
from tests.support.sqlite_store import sqlite_store


class Caller:
    """What is asked of a call's context: where it comes from, and what it brings."""

    def __init__(self, peer: str, key: str = "") -> None:
        self._peer = peer
        self._key = key

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._key}"),) if self._key else ()


@pytest.fixture
def authentication(tmp_path: Path) -> Iterator[Authentication]:
    """Authentication for a service that has no keys."""
    clock = Clock()
    executor = NamedExecutor("meta", threads=1, queue_factor=4)
    with sqlite_store(tmp_path, clock) as store:
        keyring = ApiKeyAuthenticator(store.api_keys, demand=KeyDemand.AUTO, refresh=timedelta(seconds=2), now=clock)
        limits = KeyLimiter(LocalRateCounter(time.monotonic))
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


@pytest.mark.parametrize("method", ["CreateApiKey", "ListApiKeys", "RevokeApiKey", "SetQuota"])
def test_the_first_key_is_made_on_the_machine_of_the_service(authentication: Authentication, method: str) -> None:
    """Behind --insecure everybody may read and write, but nobody may shut the others out."""
    assert admitted(authentication, method, "ipv4:127.0.0.1:40000")
    assert admitted(authentication, method, "unix:")
    assert not admitted(authentication, method, "ipv4:10.0.0.7:40000")
    assert admitted(authentication, "CreateMemory", "ipv4:10.0.0.7:40000")


STREAMS = 200


class CountingReads:
    """Reads of keys, counted."""

    def __init__(self, reads: KeyReads) -> None:
        self._reads = reads
        self.count = 0
        self.is_failing = False

    def get(self, key_id: str) -> ApiKey | None:
        self.count += 1
        if self.is_failing:
            self.is_failing = False
            raise RuntimeError
        return self._reads.get(key_id)

    def page(self, *, after: str, limit: int, alive_at: datetime | None) -> Sequence[ApiKey]:
        return self._reads.page(after=after, limit=limit, alive_at=alive_at)

    def has_any(self) -> bool:
        return self._reads.has_any()


@pytest.mark.parametrize("is_failing", [False, True])
def test_streams_of_a_key_share_its_look_ups(tmp_path: Path, *, is_failing: bool) -> None:
    """One look-up at a time for all of them, however many there are; when the key is revoked, all of them end.

    An unexpected error of a look-up before that changes nothing.
    """
    executor = NamedExecutor("meta", threads=1, queue_factor=4)

    async def run(authentication: Authentication, text: str, keys: ApiKeyService, key_id: str) -> list[object]:
        opened = asyncio.Queue[None]()

        async def body(_: Call) -> None:
            opened.put_nowait(None)
            await asyncio.Event().wait()

        async def stream() -> None:
            call = Call("WatchMemories", b"", Caller("ipv4:192.0.2.7:1", text), streams=True)  # type: ignore[arg-type]
            await authentication.admit(call)
            await authentication.watched(call, body)(call)

        streams = [asyncio.create_task(stream()) for _ in range(STREAMS)]
        for _ in range(STREAMS):
            await opened.get()
        reads.is_failing = is_failing
        while reads.is_failing:  # noqa: ASYNC110 - the look-up is in a thread
            await asyncio.sleep(0)
        await asyncio.to_thread(keys.revoke, key_id)
        return list(await asyncio.gather(*streams, return_exceptions=True))

    with sqlite_store(tmp_path, utc_now) as store:
        committer = GroupCommitter(store)
        keys = ApiKeyService(store.api_keys, committer, now=utc_now, random=os.urandom)
        made = keys.create(NewApiKey(role=ApiKeyRole.READ_ONLY))
        reads = CountingReads(store.api_keys)
        # Each look-up is stale when the next one is due, as by default.
        fresh = timedelta(seconds=0.02)
        keyring = ApiKeyAuthenticator(reads, demand=KeyDemand.REQUIRED, refresh=fresh, now=utc_now)
        limits = KeyLimiter(LocalRateCounter(time.monotonic))
        authentication = Authentication(keyring, limits, executor, recheck_seconds=0.02)
        ended = asyncio.run(run(authentication, made.text, keys, made.key.id))
        committer.close()
    executor.close()

    assert {type(one) for one in ended} == {ApiKeyInvalidError}
    assert reads.count < STREAMS // 2
