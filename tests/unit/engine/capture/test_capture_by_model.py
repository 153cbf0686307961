"""A language model decides, over real HTTP; whatever goes wrong, the rules decide and the reply says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.capture import CaptureReason, CaptureResult, ChatMessage, Decider
from memsvc.domain.clock import Deadline
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import Role
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.capture.capture import CaptureLabels
from memsvc.engine.services import Services
from memsvc.settings import load_settings
from memsvc.text.recalled_text import citation
from tests.support.http_stub import Endpoint, Reply, failed
from tests.support.openai_chat_stub import said, serving
from tests.support.sqlite_store import SQLITE

IN_MEMORY = {"backend": "in-memory"}
ADA = Scope("ada", project_id="apollo")
KEY = "sk-a1B2c3D4e5F6g7H8i9J0"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as endpoint:
        yield endpoint


@pytest.fixture
def application(tmp_path: Path, endpoint: Endpoint) -> Iterator[Services]:
    others: dict[str, Any] = {"metadata": SQLITE} | dict.fromkeys(("vectors", "lexical", "embedder"), IN_MEMORY)
    options = {"base_url": endpoint.url, "model": "m", "retries": 0, "timeout_seconds": 20}
    settings = load_settings(
        data_dir=tmp_path / "data",
        indexing={"upkeep_seconds": 3600},
        language_model={"backend": "openai", "options": options},
        **others,
    )
    with running(settings) as application:
        yield application


def capture(application: Services, text: str, **more: Any) -> CaptureResult:
    deadline = more.pop("deadline", Deadline())
    role = more.pop("role", Role.USER)
    return application.capture.capture(
        ADA, ChatMessage(role, text), CaptureLabels(), is_dry_run=False, options=WriteOptions(**more), deadline=deadline
    )


def decision(index: int, **fields: Any) -> dict[str, Any]:
    return {
        "index": index, "remember": True, "reason": "PREFERENCE", "detail": "says so", "scope": "global",
        "layer": "CORE", "kind": "PREFERENCE", "category": "drinks", "importance": 4, "title": "Tea",
        "tags": ["tea"], "content": "The user prefers oolong tea.", **fields,
    }  # fmt: skip


def decided(*decisions: Any) -> Reply:
    return said(json.dumps({"decisions": list(decisions)}, ensure_ascii=False))


def statements(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the statements that the last question was about."""
    material: list[dict[str, Any]] = json.loads(endpoint.asked[-1]["messages"][1]["content"])["statements"]
    return material


def test_the_model_decides(application: Services, endpoint: Endpoint) -> None:
    """Its decision, words, scope, layer, kind, importance, title and tags are taken; what it leaves out the rules do."""
    endpoint.replies.append(decided(decision(0), decision(1, remember=False, reason="NOTHING")))

    captured = capture(application, "oolong, as ever! The cat sat there. I live in Lisbon.")

    assert (captured.decider, captured.notice) == (Decider.LANGUAGE_MODEL, "")
    assert [one.remember for one in captured.decisions] == [True, False, True]
    memory = captured.decisions[0].memory
    assert memory is not None
    assert (memory.content, memory.title, memory.category) == ("The user prefers oolong tea.", "Tea", "drinks")
    assert (memory.layer, memory.kind, memory.scope.project_id) == (Layer.CORE, Kind.PREFERENCE, "")
    assert statements(endpoint)[0]["text"] == "oolong, as ever!"


def test_the_model_sees_no_secret_and_nothing_recalled(application: Services, endpoint: Endpoint) -> None:
    """They are replaced and left out before it is asked; nor is it asked to forget."""
    endpoint.otherwise = lambda _: decided()
    recalled = f"{citation('0190163d-8694-739b-aea5-966c26f8ad91')} I like tea."

    capture(application, f"The key is {KEY}.\n{recalled}\nDon't remember this: I hate peas.")

    assert KEY not in json.dumps(endpoint.asked)
    assert [one["text"] for one in statements(endpoint)] == ["The key is [REDACTED:api-key]."]


def test_a_repeated_request_asks_nobody(application: Services, endpoint: Endpoint) -> None:
    """The answer is the first one, although the model would say something else now."""
    endpoint.replies.append(decided(decision(0)))
    first = capture(application, "oolong, as ever!", request_id="r")

    assert capture(application, "oolong, as ever!", request_id="r") == first
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        failed(500),
        failed(401),
        said("Sure! Here is what I think."),
        said(""),
        decided("x"),
        said('{"decisions": {}}'),
        decided(decision(7)),
        decided(decision(0, kind="WISDOM")),
        decided(decision(0, layer="SESSION", reason="KNOWN")),
        decided({"index": 0}),
        decided(decision(True)),
    ],
)
def test_when_the_model_fails_the_rules_decide(application: Services, endpoint: Endpoint, reply: Reply) -> None:
    """Unreachable, refusing, or talking nonsense: nothing is lost, and the reply says why the rules decided."""
    endpoint.otherwise = lambda _: reply

    captured = capture(application, "I prefer oolong tea.")

    assert captured.decider is Decider.RULES
    assert "rules" in captured.notice
    assert captured.decisions[0].reason is CaptureReason.PREFERENCE


def test_a_model_that_takes_too_long_is_not_waited_for(application: Services, endpoint: Endpoint) -> None:
    """The caller's deadline leaves time for the rules and the write."""
    endpoint.held.clear()

    captured = capture(application, "I prefer oolong tea.", deadline=Deadline.after(1.5))

    assert captured.decider is Decider.RULES
    assert captured.decisions[0].memory is not None


def test_odd_values_are_put_right(application: Services, endpoint: Endpoint) -> None:
    """Too long, too many, out of range: cut to what a memory may have."""
    endpoint.replies.append(
        decided(
            decision(0, importance=99, title="t" * 9_000, tags=["x" * 99, "", *"abcdefgh"], content="", category="c\0")
        )
    )

    memory = capture(application, "oolong, as ever!").decisions[0].memory

    assert memory is not None
    assert (memory.importance, len(memory.title), memory.content) == (3, 512, "oolong, as ever!")
    assert (memory.tags, memory.category) == (("x" * 64, "a", "b", "c", "d"), "c")


def test_an_agent_does_not_teach_itself_preferences(application: Services, endpoint: Endpoint) -> None:
    """Not even when the model would."""
    endpoint.replies.append(decided(decision(0)))

    assert not capture(application, "You prefer oolong tea.", role=Role.ASSISTANT).decisions[0].remember


def test_a_long_conversation_is_asked_about_in_parts(application: Services, endpoint: Endpoint) -> None:
    """Each part by itself; too many parts are the rules' affair."""
    endpoint.otherwise = lambda _: decided(decision(0))
    messages = [ChatMessage(Role.USER, f"Note {number}: the walrus {number} swims far.") for number in range(90)]

    flushed = application.conversation_flusher.flush(ADA, messages, (), options=WriteOptions(), deadline=Deadline())
    many = application.conversation_flusher.flush(ADA, messages * 8, (), options=WriteOptions(), deadline=Deadline())

    assert (flushed.decider, len(endpoint.asked)) == (Decider.LANGUAGE_MODEL, 3)
    assert (many.decider, "too long" in many.notice) == (Decider.RULES, True)
