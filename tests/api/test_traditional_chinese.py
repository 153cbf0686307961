"""What is written in traditional characters is found, captured, reminded of and compared like what is in simplified."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.text.analysis import simplified_form
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, TIMEOUT, create, found, search, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service with the fast embedder."""
    with served(tmp_path_factory.mktemp("traditional") / "data") as opened:
        yield opened


def capture(stubs: Stubs, scope: types_pb.Scope, text: str) -> memory_pb.CaptureDecision:
    """Return the decision about a statement of the user."""
    message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=text)
    request = memory_pb.CaptureMemoryRequest(scope=scope, message=message)
    [decision] = stubs.memory.CaptureMemory(request, timeout=TIMEOUT).decisions
    return decision


@pytest.mark.parametrize(("content", "query"), [("醫生說我對花生過敏。", "过敏"), ("医生说我对花生过敏。", "過敏")])
def test_words_of_one_form_find_the_other(stubs: Stubs, user: str, content: str, query: str) -> None:
    """The snippet marks the characters as they are written."""
    scope = types_pb.Scope(user_id=user)
    create(stubs, scope, content)
    create(stubs, scope, "服务器昨晚重启了。")

    [hit] = search(stubs, scope, query, mode=KEYWORD).hits
    assert hit.memory.content == content
    assert [hit.snippet[span.start : span.end] for span in hit.spans] == [content[7:9]]
    assert found(stubs, scope, keywords=[query], mode=KEYWORD) == [content]


@pytest.mark.parametrize(
    ("content", "query"),
    [("我對蝦過敏", "蝦"), ("我對蝦過敏", "虾"), ("我对虾过敏", "蝦"), ("我妈对奶不耐受", "奶")],
)
def test_what_an_allergy_is_to_finds_it(stubs: Stubs, user: str, content: str, query: str) -> None:
    """A single character, which the segmenter takes for a part of another word."""
    scope = types_pb.Scope(user_id=user)
    create(stubs, scope, content)
    create(stubs, scope, "我对象对花生过敏。")

    [hit] = search(stubs, scope, query, mode=KEYWORD).hits
    assert hit.memory.content == content
    assert simplified_form(query) in [simplified_form(hit.snippet[span.start : span.end]) for span in hit.spans]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("我對花生過敏", types_pb.MEMORY_KIND_FACT),
        ("我養了一隻貓叫咪咪", types_pb.MEMORY_KIND_FACT),
        ("以後都用繁體回我", types_pb.MEMORY_KIND_PREFERENCE),
    ],
)
def test_statements_are_captured(stubs: Stubs, user: str, text: str, kind: types_pb.MemoryKind.ValueType) -> None:
    """As they are written, the title too."""
    decision = capture(stubs, types_pb.Scope(user_id=user), text)

    assert decision.remember
    assert (decision.memory.content, decision.memory.title, decision.memory.kind) == (text, text, kind)


def test_small_talk_is_not_captured(stubs: Stubs, user: str) -> None:
    """As in simplified characters."""
    for text in ("謝謝你", "這個怎麼弄？", "好累喔"):
        assert not capture(stubs, types_pb.Scope(user_id=user), text).remember


def test_a_day_is_reminded_of(stubs: Stubs, user: str) -> None:
    """The phrase is that of the text."""
    scope = types_pb.Scope(user_id=user)
    said = Timestamp()
    said.FromJsonString("2026-12-02T13:20:00Z")
    memory = create(stubs, scope, "下週一早上十點要去區公所辦戶籍", event_time=said)

    due = memory.reminder.date
    assert (due.year, due.month, due.day) == (2026, 12, 7)
    assert memory.reminder.phrase == memory.content


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("我在聯發科上班", "我現在在台積電上班"),
        ("我住在高雄", "我搬到台南了"),
        ("我在联发科上班", "我現在在台積電上班"),
    ],
)
def test_what_became_untrue_is_a_conflict(stubs: Stubs, user: str, older: str, newer: str) -> None:
    """Within the form and across the two."""
    scope = types_pb.Scope(user_id=user)
    memory = create(stubs, scope, older)

    [conflict] = write(stubs, scope, newer).conflicts
    assert conflict.older_memory_id == memory.id
