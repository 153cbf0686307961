"""Whose memories: the one place where a request's scope and its principal become the domain's scope."""

from __future__ import annotations

from memsvc.domain.scope import Scope
from memsvc.server.calls import Principal
from memsvc.v1 import types_pb2 as types


def scope_from(scope: types.Scope, principal: Principal) -> Scope:
    """Return the scope that the request names, within the tenant of whoever is calling."""
    return Scope(
        user_id=scope.user_id,
        project_id=scope.project_id,
        agent_id=scope.agent_id,
        session_id=scope.session_id,
        tenant_id=principal.tenant_id,
    )
