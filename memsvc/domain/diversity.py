"""Letting novelty weigh in on an order of hits: by their words, which every backend has and which no model changes.

Likeness by embeddings would need the vectors back from the index; by words the same list comes out whatever model and
index are used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TermVector:
    """The words of a text, as often as each is there."""

    counts: Counter[str]
    length: float

    @classmethod
    def of(cls, terms: Sequence[str]) -> TermVector:
        """Return the wording of a text with these terms."""
        counts = Counter(terms)
        return cls(counts, math.sqrt(math.fsum(count * count for count in counts.values())))


def cosine(one: TermVector, other: TermVector) -> float:
    """Return how alike two wordings are, 0 to 1; one without words is like none."""
    if not one.length or not other.length:
        return 0.0
    few, many = sorted((one.counts, other.counts), key=len)
    return math.fsum(count * many[term] for term, count in few.items() if term in many) / (one.length * other.length)


def diversified(scores: Sequence[float], wordings: Sequence[TermVector], mmr_lambda: float) -> list[int]:
    """Return all places in the order of maximal marginal relevance; among equals the earlier one goes first."""
    left = list(range(len(scores)))
    likeness = [0.0] * len(scores)
    chosen: list[int] = []
    while left:
        best = max(left, key=lambda place: (mmr_lambda * scores[place] - (1.0 - mmr_lambda) * likeness[place], -place))
        left.remove(best)
        chosen.append(best)
        for place in left:
            likeness[place] = max(likeness[place], cosine(wordings[best], wordings[place]))
    return chosen
