"""Summaries made of a conversation's own sentences, in both languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from memsvc.text.chunking import count_tokens
from memsvc.text.extractive_summary import SummaryLine, summary_of
from memsvc.text.sentences import merge_sentences

Talk = Sequence[str]
SPEAKERS = ("user", "assistant")
TALKS: dict[str, tuple[Talk, tuple[str, ...]]] = {
    "offsite": ((
        "Hi there! How are you today?", "Hello! I'm doing great, thanks for asking. How can I help you today?",
        "I'm planning the offsite for my team. We are twelve people.",
        "That sounds like fun. An offsite is a great way for a team to come together. Do you have a place in mind?",
        "We decided on Porto, from 12 May to 15 May.",
        "Great choice! Porto is a lovely city with great food, great wine and great views over the river.",
        "Carlos is allergic to shellfish, so keep that in mind.",
        "Noted, I will keep that in mind when we look at restaurants.",
        "What is the weather like there?", "It is usually mild in May, around 20 degrees.",
        "Ok. The budget must not exceed 9000 euros.", "Understood. I'll keep it below that.",
        "Thanks, you are great!", "You're welcome! Let me know if there is anything else I can do for you.",
    ), ("12 May", "shellfish", "9000")),
    "service": ((
        "Can you look at the failing build?", "Sure, let me have a look at it. Could you paste the log?",
        "It says that the socket is in use.", "I see. That can have several reasons, and we should look at each of them.",
        "We run everything on port 7443 because the firewall blocks the others.",
        "That explains a lot. Thank you for the information, that is very helpful to know.",
        "I never want you to restart the production server by yourself.", "Of course, I will always ask you first.",
        "Why does it take so long?", "It may be that the cache is cold, but that is hard to say from here.",
        "Maria owns the deployment scripts, ask her before you change them.", "Will do.", "Fine.", "Good.",
    ), ("7443", "never want you to restart", "Maria")),
    "项目": ((
        "你好！", "你好！很高兴见到你，今天有什么可以帮你的吗？", "我想聊聊我们的新项目。",
        "好的，请告诉我更多关于这个项目的信息吧，我会尽力帮助你。",
        "数据库我们决定用 PostgreSQL，不用 MySQL，因为需要向量检索。",
        "明白了，这是一个很好的选择，PostgreSQL 确实很强大，很多公司都在用。",
        "上线时间定在三月十五号，王芳负责测试。", "好的，我记下了。", "你觉得怎么样？",
        "我觉得这个计划听起来不错，大家一起努力一定可以完成的。",
        "对了，我不喜欢用 Docker Compose 部署，以后都用 Kubernetes。", "没问题，之后我会按照这个来。",
        "谢谢你！", "不客气，随时找我。",
    ), ("PostgreSQL，不用", "三月十五号", "Kubernetes")),
    "生活": ((
        "早上好，今天天气真不错啊。", "是啊，天气很好，适合出门走走，心情也会变得更好。",
        "我女儿对花生过敏，订餐的时候要注意。", "好的，这一点非常重要，我会注意的。",
        "我们上个月从杭州搬到了成都。", "成都是个很舒服的城市，美食也很多，希望你们喜欢那里的生活。",
        "有什么好玩的地方吗？", "当然有，成都有很多好玩的地方，比如说公园和茶馆，都很值得去看一看。",
        "我每周二晚上要上游泳课，不要在那个时间安排会议。", "明白，我会避开那个时间。",
        "还有什么建议吗？", "暂时没有了，祝你今天过得愉快！", "好的。", "再见。",
    ), ("花生过敏", "搬到了成都", "周二")),
}  # fmt: skip
ROOM = 80


def lines(talk: Talk) -> list[SummaryLine]:
    """Return a conversation as it is summed up: what the user says weighs more."""
    return [SummaryLine(SPEAKERS[place % 2], text, (1.3, 1.0)[place % 2]) for place, text in enumerate(talk)]


def filled(sentences: Sequence[str]) -> str:
    """Return the first sentences that fit."""
    chosen: list[str] = []
    for sentence in sentences:
        if count_tokens("\n".join([*chosen, sentence])) <= ROOM:
            chosen.append(sentence)
    return "\n".join(chosen)


def facts_in(summarised: Callable[[Talk], str]) -> int:
    """Return how many marked facts summaries of the conversations hold."""
    return sum(fact in summarised(talk) for talk, facts in TALKS.values() for fact in facts)


def test_it_finds_the_facts_that_first_and_longest_sentences_miss() -> None:
    """Of twelve marked facts nearly all, and far more than plain ways find in the same room."""

    def first(talk: Talk) -> str:
        return filled([sentence for text in talk for sentence in merge_sentences(text)])

    def longest(talk: Talk) -> str:
        return filled(sorted((sentence for text in talk for sentence in merge_sentences(text)), key=len, reverse=True))

    def ours(talk: Talk) -> str:
        return summary_of(lines(talk), most_tokens=ROOM, count=count_tokens)

    found = {way.__name__: facts_in(way) for way in (first, longest, ours)}
    assert found["ours"] >= 10, found
    assert found["ours"] >= 1.5 * max(found["first"], found["longest"]), found


@pytest.mark.parametrize("room", [5, 12, 40, 80, 1_000])
@pytest.mark.parametrize("name", TALKS)
def test_it_keeps_to_its_room_and_order(name: str, room: int) -> None:
    """Whole sentences of the conversation, in its order; never blank."""
    talk = TALKS[name][0]
    text = summary_of(lines(talk), most_tokens=room, count=count_tokens)

    assert text.strip()
    assert count_tokens(text) <= room
    if room >= 40:
        whole = "\n".join(talk)
        places = [whole.index(line.partition(": ")[2]) for line in text.splitlines()]
        assert places == sorted(places)


def test_repetitions_and_code_are_left_out() -> None:
    """The same sentence is said once, and a block of code never."""
    talk = [SummaryLine("user", "We decided to use tabs.")] * 5 + [
        SummaryLine("tool", "Here:\n```\nsecret = 42\n```\n")
    ]
    text = summary_of(talk, most_tokens=100, count=count_tokens)

    assert "user: We decided to use tabs." == text


@pytest.mark.parametrize(
    "talk",
    [[], [SummaryLine("user", "")], [SummaryLine("user", "ok")], [SummaryLine("", "🦭")], [SummaryLine("u", "```x")]],
)
def test_a_conversation_of_nothing_has_a_summary_of_nothing_much(talk: list[SummaryLine]) -> None:
    """No error, and no more words than were said."""
    text = summary_of(talk, most_tokens=10, count=count_tokens)

    assert text in {"", *(line.text for line in talk)}
