"""Servicer of SessionService."""

# ruff: noqa: N802, ARG002 - names and arguments are gRPC's
from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import WaitFor
from memsvc.server import call_context, tokens
from memsvc.server.executors import Answer, NamedExecutor, runs_in
from memsvc.server.requests import session as requests
from memsvc.server.responses import session as responses
from memsvc.server.server_context import ServerContext
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import session_service_pb2_grpc as pb_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class SessionServicer(pb_grpc.SessionServiceServicer):
    """Stores conversations."""

    def __init__(self, server: ServerContext) -> None:
        self._sessions = server.application.sessions
        self._waits = server.waits
        self._write = server.executors.write
        self._meta = server.executors.meta
        self._language = server.executors.language

    async def CreateSession(
        self, request: session_pb.CreateSessionRequest, context: Context
    ) -> session_pb.CreateSessionResponse:
        """Open a session."""
        new = requests.create_session_request(request)
        lifecycle = self._sessions.lifecycle
        executor = self._executor(lifecycle.asks_a_model(flush=new.session.flush, on_open=new.session.on_open))

        def create() -> tuple[int, session_pb.CreateSessionResponse]:
            deadline = call_context.deadline.get()
            opened = lifecycle.create(new.scope, new.session, new.request_id, deadline=deadline)
            return opened.position, responses.create_session_response(opened)

        position, response = await executor.run(create)
        await self._indexed(position, new.wait_for)
        return response

    @runs_in("write")
    def AppendMessages(
        self, request: session_pb.AppendMessagesRequest, context: Context
    ) -> Answer[session_pb.AppendMessagesResponse]:
        """Append messages."""
        new = requests.append_messages_request(request)
        answer = self._sessions.appender.append(new.scope, new.messages, new.request_id)
        return self._waits.after_stored(responses.append_messages_response(answer), answer.position, new.wait_for)

    @runs_in("meta")
    def GetSession(self, request: session_pb.GetSessionRequest, context: Context) -> session_pb.GetSessionResponse:
        """Return one session."""
        counted = self._sessions.reader.get(requests.get_session_request(request))
        return session_pb.GetSessionResponse(session=responses.session_to_proto(counted))

    @runs_in("meta")
    def ListSessions(
        self, request: session_pb.ListSessionsRequest, context: Context
    ) -> session_pb.ListSessionsResponse:
        """Return a page of the project's sessions."""
        page = requests.list_sessions_request(request)

        found, following = self._sessions.reader.page(
            page.scope, states=page.states, before=page.before, limit=page.limit
        )
        return session_pb.ListSessionsResponse(
            sessions=[responses.session_to_proto(counted) for counted in found],
            next_page_token=_next_page_token(following, request),
        )

    @runs_in("meta")
    def ListMessages(
        self, request: session_pb.ListMessagesRequest, context: Context
    ) -> session_pb.ListMessagesResponse:
        """Return a page of a session's messages."""
        scope, page = requests.list_messages_request(request)

        found, following = self._sessions.reader.messages(scope, page)
        return session_pb.ListMessagesResponse(
            messages=[responses.message_to_proto(message) for message in found],
            next_page_token=_next_page_token(following, request),
        )

    @runs_in("write")
    def PopMessages(
        self, request: session_pb.PopMessagesRequest, context: Context
    ) -> Answer[session_pb.PopMessagesResponse]:
        """Remove the last messages."""
        pop = requests.pop_messages_request(request)
        popped = self._sessions.remover.pop(pop.scope, pop.count, pop.request_id)
        return self._waits.after_stored(responses.pop_messages_response(popped), popped.position, pop.wait_for)

    @runs_in("write")
    def ClearMessages(
        self, request: session_pb.ClearMessagesRequest, context: Context
    ) -> Answer[session_pb.ClearMessagesResponse]:
        """Remove all messages."""
        scope, wait_for = requests.clear_messages_request(request)
        removed, position = self._sessions.remover.clear(scope, call_context.deadline.get())
        response = session_pb.ClearMessagesResponse(
            removed_message_count=removed, consistency_token=tokens.consistency_token(position)
        )
        return self._waits.after_stored(response, position, wait_for)

    async def TrimSession(
        self, request: session_pb.TrimSessionRequest, context: Context
    ) -> session_pb.TrimSessionResponse:
        """Archive the oldest messages and store their summary."""
        session = requests.trim_session_request(request)
        trimming = self._sessions.trimmer
        executor = self._executor(trimming.asks_a_model)
        trimmed = await executor.run(trimming.trim, session.scope, session.trim, session.request_id)
        await self._indexed(trimmed.position, session.wait_for)
        return responses.trim_session_response(trimmed)

    async def CloseSession(
        self, request: session_pb.CloseSessionRequest, context: Context
    ) -> session_pb.CloseSessionResponse:
        """End a session."""
        session = requests.close_session_request(request)
        lifecycle = self._sessions.lifecycle

        def close() -> tuple[int, session_pb.CloseSessionResponse]:
            deadline = call_context.deadline.get()
            closed = lifecycle.close(session.scope, session.request_id, flush=session.flush, deadline=deadline)
            return closed.position, responses.close_session_response(closed)

        position, response = await self._executor(lifecycle.asks_a_model(flush=session.flush)).run(close)
        await self._indexed(position, session.wait_for)
        return response

    async def ReopenSession(
        self, request: session_pb.ReopenSessionRequest, context: Context
    ) -> session_pb.ReopenSessionResponse:
        """Reopen a session that was closed."""
        session = requests.reopen_session_request(request)
        lifecycle = self._sessions.lifecycle

        def reopen() -> tuple[int, session_pb.ReopenSessionResponse]:
            reopened = lifecycle.reopen(
                session.scope,
                session.on_open,
                session.request_id,
                flush=session.flush,
                deadline=call_context.deadline.get(),
            )
            return reopened.position, responses.reopen_session_response(reopened)

        asks_a_model = lifecycle.asks_a_model(flush=session.flush, on_open=session.on_open)
        position, response = await self._executor(asks_a_model).run(reopen)
        await self._indexed(position, session.wait_for)
        return response

    def _executor(self, asks_a_model: bool) -> NamedExecutor:  # noqa: FBT001
        """Return the threads of a call: those that wait for a language model must not hold up writes."""
        return self._language if asks_a_model else self._write

    async def _indexed(self, position: int, wait_for: WaitFor) -> None:
        if wait_for is WaitFor.INDEXED:
            await self._waits.stored(position)


def _next_page_token(
    following: int | None, request: session_pb.ListSessionsRequest | session_pb.ListMessagesRequest
) -> str:
    return "" if following is None else tokens.list_token(PageCursor(None, following), tokens.digest(request))
