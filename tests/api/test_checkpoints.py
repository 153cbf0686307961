"""Checkpoints over the wire: named, compared, gone back to."""

from __future__ import annotations

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.history import (
    CHANGED,
    CREATED,
    DELETED,
    PURGED,
    RESTORED,
    checkpoint,
    delete,
    differences,
    known,
    later,
    plain,
    roll_back_to,
    rollback,
    update,
)
from tests.support.rpc import KEYWORD, TIMEOUT, create, found, get, list_all, refused, write
from tests.support.server_process import Stubs
from tests.support.sessions import append, open_session, place, said, say, show, trim


def names(stubs: Stubs, scope: types_pb.Scope) -> list[str]:
    """Return the names of the checkpoints of a project."""
    listed = stubs.lifecycle.ListCheckpoints(lifecycle_pb.ListCheckpointsRequest(scope=scope), timeout=TIMEOUT)
    return [one.name for one in listed.checkpoints]


def test_a_checkpoint_brings_a_project_back(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Created, changed, deleted and restored since: all told, all undone, and the undoing undone."""
    stays, changes, leaves = (create(stubs, scope, f"{name} 记忆", key=name) for name in ("stays", "changes", "leaves"))
    returns = create(stubs, scope, "returns", key="returns")
    delete(stubs, scope, returns.id)
    purged = create(stubs, scope, "purged")
    made = checkpoint(stubs, scope, "before", note="Before the run.", request_id="r")
    assert made == checkpoint(stubs, scope, "before", note="Before the run.", request_id="r")
    update(stubs, scope, changes.id, content="poisoned", key="free")
    delete(stubs, scope, leaves.id)
    rollback(stubs, scope, returns.id, 1)
    poison = create(stubs, scope, "more poison", key="changes")
    delete(stubs, scope, purged.id, hard=True)

    expected = {changes.id: CHANGED, leaves.id: DELETED, returns.id: RESTORED, poison.id: CREATED, purged.id: PURGED}
    assert expected == {one.memory_id: one.kind for one in differences(stubs, scope, "before")}
    dry = roll_back_to(stubs, scope, "before", dry_run=True)
    assert (1, 2, 1, 1) == (dry.changed_count, dry.deleted_count, dry.restored_count, dry.unrestored_count)
    assert expected.keys() == {one.memory_id for one in differences(stubs, scope, "before")}

    then = {one.id: plain(one).content for one in list_all(stubs, scope)}
    done = roll_back_to(stubs, scope, "before", request_id="back")
    assert (1, 2, 1, 1) == (done.changed_count, done.deleted_count, done.restored_count, done.unrestored_count)
    assert [(purged.id, lifecycle_pb.UNRESTORED_REASON_PURGED)] == [
        (one.memory_id, one.reason) for one in done.unrestored
    ]
    assert {stays.id, changes.id, leaves.id} == {one.id for one in list_all(stubs, scope)}
    assert ("changes 记忆", "changes") == ((back := get(stubs, scope, changes.id)).content, back.key)
    assert "leaves 记忆" in found(stubs, scope, "leaves", mode=KEYWORD)
    assert [(purged.id, PURGED)] == [(one.memory_id, one.kind) for one in differences(stubs, scope, "before")]
    assert done == roll_back_to(stubs, scope, "before", request_id="back")

    undone = roll_back_to(stubs, scope, done.undo_checkpoint)
    assert (1, 1, 2) == (undone.changed_count, undone.deleted_count, undone.restored_count)
    assert then == {one.id: plain(one).content for one in list_all(stubs, scope)}
    names = stubs.lifecycle.ListCheckpoints(
        lifecycle_pb.ListCheckpointsRequest(scope=scope, page_size=2), timeout=TIMEOUT
    )
    token = names.next_page_token
    rest = stubs.lifecycle.ListCheckpoints(
        lifecycle_pb.ListCheckpointsRequest(scope=scope, page_size=2, page_token=token), timeout=TIMEOUT
    )
    assert [undone.undo_checkpoint, done.undo_checkpoint, "before"] == [
        one.name for one in (*names.checkpoints, *rest.checkpoints)
    ]


def test_keys_that_were_swapped_are_swapped_back(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Memories that wait for each other's keys do not wait for ever; a key that a private line took stays its."""
    one, two = (create(stubs, scope, name, key=name) for name in ("one", "two"))
    taken = create(stubs, scope, "three", key="three")
    moment = checkpoint(stubs, scope, "apart").known_time
    update(stubs, scope, one.id, key="")
    for memory_id, key in ((one.id, "between"), (two.id, "one"), (one.id, "two"), (taken.id, "four")):
        update(stubs, scope, memory_id, key=key)
    talk = types_pb.Scope(user_id=scope.user_id, session_id="s")
    create(stubs, talk, "private", key="three", layer=types_pb.MEMORY_LAYER_SESSION)

    done = roll_back_to(stubs, scope, "apart")
    assert {one.id: "one", two.id: "two", taken.id: "four"} == {
        memory.id: memory.key for memory in list_all(stubs, scope)
    }
    assert [(taken.id, lifecycle_pb.UNRESTORED_REASON_MEMORY_EXISTS, "")] == [
        (un.memory_id, un.reason, un.blocking_memory_id) for un in done.unrestored
    ]
    assert {"one", "two", "three"} == {memory.key for memory in list_all(stubs, scope, as_of=known(moment))}


def test_what_awaited_its_review_awaits_it_again(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Another memory may have the key that it names, as it had then."""
    withheld = types_pb.Memory(content="扣留", key="k", status=types_pb.MEMORY_STATUS_QUARANTINED)
    waiting = write(stubs, scope, withheld).memory
    bearer = create(stubs, scope, "The bearer.", key="k")
    checkpoint(stubs, scope, "before")
    verdict = memory_pb.ReviewMemoryRequest(scope=scope, id=waiting.id, verdict=memory_pb.REVIEW_VERDICT_REJECT)
    stubs.memory.ReviewMemory(verdict, timeout=TIMEOUT)

    done = roll_back_to(stubs, scope, "before")
    assert (1, 0, []) == (done.restored_count, done.unrestored_count, differences(stubs, scope, "before"))
    states = [(get(stubs, scope, one.id).status, one.key) for one in (waiting, bearer)]
    assert [(types_pb.MEMORY_STATUS_QUARANTINED, "k"), (types_pb.MEMORY_STATUS_ACTIVE, "k")] == states


def test_what_superseded_something_new_supersedes_nothing_again(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The new memory, deleted, gives up its successor, which is as it was; the undo links both again."""
    kept = create(stubs, scope, "水壶是蓝色的。")
    checkpoint(stubs, scope, "before")
    new = create(stubs, scope, "The kettle is red.", key="kettle")
    asked = memory_pb.SupersedeMemoryRequest(scope=scope, id=new.id, memory=types_pb.Memory(id=kept.id))
    linked = stubs.memory.SupersedeMemory(asked, timeout=TIMEOUT)

    done = roll_back_to(stubs, scope, "before")
    assert (1, 1, []) == (done.changed_count, done.deleted_count, differences(stubs, scope, "before"))
    assert "" == get(stubs, scope, kept.id).supersedes_id
    again = roll_back_to(stubs, scope, "before")
    assert (0, 0) == (again.changed_count, again.deleted_count)
    back = stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=new.id), timeout=TIMEOUT).memory
    assert (types_pb.MEMORY_STATUS_ACTIVE, "") == (back.status, back.superseded_by_id)
    roll_back_to(stubs, scope, done.undo_checkpoint)
    ends = [get(stubs, scope, one.id) for one in (kept, new)]
    assert (linked.memory.supersedes_id, linked.superseded.superseded_by_id) == (
        ends[0].supersedes_id, ends[1].superseded_by_id,
    )  # fmt: skip


def test_checkpoints_are_named_once_and_known_by_name(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A second one of a name, an unknown one, one of another project: clear errors, nothing changed."""
    memory = create(stubs, scope, "one")
    past = checkpoint(stubs, scope, "a", known_time=later(memory.create_time, seconds=-1))
    assert past.known_time.ToDatetime() < past.create_time.ToDatetime()
    again = lifecycle_pb.CreateCheckpointRequest(scope=scope, name="a")
    assert "CHECKPOINT_EXISTS" == refused(stubs.lifecycle.CreateCheckpoint, again).reason
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="p")
    for call, request in (
        (stubs.lifecycle.DiffCheckpoint, lifecycle_pb.DiffCheckpointRequest),
        (stubs.lifecycle.RollbackToCheckpoint, lifecycle_pb.RollbackToCheckpointRequest),
        (stubs.lifecycle.DeleteCheckpoint, lifecycle_pb.DeleteCheckpointRequest),
    ):
        for where, name in ((scope, "b"), (elsewhere, "a")):
            refusal = refused(call, request(scope=where, checkpoint=name))
            assert ("CHECKPOINT_NOT_FOUND", {"checkpoint": name}) == (refusal.reason, dict(refusal.metadata))
    assert [memory] == [plain(one) for one in list_all(stubs, scope)]
    assert [(memory.id, CREATED)] == [(one.memory_id, one.kind) for one in differences(stubs, scope, "a")]


def test_a_deleted_checkpoint_leaves_the_memories_and_its_name(stubs: Stubs, scope: types_pb.Scope) -> None:
    """That of the same name in another project, and of another user, stays; a repeated call deletes nothing more."""
    memory = create(stubs, scope, "one")
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="p")
    other = types_pb.Scope(user_id=f"{scope.user_id}-2")
    made, *_ = (checkpoint(stubs, place, "a", note="Before.") for place in (scope, elsewhere, other))
    request = lifecycle_pb.DeleteCheckpointRequest(scope=scope, checkpoint="a", request_id=f"{scope.user_id}-1")

    assert made == stubs.lifecycle.DeleteCheckpoint(request, timeout=TIMEOUT).checkpoint
    assert [0, 1, 1] == [len(names(stubs, place)) for place in (scope, elsewhere, other)]
    assert [memory] == [plain(one) for one in list_all(stubs, scope)]
    later_one = checkpoint(stubs, scope, "a", request_id=f"{scope.user_id}-2")
    assert made == stubs.lifecycle.DeleteCheckpoint(request, timeout=TIMEOUT).checkpoint
    assert ["a"] == names(stubs, scope)
    stubs.lifecycle.DeleteCheckpoint(
        lifecycle_pb.DeleteCheckpointRequest(scope=scope, checkpoint=later_one.name), timeout=TIMEOUT
    )
    again = lifecycle_pb.CreateCheckpointRequest(scope=scope, name="a", request_id=f"{scope.user_id}-2")
    assert "CHECKPOINT_NOT_FOUND" == refused(stubs.lifecycle.CreateCheckpoint, again).reason
    assert [] == names(stubs, scope)


def test_trimmed_messages_never_lose_both_their_place_and_their_summary(stubs: Stubs, user: str) -> None:
    """Back before a trim, a project keeps the summary; from within the session the messages are live again instead."""
    project, here = place(user, "", "p"), place(user, "s", "p")
    open_session(stubs, here, token_limit=1_000)
    append(stubs, here, [say(f"第{number}步用 Redis 缓存。", token_count=100) for number in range(5)])
    checkpoint(stubs, project, "before")
    summary = trim(stubs, here, target_tokens=0, keep_rounds=1).summary

    roll_back_to(stubs, project, "before")
    assert types_pb.MEMORY_STATUS_ACTIVE == get(stubs, project, summary.id).status
    archived = [one for one in said(stubs, here, include_archived=True) if one.archived]
    assert [summary.id] * 4 == [one.summary_id for one in archived]

    roll_back_to(stubs, here, "before")
    live = said(stubs, here)
    assert ([""] * 5, 500) == ([one.summary_id for one in live], show(stubs, here).token_count)
    assert summary.id not in {one.id for one in list_all(stubs, here)}
