"""Choosing hits that say different things: by their words, which every backend has and which no model changes.

Likeness by embeddings would need the vectors back from the index, and two statements that differ in one number or one
"not" are near each other there; by words the same list comes out whatever model and index are used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

NEGATIONS = frozenset(
    (
        "not", "no", "never", "none", "nothing", "without", "cannot", "don't", "doesn't", "didn't", "isn't", "aren't",
        "wasn't", "weren't", "won't", "can't", "don", "doesn", "didn", "isn", "aren", "wasn", "weren", "won",
        "nt", "n't",
    )
)  # fmt: skip
"""As words and as what the analysis leaves of them."""
HAN_NEGATIONS = ("不", "没", "未", "无", "別", "别", "勿", "莫")
"""A word that begins so may negate; that some do not only keeps two texts apart."""


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a text, as often as each is there, and what may not differ between texts that say the same."""

    counts: Counter[str]
    length: float
    decisive: frozenset[str]

    @classmethod
    def of(cls, terms: Sequence[str], *, beyond: str = "") -> Wording:
        """Return the wording of a text with these terms; *beyond* stands for what else it says, if anything."""
        counts = Counter(terms)
        length = math.sqrt(math.fsum(count * count for count in counts.values()))
        return cls(counts, length, frozenset([*filter(is_decisive, counts), *filter(None, [beyond])]))


def is_decisive(term: str) -> bool:
    """Return whether texts that differ in a term say something else: a number, or a negation."""
    if term in NEGATIONS or term.startswith(HAN_NEGATIONS):
        return True
    return not term.isalpha() and any(map(str.isdigit, term))


def cosine(one: Wording, other: Wording) -> float:
    """Return how alike two wordings are, 0 to 1; one without words is like none."""
    if not one.length or not other.length:
        return 0.0
    few, many = sorted((one.counts, other.counts), key=len)
    return math.fsum(count * many[term] for term, count in few.items() if term in many) / (one.length * other.length)


def is_near_duplicate(one: Wording, other: Wording, threshold: float) -> bool:
    """Return whether two texts share at least *threshold* of their words, and all that is decisive."""
    if one.decisive != other.decisive or not one.counts or not other.counts:
        return False
    smaller, larger = sorted((len(one.counts), len(other.counts)))
    if smaller < threshold * larger:
        return False
    common = _common(one.counts.keys(), other.counts.keys())
    return common >= threshold * (smaller + larger - common)


def collapsed(wordings: Sequence[Wording], threshold: float) -> list[list[int]]:
    """Return groups of places: each begins with one that is kept, followed by those that say nearly the same.

    A text is compared with the kept ones before it, the first that fits takes it; kept ones stay in order.
    """
    groups: list[list[int]] = []
    for place, wording in enumerate(wordings):
        for group in groups:
            if is_near_duplicate(wordings[group[0]], wording, threshold):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def diversified(scores: Sequence[float], wordings: Sequence[Wording], mmr_lambda: float) -> list[int]:
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


def _common(one: AbstractSet[str], other: AbstractSet[str]) -> int:
    return len(one & other)
