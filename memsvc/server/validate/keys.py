"""Rules for the requests about API keys."""

from __future__ import annotations

from collections.abc import Sequence

from memsvc.domain import limits
from memsvc.domain.api_keys import KEY_ID
from memsvc.server.convert.keys import ROLE
from memsvc.server.validate.scopes import check_request_id
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_integer,
    check_name,
    check_number,
    check_time,
    check_ttl,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import keys_pb2 as pb


def check_create_key(request: pb.CreateApiKeyRequest) -> None:
    """Check a request for a new key."""
    found = Violations()
    check_name(found, "name", request.name, most=limits.KEY_NAME)
    check_enum(found, "role", request.role, ROLE.from_proto)
    check_name(found, "tenant_id", request.tenant_id, most=limits.SCOPE_ID)
    is_admin = request.role == pb.API_KEY_ROLE_ADMIN
    _check_bounds(found, "user_ids", request.user_ids, is_admin=is_admin)
    _check_bounds(found, "project_ids", request.project_ids, is_admin=is_admin)
    if request.HasField("expire_time"):
        check_time(found, "expire_time", request.expire_time)
    if request.HasField("ttl"):
        check_ttl(found, "ttl", request.ttl)
    check_number(found, "calls_per_second", request.calls_per_second, most=limits.KEY_RATE)
    check_integer(found, "concurrent_calls", request.concurrent_calls, least=1, most=limits.KEY_RATE)
    check_request_id(found, request.request_id)
    found.finish()


def check_list_keys(request: pb.ListApiKeysRequest) -> None:
    """Check a request for a list, but for its token."""
    found = Violations()
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    found.finish()


def check_revoke_key(request: pb.RevokeApiKeyRequest) -> None:
    """Check a request to revoke a key."""
    found = Violations()
    if not KEY_ID.fullmatch(request.id):
        found.add("id", "must be the id of a key: 20 hexadecimal digits in lower case, as ListApiKeys tells them")
    check_request_id(found, request.request_id)
    found.finish()


def _check_bounds(found: Violations, field: str, values: Sequence[str], *, is_admin: bool) -> None:
    if is_admin and values:
        found.add(field, "must be empty for the role ADMIN, which is about everybody")
        return
    check_count(found, field, values, most=limits.KEY_BOUNDS)
    for index, value in enumerate(values[: limits.KEY_BOUNDS]):
        check_name(found, f"{field}[{index}]", value, most=limits.SCOPE_ID, least=1)
