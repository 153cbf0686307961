"""The script that most of a text is written in, and the two forms of Chinese characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.text.analysis import Script, matching_spans, script_of, simplified_form, terms


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Anna works as a nurse.", Script.LATIN),
        ("Ça va, Zoë?", Script.LATIN),
        ("", Script.LATIN),
        ("2024-05-03 😀", Script.LATIN),
        ("小明最喜欢的电影是《流浪地球》。", Script.HAN),
        ("小明买了一台 MacBook Pro", Script.HAN),
        ("She said 你好 when she met her new neighbours", Script.LATIN),
        ("東京に住んでいます", Script.JAPANESE),
        ("서울에 살아요", Script.HANGUL),
        ("Погода хорошая", Script.CYRILLIC),
        ("الطقس جميل", Script.ARABIC),
        ("מזג אוויר נאה", Script.HEBREW),
        ("Ο καιρός είναι καλός", Script.GREEK),
        ("मौसम अच्छा है", Script.DEVANAGARI),
        ("อากาศดี", Script.THAI),
    ],
)
def test_most_of_the_text_decides(text: str, script: Script) -> None:
    """An ideograph counts as three letters; dates, emoji and punctuation do not count."""
    assert script_of(text) is script


@given(st.text())
def test_any_text_has_a_script(text: str) -> None:
    """The same one whatever it is surrounded by, as long as that has no letters."""
    assert script_of(text) is script_of(f"  {text} 12 。")


TRADITIONAL = {
    "我對花生過敏": "我对花生过敏",
    "下週三開會": "下周三开会",
    "臺灣的電腦壞了": "台湾的电脑坏了",
    "Anna 說 hello，後天見": "Anna 说 hello，后天见",
    "这里没有繁体字": "这里没有繁体字",
}


@pytest.mark.parametrize("text", TRADITIONAL)
def test_traditional_characters_are_simplified(text: str) -> None:
    """Each by itself, so that offsets stay true; the terms of both forms are the same."""
    assert simplified_form(text) == TRADITIONAL[text]
    assert terms(text) == terms(TRADITIONAL[text])


def test_the_place_of_a_term_is_that_in_the_text() -> None:
    """A snippet marks the characters as they are written."""
    text = "醫生說我對花生過敏。"
    [(term, start, end)] = matching_spans(text, {"过敏"})

    assert (term, text[start:end]) == ("过敏", "過敏")


@given(st.text())
def test_simplifying_keeps_the_length(text: str) -> None:
    """And changes nothing when it is repeated."""
    plain = simplified_form(text)

    assert len(plain) == len(text)
    assert simplified_form(plain) == plain
