"""Reports of use: what became of the memories that an agent was shown, and how far that moves a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from memsvc.domain.scope import Scope, SessionVisibility

CALLS_KEPT = 1_000
"""Calls of a user that are stored; older ones remain in the counts."""
QUERY_KEPT = 2_048
"""Characters of a query that are stored: as many as the bundled embedder reads."""
PRIOR_REPORTS = 10.0
"""Weight of the prior in reports: a memory with so many reports is moved by half of what they say."""
IGNORED_WEIGHT = 0.5
"""Weight of an ignored memory as a failure: an agent ignores what it has no room for, too."""
REPLAY_SHARE = 10
"""A replay is due when one in so many reports is newer than the last one: its cost stays a fixed share of the calls."""


class UseOutcome(StrEnum):
    """Outcome of a memory that the agent was shown."""

    USED = "USED"
    IGNORED = "IGNORED"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class UseReport:
    """Report about one memory.

    Attributes:
        memory_id: Its id.
        revision: The revision that was shown; 0: not known.
        position: Its place among what was shown, from 1; 0: not known.
    """

    memory_id: str
    outcome: UseOutcome
    revision: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class UseCall:
    """Reports that were made together, about what one query found.

    Attributes:
        scope: The scope of the call.
        query: The text that found the memories, cut to `QUERY_KEPT`; empty: not known.
    """

    scope: Scope
    query: str
    time: datetime
    reports: Sequence[UseReport]


@dataclass(frozen=True, slots=True)
class StoredUseReport:
    """A report with what is known of its call.

    Attributes:
        call: The number of the call; it grows with time.
        row: The row of the memory.
    """

    call: int
    row: int
    report: UseReport
    query: str
    time: datetime
    scope: Scope


@dataclass(frozen=True, slots=True)
class UseSelection:
    """Reports that a list selects.

    Attributes:
        session_id: The session of the reader.
        sessions: ALL includes reports of other sessions, and those about private memories of them.
        outcome: The only outcome; None: any.
        row: The row of the only memory; None: any.
    """

    session_id: str = ""
    sessions: SessionVisibility = SessionVisibility.CURRENT
    outcome: UseOutcome | None = None
    row: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedUse:
    """A call as a replay reads it: outcomes by the rows of the memories that still exist."""

    scope: Scope
    query: str
    outcomes: Mapping[int, UseOutcome]


@dataclass(frozen=True, slots=True)
class UseCounts:
    """Numbers of reports by outcome."""

    used: int = 0
    ignored: int = 0
    wrong: int = 0

    def __add__(self, other: UseCounts) -> UseCounts:
        """Return the sum."""
        return UseCounts(self.used + other.used, self.ignored + other.ignored, self.wrong + other.wrong)

    @property
    def total(self) -> int:
        """Return the number of reports."""
        return self.used + self.ignored + self.wrong

    @property
    def weight(self) -> float:
        """Return the number of trials: an ignored memory counts less than a wrong one."""
        return self.used + self.wrong + IGNORED_WEIGHT * self.ignored

    @property
    def share(self) -> float:
        """Return the share of used ones among the trials; 0 without any."""
        return self.used / self.weight if self.weight else 0.0

    @classmethod
    def of(cls, outcome: UseOutcome) -> UseCounts:
        """Return the counts of one report."""
        return cls(
            used=int(outcome is UseOutcome.USED),
            ignored=int(outcome is UseOutcome.IGNORED),
            wrong=int(outcome is UseOutcome.WRONG),
        )


def use_score(counts: UseCounts, base: float) -> float:
    """Return how much more, or less, a memory is used than the usual one of its user: -1 to 1, and 0 without reports.

    The posterior mean of a Beta-Binomial model, (used + k * base) / (trials + k) with k = `PRIOR_REPORTS`, minus the
    prior mean *base*, in parts of the largest possible difference. An empirical Bayes estimate: Gelman et al., Bayesian
    Data Analysis, 3rd edition, sections 2.4 and 5.1.
    """
    mean = (counts.used + PRIOR_REPORTS * base) / (counts.weight + PRIOR_REPORTS)
    return (mean - base) / max(base, 1.0 - base)


def use_scores(counts: Mapping[int, UseCounts], base: float, weight: float) -> dict[int, float]:
    """Return what reports add to the scores of memories, by row: -*weight* to *weight*."""
    return {row: weight * use_score(one, base) for row, one in counts.items()}


# The decision whether reports join the ranking of a user.


class FeedbackState(StrEnum):
    """Reason for which reports are, or are not, part of the ranking."""

    TOO_FEW_REPORTS = "TOO_FEW_REPORTS"
    REPLAY_PENDING = "REPLAY_PENDING"
    TOO_FEW_QUERIES = "TOO_FEW_QUERIES"
    NO_GAIN = "NO_GAIN"
    GAIN = "GAIN"


@dataclass(frozen=True, slots=True)
class FeedbackRules:
    """Conditions on which reports join the ranking, and their weight.

    Attributes:
        is_default: Whether searches that do not say otherwise use reports.
        weight: The most that reports add to a score, or take from it, in terms of the fused score.
        min_reports: Reports of a user below which nothing is replayed.
        min_queries: Queries that a replay must test.
        min_gain: Gain of the mean reciprocal rank that a replay must show.
    """

    is_default: bool = False
    weight: float = 0.5
    min_reports: int = 100
    min_queries: int = 20
    min_gain: float = 0.01


@dataclass(frozen=True, slots=True)
class UseReplay:
    """Result of a replay. Means are over the tested queries.

    Attributes:
        calls: The number of calls that it read.
        tested: The number of queries that were ranked twice.
        mrr_without: The mean reciprocal rank of the first used memory without reports; *mrr_with*: with them.
        ndcg_without: The mean normalised discounted cumulative gain of the first 10; *ndcg_with* likewise.
        standard_error: That of mrr_with - mrr_without.
    """

    time: datetime
    calls: int
    tested: int
    mrr_without: float = 0.0
    mrr_with: float = 0.0
    ndcg_without: float = 0.0
    ndcg_with: float = 0.0
    standard_error: float = 0.0

    @property
    def gain(self) -> float:
        """Return the gain of the mean reciprocal rank."""
        return self.mrr_with - self.mrr_without


@dataclass(frozen=True, slots=True)
class UseFeedback:
    """State of the reports of a user.

    Attributes:
        calls: The number of stored calls.
        pending: The number of reports since the last replay.
        replay: The last replay; None: none has run.
    """

    counts: UseCounts = UseCounts()
    calls: int = 0
    pending: int = 0
    replay: UseReplay | None = None

    def state(self, rules: FeedbackRules) -> FeedbackState:
        """Return whether reports join the ranking by *rules*, and why."""
        if self.counts.total < rules.min_reports:
            return FeedbackState.TOO_FEW_REPORTS
        if self.replay is None:
            return FeedbackState.REPLAY_PENDING
        return replay_state(self.replay, rules)


def replay_state(replay: UseReplay, rules: FeedbackRules) -> FeedbackState:
    """Return what a replay decides: a gain must be large enough, and larger than its standard error."""
    if replay.tested < rules.min_queries:
        return FeedbackState.TOO_FEW_QUERIES
    has_gain = replay.gain >= rules.min_gain and replay.gain > replay.standard_error
    return FeedbackState.GAIN if has_gain else FeedbackState.NO_GAIN
