"""When the work at hand was begun, so that it cannot bring back what was erased meanwhile."""

from __future__ import annotations

from contextvars import ContextVar

CALL_START: ContextVar[int] = ContextVar("began", default=0)
"""In microseconds since the epoch; 0: just now. Whoever works on behalf of a call has the call's."""
