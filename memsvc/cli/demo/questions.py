"""Questions of the demo, each with the line of the conversation that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memsvc.client.request_types import SearchMode

TOP = 5
"""An answer must be among so many first hits."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query, how to search, and the keys of the lines of which one must be found; *shows* says what is hard in it."""

    query: str
    mode: SearchMode
    answers: frozenset[str]
    shows: str


QUESTIONS = (
    Question(
        "What should I cook for a guest who eats no animals and no wheat?",
        "SEMANTIC",
        frozenset({"s08-01", "s08-02"}),
        "English, other words: a guest who eats no animals is a vegan",
    ),
    Question(
        "老爸做完手术以后腿好了吗？",
        "SEMANTIC",
        frozenset({"s10-02"}),
        "Chinese, other words: the answer speaks of bones and a walking stick",
    ),
    Question(
        "我不能吃哪种坚果？",
        "SEMANTIC",
        frozenset({"s16-11", "s16-13"}),
        "Chinese, other words: peanuts make the throat itch",
    ),
    Question(
        "Why was the server offline?",
        "SEMANTIC",
        frozenset({"s09-01"}),
        "English, other words: down, certificate expired",
    ),
    Question(
        "堂妹什么时候办婚礼？",
        "SEMANTIC",
        frozenset({"s21-08", "s21-10"}),
        "Chinese, other words: another word for cousin, another one for wedding",
    ),
    Question(
        "租房子要注意什么？",
        "SEMANTIC",
        frozenset({"s22-02"}),
        "Chinese, other words: the advice is about the deposit",
    ),
    Question("HRN-2231", "KEYWORD", frozenset({"s20-01"}), "a reference number, next to HRN-2207"),
    Question("WTU 318 K 9042 X", "KEYWORD", frozenset({"s04-15"}), "a frame number"),
    Question("蓝鲸快充", "KEYWORD", frozenset({"s06-07"}), "a Chinese name of a company"),
    Question("粤S·7K562", "KEYWORD", frozenset({"s19-15"}), "a number plate of letters, digits and Chinese"),
    Question(
        "What date does Daniel turn thirty-five?",
        "HYBRID",
        frozenset({"s08-13", "s08-14"}),
        "English: the age in one line, the date in the next",
    ),
    Question(
        "Yue 什么时候回成都？",
        "HYBRID",
        frozenset({"s16-07", "s19-06"}),
        "an English name in a Chinese question",
    ),
    Question(
        "同学聚会在哪一天，哪家餐馆？",
        "HYBRID",
        frozenset({"s06-11"}),
        "Chinese: a day and a place",
    ),
    Question(
        "Which programming language did we choose for the solver?",
        "HYBRID",
        frozenset({"s20-12", "s20-13", "s20-14", "s20-15"}),
        "English: a decision of May",
    ),
    Question(
        "李明现在做什么工作？",
        "HYBRID",
        frozenset({"s23-06", "s23-07"}),
        "Chinese: the answer names him only as the one who speaks",
    ),
    Question(
        "What is Tomas allergic to?",
        "HYBRID",
        frozenset({"s01-12", "s01-13", "s01-14"}),
        "English: the answer is spread over three lines",
    ),
    Question(
        "爸爸的字在哪里展览？",
        "HYBRID",
        frozenset({"s21-06"}),
        "Chinese: a day and a place, said by his wife",
    ),
)
