"""What the methods of SessionService do to strangers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.isolation.fixtures import USER, Stranger
from tests.e2e.isolation.registry import INVALID, NOT_FOUND, OK, case


def sessions_from(stranger: Stranger) -> tuple[types_pb.Scope, ...]:
    """Return the owner's conversation as strangers may name it; those of the user's own project are no strangers."""
    if (stranger.scope.user_id, stranger.scope.project_id) == (USER, "p"):
        return ()
    scope = types_pb.Scope()
    scope.CopyFrom(stranger.scope)
    scope.session_id = "t"
    return (scope,)


@case
def CreateSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """The same id is free elsewhere, the owner's stays open, and the owner's request is not recognised."""
    fresh = types_pb.Scope()
    fresh.CopyFrom(stranger.scope)
    fresh.session_id = str(uuid.uuid4())
    yield [session_pb.CreateSessionRequest(scope=fresh, on_open=2)], OK


@case
def AppendMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """To what is not there for them."""
    for scope in sessions_from(stranger):
        message = types_pb.ChatMessage(role=2, content="mine")
        yield [session_pb.AppendMessagesRequest(scope=scope, messages=[message])], NOT_FOUND


@case
def PopMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nothing is taken from what is not there for them."""
    for scope in sessions_from(stranger):
        yield [session_pb.PopMessagesRequest(scope=scope)], NOT_FOUND


@case
def ClearMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Nor cleared."""
    for scope in sessions_from(stranger):
        yield [session_pb.ClearMessagesRequest(scope=scope)], NOT_FOUND


@case
def GetSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As if it were not there."""
    for scope in sessions_from(stranger):
        yield [session_pb.GetSessionRequest(scope=scope)], NOT_FOUND


@case
def ListSessions(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Not in their lists, and not by the owner's token."""
    for scope in sessions_from(stranger):
        yield [session_pb.ListSessionsRequest(scope=scope, page_size=1000)], OK
        yield [session_pb.ListSessionsRequest(scope=scope, page_token=stranger.owner.tokens["sessions"])], INVALID


@case
def ListMessages(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Neither by name nor by the owner's token."""
    for scope in sessions_from(stranger):
        yield [session_pb.ListMessagesRequest(scope=scope, include_archived=True)], NOT_FOUND
        yield [session_pb.ListMessagesRequest(scope=scope, page_token=stranger.owner.tokens["messages"])], INVALID


@case
def TrimSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As AppendMessages."""
    for scope in sessions_from(stranger):
        yield [session_pb.TrimSessionRequest(scope=scope, target_tokens=0, keep_rounds=0)], NOT_FOUND


@case
def CloseSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As AppendMessages."""
    for scope in sessions_from(stranger):
        yield [session_pb.CloseSessionRequest(scope=scope)], NOT_FOUND


@case
def ReopenSession(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """As AppendMessages."""
    for scope in sessions_from(stranger):
        yield [session_pb.ReopenSessionRequest(scope=scope)], NOT_FOUND
