"""Labels of topics and values: no scale numbers, stems of owners or pole numbers reach people."""

from __future__ import annotations

import re

import pytest

from memsvc.domain.conflicts import contradicts
from memsvc.text.facts import chinese_lexicon, english_lexicon, facts_in, labels, loose_facts_in

LABELS = [
    ("My favorite color is blue.", "favorite color", "blue"),
    ("My sister's favorite color is red.", "sister's favorite color", "red"),
    ("I prefer brief answers.", "preferred length of answer", "brief"),
    ("I prefer python.", "preferred programming language", "python"),
    ("I don't like sushi.", "liking sushi", "dislikes"),
    ("My brother lives in Lisbon.", "home of brother", "lisbon"),
    ("My dog is called Rex.", "dog name", "rex"),
    ("I am married.", "marital status", "married"),
    ("The API is public.", "api: public or private", "public"),
    ("The meeting starts at 5 pm.", "meeting: start", "17:00"),
    ("In winter I prefer tea.", "preferred drink in winter", "tea"),
    ("我最喜欢的颜色是蓝色。", "最喜欢的颜色", "蓝色"),
    ("我偏好简短的回答。", "偏好: 回答长短", "简短"),
    ("我不喜欢咖啡。", "喜欢: 咖啡", "不喜欢"),
    ("我结婚了", "婚姻状况", "已婚"),
    ("小王住在北京", "小王 住处", "北京"),
    ("小王家住在北京", "小王 住处", "北京"),
    ("我住北京", "住处", "北京"),
    ("数据库密码是abc123", "数据库密码", "abc123"),
    ("I'm allergic to nuts.", "nut allergy", "allergic"),
    ("My wife is not allergic to cats.", "cat allergy of wife", "not allergic"),
    ("I don't have a cat.", "number of cat", "none"),
    ("I have a car.", "car", "has"),
    ("My brother doesn't have a car.", "car of brother", "does not have"),
    ("I smoke.", "smoking", "smokes"),
    ("I quit smoking.", "smoking", "does not smoke"),
    ("I can't swim.", "swimming", "cannot swim"),
    ("I speak French.", "speaking French", "speaks"),
    ("I drink coffee.", "liking coffee", "drinks"),
    ("I don't drink coffee.", "liking coffee", "does not drink"),
    ("I gave up coffee.", "liking coffee", "no longer"),
    ("I wear glasses.", "wearing glasses", "wears"),
    ("The meeting is on Monday.", "meeting", "Monday"),
    ("The meeting is not on Monday.", "meeting", "not Monday"),
    ("The standup is every Tuesday.", "standup", "Tuesdays"),
    ("My gym is closed on Mondays.", "gym: open or closed on Mondays", "closed"),
    ("我对花生过敏", "对花生过敏", "过敏"),
    ("我对花生不过敏了", "对花生过敏", "不过敏"),
    ("我没有猫了", "猫的数量", "没有"),
    ("我没有车了", "车", "没有"),
    ("我戒烟了", "抽烟", "不抽"),
    ("我会游泳", "游泳", "会游泳"),
    ("我不会说法语", "会说法语", "不会说"),
    ("我不打篮球了", "打篮球", "不打篮球"),
    ("例会在周二", "例会", "周二"),
    ("例会在每周二", "例会", "每周二"),
    ("健身房周一关门", "健身房 周一营业", "关门"),
]


@pytest.mark.parametrize(("said", "topic", "value"), LABELS)
def test_topics_and_values_are_named_as_people_name_them(said: str, topic: str, value: str) -> None:
    """The label says what the key says, in words."""
    fact = facts_in(said)[0]

    assert (labels.topic_label(fact.topic), labels.value_label(fact)) == (topic, value)


@pytest.mark.parametrize("said", [said for said, _, _ in LABELS])
def test_labels_hold_nothing_internal(said: str) -> None:
    """Neither the number of a scale nor the key of the user is shown."""
    fact = facts_in(said)[0]
    shown = f"{labels.topic_label(fact.topic)} {labels.value_label(fact)}"

    assert not re.search(r"\buser\b|scale|^\d:| \d$", shown)


@pytest.mark.parametrize(
    ("said", "label", "value"),
    [
        ("We switched to GitHub Actions.", "ci in use", "github actions"),
        ("我们改用 PostgreSQL 了", "database in use", "postgresql"),
        ("I sold the Vespa.", "scooter", "no longer so"),
        ("摩托车卖了", "motorbike", "no longer so"),
        ("The rent went up to 1,300.", "rent", "1300"),
        ("I got engaged.", "marital", "engaged"),
        ("short answers from now on", "length", "short"),
    ],
)
def test_what_changed_is_named_as_people_name_it(said: str, label: str, value: str) -> None:
    """Loose topics are shown without the marks of their keys."""
    shown = {(labels.topic_label(fact.topic), labels.value_label(fact)) for fact in loose_facts_in(said)}

    assert (label, value) in shown
    assert not any(re.search(r"~|\buser\b|\||changed|^\d:", f"{topic} {said}") for topic, said in shown)


def test_every_scale_has_a_label() -> None:
    """A scale that is added without one would fail when it is shown first."""
    assert len(labels.CONTRAST_LABELS) == len(english_lexicon.CONTRASTS)
    assert len(labels.SCALE_LABELS) == len(english_lexicon.SCALES)
    assert len(labels.HAN_CONTRAST_LABELS) == len(chinese_lexicon.CONTRASTS)
    assert len(labels.HAN_SCALE_LABELS) == len(chinese_lexicon.SCALES)


def test_two_words_for_one_preference_do_not_contradict_each_other() -> None:
    """Brief and short answers are the same; detailed ones are not."""
    brief, short, detailed = (facts_in(f"I prefer {word} answers.")[0] for word in ("brief", "short", "detailed"))

    assert not contradicts(brief, short)
    assert contradicts(brief, detailed)
