"""Replay of reports of use: past queries are ranked with and without what had been reported before them.

The queries are tested one after another, each with the reports that precede it: predictive sequential (prequential)
evaluation, after Dawid, Statistical Theory: The Prequential Approach, 1984. What a report says about the query that it
came with is never part of the test of that query.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.filters import conjunction
from memsvc.domain.scope import Reach
from memsvc.domain.search import SearchQuery, Selection
from memsvc.domain.use_feedback import (
    FeedbackRules,
    RecordedUse,
    UseCounts,
    UseOutcome,
    UseReplay,
    use_scores,
)
from memsvc.domain.visibility import session_privacy, usual_conditions
from memsvc.engine.search.ranking import Ranker
from memsvc.engine.search.retrieval import RetrievalRequest, RetrievalSource
from memsvc.ports.features import UseReads

REPLAYED_CALLS = 200
"""Newest calls that a replay reads; at most half of them are searched again, at 20 to 50 ms each."""
RANKED = 100
"""Hits in which a used memory is looked for."""
NDCG_HITS = 10
SECONDS = 10.0
"""The longest search of a replay."""


@dataclass(frozen=True, slots=True)
class RankedUse:
    """Ranks, from 1, of the used memories of one query; those beyond `RANKED` are left out.

    Attributes:
        used: The number of used memories.
    """

    ranks: Sequence[int]
    used: int

    @property
    def reciprocal_rank(self) -> float:
        """Return 1 / rank of the first one, 0 if there is none."""
        return 1.0 / self.ranks[0] if self.ranks else 0.0

    @property
    def ndcg(self) -> float:
        """Return the normalised discounted cumulative gain of the first hits, each used memory having the gain 1."""
        gain = math.fsum(1.0 / math.log2(rank + 1) for rank in self.ranks if rank <= NDCG_HITS)
        best = math.fsum(1.0 / math.log2(rank + 1) for rank in range(1, 1 + min(self.used, NDCG_HITS)))
        return gain / best


class UseReplayer:
    """Replays the reports of users. It counts no access and changes no memory."""

    def __init__(
        self,
        uses: UseReads,
        retrieval: RetrievalSource,
        ranker: Ranker,
        rules: FeedbackRules,
        now: Callable[[], datetime],
        yield_to_searches: Callable[[], None],
    ) -> None:
        """Search by *retrieval* and *ranker*; call *yield_to_searches* before each search; *now* is the clock."""
        self._uses = uses
        self._retrieval = retrieval
        self._ranker = ranker
        self._rules = rules
        self._now = now
        self._yield_to_searches = yield_to_searches

    def replay(self, owner: str) -> UseReplay:
        """Return the result for an owner.

        Raises:
            BackendUnavailableError: A retriever does not answer: without it the comparison says nothing of searches.
        """
        calls = self._uses.calls(owner, limit=REPLAYED_CALLS)
        counts: dict[int, UseCounts] = defaultdict(UseCounts)
        total = UseCounts()
        pairs: list[tuple[RankedUse, RankedUse]] = []
        for place, call in enumerate(calls):
            used = {row for row, outcome in call.outcomes.items() if outcome is UseOutcome.USED}
            if 2 * place >= len(calls) and call.query and used:
                pairs.append(self._compare(call, used, use_scores(counts, total.share, self._rules.weight)))
            for row, outcome in call.outcomes.items():
                counts[row] += UseCounts.of(outcome)
                total += UseCounts.of(outcome)
        return summarize(pairs, calls=len(calls), time=self._now())

    def _compare(
        self, call: RecordedUse, used: AbstractSet[int], scores: Mapping[int, float]
    ) -> tuple[RankedUse, RankedUse]:
        """Return the ranks of used memories without and with reports; both from the same hits of the retrievers."""
        self._yield_to_searches()
        scope, now = call.scope, self._now()
        reach = Reach.from_scope(scope)
        where = conjunction(usual_conditions(now), session_privacy(scope))
        query = SearchQuery(scope, call.query, selection=Selection(where), limit=RANKED)
        asked = RetrievalRequest(query, reach, where, self._ranker.depth, Deadline.after(SECONDS))
        found = self._retrieval.run(asked)
        if found.degraded:
            raise BackendUnavailableError(found.degraded[0].retriever.value.lower())

        def ranked(query: SearchQuery) -> RankedUse:
            order = self._ranker.rank(query, found, reach=reach, now=now, use=scores).page(0, RANKED)
            return RankedUse([rank for rank, one in enumerate(order, start=1) if one.row in used], len(used))

        return ranked(query), ranked(replace(query, use_feedback=True))


def summarize(pairs: Sequence[tuple[RankedUse, RankedUse]], *, calls: int, time: datetime) -> UseReplay:
    """Return the means over queries, each ranked without and with reports, and the standard error of the difference."""
    if not pairs:
        return UseReplay(time, calls, 0)
    gains = [after.reciprocal_rank - before.reciprocal_rank for before, after in pairs]
    error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return UseReplay(
        time,
        calls,
        len(pairs),
        mrr_without=statistics.fmean(before.reciprocal_rank for before, _ in pairs),
        mrr_with=statistics.fmean(after.reciprocal_rank for _, after in pairs),
        ndcg_without=statistics.fmean(before.ndcg for before, _ in pairs),
        ndcg_with=statistics.fmean(after.ndcg for _, after in pairs),
        standard_error=error,
    )
