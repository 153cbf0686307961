"""Times at the ends of the calendar: "for ever" is often written as the last day of the year 9999."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, create_all
from tests.support.server_process import Stubs
from tests.support.sessions import open_session, place

MOMENTS = ["0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"]
TEXTS = ["I live in Paris.", "我住在苏州。"]


def at(moment: str) -> Timestamp:
    """Return a timestamp."""
    result = Timestamp()
    result.FromJsonString(moment)
    return result


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("content", TEXTS)
def test_memories_may_be_of_the_first_and_the_last_day(stubs: Stubs, user: str, content: str, moment: str) -> None:
    """Alone and in a batch, next to what contradicts them."""
    scope = types_pb.Scope(user_id=user)
    create(stubs, scope, "I live in Rome." if content.isascii() else "我住在无锡。")

    made = create(stubs, scope, content, event_time=at(moment))

    assert (made.content, made.event_time) == (content, at(moment))
    others = [types_pb.Memory(content=f"{content} {number}", event_time=at(moment)) for number in range(2)]
    assert len(create_all(stubs, scope, [*others, "The weather is fine."])) == 3


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_session_with_such_messages_ends(stubs: Stubs, user: str, moment: str) -> None:
    """Its memories are extracted when it is closed."""
    here = place(user)
    open_session(stubs, here)
    messages = [types_pb.ChatMessage(role=2, content=content, event_time=at(moment)) for content in TEXTS]
    append = session_pb.AppendMessagesRequest(scope=here, messages=messages)
    stubs.session.AppendMessages(append, timeout=TIMEOUT)

    closed = stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=here), timeout=TIMEOUT)

    assert not closed.flush.incomplete
    assert {one.memory.content for one in closed.flush.results} == set(TEXTS)
