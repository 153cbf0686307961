"""Looking after memories, over the wire."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, SEMANTIC, TIMEOUT, create, found, get, list_all, refused, search, write
from tests.support.server_process import Stubs
from tests.support.until import until

EXPIRE, PROMOTE, ARCHIVE = (
    lifecycle_pb.MAINTENANCE_STEP_EXPIRE,
    lifecycle_pb.MAINTENANCE_STEP_PROMOTE,
    lifecycle_pb.MAINTENANCE_STEP_ARCHIVE,
)
COMPACT, CONSOLIDATE = lifecycle_pb.MAINTENANCE_STEP_COMPACT, lifecycle_pb.MAINTENANCE_STEP_CONSOLIDATE
REPLAY_USE, PURGE = lifecycle_pb.MAINTENANCE_STEP_REPLAY_USE, lifecycle_pb.MAINTENANCE_STEP_PURGE
SHORT = types_pb.MEMORY_LAYER_SHORT_TERM
ACTIVE, ARCHIVED, CONFLICTED, EXPIRED = (
    types_pb.MEMORY_STATUS_ACTIVE,
    types_pb.MEMORY_STATUS_ARCHIVED,
    types_pb.MEMORY_STATUS_CONFLICTED,
    types_pb.MEMORY_STATUS_EXPIRED,
)


def run(stubs: Stubs, **request: Any) -> list[lifecycle_pb.RunMaintenanceResponse]:
    """Run maintenance and return all that was told."""
    return list(stubs.lifecycle.RunMaintenance(lifecycle_pb.RunMaintenanceRequest(**request), timeout=TIMEOUT))


def changes(told: Sequence[lifecycle_pb.RunMaintenanceResponse]) -> list[tuple[str, str]]:
    """Return what was, or would be, changed and why."""
    return [
        (change.memory_id, lifecycle_pb.MaintenanceReason.Name(change.reason).removeprefix("MAINTENANCE_REASON_"))
        for response in told
        for change in response.changes
    ]


def archive(stubs: Stubs, scope: types_pb.Scope, memory_id: str, **request: Any) -> lifecycle_pb.ArchiveMemoryResponse:
    """Archive a memory."""
    asked = lifecycle_pb.ArchiveMemoryRequest(scope=scope, id=memory_id, **request)
    return stubs.lifecycle.ArchiveMemory(asked, timeout=TIMEOUT)


def restore(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> types_pb.Memory:
    """Restore a memory."""
    return stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory_id), timeout=TIMEOUT).memory


def ago(**parts: float) -> Timestamp:
    """Return a moment of the past."""
    moment = Timestamp()
    moment.FromDatetime(datetime.now(UTC) - timedelta(**parts))
    return moment


def ahead(**parts: float) -> Timestamp:
    """Return a moment of the future."""
    return ago(**{unit: -number for unit, number in parts.items()})


@pytest.mark.parametrize(
    ("said", "work", "query", "word"),
    [
        ("The otter sleeps in the river.", "Rewrite the parser.", "otter", "Finished"),
        ("水獭在河里睡觉。", "正在重写解析器。", "水獭", "已完成"),
    ],
)
def test_what_is_past_its_time_is_put_away(
    stubs: Stubs, user: str, said: str, work: str, query: str, word: str
) -> None:
    """It leaves the indexes and can come back; work in progress is finished; a dry run says so before."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    over = create(stubs, scope, said, layer=SHORT, expire_time=ago(minutes=1))
    todo = create(stubs, scope, work, expire_time=ago(minutes=1), work_in_progress=True, tags=["wip"])
    kept = create(stubs, scope, "A heron stands.")
    due = [(over.id, "EXPIRED"), (todo.id, "FINISHED")]

    foretold = run(stubs, scope=scope, dry_run=True)
    assert due == sorted(changes(foretold), key=lambda change: change[0] != over.id)
    assert all(response.dry_run for response in foretold)
    assert {over.id, todo.id, kept.id} == {
        memory.id for memory in list_all(stubs, scope, filter=filters_pb.Filter(include_expired=True))
    }

    told = run(stubs, scope=scope)
    assert changes(foretold) == changes(told)
    steps = [EXPIRE, PROMOTE, ARCHIVE, COMPACT, CONSOLIDATE, REPLAY_USE, PURGE]
    assert steps == [tally.step for tally in told[-1].tallies]
    tally = told[-1].tallies[0]
    assert (2, 2, 0, True, "") == (
        tally.due_count, tally.changed_count, tally.skipped_count, tally.complete, tally.failure,
    )  # fmt: skip
    assert [] == changes(run(stubs, scope=scope))

    # Whoever sees a later change in a search sees all before it.
    later = write(stubs, types_pb.Scope(user_id=f"{user}-later"), "x").consistency_token
    search(stubs, scope, query, consistency_token=later)
    gone, finished = get(stubs, scope, over.id), get(stubs, scope, todo.id)
    assert (EXPIRED, said, 2) == (gone.status, gone.content, gone.revision)
    assert (ACTIVE, False, ["finished"]) == (finished.status, finished.work_in_progress, list(finished.tags))
    assert finished.content.startswith(work)
    assert word in finished.content
    assert not finished.HasField("expire_time")
    everything = filters_pb.Filter(statuses=[EXPIRED])
    assert [over.id] == [memory.id for memory in list_all(stubs, scope, filter=everything)]
    assert [] == found(stubs, scope, query, mode=SEMANTIC, filter=everything)
    assert [said] == found(stubs, scope, query, mode=KEYWORD, filter=everything)
    stats = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)
    assert (3, 2, 2) == (stats.memory_count, stats.vector_count, stats.lexical_count)

    back = restore(stubs, scope, over.id)
    assert (ACTIVE, True) == (back.status, back.expire_time.ToDatetime(tzinfo=UTC) > datetime.now(UTC))
    assert said in found(stubs, scope, query, mode=SEMANTIC)


@pytest.mark.parametrize("content", ["The otter plans a dam.", "水獭计划建一座水坝。"])
def test_work_in_progress_never_expires(stubs: Stubs, user: str, content: str) -> None:
    """Between its time and its finish it is found as before, and its content is not stored a second time."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    fields: dict[str, Any] = {"expire_time": ago(minutes=1), "tier": types_pb.MEMORY_TIER_ACTIVE}
    work = create(stubs, scope, content, work_in_progress=True, **fields)
    over = create(stubs, scope, f"{content} 2", **fields)
    later = Timestamp()
    later.FromDatetime(datetime.now(UTC))

    for request in (
        {},
        {"as_of": types_pb.AsOf(known_time=later)},
        {"as_of": types_pb.AsOf(valid_time=later)},
        {"filter": filters_pb.Filter(kinds=[work.kind])},
    ):
        assert [work.id] == [memory.id for memory in list_all(stubs, scope, **request)]
        assert [content] == found(stubs, scope, content, mode=SEMANTIC, **request)
        assert [content] == found(stubs, scope, content, **request)
    assert [content] == found(stubs, scope, content, mode=KEYWORD)
    loaded = stubs.search.LoadCore(search_pb.LoadCoreRequest(scope=scope), timeout=TIMEOUT)
    assert [work.id] == [memory.id for memory in loaded.active]
    again = write(stubs, scope, content)
    assert (work.id, types_pb.WRITE_OUTCOME_DUPLICATE) == (again.memory.id, again.outcome)

    assert {(work.id, "FINISHED"), (over.id, "EXPIRED")} == set(changes(run(stubs, scope=scope, steps=[EXPIRE])))


@pytest.mark.parametrize(
    ("older", "newer"), [("I live in Lisbon.", "I live in Porto."), ("我住在上海。", "我住在广州。")]
)
@pytest.mark.parametrize("is_work", [False, True])
def test_the_older_side_of_a_conflict_expires_too(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str, *, is_work: bool
) -> None:
    """Its open conflict is closed with it; work in progress is finished, and its conflict stays open."""
    before = create(stubs, scope, older, expire_time=ahead(hours=1), work_in_progress=is_work)
    after = create(stubs, scope, newer)
    assert CONFLICTED == get(stubs, scope, before.id).status
    over = types_pb.Memory(id=before.id, expire_time=ago(minutes=1))
    stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(scope=scope, memory=over, update_mask={"paths": ["expire_time"]}), timeout=TIMEOUT
    )
    expected = [(before.id, "FINISHED" if is_work else "EXPIRED")]

    assert expected == changes(run(stubs, scope=scope, steps=[EXPIRE], dry_run=True))
    assert expected == changes(run(stubs, scope=scope, steps=[EXPIRE]))
    assert [] == changes(run(stubs, scope=scope, steps=[EXPIRE]))

    now = get(stubs, scope, before.id)
    asked = memory_pb.ListConflictsRequest(scope=scope)
    conflicts = [conflict.id for conflict in stubs.memory.ListConflicts(asked, timeout=TIMEOUT).conflicts]
    if is_work:
        assert (CONFLICTED, False, True) == (now.status, now.work_in_progress, "finished" in now.tags)
        assert 1 == len(conflicts)
    else:
        assert (EXPIRED, older) == (now.status, now.content)
        assert [] == conflicts
    assert ACTIVE == get(stubs, scope, after.id).status


def test_maintenance_keeps_to_its_scope(stubs: Stubs, user: str) -> None:
    """A project's, a user's in all projects, or everybody's; each change says whose it is."""
    expired = ago(minutes=1)
    scopes = [
        types_pb.Scope(user_id=name, project_id=project) for name in (user, f"{user}-corp") for project in ("", "p")
    ]
    home, project, others, theirs = (
        create(stubs, scope, f"Number {number}.", expire_time=expired).id for number, scope in enumerate(scopes)
    )

    told = run(stubs, scope=scopes[1])
    assert [(project, "EXPIRED")] == changes(told)
    [change] = [change for response in told for change in response.changes]
    assert (user, "p", EXPIRE, []) == (change.user_id, change.project_id, change.step, list(change.member_ids))
    assert {(home, "EXPIRED")} == set(changes(run(stubs, scope=scopes[0])))
    assert {(others, "EXPIRED"), (theirs, "EXPIRED")} <= set(changes(run(stubs, all=True, dry_run=True)))
    assert {(others, "EXPIRED"), (theirs, "EXPIRED")} <= set(changes(run(stubs, all=True)))


def test_steps_are_run_alone(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Those that are named, and each is measured."""
    create(stubs, scope, "x", expire_time=ago(minutes=1))

    told = run(stubs, scope=scope, steps=[ARCHIVE, PROMOTE, ARCHIVE])
    assert [] == changes(told)
    assert [PROMOTE, ARCHIVE] == [tally.step for tally in told[-1].tallies]
    assert lifecycle_pb.MAINTENANCE_STEP_UNSPECIFIED == told[-1].step
    assert 1 == len(changes(run(stubs, scope=scope, steps=[EXPIRE])))
    report = stubs.admin.GetPerformance(admin_pb.GetPerformanceRequest(), timeout=TIMEOUT)
    assert {"MaintenanceArchive", "MaintenanceExpire", "MaintenancePromote"} <= {
        one.operation for one in report.operations
    }


@pytest.mark.parametrize(("text", "query"), [("The otter sleeps.", "otter"), ("水獭在睡觉。", "水獭")])
def test_an_archived_memory_can_come_back(stubs: Stubs, scope: types_pb.Scope, text: str, query: str) -> None:
    """Out of lists and searches, with all that it says; back by a restore or an update."""
    memory = create(stubs, scope, text, key="otter", tier=types_pb.MEMORY_TIER_ACTIVE)
    reply = archive(stubs, scope, memory.id, expected_revision=1)

    assert (ARCHIVED, 2, "otter", memory.tier) == (
        reply.memory.status, reply.memory.revision, reply.memory.key, reply.memory.tier,
    )  # fmt: skip
    assert ([], []) == (list_all(stubs, scope), found(stubs, scope, query))
    assert [text] == found(stubs, scope, query, filter=filters_pb.Filter(statuses=[ARCHIVED]))
    assert ACTIVE == restore(stubs, scope, memory.id).status
    assert [text] == found(stubs, scope, query)

    archive(stubs, scope, memory.id)
    assert [] == found(stubs, scope, query)
    active = types_pb.Memory(id=memory.id, status=ACTIVE)
    stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=active), timeout=TIMEOUT)
    assert ([memory.id], [text]) == ([one.id for one in list_all(stubs, scope)], found(stubs, scope, query))


def test_archiving_happens_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A repetition gets the same answer; what is archived already stays as it is."""
    memory = create(stubs, scope, "The otter sleeps.")
    request = {"request_id": str(uuid.uuid4())}
    first = archive(stubs, scope, memory.id, **request)
    restore(stubs, scope, memory.id)

    again = archive(stubs, scope, memory.id, **request)
    assert (ARCHIVED, 2, first.consistency_token) == (
        again.memory.status, again.memory.revision, again.consistency_token,
    )  # fmt: skip
    assert ACTIVE == get(stubs, scope, memory.id).status
    assert [4, 4] == [archive(stubs, scope, memory.id).memory.revision for _ in range(2)]


def test_what_cannot_be_archived(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Another revision, what is gone, and what waits or has expired; nothing changes."""
    memory = create(stubs, scope, "The otter sleeps.")
    waiting = create(stubs, scope, "A rumour.", status=types_pb.MEMORY_STATUS_QUARANTINED)
    over = create(stubs, scope, "It was so.", expire_time=ago(minutes=1))
    run(stubs, scope=scope)

    def code(memory_id: str, **request: Any) -> grpc.StatusCode:
        asked = lifecycle_pb.ArchiveMemoryRequest(scope=scope, id=memory_id, **request)
        return refused(stubs.lifecycle.ArchiveMemory, asked).code

    assert grpc.StatusCode.ABORTED == code(memory.id, expected_revision=7)
    assert grpc.StatusCode.INVALID_ARGUMENT == code(waiting.id)
    assert grpc.StatusCode.INVALID_ARGUMENT == code(over.id)
    assert grpc.StatusCode.NOT_FOUND == code(str(uuid.uuid4()))
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)
    assert grpc.StatusCode.NOT_FOUND == code(memory.id)


U = types_pb.Scope(user_id="u")
ID = str(uuid.UUID(int=7))
WRONG: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("ArchiveMemory", {}, ("id", "scope.user_id")),
    ("ArchiveMemory", {"scope": U, "id": "x", "expected_revision": -1}, ("expected_revision", "id")),
    ("ArchiveMemory", {"scope": U, "id": ID, "wait_for": 3, "request_id": "x" * 129}, ("request_id", "wait_for")),
    ("ArchiveMemory", {"scope": types_pb.Scope(user_id="a\n", project_id="\x7f"), "id": ID}, ("scope.project_id", "scope.user_id")),
    ("RunMaintenance", {"scope": types_pb.Scope()}, ("scope.user_id",)),
    ("RunMaintenance", {"scope": types_pb.Scope(user_id="x" * 129, project_id="\x00")}, ("scope.project_id", "scope.user_id")),
    ("RunMaintenance", {"scope": types_pb.Scope(user_id="u", agent_id="a", session_id="s")}, ("scope.agent_id", "scope.session_id")),
    ("RunMaintenance", {}, ("scope.user_id",)),
    ("RunMaintenance", {"scope": U, "all": True}, ("scope",)),
    ("RunMaintenance", {"all": True, "steps": [1, 0, 99, -1]}, ("steps[1]", "steps[2]", "steps[3]")),
    ("RunMaintenance", {"steps": [1] * 17, "scope": types_pb.Scope(session_id="s")}, ("scope.session_id", "scope.user_id", "steps")),
]  # fmt: skip


@pytest.mark.parametrize(("method", "fields", "paths"), WRONG)
def test_all_that_is_wrong_is_named(stubs: Stubs, method: str, fields: dict[str, Any], paths: tuple[str, ...]) -> None:
    """At once, by the paths of the fields; nothing is done."""
    request = {
        "ArchiveMemory": lifecycle_pb.ArchiveMemoryRequest,
        "RunMaintenance": lifecycle_pb.RunMaintenanceRequest,
    }[method]
    refusal = refused(getattr(stubs.lifecycle, method), request(**fields))

    assert (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST") == (refusal.code, refusal.reason)
    assert paths == tuple(sorted(refusal.fields))


def test_a_search_with_the_token_of_a_run_sees_its_changes(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Expired memories are gone from searches and lists; a run that changes nothing, and a dry one, have no token."""
    first = run(stubs, scope=scope, steps=[EXPIRE])
    memory = types_pb.Memory(content="The ferry is late today.")
    memory.expire_time.FromDatetime(datetime.now(UTC) + timedelta(milliseconds=300))
    late = write(stubs, scope, memory).memory
    until(lambda: datetime.now(UTC) > late.expire_time.ToDatetime(UTC))
    dry = run(stubs, scope=scope, steps=[EXPIRE], dry_run=True)
    told = run(stubs, scope=scope, steps=[EXPIRE])

    assert [(late.id, "EXPIRED")] == changes(dry) == changes(told)
    assert not any(response.consistency_token for response in (*first, *dry, told[0]))
    token = told[-1].consistency_token
    everything = filters_pb.Filter(statuses=[ACTIVE, EXPIRED], include_expired=True)
    assert token
    assert [late.content] == found(stubs, scope, "ferry", mode=KEYWORD, filter=everything, consistency_token=token)
    assert [] == found(stubs, scope, "ferry", mode=SEMANTIC, filter=everything, consistency_token=token)
    [listed] = list_all(stubs, scope, filter=everything)
    assert (late.id, EXPIRED) == (listed.id, listed.status)
