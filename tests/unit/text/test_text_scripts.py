"""The script that most of a text is written in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.text.analysis import Script, script_of


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
