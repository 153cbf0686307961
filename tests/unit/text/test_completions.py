"""Statements that what a reminder is about is done."""

from __future__ import annotations

from datetime import date

import pytest

from memsvc.text.reminder_extraction import completed_event, completion

SAID = date(2026, 12, 4)


def completed(text: str, *reminded: tuple[str, int]) -> int | None:
    """Return the place of the reminder that *text* completes, said on 4 December; *reminded*: texts and days."""
    done = completion(text)
    days = [(sentence, date(2026, 12, day)) for sentence, day in reminded]
    return None if done is None else completed_event(done, days, SAID)


@pytest.mark.parametrize(
    ("text", "reminded", "day"),
    [
        ("I've been to the dentist.", "I have a dentist appointment on 4 December at 9am.", 4),
        ("dentist done", "dentist with Hargreaves on the 4th at 9", 4),
        ("MOT passed!", "MOT on the 5th at 2pm", 5),
        ("The user's MOT passed.", "MOT on the 5th at 2pm", 5),
        ("The MOT went fine, passed with two advisories", "MOT on the 3rd", 3),
        ("Paid the rent.", "Pay the rent by 7 December", 7),
        ("The user has paid the rent.", "Pay the rent by 7 December", 7),
        ("Paid the rent.", "Rent is due on the 3rd", 3),
        ("Submitted the report.", "The report is due on Friday", 4),
        ("Just handed in the quarterly report", "I have to hand in the quarterly report by Monday", 7),
        ("I passed my French exam", "French exam on the 3rd", 3),
        ("renewed my driving licence", "My driving licence expires on 9 December", 9),
        ("Been to the vet, all good", "Vet with the dog on Thursday", 3),
        ("picked up the parcel", "Pick up the parcel from the post office by Saturday", 5),
        ("驾照换好了", "12月5号前换驾照", 5),
        ("驾照换好了", "我的驾照6号到期", 6),
        ("房租交了", "提醒我5号交房租", 5),
        ("我已经把房租交了", "提醒我5号交房租", 5),
        ("用户交了房租", "提醒我5号交房租", 5),
        ("牙医看完了", "4号下午看牙医", 4),
        ("牙看完了", "4号看牙", 4),
        ("年检过了", "周五去年检", 4),
        ("报告交上去了", "周五前交报告", 4),
        ("考完试了", "4号考试", 4),
        ("取完快递了", "明天取快递", 5),
        ("刚体检完", "今天体检", 4),
        ("面试结束了，感觉还行", "周五下午两点面试", 4),
    ],
)
def test_what_is_done_is_found_among_reminders(text: str, reminded: str, day: int) -> None:
    """The one that it is about, next to others."""
    assert completed(text, ("The gas bill is due on the 5th", 5), (reminded, day), ("5号交水电费", 5)) == 1


@pytest.mark.parametrize(
    ("text", "reminded", "day"),
    [
        ("I've been to the dentist.", "dentist on 7 December", 7),
        ("I went to the dentist on 1 December", "dentist on the 4th", 4),
        ("I went to the dentist last year", "dentist on the 4th", 4),
        ("I've been to the dentist.", "Mum's dentist appointment on the 4th", 4),
        ("My sister has been to the dentist.", "dentist on the 4th", 4),
        ("I've been to the dentist", "pay the dentist on the 4th", 4),
        ("I've been to the optician", "dentist on the 4th", 4),
        ("I passed the MOT station.", "MOT on the 5th", 5),
        ("Her MOT passed", "MOT on the 5th", 5),
        ("Tom's MOT passed", "MOT on the 5th", 5),
        ("Once the MOT is done we can go.", "MOT on the 5th", 5),
        ("Haven't paid the rent yet", "Pay the rent by 7 December", 7),
        ("I almost paid the rent twice", "Pay the rent by 7 December", 7),
        ("Did I pay the rent?", "Pay the rent by 7 December", 7),
        ("Have I paid the rent?", "Pay the rent by 7 December", 7),
        ("I paid the rent, right?", "Pay the rent by 7 December", 7),
        ("The rent is paid monthly", "Pay the rent by 7 December", 7),
        ("my flatmate paid the rent", "Pay the rent by 7 December", 7),
        ('He said "the rent is paid"', "Pay the rent by 7 December", 7),
        ("Paid the rent.", "Pay the rent on 20 December", 20),
        ("Paid the rent.", "rent a van on the 5th", 5),
        ("Paid the gas bill", "the electricity bill is due on the 5th", 5),
        ("Submitted the report.", "Read Tom's report by Friday", 4),
        ("Finished the report", "Submit the report by Friday", 4),
        ("Finished the report", "report due on Friday", 4),
        ("I'll be done with the report by Friday", "report due on Friday", 4),
        ("I passed my French exam", "maths exam on the 3rd", 3),
        ("I had my flight cancelled", "flight to Oslo on the 4th", 4),
        ("The meeting is over at 5", "meeting with Carol on the 4th", 4),
        ("had a meeting", "meeting with Carol on the 4th", 4),
        ("Had dinner", "dinner with Tom on the 4th", 4),
        ("picked up the parcel", "return the parcel by the 5th", 5),
        ("房租该交了", "提醒我5号交房租", 5),
        ("房租快交了", "提醒我5号交房租", 5),
        ("房租还没交", "提醒我5号交房租", 5),
        ("房租交了吗", "提醒我5号交房租", 5),
        ("同事房租交了", "提醒我5号交房租", 5),
        ("小王的房租交了", "提醒我5号交房租", 5),
        ("等房租交了再说", "提醒我5号交房租", 5),
        ("我以为房租交了", "提醒我5号交房租", 5),
        ("房租每月都交了", "提醒我5号交房租", 5),
        ("明天就交了房租", "提醒我5号交房租", 5),
        ("房租交了", "5号交水电费", 5),
        ("妈妈的牙看完了", "4号看牙", 4),
        ("他牙看完了", "4号看牙", 4),
        ("牙医看完了", "4号陪妈妈看牙医", 4),
        ("体检报告取了", "4号体检", 4),
        ("报告写完了", "周五交报告", 4),
        ("饭吃完了", "4号和小雨吃饭", 4),
    ],
)
def test_what_may_not_be_done_is_none(text: str, reminded: str, day: int) -> None:
    """Of others, of another day or thing, asked, denied, planned, or only a part of what is to be done."""
    assert completed(text, (reminded, day)) is None


def test_of_two_that_may_be_meant_none_is_done() -> None:
    """Rather both stay; one that is nearer in its words is meant."""
    assert completed("I've been to the dentist", ("dentist on the 3rd", 3), ("dentist on the 4th", 4)) is None
    assert completed("牙看完了", ("3号看牙", 3), ("4号看牙", 4)) is None
    assert completed("I've been to the dentist", ("dentist on the 4th", 4), ("dentist on the 20th", 20)) == 0
