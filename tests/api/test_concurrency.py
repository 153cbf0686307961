"""Many callers at once: what must happen once happens once, and counters and revisions fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, TIMEOUT, Refusal, create, found, get, list_all, write
from tests.support.server_process import Stubs

CALLERS = 24
CREATED, UPDATED, DUPLICATE = (
    types_pb.WRITE_OUTCOME_CREATED,
    types_pb.WRITE_OUTCOME_UPDATED,
    types_pb.WRITE_OUTCOME_DUPLICATE,
)


def at_once(call: Callable[[int], Any]) -> list[Any]:
    """Make many calls side by side and return their results; a failed one's is its refusal."""

    def guarded(number: int) -> Any:
        try:
            return call(number)
        except grpc.RpcError as error:
            return Refusal.from_error(error)

    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(guarded, range(CALLERS)))


def test_equal_content_is_stored_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """One caller creates, all others meet its memory."""
    replies = at_once(lambda _: write(stubs, scope, "The same words."))

    assert {CREATED: 1, DUPLICATE: CALLERS - 1} == Counter(reply.outcome for reply in replies)
    assert len({reply.memory.id for reply in replies}) == 1
    assert ["The same words."] == found(stubs, scope, "words", mode=KEYWORD)


def test_a_repeated_request_is_done_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Also when the repetitions overtake each other: every caller gets the one answer."""
    said = types_pb.Memory(content="Said once.", kind=types_pb.MEMORY_KIND_MESSAGE, speaker="Ann")
    replies = at_once(lambda _: write(stubs, scope, said, request_id="r"))

    assert all(reply == replies[0] for reply in replies)
    assert ["Said once."] == [memory.content for memory in list_all(stubs, scope)]


def test_a_key_is_one_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """One caller creates, the others update; the revisions count them all."""
    replies = at_once(lambda number: write(stubs, scope, types_pb.Memory(key="k", content=f"Version {number}.")))

    assert {CREATED: 1, UPDATED: CALLERS - 1} == Counter(reply.outcome for reply in replies)
    assert list(range(1, CALLERS + 1)) == sorted(reply.memory.revision for reply in replies)
    (memory,) = list_all(stubs, scope)
    assert CALLERS == memory.revision
    assert [memory.content] == found(stubs, scope, "version", mode=KEYWORD)


def test_one_of_those_who_expect_a_revision_wins(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The others are ABORTED and have changed nothing."""
    memory = create(stubs, scope, "x")

    def change(number: int) -> Any:
        changed = types_pb.Memory(id=memory.id, title=f"{number}")
        return stubs.memory.UpdateMemory(
            memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, expected_revision=1), timeout=TIMEOUT
        )

    answers = at_once(change)
    winners = [one.memory.title for one in answers if not isinstance(one, Refusal)]
    losers = [(one.code, one.reason) for one in answers if isinstance(one, Refusal)]

    assert len(winners) == 1
    assert [(grpc.StatusCode.ABORTED, "REVISION_CONFLICT")] * (CALLERS - 1) == losers
    assert (winners[0], 2) == ((left := get(stubs, scope, memory.id)).title, left.revision)


def test_deleting_and_restoring_at_once_leaves_one_state(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Store and indexes agree on it in the end."""
    memory = create(stubs, scope, "A fickle gannet.")

    def flip(number: int) -> Any:
        if number % 2:
            request = memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id)
            return stubs.memory.DeleteMemory(request, timeout=TIMEOUT)
        return stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)

    answers = at_once(flip)
    refusals = {one.reason for one in answers if isinstance(one, Refusal)}
    contents = [one.content for one in list_all(stubs, scope)]
    stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)

    assert refusals <= {"MEMORY_NOT_FOUND"}
    assert contents == found(stubs, scope, "gannet", mode=KEYWORD)
    assert (len(contents),) * 3 == (stats.memory_count, stats.vector_count, stats.lexical_count)
