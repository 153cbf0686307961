"""The outermost layer: every call has an id, which the client may choose and always gets back."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from memsvc.server import calls
from memsvc.server.interceptors.around import Call, Context

HEADER = "x-request-id"
_ACCEPTED = re.compile(r"[\x21-\x7e]{1,128}")


class RequestId:
    """Takes the id from the client's metadata, or makes one, and binds it for logs and errors."""

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[None]:
        """Bind the id while the call runs. Each call has context variables of its own, so nothing is reset."""
        call.request_id = _given(call.context) or uuid.uuid4().hex
        calls.request_id.set(call.request_id)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=call.request_id, method=call.method)
        call.context.set_trailing_metadata(((HEADER, call.request_id),))
        yield


def _given(context: Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == HEADER:
            text = value if isinstance(value, str) else ""
            return text if _ACCEPTED.fullmatch(text) else None
    return None
