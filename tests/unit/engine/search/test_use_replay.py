"""A replay of reports of use joins them where they help, and keeps them out where they do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.filters import conjunction
from memsvc.domain.maintenance import MaintenancePlan, MaintenanceScope, UpkeepStep
from memsvc.domain.scope import Scope
from memsvc.domain.search import Order, SearchQuery, Selection
from memsvc.domain.use_feedback import FeedbackState, UseFeedback, UseOutcome, UseReport
from memsvc.domain.visibility import session_privacy, usual_conditions
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.search.use_feedback import ContextCitations, NewUseReports
from memsvc.engine.search.use_replay import RankedUse, summarize
from memsvc.engine.services import Services
from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.requests.filters import decode_selection
from memsvc.settings import load_settings
from memsvc.v1 import filters_pb2 as filters_pb
from tests.support.sqlite_store import SQLITE

IN_MEMORY = {"backend": "in-memory"}
ADA = Scope("ada")
NOW = datetime(2026, 2, 6, tzinfo=UTC)


def test_ranks_become_means() -> None:
    """The reciprocal rank is that of the first used memory; the gain is discounted by rank and normalised."""
    first, third, missing = RankedUse([1, 3], 2), RankedUse([3], 1), RankedUse([], 1)
    replay = summarize([(third, first), (missing, third)], calls=9, time=NOW)

    ranks = [one.reciprocal_rank for one in (first, third, missing)]
    assert ranks == pytest.approx([1.0, 1 / 3, 0.0])
    assert RankedUse([1, 2], 2).ndcg == pytest.approx(1.0)
    assert [third.ndcg, RankedUse([11], 1).ndcg] == pytest.approx([0.5, 0.0])
    assert (replay.calls, replay.tested) == (9, 2)
    assert [replay.mrr_without, replay.mrr_with] == pytest.approx([1 / 6, 2 / 3])
    assert replay.standard_error == pytest.approx(1 / 6)
    assert summarize([], calls=9, time=NOW).tested == 0


def test_the_filter_is_the_default_of_searches() -> None:
    """A replay finds what a search without a filter finds."""
    asked = decode_selection(RequestDecoder(), filters_pb.Filter(), now=NOW).where

    assert conjunction(usual_conditions(NOW), session_privacy(ADA)) == conjunction(asked, session_privacy(ADA))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Services]:
    """An engine whose rules want few reports."""
    settings = load_settings(
        data_dir=tmp_path / "data",
        metadata=SQLITE,
        vectors=IN_MEMORY,
        lexical=IN_MEMORY,
        embedder=IN_MEMORY,
        indexing={"upkeep_seconds": 3600},
        ranking={"use_min_reports": 12, "use_min_queries": 4},
    )
    with running(settings) as application:
        yield application


def remember(application: Services, *contents: str, scope: Scope = ADA) -> list[str]:
    """Store memories in order and return their ids once they are found."""
    options = WriteOptions(wait_for=WaitFor.STORED)
    written = [application.memory_creator.create(scope, Draft(content), options) for content in contents]
    application.indexer.when_reached(written[-1].position).result(timeout=30)
    return [one.memory.id for one in written]


def ids(application: Services, text: str, *, use_feedback: bool = False) -> list[str]:
    """Return the ids of the hits of a search."""
    query = SearchQuery(ADA, text, use_feedback=use_feedback)
    return [hit.memory.id for hit in application.search.search(query, Deadline()).hits]


def report(application: Services, query: str, used: str, shown: Sequence[str], scope: Scope = ADA) -> None:
    """Report that one of the shown memories was used and the others ignored."""
    reports = [UseReport(one, UseOutcome.USED if one == used else UseOutcome.IGNORED) for one in shown]
    application.use_reporter.report(
        NewUseReports(scope, query, tuple(reports), {}, "", ""), lambda: ContextCitations("", ())
    )


def replay(application: Services, scope: Scope = ADA) -> UseFeedback:
    """Run the step, and return the state of the user."""
    area = MaintenanceScope.of(scope)
    *_, last = application.maintenance.run(area, [UpkeepStep.REPLAY_USE], MaintenancePlan.PERFORM)
    assert last.tallies[UpkeepStep.REPLAY_USE].failure == ""
    return application.use_reader.feedback(scope)


def state(application: Services, feedback: UseFeedback) -> FeedbackState:
    """Return whether reports join."""
    return feedback.state(application.use_reader.rules)


ALIKE = [f"The otter of the river sleeps, {name}." for name in ("Abe", "Bea", "Cid", "Dot")]
OTHERS = [f"A lamp number {number} is broken." for number in range(30)]


def test_what_is_always_used_comes_first(application: Services) -> None:
    """Once its share of use in the past predicts that of later queries."""
    remember(application, *ALIKE, *OTHERS)
    shown = ids(application, "otter river")[:4]
    for _ in range(10):
        report(application, "otter river", shown[-1], shown)
    feedback = replay(application)

    assert state(application, feedback) is FeedbackState.GAIN
    assert feedback.replay is not None
    assert feedback.replay.mrr_with > feedback.replay.mrr_without
    assert ids(application, "otter river", use_feedback=True)[0] == shown[-1]
    assert ids(application, "otter river")[:4] == shown


def test_no_query_is_tested_with_its_own_answer(application: Services) -> None:
    """A memory that is used once and never again gains nothing from its own report."""
    words = ("otter", "heron", "badger", "marten", "beaver", "falcon", "lizard", "magpie", "weasel", "salmon")
    for word in words:
        remember(application, f"The {word} of the river sleeps.", f"The {word} of the river sleeps late.")
    for word in words:
        shown = ids(application, f"{word} river")[:2]
        report(application, f"{word} river", shown[1], shown)
    feedback = replay(application)

    assert state(application, feedback) is FeedbackState.NO_GAIN
    assert feedback.replay is not None
    assert feedback.replay.mrr_with <= feedback.replay.mrr_without


def test_habits_that_end_are_no_gain(application: Services) -> None:
    """What was used before and is not later lowers what is used now: reports stay out."""
    remember(application, *ALIKE, *OTHERS)
    shown = ids(application, "otter river")[:4]
    for number in range(12):
        report(application, "otter river", shown[3] if number < 6 else shown[0], shown)
    feedback = replay(application)

    assert state(application, feedback) is FeedbackState.NO_GAIN
    assert feedback.replay is not None
    assert feedback.replay.mrr_with < feedback.replay.mrr_without
    assert ids(application, "otter river", use_feedback=True)[:4] == shown


def test_reports_rank_their_own_user_only(application: Services) -> None:
    """Another user with the same memories has a state of their own."""
    remember(application, *ALIKE, *OTHERS)
    bob = Scope("bob")
    theirs = remember(application, *ALIKE, scope=bob)
    shown = ids(application, "otter river")[:4]
    for _ in range(10):
        report(application, "otter river", shown[-1], shown)
    replay(application)
    feedback = replay(application, bob)

    assert state(application, feedback) is FeedbackState.TOO_FEW_REPORTS
    assert feedback.replay is None
    query = SearchQuery(bob, "otter river", use_feedback=True, explain=True)
    hits = application.search.search(query, Deadline()).hits
    assert {hit.memory.id for hit in hits} == {*theirs}
    assert all("use" not in dict(hit.explanation.boosts) for hit in hits if hit.explanation)


def test_replayed_searches_count_no_access(application: Services) -> None:
    """A replay is no use of a memory, and neither is a report."""
    shown = remember(application, *ALIKE)
    for _ in range(10):
        report(application, "otter river", shown[0], shown)
    feedback = replay(application)
    # A run writes the counts that wait.
    list(application.maintenance.run(MaintenanceScope.of(ADA), [UpkeepStep.EXPIRE], MaintenancePlan.PERFORM))

    assert feedback.replay is not None
    assert feedback.replay.tested == 5
    stored, _ = application.memory_reader.page(ADA, Selection(), order=Order(), after=None, limit=9)
    assert [0] * len(shown) == [one.access_count for one in stored]
