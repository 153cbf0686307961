"""Sentences and their merging."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.analysis import Script, is_han, script_of
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.sentences import merge_sentences, sentences

TEXTS = st.text() | st.text(alphabet='Ab. !?。！”"中文…\n\r', max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith paid 3.14 to J. Doe. Then left.", ["Dr. Smith paid 3.14 to J. Doe.", "Then left."]),
        ("See e.g. this one. On Sept. 3 we go.", ["See e.g. this one.", "On Sept. 3 we go."]),
        ('He said "hi." Really?!', ['He said "hi."', "Really?!"]),
        ("我们走吧。“好的！”他说；然后走了", ["我们走吧。", "“好的！”", "他说；", "然后走了"]),
        ("我用 Docker。It works. 很好！", ["我用 Docker。", "It works.", "很好！"]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("main.py and v1.2", ["main.py and v1.2"]),
        (" \n ", []),
    ],
)
def test_sentences_end_where_readers_end_them(text: str, expected: list[str]) -> None:
    """Both languages' enders and line ends cut; abbreviations, initials and numbers do not."""
    assert sentences(text) == expected


@settings(deadline=None)
@given(TEXTS)
def test_sentences_lose_nothing_but_white_space(text: str) -> None:
    """Sentences, and merged sentences, hold every visible character in order."""
    visible = "".join(text.split())

    assert "".join("".join(sentences(text)).split()) == visible
    assert "".join("".join(merge_sentences(text)).split()) == visible
    assert all(sentence == sentence.strip() != "" for sentence in sentences(text))


def test_english_sentences_merge_until_long_enough() -> None:
    """Neighbours are joined up to 80 characters; nothing is left short when there is enough text."""
    merged = merge_sentences(" ".join(NEUTRAL_SENTENCES[Script.LATIN]))

    assert len(merged) > 1
    assert all(len(sentence) >= 80 for sentence in merged)


def test_chinese_sentences_merge_at_half_the_length() -> None:
    """Han text is long enough at 40 characters."""
    merged = merge_sentences("".join(NEUTRAL_SENTENCES[Script.HAN]))

    assert len(merged) > 5
    assert all(40 <= len(sentence) < 120 for sentence in merged)


def test_short_rest_joins_the_last_sentence() -> None:
    """A short end is no chunk of its own; short text as a whole is one."""
    long = "This sentence goes on for quite a while so that it has more than eighty characters in it."

    assert merge_sentences(f"{long} Yes.") == [f"{long} Yes."]
    assert merge_sentences("Hi. 你好。") == ["Hi. 你好。"]
    assert merge_sentences("") == []


def test_neutral_sentences_are_48_in_two_languages() -> None:
    """The cold-start mean rests on 24 English and 24 Chinese sentences, each one sentence and no two alike."""
    for script, texts in NEUTRAL_SENTENCES.items():
        assert len(set(texts)) == 24
        assert {script_of(text) for text in texts} == {script}
        assert all(sentences(text) == [text] for text in texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", False),
        ("你好", True),
        ("用 Docker 部署", True),
        ("我的朋友 met 张伟 and we had some tea there today", False),
        ("123!", False),
    ],
)
def test_is_han(text: str, expected: bool) -> None:  # noqa: FBT001
    """Mostly Han means more Han characters than other words."""
    assert is_han(text) is expected
