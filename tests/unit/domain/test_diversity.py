"""Near-duplicates and novelty, by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.diversity import Wording, collapsed, cosine, diversified, is_near_duplicate
from memsvc.text.analysis import terms

LONG = "The weekly meeting of the platform team takes place in the large room on the second floor"
LONG_ZH = "平台团队每周的例会在二楼的大会议室举行，所有成员都要参加并带上自己的笔记本"
WORDS = st.lists(st.sampled_from("abcdefgh12"), max_size=8)


def wording(text: str) -> Wording:
    """Return the wording of a text."""
    return Wording.of(terms(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{LONG}.", f"{LONG}!"),
        (f"{LONG} at 9.", f"Note: {LONG} at 9"),
        (f"{LONG_ZH}。", f"{LONG_ZH}！"),
    ],
)
def test_small_differences_make_no_other_statement(one: str, other: str) -> None:
    """Signs and a word among many."""
    assert is_near_duplicate(wording(one), wording(other), 0.85)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{LONG} at 9.", f"{LONG} at 10."),
        (f"{LONG}.", f"{LONG}, not today."),
        (f"{LONG}.", LONG.replace("takes", "never takes")),
        (f"{LONG_ZH}。", f"{LONG_ZH}，明天不举行。"),
        (f"{LONG_ZH}，3 点。", f"{LONG_ZH}，4 点。"),
        ("我喜欢咖啡", "我不喜欢咖啡"),
        ("Anna lives in Lisbon.", "Anna lives in Porto."),
        ("", ""),
    ],
)
def test_numbers_and_negations_make_another_statement(one: str, other: str) -> None:
    """However many words are the same; texts without words are like none."""
    assert not is_near_duplicate(wording(one), wording(other), 0.85)


@given(st.lists(WORDS, max_size=8), st.sampled_from([0.5, 0.85, 1.0]))
def test_collapsing_loses_nothing(texts: list[list[str]], threshold: float) -> None:
    """Every place is in one group, groups begin with their best, and kept ones are no near-duplicates."""
    wordings = [Wording.of(words) for words in texts]

    groups = collapsed(wordings, threshold)

    kept = [group[0] for group in groups]
    assert sorted(place for group in groups for place in group) == list(range(len(texts)))
    assert kept == sorted(kept)
    assert all(group == sorted(group) for group in groups)
    assert not any(
        is_near_duplicate(wordings[one], wordings[other], threshold) for one in kept for other in kept if one < other
    )


@given(st.lists(st.tuples(st.floats(0, 1), WORDS), max_size=8))
def test_relevance_alone_changes_no_order(pairs: list[tuple[float, list[str]]]) -> None:
    """With a weight of 1 the order is by score, equals as they were; with any weight all places come once."""
    scores = sorted((score for score, _ in pairs), reverse=True)
    wordings = [Wording.of(words) for _, words in pairs]

    assert diversified(scores, wordings, 1.0) == list(range(len(pairs)))
    assert sorted(diversified(scores, wordings, 0.3)) == list(range(len(pairs)))


def test_novelty_comes_before_repetition() -> None:
    """The second of two like texts goes behind another one that fits nearly as well."""
    wordings = [wording("otter in the river"), wording("the otter in a river"), wording("a heron by the lake")]

    assert diversified([0.9, 0.89, 0.8], wordings, 0.5) == [0, 2, 1]


@given(WORDS, WORDS)
def test_likeness_is_symmetric_and_bounded(one: list[str], other: list[str]) -> None:
    """From 0 to 1; a text with words is wholly like itself."""
    left, right = Wording.of(one), Wording.of(other)

    assert cosine(left, right) == pytest.approx(cosine(right, left))
    assert 0.0 <= cosine(left, right) <= 1.0 + 1e-9
    assert cosine(left, left) == pytest.approx(1.0 if one else 0.0)
