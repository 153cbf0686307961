"""The score of reports of use, and the decision of a replay."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.use_feedback import (
    PRIOR_REPORTS,
    FeedbackRules,
    FeedbackState,
    UseCounts,
    UseFeedback,
    UseReplay,
    replay_state,
    use_score,
    use_scores,
)

NOW = datetime(2026, 2, 6, tzinfo=UTC)
RULES = FeedbackRules(min_reports=10, min_queries=4, min_gain=0.01)
numbers = st.integers(0, 10**6)
counts = st.builds(UseCounts, numbers, numbers, numbers)
shares = st.floats(0, 1)


@given(counts, shares)
def test_a_score_is_bounded(one: UseCounts, base: float) -> None:
    """It is at most 1 and at least -1, whatever was reported."""
    assert -1.0 <= use_score(one, base) <= 1.0


@given(shares)
def test_a_memory_without_reports_is_neutral(base: float) -> None:
    """Its mean is that of the prior."""
    assert use_score(UseCounts(), base) == pytest.approx(0.0, abs=1e-12)


@given(counts, st.floats(0.01, 0.99))
def test_a_used_memory_scores_higher_and_a_wrong_one_lower(one: UseCounts, base: float) -> None:
    """Each further report moves the score in its direction, a wrong one by more than an ignored one."""
    score = use_score(one, base)

    assert use_score(one + UseCounts(used=1), base) >= score
    assert use_score(one + UseCounts(wrong=1), base) <= use_score(one + UseCounts(ignored=1), base) <= score


def test_few_reports_move_a_score_little() -> None:
    """With as many reports as the prior weighs, half of the difference remains."""
    few, many = use_score(UseCounts(used=1), 0.2), use_score(UseCounts(used=10_000), 0.2)

    assert few == pytest.approx(1 / (1 + PRIOR_REPORTS))
    assert use_score(UseCounts(used=int(PRIOR_REPORTS)), 0.2) == pytest.approx(0.5)
    assert many > 0.99
    assert use_scores({7: UseCounts(used=10)}, 0.2, 0.4) == {7: pytest.approx(0.2)}
    assert UseCounts(2, 4, 1).share == pytest.approx(2 / 5)
    assert UseCounts().share == 0.0


@pytest.mark.parametrize(
    ("replay", "state"),
    [
        (UseReplay(NOW, 9, 3, 0.1, 0.9), FeedbackState.TOO_FEW_QUERIES),
        (UseReplay(NOW, 9, 4, 0.5, 0.52, standard_error=0.01), FeedbackState.GAIN),
        (UseReplay(NOW, 9, 4, 0.5, 0.505, standard_error=0.001), FeedbackState.NO_GAIN),
        (UseReplay(NOW, 9, 4, 0.5, 0.52, standard_error=0.03), FeedbackState.NO_GAIN),
        (UseReplay(NOW, 9, 4, 0.5, 0.5), FeedbackState.NO_GAIN),
        (UseReplay(NOW, 9, 4, 0.5, 0.3), FeedbackState.NO_GAIN),
    ],
)
def test_a_replay_decides(replay: UseReplay, state: FeedbackState) -> None:
    """Enough queries, a gain of the margin, and one above its standard error."""
    assert replay_state(replay, RULES) is state
    assert UseFeedback(UseCounts(used=10), replay=replay).state(RULES) is state


def test_too_few_reports_come_before_any_replay() -> None:
    """Without enough of them a gain counts for nothing, and with enough a replay is waited for."""
    gain = UseReplay(NOW, 9, 4, 0.5, 0.9)

    assert UseFeedback(UseCounts(used=9), replay=gain).state(RULES) is FeedbackState.TOO_FEW_REPORTS
    assert UseFeedback(UseCounts(used=10)).state(RULES) is FeedbackState.REPLAY_PENDING
