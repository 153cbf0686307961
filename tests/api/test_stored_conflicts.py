"""Contradictions among stored memories: found on request and by maintenance, with a question, in both languages."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_conflicts import PAIRS, listed, resolve
from tests.support.fixtures import batch, header
from tests.support.rpc import TIMEOUT, create, get, list_all, refused, write
from tests.support.server_process import Stubs

OPEN, KEPT_BOTH = types_pb.CONFLICT_STATE_OPEN, types_pb.CONFLICT_STATE_KEPT_BOTH
ACTIVE, CONFLICTED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_CONFLICTED
SUPERSEDED = types_pb.MEMORY_STATUS_SUPERSEDED
STEP = lifecycle_pb.MAINTENANCE_STEP_DETECT_CONFLICTS
MAY = datetime(2026, 5, 3, 12, 0, tzinfo=UTC)


def stamp(moment: datetime) -> Timestamp:
    """Return a moment as a message."""
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def store(stubs: Stubs, scope: types_pb.Scope, *texts: str, days: int = 37, **fields: Any) -> list[str]:
    """Import facts, which are compared with nothing, some days apart; return their ids in the order of *texts*."""
    memories = [
        types_pb.Memory(content=text, event_time=stamp(MAY + number * timedelta(days=days)), **fields)
        for number, text in enumerate(texts)
    ]
    list(stubs.memory.ImportMemories(iter([header(scope), batch(0, memories)]), timeout=TIMEOUT))
    known = {memory.content: memory.id for memory in list_all(stubs, scope)}
    return [known[text] for text in texts]


def detect(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> list[lifecycle_pb.DetectConflictsResponse]:
    """Compare what is stored and return all responses."""
    asked = lifecycle_pb.DetectConflictsRequest(scope=scope, **request)
    return list(stubs.lifecycle.DetectConflicts(asked, timeout=TIMEOUT))


def pairs(told: Sequence[lifecycle_pb.DetectConflictsResponse]) -> list[tuple[str, str]]:
    """Return the ids of the older and the newer memory of each conflict."""
    return [(one.older_memory_id, one.newer_memory_id) for response in told for one in response.conflicts]


@pytest.mark.parametrize("language", PAIRS)
def test_stored_memories_are_compared_once(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """A dry run lists what a run stores; the conflict is like one of a write, and a second run finds nothing."""
    said, unsaid, _ = PAIRS[language]
    older, newer = store(stubs, scope, said, unsaid)
    assert not listed(stubs, scope)

    preview = detect(stubs, scope, dry_run=True)
    assert [(older, newer)] == pairs(preview)
    assert ("", OPEN) == (preview[0].conflicts[0].id, preview[0].conflicts[0].state)
    assert (True, True, 1, 2, "") == (
        preview[-1].done, preview[-1].dry_run, preview[-1].conflict_count, preview[-1].examined_count,
        preview[-1].consistency_token,
    )  # fmt: skip
    assert not listed(stubs, scope)
    assert get(stubs, scope, older).status == ACTIVE

    told = detect(stubs, scope)
    [conflict] = [one for response in told for one in response.conflicts]
    [known] = listed(stubs, scope)
    assert (conflict.id, conflict.question) == (known.id, known.question)
    assert (CONFLICTED, ACTIVE) == (conflict.older_memory.status, conflict.newer_memory.status)
    assert told[-1].done
    assert told[-1].consistency_token
    for again in (detect(stubs, scope), detect(stubs, scope, dry_run=True)):
        assert (0, True) == (again[-1].conflict_count, again[-1].done)
        assert not pairs(again)
    assert len(listed(stubs, scope)) == 1


@pytest.mark.parametrize("language", PAIRS)
def test_what_is_stored_equals_what_a_write_finds(stubs: Stubs, user: str, language: str) -> None:
    """Rule, topic, values and question are the same, but for the days."""
    said, unsaid, _ = PAIRS[language]
    here, there = (types_pb.Scope(user_id=user, project_id=name) for name in ("stored", "written"))
    store(stubs, here, said, unsaid, days=0)
    [found] = [one for response in detect(stubs, here) for one in response.conflicts]
    moment = stamp(MAY)
    create(stubs, there, said, event_time=moment)
    [written] = write(stubs, there, types_pb.Memory(content=unsaid, event_time=moment)).conflicts

    for name in ("rule", "topic", "older_value", "newer_value", "state", "question"):
        assert getattr(found, name) == getattr(written, name), name


@pytest.mark.parametrize("resolution", ["CONFIRM", "REJECT", "KEEP_BOTH"])
def test_a_resolved_pair_is_not_found_again(stubs: Stubs, scope: types_pb.Scope, resolution: str) -> None:
    """Whatever was decided, and whichever memories are in use again."""
    store(stubs, scope, "I live in Lisbon.", "I live in Porto.")
    detect(stubs, scope)
    [conflict] = listed(stubs, scope)
    resolve(stubs, scope, conflict.id, memory_pb.ConflictResolution.Value(f"CONFLICT_RESOLUTION_{resolution}"))

    assert not pairs(detect(stubs, scope))
    assert not listed(stubs, scope)


def test_the_order_is_that_of_what_was_said(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A history that was imported backwards: the memory of the last day wins over both others."""
    june, may, april = store(stubs, scope, "I live in Leeds.", "I live in York.", "I live in Bath.", days=-30)

    assert [(may, june), (april, june)] == pairs(detect(stubs, scope, dry_run=True))
    assert [(may, june), (april, june)] == pairs(detect(stubs, scope))
    assert [CONFLICTED, CONFLICTED, ACTIVE] == [get(stubs, scope, one).status for one in (april, may, june)]


def test_the_policy_is_that_of_the_request(stubs: Stubs, user: str) -> None:
    """SUPERSEDE links the chain of three; KEEP_BOTH records the pairs and changes no memory."""
    texts = ("我住在北京。", "我住在上海。", "我住在深圳。")
    linked, kept = (types_pb.Scope(user_id=user, project_id=name) for name in ("linked", "kept"))
    first, second, third = store(stubs, linked, *texts)
    supersede, keep = types_pb.CONFLICT_POLICY_SUPERSEDE, types_pb.CONFLICT_POLICY_KEEP_BOTH
    expected = pairs(detect(stubs, linked, conflict_policy=supersede, dry_run=True))
    assert [(first, second), (second, third)] == expected
    assert expected == pairs(detect(stubs, linked, conflict_policy=supersede))
    assert [SUPERSEDED, SUPERSEDED, ACTIVE] == [get(stubs, linked, one).status for one in (first, second, third)]
    assert get(stubs, linked, first).superseded_by_id == second

    ids = store(stubs, kept, *texts)
    told = detect(stubs, kept, conflict_policy=keep)
    assert {KEPT_BOTH} == {one.state for response in told for one in response.conflicts}
    assert len(pairs(told)) == 3
    assert {ACTIVE} == {get(stubs, kept, one).status for one in ids}
    assert not pairs(detect(stubs, kept, conflict_policy=keep))


def test_others_are_never_compared(stubs: Stubs, user: str) -> None:
    """Neither those of other users, however alike their names, nor those of other projects."""
    texts = {"": "I live in Lisbon.", "p": "The deadline is May 3.", "q": "The deadline is June 9."}
    for project, text in texts.items():
        store(stubs, types_pb.Scope(user_id=user, project_id=project), text)
    for other in (f"{user}-corp", user[:-1], user.upper()):
        store(stubs, types_pb.Scope(user_id=other), "I live in Porto.")
        store(stubs, types_pb.Scope(user_id=other, project_id="p"), "The deadline is July 9.")

    for scope in (types_pb.Scope(user_id=user), types_pb.Scope(user_id=user, project_id="p")):
        assert not pairs(detect(stubs, scope))
    assert not listed(stubs, types_pb.Scope(user_id=user, project_id="p"))


def test_a_scope_without_project_covers_all_of_them(stubs: Stubs, user: str) -> None:
    """Each for itself; the user's own home in a project is compared with the global one, which stays in use."""
    whole, one, two = (types_pb.Scope(user_id=user, project_id=name) for name in ("", "one", "two"))
    [home] = store(stubs, whole, "I live in Lisbon.")
    [moved] = store(stubs, one, "I live in Porto.")
    early, late = store(stubs, two, "项目的截止日期是5月3日。", "项目的截止日期是6月9日。")

    assert [(early, late)] == pairs(detect(stubs, two, dry_run=True))
    assert {(home, moved), (early, late)} == set(pairs(detect(stubs, whole)))
    assert (ACTIVE, CONFLICTED) == (get(stubs, whole, home).status, get(stubs, two, early).status)
    assert not pairs(detect(stubs, whole))


def test_filters_choose_the_later_side(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A memory of the chosen layer and time is compared with earlier ones of every layer and time."""
    store(stubs, scope, "I live in Lisbon.", "My favorite color is red.")
    store(stubs, scope, "I live in Porto.", layer=types_pb.MEMORY_LAYER_SHORT_TERM)
    store(stubs, scope, "My favorite color is green.")

    def topics(**request: Any) -> list[str]:
        return [one.topic for told in detect(stubs, scope, dry_run=True, **request) for one in told.conflicts]

    assert sorted(topics()) == ["favorite color", "home"]
    assert topics(layers=[types_pb.MEMORY_LAYER_SHORT_TERM]) == ["home"]
    assert topics(layers=[types_pb.MEMORY_LAYER_LONG_TERM]) == ["favorite color"]
    assert topics(since=stamp(datetime.now(UTC) + timedelta(hours=1))) == []
    assert sorted(topics(since=stamp(datetime.now(UTC) - timedelta(hours=1)))) == ["favorite color", "home"]


@pytest.mark.parametrize(
    ("request_fields", "field"),
    [
        ({"scope": types_pb.Scope()}, "scope.user_id"),
        ({"scope": types_pb.Scope(user_id="u", session_id="s")}, "scope.session_id"),
        ({"layers": [99]}, "layers[0]"),
        ({"conflict_policy": 99}, "conflict_policy"),
        ({"since": Timestamp(seconds=-(10**12))}, "since"),
        ({"wait_for": 99}, "wait_for"),
    ],
)
def test_wrong_input_is_named(stubs: Stubs, user: str, request_fields: dict[str, Any], field: str) -> None:
    """By its field."""
    asked = lifecycle_pb.DetectConflictsRequest(**({"scope": types_pb.Scope(user_id=user)} | request_fields))
    told = refused(lambda request, timeout: list(stubs.lifecycle.DetectConflicts(request, timeout=timeout)), asked)
    assert told.code is grpc.StatusCode.INVALID_ARGUMENT
    assert field in told.fields


def test_many_memories_of_one_topic_are_read_by_pages(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each project's list goes on after a page; every older memory is marked once."""
    texts = [f"The deadline of task {number} is May {number % 28 + 1}." for number in range(150)]
    texts += ["I live in Lisbon.", *(f"The deadline of task {number} is June 9." for number in range(0, 150, 10))]
    texts += ["I live in Porto."]
    store(stubs, scope, *texts, days=1)

    told = detect(stubs, scope)
    assert len(pairs(told)) == len(set(pairs(told))) == told[-1].conflict_count == 16
    assert all(len(response.conflicts) <= 20 for response in told)
    assert told[-1].examined_count == len(texts)
    assert not pairs(detect(stubs, scope))


@pytest.mark.parametrize("language", PAIRS)
def test_maintenance_detects_when_asked(stubs: Stubs, user: str, language: str) -> None:
    """The step is reported like others; runs that name no step leave it out by default."""
    scope = types_pb.Scope(user_id=user)
    older, newer = store(stubs, scope, *PAIRS[language][:2])

    def run(**request: Any) -> list[lifecycle_pb.RunMaintenanceResponse]:
        asked = lifecycle_pb.RunMaintenanceRequest(scope=scope, **request)
        return list(stubs.lifecycle.RunMaintenance(asked, timeout=TIMEOUT))

    assert STEP not in {tally.step for tally in run()[-1].tallies}
    for is_dry in (True, False):
        told = run(steps=[STEP], dry_run=is_dry)
        [change] = [change for response in told for change in response.changes]
        assert (newer, [older]) == (change.memory_id, list(change.member_ids))
        assert (STEP, lifecycle_pb.MAINTENANCE_REASON_CONTRADICTED) == (change.step, change.reason)
        [tally] = told[-1].tallies
        assert (1, int(not is_dry), 0, True) == (
            tally.due_count, tally.changed_count, tally.skipped_count, tally.complete,
        )  # fmt: skip
    assert [(older, newer)] == [(one.older_memory_id, one.newer_memory_id) for one in listed(stubs, scope)]
    assert not [change for response in run(steps=[STEP]) for change in response.changes]


def test_maintenance_of_everybody_goes_on_with_what_is_new(stubs: Stubs) -> None:
    """Each run covers what was stored since the one before."""

    def run() -> set[str]:
        asked = lifecycle_pb.RunMaintenanceRequest(all=True, steps=[STEP])
        told = list(stubs.lifecycle.RunMaintenance(asked, timeout=TIMEOUT))
        return {change.user_id for response in told for change in response.changes}

    one, two = (types_pb.Scope(user_id=f"user-{uuid.uuid4()}") for _ in range(2))
    store(stubs, one, *PAIRS["en"][:2])
    assert one.user_id in run()
    store(stubs, two, *PAIRS["zh"][:2])
    assert {two.user_id} == run() & {one.user_id, two.user_id}
    assert not run()


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "I live in Lisbon.", "I live in Porto.",
            "You said you live in Lisbon (3 May) and later in Porto (9 June). Which is right now?",
        ),
        (
            "我住在北京。", "我住在上海。",
            "你说过住在北京（5月3日），后来又说住在上海（6月9日）。现在哪个是对的？",
        ),
        (
            "My car is red.", "My car is green.",
            "You said “My car is red” (3 May) and later “My car is green” (9 June). Which is right now?",
        ),
        (
            "我喜欢Python。", "我更喜欢Go。",
            "你说过“我喜欢Python”（5月3日），后来又说“我更喜欢Go”（6月9日）。现在哪个是对的？",
        ),
        (
            "Anna lives in Rome.", "Anna moved to Bonn.",
            "It was noted that “Anna lives in Rome” (3 May) and later that “Anna moved to Bonn” (9 June). Which is right now?",
        ),
        (
            "小王住在北京。", "小王搬到了上海。",
            "之前记录的是“小王住在北京”（5月3日），后来记录的是“小王搬到了上海”（6月9日）。现在哪个是对的？",
        ),
    ],
)  # fmt: skip
def test_a_conflict_offers_a_question(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str, question: str
) -> None:
    """In the language of what was said, with the days; the topic is one of people, not of the rules."""
    store(stubs, scope, older, newer)
    detect(stubs, scope)

    [conflict] = listed(stubs, scope)
    assert conflict.question == question
    assert not any(character.isdigit() for character in conflict.topic + conflict.older_value)
    assert "user" not in conflict.topic


def test_an_import_compares_when_asked(stubs: Stubs, user: str) -> None:
    """By default it does not; with a policy it finds what a later comparison would."""
    for policy, count in ((None, 0), (types_pb.CONFLICT_POLICY_MARK, 1)):
        scope = types_pb.Scope(user_id=user, project_id=f"p{count}")
        requests = [header(scope, conflict_policy=policy), batch(0, ["我住在北京。", "我住在上海。"])]
        *_, last = stubs.memory.ImportMemories(iter(requests), timeout=TIMEOUT)
        assert last.conflict_count == count
        assert len(pairs(detect(stubs, scope, dry_run=True))) == 1 - count
