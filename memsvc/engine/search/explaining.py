"""Explaining a score: which retriever thought what of a memory, and what was made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from memsvc.domain.index_entries import View
from memsvc.domain.search import Explanation, Retriever, RetrieverScore
from memsvc.engine.search.fusion import Fused, RankedList
from memsvc.engine.search.scoring import SCALE, Scored
from memsvc.engine.search.weighing import WeightedScores
from memsvc.ports.candidates import Candidates

DENSE = {View.CHUNK: Retriever.DENSE.value, View.SENTENCES: "DENSE_SENTENCES", View.WINDOW: "DENSE_WINDOW"}
"""The names of the dense lists; each view of tier E is a list of its own."""

Rankings: TypeAlias = Mapping[str, RankedList]
"""What each list holds, best first; empty lists are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBreakdown:
    """All that ranking knew, to explain a score by."""

    rankings: Rankings
    fused: Fused
    candidates: Candidates
    scored: Scored
    weighed: WeightedScores

    def of(self, place: int) -> Explanation:
        """Explain the score of one of the candidates."""
        row = int(self.candidates.rows[place])
        boosts = [boost for boost in self.scored.boosts_of(place) if boost != (SCALE, 1.0)]
        boosts += self.weighed.factors_of(place)
        return Explanation(tuple(self._retrievers(row)), self.fused.total_of(row), tuple(boosts))

    def _retrievers(self, row: int) -> list[RetrieverScore]:
        return [
            RetrieverScore(
                Retriever.DENSE if name in DENSE.values() else Retriever(name),
                place + 1,
                ranking.score_of(row),
                self.fused.normalized(name, row),
                self.fused.share(name, row),
            )
            for name, ranking in self.rankings.items()
            if (place := ranking.place_of(row)) >= 0
        ]
