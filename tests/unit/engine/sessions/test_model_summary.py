"""Sessions summed up by a language model, over real HTTP; where it fails, sentences are taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import MessageState, NewMessage, OnOpen, Role, ToolCall
from memsvc.engine.services import Services
from memsvc.engine.sessions.service import MessagePage, NewSession
from memsvc.engine.sessions.trim import TrimRequest
from memsvc.settings import load_settings
from tests.support.http_stub import Endpoint, failed
from tests.support.openai_chat_stub import said, serving
from tests.support.sqlite_store import SQLITE

IN_MEMORY = {"backend": "in-memory"}
TALK = Scope("ada", project_id="apollo", session_id="s")
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
        sessions={"summary_tokens": 20, "flush_tokens": 0},
        redaction={"writes": True},
        **others,
    )
    with running(settings) as application:
        yield application


def spoken(application: Services, *texts: str) -> Memory:
    """Open a session, say the texts, trim all but the last round, and return the summary."""
    sessions = application.sessions
    sessions.lifecycle.create(TALK, NewSession(on_open=OnOpen.KEEP_OTHERS), "")
    messages = [NewMessage(role=Role.USER, content=text) for text in (*texts, "last")]
    sessions.appender.append(TALK, messages, "")
    trimmed = sessions.trimmer.trim(TALK, TrimRequest(target_tokens=0, keep_rounds=1)).value
    assert trimmed.archived_messages == len(texts)
    assert trimmed.summary is not None
    return trimmed.summary


def test_the_model_sums_up(application: Services, endpoint: Endpoint) -> None:
    """It reads who said what, without secrets; its words are the summary."""
    endpoint.replies.append(said("用户搬到了里斯本，用 Redis。"))

    summary = spoken(application, "我搬到了里斯本。", f"We use Redis, the key is {KEY}.")

    assert summary.content == "用户搬到了里斯本，用 Redis。"
    material = endpoint.asked[0]["messages"][1]["content"]
    assert material.splitlines() == ["user: 我搬到了里斯本。", "user: We use Redis, the key is [REDACTED:api-key]."]


def test_a_summary_that_is_too_long_is_cut(application: Services, endpoint: Endpoint) -> None:
    """To the tokens that it may take."""
    endpoint.replies.append(said("Lisbon and Redis. " * 50))

    summary = spoken(application, "I moved to Lisbon.")

    assert summary.content.startswith("Lisbon and Redis.")
    assert len(summary.content) < 150


def test_sentences_are_taken_when_the_model_fails(application: Services, endpoint: Endpoint) -> None:
    """Nothing is lost with the model."""
    endpoint.replies.append(failed(500))

    assert "I moved to Lisbon" in spoken(application, "I moved to Lisbon.").content


def test_tool_calls_hold_no_secrets(application: Services) -> None:
    """Where secrets are replaced in all that is written, they are in what tools are called with."""
    application.sessions.lifecycle.create(TALK, NewSession(on_open=OnOpen.KEEP_OTHERS), "")
    call = ToolCall(id="1", name="deploy", arguments={"with": [{"key": KEY}], "to": "Lisbon"})
    application.sessions.appender.append(TALK, [NewMessage(role=Role.ASSISTANT, content="", tool_calls=(call,))], "")

    page = MessagePage(frozenset({MessageState.ACTIVE}), after=None, limit=9)
    [message], _ = application.sessions.reader.messages(TALK, page)
    [stored] = message.record.tool_calls
    assert stored.arguments == {"with": [{"key": "[REDACTED:api-key]"}], "to": "Lisbon"}
    assert KEY not in message.memory.content
