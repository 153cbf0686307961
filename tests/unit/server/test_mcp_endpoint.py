"""Callers of MCP over HTTP: renewed tokens, and a store of keys that is away."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.requests import Request

from memsvc.domain.api_keys import ApiKey, ApiKeyRole, KeyDemand
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator, ApiKeyService, NewApiKey
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.server.executors import NamedExecutor
from memsvc.server.http.mcp_endpoint import McpEndpoint, VerifiedToken, _Links
from memsvc.server.interceptors.authentication import Authentication
from memsvc.server.interceptors.chain import Method
from memsvc.server.interceptors.key_limits import KeyLimiter, LocalRateCounter
from memsvc.server.interceptors.rules import REFUSED_LINES
from memsvc.server.options import HttpOptions, OAuthOptions
from memsvc.server.server import utc_now
from memsvc.server.slots import SlotOptions
from tests.support.sqlite_store import sqlite_store

NOW = datetime.now(UTC)


class Anything(dict[str, Method]):
    """Methods of every path, which note the callers of their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_seen: list[ApiKey | None] = []

    def __missing__(self, path: str) -> Method:
        async def handle(request: Any, context: Any, form: Any = None, *, read: Any = None) -> bytes:
            self.keys_seen.append(context.verified_key)
            return b""

        return Method("service", path, handle)


def request_of(expires: datetime) -> Request:
    """Return a request with a token that expires at a time."""
    key = ApiKey(
        id="oauth:ada", name="ada", role=ApiKeyRole.READ_WRITE, digest=b"", create_time=NOW, user_ids=("ada",),
        expire_time=expires,
    )  # fmt: skip
    token = VerifiedToken(token=key.id, client_id=key.id, scopes=[], subject=key.id, key=key, is_api_key=False)
    scope = {"type": "http", "headers": [], "query_string": b"", "client": ("127.0.0.1", 1), "server": ("h", 1)}
    return Request(scope | {"user": AuthenticatedUser(token), "path": "/mcp", "method": "POST"})


def test_calls_have_the_rights_of_the_newest_token() -> None:
    """The handles of contexts stay, and watches end when that token expires, not the first one."""
    methods = Anything()
    links = _Links(methods)

    async def run() -> None:
        first, second = NOW + timedelta(minutes=1), NOW + timedelta(hours=1)
        opened = await links.find(request_of(first))
        await opened.link.here.get("m")
        assert opened is await links.find(request_of(second))
        await opened.link.here.get("m")
        assert [first, second] == [key and key.expire_time for key in methods.keys_seen]

    asyncio.run(run())


@pytest.mark.parametrize("is_away", [False, True])
def test_a_store_that_is_away_refuses_no_key(tmp_path: Path, *, is_away: bool) -> None:
    """With 503, not with 401: the key may be good. One that was revoked is refused with 401."""
    executor = NamedExecutor("meta", threads=1, queue_factor=4)
    with sqlite_store(tmp_path, utc_now) as store:
        committer = GroupCommitter(store)
        keys = ApiKeyService(store.api_keys, committer, now=utc_now, random=os.urandom)
        made = keys.create(NewApiKey())
        keys.revoke(made.key.id)
        keyring = ApiKeyAuthenticator(
            store.api_keys, demand=KeyDemand.REQUIRED, refresh=timedelta(seconds=2), now=utc_now
        )
        limits = KeyLimiter(LocalRateCounter(time.monotonic))
        authentication = Authentication(keyring, limits, executor, recheck_seconds=1.0)
        endpoint = McpEndpoint({}, HttpOptions(), authentication, SlotOptions(), is_open=lambda: False)
        committer.close()

        async def run() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://localhost") as web:
                return await web.post("/mcp", json={}, headers={"authorization": f"Bearer {made.text}"})

        if not is_away:
            assert 401 == asyncio.run(run()).status_code
    if is_away:
        answer = asyncio.run(run())
        assert (503, "unavailable", "1") == (answer.status_code, answer.json()["code"], answer.headers["retry-after"])
    executor.close()


def test_many_forged_tokens_share_a_line(tmp_path: Path) -> None:
    """The log of them grows with the time, not with their number."""
    executor = NamedExecutor("meta", threads=1, queue_factor=4)
    with sqlite_store(tmp_path, utc_now) as store:
        keyring = ApiKeyAuthenticator(
            store.api_keys, demand=KeyDemand.REQUIRED, refresh=timedelta(seconds=2), now=utc_now
        )
        limits = KeyLimiter(LocalRateCounter(time.monotonic))
        authentication = Authentication(keyring, limits, executor, recheck_seconds=1.0)
        options = HttpOptions(oauth=OAuthOptions(issuer="http://127.0.0.1:9", resource="http://127.0.0.1/mcp"))
        endpoint = McpEndpoint({}, options, authentication, SlotOptions(), is_open=lambda: False)

        async def run() -> list[int]:
            async with (
                endpoint.running(),
                httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://localhost") as web,
            ):
                forged = [f"Bearer forged{number}" for number in range(30)]
                return [(await web.post("/mcp", json={}, headers={"authorization": one})).status_code for one in forged]

        with structlog.testing.capture_logs() as lines:
            assert [401] * 30 == asyncio.run(run())
    executor.close()
    written = [line for line in lines if line["event"] in {"token refused", "tokens refused"}]
    assert REFUSED_LINES + 1 == len(written)
    assert (30 - REFUSED_LINES, {"DecodeError": 30 - REFUSED_LINES}) == (written[-1]["count"], written[-1]["reasons"])
