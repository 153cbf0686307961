"""The conversation that the demo imports, and what it asks about it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from memsvc.cli.demo.questions import QUESTIONS
from memsvc.cli.demo.run import LEAST_MEMORIES, demo_conversation

CHINESE = re.compile(r"[一-鿿]")
ENGLISH = re.compile(r"[A-Za-z]{3,}")


def test_conversation_is_long_enough_and_never_repeats_itself() -> None:
    """There is enough to search in, and every line is its own."""
    lines = demo_conversation()

    assert len(lines) >= LEAST_MEMORIES
    assert len({line.content for line in lines}) == len(lines)
    assert len({line.key for line in lines}) == len(lines)


def test_conversation_is_in_two_languages() -> None:
    """Each language has a good share, and some lines mix them."""
    texts = [line.content for line in demo_conversation()]

    assert sum(1 for text in texts if CHINESE.search(text)) >= 100
    assert sum(1 for text in texts if not CHINESE.search(text)) >= 100
    assert sum(1 for text in texts if CHINESE.search(text) and ENGLISH.search(text)) >= 5


def test_every_line_says_who_when_and_where() -> None:
    """Sessions have two speakers or more, and time goes forward in them."""
    lines = demo_conversation()
    sessions = Counter(line.scope.session_id for line in lines)

    assert len(sessions) >= 20
    for session in sessions:
        own = [line for line in lines if line.scope.session_id == session]
        assert len({line.speaker for line in own}) >= 2
        assert all(line.key.startswith(f"{session}-") for line in own)
        assert all(a.event_time.seconds < b.event_time.seconds for a, b in pairwise(own))


def test_questions_have_answers_in_the_conversation() -> None:
    """What is asked can be found, in both languages and in every mode."""
    keys = {line.key for line in demo_conversation()}

    assert all(question.answers and question.answers <= keys for question in QUESTIONS)
    assert {question.mode for question in QUESTIONS} == {"SEMANTIC", "KEYWORD", "HYBRID"}
    for mode in ("SEMANTIC", "KEYWORD", "HYBRID"):
        asked = [question.query for question in QUESTIONS if question.mode == mode]
        assert any(CHINESE.search(query) for query in asked)
        assert any(not CHINESE.search(query) for query in asked)


def test_meaning_is_asked_for_in_other_words() -> None:
    """A semantic question shares no rare word with its answer, so that words alone would not find it."""
    texts = {line.key: line.content for line in demo_conversation()}
    counts = Counter(word for text in texts.values() for word in set(ENGLISH.findall(text.lower())))

    for question in QUESTIONS:
        if question.mode == "SEMANTIC":
            asked = set(ENGLISH.findall(question.query.lower()))
            told = {word for key in question.answers for word in ENGLISH.findall(texts[key].lower())}
            assert {word for word in asked & told if counts[word] < 5} <= {"cook", "server"}
