"""Topics of personal questions: those of the statements that answer them."""

from __future__ import annotations

import pytest

from memsvc.text.facts.statements import facts_in
from memsvc.text.ranking_cues import asked_topics

ANSWERED = [
    ("Where do I live?", ["I live in York.", "I moved to York last week.", "We moved to York.", "我上周搬到了杭州。"]),
    ("which city am I in right now", []),
    ("Which town do we live in now?", ["We're based in York.", "I moved from Leeds to York."]),
    ("What’s my address?", ["I live in York.", "My home address is 3 Elm Street, York."]),
    ("where does the user live", ["User moved to Berlin."]),
    ("Where do I work?", ["I just joined Stripe.", "I started at Acme in May.", "我跳槽去了字节。"]),
    ("What company do I work for?", ["I work at Acme."]),
    ("Who is my employer?", ["I work at Acme."]),
    ("What do I do for a living?", ["I am a nurse.", "I work at Acme."]),
    ("what's my job", ["I work as a nurse."]),
    ("What is my name?", ["My name is Sam.", "我叫小林。"]),
    ("How old am I?", ["I am 34.", "我34岁。"]),
    ("Where does my sister live?", ["My sister moved to Porto."]),
    ("What does my wife do for a living?", ["My wife is a nurse."]),
    ("How old is my son?", ["My son is 4 years old."]),
    ("我住在哪里？", ["我上周搬到了杭州。", "I moved to York."]),
    ("我现在住哪个城市", ["我住在苏州。"]),
    ("我家在哪儿呀？", ["我住在苏州。"]),
    ("我在哪家公司上班？", ["我刚入职小米。", "I work at Acme."]),
    ("我是做什么工作的？", ["我是一名护士。", "我在腾讯上班。"]),
    ("我叫什么名字？", ["我叫小林。"]),
    ("我多大了？", ["我34岁。"]),
    ("我妹妹住在哪里？", ["我妹妹住在青岛。"]),
    ("我老婆在哪儿上班", ["我老婆在医院上班。"]),
]


@pytest.mark.parametrize(("question", "answers"), ANSWERED)
def test_a_question_asks_for_the_topic_of_its_answers(question: str, answers: list[str]) -> None:
    """In both languages, and about the user across them."""
    asked = asked_topics(question)

    assert asked
    for answer in answers:
        assert asked & {fact.topic for fact in facts_in(answer)}, answer


@pytest.mark.parametrize(
    "text",
    [
        "Where should I live?", "Where did I live in 2010?", "Where do I live and work?", "Where do I put the key?",
        "What is the name of my dentist?", "I live in York.", "Where does Anna live?", "What do I do now?",
        "Who am I meeting?", "我应该住在哪里？", "我以前住在哪里？", "钥匙放在哪里？", "我住在苏州。", "你住在哪里？", "小王在哪里上班？",
        "", "?", f"Where do I live? {'x' * 300}",
    ],
)  # fmt: skip
def test_other_questions_ask_for_none(text: str) -> None:
    """Other times, other persons and things, advice, and statements."""
    assert not asked_topics(text)


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("Where do I live?", "My sister lives in Porto."),
        ("Where does my sister live?", "I live in Porto."),
        ("What is my name?", "Our dog's name is Rex."),
        ("What is my name?", "The name of the app is Belanja."),
        ("我住在哪里？", "我妹妹住在青岛。"),
        ("我叫什么名字？", "我的狗叫旺财。"),
    ],
)
def test_what_is_stated_of_others_answers_no_question_about_the_user(question: str, statement: str) -> None:
    """Each person has topics of their own."""
    assert not asked_topics(question) & {fact.topic for fact in facts_in(statement)}
