"""Whose memories: the one place where a request's scope and its principal become the domain's scope."""

from __future__ import annotations

from memsvc.domain.scope import Scope
from memsvc.server import call_context
from memsvc.server.call_context import Principal
from memsvc.v1 import types_pb2 as types


def scope_from(scope: types.Scope, principal: Principal) -> Scope:
    """Return the scope that the request names, within the tenant of whoever is calling.

    Raises:
        PermissionDeniedError: The caller's key is not good for the user or the project.
    """
    touched = call_context.touched.get()
    if touched is not None:
        touched.users[scope.user_id] = None
        touched.projects[scope.project_id] = None
    principal.check_user(scope.user_id)
    principal.check_project(scope.project_id)
    return Scope(
        user_id=scope.user_id,
        project_id=scope.project_id,
        agent_id=scope.agent_id,
        session_id=scope.session_id,
        tenant_id=principal.tenant_id,
    )


def own_project(scope: types.Scope) -> str | None:
    """Return the project that a memory names beside its request's; None: it names none.

    Raises:
        PermissionDeniedError: The caller's key is not good for it.
    """
    if not scope.project_id:
        return None
    call_context.principal.get().check_project(scope.project_id)
    return scope.project_id
