"""Explaining a score: which retriever thought what of a memory, and what was made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from memsvc.domain.entries import View
from memsvc.domain.fusion import Fused, Ranked
from memsvc.domain.query import Explanation, Retriever, RetrieverScore
from memsvc.domain.scoring import SCALE, Scored
from memsvc.engine.read.weighing import Weighed

DENSE = {View.CHUNK: Retriever.DENSE.value, View.SENTENCES: "DENSE_SENTENCES", View.WINDOW: "DENSE_WINDOW"}
"""The names of the dense lists; each view of tier E is a list of its own."""

Rankings: TypeAlias = Mapping[str, Sequence[Ranked]]
"""What each list holds, best first; empty lists are left out."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that ranking knew, to explain a score by."""

    rankings: Rankings
    fused: Fused
    scored: Scored
    weighed: Weighed

    def of(self, row: int) -> Explanation:
        """Explain one memory's score."""
        boosts = [(name, value) for name, value in self.scored.boosts_of(row) if (name, value) != (SCALE, 1.0)]
        boosts += self.weighed.factors_of(row)
        return Explanation(tuple(self._retrievers(row)), self.fused.totals[row], tuple(boosts))

    def _retrievers(self, row: int) -> list[RetrieverScore]:
        return [
            RetrieverScore(
                Retriever.DENSE if name in DENSE.values() else Retriever(name),
                rank,
                ranked.score,
                self.fused.normalized(name, row),
                self.fused.share(name, row),
            )
            for name, ranking in self.rankings.items()
            for rank, ranked in enumerate(ranking, start=1)
            if ranked.row == row
        ]
