"""Rules for scopes and for what every request may carry."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.server.validate.values import check_name, check_text
from memsvc.server.validate.violations import Violations
from memsvc.v1 import types_pb2 as types


def check_scope(found: Violations, scope: types.Scope, *, field: str = "scope") -> None:
    """Check the scope of a request; a request without one lacks its user."""
    check_name(found, f"{field}.user_id", scope.user_id, most=limits.USER_ID, least=1)
    check_inner_scope(found, scope, field=field)


def check_inner_scope(found: Violations, scope: types.Scope, *, field: str) -> None:
    """Check the parts of a scope that may be left out."""
    check_name(found, f"{field}.project_id", scope.project_id, most=limits.SCOPE_ID)
    check_name(found, f"{field}.agent_id", scope.agent_id, most=limits.SCOPE_ID)
    check_name(found, f"{field}.session_id", scope.session_id, most=limits.SCOPE_ID)


def check_request_id(found: Violations, request_id: str, *, field: str = "request_id") -> None:
    """Check the id that makes a repetition safe."""
    check_text(found, field, request_id, most=limits.REQUEST_ID)
