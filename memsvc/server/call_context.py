"""What is known of the call being served, carried along by context variables."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from memsvc.domain.api_keys import Role
from memsvc.domain.clock import Deadline
from memsvc.domain.errors import PermissionDeniedError


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. Without authentication everybody is of the one tenant without a name, and may do everything.

    Attributes:
        key_id: The key that came with the call; empty when nobody is asked for one.
        user_ids: The only users that may be named; empty: all.
        project_ids: The only projects that may be named; empty: all.
    """

    tenant_id: str = ""
    key_id: str = ""
    role: Role = Role.ADMIN
    user_ids: frozenset[str] = frozenset()
    project_ids: frozenset[str] = frozenset()

    def check_user(self, user_id: str) -> None:
        """Refuse a user whom the key is not good for.

        Raises:
            PermissionDeniedError: It is not.
        """
        if self.user_ids and user_id not in self.user_ids:
            raise self._denied("user_id", user_id)

    def check_project(self, project_id: str) -> None:
        """Refuse a project that the key is not good for; none at all, too, when it is good for some only.

        Raises:
            PermissionDeniedError: It is not.
        """
        if self.project_ids and project_id not in self.project_ids:
            raise self._denied("project_id", project_id)

    def _denied(self, field_name: str, value: str) -> PermissionDeniedError:
        message = f"The API key {self.key_id!r} is not good for the {field_name} {value!r} of the scope."
        return PermissionDeniedError(message, key_id=self.key_id, needed=field_name)


@dataclass(slots=True)
class AuditScope:
    """Whose memories a call has named so far, for the audit log."""

    users: dict[str, None] = field(default_factory=dict)
    projects: dict[str, None] = field(default_factory=dict)


NOBODY = Principal()
NO_HURRY = Deadline()

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id under which the call's log lines are found."""

deadline: ContextVar[Deadline] = ContextVar("deadline", default=NO_HURRY)
"""When the caller stops waiting."""

principal: ContextVar[Principal] = ContextVar("principal", default=NOBODY)
"""Who calls; set by whatever authenticates."""

touched: ContextVar[AuditScope | None] = ContextVar("touched", default=None)
"""Filled where scopes are made, when somebody wants to know."""
