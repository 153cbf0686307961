"""Audit log: the caller, the ids and the outcome of every call that can change something. Ids only, never content."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message

from memsvc.server import call_context
from memsvc.server.call_context import Call, CallNext
from memsvc.server.interceptors.authentication import is_audited
from memsvc.server.interceptors.rules import RefusalSummary

MOST_IDS = 100
"""The number of ids in one line."""
REFUSED = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_NAMES = ("id", "ids", "memory_id", "conflict_id", "session_id", "file_id", "api_key_id")
_PARTS = ("memory", "memories", "results", "session", "header", "api_key", "file", "scope", "reports")


class Sink(Protocol):
    """Destination of the lines. It must not block."""

    def note(self, **line: object) -> None:
        """Write a line."""
        ...


class Audit:
    """Audit log of calls. It must be outside of the rules, which set the code of a call."""

    def __init__(self, sink: Sink) -> None:
        """Write to *sink*."""
        self._sink = sink
        code = grpc.StatusCode.UNAUTHENTICATED.name
        self._refused = RefusalSummary(partial(sink.note, method="", code=code, key_id="", ids=[], id_count=0))

    def flush(self) -> None:
        """Write the line of the calls that were refused since the last one."""
        self._refused.flush()

    async def intercept(self, call: Call, call_next: CallNext) -> Any:
        """Write a line for a call that could change something, or was refused for its key.

        Many calls without a valid key share a line, which counts them.
        """
        named = call_context.AuditScope()
        call_context.audit_scope.set(named)
        try:
            return await call_next(call)
        finally:
            is_wanted = is_audited(call.method) or call.code in REFUSED
            if is_wanted and (call_context.principal.get().key_id or self._has_own_line(call)):
                self._write(call, named)

    def _has_own_line(self, call: Call) -> bool:
        return call.code not in REFUSED or self._refused.has_own_line(call.code, call.context.peer())

    def _write(self, call: Call, named: call_context.AuditScope) -> None:
        caller = call_context.principal.get()
        ids = list(dict.fromkeys((*ids_of(call.request), *ids_of(call.response))))
        self._sink.note(
            method=call.method,
            code=call.code.name,
            key_id=caller.key_id,
            role=caller.role.value if caller.key_id else "",
            tenant_id=caller.tenant_id,
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
