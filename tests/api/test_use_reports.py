"""Reports of use over the wire: stored once, listed and counted, without a change to any memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, Refusal, create, create_all, get, refused
from tests.support.server_process import Stubs

USED, IGNORED, WRONG = search_pb.USE_OUTCOME_USED, search_pb.USE_OUTCOME_IGNORED, search_pb.USE_OUTCOME_WRONG
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def about(memory: types_pb.Memory, outcome: search_pb.UseOutcome.ValueType, **fields: Any) -> search_pb.UseReport:
    """Return a report about a memory."""
    return search_pb.UseReport(memory_id=memory.id, outcome=outcome, **fields)


def report(
    stubs: Stubs, scope: types_pb.Scope, reports: Sequence[search_pb.UseReport], **fields: Any
) -> search_pb.ReportUseResponse:
    """Store reports."""
    return stubs.search.ReportUse(search_pb.ReportUseRequest(scope=scope, reports=reports, **fields), timeout=TIMEOUT)


def unreported(stubs: Stubs, scope: types_pb.Scope, reports: Sequence[search_pb.UseReport], **fields: Any) -> Refusal:
    """Return why reports are refused."""
    return refused(stubs.search.ReportUse, search_pb.ReportUseRequest(scope=scope, reports=reports, **fields))


def listed(stubs: Stubs, scope: types_pb.Scope, **fields: Any) -> list[search_pb.StoredUseReport]:
    """Return all reports that a list selects, read two at a time."""
    found: list[search_pb.StoredUseReport] = []
    request = search_pb.ListUseReportsRequest(scope=scope, page_size=2, **fields)
    while True:
        page = stubs.search.ListUseReports(request, timeout=TIMEOUT)
        found += page.reports
        if not page.next_page_token:
            return found
        assert len(page.reports) == 2
        request.page_token = page.next_page_token


def counts(stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory) -> tuple[int, int, int]:
    """Return the counts of a memory."""
    request = memory_pb.GetMemoryRequest(scope=scope, id=memory.id, include_use_counts=True)
    found = stubs.memory.GetMemory(request, timeout=TIMEOUT).use_counts
    return found.used_count, found.ignored_count, found.wrong_count


def feedback(stubs: Stubs, scope: types_pb.Scope) -> search_pb.GetUseFeedbackResponse:
    """Return the state of a user's reports."""
    return stubs.search.GetUseFeedback(search_pb.GetUseFeedbackRequest(scope=scope), timeout=TIMEOUT)


@pytest.mark.parametrize(
    ("contents", "query"),
    [
        (("Anna moved to Basel.", "The hose is green.", "The port is 80."), "Where does Anna live?"),
        (("小王搬到了上海。", "水管是绿色的。", "端口是80。"), "小王住在哪里？"),
    ],
)
def test_reports_are_stored_and_change_no_memory(
    stubs: Stubs, scope: types_pb.Scope, contents: Sequence[str], query: str
) -> None:
    """They are listed with all that was reported, and counted; revisions, contents and indexes stay as they are."""
    before = create_all(stubs, scope, contents)
    used, ignored, wrong = before
    reply = report(
        stubs,
        scope,
        [about(used, USED, revision=1, position=1), about(ignored, IGNORED), about(wrong, WRONG, position=3)],
        query=query,
    )
    report(stubs, scope, [about(used, USED)])

    assert (3, []) == (reply.stored_count, list(reply.missing))
    last, *first = listed(stubs, scope)
    assert (used.id, USED, "", 0) == (last.memory_id, last.outcome, last.query, last.position)
    assert {(used.id, USED, 1, 1), (ignored.id, IGNORED, 0, 0), (wrong.id, WRONG, 0, 3)} == {
        (one.memory_id, one.outcome, one.revision, one.position) for one in first
    }
    assert {query} == {one.query for one in first}
    assert all(one.scope == scope and one.report_time.seconds for one in first)
    assert [(2, 0, 0), (0, 1, 0), (0, 0, 1)] == [counts(stubs, scope, memory) for memory in before]
    for memory in before:
        now = get(stubs, scope, memory.id)
        now.ClearField("access_count")
        now.ClearField("access_time")
        assert memory == now
    assert not stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, id=used.id), timeout=TIMEOUT).HasField(
        "use_counts"
    )


def test_reports_are_listed_for_a_review(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Those of one outcome, or about one memory; a token of another list is refused."""
    one, two = create_all(stubs, scope, ["one", "two"])
    for _ in range(2):
        report(stubs, scope, [about(one, WRONG), about(two, USED)], query="q")
    report(stubs, scope, [about(two, WRONG)], query="last")

    assert [two.id, one.id, one.id] == [each.memory_id for each in listed(stubs, scope, outcome=WRONG)]
    assert [WRONG, USED, USED] == [each.outcome for each in listed(stubs, scope, memory_id=two.id)]
    assert ["last"] == [each.query for each in listed(stubs, scope, memory_id=two.id, outcome=WRONG)]
    page = search_pb.ListUseReportsRequest(scope=scope, outcome=WRONG, page_size=1)
    page.page_token = stubs.search.ListUseReports(page, timeout=TIMEOUT).next_page_token
    page.outcome = USED
    assert ("page_token",) == refused(stubs.search.ListUseReports, page).fields
    unknown = search_pb.ListUseReportsRequest(scope=scope, memory_id=str(uuid.uuid4()))
    missing = refused(stubs.search.ListUseReports, unknown)
    assert grpc.StatusCode.NOT_FOUND == missing.code


def test_a_repeated_call_counts_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With the same request_id it returns the same answer; with other reports it is refused."""
    memory = create(stubs, scope, "one")
    gone = search_pb.UseReport(memory_id=str(uuid.uuid4()), outcome=USED)
    first = report(stubs, scope, [gone, about(memory, USED)], request_id="r")

    assert (1, [0]) == (first.stored_count, list(first.missing))
    assert first == report(stubs, scope, [gone, about(memory, USED)], request_id="r")
    assert (1, 0, 0) == counts(stubs, scope, memory)
    other = unreported(stubs, scope, [about(memory, WRONG)], request_id="r")
    assert grpc.StatusCode.ALREADY_EXISTS == other.code
    report(stubs, scope, [about(memory, USED)])
    report(stubs, scope, [about(memory, USED)])
    assert (3, 0, 0) == counts(stubs, scope, memory)


def test_lines_of_a_context_are_reported_by_their_citations(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The revision and the query are those of the context; a repetition does not need the context any more."""
    one, two = create_all(stubs, scope, ["Anna moved to Basel.", "Anna likes Basel."])
    asked = search_pb.RenderContextRequest(scope=scope, query="Anna in Basel")
    context = stubs.search.RenderContext(asked, timeout=TIMEOUT)
    names = {each.memory_id: each.citation for each in context.citations}
    cursor = context.summary.context_cursor
    reports = [
        search_pb.UseReport(citation=names[one.id], outcome=USED),
        search_pb.UseReport(citation=names[two.id].strip("[]"), outcome=WRONG, revision=7),
    ]
    reply = report(stubs, scope, reports, context_cursor=cursor, request_id="r")

    assert 2 == reply.stored_count
    assert {(one.id, USED, 1, "Anna in Basel"), (two.id, WRONG, 7, "Anna in Basel")} == {
        (each.memory_id, each.outcome, each.revision, each.query) for each in listed(stubs, scope)
    }
    assert reply == report(stubs, scope, reports, context_cursor=cursor, request_id="r")
    unknown = [search_pb.UseReport(citation="m99", outcome=USED)]
    assert ("reports[0].citation",) == unreported(stubs, scope, unknown, context_cursor=cursor).fields
    twice = [reports[0], about(one, IGNORED)]
    assert ("reports[1].memory_id",) == unreported(stubs, scope, twice, context_cursor=cursor).fields
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="p")
    assert ("context_cursor",) == unreported(stubs, elsewhere, reports, context_cursor=cursor).fields


@pytest.mark.parametrize("outside", ["another user", "another session", "deleted"])
def test_memories_out_of_sight_are_missing(stubs: Stubs, scope: types_pb.Scope, outside: str) -> None:
    """A report about one is not stored and counts nothing; the others are stored."""
    own = create(stubs, scope, "own")
    talk = types_pb.Scope(user_id=scope.user_id, session_id="s")
    if outside == "another user":
        home = types_pb.Scope(user_id=f"{scope.user_id}-2")
        other = create(stubs, home, "other")
    else:
        home = talk
        layer = types_pb.MEMORY_LAYER_SESSION if outside == "another session" else 0
        other = create(stubs, talk, "other", layer=layer)
    if outside == "deleted":
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=home, id=other.id), timeout=TIMEOUT)
    reply = report(stubs, scope, [about(other, WRONG), about(own, USED)])

    assert (1, [0]) == (reply.stored_count, list(reply.missing))
    assert [own.id] == [one.memory_id for one in listed(stubs, scope)]
    if outside == "deleted":
        stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=home, id=other.id), timeout=TIMEOUT)
    assert (0, 0, 0) == counts(stubs, home, other)


def test_queries_of_a_session_are_private_to_it(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Other sessions list the reports only if they ask for those of all sessions, and other projects never."""
    memory = create(stubs, scope, "shared")
    talk = types_pb.Scope(user_id=scope.user_id, project_id="p", session_id="s", agent_id="a")
    report(stubs, talk, [about(memory, USED)], query="in private")
    home = types_pb.Scope(user_id=scope.user_id, project_id="p")
    every = filters_pb.SESSION_VISIBILITY_ALL

    assert ["in private"] == [one.query for one in listed(stubs, talk)]
    assert [] == listed(stubs, home)
    [found] = listed(stubs, home, session_visibility=every)
    assert ("in private", talk) == (found.query, found.scope)
    assert [] == listed(stubs, scope, session_visibility=every)
    assert (1, 0, 0) == counts(stubs, scope, memory)


def test_reports_go_with_their_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A permanent deletion removes them, and the query that found nothing else; a soft one hides them."""
    one, two = create_all(stubs, scope, ["one", "two"])
    report(stubs, scope, [about(one, WRONG)], query="secret")
    report(stubs, scope, [about(one, USED), about(two, USED)], query="both")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=one.id), timeout=TIMEOUT)
    assert [("both", two.id)] == [(each.query, each.memory_id) for each in listed(stubs, scope)]
    stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=one.id), timeout=TIMEOUT)
    assert 3 == len(listed(stubs, scope))
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=one.id, purge=True), timeout=TIMEOUT)

    assert [("both", two.id)] == [(each.query, each.memory_id) for each in listed(stubs, scope)]
    state = feedback(stubs, scope)
    assert (1, 0, 1) == (state.counts.used_count, state.counts.wrong_count, state.call_count)


def test_an_erasure_removes_reports(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Its receipt names them."""
    memory = create(stubs, scope, "one")
    report(stubs, scope, [about(memory, USED)], query="secret")
    request = lifecycle_pb.EraseUserRequest(scope=scope, confirm=True)
    receipt = stubs.lifecycle.EraseUser(request, timeout=TIMEOUT).receipt

    removed = {store.store: dict(store.removed_counts) for store in receipt.stores}["metadata"]
    assert receipt.clean
    assert {"use_calls": 1, "use_reports": 1, "use_counts": 1, "use_feedback": 1}.items() <= removed.items()
    assert search_pb.USE_FEEDBACK_STATE_TOO_FEW_REPORTS == feedback(stubs, scope).state
    assert 0 == feedback(stubs, scope).counts.used_count


def test_the_state_says_why_reports_do_not_rank(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With the settings that decide; a search that asks for reports ranks without them all the same."""
    one, two = create_all(stubs, scope, ["The hose is green.", "The hose is long."])
    report(stubs, scope, [about(one, USED), about(two, IGNORED)], query="hose")
    state = feedback(stubs, scope)

    assert (search_pb.USE_FEEDBACK_STATE_TOO_FEW_REPORTS, False) == (state.state, state.enabled)
    assert (100, 20, 0.01, 0.5) == (state.min_report_count, state.min_tested_count, state.min_gain, state.weight)
    assert (1, 1, 0, 2) == (
        state.counts.used_count, state.counts.ignored_count, state.counts.wrong_count, state.pending_count,
    )  # fmt: skip
    plain = search_pb.SearchRequest(scope=scope, query="hose", explain=True)
    asked = search_pb.SearchRequest(scope=scope, query="hose", explain=True, use_feedback=True)
    replies = [stubs.search.Search(request, timeout=TIMEOUT) for request in (plain, asked)]
    hits = [[(hit.memory.id, hit.score, str(hit.explanation)) for hit in reply.hits] for reply in replies]
    assert hits[0] == hits[1]
