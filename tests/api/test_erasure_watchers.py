"""Whoever watches a user learns that the user was erased, and passes over nothing in silence."""

from __future__ import annotations

import grpc

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import create, create_all, refused
from tests.support.server_process import Stubs
from tests.support.user_data import erase
from tests.support.watch import SECOND, Reader, watching

EXPIRED = (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_EXPIRED")


def ended(reader: Reader) -> tuple[grpc.StatusCode, str]:
    """Read until the watch ends, and return why it did."""
    refusal = reader.broken()
    return refusal.code, refusal.reason


def test_an_open_watch_ends_when_the_user_was_erased(stubs: Stubs, user: str) -> None:
    """Whatever it had been told by then; somebody else's goes on."""
    scope, other = types_pb.Scope(user_id=user), types_pb.Scope(user_id=f"{user}-2")
    with watching(stubs, scope, heartbeat_interval=SECOND) as reader, watching(stubs, other) as others:
        create_all(stubs, scope, [f"walrus {number}" for number in range(20)])
        reader.read(20)
        assert erase(stubs, user, confirm=True).clean
        kept = create(stubs, other, "kept")

        assert ended(reader) == EXPIRED
        assert [change.memory_id for change in others.read(1)] == [kept.id]


def test_a_cursor_from_before_an_erasure_is_refused(stubs: Stubs, user: str) -> None:
    """In the middle and at the end of what there was; a watch that begins afterwards tells what comes, and resumes."""
    scope = types_pb.Scope(user_id=user)
    with watching(stubs, scope, start=memory_pb.WATCH_START_OLDEST) as reader:
        create_all(stubs, scope, ["one", "two", "three"])
        reader.read(3)
    erase(stubs, user, confirm=True)

    for cursor in reader.cursors:
        request = memory_pb.WatchMemoriesRequest(scope=scope, cursor=cursor)
        refusal = refused(stubs.memory.WatchMemories, request)
        assert (refusal.code, refusal.reason) == EXPIRED
    with watching(stubs, scope, start=memory_pb.WATCH_START_OLDEST) as anew:
        back = create(stubs, scope, "back")
        assert [change.memory_id for change in anew.read(1)] == [back.id]
    with watching(stubs, scope, cursor=anew.cursor) as resumed:
        again = create(stubs, scope, "again")
        assert [change.memory_id for change in resumed.read(1)] == [again.id]
