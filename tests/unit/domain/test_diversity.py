"""Novelty, by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.near_duplicates import TermVector, cosine, diversify
from memsvc.text.analysis import terms

WORDS = st.lists(st.sampled_from("abcdefgh12"), max_size=8)


def wording(text: str) -> TermVector:
    """Return the wording of a text."""
    return TermVector.of(terms(text))


@given(st.lists(st.tuples(st.floats(0, 1), WORDS), max_size=8))
def test_relevance_alone_changes_no_order(pairs: list[tuple[float, list[str]]]) -> None:
    """With a weight of 1 the order is by score, equals as they were; with any weight all places come once."""
    scores = sorted((score for score, _ in pairs), reverse=True)
    wordings = [TermVector.of(words) for _, words in pairs]

    assert diversify(scores, wordings, 1.0) == list(range(len(pairs)))
    assert sorted(diversify(scores, wordings, 0.3)) == list(range(len(pairs)))


def test_novelty_comes_before_repetition() -> None:
    """The second of two like texts goes behind another one that fits nearly as well."""
    wordings = [wording("otter in the river"), wording("the otter in a river"), wording("a heron by the lake")]

    assert diversify([0.9, 0.89, 0.8], wordings, 0.5) == [0, 2, 1]


@given(WORDS, WORDS)
def test_likeness_is_symmetric_and_bounded(one: list[str], other: list[str]) -> None:
    """From 0 to 1; a text with words is wholly like itself."""
    left, right = TermVector.of(one), TermVector.of(other)

    assert cosine(left, right) == pytest.approx(cosine(right, left))
    assert 0.0 <= cosine(left, right) <= 1.0 + 1e-9
    assert cosine(left, left) == pytest.approx(1.0 if one else 0.0)
