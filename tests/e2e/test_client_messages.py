"""The Python client's calls with messages, on a real server."""

from __future__ import annotations

import pytest

from memsvc.client import Memsvc
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_process import ServerProcess


@pytest.mark.parametrize("text", ["I am allergic to hazelnuts.", "我对榛子过敏。"])
def test_a_message_without_a_role_is_the_users(server: ServerProcess, user: str, text: str) -> None:
    """In a session and in a conversation alike; what an assistant says of the user is not extracted."""
    with Memsvc(server.bound, user_id=user, project_id="web", session_id="s") as client:
        client.create_session()
        client.append_messages([{"content": text}, {"role": "assistant", "content": "You are allergic to nuts."}])
        roles = [message.role for message in client.list_messages()]
        closed = client.close_session(flush=True)
        flushed = client.flush([{"content": text}])

    assert roles == [types_pb.MESSAGE_ROLE_USER, types_pb.MESSAGE_ROLE_ASSISTANT]
    assert [result.memory.content for result in closed.flush.results] == [text]
    assert [result.memory.id for result in flushed.results] == [result.memory.id for result in closed.flush.results]
