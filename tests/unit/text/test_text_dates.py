"""Dates named in text and how moments answer them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.ranking_cues import DateMention, date_match, date_terms, is_han, mentioned_dates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8 May, 2023", (2023, 5, 8)),
        ("8 may 2023", (2023, 5, 8)),
        ("the 3rd of March 2022", (2022, 3, 3)),
        ("8 May '23", (2023, 5, 8)),
        ("May 8th, '98", (1998, 5, 8)),
        ("98年5月8日", (1998, 5, 8)),
        ("23年5月8日", (2023, 5, 8)),
        ("May 8th", (None, 5, 8)),
        ("may 8th", (None, 5, 8)),
        ("MAY 8", (None, 5, 8)),
        ("May 8-10, 2023", (2023, 5, 8)),
        ("Sept. 3", (None, 9, 3)),
        ("December 25, what did we eat?", (None, 12, 25)),
        ("what happened in june?", (None, 6, None)),
        ("April 2023", (2023, 4, None)),
        ("in May we moved", (None, 5, None)),
        ("What about May?", (None, 5, None)),
        ("last March", (None, 3, None)),
        ("in Jan", (None, 1, None)),
        ("2023-05-08", (2023, 5, 8)),
        ("at 2023-05-08T10:00:00Z", (2023, 5, 8)),
        ("2023/5/8", (2023, 5, 8)),
        ("2023-05", (2023, 5, None)),
        ("5月8日", (None, 5, 8)),
        ("2023年5月", (2023, 5, None)),
        ("2023 年 5 月 8 号", (2023, 5, 8)),
        ("五月八号", (None, 5, 8)),
        ("二〇二三年十二月二十五日", (2023, 12, 25)),
        ("我在6月份去了 Berlin", (None, 6, None)),
        ("23年5月", (2023, 5, None)),
        ("5월 8일", (None, 5, 8)),
    ],
)
def test_dates_are_understood(text: str, expected: tuple[int | None, int | None, int | None]) -> None:
    """Dates that name a month are found in both languages and in figures."""
    assert mentioned_dates(text) == [DateMention(*expected)]


@pytest.mark.parametrize(
    "text",
    [
        "May I ask you something?",
        "it may have rained",
        "May be tomorrow",
        "I march 5 miles a day",
        "the 5 may be broken",
        "Jan said hello",
        "marching on, mayor",
        "5/8/2023",
        "3个月",
        "13月1日",
        "2月30日",
        "May 45",
        "Decide in time",
        "yesterday at 10:30",
        "昨天",
        "",
    ],
)
def test_other_text_names_no_date(text: str) -> None:
    """Verbs, names, durations, impossible and unclear dates are no dates."""
    assert mentioned_dates(text) == []


def test_dates_come_in_order_and_once() -> None:
    """A text may name several dates in several ways."""
    text = "Between 7 May 2023 and 2023-05-09, 也就是2023年5月7日, in June"

    assert mentioned_dates(text) == [
        DateMention(2023, 5, 7),
        DateMention(2023, 5, 9),
        DateMention(None, 6, None),
    ]


@pytest.mark.parametrize(
    ("day", "expected"),
    [(8, 1.0), (9, 0.6), (15, 0.6), (16, 0.0), (7, 0.3), (5, 0.3), (4, 0.0)],
)
def test_named_day_fades_over_a_week(day: int, expected: float) -> None:
    """The same day counts fully, the week after and the three days before in part."""
    moment = datetime(2023, 5, day, 23, 59, tzinfo=UTC)

    assert date_match(mentioned_dates("May 8th"), moment) == expected
    assert date_match(mentioned_dates("2023年5月8日"), moment) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [((2023, 12, 1), 1.0), ((2024, 1, 10), 0.4), ((2024, 1, 11), 0.0), ((2023, 11, 30), 0.0), ((2022, 12, 5), 0.0)],
)
def test_named_month_reaches_into_the_next(moment: tuple[int, int, int], expected: float) -> None:
    """A month counts fully, and the first ten days of the next in part, across the year's end too."""
    assert date_match([DateMention(2023, 12, None)], datetime(*moment, tzinfo=UTC)) == expected


def test_year_that_differs_does_not_match() -> None:
    """The same day of another year is another day; without a year any year will do."""
    moment = datetime(2023, 5, 8, tzinfo=UTC)

    assert date_match([DateMention(2022, 5, 8)], moment) == 0.0
    assert date_match([DateMention(None, 5, 8)], moment) == 1.0
    assert date_match([DateMention(None, 2, 29)], moment) == 0.0
    assert date_match([DateMention(None, 12, 31)], datetime(2023, 1, 2, tzinfo=UTC)) == 0.6
    assert date_match([], moment) == 0.0


def test_best_mention_counts() -> None:
    """Several mentions match by the best of them."""
    mentions = [DateMention(None, 1, None), DateMention(2023, 5, 8)]

    assert date_match(mentions, datetime(2023, 5, 8, tzinfo=UTC)) == 1.0


def test_date_terms_follow_the_language() -> None:
    """The indexed date reads as the text around it does."""
    moment = datetime(2023, 5, 8, tzinfo=UTC)

    assert date_terms(moment, han=False) == "8 May 2023"
    assert date_terms(moment, han=True) == "2023年5月8日"
    assert is_han(date_terms(moment, han=True) + "我们去公园")


@settings(deadline=None)
@given(st.datetimes(min_value=datetime(1500, 1, 1), max_value=datetime(2199, 1, 1)), st.booleans())  # noqa: DTZ001
def test_written_dates_are_read_back(moment: datetime, han: bool) -> None:  # noqa: FBT001
    """Every date written for indexing is understood again and matches itself, not a distant day."""
    mentions = mentioned_dates(date_terms(moment, han=han))

    assert mentions == [DateMention(moment.year, moment.month, moment.day)]
    assert date_match(mentions, moment) == 1.0
    assert date_match(mentions, moment + timedelta(days=40)) == 0.0


@settings(deadline=None)
@given(st.text() | st.text(alphabet="0123456789-/. MayMarch年月日一二十五8thSep'", max_size=40))
def test_any_text_is_accepted(text: str) -> None:
    """No text breaks the reading of dates, and what is found can be matched."""
    mentions = mentioned_dates(text)

    assert all(mention.month for mention in mentions)
    assert 0.0 <= date_match(mentions, datetime(2024, 2, 29, tzinfo=UTC)) <= 1.0
