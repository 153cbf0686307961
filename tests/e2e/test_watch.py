"""Watching: every committed change once, in order, to those who may know of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, Refusal, create, create_all, list_all, write
from tests.support.server_process import ServerProcess, Stubs
from tests.support.watch import ENTERED, LEFT, SECOND, STAYED, seen, watching

CREATED, UPDATED, DELETED = (
    memory_pb.MEMORY_CHANGE_ACTION_CREATED, memory_pb.MEMORY_CHANGE_ACTION_UPDATED, memory_pb.MEMORY_CHANGE_ACTION_DELETED,
)  # fmt: skip
RESTORED, PURGED = memory_pb.MEMORY_CHANGE_ACTION_RESTORED, memory_pb.MEMORY_CHANGE_ACTION_PURGED
WRITERS, EACH = 16, 12
INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


def update(stubs: Stubs, scope: types_pb.Scope, memory_id: str, **fields: Any) -> types_pb.Memory:
    """Change fields of a memory."""
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=memory_id, **fields))
    return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory


def delete(stubs: Stubs, scope: types_pb.Scope, memory_id: str, *, hard: bool = False) -> None:
    """Delete a memory."""
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id, purge=hard), timeout=TIMEOUT)


def restore(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> None:
    """Restore a memory."""
    stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory_id), timeout=TIMEOUT)


def test_the_whole_life_of_a_memory_is_told(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each change comes with the memory as it was then; what leaves comes with its id alone."""
    with watching(stubs, scope) as reader:
        one = create(stubs, scope, "安娜住在里斯本。", title="Anna")
        two = update(stubs, scope, one.id, content="安娜搬到了波尔图。")
        delete(stubs, scope, one.id)
        restore(stubs, scope, one.id)
        delete(stubs, scope, one.id, hard=True)
        told = reader.read(5)

    assert seen(told) == [
        (one.id, CREATED, ENTERED), (one.id, UPDATED, STAYED), (one.id, DELETED, LEFT),
        (one.id, RESTORED, ENTERED), (one.id, PURGED, LEFT),
    ]  # fmt: skip
    assert [change.revision for change in told] == [1, 2, 3, 4, 4]
    assert told[:2] == [
        memory_pb.MemoryChange(
            action=CREATED, effect=ENTERED, memory_id=one.id, revision=1, memory=one, time=told[0].time
        ),
        memory_pb.MemoryChange(
            action=UPDATED, effect=STAYED, memory_id=one.id, revision=2, memory=two, time=told[1].time
        ),
    ]
    assert not any(told[place].HasField("memory") for place in (2, 4))


def test_changes_of_many_writers_come_once_in_the_order_of_commits(stubs: Stubs, scope: types_pb.Scope) -> None:
    """16 writers at once: nothing is missing, nothing comes twice, revisions ascend; all watchers are told the same."""

    def work(writer: int) -> None:
        for number in range(EACH):
            one = create(stubs, scope, f"writer {writer} 说 {number}", wait_for=types_pb.WAIT_FOR_STORED)
            if number % 3 == 0:
                update(stubs, scope, one.id, title=f"{number}")
            if number % 4 == 0:
                delete(stubs, scope, one.id)

    def create(stubs: Stubs, scope: types_pb.Scope, content: str, **request: Any) -> types_pb.Memory:
        return write(stubs, scope, content, **request).memory

    expected = WRITERS * (EACH + EACH // 3 + EACH // 4)
    with watching(stubs, scope) as live, watching(stubs, scope) as other:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(work, range(WRITERS)))
        told = live.read(expected)
        assert other.read(expected) == told
        with watching(stubs, scope, start=memory_pb.WATCH_START_OLDEST) as late:
            assert late.read(expected) == told

    assert len({(change.memory_id, change.revision) for change in told}) == expected
    latest: dict[str, int] = {}
    for change in told:
        assert change.revision == latest.get(change.memory_id, 0) + 1
        latest[change.memory_id] = change.revision
    left = {memory_id for memory_id, _, effect in seen(told) if effect == LEFT}
    assert latest.keys() - left == {memory.id for memory in list_all(stubs, scope)}


def test_a_watch_goes_on_after_any_cursor(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Wherever a watch is broken off, the next one tells the rest and nothing before."""
    with watching(stubs, scope) as reader:
        opened = reader.cursor
        memories = create_all(stubs, scope, [f"memory {number}" for number in range(300)])
        told = reader.read(300)
        cursors = reader.cursors

    assert [change.memory_id for change in told] == [memory.id for memory in memories]
    for place, cursor in ((0, opened), (1, cursors[0]), (255, cursors[254]), (299, cursors[298])):
        with watching(stubs, scope, cursor=cursor, start=memory_pb.WATCH_START_OLDEST) as again:
            assert again.read(300 - place) == told[place:]
    with watching(stubs, scope, cursor=cursors[-1], heartbeat_interval=SECOND) as done:
        assert done.next().HasField("heartbeat")


def test_a_filter_tells_who_enters_and_leaves(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A change is told when the memory matches before or after it; what never matches is not."""
    chosen = filters_pb.Filter(tags_any=["工作"], min_importance=3)
    with watching(stubs, scope, filter=chosen) as reader:
        one = create(stubs, scope, "one", tags=["工作"], importance=4)
        create(stubs, scope, "never", tags=["家"])
        two = create(stubs, scope, "two", tags=["工作"], importance=1)
        update(stubs, scope, two.id, title="still not")
        update(stubs, scope, two.id, importance=5)
        update(stubs, scope, one.id, tags=["家"])
        update(stubs, scope, one.id, title="no longer told")
        update(stubs, scope, two.id, status=types_pb.MEMORY_STATUS_ARCHIVED)
        told = reader.read(4)
        last = create(stubs, scope, "last", tags=["工作"])
        assert reader.until(last.id) == []

    assert seen(told) == [
        (one.id, CREATED, ENTERED), (two.id, UPDATED, ENTERED), (one.id, UPDATED, LEFT), (two.id, UPDATED, LEFT),
    ]  # fmt: skip


def test_validity_hides_no_change(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A successor, which is valid from the end of the old memory, enters; so does what is valid later or no more."""
    with watching(stubs, scope) as reader:
        old = create(stubs, scope, "Anna wohnt hier.")
        asked = memory_pb.SupersedeMemoryRequest(scope=scope, id=old.id, memory=types_pb.Memory(content="安娜搬走了。"))
        new = stubs.memory.SupersedeMemory(asked, timeout=TIMEOUT).memory
        later, over = types_pb.Memory(content="later"), types_pb.Memory(content="over")
        later.valid_from.FromJsonString("2999-01-01T00:00:00Z")
        over.valid_to.FromJsonString("2000-01-01T00:00:00Z")
        others = [write(stubs, scope, memory).memory for memory in (later, over)]
        told = reader.until(create(stubs, scope, "last").id)

    assert new.HasField("valid_from")
    assert {(one.id, CREATED, ENTERED) for one in (old, new, *others)} | {(old.id, UPDATED, LEFT)} == set(seen(told))


def test_deleted_memories_stay_for_who_asks_for_them(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With the status DELETED in the filter a soft deletion brings a memory in, whole."""
    with watching(stubs, scope, filter=filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_DELETED])) as reader:
        one = create(stubs, scope, "bin")
        delete(stubs, scope, one.id)
        restore(stubs, scope, one.id)
        told = reader.read(2)

    assert seen(told) == [(one.id, DELETED, ENTERED), (one.id, RESTORED, LEFT)]
    assert told[0].memory.content == "bin"


def test_projects_and_private_memories_are_kept_apart(stubs: Stubs, user: str) -> None:
    """A watch sees its project and the global memories; what is private to a session, from within or when asked for."""
    world = types_pb.Scope(user_id=user)
    project = types_pb.Scope(user_id=user, project_id="p")
    inside = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    other = types_pb.Scope(user_id=user, project_id="q", session_id="s")
    every = filters_pb.Filter(session_visibility=filters_pb.SESSION_VISIBILITY_ALL)
    with (
        watching(stubs, project) as outside,
        watching(stubs, inside) as within,
        watching(stubs, other) as elsewhere,
        watching(stubs, project, filter=every) as everywhere,
    ):
        shared = create(stubs, world, "for all")
        line = create(stubs, inside, "told in private", layer=types_pb.MEMORY_LAYER_SESSION)
        plain = create(stubs, inside, "told in public")
        update(stubs, inside, plain.id, layer=types_pb.MEMORY_LAYER_SESSION)
        update(stubs, inside, line.id, layer=types_pb.MEMORY_LAYER_LONG_TERM)
        delete(stubs, inside, plain.id, hard=True)
        last = create(stubs, world, "the last")

        told = seen(within.until(last.id))
        assert told == seen(everywhere.until(last.id)) == [
            (shared.id, CREATED, ENTERED), (line.id, CREATED, ENTERED), (plain.id, CREATED, ENTERED),
            (plain.id, UPDATED, STAYED), (line.id, UPDATED, STAYED), (plain.id, PURGED, LEFT),
        ]  # fmt: skip
        assert seen(outside.until(last.id)) == [
            (shared.id, CREATED, ENTERED), (plain.id, CREATED, ENTERED), (plain.id, UPDATED, LEFT),
            (line.id, UPDATED, ENTERED),
        ]  # fmt: skip
        assert seen(elsewhere.until(last.id)) == [(shared.id, CREATED, ENTERED)]


def test_changes_of_what_was_removed_for_good_have_no_content(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Who comes late is told that something was, but not what."""
    one = create(stubs, scope, "a secret to be erased")
    update(stubs, scope, one.id, title="still secret")
    delete(stubs, scope, one.id, hard=True)
    last = create(stubs, scope, "last")
    with watching(stubs, scope, start=memory_pb.WATCH_START_OLDEST) as reader:
        told = reader.until(last.id)

    assert seen(told) == [(one.id, CREATED, LEFT), (one.id, UPDATED, LEFT), (one.id, PURGED, LEFT)]
    assert not any(change.HasField("memory") for change in told)


def test_silence_is_filled_with_heartbeats(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Their cursors move on with the changes of others, and the watch goes on from them."""
    with watching(stubs, scope, heartbeat_interval=SECOND) as reader:
        opened = reader.cursor
        create(stubs, types_pb.Scope(user_id=f"{scope.user_id}-2"), "somebody else's")
        # The first ones may be from before that change.
        while reader.cursor == opened:
            assert reader.next().WhichOneof("event") == "heartbeat"
        cursor = reader.cursor
    one = create(stubs, scope, "mine")
    with watching(stubs, scope, cursor=cursor) as reader:
        assert seen(reader.read(1)) == [(one.id, CREATED, ENTERED)]


@pytest.mark.parametrize(
    "wrong",
    [
        "x", "=" * 40, "A" * 30, "é", "\x00", "A" * 100_000, "AQAAAAAAAAAE",
        pytest.param({"scope": "project"}, id="another project's"),
        pytest.param({"scope": "session"}, id="another session's"),
        pytest.param({"scope": "user"}, id="another user's"),
        pytest.param({"filter": filters_pb.Filter(min_importance=2)}, id="another filter's"),
    ],
)  # fmt: skip
def test_a_cursor_of_something_else_is_refused(stubs: Stubs, user: str, wrong: str | dict[str, Any]) -> None:
    """Garbage, other tokens, and cursors of other scopes and filters are INVALID_ARGUMENT by the field's name."""
    scope = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    others = {
        "project": types_pb.Scope(user_id=user, project_id="q", session_id="s"),
        "session": types_pb.Scope(user_id=user, project_id="p", session_id="t"),
        "user": types_pb.Scope(user_id=f"{user}2", project_id="p", session_id="s"),
    }
    if isinstance(wrong, dict):
        place = others.get(str(wrong.get("scope")), scope)
        with watching(stubs, place, filter=wrong.get("filter")) as reader:
            cursor = reader.cursor
    else:
        cursor = wrong

    with pytest.raises(grpc.RpcError) as caught, watching(stubs, scope, cursor=cursor):
        pass
    refusal = Refusal.from_error(caught.value)

    assert (refusal.code, refusal.reason, refusal.fields) == (*INVALID, ("cursor",))
    # A store that was restored from a backup refuses cursors in the same way.
    assert ("start a new watch without a cursor" in str(caught.value.details())) == isinstance(wrong, dict)


def test_a_list_token_is_no_cursor(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Tokens of other calls are told apart."""
    create_all(stubs, scope, ["a", "b"])
    request = memory_pb.ListMemoriesRequest(scope=scope, page_size=1)
    token = stubs.memory.ListMemories(request, timeout=TIMEOUT).next_page_token

    with pytest.raises(grpc.RpcError) as caught, watching(stubs, scope, cursor=token):
        pass

    assert Refusal.from_error(caught.value).fields == ("cursor",)


def test_leaving_gives_the_place_back(server: ServerProcess, stubs: Stubs, scope: types_pb.Scope) -> None:
    """A watch that was cancelled, or whose client is gone, is over; others go on."""
    with watching(stubs, scope) as stays:
        for _ in range(50):
            with server.stubs() as gone, watching(gone, scope):
                pass
        one = create(stubs, scope, "still told")
        assert seen(stays.read(1)) == [(one.id, CREATED, ENTERED)]
