"""What is trimmed away leaves its secrets behind: everybody in the project may read the summary."""

from __future__ import annotations

import pytest

from memsvc.domain.scope import Scope
from memsvc.domain.sessions import NewMessage, OnOpen, Role
from memsvc.engine.services import Services
from memsvc.engine.sessions.service import NewSession
from memsvc.engine.sessions.trim import TrimRequest

TALK = Scope("ada", project_id="apollo", session_id="s")
KEY = "sk-a1B2c3D4e5F6g7H8i9J0"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"The deployment of the billing service uses the key {KEY} since Monday.", KEY),
        ("部署账单服务时请使用这个密码，root密码是Abc12345!，周一起生效。", "Abc12345!"),
    ],
)
def test_a_summary_holds_no_secret(application: Services, text: str, secret: str) -> None:
    """Neither its text nor its title; the message keeps what was said."""
    sessions = application.sessions
    sessions.lifecycle.create(TALK, NewSession(title=text, on_open=OnOpen.KEEP_OTHERS), "")
    messages = [NewMessage(role=Role.USER, content=content) for content in (text, "last")]
    sessions.appender.append(TALK, messages, "")

    summary = sessions.trimmer.trim(TALK, TrimRequest(target_tokens=0, keep_rounds=1)).value.summary

    assert summary is not None
    assert "[REDACTED:" in summary.content
    assert secret not in summary.content + summary.title
