"""What is found in a text to be reminded of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.domain.memory import Recurrence, Reminder, Slot
from memsvc.domain.reminders import is_day, next_day
from memsvc.text.reminder_extraction import (
    concerns_another_event,
    is_beside_due,
    is_exception,
    moved_rhythm,
    reminder_in,
    schedule_change,
    split_dated_events,
    states_another_day,
)
from tests.bench.agent_day.labelled import measure_reminders, read_lines
from tests.unit.text.reminder_sentences import ASKED_WITH_A_NO, HELD_OUT, REFUSED, TUNED, Expected

SAID = datetime(2026, 2, 4, 10, tzinfo=UTC)
UTTERANCES = Path(__file__).parents[2] / "data" / "reminder_utterances.jsonl"
EVERYDAY = Path(__file__).parents[2] / "data" / "everyday"


def day_of(reminder: Reminder | None) -> Expected:
    """Return the day of a reminder as the sentences name it."""
    if reminder is None:
        return None
    if reminder.recurrence is Recurrence.YEARLY:
        return reminder.month, reminder.day
    return reminder.year, reminder.month, reminder.day


def dated(reminder: Reminder | None) -> str | None:
    """Return the only day of a reminder that does not recur."""
    if reminder is None:
        return None
    assert reminder.recurrence is Recurrence.NONE
    return f"{reminder.year}-{reminder.month:02}-{reminder.day:02}"


def measured(cases: Sequence[tuple[str, Expected]]) -> tuple[float, float, list[str]]:
    """Return precision and recall, a wrong day counting against both, and what went wrong."""
    found = [(text, expected, day_of(reminder_in(text, SAID))) for text, expected in cases]
    right = sum(expected is not None and expected == given for _, expected, given in found)
    wrong = [f"{text}: {given}, not {expected}" for text, expected, given in found if given != expected]
    precision = right / max(1, sum(given is not None for *_, given in found))
    return precision, right / sum(expected is not None for _, expected, _ in found), wrong


@pytest.mark.parametrize(
    ("cases", "precision", "recall"), [(TUNED, 1.0, 1.0), (HELD_OUT, 1.0, 1.0)], ids=["tuned", "held out"]
)
def test_reminders_are_found(
    cases: Sequence[tuple[str, Expected]], precision: float, recall: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many as were measured, and no more false alarms."""
    found = measured(cases)
    with capsys.disabled():
        print(f"\nreminders in {len(cases)} sentences: precision {found[0]:.3f}, recall {found[1]:.3f}")  # noqa: T201

    assert found[0] >= precision, found[2]
    assert found[1] >= recall, found[2]


@pytest.mark.parametrize(
    ("name", "language", "precision", "recall"),
    [
        ("reminders", "en", 0.93, 0.87),
        ("reminders", "zh", 0.94, 0.93),
        ("reminders_later", "en", 0.94, 0.85),
        ("reminders_later", "zh", 0.89, 0.82),
    ],
)
def test_reminders_of_messages_are_found(name: str, language: str, precision: float, recall: float) -> None:
    """Of messages as people write them, half of which call for none; a wrong day counts against both."""
    lines = [line for line in read_lines(EVERYDAY / f"{name}.jsonl") if line["language"] == language]
    found = right = 0
    for line in lines:
        moment = datetime.fromisoformat(line["said_at"]).replace(tzinfo=UTC)
        reminder = reminder_in(line["text"], moment)
        day = None if reminder is None else next_day(reminder, moment.date())
        found += day is not None
        right += day is not None and line["due"] is not None and day.isoformat() == line["due"][:10]

    assert right >= precision * found
    assert right >= recall * sum(line["due"] is not None for line in lines)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("Ping me in 45 minutes, there's bread in the oven", "2026-02-04T10:45"),
        ("remind me in half an hour to call Ada", "2026-02-04T10:30"),
        ("I must switch the pump off two hours from now", "2026-02-04T12:00"),
        ("remind me in 15 hours to take the second dose", "2026-02-05T01:00"),
        ("nudge me at 3pm to send the slides", "2026-02-04T15:00"),
        ("nudge me at 9am to send the slides", "2026-02-05T09:00"),
        ("半小时后提醒我关火", "2026-02-04T10:30"),
        ("过一刻钟提醒我把面团拿出来", "2026-02-04T10:15"),
        ("一个半小时以后我得去打疫苗", "2026-02-04T11:30"),
        ("半個鐘頭後叫我下樓追垃圾車", "2026-02-04T10:30"),
        ("下午四点给王姐回个电话，到点叫我", "2026-02-04T16:00"),
        ("明天早上六点四十叫醒我去赶飞机，提醒我", "2026-02-05T06:40"),
        ("禮拜五早上十點要去區公所辦戶籍", "2026-02-06T10:00"),
    ],
)
def test_a_moment_of_the_next_hours_is_one_to_be_reminded_of(text: str, due: str) -> None:
    """If it is asked for, or a duty; a time of day alone is the next one."""
    reminder = reminder_in(text, SAID)

    assert reminder is not None
    assert reminder.minute is not None
    hour, minute = divmod(reminder.minute, 60)
    assert f"{dated(reminder)}T{hour:02}:{minute:02}" == due
    assert reminder.phrase == text


def test_no_reminder_lies_beyond_the_last_year() -> None:
    """A time of day is then over, too."""
    eve = datetime(2999, 12, 31, 23, tzinfo=UTC)

    assert reminder_in("nudge me at 3pm to send the slides", eve) is None
    assert reminder_in("remind me in 2 hours to send the slides", eve) is None
    assert reminder_in("nudge me at 11:30pm to send the slides", eve) is not None
    kept = reminder_in("The exam is tomorrow, remind me two days after.", eve - timedelta(days=1))
    assert dated(kept) == "2999-12-31"


@pytest.mark.parametrize(
    "text",
    [
        "The bus comes in 10 minutes", "I'll be there in half an hour", "半小时后就到家了", "十分钟后下班",
        "They open at 9am", "call me Wren", "叫我阿哲就好", "remind me in a million minutes",
    ],
)  # fmt: skip
def test_a_moment_of_the_next_hours_alone_is_no_reminder(text: str) -> None:
    """Nobody asks for it, nor has to do anything."""
    assert reminder_in(text, SAID) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reminders_of_casual_sentences_are_found(language: str) -> None:
    """Relative days, rhythms, short birthdays, and what is past, asked, supposed or hearsay."""
    tally = measure_reminders(read_lines(UTTERANCES))[language]

    assert not tally.wrong
    assert tally.expected >= 50
    assert tally.sentences - tally.expected >= 30


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The exam is on Friday next week.", "2026-02-13"),
        ("The exam is on Friday of next week.", "2026-02-13"),
        ("提醒我下周周五交房租", "2026-02-13"),
        ("提醒我下周的周五交房租", "2026-02-13"),
        ("提醒我下下星期的星期五交房租", "2026-02-20"),
        ("提醒我本周周五交房租", "2026-02-06"),
        ("提醒我下个周五交房租", "2026-02-13"),
        ("提醒我下一个周五交房租", "2026-02-06"),
        ("The exam is on the Friday after next.", None),
        ("The exam is on Fri next week.", None),
        ("The exam is on Friday of week 50.", None),
        ("The exam is on Monday, week 50.", None),
        ("考试在第50周的周五", None),
        ("考试在第50周周五", None),
        ("体检在下个月第一个周一", None),
        ("提醒我最后一个周五开会", None),
    ],
)
def test_weekday_of_another_week_is_not_the_next_one(text: str, day: str | None) -> None:
    """Nor is one of a numbered week, or of a month that is named besides."""
    assert dated(reminder_in(text, SAID)) == day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The passport expires on March 4 next year.", "2027-03-04"),
        ("The passport expires next year on March 4.", "2027-03-04"),
        ("Remind me on March 4th, next year, to renew the passport.", "2027-03-04"),
        ("I'm on holiday from 3 to 5 May next year.", "2027-05-03"),
        ("The tax return is due at the end of next year.", "2027-12-31"),
        ("The tax return is due at the end of March next year.", "2027-03-31"),
        ("The exam is on the first Friday of March next year.", "2027-03-05"),
        ("My wedding is on 5 May this year.", "2026-05-05"),
        ("The exam is on 5 January this year.", None),
        ("I have an exam on May 5, next year I am free.", "2026-05-05"),
        ("The rent is due March 4th '28.", "2028-03-04"),
        ("护照明年3月4号到期", "2027-03-04"),
        ("护照后年的3月4日到期", "2028-03-04"),
        ("护照大后年3月4到期", "2029-03-04"),
        ("护照今年1月4号到期", None),
        ("提醒我后年2月29号交房租", "2028-02-29"),
        ("提醒我明年2月29号交房租", None),
        ("体检约在明年年底", "2027-12-31"),
        ("体检约在明年底", "2027-12-31"),
        ("体检约在今年底", "2026-12-31"),
        ("体检约在明年3月底", "2027-03-31"),
        ("明年今天提醒我体检", "2027-02-04"),
    ],
)
def test_date_is_of_the_year_named_beside_it(text: str, day: str | None) -> None:
    """A year of two digits is named by an apostrophe in English."""
    assert dated(reminder_in(text, SAID)) == day


@pytest.mark.parametrize("text", ["我儿子98年3月4日出生", "My son was born on March 4th '98.", "他1998年3月4日出生"])
def test_birth_of_the_last_century_is_a_birthday(text: str) -> None:
    """Two digits of a year that is past are of that one."""
    assert day_of(reminder_in(text, SAID)) == (3, 4)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Remind me two days before 5 May to buy flowers.", "2026-05-03"),
        ("Remind me the day before 1 March 2028 to buy flowers.", "2028-02-29"),
        ("Remind me a week before 5 May to buy flowers.", "2026-04-28"),
        ("Remind me the evening before Friday to pack.", "2026-02-05"),
        ("The invoice is payable 14 days after 5 March.", "2026-03-19"),
        ("Remind me the week before 5 May to buy flowers.", None),
        ("Remind me the month before 5 May to buy flowers.", None),
        ("Remind me a month before 5 May to buy flowers.", "2026-04-05"),
        ("Remind me two days before the 1st of every month to pay.", None),
        ("Remind me on the day before. 5 May is the wedding.", "2026-05-05"),
        ("提醒我5月5号前一天买花", "2026-05-04"),
        ("提醒我5月5号的前两天买花", "2026-05-03"),
        ("提醒我5月5号提前三天买花", "2026-05-02"),
        ("提醒我下周五前一周买花", "2026-02-06"),
        ("提醒我5月5号第二天买花", "2026-05-06"),
        ("提醒我5月5号前买花", "2026-05-05"),
        ("提醒我5月5号前10个人确认", "2026-05-05"),
        ("提醒我一个半月后复查", "2026-03-19"),
        ("提醒我三个半月后复查", "2026-05-19"),
        ("提醒我半个月后复查", "2026-02-19"),
        ("提醒我半年后复查", "2026-08-04"),
        ("The exam is in a month and a half.", None),
        ("The exam is in two weeks and a day.", None),
        ("The exam is in a week and I am nervous.", "2026-02-11"),
    ],
)
def test_distance_from_a_date_is_counted(text: str, day: str | None) -> None:
    """What is not a number of days, weeks or months, such as "the week before", gives no reminder."""
    assert dated(reminder_in(text, SAID)) == day


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("My passport expires on 10 May, remind me a month before.", "2026-04-10"),
        ("due on 31 March, ping me a week ahead.", "2026-03-24"),
        ("Remind me two days before the exam on 12 March.", "2026-03-10"),
        ("Remind me to pack the night before my flight on 20 March.", "2026-03-19"),
        ("The lease ends on 1 May. Remind me six weeks before.", "2026-03-20"),
        ("I want a reminder a fortnight before the warranty runs out on 1 May.", "2026-04-17"),
        ("I have to apply three weeks before the deadline, 15 April.", "2026-03-25"),
        ("The concert is on 20 March, remind me a day or two before.", "2026-03-18"),
        ("The concert is on 20 March, remind me the day after.", "2026-03-21"),
        ("My flight is on 20 March at 7am, remind me the evening before at 8.", "2026-03-19T20:00"),
        ("My flight is on 20 March at 7am, remind me the evening before at 8pm.", "2026-03-19T20:00"),
        ("My flight is on 20 March at 7am, remind me two hours before.", "2026-03-20T05:00"),
        ("Remind me on Friday to book the hotel a week before the trip.", "2026-02-06"),
        ("The exam is on 12 March, I was ill two days before.", "2026-03-12"),
        ("The exam is on 12 March, my teacher will text me a week before.", "2026-03-12"),
        ("The exam is on 12 March, remind me a day before the party.", "2026-03-12"),
        ("The exam is on 6 February, remind me a week before.", "2026-02-06"),
        ("The exam is on 12 March, don't remind me the day before.", None),
        ("If the exam is on 12 March, remind me two days before.", None),
        ("护照5月10号到期，提前一个月提醒我", "2026-04-10"),
        ("房租下个月1号要交，提前两天叫我", "2026-02-27"),
        ("提醒我考试前两天复习，考试3月12号", "2026-03-10"),
        ("3月20号的飞机，前一天晚上八点提醒我收拾行李", "2026-03-19T20:00"),
        ("护照5月10号到期。提前半个月提醒我续签。", "2026-04-25"),
        ("周五下午三点开会，开会前十分钟叫我", "2026-02-06T14:50"),
        ("3月20号去上海，记得提前两天订票", "2026-03-18"),
        ("3月12号考试，老师会提前两天通知我", "2026-03-12"),
        ("3月12号考试，学校提前两天通知我们", "2026-03-12"),
        ("我前两天让你提醒我3月12号考试", "2026-03-12"),
        ("3月15号考试，提前两天到", "2026-03-15"),
        ("如果3月12号考试，提前两天提醒我", None),
    ],
)
def test_a_reminder_is_at_the_distance_at_which_it_is_asked_for(text: str, due: str | None) -> None:
    """From the day that another part of the text names; a distance that is past, or of something else, moves nothing."""
    reminder = reminder_in(text, SAID)

    day = dated(reminder)
    if reminder is not None and reminder.minute is not None:
        day = f"{day}T{reminder.minute // 60:02}:{reminder.minute % 60:02}"
    assert day == due
    assert reminder is None or reminder.phrase == text


@pytest.mark.parametrize(
    ("text", "recurrence", "days"),
    [
        ("Mum's birthday is on 4 March, remind me three days before.", Recurrence.YEARLY, ["2026-03-01", "2027-03-01"]),
        ("妈妈生日3月4号，提前一周提醒我买礼物", Recurrence.YEARLY, ["2026-02-25", "2027-02-25"]),
        ("外婆生日正月十三，提前三天提醒我", Recurrence.YEARLY, ["2026-02-26", "2027-02-15"]),
        ("外婆生日正月初三，提前三天提醒我", Recurrence.NONE, ["2026-02-16", None]),
        ("Bin day is every Thursday, remind me the evening before.", Recurrence.WEEKLY, ["2026-02-04", "2026-02-11"]),
        ("每周四收垃圾，前一天晚上提醒我", Recurrence.WEEKLY, ["2026-02-04", "2026-02-11"]),
        ("Pay day is the 25th of every month, remind me 3 days before.", Recurrence.MONTHLY, ["2026-02-22", "2026-03-22"]),
        ("Two days before the 5th of every month remind me to pay.", Recurrence.MONTHLY, ["2026-03-03", "2026-04-03"]),
        ("房租每月1号交，提前一天提醒我", Recurrence.MONTHLY, ["2026-02-28", "2026-03-31"]),
        ("Rent is due on the 1st of every month, remind me two days before.", Recurrence.NONE, ["2026-02-27", None]),
    ],
)  # fmt: skip
def test_a_rhythm_is_kept_at_a_distance(text: str, recurrence: Recurrence, days: list[str | None]) -> None:
    """Where every occurrence is as far from a day of the rhythm; else the next one is moved."""
    found = reminder_in(text, SAID)

    assert found is not None
    assert found.recurrence is recurrence
    first = next_day(found, SAID.date())
    assert first is not None
    following = next_day(found, first + timedelta(days=1))
    assert days == [first.isoformat(), None if following is None else following.isoformat()]


@pytest.mark.parametrize("text", ["Remind me in a year to renew the passport.", "提醒我一年后续签护照"])
def test_year_after_a_leap_day_is_the_last_of_february(text: str) -> None:
    """As the month after 31 January is."""
    assert dated(reminder_in(text, datetime(2028, 2, 29, tzinfo=UTC))) == "2029-02-28"


def test_lunar_birthday_on_the_30th_stays_on_it() -> None:
    """The month has 29 days in the year of the text and in the next ones, but 30 in 2030."""
    reminder = reminder_in("妈妈生日是阴历腊月三十", datetime(2025, 11, 13, tzinfo=UTC))

    assert reminder is not None
    assert reminder.is_lunar
    assert next_day(reminder, date(2025, 11, 13)) == date(2026, 2, 16)
    assert next_day(reminder, date(2030, 1, 1)) == date(2030, 2, 2)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("I have a flight tomorrow at 3:30 in the afternoon.", "15:30"),
        ("I have a flight tomorrow evening at 8:30.", "20:30"),
        ("I have a flight tomorrow evening at 20:30.", "20:30"),
        ("I have a flight tomorrow morning at 8:30.", "8:30"),
        ("I have a flight tomorrow at half past 3 pm.", "15:30"),
        ("I have a flight tomorrow at a quarter to 9 am.", "8:45"),
        ("I have a flight tomorrow at ten past 12 pm.", "12:10"),
        ("I have a dentist appointment on 5 March from 3 to 5 pm.", "15:00"),
        ("I have a dentist appointment on 5 March, 9:30-11am.", "9:30"),
        ("I have a dentist appointment on 5 March from 11 to 1 pm.", "11:00"),
        ("I have a dentist appointment on March 5 - 6 pm.", "18:00"),
        ("明天下午2:30的飞机", "14:30"),
        ("明天晚上8:30的飞机", "20:30"),
        ("明天中午1:30的飞机", "13:30"),
        ("明天中午一点的飞机", "13:00"),
        ("明天中午十一点半的飞机", "11:30"),
        ("明天夜里十一点的飞机", "23:00"),
        ("明天清晨六点的飞机", "6:00"),
        ("明天凌晨一点的飞机", "1:00"),
        ("明天晚上两点的飞机", None),
        ("明天晚上12点半的飞机", None),
        ("明天差一刻八点的飞机", None),
        ("明天下午三点差五分的飞机", None),
    ],
)
def test_time_is_of_the_part_of_the_day_that_is_named(text: str, time: str | None) -> None:
    """Of a span it is the first; 晚上两点 may be of the night before or after."""
    reminder = reminder_in(text, SAID)

    assert reminder is not None
    found = None if reminder.minute is None else f"{reminder.minute // 60}:{reminder.minute % 60:02}"
    assert found == time


def test_requested_reminder_of_the_evening_is_in_the_afternoon_slot() -> None:
    """The morning, in which it was given before, is long over by then."""
    for text in ("Remind me tomorrow evening at 8:30 to call.", "提醒我明天晚上8:30打电话"):
        reminder = reminder_in(text, SAID)
        assert reminder is not None
        assert reminder.slot is Slot.AFTERNOON


@pytest.mark.parametrize(
    ("text", "recurrence", "days"),
    [
        ("Remind me every Friday at 5pm to send the hours.", Recurrence.WEEKLY, ["2026-02-06", "2026-02-13"]),
        ("每周五下午五点提醒我交工时。", Recurrence.WEEKLY, ["2026-02-06", "2026-02-13"]),
        ("Rent is due on the 31st of every month.", Recurrence.MONTHLY, ["2026-02-28", "2026-03-31"]),
        ("每个月31号交房租。", Recurrence.MONTHLY, ["2026-02-28", "2026-03-31"]),
        ("爸爸的生日是农历八月十五。", Recurrence.YEARLY, ["2026-09-25", "2027-09-15"]),
        ("外婆正月初三过生日。", Recurrence.YEARLY, ["2026-02-19", "2027-02-08"]),
        ("Nina was born on February 29, 1956.", Recurrence.YEARLY, ["2026-02-28", "2027-02-28"]),
    ],
)
def test_rhythms_are_found(text: str, recurrence: Recurrence, days: list[str]) -> None:
    """With the first two days on which they are due."""
    found = reminder_in(text, SAID)

    assert found is not None
    first = next_day(found, SAID.date())
    assert first is not None
    assert found.recurrence is recurrence
    assert days == [first.isoformat(), str(next_day(found, first + timedelta(days=1)))]


@pytest.mark.parametrize(
    "text", ["We meet every other Friday.", "The first Monday of every month is quiet time for reports.", "每隔一周的周五开会。",
             "我每周一三五跑步。", "闰六月初三是外公的生日。", "Every Monday and Thursday I have lessons."]
)  # fmt: skip
def test_rhythms_that_cannot_be_kept_are_none(text: str) -> None:
    """Rather none than one that is wrong every other time."""
    assert reminder_in(text, SAID) is None


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_is_no_reminder(text: str) -> None:
    """In either language, with either apostrophe or none, and whatever else would call for one."""
    assert reminder_in(text, SAID) is None


@pytest.mark.parametrize(
    ("text", "is_reminder"),
    [
        ("MRI on Friday at 9:40am, can I drink coffee before?", True),
        ("I fly home to Chennai on Friday, what's the baggage limit?", True),
        ("下周二早上九点我做胃镜，从头天晚上几点开始不能吃东西啊", True),
        ("后天要去派出所换身份证，需要带户口本吗", True),
        ("What a week, and it's only Wednesday", False),
        ("Table 5 June 12, what format is that?", False),
        ("The cron runs at 5:30pm on Friday, does that fire twice?", False),
        ("My cousin defends her thesis on Friday, is it long?", False),
        ("我表姐周六中午结婚，跟我没关系，为啥收我份子钱？", False),
        ("周五去哪里好呢？", False),
        ("My flight is on Friday, isn't it?", False),
        ("The exam is on Friday, right?", False),
        ("我周五体检，对吧？", False),
    ],
)
def test_what_a_question_says_besides_is_reminded_of(text: str, *, is_reminder: bool) -> None:
    """The clauses that do not ask are read; not those that the question is about, nor the affairs of others."""
    assert (reminder_in(text, SAID) is not None) is is_reminder


@pytest.mark.parametrize(("text", "expected"), ASKED_WITH_A_NO)
def test_a_no_to_something_else_refuses_nothing(text: str, expected: Expected) -> None:
    """Not to forget, and to be reminded not to do something, are reminders asked for."""
    assert expected == day_of(reminder_in(text, SAID))


@pytest.mark.parametrize(
    ("text", "minute", "slot"),
    [
        ("Remind me tomorrow at 3pm to sing.", 15 * 60, Slot.AFTERNOON),
        ("Remind me tomorrow at 12:05 a.m. to sing.", 5, Slot.MORNING),
        ("Remind me tomorrow at noon to sing.", 12 * 60, Slot.MORNING),
        ("Remind me tomorrow at 18:30 to sing.", 18 * 60 + 30, Slot.AFTERNOON),
        ("Remind me tomorrow at 3 to sing.", 15 * 60, Slot.AFTERNOON),
        ("Remind me tomorrow at 8 to sing.", None, None),
        ("Wake me up tomorrow at 5, remind me of the bread.", None, None),
        ("Good morning! Dentist tomorrow at 3.", 15 * 60, None),
        ("MOT booked for tomorrow, nine in the morning.", 9 * 60, None),
        ("I have an exam tomorrow at 6.45 in the morning.", 6 * 60 + 45, None),
        ("I have to cook for five to six people tomorrow.", None, None),
        ("Meeting tomorrow at ten to four.", 15 * 60 + 50, None),
        ("The parcel has to be there at twelve tomorrow evening.", None, None),
        ("Dentist tomorrow, half two.", 14 * 60 + 30, None),
        ("Dentist tomorrow at quarter past eight in the morning.", 8 * 60 + 15, None),
        ("I have to call the bank tomorrow at six in the evening.", 18 * 60, None),
        ("I have a call at the office tomorrow with ten people at two sites.", None, None),
        ("明天傍晚五点半同学聚会", 17 * 60 + 30, None),
        ("明天早上八点空腹抽血，晚上十点以后不能喝水", 8 * 60, None),
        ("Remind me tomorrow morning to sing.", None, Slot.MORNING),
        ("明天下午3点半提醒我唱歌", 15 * 60 + 30, Slot.AFTERNOON),
        ("明天上午九点提醒我唱歌", 9 * 60, Slot.MORNING),
        ("明天3点提醒我唱歌", None, None),
        ("明晚提醒我唱歌", None, Slot.AFTERNOON),
        ("The dentist's appointment is tomorrow at 16:00.", 16 * 60, None),
        ("明天16:00有面试。", 16 * 60, None),
        ("The essay is due tomorrow at midnight.", 24 * 60 - 1, None),
        ("明晚12点截止报名", 24 * 60 - 1, None),
        ("明天凌晨12点的航班", 0, None),
        ("明天中午12点面试", 12 * 60, None),
    ],
)
def test_the_time_of_day_is_found(text: str, minute: int | None, slot: Slot | None) -> None:
    """Where it is clear; what is asked for in that slot is given in it, an appointment in the morning, too."""
    found = reminder_in(text, SAID)

    assert found is not None
    assert (minute, slot) == (found.minute, found.slot)
    assert (2026, 2, 5) == day_of(found)


@pytest.mark.parametrize(
    ("said", "text", "expected"),
    [
        ("2026-12-30", "Remind me on January 2 to sing.", (2027, 1, 2)),
        ("2026-12-30", "提醒我1月2日唱歌。", (2027, 1, 2)),
        ("2026-02-06", "Remind me on Friday to sing.", (2026, 2, 13)),
        ("2026-02-06", "这周五提醒我唱歌。", (2026, 2, 6)),
        ("2026-02-07", "这周五提醒我唱歌。", None),
        ("2026-02-08", "Remind me next Friday to sing.", (2026, 2, 13)),
        ("2026-02-08", "下周日提醒我唱歌。", (2026, 2, 15)),
        ("2026-02-08", "下下周一提醒我唱歌。", (2026, 2, 16)),
        ("2027-01-01", "Remind me on February 29 to sing.", (2028, 2, 29)),
        ("2026-03-10", "The deadline is March 5.", None),
        ("2026-03-10", "Remind me on March 5 to sing.", (2027, 3, 5)),
        ("2026-12-31", "下个月31号提醒我唱歌。", (2027, 1, 31)),
        ("2027-01-31", "下个月31号提醒我唱歌。", None),
        ("2026-11-23", "The demo is on Thursday, December 10.", (2026, 12, 10)),
        ("2026-11-23", "The demo is on Thursday, December 11.", None),
        ("2026-11-23", "The meeting is on Monday, December 8, 2026.", None),
        ("2026-11-23", "会议在12月8号星期一", None),
        ("2026-11-23", "会议在12月8号星期二", (2026, 12, 8)),
        ("2026-11-23", "No tennis this Friday.", None),
        ("2026-11-23", "Hand in the essay no later than Friday.", (2026, 11, 27)),
        ("2026-11-23", "Christmas dinner at my parents' on the 25th.", (2026, 12, 25)),
        ("2026-11-23", "圣诞聚餐25号", (2026, 12, 25)),
        ("2026-11-23", "Dinner with Mo on the 25th.", (2026, 11, 25)),
        ("2026-11-23", "My wife's birthday 是 5月3号", (5, 3)),
        ("2026-11-23", "Rent is due on the first of each month.", (2026, 12, 1)),
        ("9999-12-31", "Remind me tomorrow to sing.", None),
        ("0001-01-01", "Remind me tomorrow to sing.", None),
    ],
)
def test_days_are_reckoned_from_when_it_was_said(said: str, text: str, expected: Expected) -> None:
    """Weeks begin on Monday; what is over by then comes next year when it is asked for, and else not at all.

    A date with the weekday of another day is none.
    """
    found = day_of(reminder_in(text, datetime.fromisoformat(said).replace(tzinfo=UTC)))

    assert expected == found


@given(st.text(max_size=80), st.builds(datetime.combine, st.dates(), st.times(), tzinfo=st.just(UTC)))
@settings(max_examples=100, deadline=None)
def test_any_text_is_looked_at(text: str, moment: datetime) -> None:
    """Whatever is written, whenever it was said: what is found is a day that there is, and that can be kept."""
    for phrase in (
        text,
        f"Remind me tomorrow {text}",
        f"{text}生日是{text}",
        f"提醒我{text}天后唱歌",
        f"in {text} days remind me",
    ):
        found = reminder_in(phrase, moment)
        assert found is None or is_day(found.year, found.month, found.day)
        assert found is None or (found.phrase in phrase and 0 <= found.year <= 2999)


def test_long_texts_take_no_time() -> None:
    """A long one is not looked at, and neither is a long sentence: a rule never sees more than 500 characters."""
    for text in (
        "remind me tomorrow " * 1_000,
        "remind me on Friday, " * 90,
        "提醒我明天" * 300,
        "don't remind me 3" * 90,
    ):
        assert reminder_in(text, SAID) is None


@pytest.mark.parametrize(
    ("older", "newer", "is_beside"),
    [
        ("VAT return is due by 25 November.", "Trade fair postponed to 28 November.", True),
        ("Rent is due on the 5th.", "The rent is paid for May.", False),
        ("My passport expires on 3 May.", "I have my new passport!", False),
        ("The invoice must be paid by 3 May.", "The deadline is 10 May now.", False),
        ("The cake is baked on 3 May.", "Trade fair postponed to 28 November.", False),
        ("车险5月10号扣费。", "小宝的疫苗改为5月11号接种。", True),
        ("车险5月10号扣费。", "车险退了,换了一家。", False),
        ("健康证5月10号到期。", "The trade fair is postponed to 28 November.", False),
    ],
)
def test_what_is_due_has_a_name(older: str, newer: str, *, is_beside: bool) -> None:
    """What names nothing of it is about something else; across languages no names are compared."""
    assert is_beside_due(older, newer) is is_beside


@pytest.mark.parametrize(
    ("older", "newer", "is_another"),
    [
        ("The flight to Rome is on 3 May.", "The flight to Oslo was moved to 5 May.", True),
        ("5月3号去罗马的航班。", "去奥斯陆的航班改到5月5号了。", True),
        ("5月3号口腔医院拔牙。", "口腔医院来电话,大夫出差,给我挪到5月20号了。", False),
        ("The dentist is on 3 May.", "The dentist is on a trip, they moved me to 20 May.", False),
    ],
)
def test_an_event_is_another_by_its_own_words(older: str, newer: str, *, is_another: bool) -> None:
    """Not by those beside a word for an event of another sort, such as the trip for which one is moved."""
    assert concerns_another_event(older, newer) is is_another


@pytest.mark.parametrize(
    ("older", "newer", "is_another"),
    [
        ("The exam is on 3 May.", "The concert was moved to 20 May.", True),
        ("5月3号考试。", "演唱会改到5月20号。", True),
        ("The exam is on 3 May.", "The exam clashes with the concert, so it was moved to 20 May.", False),
        ("Gym membership ends on 3 May.", "The heating bill is due on 20 May.", True),
        ("The Fiat goes to the garage on 3 May.", "The Fiat is ready on 20 May.", False),
    ],
)
def test_another_day_has_nothing_in_common(older: str, newer: str, *, is_another: bool) -> None:
    """It is of an event of another sort, or shares no word."""
    assert states_another_day(older, newer, SAID) is is_another


WEDNESDAY = datetime(2026, 12, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "Football's finished for the season, so no more Wednesdays for me.",
        "Choir is over, so no more Thursdays",
        "Pilates has finished, no Mondays any more",
        "I've stopped tutoring, so no more Saturday mornings",
        "Book club's done, Tuesdays are free again",
        "Yoga has ended, so I have my Thursdays back",
        "No more piano on Tuesdays.",
        "I'm done with Monday mornings at the gym.",
        "That's the end of our Sunday mornings at the allotment",
        "合唱团散了，每周四不用去了",
        "足球结束了，以后周三不用去了",
        "读书会停了，每周二又空出来了",
    ],
)
def test_a_weekday_on_which_something_is_over_gives_none(text: str) -> None:
    assert reminder_in(text, WEDNESDAY) is None


@pytest.mark.parametrize(
    ("text", "due", "minute"),
    [
        ("No more coffee, I have choir on Thursdays", "2026-12-03", None),
        ("Choir is every Thursday at 7pm, no more Mondays.", "2026-12-03", 19 * 60),
        ("No more than ten people on Saturdays at the workshop I run", "2026-12-05", None),
        ("football every Wednesday at 7, so we need a babysitter on Wednesdays", "2026-12-02", None),
        ("Yoga is every Monday at 6 pm, I'm never home on Mondays.", "2026-12-07", 18 * 60),
        ("I teach every Tuesday at 9am, Tuesdays are busy", "2026-12-08", 9 * 60),
        ("Bins go out every Tuesday, not Mondays.", "2026-12-08", None),
        ("每周三晚上七点踢球，所以每周三要找人看孩子", "2026-12-02", 19 * 60),
        ("每周五交周报，每周五下午五点前", "2026-12-04", 17 * 60),
        ("Yoga has moved to Thursdays", "2026-12-03", None),
        ("Yoga has moved from Mondays to Thursdays", "2026-12-03", None),
        ("Yoga is on Thursdays now instead of Mondays", "2026-12-03", None),
        ("From now on yoga is on Thursday at 6pm", "2026-12-03", 18 * 60),
        ("The weekly standup has moved to Tuesday at 10am", "2026-12-08", 10 * 60),
        ("每周的钢琴课改到周日上午了", "2026-12-06", None),
        ("钢琴课改到周四晚上了，以后周四别给我安排饭局", "2026-12-03", None),
        ("Yoga is every Monday and every Thursday at 6 pm.", None, None),
        ("Yoga is every Monday, football every Thursday.", None, None),
        ("每周一瑜伽，每周三足球", None, None),
    ],
)
def test_a_weekly_thing_has_one_weekday(text: str, due: str | None, minute: int | None) -> None:
    """However often it is named; that to which it was moved is of every week, if the sentence says so."""
    found = reminder_in(text, WEDNESDAY)

    day = None if found is None else next_day(found, WEDNESDAY.date())
    assert (None if day is None else day.isoformat()) == due
    assert found is None or (found.recurrence, found.minute) == (Recurrence.WEEKLY, minute)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("钢琴课改到周日上午了", "2026-12-06"),
        ("这周的周例会改到周二了", "2026-12-08"),
        ("Yoga has moved to Thursday", "2026-12-03"),
        ("This week's weekly standup has moved to Tuesday", "2026-12-08"),
        ("The course is on 7 and 8 December, 8:30 start both days", "2026-12-07T08:30"),
        ("The workshop is on 3 and 4 December", "2026-12-03"),
        ("Conference 10 and 11 December", "2026-12-10"),
        ("I have exams on 7, 8 and 9 December", "2026-12-07"),
        ("The exam is on Thursday and Friday at 9am", "2026-12-03T09:00"),
        ("We fly on 22 December and come back on the 29th", "2026-12-22"),
        ("We fly on 22 December at 9am and come back on the 29th", "2026-12-22T09:00"),
        ("Piano exam on 9 December and swimming gala on 11 December at 9am", "2026-12-09"),
        ("The rent for rooms 7 and 8 December is due", "2026-12-08"),
        ("The parcel comes on the 7th or the 8th", None),
        ("3 and 4 December were awful", None),
        ("12月7号和8号培训", "2026-12-07"),
        ("12月7号和8号考试，早上八点半开始", "2026-12-07T08:30"),
        ("12月22号飞，29号回来", "2026-12-22"),
        ("12月7号或者8号来修", None),
    ],
)
def test_of_several_days_it_is_the_first(text: str, due: str | None) -> None:
    """With its time of day; of two of which one is in doubt it is none. What was moved once is of one day."""
    found = reminder_in(text, WEDNESDAY)

    day = dated(found)
    if found is not None and found.minute is not None:
        day = f"{day}T{found.minute // 60:02}:{found.minute % 60:02}"
    assert day == due


@pytest.mark.parametrize(
    ("text", "is_reminder"),
    [
        ("my roommate flies to Denver tomorrow", False),
        ("my brother starts his new job on Monday", False),
        ("My cousin is flying to Rome on Friday", False),
        ("My dad is driving to Bristol tomorrow", False),
        ("My mum is working on Saturday", False),
        ("My flatmate has a job interview on Tuesday", False),
        ("我室友明天飞成都", False),
        ("我哥下周一入职新公司", False),
        ("我姐周六去北京出差", False),
        ("我表哥明天去东京", False),
        ("我妹妹下周二面试", False),
        ("my sister arrives on Friday", True),
        ("My brother is flying in on Friday", True),
        ("My sister flies in from Rome on Friday at 6pm", True),
        ("pick up my son at 5 tomorrow", True),
        ("My sister gets married on 12 December", True),
        ("My mum has surgery on Tuesday", True),
        ("My son starts school on Monday", True),
        ("My brother starts his new job on Monday, I need to send flowers", True),
        ("My roommate flies to Denver tomorrow, I'm taking her to the airport", True),
        ("Remind me that my brother starts his new job on Monday", True),
        ("我妹妹周五来看我", True),
        ("我室友明天飞成都，我送她去机场", True),
        ("我妹妹周五考试，陪她去", True),
        ("我室友生日12月8号", True),
        ("我妈周二手术", True),
        ("我儿子周一开学", True),
        ("提醒我我哥下周一入职", True),
    ],
)
def test_travel_and_work_of_others_are_none_without_the_user(text: str, *, is_reminder: bool) -> None:
    """Visits, birthdays, weddings, illness and children are of the user, too."""
    assert (reminder_in(text, WEDNESDAY) is not None) is is_reminder


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("My parents are visiting this weekend.", "2026-12-05"),
        ("I'm on call this weekend and have a dentist appointment on Thursday.", "2026-12-03"),
        ("On Boxing Day we're going to my aunt's.", "2026-12-26"),
        ("We are hosting dinner on New Year's Eve.", "2026-12-31"),
        ("The lease runs out on 4.3.2027.", "2027-03-04"),
        ("My phone contract is up on the first of January.", "2027-01-01"),
        ("The discount runs out on the thirty-first of December.", "2026-12-31"),
        ("Liam's recital is on Sat 12 Dec.", "2026-12-12"),
        ("The inspection moved to Monday the 14th.", "2026-12-14"),
        ("平安夜我要去车站接弟弟", "2026-12-24"),
        ("Performance review, Fri 18 Dec, 4pm.", "2026-12-18"),
        ("Concert tickets for Saturday, doors open at 8pm.", "2026-12-05"),
        ("Registration closes 2027-06-01.", "2027-06-01"),
        ("Tell me to bring the projector on Sunday.", "2026-12-06"),
        ("The sitter can only come on the 11th, so that's when we go out.", "2026-12-11"),
        ("周末要去爬香山", "2026-12-05"),
        ("下周末去苏州看朋友", "2026-12-12"),
        ("除夕那天要去奶奶家吃年夜饭", "2027-02-05"),
        ("大年初二回娘家", "2027-02-07"),
        ("腊月廿三要祭灶", "2027-01-30"),
        ("中秋要带孩子回老家", "2027-09-15"),
        ("清明打算回老家扫墓", "2027-04-05"),
        ("国庆要去新疆自驾", "2027-10-01"),
        ("圣诞节前一天晚上公司聚餐", "2026-12-24"),
        ("周一一早就要把发票寄了", "2026-12-07"),
        ("还有三天就要交标书了", "2026-12-05"),
    ],
)
def test_weekends_holidays_and_further_ways_to_name_a_day(text: str, due: str) -> None:
    assert dated(reminder_in(text, WEDNESDAY)) == due


@pytest.mark.parametrize(
    ("said", "due"), [("2026-12-04", "2026-12-05"), ("2026-12-05", "2026-12-05"), ("2026-12-06", "2026-12-06")]
)
def test_a_weekend_is_its_saturday_and_on_its_sunday_that_day(said: str, due: str) -> None:
    moment = datetime.fromisoformat(said).replace(tzinfo=UTC)

    assert dated(reminder_in("We must clean the flat this weekend.", moment)) == due
    assert dated(reminder_in("这周末得大扫除", moment)) == due


@pytest.mark.parametrize(
    "text",
    [
        "This weekend was a disaster.",
        "I'm completely shattered this weekend.",
        "On Christmas Day we usually just watch films.",
        "People go to church on Christmas Day.",
        "The demo may be on Friday.",
        "The release could slip to January 10.",
        "My brother believes it's on Monday.",
        "I doubt we'll finish by Friday.",
        "Friday Night Lights is my favourite series.",
        "I prefer meetings on Fridays.",
        "Saturdays are my lazy days.",
        "周六是我的懒人日",
        "他猜是周四到",
        "In a week a person produces ten litres of saliva.",
        "The function returns the date in 3 days from now.",
        "The cron job runs every Sunday at 3 am.",
        "Version 4.3.2027 of the driver is broken.",
        "I quoted page 12 to 14 of May's report.",
        "这周末累死了",
        "除夕的年夜饭真丰盛",
        "国庆我们一般都在家看电影",
        "端午节吃粽子是传统",
        "早知道我就周四走了",
        "我哥觉得是周一",
        "我喜欢在周五开会",
        "我周日从来不加班",
        "这个函数返回三天后的日期",
        "定时任务每周日凌晨三点跑",
        "驱动2027.3.4版有问题",
        "票是12/25块，不贵",
    ],
)
def test_what_only_sounds_like_a_day_to_come_gives_no_reminder(text: str) -> None:
    assert reminder_in(text, WEDNESDAY) is None


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("我下周三下午三点要去做胎心监护", "，先别跟别人说"),
        ("我下周三去体检", "，别告诉别人"),
        ("I have a scan on Friday at 3pm", ", don't tell anyone yet"),
    ],
)
def test_a_request_for_secrecy_takes_no_reminder_away(text: str, tail: str) -> None:
    """The day and the time are those of the statement without it; the phrase has it."""
    found, alone = reminder_in(text + tail, WEDNESDAY), reminder_in(text, WEDNESDAY)

    assert found is not None
    assert alone is not None
    assert (found.phrase, replace(found, phrase="")) == (text + tail, replace(alone, phrase=""))


VISITS = (
    ("the boiler man is coming Tuesday 9 to 12", "2026-02-10", 9 * 60),
    ("a plumber is coming on Friday at 8", "2026-02-06", 8 * 60),
    ("the engineer will be here Wednesday 12-4", "2026-02-11", 12 * 60),
    ("We've got a man coming about the roof on Friday at 3", "2026-02-06", 15 * 60),
    ("下周三上午师傅来修空调", "2026-02-11", None),
    ("师傅周五上午8点到10点来装空调", "2026-02-06", 8 * 60),
    ("快递周五送到", "2026-02-06", None),
    ("my mum's plumber is coming on Friday at 9, I have to let him in", "2026-02-06", 9 * 60),
)
"""Visits of tradespeople and deliveries, with the day and the minute of the reminder."""


@pytest.mark.parametrize(("text", "due", "minute"), VISITS)
def test_a_visit_of_tradespeople_is_an_appointment(text: str, due: str, minute: int | None) -> None:
    """At the time at which people come to work, of a span at the first."""
    reminder = reminder_in(text, SAID)

    assert reminder is not None
    assert (dated(reminder), reminder.minute) == (due, minute)


@pytest.mark.parametrize(
    "text",
    [
        "the plumber came on Tuesday",
        "the boiler man was coming on Tuesday but never showed up",
        "my sister's plumber is coming on Friday",
        "our neighbours have a plumber coming on Friday at 8",
        "the plumber is coming to my neighbour's on Friday",
        "if the plumber comes on Friday I'll be late",
        "the delivery usually comes on Friday",
        "in my novel the plumber is coming on Friday at 8",
        "师傅上周三来修过空调",
        "快递周五送到了",
        "我姐家周五师傅来修空调",
        "快递一般周五送到",
        "要是师傅周三来就好了",
    ],
)
def test_visits_to_others_and_of_the_past_are_none(text: str) -> None:
    """Nor are supposed ones, and those that are usual."""
    assert reminder_in(text, SAID) is None


@pytest.mark.parametrize(
    ("text", "weekday", "is_weekly"),
    [
        ("my yoga class moved from Tuesdays to Thursdays", 1, True),
        ("yoga moved from Tuesday to Thursday", 1, True),
        ("yoga is on Thursdays now", None, True),
        ("瑜伽课从周二改到周四了", 1, True),
        ("瑜伽课从每周二改到每周四了", 1, True),
        ("the dentist moved from Tuesday to Thursday", None, False),
        ("yoga moved to Thursday this week", None, False),
        ("这周瑜伽课改到周四了", None, False),
        ("试听课从周二改到周四", None, False),
        ("has yoga moved from Tuesdays to Thursdays?", None, False),
    ],
)
def test_what_moved_to_another_weekday_for_good_is_weekly(text: str, weekday: int | None, *, is_weekly: bool) -> None:
    """A class from a weekday to another; what takes place once, or moved for one week, is no rhythm."""
    found = moved_rhythm(text, SAID)

    assert (found is not None) is is_weekly
    assert found is None or found[0] == weekday


@pytest.mark.parametrize(
    ("text", "is_of_one_week"),
    [
        ("yoga is on Thursday this week", True),
        ("no yoga this week", True),
        ("这周瑜伽改到周四", True),
        ("I quit yoga this week", False),
        ("yoga is on Thursdays from now on, starting next week", False),
        ("从下周起瑜伽改到周四", False),
        ("这周起我不学瑜伽了", False),
    ],
)
def test_an_exception_is_of_one_week(text: str, *, is_of_one_week: bool) -> None:
    assert is_exception(text) is is_of_one_week


@pytest.mark.parametrize(
    ("older", "newer", "is_another"),
    [
        ("Orla's wedding is on 14 June.", "I have the weekend off", True),
        ("My scrum course is 8-12 June in Leeds.", "annual leave approved for 10 to 20 June", True),
        ("Dentist on 14 June at 10.", "the car service moved to 20 June", True),
        ("小雨的婚礼在6月14号", "我这周末休息", True),
        ("急救培训6月8号到12号", "我请了年假，6月15号到26号", True),
        ("6月13号考六级", "老师大发慈悲,那篇三千字的6月5号再给就成", True),
        ("那篇三千字的6月5号交", "场馆检修,演唱会改到6月27号", True),
        ("Dentist on 14 June at 10.", "the clinic moved me to 20 June", False),
        ("I'm on annual leave from 8 June.", "my annual leave is from 15 June now", False),
        ("Orla's wedding is on 14 June.", "I have Orla's wedding weekend off", False),
        ("沙坡尾的市集摊位6月14号", "主办方说场地没批下来,沙坡尾那摊儿黄了", False),
        ("Dentist on 14 June at 10.", "牙医改到6月20号了", False),
    ],
)
def test_events_of_different_names_are_not_about_each_other(older: str, newer: str, *, is_another: bool) -> None:
    """Nor is time off work about an appointment; what moves the speaker, or is told in another language, may be."""
    assert states_another_day(older, newer, SAID) is is_another


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Joel starts swimming on Fridays at 4.30 from the 8th of May", (2026, 5, 8)),
        ("From 12 May I have German class every Thursday at 7pm", (2026, 5, 14)),
        ("Choir every Thursday at 8, starting 5 March", (2026, 3, 5)),
        ("German class starts on 12 May, every Tuesday at 7pm", (2026, 5, 12)),
        ("Rent on the 5th of every month, starting 10 May", (2026, 6, 5)),
        ("从5月8号开始每周五下午四点半上游泳课", (2026, 5, 8)),
        ("小宝的钢琴课从3月3日起，每周三下午5点", (2026, 3, 4)),
        ("我从 May 8 开始 every Friday 上 pottery class", (2026, 5, 8)),
        ("从5月10号起每月5号交房租", (2026, 6, 5)),
        ("Term starts 8 May, swimming is every Friday at 4", (2026, 2, 6)),
        ("Swimming every Friday until 8 May", (2026, 2, 6)),
        ("Yoga every Tuesday, my exam is on 12 May", (2026, 2, 10)),
        ("German class every Tuesday from 9 to 11", (2026, 2, 10)),
        ("5月8号开始放假，每周五我值班", (2026, 2, 6)),
        ("每周五游泳课，到5月8号结束", (2026, 2, 6)),
    ],
)
def test_a_rhythm_begins_on_its_start_day(text: str, first: tuple[int, int, int]) -> None:
    """The first occurrence is on or after that day; another day of the sentence is no start."""
    found = reminder_in(text, SAID)

    assert found is not None
    assert (found.year, found.month, found.day) == first
    assert found.recurrence in {Recurrence.WEEKLY, Recurrence.MONTHLY}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hargreaves install is on 11 February 2027 (kitchen not delivered yet).", (2027, 2, 11)),
        ("mum's 70th is 3 March, thinking of booking the Ivy, not booked yet", (0, 3, 3)),
        ("driving test on 15 March at 9.10, not feeling ready", (2026, 3, 15)),
        ("My passport appointment is on 7 March (haven't paid the fee)", (2026, 3, 7)),
        ("The wedding is on 14 March (venue not confirmed yet)", (2026, 3, 14)),
        ("3月15号驾照考试（还没交钱）", (2026, 3, 15)),
        ("我的签证面签在3月7号（材料没准备好）", (2026, 3, 7)),
        ("the exam is not on 3 March", None),
        ("The exam is on 3 March (not going)", None),
        ("The exam on 3 March (no longer happening)", None),
        ("Dentist on 7 March (not booked yet)", None),
        ("The party on 3 March isn't happening yet", None),
        ("I'm thinking of booking the dentist on 7 March", None),
        ("3月15号路考（不考了）", None),
        ("3月15号聚餐（还没定）", None),
    ],
)
def test_a_negated_aside_leaves_the_day(text: str, expected: tuple[int, int, int] | None) -> None:
    """What is not ready says nothing of the day; what may not take place is none."""
    found = reminder_in(text, SAID)

    assert (None if found is None else (found.year, found.month, found.day)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("房租每个月 5 号交 6800", (2026, 2, 5)),
        ("信用卡每月 8 号还款", (2026, 2, 8)),
        ("每个月 15 号 发工资", (2026, 2, 15)),
        ("每周 五 上瑜伽课", (2026, 2, 6)),
        ("28号公司年会", (2026, 2, 28)),
        ("28号公司年会要表演", (2026, 2, 28)),
        ("28号公司团建去爬山", (2026, 2, 28)),
        ("dentist rang, they've pushed me to the 28th same time", (2026, 2, 28)),
        ("每月 5 号线检修", None),
        ("每个月 3 次", None),
        ("我每周一次瑜伽课", None),
        ("我住28号公司宿舍", None),
        ("28号公馆聚餐", None),
    ],
)
def test_days_with_spaces_and_events_of_a_company(text: str, expected: tuple[int, int, int] | None) -> None:
    found = reminder_in(text, SAID)

    assert (None if found is None else (found.year, found.month, found.day)) == expected


@pytest.mark.parametrize(
    ("text", "is_moved"),
    [
        ("dentist rang, they've pushed me to the 28th", True),
        ("the dentist moved me to the 28th", True),
        ("dentist rang, they haven't pushed me to the 28th", False),
        ("dentist rang, they've pushed me to decide", False),
        ("dentist rang, they've moved to a new building", False),
    ],
)
def test_who_rings_moves_the_appointment_with_them(text: str, *, is_moved: bool) -> None:
    change = schedule_change(text)

    assert (change is not None and change.label == "dentist") is is_moved


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "I have the dentist on the 4th at 9 and the MOT on the 12th at 2pm.",
            ["I have the dentist on the 4th at 9", "I have the MOT on the 12th at 2pm."],
        ),
        ("dentist on the 4th at 9 and MOT on the 12th at 2pm", ["dentist on the 4th at 9", "MOT on the 12th at 2pm"]),
        ("4号看牙，12号年检", ["4号看牙", "12号年检"]),
        ("提醒我4号看牙、12号年检", ["提醒我4号看牙", "提醒我12号年检"]),
        ("Dentist on 4 March at 9am, and MOT on the 12th", ["Dentist on 4 March at 9am", "MOT on the 12th of March"]),
        ("3月4号看牙，12号年检，20号面试", ["3月4号看牙", "3月12号年检", "3月20号面试"]),
        (
            "Remind me of the dentist on Tuesday, the vet on Friday and the interview on Saturday.",
            [
                "Remind me of the dentist on Tuesday",
                "Remind me of the vet on Friday",
                "Remind me of the interview on Saturday.",
            ],
        ),
    ],
)
def test_events_with_a_day_each_are_parts(text: str, parts: list[str]) -> None:
    """Each can be understood by itself, with the month that is named once."""
    assert split_dated_events(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "on 7 and 8 December", "12月7号和8号考试", "fly on 22 December and come back on the 29th",
        "exam on 3 May and gala on 5 May at 9am", "Dentist on the 4th and a dental check-up for my teeth on the 12th",
        "The dentist moved from the 4th to the 12th", "Dentist moved to the 4th and MOT to the 12th",
        "dentist on the 4th or MOT on the 12th", "Is the dentist on the 4th and the MOT on the 12th?",
        "yoga every Tuesday and dentist on Friday", "MOT on 12 December with Hargreaves, bring the papers",
        "如果4号看牙，12号就年检", "dentist on 28 March and MOT on the 4th", "3月28号看牙，4号年检",
    ],
)  # fmt: skip
def test_a_sentence_of_one_event_or_in_doubt_is_whole(text: str) -> None:
    """As are those with a day whose month is not certain."""
    assert split_dated_events(text) == [text]


@pytest.mark.parametrize(
    ("older", "newer", "is_another"),
    [
        ("MOT on 12 December with Hargreaves", "Hargreaves & Sons are repairing the roof on 15 December.", True),
        ("MOT on 12 December with Hargreaves", "The roof repair with Hargreaves is moved to 20 December", True),
        ("The roof is repaired by Hargreaves on 15 December", "Lunch with Hargreaves moved to 20 December.", True),
        ("12号找老张年检", "老张15号来修屋顶", True),
        ("MOT on 12 December with Hargreaves", "Hargreaves can fit me in on 14 December", False),
        ("MOT on 12 December with Hargreaves", "The MOT with Hargreaves moved to 14 December", False),
        ("Choir at St Mary's on 12 December", "Choir rehearsal moved to 14 December", False),
        ("12号去李医生那复查", "李医生改到14号了", False),
    ],
)
def test_a_shared_name_alone_makes_no_same_event(older: str, newer: str, *, is_another: bool) -> None:
    """Unless nothing else is said of what it is."""
    assert states_another_day(older, newer, datetime(2026, 11, 29, 10, tzinfo=UTC)) is is_another


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The lease ends in March", (2026, 3, 1)),
        ("The visa runs out in May", (2026, 5, 1)),
        ("my passport expires in April 2027", (2027, 4, 1)),
        ("The car insurance is due in January next year", (2027, 1, 1)),
        ("I have to renew my licence by June", (2026, 6, 1)),
        ("The lease ends in March, remind me two weeks before", (2026, 2, 15)),
        ("The lease ends at the end of March", (2026, 3, 31)),
        ("3月续签租约", (2026, 3, 1)),
        ("租约三月到期", (2026, 3, 1)),
        ("保险明年2月到期", (2027, 2, 1)),
        ("2027年5月护照到期", (2027, 5, 1)),
        ("三月底租约到期", (2026, 3, 31)),
    ],
)
def test_what_ends_in_a_month_is_reminded_of_on_its_first_day(text: str, expected: tuple[int, int, int]) -> None:
    """By its end, on its last."""
    found = reminder_in(text, SAID)
    assert found is not None
    assert (found.year, found.month, found.day, found.recurrence) == (*expected, Recurrence.NONE)


@pytest.mark.parametrize(
    "text",
    [
        "The lease ended in March", "When does the lease end in March?", "The season ends in March",
        "If the lease ends in March, we move", "We're going to Spain in May", "I think the lease ends in March",
        "The lease doesn't end in March", "The visa expires every March", "The visa may expire, they said",
        "She said the lease ends in March", "I've renewed my passport in May", "3月续签过了", "I was born in March", "The lease ends in January",
        "去年3月到期的", "租约是不是三月到期？", "要是3月续签就好了", "3月去西班牙",
    ],
)  # fmt: skip
def test_a_month_alone_gives_no_reminder(text: str) -> None:
    """Without an end or a duty, in the past or long to come, asked, supposed or hearsay."""
    assert reminder_in(text, SAID) is None
