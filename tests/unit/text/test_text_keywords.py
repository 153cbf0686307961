"""Keywords of a text, with weights."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.analysis import STOP_WORDS
from memsvc.text.passages import extract_keywords


def test_english_keywords_are_words_as_written_in_lower_case() -> None:
    """English keywords have three letters or more, are not stemmed, and lose the possessive."""
    keywords = extract_keywords("Running Running of the Dog's API, an ox")

    assert [word for word, _ in keywords] == ["running", "dog", "api"]
    assert dict(keywords)["running"] == pytest.approx(0.4)
    assert dict(keywords)["dog"] == pytest.approx(0.22)


def test_chinese_keywords_come_from_segmentation() -> None:
    """Chinese keywords are words of two characters or more, not every window of characters."""
    keywords = extract_keywords("我们喜欢机器学习，机器很有趣")

    assert [word for word, _ in keywords] == ["机器", "喜欢", "学习", "有趣"]
    assert dict(keywords)["机器"] == pytest.approx(0.28)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("中华人民共和国的首都", {"中华", "人民", "共和国", "首都"}),
        ("他在北京大学图书馆看书", {"北京", "大学", "图书馆", "看书"}),
        ("中国科学院计算技术研究所", {"中国", "科学院", "计算", "技术", "研究所"}),
    ],
)
def test_of_a_long_chinese_word_its_parts_are_kept(text: str, words: set[str]) -> None:
    """A name of seven characters or more is in the dictionary as one word, and would be lost as a whole."""
    assert {word for word, _ in extract_keywords(text)} == words


def test_mixed_text_gives_both_languages() -> None:
    """Both languages share one ranking: heavier first, ties by first appearance."""
    keywords = extract_keywords("部署 Docker 到服务器 with kubernetes")

    assert [word for word, _ in keywords] == ["docker", "kubernetes", "服务器", "部署"]


def test_limit_bounds_the_number() -> None:
    """The ten heaviest are the default; a limit of zero gives none."""
    text = " ".join(f"word{letter}{letter}" for letter in "abcdefghijklmnop")

    assert len(extract_keywords(text)) == 10
    assert extract_keywords(text, 0) == []
    assert extract_keywords(text, 3) == extract_keywords(text)[:3]


def test_weight_is_at_most_one() -> None:
    """A word repeated often does not outgrow the scale."""
    assert extract_keywords("project " * 50) == [("project", 1.0)]


@settings(deadline=None)
@given(st.text() | st.text(alphabet="ab Cd'中文学习喜欢é1_ ", max_size=60))
def test_keywords_are_distinct_sorted_and_no_stop_words(text: str) -> None:
    """Whatever the text, weights fall and lie in (0, 1], and no keyword comes twice."""
    keywords = extract_keywords(text)

    words = [word for word, _ in keywords]
    weights = [weight for _, weight in keywords]
    assert len(set(words)) == len(words)
    assert weights == sorted(weights, reverse=True)
    assert all(0 < weight <= 1 for weight in weights)
    assert not set(words) & STOP_WORDS


def test_keywords_of_a_long_text_are_those_of_its_parts() -> None:
    """A text of which no regular expression is to find all words at once."""
    text = "The dog's running; it's an ox, " + "w" * 70 + " isn't e.g. part2go. "
    assert {word for word, _ in extract_keywords(text * 1_000, 99)} == {word for word, _ in extract_keywords(text, 99)}
