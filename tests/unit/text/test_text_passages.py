"""What is embedded of a memory, and which terms find it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from memsvc.text.passages import LONG_TERMS, PREVIOUS_CHARS, lexical_terms, passage, previous_line, summary_terms

MOMENT = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def _passage(text: str, speaker: str = "", title: str = "", *headings: str, moment: datetime | None = None) -> str:
    return passage(text=text, speaker=speaker, title=title, heading_path=headings, moment=moment)


def _terms(text: str, speaker: str = "", previous: str = "", moment: datetime | None = None) -> Counter[str]:
    found = lexical_terms(text=text, speaker=speaker, title="", heading_path=(), moment=moment, previous=previous)
    return Counter(found)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (_passage("Hello."), "Hello."),
        (_passage("Hello.", "Anna", moment=MOMENT), "[8 May 2023] Anna: Hello."),
        (_passage("我喜欢喝茶。", "王小明", moment=MOMENT), "[2023年5月8日] 王小明: 我喜欢喝茶。"),
        (_passage("王小明：我喜欢喝茶。", "王小明"), "王小明：我喜欢喝茶。"),
        (_passage("Use tabs.", "", "Style", "Code", "Style"), "Style > Code\nUse tabs."),
        (_passage("# Style\nUse tabs.", "", "Style"), "# Style\nUse tabs."),
        (_passage("", "Anna"), "Anna: "),
    ],
)
def test_a_passage_says_when_where_and_who(made: str, expected: str) -> None:
    """Date, headings and speaker stand before the text; what is empty, or there already, is left out."""
    assert made == expected


def test_terms_are_weighted_by_repetition() -> None:
    """Own words count three times, the line before twice, the date once."""
    counts = _terms("I like tea.", "Anna", previous="Ben: Coffee?", moment=MOMENT)

    assert (counts["tea"], counts["anna"], counts["coffe"], counts["ben"], counts["2023"]) == (3, 3, 2, 2, 1)


def test_long_text_is_not_repeated() -> None:
    """A long chunk costs its own length, whatever stands around it."""
    text = " ".join(f"word{number}" for number in range(LONG_TERMS + 1))

    assert set(_terms(text, previous="Ben: Coffee?", moment=MOMENT).values()) == {1}


def test_headings_are_own_words() -> None:
    """A chunk is found by the headings above it."""
    found = lexical_terms(text="Use tabs.", speaker="", title="Style", heading_path=("Code",), moment=None, previous="")

    assert Counter(found)["style"] == Counter(found)["code"] == Counter(found)["tab"] == 3


def test_nothing_has_no_terms() -> None:
    """Empty text without anything around it is found by nothing."""
    assert _terms("") == Counter()


def test_the_line_before_is_bounded() -> None:
    """A long answer passes on its beginning."""
    assert previous_line("Anna", "x" * 5000) == "Anna: " + "x" * PREVIOUS_CHARS
    assert previous_line("", "Hello.") == "Hello."


def test_a_summary_adds_the_words_that_the_content_lacks() -> None:
    """They weigh as own words do; those of a long summary are written once."""
    assert Counter(summary_terms("Green tea of Assam", {"tea", "of"})) == {"green": 3, "assam": 3}
    assert set(
        Counter(summary_terms(" ".join(f"word{number}" for number in range(LONG_TERMS + 1)), set())).values()
    ) == {1}
