"""The outermost layer: every call has an id, which the client may choose and always gets back."""

from __future__ import annotations

import re
import uuid
from typing import Any

import structlog

from memsvc.server import call_context
from memsvc.server.interceptors.chain import Call, Context, Following

HEADER = "x-request-id"
_ACCEPTED = re.compile(r"[\x21-\x7e]{1,128}")


class RequestId:
    """Takes the id from the client's metadata, or makes one, and binds it for logs and errors."""

    async def around(self, call: Call, following: Following) -> Any:
        """Bind the id while the call runs. Each call has context variables of its own, so nothing is reset."""
        call.request_id = _given(call.context) or uuid.uuid4().hex
        call_context.request_id.set(call.request_id)
        structlog.contextvars.bind_contextvars(request_id=call.request_id, method=call.method)
        call.context.set_trailing_metadata(((HEADER, call.request_id),))
        return await following(call)


def _given(context: Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == HEADER:
            return value if isinstance(value, str) and _ACCEPTED.fullmatch(value) else None
    return None
