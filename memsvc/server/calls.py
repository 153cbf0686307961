"""What is known of the call being served, carried along by context variables."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from memsvc.domain.clock import Deadline


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. Without authentication everybody is of the one tenant without a name."""

    tenant_id: str = ""


NOBODY = Principal()
NO_HURRY = Deadline()

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id under which the call's log lines are found."""

deadline: ContextVar[Deadline] = ContextVar("deadline", default=NO_HURRY)
"""When the caller stops waiting."""

principal: ContextVar[Principal] = ContextVar("principal", default=NOBODY)
"""Who calls; set by whatever authenticates."""
