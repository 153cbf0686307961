"""Cues of ranking: what a question asks for, and what a turn holds, in English and Chinese."""

from __future__ import annotations

from math import log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.text.analysis import Script
from memsvc.text.ranking_cues import (
    QuestionCues,
    is_question,
    pack_cues,
    question_cues,
    question_share,
    turn_cues,
    unpack_cues,
)

WHEN, WHERE, WHO = (True, False, False), (False, True, False), (False, False, True)
NONE = (False, False, False)


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("When did Anna move?", WHEN),
        ("What year did they marry?", WHEN),
        ("How long has he lived there?", WHEN),
        ("Where does Ben work?", WHERE),
        ("Which city did she visit?", WHERE),
        ("Who gave her the necklace?", WHO),
        ("Whose dog is it?", WHO),
        ("Who did she meet, and where?", (False, True, True)),
        ("What does Anna like?", NONE),
        ("Is there a whole cake left?", NONE),
        ("她什么时候搬家的？", WHEN),
        ("会议是几点？", WHEN),
        ("他在哪里工作？", WHERE),
        ("你们去了哪个城市？", WHERE),
        ("谁送了她项链？", WHO),
        ("她喜欢什么水果？", NONE),
        ("", NONE),
    ],
)
def test_a_question_asks_for_kinds_of_answers(question: str, kinds: tuple[bool, bool, bool]) -> None:
    """Question words count wherever they stand, as whole words."""
    assert question_cues(question) == QuestionCues(*kinds)


@pytest.mark.parametrize(
    "text",
    [
        "We went there last week.",
        "I moved four years ago.",
        "It was in 2019.",
        "See you on Friday!",
        "Yesterday was great.",
        "The party is on the 5th.",
        "上周我去了海边。",
        "我三年前搬到这里。",
        "昨天很开心。",
        "会议改到下午三点。",
    ],
)
def test_time_words_are_found(text: str) -> None:
    """Absolute and relative ones."""
    assert turn_cues(text).has_time


@pytest.mark.parametrize("text", ["I like tea.", "They may come.", "我喜欢喝茶。", "我有一点累。", ""])
def test_text_without_time_has_no_time_word(text: str) -> None:
    """The verb "may" is no month."""
    assert not turn_cues(text).has_time


@pytest.mark.parametrize(
    ("text", "is_place"),
    [
        ("She lives in Lisbon.", True),
        ("We met at the beach.", True),
        ("I came from my office.", True),
        ("I believe in it.", False),
        ("我们在公园里散步。", True),
        ("他去了上海。", True),
        ("我喜欢喝茶。", False),
    ],
)
def test_place_phrases_are_found(text: str, *, is_place: bool) -> None:
    """A preposition with a name or a kind of place, and their Chinese forms."""
    assert turn_cues(text).has_place is is_place


@pytest.mark.parametrize(
    ("text", "is_person"),
    [
        ("Then Carla called.", True),
        ("My sister gave it to me.", True),
        ("It works, and I like it.", False),
        ("我同事帮我修好了。", True),
        ("妈妈打电话来。", True),
        ("今天下雨。", False),
    ],
)
def test_persons_are_found(text: str, *, is_person: bool) -> None:
    """By name, within a sentence, or by a relation."""
    assert turn_cues(text).has_person is is_person


@pytest.mark.parametrize(
    ("text", "is_own"),
    [
        ("I'm tired.", True),
        ("This is our dog.", True),
        ("It is raining.", False),
        ("我累了。", True),
        ("他累了。", False),
    ],
)
def test_first_person_is_found(text: str, *, is_own: bool) -> None:
    """Speakers that tell of themselves."""
    assert turn_cues(text).is_first_person is is_own


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("Fine.", 0.0),
        ("How are you?", 1.0),
        ("Fine. And you?", 0.5),
        ("我很好。你呢？", 0.5),
        ("你吃饭了吗", 1.0),
        ("他说“你来吗？”", 1.0),
    ],
)
def test_the_share_of_questions_counts_sentences(text: str, share: float) -> None:
    """By question mark or by a Chinese particle."""
    assert question_share(text) == pytest.approx(share)
    assert turn_cues(text).question_share == pytest.approx(share)


@given(st.text(max_size=200))
def test_any_text_has_cues(text: str) -> None:
    """No text breaks them, and shares stay in 0..1."""
    question_cues(text)

    assert 0.0 <= turn_cues(text).question_share <= 1.0
    assert is_question(text + "?")


PACKED = {
    "": (0, 0, 0, 0, 0.0, 0.0, Script.LATIN),
    "Last week my sister was in Rome.": (1, 1, 1, 1, 0.0, log1p(32), Script.LATIN),
    "Fine. And you?": (0, 0, 0, 0, 8 / 15, log1p(14), Script.LATIN),
    "昨天同事在公园里散步。": (1, 1, 1, 0, 0.0, log1p(33), Script.HAN),
    "我很好。你呢？": (0, 0, 0, 1, 8 / 15, log1p(21), Script.HAN),
    "Привет.": (0, 0, 0, 0, 0.0, log1p(7), Script.CYRILLIC),
}


def test_packed_cues_are_those_of_the_text() -> None:
    """Whether it holds time, place, person and first person, and, rounded, its questions and length; and its script."""
    found = unpack_cues(np.array([pack_cues(text) for text in PACKED]))
    kinds = np.stack([found.has_time, found.has_place, found.has_person, found.is_first_person], axis=1)

    assert found.is_known.all()
    assert kinds.tolist() == [list(expected[:4]) for expected in PACKED.values()]
    assert found.question_share == pytest.approx([expected[4] for expected in PACKED.values()])
    assert found.log_length == pytest.approx([expected[5] for expected in PACKED.values()], abs=1 / 32)
    assert [tuple(Script)[number] for number in found.scripts] == [expected[6] for expected in PACKED.values()]


def test_unknown_cues_are_zero() -> None:
    """0 is the number of no text."""
    found = unpack_cues(np.array([0, pack_cues("Yesterday?")]))

    assert found.is_known.tolist() == [False, True]
    assert (found.has_time.tolist(), found.question_share.tolist()) == ([0.0, 1.0], [0.0, 1.0])
    assert (found.log_length[0], found.scripts[0]) == (0.0, 0)
    assert unpack_cues(np.array([], dtype=np.int64)).is_known.shape == (0,)


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    """Of what follows the length alone counts, up to a bound."""
    beginning = "tea " * 500

    assert pack_cues(beginning + "Yesterday?" * 50) == pack_cues(beginning + "Tea, green" * 50)
    assert unpack_cues(np.array([pack_cues("茶" * 4_000_000)])).log_length.tolist() == [255 / 16]


@given(st.text(max_size=200))
def test_any_text_can_be_packed(text: str) -> None:
    """Into a number of 21 bits."""
    assert pack_cues(text) >> 20 == 1
