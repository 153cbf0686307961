"""API keys: made, listed, revoked. The service allows it with a key of role ADMIN, or from its own machine."""
# ruff: noqa: ASYNC109 - the timeouts go to the service, too

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias
from uuid import uuid4

from google.protobuf.duration_pb2 import Duration

from memsvc.client import to_proto
from memsvc.client.connection import Connected
from memsvc.v1 import keys_pb2

KeyRole: TypeAlias = Literal["READ_ONLY", "READ_WRITE", "ADMIN"]


class Keys(Connected):
    """The calls about API keys."""

    async def create_api_key(  # noqa: PLR0913 - an option each
        self,
        name: str = "",
        *,
        role: KeyRole = "READ_WRITE",
        tenant_id: str = "",
        user_ids: Sequence[str] = (),
        project_ids: Sequence[str] = (),
        expire_time: datetime | None = None,
        ttl: timedelta | None = None,
        calls_per_second: float = 0.0,
        concurrent_calls: int = 0,
        request_id: str = "",
        timeout: float | None = None,
    ) -> keys_pb2.CreateApiKeyResponse:
        """Make a key. Its secret is in the answer this once.

        Raises:
            ValueError: Both an expire_time and a ttl are given.
        """
        if expire_time is not None and ttl is not None:
            message = "Give expire_time or ttl, not both."
            raise ValueError(message)
        request = keys_pb2.CreateApiKeyRequest(
            name=name,
            role=keys_pb2.ApiKeyRole.Value(f"API_KEY_ROLE_{role}"),
            tenant_id=tenant_id,
            user_ids=user_ids,
            project_ids=project_ids,
            calls_per_second=calls_per_second,
            concurrent_calls=concurrent_calls,
            request_id=request_id or str(uuid4()),
        )
        if expire_time is not None:
            request.expire_time.CopyFrom(to_proto.timestamp_to_proto("expire_time", expire_time))
        if ttl is not None:
            duration = Duration()
            duration.FromTimedelta(ttl)
            request.ttl.CopyFrom(duration)
        return await self._remote.unary(self._remote.lifecycle.CreateApiKey, request, timeout)

    async def api_keys(
        self, *, include_ended: bool = False, page_size: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[keys_pb2.ApiKey, None]:
        """Yield the keys of all tenants, oldest first, those expired or revoked too when *include_ended*."""
        request = keys_pb2.ListApiKeysRequest(include_ended=include_ended, page_size=page_size)
        async for page in self._remote.pages(self._remote.lifecycle.ListApiKeys, request, timeout):
            for key in page.api_keys:
                yield key

    async def revoke_api_key(
        self, key_id: str, *, request_id: str = "", timeout: float | None = None
    ) -> keys_pb2.RevokeApiKeyResponse:
        """Make a key open nothing any more."""
        request = keys_pb2.RevokeApiKeyRequest(id=key_id, request_id=request_id or str(uuid4()))
        return await self._remote.unary(self._remote.lifecycle.RevokeApiKey, request, timeout)
