"""Deletions and updates by filter: seen first, refused when changed since, in batches, undone as any revision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from memsvc.v1 import errors_pb2 as errors_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, create_all, found, get, list_all, refused
from tests.support.server_process import Stubs
from tests.support.sessions import append, open_session, place, said, say
from tests.support.until import until

INVALID, ABORTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED
DELETED = types_pb.MEMORY_STATUS_DELETED
_READS = 25
NONSENSE = "nonsense"
FOOD = filters_pb.Filter(categories=["food"])


def memories(stubs: Stubs, scope: types_pb.Scope, count: int = 3, **fields: Any) -> list[types_pb.Memory]:
    """Store memories of the category food in both languages, and one of another."""
    texts = [f"Pear number {n} is ripe." if n % 2 else f"第{n}个梨熟了。" for n in range(count)]
    stored = create_all(stubs, scope, [types_pb.Memory(content=text, category="food", **fields) for text in texts])
    create(stubs, scope, "The gate is green.", category="garden")
    return stored


def preview_of(stubs: Stubs, request: Any) -> memory_pb.SelectionPreview:
    """Return what a dry run finds; it is the only event."""
    dry = type(request)()
    dry.CopyFrom(request)
    dry.dry_run = True
    [event] = _call(stubs, request)(dry, timeout=TIMEOUT)
    preview: memory_pb.SelectionPreview = event.preview
    return preview


def apply(stubs: Stubs, request: Any, token: str = "") -> memory_pb.SelectionSummary:
    """Make a dry run and then the change; return its summary, which comes last and once."""
    real = type(request)()
    real.CopyFrom(request)
    real.selection_token = token or preview_of(stubs, request).selection_token
    events = list(_call(stubs, request)(real, timeout=TIMEOUT))
    assert [event.WhichOneof("event") for event in events][-1] == "summary"
    assert {event.WhichOneof("event") for event in events[:-1]} == {"progress"}
    done = [event.progress.done_count for event in events[:-1]]
    assert done == sorted(done)
    summary: memory_pb.SelectionSummary = events[-1].summary
    assert summary.matched_count == summary.changed_count + summary.unchanged_count + summary.failed_count
    return summary


def _call(stubs: Stubs, request: Any) -> Any:
    is_deletion = isinstance(request, memory_pb.DeleteMemoriesRequest)
    return stubs.memory.DeleteMemories if is_deletion else stubs.memory.UpdateMemories


def deletion(scope: types_pb.Scope, chosen: filters_pb.Filter = FOOD) -> memory_pb.DeleteMemoriesRequest:
    """Return a deletion."""
    return memory_pb.DeleteMemoriesRequest(scope=scope, filter=chosen)


def update(scope: types_pb.Scope, chosen: filters_pb.Filter = FOOD, **fields: Any) -> memory_pb.UpdateMemoriesRequest:
    """Return an update."""
    return memory_pb.UpdateMemoriesRequest(scope=scope, filter=chosen, **fields)


def test_a_dry_run_counts_and_changes_nothing(stubs: Stubs, scope: types_pb.Scope) -> None:
    """It tells how many match, by status and layer, and shows the last written ones first."""
    stored = memories(stubs, scope, 12)
    archived = types_pb.Memory(id=stored[0].id, status=types_pb.MEMORY_STATUS_ARCHIVED)
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=archived), timeout=TIMEOUT)
    chosen = filters_pb.Filter(categories=["food"], statuses=[1, 2], tiers=[1, 2, 3, 4])

    preview = preview_of(stubs, deletion(scope, chosen))

    assert preview.matched_count == 12
    assert dict(preview.count_by_status) == {"ACTIVE": 11, "ARCHIVED": 1}
    assert dict(preview.count_by_layer) == {"LONG_TERM": 12}
    assert [one.id for one in preview.sample] == [one.id for one in reversed(stored[2:])]
    assert preview.selection_token
    assert {one.revision for one in list_all(stubs, scope)} == {1}


def test_a_purge_leaves_nothing_of_what_matched(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Deleted ones too where the filter names them; the token of a plain deletion does not do for it."""
    stored = memories(stubs, scope)
    apply(stubs, deletion(scope))
    statuses = [types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_DELETED]
    chosen = filters_pb.Filter(categories=list(FOOD.categories), statuses=statuses)
    request = memory_pb.DeleteMemoriesRequest(scope=scope, filter=chosen, purge=True)
    soft = memory_pb.DeleteMemoriesRequest(scope=scope, filter=chosen)
    soft.selection_token = preview_of(stubs, request).selection_token
    assert refused(stubs.memory.DeleteMemories, soft).fields == ("selection_token",)

    summary = apply(stubs, request)

    assert (summary.matched_count, summary.changed_count, summary.failed_count) == (3, 3, 0)
    assert [one.category for one in list_all(stubs, scope)] == ["garden"]
    for memory in stored:
        gone = [
            refused(stubs.memory.ListRevisions, memory_pb.ListRevisionsRequest(scope=scope, id=memory.id)).reason,
            refused(stubs.memory.RestoreMemory, memory_pb.RestoreMemoryRequest(scope=scope, id=memory.id)).reason,
        ]
        assert gone == ["MEMORY_NOT_FOUND"] * 2


def test_a_purge_counts_originals_that_went_with_their_merged_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """All of them match, whichever is purged first."""
    for content in ("I am allergic to walnuts.", "I’m allergic to walnuts."):
        create(stubs, scope, content, category="food")
    stubs.lifecycle.ConsolidateMemories(lifecycle_pb.ConsolidateMemoriesRequest(scope=scope), timeout=TIMEOUT)
    statuses = [types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_ARCHIVED]
    chosen = filters_pb.Filter(categories=["food"], statuses=statuses)
    request = memory_pb.DeleteMemoriesRequest(scope=scope, filter=chosen, purge=True)

    summary = apply(stubs, request)

    assert (summary.matched_count, summary.changed_count, summary.failed_count) == (3, 3, 0)
    assert list_all(stubs, scope, filter=chosen) == []


def test_a_deletion_removes_what_matched_and_nothing_else(stubs: Stubs, scope: types_pb.Scope) -> None:
    """In lists and in searches, as a revision of each; the summary's token makes searches see it."""
    stored = memories(stubs, scope)
    assert {one.content for one in stored} <= set(found(stubs, scope, "pear 梨"))

    summary = apply(stubs, deletion(scope))

    assert (summary.matched_count, summary.changed_count, summary.failed_count) == (3, 3, 0)
    assert [one.category for one in list_all(stubs, scope)] == ["garden"]
    hits = found(stubs, scope, "pear 梨", consistency_token=summary.consistency_token)
    assert not set(hits) & {one.content for one in stored}
    revisions = memory_pb.ListRevisionsRequest(scope=scope, id=stored[0].id)
    history = stubs.memory.ListRevisions(revisions, timeout=TIMEOUT).revisions
    assert [one.action for one in history] == [
        memory_pb.REVISION_ACTION_DELETED,
        memory_pb.REVISION_ACTION_CREATED,
    ]


def test_a_deletion_is_undone_one_by_one_or_as_a_whole(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By a restore, by a rollback to a revision, and by a rollback to a checkpoint."""
    stored = memories(stubs, scope, 4)
    make = lifecycle_pb.CreateCheckpointRequest(scope=scope, name="before")
    stubs.lifecycle.CreateCheckpoint(make, timeout=TIMEOUT)
    apply(stubs, deletion(scope))

    restore = memory_pb.RestoreMemoryRequest(scope=scope, id=stored[0].id)
    stubs.memory.RestoreMemory(restore, timeout=TIMEOUT)
    back = memory_pb.RollbackMemoryRequest(scope=scope, id=stored[1].id, revision=1)
    stubs.memory.RollbackMemory(back, timeout=TIMEOUT)
    assert {one.id for one in list_all(stubs, scope, filter=FOOD)} == {one.id for one in stored[:2]}

    whole = lifecycle_pb.RollbackToCheckpointRequest(scope=scope, checkpoint="before")
    stubs.lifecycle.RollbackToCheckpoint(whole, timeout=TIMEOUT)
    assert {one.id for one in list_all(stubs, scope, filter=FOOD)} == {one.id for one in stored}


@pytest.mark.parametrize("change", ["added", "changed", "deleted"])
def test_what_has_changed_since_is_refused(stubs: Stubs, scope: types_pb.Scope, change: str) -> None:
    """Another memory, another revision or one memory less: nothing is changed then."""
    stored = memories(stubs, scope)
    token = preview_of(stubs, deletion(scope)).selection_token
    if change == "added":
        create(stubs, scope, "A plum.", category="food")
    elif change == "changed":
        changed = types_pb.Memory(id=stored[0].id, importance=5)
        stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=changed), timeout=TIMEOUT)
    else:
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=stored[0].id), timeout=TIMEOUT)
    before = list_all(stubs, scope)
    request = deletion(scope)
    request.selection_token = token

    refusal = refused(lambda *args, **kw: list(stubs.memory.DeleteMemories(*args, **kw)), request)

    assert (refusal.code, refusal.reason) == (ABORTED, "SELECTION_CHANGED")
    counts = {"added": "4", "changed": "3", "deleted": "2"}
    assert dict(refusal.metadata) == {"expected_count": "3", "matched_count": counts[change]}
    assert list_all(stubs, scope) == before


def test_a_token_is_good_once_and_for_its_request_alone(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Repeated it finds what it selected changed; with another filter, scope or change it is refused."""
    memories(stubs, scope)
    token = preview_of(stubs, deletion(scope)).selection_token
    other = types_pb.Scope(user_id=scope.user_id, project_id="p")
    for request in (
        deletion(scope, filters_pb.Filter(categories=["garden"])),
        deletion(other),
        update(scope, add_tags=["x"]),
    ):
        request.selection_token = token
        refusal = refused(lambda *args, request=request, **kw: list(_call(stubs, request)(*args, **kw)), request)
        assert (refusal.code, refusal.fields) == (INVALID, ("selection_token",))

    assert apply(stubs, deletion(scope), token).changed_count == 3
    again = deletion(scope)
    again.selection_token = token
    refusal = refused(lambda *args, **kw: list(stubs.memory.DeleteMemories(*args, **kw)), again)
    assert refusal.reason == "SELECTION_CHANGED"


def test_fields_and_tags_are_changed_in_all(stubs: Stubs, scope: types_pb.Scope) -> None:
    """New values for all, tags beside those that each has; a memory that has them already stays as it is."""
    one, other = memories(stubs, scope, 2, tags=["old"])
    same = create(stubs, scope, "Same already.", category="food", tags=["new", "新"], importance=5)
    request = update(scope, memory=types_pb.Memory(importance=5), add_tags=["new", "新"], remove_tags=["old", "gone"])

    summary = apply(stubs, request)

    assert (summary.matched_count, summary.changed_count, summary.unchanged_count) == (3, 2, 1)
    for memory in (get(stubs, scope, one.id), get(stubs, scope, other.id)):
        assert (memory.importance, list(memory.tags), memory.revision) == (5, ["new", "新"], 2)
    assert get(stubs, scope, same.id).revision == 1


def test_a_mask_clears_and_archives(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A listed field without a value gets its default; a status can be set."""
    one, _ = memories(stubs, scope, 2, metadata={"n": 3}, title="Fruit")
    mask = FieldMask(paths=["title", "metadata", "status"])
    archived = types_pb.Memory(status=types_pb.MEMORY_STATUS_ARCHIVED)
    chosen = filters_pb.Filter(metadata_ranges=[filters_pb.MetadataRange(path="n", at_least=3)])

    assert apply(stubs, update(scope, chosen, memory=archived, update_mask=mask)).changed_count == 2

    memory = get(stubs, scope, one.id)
    assert (memory.title, memory.HasField("metadata"), memory.status) == ("", False, types_pb.MEMORY_STATUS_ARCHIVED)


def test_one_that_cannot_be_changed_does_not_hinder_the_others(stubs: Stubs, scope: types_pb.Scope) -> None:
    """It is named with its error: one with as many tags as there may be, and one that was superseded."""
    full = create(stubs, scope, "Full of tags.", category="food", tags=[f"t{n}" for n in range(32)])
    old = create(stubs, scope, "The old plan.", category="food")
    supersede = memory_pb.SupersedeMemoryRequest(
        scope=scope, id=old.id, memory=types_pb.Memory(content="The new plan.", category="plan")
    )
    stubs.memory.SupersedeMemory(supersede, timeout=TIMEOUT)
    kept = create(stubs, scope, "Free.", category="food")
    chosen = filters_pb.Filter(categories=["food"], statuses=[1, 4])
    active = types_pb.Memory(status=types_pb.MEMORY_STATUS_ACTIVE)

    summary = apply(stubs, update(scope, chosen, memory=active, add_tags=["x"]))

    assert (summary.changed_count, summary.failed_count) == (1, 2)
    assert {one.memory_id: errors_pb.ErrorReason.Name(one.status.reason) for one in summary.failures} == {
        full.id: "ERROR_REASON_INVALID_REQUEST",
        old.id: "ERROR_REASON_MEMORY_SUPERSEDED",
    }
    assert list(get(stubs, scope, kept.id).tags) == ["x"]


def test_many_are_changed_in_batches_with_progress(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The progress comes after each batch of 50; a call that is given up between leaves whole memories only."""
    stored = memories(stubs, scope, 230)
    request = update(scope, add_tags=["seen"])
    request.selection_token = preview_of(stubs, request).selection_token

    call = stubs.memory.UpdateMemories(request, timeout=TIMEOUT)
    seen = _until_progress(call, 50)
    call.cancel()
    tagged = filters_pb.Filter(categories=["food"], tags_any=["seen"])
    count = _settled(lambda: len(list_all(stubs, scope, filter=tagged)))

    assert seen <= count <= 230
    assert count % 50 == 0 or count == 230
    assert {one.revision for one in list_all(stubs, scope, filter=tagged)} == {2}
    summary = apply(stubs, request_without_token(request))
    assert (summary.matched_count, summary.changed_count) == (230, 230 - count)
    assert len(stored) == len(list_all(stubs, scope, filter=tagged))


def request_without_token(request: memory_pb.UpdateMemoriesRequest) -> memory_pb.UpdateMemoriesRequest:
    """Return the same change, not yet seen."""
    copy = memory_pb.UpdateMemoriesRequest()
    copy.CopyFrom(request)
    copy.selection_token = ""
    return copy


def _settled(read: Callable[[], int]) -> int:
    """Return what *read* returns once the batch that was under way has ended: it stays the same many times."""
    seen: list[int] = []

    def is_settled() -> bool:
        seen.append(read())
        return len(seen) > _READS and len(set(seen[-_READS:])) == 1

    until(is_settled)
    return seen[-1]


def _until_progress(call: Iterator[memory_pb.UpdateMemoriesResponse], least: int) -> int:
    for response in call:
        if response.progress.done_count >= least:
            return response.progress.done_count
    pytest.fail("no progress")


def test_watchers_see_each_change(stubs: Stubs, scope: types_pb.Scope) -> None:
    """As of any other deletion, once each."""
    stored = memories(stubs, scope)
    watch = memory_pb.WatchMemoriesRequest(scope=scope, filter=FOOD)
    call = stubs.memory.WatchMemories(watch, timeout=TIMEOUT)
    assert next(call).HasField("heartbeat")
    apply(stubs, deletion(scope))

    changes = [next(call).change for _ in stored]
    call.cancel()

    assert [one.memory_id for one in changes] == [one.id for one in stored]
    assert {one.action for one in changes} == {memory_pb.MEMORY_CHANGE_ACTION_DELETED}


def test_scope_and_privacy_are_those_of_a_list(stubs: Stubs, user: str) -> None:
    """Other users, other projects and private messages of other sessions stay, unless all sessions are asked for."""
    mine, theirs = types_pb.Scope(user_id=user, project_id="p"), types_pb.Scope(user_id=f"{user}-2", project_id="p")
    elsewhere = types_pb.Scope(user_id=user, project_id="q")
    for scope in (mine, theirs, elsewhere):
        create(stubs, scope, "A pear.", category="food")
    talk = place(user, "talk", "p")
    open_session(stubs, talk)
    append(stubs, talk, [say("A private pear."), say("悄悄话。")])
    everything = filters_pb.Filter(project_visibility=filters_pb.PROJECT_VISIBILITY_PROJECT)

    assert apply(stubs, deletion(mine, everything)).changed_count == 1
    assert [len(list_all(stubs, scope)) for scope in (mine, theirs, elsewhere)] == [0, 1, 1]
    assert len(said(stubs, talk)) == 2

    everything.session_visibility = filters_pb.SESSION_VISIBILITY_ALL
    assert apply(stubs, deletion(mine, everything)).changed_count == 2
    assert said(stubs, talk) == []


def test_a_deletion_of_nothing_is_no_error(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Neither is one of what is deleted already: it stays as it is."""
    assert preview_of(stubs, deletion(scope)).matched_count == 0
    assert apply(stubs, deletion(scope)).matched_count == 0
    memories(stubs, scope, 2)
    apply(stubs, deletion(scope))
    chosen = filters_pb.Filter(categories=["food"], statuses=[DELETED])

    summary = apply(stubs, deletion(scope, chosen))

    assert (summary.matched_count, summary.unchanged_count) == (2, 2)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (memory_pb.DeleteMemoriesRequest(), {"scope.user_id", "selection_token"}),
        (memory_pb.DeleteMemoriesRequest(dry_run=True, selection_token=NONSENSE), {"scope.user_id", "selection_token"}),
        (memory_pb.DeleteMemoriesRequest(selection_token=NONSENSE), {"scope.user_id", "selection_token"}),
        (
            memory_pb.DeleteMemoriesRequest(filter=filters_pb.Filter(ids=["x"]), dry_run=True),
            {"scope.user_id", "filter.ids[0]"},
        ),
        (memory_pb.UpdateMemoriesRequest(dry_run=True), {"scope.user_id", "update_mask"}),
        (
            memory_pb.UpdateMemoriesRequest(
                dry_run=True, memory=types_pb.Memory(id="x", key="k", content="c", importance=9)
            ),
            {"scope.user_id", "memory.id", "memory.key", "memory.content", "memory.importance"},
        ),
        (
            memory_pb.UpdateMemoriesRequest(dry_run=True, update_mask=FieldMask(paths=["content", "nothing"])),
            {"scope.user_id", "update_mask.paths[0]", "update_mask.paths[1]"},
        ),
        (
            memory_pb.UpdateMemoriesRequest(
                dry_run=True, memory=types_pb.Memory(tags=["a"]), add_tags=["x" * 65, "y"], remove_tags=["y"]
            ),
            {"scope.user_id", "add_tags[0]", "add_tags", "remove_tags"},
        ),
    ],
)
def test_wrong_input_is_named(stubs: Stubs, request_: Any, fields: set[str]) -> None:
    """Every wrong field is named, and nothing is changed."""
    refusal = refused(lambda *args, **kw: list(_call(stubs, request_)(*args, **kw)), request_)

    assert (refusal.code, fields) == (INVALID, fields & set(refusal.fields))
