"""Ranking by reports of use over the wire: it joins where a replay of the reports shows a gain, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create_all
from tests.support.server_process import Stubs

CALLS = 44
"""Half of them are tested: more than the 20 that the setting wants."""
STEP = lifecycle_pb.MAINTENANCE_STEP_REPLAY_USE
ALIKE = {
    "en": [f"The checklist for the deployment of the web shop, {part}." for part in ("A", "B", "C", "D", "E")],
    "zh": [f"网店部署的检查清单，第{part}部分。" for part in "一二三四五"],
}
APART = {
    "en": ["Anna plays the violin.", "The hose is green.", "Port 8080 is taken.", "Paul eats no nuts."],
    "zh": ["小王会拉小提琴。", "花园的水管是绿色的。", "端口8080已被占用。", "小李不吃坚果。"],
}
QUESTIONS = {
    "en": ["Who plays the violin?", "Which colour has the hose?", "Is port 8080 taken?", "Does Paul eat nuts?"],
    "zh": ["谁会拉小提琴？", "水管是什么颜色？", "端口8080被占用了吗？", "小李吃坚果吗？"],
}
OTHERS = {
    "en": [f"Note {number}: {what}." for number in range(8) for what in ("rain in May", "a red bicycle", "old maps")],
    "zh": [f"笔记{number}：{what}。" for number in range(8) for what in ("五月下雨", "红色的自行车", "旧地图")],
}
"""Scores are relative to those of the worst candidates: among five memories alone small differences would be large."""
SUBJECT = {"en": "How does the deployment of the web shop go?", "zh": "网店怎么部署？"}


def search(stubs: Stubs, scope: types_pb.Scope, query: str, **fields: object) -> list[search_pb.Hit]:
    """Return the hits of a search, explained."""
    request = search_pb.SearchRequest(scope=scope, query=query, explain=True, **fields)  # type: ignore[arg-type]
    return list(stubs.search.Search(request, timeout=TIMEOUT).hits)


def ids(hits: Sequence[search_pb.Hit]) -> list[str]:
    """Return the ids of hits."""
    return [hit.memory.id for hit in hits]


def scores(hits: Sequence[search_pb.Hit]) -> list[tuple[str, float, str]]:
    """Return the ids, scores and explanations of hits."""
    return [(hit.memory.id, hit.score, str(hit.explanation)) for hit in hits]


def terms(hits: Sequence[search_pb.Hit]) -> dict[str, float]:
    """Return the boosts by reports, by memory."""
    return {hit.memory.id: one.value for hit in hits for one in hit.explanation.boosts if one.name == "use"}


def report(stubs: Stubs, scope: types_pb.Scope, query: str, used: str, shown: Sequence[str]) -> None:
    """Report that one of the shown memories was used, and the others ignored."""
    outcomes = {one: search_pb.USE_OUTCOME_USED if one == used else search_pb.USE_OUTCOME_IGNORED for one in shown}
    reports = [search_pb.UseReport(memory_id=one, outcome=outcome) for one, outcome in outcomes.items()]
    stubs.search.ReportUse(search_pb.ReportUseRequest(scope=scope, query=query, reports=reports), timeout=TIMEOUT)


def replay(stubs: Stubs, scope: types_pb.Scope, *, dry_run: bool = False) -> list[lifecycle_pb.MaintenanceChange]:
    """Run the replay of a user, and return its changes."""
    request = lifecycle_pb.RunMaintenanceRequest(scope=scope, steps=[STEP], dry_run=dry_run)
    responses = list(stubs.lifecycle.RunMaintenance(request, timeout=TIMEOUT))
    assert [""] == [tally.failure for tally in responses[-1].tallies]
    return [change for response in responses for change in response.changes]


def feedback(stubs: Stubs, scope: types_pb.Scope) -> search_pb.GetUseFeedbackResponse:
    """Return the state of a user's reports."""
    return stubs.search.GetUseFeedback(search_pb.GetUseFeedbackRequest(scope=scope), timeout=TIMEOUT)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reports_join_where_a_replay_shows_a_gain(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """Of memories that answer alike, the one that is always used comes first; on request only, and explained."""
    alike = {memory.id for memory in create_all(stubs, scope, ALIKE[language])}
    create_all(stubs, scope, OTHERS[language])
    query = SUBJECT[language]
    before = search(stubs, scope, query)
    shown = ids(before)[:5]
    assert alike == {*shown}
    chosen = shown[3]
    for _ in range(CALLS):
        report(stubs, scope, query, chosen, shown)
    assert search_pb.USE_FEEDBACK_STATE_REPLAY_PENDING == feedback(stubs, scope).state
    assert {} == terms(search(stubs, scope, query, use_feedback=True))
    [due] = replay(stubs, scope, dry_run=True)
    assert (STEP, "", scope.user_id) == (due.step, due.memory_id, due.user_id)
    assert search_pb.USE_FEEDBACK_STATE_REPLAY_PENDING == feedback(stubs, scope).state
    assert [due] == replay(stubs, scope)

    state = feedback(stubs, scope)
    assert search_pb.USE_FEEDBACK_STATE_GAIN == state.state
    assert (CALLS, CALLS // 2, 0) == (state.replay.call_count, state.replay.tested_count, state.pending_count)
    assert state.replay.mrr_without == pytest.approx(0.25)
    assert state.replay.mrr_with > 0.9
    assert state.replay.ndcg_with > state.replay.ndcg_without
    after = search(stubs, scope, query, use_feedback=True)
    assert chosen == after[0].memory.id
    added = terms(after)
    assert 0 < added[chosen] <= state.weight
    assert all(-state.weight <= added[one] < 0 for one in shown if one != chosen)
    assert scores(before) == scores(search(stubs, scope, query))
    assert {} == terms(search(stubs, scope, query, use_feedback=True, mode=search_pb.SEARCH_MODE_SEMANTIC))
    ranked = search_pb.Fusion(method=search_pb.FUSION_METHOD_RECIPROCAL_RANK)
    assert {} == terms(search(stubs, scope, query, use_feedback=True, fusion=ranked))
    assert [] == replay(stubs, scope)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reports_stay_out_where_a_replay_shows_no_gain(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """Where each query finds what it needs already, past use says nothing of the next query."""
    create_all(stubs, scope, APART[language])
    for number in range(CALLS):
        query = QUESTIONS[language][number % len(QUESTIONS[language])]
        shown = ids(search(stubs, scope, query))
        report(stubs, scope, query, shown[0], shown)
    replay(stubs, scope)

    state = feedback(stubs, scope)
    assert search_pb.USE_FEEDBACK_STATE_NO_GAIN == state.state
    assert (CALLS // 2, 1.0) == (state.replay.tested_count, state.replay.mrr_without)
    assert state.replay.mrr_with <= state.replay.mrr_without
    query = QUESTIONS[language][0]
    assert scores(search(stubs, scope, query)) == scores(search(stubs, scope, query, use_feedback=True))


def test_a_context_ranks_by_reports_on_request(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What the query retrieves is ranked as in a search."""
    create_all(stubs, scope, [*ALIKE["en"], *OTHERS["en"]])
    query = SUBJECT["en"]
    shown = ids(search(stubs, scope, query))[:5]
    for _ in range(CALLS):
        report(stubs, scope, query, shown[-1], shown)
    replay(stubs, scope)

    def first(*, use_feedback: bool) -> str:
        options = search_pb.ContextOptions(use_feedback=use_feedback)
        request = search_pb.BuildContextRequest(scope=scope, query=query, options=options)
        events = stubs.search.BuildContext(request, timeout=TIMEOUT)
        best = max((item for event in events for item in event.items.items), key=lambda item: item.score)
        return best.memory_id

    assert (shown[0], shown[-1]) == (first(use_feedback=False), first(use_feedback=True))


def test_reports_without_queries_are_not_enough(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A replay needs queries to search again, and a run for a project replays nothing."""
    shown = [memory.id for memory in create_all(stubs, scope, ALIKE["en"])]
    for _ in range(CALLS):
        report(stubs, scope, " ", shown[0], shown)
    project = types_pb.Scope(user_id=scope.user_id, project_id="p")
    assert [] == replay(stubs, project)
    assert 1 == len(replay(stubs, scope))

    state = feedback(stubs, scope)
    assert search_pb.USE_FEEDBACK_STATE_TOO_FEW_QUERIES == state.state
    assert (CALLS, 0) == (state.replay.call_count, state.replay.tested_count)
