"""Corrections of what was said a moment before, in both languages."""

from __future__ import annotations

import pytest

from memsvc.text.corrections import (
    apply_corrections,
    correct_statement,
    find_retracted,
    is_correction,
    is_move,
    is_retraction,
    move_statement,
)


@pytest.mark.parametrize(
    ("statement", "correction", "meant"),
    [
        ("I've got a dentist appointment on Tuesday at 10.", "no wait, I said Tuesday but it's Thursday. Same time.",
         "I've got a dentist appointment on Thursday at 10."),
        ("The meeting is on Wednesday at 6 pm", "Sorry, I meant Thursday.", "The meeting is on Thursday at 6 pm"),
        ("I have 3 days of annual leave left", "Actually it's 4 days, I miscounted.", "I have 4 days of annual leave left"),
        ("My sister lives in Leeds", "Correction: she lives in York, I mixed it up.", "My sister lives in York"),
        ("The dentist is on the 24th at 4 pm", "No, it's the 25th, 4 pm is right.", "The dentist is on the 25th at 4 pm"),
        ("My flight is on 3 December", "Oops, 4 December, not the 3rd.", "My flight is on 4 December"),
        ("My flight is on 3 December", "Oops, the 4th.", "My flight is on 4th December"),
        ("Call Ann at 3 pm on Friday", "sorry, it's 4 pm on Monday", "Call Ann at 4 pm on Monday"),
        ("My locker is number 41", "sorry, it's number 42", "My locker is number 42"),
        ("Standup is at 10 on Fridays", "no, it's at 11", "Standup is at 11 on Fridays"),
        ("My sister lives in Leeds", "oops, York", "My sister lives in York"),
        ("The rent is $900 a month", "no, it's $950", "The rent is $950 a month"),
        ("Lily的牙医是24号下午四点", "不对，是25号，四点没错", "Lily的牙医是25号下午四点"),
        ("周三晚上七点家长会", "打错了，是周四", "周四晚上七点家长会"),
        ("我儿子今年上四年级", "更正一下，是五年级", "我儿子今年上五年级"),
        ("下周四下午三点有个call", "说错了，是下周五，时间不变", "下周五下午三点有个call"),
        ("我12月3号飞东京", "说错了，4号", "我12月4号飞东京"),
    ],
)  # fmt: skip
def test_the_value_of_the_same_sort_is_replaced(statement: str, correction: str, meant: str) -> None:
    """Days, dates, times, amounts with the same unit, and names."""
    assert meant == correct_statement(statement, correction)


@pytest.mark.parametrize(
    ("statement", "other"),
    [
        ("The dentist is on Tuesday", "Actually it's raining, Bob arrives on Friday with the kids and the dog."),
        ("The dentist is on Tuesday", "Sorry, I have to go on Friday to see my parents in law"),
        ("The dentist is on Tuesday", "no it's not on Tuesday"),
        ("The dentist is on Tuesday", "Actually, is it Thursday?"),
        ("The dentist is on Tuesday", "I mean, on Friday too"),
        ("The dentist is on Tuesday", "The optician is on Thursday"),
        ("The dentist is on Tuesday or Wednesday", "I meant Thursday"),
        ("The dentist is on Tuesday", "I meant Thursday or Friday"),
        ("I have 3 cats", "Actually it's 20 degrees outside"),
        ("My locker is number 41", "sorry, it's room 42"),
        ("I sat with Ann in the sun", "sorry, I meant Tuesday"),
        ("周三家长会", "不是周四吗"),
        ("My dog is called Rex", "No, that's Bob calling"),
        ("My dog is called Rex", "Oops, that was Anna's dog"),
        ("I moved to Leeds", "I mean, Leeds is lovely"),
        ("周三家长会", "不对，我想起来了，周五要去医院看奶奶"),
        ("周三家长会", "不对，周五也有"),
        ("周三家长会", "周五去看牙"),
        ("我有两只猫", "不是我的错，是他周五没来"),
    ],
)
def test_what_is_no_mere_correction_replaces_nothing(statement: str, other: str) -> None:
    """It tells something else, asks, adds, or leaves open what is meant."""
    assert correct_statement(statement, other) is None


def test_a_correction_is_of_an_earlier_statement_of_the_same_speaker() -> None:
    """The latest that has a value of the sort; at most three back. A correction may be corrected."""
    texts = [
        ("Yoga is on Monday.", "a"),
        ("Choir is on Tuesday.", "b"),
        ("I like tea.", "a"),
        ("I meant Thursday.", "a"),
    ]
    assert apply_corrections(texts) == (
        ["Yoga is on Thursday.", "Choir is on Tuesday.", "I like tea.", texts[3][0]],
        {3: 0},
    )

    again = [("家长会是周三。", ""), ("不对，是周四。", ""), ("说错了，周五。", "")]
    assert apply_corrections(again) == (["家长会是周五。", "不对，是周四。", "说错了，周五。"], {1: 0, 2: 0})

    far = [
        ("Yoga is on Monday.", ""),
        *[(f"I like tea no. {number}.", "") for number in range(3)],
        ("I meant Friday.", ""),
    ]
    assert apply_corrections(far) == ([text for text, _ in far], {})


def test_long_texts_correct_nothing() -> None:
    """A text of more than 120 characters says more than a value."""
    assert is_correction("I meant Thursday.")
    assert not is_correction("I meant Thursday." + " So it goes." * 10)


@pytest.mark.parametrize(
    ("statement", "move", "meant"),
    [
        ("My dentist appointment is on the 17th at 10", "it got moved to the 24th",
         "My dentist appointment is on the 24th at 10"),
        ("Dentist on 17 March at 10am", "It's been pushed back to the 24th.", "Dentist on 24th March at 10am"),
        ("The MOT is next Thursday", "oh, it was moved to the 24th", "The MOT is the 24th"),
        ("The demo is on Tuesday at 3 pm", "it's been moved to Friday at 4 pm", "The demo is on Friday at 4 pm"),
        ("Dentist on Tuesday the 17th", "it got moved to the 24th", "Dentist on the 24th"),
        ("17号上午看牙", "改到24号了", "24号上午看牙"),
        ("3月17号看牙", "刚才通知，推迟到24号了", "3月24号看牙"),
        ("周四下午三点家长会", "又改到周五了", "周五下午三点家长会"),
    ],
)  # fmt: skip
def test_what_was_moved_without_a_name_is_read_with_its_event(statement: str, move: str, meant: str) -> None:
    assert move_statement(statement, move) == meant


@pytest.mark.parametrize(
    "text",
    [
        "it didn't get moved to the 24th",
        "did it get moved to the 24th?",
        "it might get moved to the 24th",
        "it also got moved to the 24th",
        "the concert got moved to the 24th",
        "没改到24号",
        "改到24号了吗",
        "演唱会改到24号了",
    ],
)
def test_what_is_denied_asked_or_named_moves_nothing_before(text: str) -> None:
    assert not is_move(text)


def test_what_has_no_name_moves_the_only_event_with_a_day() -> None:
    """Not one of two, nor one that is past, of another speaker, or said long before."""
    move = "it got moved to the 24th"

    def said(*texts: str) -> list[str]:
        return apply_corrections([(text, "") for text in texts], is_to_come=lambda _, text: "was" not in text)[0]

    assert said("Dentist on the 17th", "I'm tired", move)[0] == "Dentist on the 24th"
    for before in (("Dentist on the 17th", "Vet on the 18th"), ("Dentist was on the 17th",), ("I'm tired",)):
        assert said(*before, move) == [*before, move]
    assert apply_corrections([("Dentist on the 17th", "a"), (move, "b")])[0][0] == "Dentist on the 17th"
    assert said("Dentist on the 17th", "a", "b", "c", move)[0] == "Dentist on the 17th"


@pytest.mark.parametrize(
    "text",
    [
        "just kidding", "Just kidding!", "jk lol", "haha, only joking 😂", "scratch that", "forget I said that",
        "No, I take that back.", "it was just a joke", "开玩笑的", "哈哈开玩笑的", "算了当我没说", "算了，当我没说吧", "逗你玩的",
        "没有啦，骗你的", "當我沒說",
    ],
)  # fmt: skip
def test_a_text_that_takes_back_what_was_said(text: str) -> None:
    """With a laugh and an excuse."""
    assert is_retraction(text)


@pytest.mark.parametrize(
    "text",
    [
        "no kidding", "no kidding, I really am", "scratch that off the list", "scratch that, Thursday", "I'm not kidding",
        "just kidding around with the kids", "you're kidding", "are you joking?", "never mind", "don't scratch that",
        "我不是开玩笑的", "没开玩笑", "别开玩笑", "他是开玩笑的", "算了", "当我没说清楚的时候",
    ],
)  # fmt: skip
def test_a_text_that_takes_nothing_back(text: str) -> None:
    """It denies the joke, is about something else, or says more."""
    assert not is_retraction(text)


def test_what_is_taken_back() -> None:
    """The sentence before, or the whole message before, of the same speaker alone."""
    said = [
        ("I'm a nurse.", "user", 0), ("I'm moving to Mars.", "user", 0), ("Just kidding!", "user", 0),
        ("I live in Leeds.", "user", 1), ("I have a dog.", "user", 1), ("Woof.", "assistant", 2), ("jk", "user", 3),
        ("我有两只猫。", "user", 4), ("开玩笑的", "other", 5),
    ]  # fmt: skip

    assert find_retracted(said) == {1: 2, 3: 6, 4: 6}
