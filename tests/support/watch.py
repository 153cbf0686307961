"""Reading watches in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, Refusal
from tests.support.server_process import Stubs

SECOND = Duration(seconds=1)
ENTERED, STAYED, LEFT = memory_pb.WATCH_EFFECT_ENTERED, memory_pb.WATCH_EFFECT_STAYED, memory_pb.WATCH_EFFECT_LEFT


class Reader:
    """A watch that has begun; what it is told is kept.

    Attributes:
        cursor: The cursor of the last response.
    """

    def __init__(self, call: Any) -> None:
        self.call = call
        self.changes: list[memory_pb.MemoryChange] = []
        self.cursors: list[str] = []
        opening = next(call)
        assert opening.HasField("heartbeat")
        self.cursor: str = opening.cursor

    def next(self) -> memory_pb.WatchMemoriesResponse:
        """Return the next response, heartbeat or change."""
        response: memory_pb.WatchMemoriesResponse = next(self.call)
        assert response.cursor
        self.cursor = response.cursor
        if response.HasField("change"):
            self.changes.append(response.change)
            self.cursors.append(response.cursor)
        return response

    def read(self, count: int) -> list[memory_pb.MemoryChange]:
        """Return the next *count* changes."""
        wanted = len(self.changes) + count
        while len(self.changes) < wanted:
            self.next()
        return self.changes[wanted - count :]

    def until(self, memory_id: str) -> list[memory_pb.MemoryChange]:
        """Return the changes up to the first one of a memory, without it."""
        first = len(self.changes)
        while True:
            response = self.next()
            if response.HasField("change") and response.change.memory_id == memory_id:
                return self.changes[first:-1]

    def broken(self) -> Refusal:
        """Read until the watch ends, and return why it did."""
        try:
            while True:
                self.next()
        except grpc.RpcError as error:
            return Refusal.from_error(error)


@contextmanager
def watching(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> Iterator[Reader]:
    """Open a watch, and end it on leaving."""
    call = stubs.memory.WatchMemories(memory_pb.WatchMemoriesRequest(scope=scope, **fields), timeout=2 * TIMEOUT)
    try:
        yield Reader(call)
    finally:
        call.cancel()


def seen(changes: list[memory_pb.MemoryChange]) -> list[tuple[str, int, int]]:
    """Return the id, action and effect of each change."""
    return [(change.memory_id, change.action, change.effect) for change in changes]
