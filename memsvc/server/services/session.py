"""SessionService: each method checks and converts, calls the engine, and converts back."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain import limits
from memsvc.domain.scope import Scope
from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import WaitFor
from memsvc.engine.services import SessionService
from memsvc.server import call_context
from memsvc.server.convert import sessions as convert
from memsvc.server.convert import tokens
from memsvc.server.convert.enums import ON_OPEN, WAIT_FOR
from memsvc.server.convert.scope import scope_from
from memsvc.server.server_context import ServerContext
from memsvc.server.validate import sessions as validate
from memsvc.v1 import session_service_pb2 as pb
from memsvc.v1 import session_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

UNBOUND = ("page_size", "page_token")
"""The fields that may differ between the pages of one list."""


class SessionServicer(pb_grpc.SessionServiceServicer):
    """Keeps conversations."""

    def __init__(self, edge: ServerContext) -> None:
        self._edge = edge
        self._sessions = edge.application.sessions
        self._write = edge.executors.write
        self._meta = edge.executors.meta

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        """Open a session."""
        validate.check_create(request)
        scope = scope_from(request.scope, call_context.principal.get())
        new = convert.new_session_from_proto(request)
        opened = await self._write.run(self._sessions.opening.create, scope, new, request.request_id)
        return pb.CreateSessionResponse(session=convert.session_to_proto(opened.value))

    async def AppendMessages(self, request: pb.AppendMessagesRequest, context: Context) -> pb.AppendMessagesResponse:
        """Append messages. Converting them is work for a thread, too."""
        scope = scope_from(request.scope, call_context.principal.get())
        response, position = await self._write.run(_append, self._sessions, scope, request)
        await self._indexed(position, request.wait_for)
        return response

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        """Return one session."""
        validate.check_get(request)
        scope = scope_from(request.scope, call_context.principal.get())
        counted = await self._meta.run(self._sessions.reading.get, scope)
        return pb.GetSessionResponse(session=convert.session_to_proto(counted))

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        """Return a page of the project's sessions."""
        validate.check_list(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._meta.run(_list_sessions, self._sessions, scope, request)

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        """Return a page of a session's messages."""
        validate.check_list_messages(request)
        scope = scope_from(request.scope, call_context.principal.get())
        return await self._meta.run(_list_messages, self._sessions, scope, request)

    async def TrimSession(self, request: pb.TrimSessionRequest, context: Context) -> pb.TrimSessionResponse:
        """Archive the oldest messages and store their summary."""
        validate.check_trim(request)
        scope = scope_from(request.scope, call_context.principal.get())
        order = convert.trim_order_from_proto(request)
        executors = self._edge.executors
        executor = executors.language if self._sessions.trimming.asks_a_model else executors.write
        trimmed = await executor.run(self._sessions.trimming.trim, scope, order, request.request_id)
        await self._indexed(trimmed.position, request.wait_for)
        return convert.trimmed_to_proto(trimmed)

    async def CloseSession(self, request: pb.CloseSessionRequest, context: Context) -> pb.CloseSessionResponse:
        """End a session."""
        validate.check_close(request)
        scope = scope_from(request.scope, call_context.principal.get())
        closed = await self._write.run(self._sessions.opening.close, scope, request.request_id)
        return pb.CloseSessionResponse(session=convert.session_to_proto(closed.value))

    async def ReopenSession(self, request: pb.ReopenSessionRequest, context: Context) -> pb.ReopenSessionResponse:
        """Go on with a session."""
        validate.check_reopen(request)
        scope = scope_from(request.scope, call_context.principal.get())
        on_open = ON_OPEN.optional(request.on_open)
        reopened = await self._write.run(self._sessions.opening.reopen, scope, on_open, request.request_id)
        return pb.ReopenSessionResponse(session=convert.session_to_proto(reopened.value))

    async def _indexed(self, position: int, wait_for: int) -> None:
        if WAIT_FOR.given(wait_for, WaitFor.STORED) is WaitFor.INDEXED:
            await self._edge.waits.stored(position)


def _append(
    sessions: SessionService, scope: Scope, request: pb.AppendMessagesRequest
) -> tuple[pb.AppendMessagesResponse, int]:
    validate.check_append(request)
    messages = convert.new_messages_from_proto(request.messages)
    answer = sessions.appending.append(scope, messages, request.request_id)
    return convert.appended_to_proto(answer), answer.position


def _list_sessions(sessions: SessionService, scope: Scope, request: pb.ListSessionsRequest) -> pb.ListSessionsResponse:
    digest = tokens.digest(request, without=UNBOUND)
    after = tokens.list_cursor(request.page_token, digest)
    found, following = sessions.reading.page(
        scope,
        states=convert.states_from_proto(request.states),
        before=None if after is None else after.row,
        limit=request.page_size or limits.PAGE_SIZE_DEFAULT,
    )
    return pb.ListSessionsResponse(
        sessions=[convert.session_to_proto(counted) for counted in found], next_page_token=_token(following, digest)
    )


def _list_messages(sessions: SessionService, scope: Scope, request: pb.ListMessagesRequest) -> pb.ListMessagesResponse:
    digest = tokens.digest(request, without=UNBOUND)
    after = tokens.list_cursor(request.page_token, digest)
    page = convert.message_page_from_proto(request, after, request.page_size or limits.PAGE_SIZE_DEFAULT)
    found, following = sessions.reading.messages(scope, page)
    return pb.ListMessagesResponse(
        messages=[convert.message_to_proto(message) for message in found], next_page_token=_token(following, digest)
    )


def _token(following: int | None, digest: bytes) -> str:
    return "" if following is None else tokens.list_token(PageCursor(None, following), digest)
