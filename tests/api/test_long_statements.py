"""Statements about very long words, with the longest names of users and projects, on SQLite and PostgreSQL."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from memsvc.text.facts import MAX_TOPIC_BYTES, facts_in
from memsvc.v1 import types_pb2 as types_pb
from tests.support.postgres_server import schema
from tests.support.rpc import create, list_all, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sqlite_store import SQLITE

_LETTERS = [
    letter
    for letter in map(chr, range(0x10000, 0x1F000))
    if letter.isalpha() and letter.lower() == letter and unicodedata.is_normalized("NFKC", letter)
]
"""Letters of four bytes in UTF-8, of so many scripts that PostgreSQL cannot compress a text of them."""
_HAN = [chr(code) for code in range(0x20000, 0x2A6D0)]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stubs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server on one of the databases."""
    with ExitStack() as stack:
        metadata = SQLITE
        if request.param == "postgres":
            metadata = {"backend": "sql", "options": {"url": stack.enter_context(schema())}}
        yield stack.enter_context(served(tmp_path_factory.mktemp("long") / "data", metadata=metadata))


def test_a_statement_about_a_very_long_word_is_stored(stubs: Stubs) -> None:
    """Its topic would not fit into an index; a shorter one that fits is compared with what contradicts it."""
    chance = random.Random(7)

    def word(length: int, letters: list[str]) -> str:
        return "".join(chance.choice(letters) for _ in range(length))

    scope = types_pb.Scope(user_id=word(128, _HAN), project_id=word(128, _HAN))
    speaker, long, fitting = word(128, _HAN), word(370, _LETTERS), word(115, _LETTERS)
    told = [f"I like {long}.", f"I like {fitting}."]
    [fact] = facts_in(told[1], speaker=speaker)
    assert MAX_TOPIC_BYTES - 40 < len(fact.topic.encode()) <= MAX_TOPIC_BYTES
    for text in told:
        create(stubs, scope, text, speaker=speaker)
    reply = write(stubs, scope, types_pb.Memory(content=f"I hate {fitting}.", speaker=speaker))

    assert [conflict.topic for conflict in reply.conflicts] == [fact.topic]
    assert {memory.content for memory in list_all(stubs, scope)} >= {told[0], reply.memory.content}


def test_half_a_letter_of_json_fails_no_reading_of_statements() -> None:
    """As a text of a language model may hold it; no message of gRPC does."""
    assert [fact.topic for fact in facts_in("我的\ud83d是蓝的")] != []
