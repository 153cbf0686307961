"""API keys as the wire tells them."""

from __future__ import annotations

from datetime import datetime

from memsvc.domain.api_keys import ApiKey, KeyState, Role
from memsvc.engine.admin.api_keys import NewKey
from memsvc.server.convert.enums import EnumTable
from memsvc.server.convert.times import fill_time, span_from_proto, time_from_proto
from memsvc.v1 import keys_pb2 as pb

ROLE = EnumTable(Role, pb.ApiKeyRole, "API_KEY_ROLE")
STATE = EnumTable(KeyState, pb.ApiKeyState, "API_KEY_STATE")


def new_key_from_proto(request: pb.CreateApiKeyRequest) -> NewKey:
    """Return what a key is to be like."""
    return NewKey(
        name=request.name,
        role=ROLE.given(request.role, Role.READ_WRITE),
        tenant_id=request.tenant_id,
        user_ids=tuple(dict.fromkeys(request.user_ids)),
        project_ids=tuple(dict.fromkeys(request.project_ids)),
        expire_time=time_from_proto(request.expire_time) if request.HasField("expire_time") else None,
        ttl=span_from_proto(request.ttl) if request.HasField("ttl") else None,
        calls_per_second=request.calls_per_second,
        concurrent_calls=request.concurrent_calls,
    )


def key_to_proto(key: ApiKey, now: datetime) -> pb.ApiKey:
    """Return what is told of a key."""
    message = pb.ApiKey(
        id=key.id,
        name=key.name,
        role=ROLE.to_proto[key.role],
        tenant_id=key.tenant_id,
        user_ids=key.user_ids,
        project_ids=key.project_ids,
        calls_per_second=key.calls_per_second,
        concurrent_calls=key.concurrent_calls,
        state=STATE.to_proto[key.state(now)],
    )
    fill_time(message.create_time, key.create_time)
    if key.expire_time is not None:
        fill_time(message.expire_time, key.expire_time)
    if key.revoke_time is not None:
        fill_time(message.revoke_time, key.revoke_time)
    return message
