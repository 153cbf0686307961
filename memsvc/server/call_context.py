"""The call under way: what its interceptors see, and the context variables of all that works on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Never, Protocol, TypeAlias

import grpc
from google.protobuf.message import Message

from memsvc.domain.api_keys import ApiKeyRole
from memsvc.domain.clock import Deadline


class Context(Protocol):
    """Transport of a call, as far as the call uses it; gRPC's own contexts are of this form."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return the headers of the call, their names in lower case."""
        ...

    def time_remaining(self) -> float | None:
        """Return the seconds until the client's deadline, None without one."""
        ...

    def peer(self) -> str:
        """Return the address of the caller as gRPC writes it, such as "ipv4:127.0.0.1:40000"."""
        ...

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the properties of the client's certificate."""
        ...

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        """Set what is sent at the end of the call."""
        ...

    async def write(self, message: Any) -> None:
        """Send a message of a stream of responses; return when the client may be sent the next one."""
        ...

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        """End the call with an error, by raising `grpc.aio.AbortError`."""
        ...


class MessageFormat(Protocol):
    """The form of the messages of one method in a call that is not gRPC's."""

    def decode(self, data: bytes) -> Message:
        """Return a request. DecodeError or MemsvcError: the bytes are none."""
        ...

    def weight(self, data: bytes) -> int:
        """Return the size of a request in the form of gRPC that takes as long to decode."""
        ...

    def encode(self, message: Message) -> bytes:
        """Return the bytes of a response."""
        ...


Read: TypeAlias = Callable[[], Awaitable[object]]
"""Receives the bytes of a request; their place is taken by another object if the client sends none."""


@dataclass(slots=True)
class Call:
    """One call under way, as its interceptors see it.

    Attributes:
        method: The name of the method, without package and service.
        request: The bytes of the message until the handler has decoded them, then the message; or the iterator of
            messages. Empty while it is not received.
        service: The full name of the service, such as "memsvc.v1.SearchService".
        streams: True when the client, the server or both send more than one message.
        code: The status code that the call ends with.
        request_id: The id in the log lines of the call.
        response: The response of a method with a single one, when there is one.
        authorize: The check of the caller's role that needs the decoded request; None if there is none.
        form: The form of the messages; None: that of gRPC.
        is_refused: Whether the call came when the server was stopping.
        is_stopped: Whether the call is cancelled because it did not end within the grace of the stop.
        is_heavy: Whether the request has more than 64 KiB, or takes as long to decode.
        read: Receives the request once the caller is known; None: it is here already.
    """

    method: str
    request: Any
    context: Context
    streams: bool = False
    code: grpc.StatusCode = field(default=grpc.StatusCode.OK)
    request_id: str = ""
    service: str = ""
    response: Any = None
    authorize: Callable[[Any], None] | None = None
    form: MessageFormat | None = None
    is_refused: bool = False
    is_stopped: bool = False
    is_heavy: bool = False
    read: Read | None = None

    @property
    def size(self) -> int:
        """Return the number of bytes of a single request that is not decoded; 0 for others."""
        return len(self.request) if isinstance(self.request, bytes) else 0


CallNext: TypeAlias = Callable[[Call], Awaitable[Any]]
"""The rest of a call; it returns the encoded response of a method with a single one, and None for the others."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. Without authentication every caller is an administrator of the tenant without a name.

    Attributes:
        key_id: The API key of the call; empty without authentication.
        user_ids: The only users that the caller may name; empty: all.
        project_ids: The only projects that the caller may name; empty: all, and the global scope.
    """

    tenant_id: str = ""
    key_id: str = ""
    role: ApiKeyRole = ApiKeyRole.ADMIN
    user_ids: frozenset[str] = frozenset()
    project_ids: frozenset[str] = frozenset()


@dataclass(slots=True)
class AuditScope:
    """Users and projects that a call has named so far, for the audit log."""

    users: dict[str, None] = field(default_factory=dict)
    projects: dict[str, None] = field(default_factory=dict)


ANONYMOUS = Principal()
NO_DEADLINE = Deadline()

current: ContextVar[Call | None] = ContextVar("current", default=None)
"""The call; None outside of one."""

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id in the log lines of the call."""

deadline: ContextVar[Deadline] = ContextVar("deadline", default=NO_DEADLINE)
"""The moment at which the caller stops waiting."""

principal: ContextVar[Principal] = ContextVar("principal", default=ANONYMOUS)
"""The caller; set by authentication."""

notices: ContextVar[list[str] | None] = ContextVar("notices", default=None)
"""Notices for the caller in the trailing metadata; None outside of a call."""

audit_scope: ContextVar[AuditScope | None] = ContextVar("audit_scope", default=None)
"""Filled when scopes are authorised; None without an audit log."""


def note(notice: str) -> None:
    """Add a notice to the trailing metadata of the call, once."""
    known = notices.get()
    if known is not None and notice not in known:
        known.append(notice)
