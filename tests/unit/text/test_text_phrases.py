"""The words around memories."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from memsvc.domain.context import Locale, Section
from memsvc.text.context_phrases import CLOSING, HEADINGS, OPENING, age, heading

TODAY = date(2026, 2, 6)


@pytest.mark.parametrize(
    ("days", "english", "chinese"),
    [
        (0, "today", "今天"),
        (1, "yesterday", "昨天"),
        (-1, "tomorrow", "明天"),
        (2, "2 days ago", "2 天前"),
        (13, "13 days ago", "13 天前"),
        (14, "2 weeks ago", "2 周前"),
        (59, "8 weeks ago", "8 周前"),
        (60, "2 months ago", "2 个月前"),
        (729, "24 months ago", "24 个月前"),
        (730, "2 years ago", "2 年前"),
        (-3, "in 3 days", "3 天后"),
        (-800, "in 2 years", "2 年后"),
    ],
)
def test_ages_are_coarser_the_longer_ago(days: int, english: str, chinese: str) -> None:
    """In both languages, for the past and for what lies ahead."""
    then = TODAY - timedelta(days=days)

    assert (age(then, TODAY, Locale.EN), age(then, TODAY, Locale.ZH)) == (english, chinese)


@pytest.mark.parametrize("locale", list(Locale))
def test_every_text_begins_and_ends_where_tokenizers_cut(locale: Locale) -> None:
    """With a sign, and with a newline; every section has a heading of its own."""
    texts = [OPENING[locale], CLOSING, *(heading(section, locale) for section in Section)]

    assert all(text.endswith("\n") and not text[0].isspace() for text in texts)
    assert len(set(HEADINGS[locale].values())) == len(Section)
