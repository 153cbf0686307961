"""The audit log: who changed what, when and with what outcome. Ids only; nothing that was said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message

from memsvc.server import call_context
from memsvc.server.interceptors.authentication import is_noted
from memsvc.server.interceptors.chain import Call, Following

MOST_IDS = 100
"""How many ids a line names."""
REFUSED = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_NAMES = ("id", "ids", "memory_id", "conflict_id", "session_id", "file_id", "api_key_id")
_PARTS = ("memory", "memories", "results", "session", "header", "api_key", "file", "scope")


class Sink(Protocol):
    """Where the lines go. It must not block."""

    def note(self, **line: object) -> None:
        """Take a line."""
        ...


class Audit:
    """A layer that lies outside of the one that settles the code."""

    def __init__(self, sink: Sink) -> None:
        """Tell *sink*."""
        self._sink = sink

    async def around(self, call: Call, following: Following) -> Any:
        """Note the call when it could change something, or was refused for its key."""
        named = call_context.AuditScope()
        call_context.audit_scope.set(named)
        response: Any = None
        try:
            response = await following(call)
            return response
        finally:
            if is_noted(call.method) or call.code in REFUSED:
                self._note(call, named, response)

    def _note(self, call: Call, named: call_context.AuditScope, response: Any) -> None:
        who = call_context.principal.get()
        ids = list(dict.fromkeys((*ids_of(call.request), *ids_of(response))))
        self._sink.note(
            method=call.method,
            code=call.code.name,
            key_id=who.key_id,
            role=who.role.value if who.key_id else "",
            tenant_id=who.tenant_id,
            certificate=_certificate(call.context),
            peer=call.context.peer(),
            user_ids=list(named.users)[:MOST_IDS],
            project_ids=list(named.projects)[:MOST_IDS],
            ids=ids[:MOST_IDS],
            id_count=len(ids),
            request_id=call.request_id,
        )


def ids_of(message: Any) -> Iterator[str]:
    """Yield the ids that a request or response names: its own, and those of what it holds."""
    if not isinstance(message, Message):
        return
    for descriptor, value in message.ListFields():
        if descriptor.name in _NAMES:
            yield from [value] if isinstance(value, str) else value
        elif descriptor.name in _PARTS:
            for part in value if descriptor.is_repeated else [value]:
                yield from ids_of(part)


def _certificate(context: Any) -> str:
    found = context.auth_context()
    names = found.get("x509_common_name") or found.get("x509_subject_alternative_name")
    return names[0].decode(errors="replace") if names else ""
