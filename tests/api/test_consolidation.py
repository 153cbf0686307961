"""Merging memories that say the same, parting them again, and summing up, over the wire."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, create_all, found, get, list_all, refused
from tests.support.server_process import Stubs

ACTIVE, ARCHIVED, DELETED = (
    types_pb.MEMORY_STATUS_ACTIVE,
    types_pb.MEMORY_STATUS_ARCHIVED,
    types_pb.MEMORY_STATUS_DELETED,
)
SAID = (
    (("I really enjoy alpine hiking.", "The user likes alpine hiking"), "The user likes alpine skiing", "hiking"),
    (("用户非常喜欢在山里徒步。", "我很喜爱在山里徒步"), "我很喜爱在山里滑雪", "徒步"),
)


def consolidate(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> lifecycle_pb.ConsolidateMemoriesResponse:
    """Merge what says the same."""
    return stubs.lifecycle.ConsolidateMemories(
        lifecycle_pb.ConsolidateMemoriesRequest(scope=scope, **request), timeout=TIMEOUT
    )


def undo(stubs: Stubs, scope: types_pb.Scope, memory_id: str, **request: Any) -> lifecycle_pb.UndoConsolidationResponse:
    """Take a merged memory apart."""
    asked = lifecycle_pb.UndoConsolidationRequest(scope=scope, id=memory_id, **request)
    return stubs.lifecycle.UndoConsolidation(asked, timeout=TIMEOUT)


def summarize(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> lifecycle_pb.SummarizePeriodResponse:
    """Sum up."""
    asked = lifecycle_pb.SummarizePeriodRequest(scope=scope, **request)
    return stubs.lifecycle.SummarizePeriod(asked, timeout=TIMEOUT)


def plain(memory: types_pb.Memory) -> types_pb.Memory:
    """Return a memory without what is new with every revision."""
    copy = types_pb.Memory()
    copy.CopyFrom(memory)
    for name in ("revision", "update_time", "access_count", "access_time"):
        copy.ClearField(name)
    return copy


@pytest.mark.parametrize(("same", "other", "query"), SAID)
def test_same_is_found_once_and_comes_back(
    stubs: Stubs, user: str, same: tuple[str, str], other: str, query: str
) -> None:
    """A search finds the merged memory; after the undo both originals, field by field as they were."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    rehearsal = create_all(stubs, scope, [*same, other])
    originals = rehearsal[:2]
    planned = consolidate(stubs, scope, dry_run=True)
    done = consolidate(stubs, scope)

    [group], [expected] = done.groups, planned.groups
    assert (same[1], "", 0) == (expected.merged.content, expected.merged.id, expected.merged.revision)
    assert [original.id for original in expected.originals] == [original.id for original in group.originals]
    assert [ARCHIVED] * 2 == [original.status for original in group.originals]
    assert {group.merged.id} == {get(stubs, scope, original.id).superseded_by_id for original in originals}
    assert {original.id for original in originals} == set(group.merged.derived_from_ids)
    assert (3, 0, "") == (done.examined_count, done.skipped_count, done.next_page_token)
    assert {same[1], other} == {memory.content for memory in list_all(stubs, scope)}
    assert same[1] == found(stubs, scope, query)[0]
    assert same[0] not in found(stubs, scope, query)

    reply = undo(stubs, scope, group.merged.id)
    assert (DELETED, group.merged.id) == (reply.merged.status, reply.merged.id)
    for before in originals:
        after = get(stubs, scope, before.id)
        assert (plain(before), before.revision + 2) == (plain(after), after.revision)
    assert set(same) <= set(found(stubs, scope, query))
    assert [] == list(consolidate(stubs, scope).groups)
    for memory_id in (group.merged.id, *(one.id for one in originals)):
        request = lifecycle_pb.UndoConsolidationRequest(scope=scope, id=memory_id)
        assert "undone already" in str(refused(stubs.lifecycle.UndoConsolidation, request))


def test_requests_are_done_once(stubs: Stubs, user: str) -> None:
    """A repetition gets the same answer; the id cannot be used for something else."""
    scope, request_id = types_pb.Scope(user_id=user), str(uuid.uuid4())
    create_all(stubs, scope, ["I enjoy alpine hiking.", "The user likes alpine hiking"])
    first = consolidate(stubs, scope, request_id=request_id)
    again = consolidate(stubs, scope, request_id=request_id)
    [group] = first.groups

    assert ([group], first.examined_count) == (list(again.groups), again.examined_count)
    reused = lifecycle_pb.ConsolidateMemoriesRequest(scope=scope, request_id=request_id, threshold=0.9)
    assert "REQUEST_ID_REUSED" == refused(stubs.lifecycle.ConsolidateMemories, reused).reason
    parted = undo(stubs, scope, group.merged.id, request_id=request_id)
    assert parted == undo(stubs, scope, group.merged.id, request_id=request_id)
    create(stubs, scope, "The walrus sings.")
    summary = summarize(stubs, scope, topic="walrus", request_id=request_id)
    assert summary == summarize(stubs, scope, topic="walrus", request_id=request_id)


def test_a_changed_merged_memory_is_not_undone_by_accident(stubs: Stubs, user: str) -> None:
    """The error tells its revision, and with that it can be undone; what was changed stays in its revisions."""
    scope = types_pb.Scope(user_id=user)
    create_all(stubs, scope, ["I enjoy alpine hiking.", "The user likes alpine hiking"])
    [group] = consolidate(stubs, scope).groups
    edited = types_pb.Memory(id=group.merged.id, content="I like hiking in the Alps.")
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=edited), timeout=TIMEOUT)
    request = lifecycle_pb.UndoConsolidationRequest(scope=scope, id=group.merged.id)
    refusal = refused(stubs.lifecycle.UndoConsolidation, request)

    assert (grpc.StatusCode.ABORTED, "REVISION_CONFLICT") == (refusal.code, refusal.reason)
    reply = undo(stubs, scope, group.merged.id, expected_revision=int(refusal.metadata["revision"]))
    assert [ACTIVE, ACTIVE] == [original.status for original in reply.originals]
    assert "I like hiking in the Alps." == reply.merged.content


def test_pages_lead_through_all_memories(stubs: Stubs, user: str) -> None:
    """A call that has merged enough says where to go on; the token is of no other request."""
    scope = types_pb.Scope(user_id=user)
    for number in range(2):
        names = [f"Number {number}{place}" for place in range(40)]
        create_all(stubs, scope, [*(f"{name} is here" for name in names), *(f"The {name} is here!" for name in names)])
    groups, token, calls = 0, "", 0
    while token or not calls:
        page = consolidate(stubs, scope, page_size=1, page_token=token)
        groups, token, calls = groups + len(page.groups), page.next_page_token, calls + 1
        if token:
            foreign = lifecycle_pb.ConsolidateMemoriesRequest(scope=scope, threshold=0.9, page_token=token)
            assert ("page_token",) == refused(stubs.lifecycle.ConsolidateMemories, foreign).fields

    assert (80, True) == (groups, calls > 1)


def test_nobody_merges_or_parts_what_is_of_others(stubs: Stubs, user: str) -> None:
    """Not over users, not over projects; another user's merged memory is not there."""
    homes = [
        types_pb.Scope(user_id=user),
        types_pb.Scope(user_id=f"{user}-2"),
        types_pb.Scope(user_id=user, project_id="p"),
    ]
    for home in homes:
        create(stubs, home, "I enjoy alpine hiking.")
    private = types_pb.Scope(user_id=user, session_id="s")
    create(stubs, private, "The user likes alpine hiking", layer=types_pb.MEMORY_LAYER_SESSION)
    assert [] == [group for home in (*homes, private) for group in consolidate(stubs, home, threshold=0.0).groups]

    create(stubs, homes[0], "The user likes alpine hiking")
    [group] = consolidate(stubs, homes[0]).groups
    for memory_id in (group.merged.id, group.originals[0].id):
        request = lifecycle_pb.UndoConsolidationRequest(scope=homes[1], id=memory_id)
        assert grpc.StatusCode.NOT_FOUND == refused(stubs.lifecycle.UndoConsolidation, request).code
    assert (
        "NOTHING_TO_SUMMARIZE"
        == refused(
            stubs.lifecycle.SummarizePeriod, lifecycle_pb.SummarizePeriodRequest(scope=homes[1], topic="skiing")
        ).reason
    )


@pytest.mark.parametrize(
    ("said", "topic", "word"),
    [
        (
            ("We decided to spend 400 euros on chairs.", "The chairs arrive on 5 May.", "Lunch was fine."),
            "Chairs",
            "400",
        ),
        (("我们决定花400元买椅子。", "椅子五月五日到货。", "午饭很不错。"), "椅子", "400"),
    ],
)
def test_topic_is_summed_up_and_kept_up_to_date(
    stubs: Stubs, user: str, said: tuple[str, ...], topic: str, word: str
) -> None:
    """Under one key, of its memories; searches find the summary."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    memories = create_all(stubs, scope, said)
    month = memories[0].create_time.ToDatetime().strftime("%Y-%m")
    first = summarize(stubs, scope, month=month, topic=topic)

    assert (f"summary/{month}/{topic.casefold()}", 2) == (first.memory.key, first.source_count)
    assert {memory.id for memory in memories[:2]} == set(first.memory.derived_from_ids)
    assert (types_pb.WRITE_OUTCOME_CREATED, types_pb.MEMORY_KIND_SUMMARY) == (first.outcome, first.memory.kind)
    assert word in first.memory.content
    # Of the same month, whatever the time is.
    create(stubs, scope, f"{topic} 77 {said[0]}", event_time=memories[0].create_time)
    second = summarize(stubs, scope, month=month, topic=topic)
    assert (first.memory.id, types_pb.WRITE_OUTCOME_UPDATED, 3) == (
        second.memory.id,
        second.outcome,
        second.source_count,
    )
    assert "77" in second.memory.content


def test_maintenance_compacts_old_logs(stubs: Stubs, user: str) -> None:
    """The log is archived and readable by its key; a search finds what sums it up."""
    scope = types_pb.Scope(user_id=user)
    day = (datetime.now(UTC) - timedelta(days=9)).date().isoformat()
    log = create(stubs, scope, "Met Anna: the quagga budget is 400 euros.\nLunch was fine.", key=f"daily/{day}")
    request = lifecycle_pb.RunMaintenanceRequest(scope=scope, steps=[lifecycle_pb.MAINTENANCE_STEP_COMPACT])
    told = list(stubs.lifecycle.RunMaintenance(request, timeout=TIMEOUT))

    assert [log.id] == [change.memory_id for response in told for change in response.changes]
    kept = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key=log.key), timeout=TIMEOUT).memory
    assert (log.id, log.content, ARCHIVED) == (kept.id, kept.content, kept.status)
    [summary] = list_all(stubs, scope)
    assert (f"summary/{log.key}", [log.id], [summary.id]) == (
        summary.key, list(summary.derived_from_ids), list(kept.related_ids),
    )  # fmt: skip


U = types_pb.Scope(user_id="u")
ID = str(uuid.UUID(int=7))
BACKWARDS = types_pb.TimeRange(start={"seconds": 2}, end={"seconds": 1})  # type: ignore[arg-type]  # dicts do as well
WRONG: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("ConsolidateMemories", {"page_size": 201, "threshold": 1.1, "wait_for": 9},
     ("page_size", "scope.user_id", "threshold", "wait_for")),
    ("ConsolidateMemories", {"scope": U, "page_size": -1, "threshold": float("nan"), "request_id": "x" * 129},
     ("page_size", "request_id", "threshold")),
    ("ConsolidateMemories", {"scope": U, "page_token": "x"}, ("page_token",)),
    ("ConsolidateMemories", {"scope": types_pb.Scope(user_id="a\n", project_id="\x7f", session_id="x" * 129)},
     ("scope.project_id", "scope.session_id", "scope.user_id")),
    ("UndoConsolidation", {}, ("id", "scope.user_id")),
    ("UndoConsolidation", {"scope": U, "id": "x", "expected_revision": -1, "wait_for": 3, "request_id": "x" * 129},
     ("expected_revision", "id", "request_id", "wait_for")),
    ("SummarizePeriod", {}, ("month", "scope.user_id")),
    ("SummarizePeriod", {"scope": U}, ("month",)),
    ("SummarizePeriod", {"scope": U, "time_range": types_pb.TimeRange()}, ("month",)),
    ("SummarizePeriod", {"scope": U, "topic": " "}, ("month",)),
    ("SummarizePeriod", {"scope": U, "month": "2026-13", "topic": "x" * 129, "max_tokens": 19},
     ("max_tokens", "month", "topic")),
    ("SummarizePeriod", {"scope": U, "month": "2026-2", "max_tokens": 10_001}, ("max_tokens", "month")),
    ("SummarizePeriod", {"scope": U, "time_range": BACKWARDS, "topic": "\x00"}, ("time_range.end", "topic")),
    ("SummarizePeriod", {"scope": U, "topic": "x", "wait_for": -1, "request_id": "x" * 129}, ("request_id", "wait_for")),
]  # fmt: skip
REQUESTS: dict[str, Any] = {
    "ConsolidateMemories": lifecycle_pb.ConsolidateMemoriesRequest,
    "UndoConsolidation": lifecycle_pb.UndoConsolidationRequest,
    "SummarizePeriod": lifecycle_pb.SummarizePeriodRequest,
}


@pytest.mark.parametrize(("method", "fields", "paths"), WRONG)
def test_all_that_is_wrong_is_named(stubs: Stubs, method: str, fields: dict[str, Any], paths: tuple[str, ...]) -> None:
    """At once, by the paths of the fields; nothing is done."""
    refusal = refused(getattr(stubs.lifecycle, method), REQUESTS[method](**fields))

    assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason)
    assert paths == tuple(sorted(refusal.fields))


def test_what_no_consolidation_made_is_not_undone(stubs: Stubs, user: str) -> None:
    """The error names the field."""
    scope = types_pb.Scope(user_id=user)
    memory = create(stubs, scope, "The walrus sings.")
    refusal = refused(
        stubs.lifecycle.UndoConsolidation, lifecycle_pb.UndoConsolidationRequest(scope=scope, id=memory.id)
    )
    missing = lifecycle_pb.UndoConsolidationRequest(scope=scope, id=str(uuid.uuid4()))

    assert (grpc.StatusCode.INVALID_ARGUMENT, ("id",)) == (refusal.code, refusal.fields)
    assert grpc.StatusCode.NOT_FOUND == refused(stubs.lifecycle.UndoConsolidation, missing).code


@pytest.mark.parametrize(("same", "other", "query"), SAID)
def test_a_change_of_a_merged_original_is_refused(
    stubs: Stubs, user: str, same: tuple[str, str], other: str, query: str
) -> None:
    """The error names the memory to change; no change, and what belongs to the record alone, is allowed."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    original, _ = create_all(stubs, scope, same)
    [group] = consolidate(stubs, scope).groups

    def change(memory_id: str, **fields: Any) -> memory_pb.UpdateMemoryRequest:
        request = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=memory_id, **fields))
        request.update_mask.paths.extend(fields)
        return request

    lost: tuple[dict[str, Any], ...] = (
        {"content": other}, {"title": "title"}, {"tags": ["tag"]}, {"importance": 5},
        {"layer": types_pb.MEMORY_LAYER_CORE}, {"kind": types_pb.MEMORY_KIND_TASK}, {"content": other, "trust": 0.1},
    )  # fmt: skip
    for fields in lost:
        refusal = refused(stubs.memory.UpdateMemory, change(original.id, **fields))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MEMORY_SUPERSEDED")
        assert refusal.metadata == {"memory_id": original.id, "superseded_by_id": group.merged.id}
    archived = get(stubs, scope, original.id)
    assert (archived.content, archived.revision) == (original.content, group.originals[0].revision)

    allowed: tuple[dict[str, Any], ...] = ({"content": original.content}, {"trust": 0.2}, {"source": "letter"})
    for fields in allowed:
        stubs.memory.UpdateMemory(change(original.id, **fields), timeout=TIMEOUT)
    assert get(stubs, scope, original.id).trust == 0.2
    stubs.memory.UpdateMemory(change(group.merged.id, content=other), timeout=TIMEOUT)
    assert found(stubs, scope, query) == [other]
