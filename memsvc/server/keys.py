"""CreateApiKey, ListApiKeys and RevokeApiKey: check, convert, call, convert back. Who may is decided before."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.server.convert import tokens
from memsvc.server.convert.keys import key_to_proto, new_key_from_proto
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import keys as validate
from memsvc.v1 import keys_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
UNBOUND = ("page_size", "page_token")


class KeyMethods:
    """What LifecycleService does about API keys."""

    _edge: ServerContext

    async def CreateApiKey(self, request: pb.CreateApiKeyRequest, context: Context) -> pb.CreateApiKeyResponse:
        """Make a key."""
        validate.check_create_key(request)
        made = await self._edge.executors.write.run(
            self._edge.application.access.keys.create, new_key_from_proto(request), request_id=request.request_id
        )
        return pb.CreateApiKeyResponse(api_key=key_to_proto(made.key, self._edge.now()), secret=made.text)

    async def ListApiKeys(self, request: pb.ListApiKeysRequest, context: Context) -> pb.ListApiKeysResponse:
        """Return a page of keys."""
        validate.check_list_keys(request)
        digest = tokens.digest(request, without=UNBOUND)
        size = request.page_size or limits.PAGE_SIZE_DEFAULT
        found = await self._edge.executors.meta.run(
            self._edge.application.access.keys.page,
            after=tokens.keys_after(request.page_token, digest),
            limit=size + 1,
            include_ended=request.include_ended,
        )
        now = self._edge.now()
        return pb.ListApiKeysResponse(
            api_keys=[key_to_proto(key, now) for key in found[:size]],
            next_page_token=tokens.keys_token(found[size - 1].id, digest) if len(found) > size else "",
        )

    async def RevokeApiKey(self, request: pb.RevokeApiKeyRequest, context: Context) -> pb.RevokeApiKeyResponse:
        """Revoke a key."""
        validate.check_revoke_key(request)
        key = await self._edge.executors.write.run(
            self._edge.application.access.keys.revoke, request.id, request_id=request.request_id
        )
        return pb.RevokeApiKeyResponse(api_key=key_to_proto(key, self._edge.now()))
