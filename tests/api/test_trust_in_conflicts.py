"""Contradictions between the user and less trusted sources: tools, documents and imports displace no statement."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import batch, header
from tests.support.rpc import KEYWORD, TIMEOUT, create, found, get, list_all, refused, search, write
from tests.support.server_process import Stubs

USER, AGENT, TOOL = types_pb.MEMORY_ORIGIN_USER, types_pb.MEMORY_ORIGIN_AGENT, types_pb.MEMORY_ORIGIN_TOOL
DOCUMENT = types_pb.MEMORY_ORIGIN_DOCUMENT
MARK, SUPERSEDE = types_pb.CONFLICT_POLICY_MARK, types_pb.CONFLICT_POLICY_SUPERSEDE
ACTIVE, CONFLICTED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_CONFLICTED
SUPERSEDED, ARCHIVED = types_pb.MEMORY_STATUS_SUPERSEDED, types_pb.MEMORY_STATUS_ARCHIVED
OPEN, CONFIRMED = types_pb.CONFLICT_STATE_OPEN, types_pb.CONFLICT_STATE_CONFIRMED
MONDAY, FRIDAY, SUNDAY = 0, 1, 2
DEADLINES = {
    "en": [f"The staging deadline is {day}." for day in ("Monday", "Friday", "Sunday")],
    "zh": [f"预发布环境的截止日期是{day}。" for day in ("周一", "周五", "周日")],
}
TEXTS = pytest.mark.parametrize("texts", DEADLINES.values(), ids=DEADLINES.keys())
QUERY = "staging deadline 预发布环境的截止日期"


def said(content: str, origin: int, **fields: Any) -> types_pb.Memory:
    """Return a memory of this origin."""
    return types_pb.Memory(content=content, origin=origin, **fields)  # type: ignore[arg-type]


def open_conflicts(stubs: Stubs, scope: types_pb.Scope) -> list[types_pb.Conflict]:
    """Return the open conflicts, newest first."""
    request = memory_pb.ListConflictsRequest(scope=scope)
    return list(stubs.memory.ListConflicts(request, timeout=TIMEOUT).conflicts)


@TEXTS
@pytest.mark.parametrize("policy", [MARK, SUPERSEDE])
def test_a_tool_displaces_nothing_that_the_user_said(
    stubs: Stubs, scope: types_pb.Scope, texts: list[str], policy: Any
) -> None:
    """Both stay in use with one open conflict; a second statement of the tool opens no further one."""
    user = create(stubs, scope, texts[MONDAY], origin=USER)
    reply = write(stubs, scope, said(texts[FRIDAY], TOOL), conflict_policy=policy)

    [conflict] = reply.conflicts
    assert (conflict.state, conflict.older_memory_id, conflict.newer_memory_id) == (OPEN, user.id, reply.memory.id)
    assert (get(stubs, scope, user.id).status, reply.memory.status) == (ACTIVE, ACTIVE)
    assert set(found(stubs, scope, QUERY, mode=KEYWORD)) == set(texts[:2])

    again = write(stubs, scope, said(texts[SUNDAY], TOOL), conflict_policy=policy).memory
    assert (get(stubs, scope, user.id).status, again.status) == (ACTIVE, ACTIVE)
    assert [one.newer_memory_id for one in open_conflicts(stubs, scope) if one.older_memory_id == user.id] == [
        reply.memory.id if policy == MARK else again.id
    ]


@TEXTS
def test_the_user_decides_about_the_statement_of_a_tool(stubs: Stubs, scope: types_pb.Scope, texts: list[str]) -> None:
    """CONFIRM is deliberate, so the memory of the tool supersedes that of the user."""
    user = create(stubs, scope, texts[MONDAY], origin=USER)
    [conflict] = write(stubs, scope, said(texts[FRIDAY], TOOL)).conflicts
    request = memory_pb.ResolveConflictRequest(
        scope=scope, id=conflict.id, resolution=memory_pb.CONFLICT_RESOLUTION_CONFIRM
    )
    settled = stubs.memory.ResolveConflict(request, timeout=TIMEOUT).conflict

    assert (settled.state, settled.older_memory.status) == (CONFIRMED, SUPERSEDED)
    assert (settled.older_memory.id, settled.newer_memory.status) == (user.id, ACTIVE)


@TEXTS
@pytest.mark.parametrize(
    ("older", "newer"), [(USER, USER), (USER, AGENT), (AGENT, AGENT), (TOOL, TOOL), (TOOL, USER), (TOOL, DOCUMENT)]
)
def test_others_are_displaced_as_before(
    stubs: Stubs, scope: types_pb.Scope, texts: list[str], older: int, newer: int
) -> None:
    """What the user or an agent writes, and what is trusted no less, makes the older memory CONFLICTED."""
    before = create(stubs, scope, texts[MONDAY], origin=older)
    write(stubs, scope, said(texts[FRIDAY], newer))

    assert get(stubs, scope, before.id).status == CONFLICTED


@TEXTS
def test_what_an_agent_derives_from_a_tool_displaces_no_more_than_the_tool(
    stubs: Stubs, scope: types_pb.Scope, texts: list[str]
) -> None:
    """Its trust is that of its source."""
    user = create(stubs, scope, texts[MONDAY], origin=USER)
    page = create(stubs, scope, "网页 page", origin=TOOL)
    derived = write(stubs, scope, said(texts[FRIDAY], AGENT, derived_from_ids=[page.id]))

    assert get(stubs, scope, user.id).status == ACTIVE
    assert [one.state for one in derived.conflicts] == [OPEN]


@TEXTS
def test_the_user_says_more_after_a_tool_did(stubs: Stubs, scope: types_pb.Scope, texts: list[str]) -> None:
    """The open conflict with the tool does not keep the user's own new statement from being marked."""
    user = create(stubs, scope, texts[MONDAY], origin=USER)
    tool = create(stubs, scope, texts[FRIDAY], origin=TOOL)
    new = create(stubs, scope, texts[SUNDAY], origin=USER)

    assert [get(stubs, scope, one.id).status for one in (user, tool, new)] == [CONFLICTED, CONFLICTED, ACTIVE]


@TEXTS
def test_what_the_user_said_before_arrives_after_the_statement_of_a_tool(
    stubs: Stubs, scope: types_pb.Scope, texts: list[str]
) -> None:
    """The memory that is written now is the older side, and stays in use."""
    create(stubs, scope, texts[FRIDAY], origin=TOOL)
    late = said(texts[MONDAY], USER)
    late.event_time.FromJsonString("2024-03-01T10:00:00Z")
    reply = write(stubs, scope, late, conflict_policy=SUPERSEDE)

    assert (reply.memory.status, [one.state for one in reply.conflicts]) == (ACTIVE, [OPEN])
    assert reply.conflicts[0].older_memory_id == reply.memory.id


@TEXTS
def test_a_conflict_outlives_other_changes_of_its_memories(
    stubs: Stubs, scope: types_pb.Scope, texts: list[str]
) -> None:
    """A new importance of either side closes it no more than it does elsewhere; new content without it does."""
    user = create(stubs, scope, texts[MONDAY], origin=USER)
    [conflict] = write(stubs, scope, said(texts[FRIDAY], TOOL)).conflicts
    for memory_id in (user.id, conflict.newer_memory_id):
        change = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=memory_id, importance=2))
        change.update_mask.paths.append("importance")
        stubs.memory.UpdateMemory(change, timeout=TIMEOUT)
    assert [one.id for one in open_conflicts(stubs, scope)] == [conflict.id]

    change = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=user.id, content=texts[FRIDAY] + "!"))
    change.update_mask.paths.append("content")
    stubs.memory.UpdateMemory(change, timeout=TIMEOUT)
    assert open_conflicts(stubs, scope) == []


@TEXTS
def test_marks_doubt_the_tool_and_show_the_user(stubs: Stubs, scope: types_pb.Scope, texts: list[str]) -> None:
    """In hits and contexts the newer statement of the tool is CONFLICTED, that of the user has no mark."""
    create(stubs, scope, texts[MONDAY], origin=USER)
    create(stubs, scope, texts[FRIDAY], origin=TOOL)

    hits = search(stubs, scope, texts[MONDAY], judge_currency=True).hits
    assert {hit.memory.content: hit.currency for hit in hits} == {
        texts[MONDAY]: types_pb.CURRENCY_CURRENT,
        texts[FRIDAY]: types_pb.CURRENCY_CONFLICTED,
    }
    [hit] = search(stubs, scope, texts[MONDAY], judge_currency=True, limit=1).hits
    assert (hit.memory.content, hit.currency) == (texts[MONDAY], types_pb.CURRENCY_CURRENT)
    request = search_pb.RenderContextRequest(scope=scope, query=texts[MONDAY])
    lines = stubs.search.RenderContext(request, timeout=TIMEOUT).markdown.splitlines()
    [of_user] = [line for line in lines if texts[MONDAY].rstrip(".。") in line]
    [of_tool] = [line for line in lines if texts[FRIDAY].rstrip(".。") in line]
    assert not any(word in of_user for word in ("conflict", "冲突", "outdated", "过时"))
    assert "conflict" in of_tool or "冲突" in of_tool


@pytest.mark.parametrize(
    ("older", "newer", "asked"),
    [
        (
            "The release day is Thursday.",
            ("The release day is Monday.", TOOL),
            ("You said “The release day is Thursday” (", ", but a tool says “The release day is Monday”"),
        ),
        ("发布日是周四。", ("发布日是周一。", TOOL), ("你说过“发布日是周四”（", "，但一个工具说“发布日是周一”")),
        (
            "I live in Leeds.",
            ("I live in York.", DOCUMENT),
            ("You said “I live in Leeds” (", ", but a document says “I live in York”"),
        ),
        ("我住在北京。", ("我住在上海。", DOCUMENT), ("你说过“我住在北京”（", "，但一份文档说“我住在上海”")),
    ],
)
def test_the_question_names_the_source(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: tuple[str, int], asked: tuple[str, str]
) -> None:
    """It does not ask as if the user had said both."""
    create(stubs, scope, older, origin=USER)
    [conflict] = write(stubs, scope, said(*newer)).conflicts

    assert conflict.question.startswith(asked[0])
    assert asked[1] in conflict.question


@pytest.mark.parametrize(
    ("dated", "moved", "done"),
    [
        ("Dentist appointment on 3 June 2031.", "The dentist appointment moved to 5 June 2031.", ""),
        ("2031年6月3日看牙医。", "看牙医改到2031年6月5日了。", ""),
        ("Pay the rent by tomorrow.", "", "I've paid the rent."),
        ("提醒我明天交房租", "", "房租交了"),
    ],
)
@pytest.mark.parametrize("origin", [USER, TOOL])
def test_a_tool_takes_no_reminder_of_the_user(
    stubs: Stubs, scope: types_pb.Scope, dated: str, moved: str, done: str, origin: int
) -> None:
    """The user moves an event or reports what is done; what a tool says of it leaves the reminder."""
    user = create(stubs, scope, dated, origin=USER)
    assert user.HasField("reminder")
    for _ in range(2):
        write(stubs, scope, said((moved or done), origin), on_duplicate=types_pb.ON_DUPLICATE_KEEP_BOTH)

    after = get(stubs, scope, user.id)
    is_reminding = after.status == ACTIVE and after.HasField("reminder")
    assert is_reminding is (origin == TOOL)
    assert len(open_conflicts(stubs, scope)) <= 1


@pytest.mark.parametrize(
    ("mine", "other"),
    [("Release branch is main.", "Release branch is evil."), ("发布分支是主干。", "发布分支是别的。")],
)
def test_a_tool_does_not_write_the_key_of_the_user(stubs: Stubs, scope: types_pb.Scope, mine: str, other: str) -> None:
    """It is refused, or a duplicate if it says the same; an agent, the user, and an update by id are not."""
    user = create(stubs, scope, mine, key="rules/branch", origin=USER, importance=5)
    request = memory_pb.CreateMemoryRequest(scope=scope, memory=said(other, TOOL, key="rules/branch"))
    refusal = refused(stubs.memory.CreateMemory, request)

    assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS")
    assert refusal.metadata["memory_id"] == user.id
    assert "trusted more" in refusal.message
    same = write(stubs, scope, said(mine, TOOL, key="rules/branch", importance=1))
    assert (same.outcome, same.memory.id) == (types_pb.WRITE_OUTCOME_DUPLICATE, user.id)
    for memory in (same.memory, get(stubs, scope, user.id)):
        assert (memory.content, memory.origin, memory.importance, memory.revision) == (mine, USER, 5, user.revision)

    change = memory_pb.UpdateMemoryRequest(scope=scope, memory=said(other, TOOL, id=user.id))
    change.update_mask.paths.append("content")
    assert stubs.memory.UpdateMemory(change, timeout=TIMEOUT).memory.content == other
    assert write(stubs, scope, said(mine, AGENT, key="rules/branch")).outcome == types_pb.WRITE_OUTCOME_UPDATED


@pytest.mark.parametrize(
    ("first", "second"), [("Build 7 is green.", "Build 8 is red."), ("构建七成功。", "构建八失败。")]
)
@pytest.mark.parametrize("origin", [AGENT, TOOL])
def test_a_tool_writes_the_keys_of_tools_and_agents(
    stubs: Stubs, scope: types_pb.Scope, first: str, second: str, origin: int
) -> None:
    """A status that a tool reports under the key of an agent is the usual upsert."""
    before = create(stubs, scope, first, key="status/build", origin=origin)
    after = write(stubs, scope, said(second, TOOL, key="status/build"))

    assert (after.outcome, after.memory.id) == (types_pb.WRITE_OUTCOME_UPDATED, before.id)
    assert (after.memory.content, after.memory.trust) == (second, 0.5)


@TEXTS
@pytest.mark.parametrize("policy", [MARK, SUPERSEDE])
def test_detection_among_stored_memories_displaces_no_more(
    stubs: Stubs, scope: types_pb.Scope, texts: list[str], policy: Any
) -> None:
    """A rehearsal lists what a run stores; the user's own later statement is found despite the tools'."""
    imported = [said(texts[MONDAY], USER), said(texts[FRIDAY], TOOL), said(texts[SUNDAY], TOOL)]
    list(stubs.memory.ImportMemories(iter([header(scope), batch(0, imported)]), timeout=TIMEOUT))

    def detected(*, dry_run: bool) -> list[tuple[str, str, int]]:
        request = lifecycle_pb.DetectConflictsRequest(scope=scope, conflict_policy=policy, dry_run=dry_run)
        parts = list(stubs.lifecycle.DetectConflicts(request, timeout=TIMEOUT))
        return [
            (one.older_memory.content, one.newer_memory.content, one.state) for part in parts for one in part.conflicts
        ]

    rehearsed = detected(dry_run=True)
    assert (texts[MONDAY], texts[FRIDAY], OPEN) in rehearsed
    assert detected(dry_run=False) == rehearsed
    assert detected(dry_run=True) == detected(dry_run=False) == []
    assert {one.content for one in list_all(stubs, scope)} >= {texts[MONDAY], texts[SUNDAY]}

    later = texts[MONDAY].replace("Monday", "Wednesday").replace("周一", "周三")
    list(stubs.memory.ImportMemories(iter([header(scope), batch(0, [said(later, USER)])]), timeout=TIMEOUT))
    assert texts[MONDAY] in {older for older, _, _ in detected(dry_run=False)}
    assert texts[MONDAY] not in found(stubs, scope, QUERY, mode=KEYWORD)
