"""Looking back and going back over the wire: revisions, moments, checkpoints, rollbacks."""

from __future__ import annotations

from datetime import timedelta

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import history_pb2 as history_pb
from memsvc.v1 import memory_service_pb2 as pb
from memsvc.v1 import types_pb2 as types
from tests.e2e.calls import KEYWORD, MODES, SEMANTIC, TIMEOUT, create, found, get, list_all, refused, search
from tests.e2e.running import Stubs
from tests.e2e.sessions import append, open_session, place, said, say, show, trim

EVERY = types.Filter(statuses=list(range(1, 7)), tiers=[1, 2, 3, 4], include_expired=True)  # type: ignore[arg-type]
CREATED, CHANGED, DELETED, RESTORED, PURGED = range(1, 6)


def update(stubs: Stubs, scope: types.Scope, memory_id: str, **fields: object) -> types.Memory:
    """Change fields of a memory."""
    memory = types.Memory(id=memory_id, **fields)  # type: ignore[arg-type] # any field
    request = pb.UpdateMemoryRequest(scope=scope, memory=memory, update_mask=FieldMask(paths=list(fields)))
    return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory


def delete(stubs: Stubs, scope: types.Scope, memory_id: str, *, hard: bool = False) -> types.Memory:
    """Delete a memory."""
    request = pb.DeleteMemoryRequest(scope=scope, id=memory_id, hard=hard)
    return stubs.memory.DeleteMemory(request, timeout=TIMEOUT).memory


def rollback(stubs: Stubs, scope: types.Scope, memory_id: str, revision: int, **request: object) -> types.Memory:
    """Roll a memory back."""
    asked = history_pb.RollbackMemoryRequest(scope=scope, id=memory_id, revision=revision, **request)  # type: ignore[arg-type]
    return stubs.memory.RollbackMemory(asked, timeout=TIMEOUT).memory


def revisions(stubs: Stubs, scope: types.Scope, memory_id: str, page_size: int = 2) -> list[history_pb.Revision]:
    """Return all revisions, page by page."""
    listed: list[history_pb.Revision] = []
    token = ""
    while True:
        page = stubs.memory.ListRevisions(
            history_pb.ListRevisionsRequest(scope=scope, id=memory_id, page_size=page_size, page_token=token),
            timeout=TIMEOUT,
        )
        listed.extend(page.revisions)
        token = page.next_page_token
        if not token:
            return listed


def checkpoint(stubs: Stubs, scope: types.Scope, name: str, **request: object) -> history_pb.Checkpoint:
    """Name the present moment."""
    asked = history_pb.CreateCheckpointRequest(scope=scope, name=name, **request)  # type: ignore[arg-type] # any field
    return stubs.lifecycle.CreateCheckpoint(asked, timeout=TIMEOUT).checkpoint


def differences(stubs: Stubs, scope: types.Scope, name: str, page_size: int = 2) -> list[history_pb.Difference]:
    """Return all differences, page by page."""
    listed: list[history_pb.Difference] = []
    token = ""
    while True:
        page = stubs.lifecycle.DiffCheckpoint(
            history_pb.DiffCheckpointRequest(scope=scope, checkpoint=name, page_size=page_size, page_token=token),
            timeout=TIMEOUT,
        )
        listed.extend(page.differences)
        token = page.next_page_token
        if not token:
            return listed


def roll_back_to(
    stubs: Stubs, scope: types.Scope, name: str, **request: object
) -> history_pb.RollbackToCheckpointResponse:
    """Roll a project back."""
    asked = history_pb.RollbackToCheckpointRequest(scope=scope, checkpoint=name, **request)  # type: ignore[arg-type]
    return stubs.lifecycle.RollbackToCheckpoint(asked, timeout=TIMEOUT)


def known(moment: Timestamp) -> types.AsOf:
    """Return what asks for what was known at a moment."""
    return types.AsOf(known_time=moment)


def later(moment: Timestamp, **parts: float) -> Timestamp:
    """Return a moment after another."""
    shifted = Timestamp()
    shifted.FromDatetime(moment.ToDatetime() + timedelta(**parts))
    return shifted


def plain(memory: types.Memory) -> types.Memory:
    """Return a memory without the traces of reading."""
    copy = types.Memory()
    copy.CopyFrom(memory)
    copy.ClearField("access_count")
    copy.ClearField("access_time")
    return copy


def test_revisions_tell_how_a_memory_came_to_be(stubs: Stubs, scope: types.Scope) -> None:
    """Newest first, each with its action, its time and what it changed; each can be read by its number."""
    first = create(stubs, scope, "The kettle is blue.")
    second = update(stubs, scope, first.id, content="水壶是红色的。", tags=["厨房"])
    gone = delete(stubs, scope, first.id)
    listed = revisions(stubs, scope, first.id)

    assert [3, 2, 1] == [one.revision for one in listed]
    assert ["DELETED", "UPDATED", "CREATED"] == [
        history_pb.RevisionAction.Name(one.action).removeprefix("REVISION_ACTION_") for one in listed
    ]
    assert [gone, second, first] == [plain(one.memory) for one in listed]
    assert ["status"] == list(listed[0].changed_fields)
    assert {"content", "content_hash", "keywords", "tags"} == set(listed[1].changed_fields)
    assert not listed[0].HasField("known_until")
    assert [listed[0].known_from, listed[1].known_from] == [listed[1].known_until, listed[2].known_until]
    for memory in (first, second, gone):
        request = pb.GetMemoryRequest(scope=scope, id=first.id, revision=memory.revision)
        assert memory == plain(stubs.memory.GetMemory(request, timeout=TIMEOUT).memory)


def test_a_rollback_is_a_revision_that_can_be_rolled_back(stubs: Stubs, scope: types.Scope) -> None:
    """The content is found by its old words again; a deleted memory comes back; a repetition changes nothing."""
    memory = create(stubs, scope, "The kettle is blue.", key="kettle", importance=5)
    update(stubs, scope, memory.id, content="The samovar is red.", importance=1)
    delete(stubs, scope, memory.id)

    back = rollback(stubs, scope, memory.id, 1, request_id="once")
    assert (4, "The kettle is blue.", 5, "kettle") == (back.revision, back.content, back.importance, back.key)
    assert ["The kettle is blue."] == found(stubs, scope, "kettle", mode=KEYWORD)
    assert back == plain(rollback(stubs, scope, memory.id, 1, request_id="once"))
    assert back == plain(rollback(stubs, scope, memory.id, 1))
    again = rollback(stubs, scope, memory.id, 2, expected_revision=4)
    assert (5, "The samovar is red.", 1) == (again.revision, again.content, again.importance)
    assert types.MEMORY_STATUS_DELETED == rollback(stubs, scope, memory.id, 3).status


def test_a_rollback_that_cannot_be_is_refused(stubs: Stubs, scope: types.Scope) -> None:
    """An unknown revision, another present one, a key or content that is another's by now: nothing is changed."""
    memory = create(stubs, scope, "one", key="k")
    update(stubs, scope, memory.id, content="two", key="")
    rival = create(stubs, scope, "three", key="k")
    before = list_all(stubs, scope, filter=EVERY)

    def refusal(revision: int, **request: object) -> tuple[grpc.StatusCode, str, dict[str, str]]:
        asked = history_pb.RollbackMemoryRequest(scope=scope, id=memory.id, revision=revision, **request)  # type: ignore[arg-type]
        told = refused(stubs.memory.RollbackMemory, asked)
        return told.code, told.reason, dict(told.metadata)

    names = {"memory_id": memory.id, "revision": "9"}
    assert (grpc.StatusCode.NOT_FOUND, "REVISION_NOT_FOUND", names) == refusal(9)
    assert (grpc.StatusCode.ABORTED, "REVISION_CONFLICT") == refusal(1, expected_revision=1)[:2]
    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS", {"memory_id": rival.id}) == refusal(1)
    assert before == list_all(stubs, scope, filter=EVERY)
    update(stubs, scope, rival.id, key="other", content="one")
    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS", {"memory_id": rival.id}) == refusal(1)
    request = pb.GetMemoryRequest(scope=scope, id=memory.id, revision=7)
    assert "REVISION_NOT_FOUND" == refused(stubs.memory.GetMemory, request).reason


@pytest.mark.parametrize("mode", MODES)
def test_a_search_of_the_past_finds_what_was_known(stubs: Stubs, scope: types.Scope, mode: int) -> None:
    """What was updated, deleted, superseded and created since comes out as it was, in both languages."""
    same = create(stubs, scope, "The walrus sleeps.", keywords=[types.Keyword(term="walrus")])
    changed = create(stubs, scope, "The walrus eats clams.", keywords=[types.Keyword(term="walrus")])
    gone = create(stubs, scope, "The walrus swims.", keywords=[types.Keyword(term="walrus")])
    chinese = create(stubs, scope, "海象 walrus 在冰上休息。", keywords=[types.Keyword(term="walrus")])
    moment = chinese.update_time
    update(stubs, scope, changed.id, content="Tea is hot.", keywords=[types.Keyword(term="tea")])
    update(stubs, scope, chinese.id, content="茶很热。", keywords=[types.Keyword(term="茶")])
    delete(stubs, scope, gone.id)
    create(stubs, scope, "A new walrus arrives.", keywords=[types.Keyword(term="walrus")])

    hits = search(stubs, scope, "walrus", mode=mode, as_of=known(moment), limit=100)
    assert {one.id: one for one in (same, changed, gone, chinese)} == {
        hit.memory.id: plain(hit.memory) for hit in hits.hits
    }
    assert not hits.degraded
    assert all(0.0 <= hit.score <= 1.0 for hit in hits.hits)
    if mode != SEMANTIC:
        assert "The walrus eats clams." == search(stubs, scope, "clams", mode=mode, as_of=known(moment)).hits[0].snippet
        first = search(stubs, scope, "海象休息", mode=mode, as_of=known(moment)).hits[0]
        assert "海象 walrus 在冰上休息。" == first.memory.content
        assert first.spans
    now = {"The walrus sleeps.", "A new walrus arrives."}
    assert now <= set(found(stubs, scope, "walrus", mode=mode))
    assert not {"The walrus swims.", "The walrus eats clams."} & set(found(stubs, scope, "walrus", mode=mode))


def test_pages_of_a_search_of_the_past_fit_together(stubs: Stubs, scope: types.Scope) -> None:
    """Changed and unchanged ones, each once, in one order."""
    memories = [create(stubs, scope, f"The walrus number {number} sleeps.") for number in range(7)]
    moment = memories[-1].update_time
    for memory in memories[::2]:
        update(stubs, scope, memory.id, content=f"Nothing {memory.id}")
    whole = search(stubs, scope, "walrus", as_of=known(moment), limit=100)
    ids: list[str] = []
    token = ""
    while True:
        page = search(stubs, scope, "walrus", as_of=known(moment), limit=2, page_token=token)
        ids += [hit.memory.id for hit in page.hits]
        token = page.next_page_token
        if not token:
            break

    assert ids == [hit.memory.id for hit in whole.hits]
    assert {memory.id for memory in memories} == set(ids)


def test_lists_and_gets_of_the_past(stubs: Stubs, scope: types.Scope) -> None:
    """By id, by key and as a list, with filters that look at the memories as they were."""
    one = create(stubs, scope, "one", key="k", tags=["a"])
    two = create(stubs, scope, "two", tags=["a"])
    moment = two.update_time
    update(stubs, scope, one.id, key="", tags=["b"])
    update(stubs, scope, two.id, key="k")
    three = create(stubs, scope, "three", tags=["a"])

    asked = {"scope": scope, "as_of": known(moment)}
    assert one == plain(stubs.memory.GetMemory(pb.GetMemoryRequest(key="k", **asked), timeout=TIMEOUT).memory)
    assert two == plain(stubs.memory.GetMemory(pb.GetMemoryRequest(id=two.id, **asked), timeout=TIMEOUT).memory)
    unborn = pb.GetMemoryRequest(id=three.id, **asked)
    assert "MEMORY_NOT_FOUND" == refused(stubs.memory.GetMemory, unborn).reason
    listed = list_all(stubs, scope, as_of=known(moment), filter=types.Filter(tags_any=["a"]), page_size=1)
    assert [two, one] == [plain(memory) for memory in listed]
    assert [] == list_all(stubs, scope, as_of=known(moment), filter=types.Filter(tags_any=["b"]))
    assert [] == list_all(stubs, scope, as_of=known(later(one.create_time, seconds=-1)))


@pytest.mark.parametrize("mode", MODES)
def test_the_past_of_all_sessions_is_there_for_who_asks(stubs: Stubs, user: str, mode: int) -> None:
    """What other sessions kept to themselves then, changed since or not, is found with filter.sessions, or never."""
    here, there = (types.Scope(user_id=user, session_id=name) for name in "st")
    private = types.MEMORY_LAYER_SESSION
    same = create(stubs, there, "海象 walrus 在冰上。", layer=private)
    changed = create(stubs, there, "The walrus eats clams.", layer=private)
    moment = changed.update_time
    update(stubs, there, changed.id, content="Tea is hot.")

    everyone = types.Filter(sessions=types.SESSION_VISIBILITY_ALL)
    for where, expected in ((everyone, {same.content, changed.content}), (types.Filter(), set())):
        asked = {"as_of": known(moment), "filter": where}
        assert expected == {memory.content for memory in list_all(stubs, here, **asked)}
        assert expected == set(found(stubs, here, "walrus", mode=mode, **asked))


def test_the_future_is_not_known(stubs: Stubs, scope: types.Scope) -> None:
    """Asking for what will be known is refused by its field, in every read."""
    memory = create(stubs, scope, "one")
    ahead = known(later(memory.update_time, days=1))
    requests = (
        (stubs.memory.GetMemory, pb.GetMemoryRequest(scope=scope, id=memory.id, as_of=ahead)),
        (stubs.memory.ListMemories, pb.ListMemoriesRequest(scope=scope, as_of=ahead)),
    )
    for call, request in requests:
        assert ("as_of.known_time",) == refused(call, request).fields
    with pytest.raises(grpc.RpcError):
        search(stubs, scope, "one", as_of=ahead)
    with pytest.raises(grpc.RpcError):
        checkpoint(stubs, scope, "ahead", known_time=ahead.known_time)


@pytest.mark.parametrize("mode", MODES)
def test_only_what_is_true_now_is_found(stubs: Stubs, scope: types.Scope, mode: int) -> None:
    """What ceased to be true, or is not yet, is left out unless another time, or all, is asked for."""
    present = create(stubs, scope, "Anna lives in Lisbon.").create_time
    words = {"keywords": [types.Keyword(term="anna")]}
    create(stubs, scope, "Anna lived in Porto.", valid_to=later(present, days=-10), **words)
    create(stubs, scope, "Anna will live in Faro.", valid_from=later(present, days=10), **words)
    create(stubs, scope, "Anna lived in Braga.", valid_from=later(present, days=-20), valid_to=present, **words)

    def contents(**request: object) -> set[str]:
        hits = set(found(stubs, scope, "anna", mode=mode, **request))
        chosen = {name: value for name, value in request.items() if name in {"filter", "as_of"}}
        assert hits == {memory.content for memory in list_all(stubs, scope, **chosen)}
        return hits

    lisbon, porto, faro, braga = (
        "Anna lives in Lisbon.", "Anna lived in Porto.", "Anna will live in Faro.", "Anna lived in Braga.",
    )  # fmt: skip
    assert {lisbon} == contents()
    assert {lisbon, porto, faro, braga} == contents(filter=types.Filter(include_not_valid=True))
    assert {lisbon, faro} == contents(as_of=types.AsOf(valid_time=later(present, days=11)))
    assert {lisbon, porto, braga} == contents(as_of=types.AsOf(valid_time=later(present, days=-15)))
    chosen = types.Filter(valid_to=types.TimeRange(end=later(present, days=-5)), include_not_valid=True)
    assert {porto} == contents(filter=chosen)


def test_what_was_true_once_may_become_true_again(stubs: Stubs, scope: types.Scope) -> None:
    """A memory with a valid_to is no duplicate of another, nor another of it."""
    old = create(stubs, scope, "Anna lives in Lisbon.", valid_to=Timestamp(seconds=1_000_000_000))
    new = create(stubs, scope, "Anna lives in Lisbon.")
    again = create(stubs, scope, "Anna lives in Lisbon.")

    assert old.id != new.id == again.id
    wrong = types.Memory(id=new.id, valid_from=old.valid_to, valid_to=Timestamp(seconds=5))
    refusal = refused(stubs.memory.UpdateMemory, pb.UpdateMemoryRequest(scope=scope, memory=wrong))
    assert ("memory.valid_to",) == refusal.fields
    late = types.Memory(id=old.id, valid_from=Timestamp(seconds=2_000_000_000))
    refusal = refused(stubs.memory.UpdateMemory, pb.UpdateMemoryRequest(scope=scope, memory=late))
    assert ("memory.valid_to",) == refusal.fields


def test_a_checkpoint_brings_a_project_back(stubs: Stubs, scope: types.Scope) -> None:
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
    assert expected == {one.id: one.kind for one in differences(stubs, scope, "before")}
    dry = roll_back_to(stubs, scope, "before", dry_run=True)
    assert (1, 2, 1, 1) == (dry.changed_count, dry.deleted_count, dry.restored_count, dry.unreturned_count)
    assert expected.keys() == {one.id for one in differences(stubs, scope, "before")}

    then = {one.id: plain(one).content for one in list_all(stubs, scope)}
    done = roll_back_to(stubs, scope, "before", request_id="back")
    assert (1, 2, 1, 1) == (done.changed_count, done.deleted_count, done.restored_count, done.unreturned_count)
    assert [(purged.id, "PURGED")] == [(one.id, one.reason) for one in done.unreturned]
    assert {stays.id, changes.id, leaves.id} == {one.id for one in list_all(stubs, scope)}
    assert ("changes 记忆", "changes") == ((back := get(stubs, scope, changes.id)).content, back.key)
    assert "leaves 记忆" in found(stubs, scope, "leaves", mode=KEYWORD)
    assert [(purged.id, PURGED)] == [(one.id, one.kind) for one in differences(stubs, scope, "before")]
    assert done == roll_back_to(stubs, scope, "before", request_id="back")

    undone = roll_back_to(stubs, scope, done.undo_checkpoint)
    assert (1, 1, 2) == (undone.changed_count, undone.deleted_count, undone.restored_count)
    assert then == {one.id: plain(one).content for one in list_all(stubs, scope)}
    names = stubs.lifecycle.ListCheckpoints(
        history_pb.ListCheckpointsRequest(scope=scope, page_size=2), timeout=TIMEOUT
    )
    token = names.next_page_token
    rest = stubs.lifecycle.ListCheckpoints(
        history_pb.ListCheckpointsRequest(scope=scope, page_size=2, page_token=token), timeout=TIMEOUT
    )
    assert [undone.undo_checkpoint, done.undo_checkpoint, "before"] == [
        one.name for one in (*names.checkpoints, *rest.checkpoints)
    ]


def test_keys_that_were_swapped_are_swapped_back(stubs: Stubs, scope: types.Scope) -> None:
    """Memories that wait for each other's keys do not wait for ever; a key that a private line took stays its."""
    one, two = (create(stubs, scope, name, key=name) for name in ("one", "two"))
    taken = create(stubs, scope, "three", key="three")
    moment = checkpoint(stubs, scope, "apart").known_time
    update(stubs, scope, one.id, key="")
    for memory_id, key in ((one.id, "between"), (two.id, "one"), (one.id, "two"), (taken.id, "four")):
        update(stubs, scope, memory_id, key=key)
    talk = types.Scope(user_id=scope.user_id, session_id="s")
    create(stubs, talk, "private", key="three", layer=types.MEMORY_LAYER_SESSION)

    done = roll_back_to(stubs, scope, "apart")
    assert {one.id: "one", two.id: "two", taken.id: "four"} == {
        memory.id: memory.key for memory in list_all(stubs, scope)
    }
    assert [(taken.id, "MEMORY_EXISTS", "")] == [(un.id, un.reason, un.in_the_way) for un in done.unreturned]
    assert {"one", "two", "three"} == {memory.key for memory in list_all(stubs, scope, as_of=known(moment))}


def test_checkpoints_are_named_once_and_known_by_name(stubs: Stubs, scope: types.Scope) -> None:
    """A second one of a name, an unknown one, one of another project: clear errors, nothing changed."""
    memory = create(stubs, scope, "one")
    past = checkpoint(stubs, scope, "a", known_time=later(memory.create_time, seconds=-1))
    assert past.known_time.ToDatetime() < past.create_time.ToDatetime()
    again = history_pb.CreateCheckpointRequest(scope=scope, name="a")
    assert "CHECKPOINT_EXISTS" == refused(stubs.lifecycle.CreateCheckpoint, again).reason
    elsewhere = types.Scope(user_id=scope.user_id, project_id="p")
    for call, request in (
        (stubs.lifecycle.DiffCheckpoint, history_pb.DiffCheckpointRequest),
        (stubs.lifecycle.RollbackToCheckpoint, history_pb.RollbackToCheckpointRequest),
    ):
        for where, name in ((scope, "b"), (elsewhere, "a")):
            refusal = refused(call, request(scope=where, checkpoint=name))
            assert ("CHECKPOINT_NOT_FOUND", {"checkpoint": name}) == (refusal.reason, dict(refusal.metadata))
    assert [memory] == [plain(one) for one in list_all(stubs, scope)]
    assert [(memory.id, CREATED)] == [(one.id, one.kind) for one in differences(stubs, scope, "a")]


def test_trimmed_messages_never_lose_both_their_place_and_their_summary(stubs: Stubs, user: str) -> None:
    """Back before a trim, a project keeps the summary; from within the session the messages are live again instead."""
    project, here = place(user, "", "p"), place(user, "s", "p")
    open_session(stubs, here, token_limit=1_000)
    append(stubs, here, [say(f"第{number}步用 Redis 缓存。", token_count=100) for number in range(5)])
    checkpoint(stubs, project, "before")
    summary = trim(stubs, here, target_tokens=0, keep_rounds=1).summary

    roll_back_to(stubs, project, "before")
    assert types.MEMORY_STATUS_ACTIVE == get(stubs, project, summary.id).status
    archived = [one for one in said(stubs, here, include_archived=True) if one.archived]
    assert [summary.id] * 4 == [one.summary_id for one in archived]

    roll_back_to(stubs, here, "before")
    live = said(stubs, here)
    assert ([""] * 5, 500) == ([one.summary_id for one in live], show(stubs, here).token_count)
    assert summary.id not in {one.id for one in list_all(stubs, here)}
