"""Nothing is said twice, and nothing is left out for the sake of a line that is not shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memsvc.domain.context import OmissionReason, Section
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.scope import Scope
from memsvc.engine.services import Services
from tests.unit.engine.context.context_fixture import HERE, WHOLE, WORLD, events, remember, shown, summary

WEB = Scope("ada", "web")


@pytest.mark.parametrize(
    ("said", "again", "query"),
    [
        ("The otter swims in the river.", "the otter swims in the river", "otter river"),
        ("水獭在河里。", "水獭在河里", "水獭"),
    ],
)
def test_what_the_conversation_says_is_not_said_again(application: Services, said: str, again: str, query: str) -> None:
    """The message is shown, as often as it was said; what was captured of it is a duplicate."""
    messages = [
        remember(application, HERE, text, kind=Kind.MESSAGE, layer=Layer.SESSION) for text in (said, f"{said} ")
    ]
    captured = remember(application, WEB, again)

    happened = events(application, replace(WHOLE, text=query))

    assert shown(happened) == [message.id for message in messages]
    (left,) = summary(happened).left_out
    assert (left.section, left.reason, left.memory_ids) == (Section.LONG_TERM, OmissionReason.DUPLICATE, (captured.id,))


def test_a_duplicate_of_what_is_not_shown_is_shown(application: Services) -> None:
    """A message that has no room hides neither the memory that says the same, nor itself when a search finds it."""
    old = remember(application, HERE, "The otter swims in the river.", kind=Kind.MESSAGE)
    for number in range(30):
        remember(application, HERE, f"Something else, number {number}. " * 5, kind=Kind.MESSAGE)
    captured = remember(application, WEB, "the otter swims in the river", kind=Kind.KNOWLEDGE)

    happened = events(application, replace(WHOLE, total_tokens=1_500))

    assert old.id not in shown(happened, Section.SESSION)
    assert len({old.id, captured.id} & set(shown(happened, Section.LONG_TERM))) == 1


def test_of_two_rules_the_newer_is_shown(application: Services) -> None:
    """In the place of the more important one."""
    older = remember(application, WORLD, "Answer in short sentences.", layer=Layer.CORE, importance=5)
    middle = remember(application, WORLD, "Be polite.", layer=Layer.CORE, importance=4)
    newer = remember(application, WORLD, "answer in short sentences", layer=Layer.CORE, importance=3)

    happened = events(application, replace(WHOLE, text=""))

    assert shown(happened) == [newer.id, middle.id]
    (left,) = summary(happened).left_out
    assert (left.reason, left.memory_ids) == (OmissionReason.DUPLICATE, (older.id,))


def test_of_two_notes_the_newer_is_shown(application: Services) -> None:
    """Among what was changed in the last days."""
    older = remember(application, WEB, "部署完成。", layer=Layer.SHORT_TERM)
    newer = remember(application, WEB, "部署完成！", layer=Layer.SHORT_TERM)

    happened = events(application, replace(WHOLE, text=""))

    assert shown(happened) == [newer.id]
    assert summary(happened).left_out[0].memory_ids == (older.id,)
